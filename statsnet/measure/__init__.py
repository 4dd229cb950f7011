"""The one way to measure: a task in its own process, side by side with others, on a quiet machine. Knows no stage."""
