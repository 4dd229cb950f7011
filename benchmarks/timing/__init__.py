"""What synthesis_time.py consists of: cases, whose code is timed, a command that is watched, the table."""
