"""An error taken apart: its parts add up to it."""

from __future__ import annotations

import pytest

from benchmarks.diagnostics.error_by_kernel import _print, merge_times


def test_shares_and_own_factors_add_up_to_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    """The suite's factor is 1.6, the proxy's 2.0: for its shares alone it would be 1.5."""
    suite = merge_times([{"a": (1.0, 2.0)}, {"b": (1.0, 1.0)}], [0.6, 0.4])
    _print(suite, {"a": (0.5, 1.5), "c": (0.5, 0.5)})
    title, _, *rows, total = capsys.readouterr().out.splitlines()
    assert title == "suite 1.600, proxy 2.000, error +25.0%"
    assert [row.split()[0] for row in rows] == ["c", "b", "a"]
    assert total.split()[-2:] == ["-0.100", "+0.500"]
