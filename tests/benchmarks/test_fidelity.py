"""A fidelity run that is taken up again."""

from __future__ import annotations

from pathlib import Path

from fidelity import _first_run_ns


def test_it_began_when_it_was_first_started(tmp_path: Path) -> None:
    """What was measured since then is still fresh."""
    first = _first_run_ns(tmp_path)
    assert _first_run_ns(tmp_path) == first
    assert first > 0
