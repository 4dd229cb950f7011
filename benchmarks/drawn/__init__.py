"""What benchmarks/unseen.py draws: workloads that no table knows, written as files of factories."""
