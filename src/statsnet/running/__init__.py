"""Running workloads and proxies: timing, fresh processes, settings, comparison of results."""
