"""Recordings that others made: profiler traces of any device, read into signatures."""
