"""What synthesis_time.py consists of: cases, and the table."""
