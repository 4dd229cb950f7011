"""A proxy as data and as source: towers of blocks, the network's text, the folder on disk."""
