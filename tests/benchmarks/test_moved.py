"""The table of proxies that were made on another machine."""

from __future__ import annotations

from moved import table


def test_one_line_a_proxy() -> None:
    interval = {"value": 2.0, "low": 1.9, "high": 2.1}
    row = {
        "proxy": "p",
        "suite_factor": interval,
        "proxy_factor": {"value": 2.2, "low": None, "high": None},
        "error": {"value": 0.1, "low": 0.05, "high": 0.15},
        "members": [{"value": 1.5}, {"value": 3.0}],
    }
    last = table([row]).splitlines()[-1]
    assert last == "| p | 2.00 | 2.20 | **+10.0 %** ± 4.5 | 1.50 to 3.00 |"
    row["error"] = {"value": 0.1, "low": None, "high": None}
    assert "±" not in table([row])
