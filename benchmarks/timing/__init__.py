"""What synthesis_time.py consists of: cases, a command that is watched, the table."""
