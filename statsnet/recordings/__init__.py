"""Recordings of other tools → signatures."""
