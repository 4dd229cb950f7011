"""From a target to a proxy: candidates, their measurement, the integer program, the network, its correction."""
