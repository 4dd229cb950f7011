"""Layers of signatures, mixes and proxies as input for other programs: simulators, compilers, runtimes.

Everything is made from one manifest (manifest.py); a format is one file, listed in registry.py.
"""
