from networks import count_blocks, load, small_blocks, write_source  # noqa: F401 (fixtures)
from one_thread import one_thread  # noqa: F401 (a fixture)
