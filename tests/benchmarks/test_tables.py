"""Tables of a fidelity run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import tables
from tables import factors, merged, summary


def row(mix: str, method: str, off: float, **more: Any) -> dict[str, Any]:
    usual = {
        "mix": mix, "mode": "inference", "method": method, "setting": "threads=1", "wanted_compression": 100.0,
        "suite_factor": {"value": 2.0}, "factor": {"value": 2.0 * (1 + off)},
        "error": {"value": off, "low": None, "high": None}, "suite_noise": None, "least_error": abs(off),
    }  # fmt: skip
    return {**usual, **more}


def test_a_line_for_each_mix() -> None:
    known = {"value": -0.05, "low": -0.06, "high": -0.04}
    lines = factors([row("a", "m", -0.05, error=known, suite_noise=0.004), row("b", "m", 0.1, setting="x")])
    assert lines[0] == "| | threads=1 | x |"
    assert lines[2:] == [
        "| a inference | 2.00, 1.90: **−5.0 %** ± 1.1 (0.4) | – |",
        "| b inference | – | 2.00, 2.20: **+10.0 %** |",
    ]


def test_methods_are_compared_on_the_mixes_that_all_stand_for() -> None:
    rows = [row("a", "ours", 0.02), row("b", "ours", -0.2), row("a", "other", 0.5, least_error=0.0)]
    all_of_ours, ours, other = summary(rows)[2:]
    assert "| 2 | 11.0 % |" in all_of_ours
    assert "| 20.0 % | 1 (of 3%) | 1 (of 10%) |" in all_of_ours
    assert "a: ours | 1 | 2.0 % | 2.0 % | 2.0 % | 2.0 % | 1 (of 3%)" in ours
    assert "a: other | 1 | 50.0 %" in other
    assert other.endswith("| 1 (of 3%) | 1 (of 10%) |")


def test_a_later_run_replaces_what_it_measured_again() -> None:
    first = [row("a", "ours", 0.1), row("b", "ours", 0.2), row("a", "ours", 0.3, setting="x")]
    again = [row("a", "ours", 0.01)]
    rows = [(r["mix"], r["setting"], r["error"]["value"]) for r in merged([first, again])]
    assert rows == [("a", "threads=1", 0.01), ("b", "threads=1", 0.2), ("a", "x", 0.3)]


def test_each_compression_has_lines_and_bars_of_its_own() -> None:
    rows = [row("a", "ours", 0.05), row("a", "ours", 0.06, wanted_compression=20.0)]
    assert [line.split("|")[1].strip() for line in factors(rows)[2:]] == [
        "a inference at 100",
        "a inference at 20",
    ]
    at_100, at_20 = summary(rows)[2:]
    assert at_100.startswith("| inference at 100, ours | 1 | 5.0 %") and at_100.endswith("| 0 (of 3%) | 1 (of 10%) |")
    assert at_20.startswith("| inference at 20, ours | 1 | 6.0 %") and at_20.endswith("| 0 (of 2%) | 1 (of 7%) |")


def printed(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, tables.__file__, *arguments], capture_output=True, text=True, check=False)


def test_a_newer_proxy_beside_other_ways_on_some_mixes_and_settings(tmp_path: Path) -> None:
    before, now = tmp_path / "before.json", tmp_path / "now.json"
    before.write_text(json.dumps({"rows": [row("a", "ours", 0.2), row("a", "other", 0.3)]}))
    now.write_text(
        json.dumps({"rows": [row("a", "ours", 0.1), row("b", "ours", 0.9), row("a", "ours", 0.9, setting="x")]})
    )
    table = printed(str(before), str(now), "--mixes", "a", "--settings", "threads=1,onednn=sse41").stdout
    assert "| inference, a: ours | 1 | 10.0 %" in table
    assert "| inference, a: other | 1 | 30.0 %" in table
    assert "90.0" not in table


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps({"rows": [row("a", "ours", 0.2)]}))
    missing, nothing = printed(str(tmp_path / "none.json")), printed(str(kept), "--mixes", "b")
    assert missing.returncode == nothing.returncode == 2
    assert missing.stderr.strip().endswith(f"there is no file {tmp_path / 'none.json'}")
    assert nothing.stderr.strip().endswith("the files hold nothing of these mixes and settings")
