from networks import count_blocks, load, small_blocks, write_source  # noqa: F401 (fixtures)
