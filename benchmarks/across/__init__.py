"""Suites, contestants and figures of `across_gpus.py`."""
