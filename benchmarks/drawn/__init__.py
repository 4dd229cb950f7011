"""What benchmarks/unseen.py draws: workloads that no table knows, written as files of factories; and the classes of
libraries, which benchmarks/breadth.py takes at small sizes."""
