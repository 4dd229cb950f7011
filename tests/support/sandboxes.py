"""Tests that need a real sandbox."""

from __future__ import annotations

import pytest

from statsnet.errors import StatsNetError
from statsnet.measure import sandbox


def _can_be_made() -> bool:
    try:
        sandbox.check()
    except StatsNetError:
        return False
    return True


needs_sandbox = pytest.mark.skipif(
    not _can_be_made(), reason="no sandbox can be made here: bubblewrap is missing or not allowed"
)
