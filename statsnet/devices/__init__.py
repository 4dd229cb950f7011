"""Devices that are not at hand: what was recorded of them, and times from that record."""
