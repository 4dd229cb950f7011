"""One thread: tiny operators on a shared machine would spend their time in OpenMP barriers."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("torch") is not None:
    from one_thread import one_thread  # noqa: F401 (a fixture)
