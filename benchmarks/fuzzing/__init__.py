"""Changed files for every reader, and the limits within which it must refuse or read them (benchmarks/fuzz.py). That
program starts by_coverage.py for inputs that libFuzzer chooses."""
