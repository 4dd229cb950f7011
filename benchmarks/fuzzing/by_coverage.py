"""benchmarks/fuzz.py with every branch of StatsNet counted, also in modules that are imported late. So it is a program
of its own, which imports nothing of StatsNet before."""

from __future__ import annotations

import sys

import atheris

if __name__ == "__main__":
    with atheris.instrument_imports(include=["statsnet"]):
        from benchmarks import fuzz

        sys.exit(fuzz.main())
