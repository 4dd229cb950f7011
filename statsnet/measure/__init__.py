"""The one way to measure: a task in a fresh process, side by side with others, on a quiet machine. Knows no stage."""
