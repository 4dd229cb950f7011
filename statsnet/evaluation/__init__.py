"""Proxy to result: run it, compare results, validate it against its suite."""
