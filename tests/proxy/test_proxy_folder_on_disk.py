"""A proxy's folder appears whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from statsnet.errors import StatsNetError
from statsnet.proxy.spec import _whole_folder


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("failure", [full_disk(), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_what_was_there(tmp_path: Path, failure: BaseException) -> None:
    folder = tmp_path / "proxy"
    folder.mkdir()
    (folder / "network.py").write_text("before")
    expected = StatsNetError if isinstance(failure, OSError) else KeyboardInterrupt

    def write() -> None:
        with _whole_folder(folder) as partial:
            (partial / "network.py").write_text("after")
            raise failure

    with pytest.raises(expected) as raised:
        write()
    if isinstance(failure, OSError):
        error = raised.value
        assert "could not be written" in error.message
        assert "No space" in error.cause
        assert "free some space" in error.hint
    assert [p.name for p in tmp_path.iterdir()] == ["proxy"]
    assert (folder / "network.py").read_text() == "before"
