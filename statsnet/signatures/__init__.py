"""Signatures, mixes and targets: reading, checking and arithmetic. Nothing here needs torch."""
