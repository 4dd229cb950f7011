from networks import count_blocks, load, one_thread, small_blocks, write_source  # noqa: F401 (fixtures)
