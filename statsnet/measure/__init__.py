"""The one way to measure: a task in a process of its own, side by side with others, on a quiet machine. Knows no stage."""
