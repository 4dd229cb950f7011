"""Rows of fidelity runs as tables in Markdown.

    python benchmarks/tables.py FILE ... [--mixes MIX ...] [--settings threads=1,...]

A FILE is a benchmarks/results/<environment>/fidelity*.json. Where several files hold the same mix, method and setting,
the last one counts: so a newer proxy stands beside other ways that were measured before.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]

BARS = {20.0: (0.02, 0.07), 100.0: (0.03, 0.10)}
"""Compression -> the goals for the error's median and 95th percentile; for more compression, the last."""


def merged(reports: Iterable[Sequence[Row]]) -> list[Row]:
    """Rows of several runs, each mix, method and setting once: as the last run has it."""
    what = ("mix", "mode", "wanted_compression", "method", "state", "setting")
    latest = {tuple(row.get(name) for name in what): row for rows in reports for row in rows}
    return list(latest.values())


def factors(rows: Sequence[Row]) -> list[str]:
    """One line for each mix (and compression, if there are several), one column for each setting: the suite's factor,
    its stand-in's factor, the error ± half its 95 % interval, and in brackets by how many percent the suite's own
    factor differed between odd and even rounds."""
    settings = list(dict.fromkeys(row["setting"] for row in rows))
    at = _compressions_named(rows)
    lines = ["| | " + " | ".join(settings) + " |", "|---|" + "---|" * len(settings)]
    for name in dict.fromkeys(_name(row, at) for row in rows):
        cells = {row["setting"]: _cell(row) for row in rows if _name(row, at) == name}
        lines.append(f"| {name} | " + " | ".join(cells.get(s, "–") for s in settings) + " |")
    return lines


def _name(row: Row, at: dict[float, str]) -> str:
    return f"{row['mix']} {row['mode']}{at[row['wanted_compression']]}"


def _compressions_named(rows: Sequence[Row]) -> dict[float, str]:
    """What the lines of each compression are marked with: nothing, if there is only one."""
    compressions = sorted({row["wanted_compression"] for row in rows})
    return {c: f" at {c:g}" if len(compressions) > 1 else "" for c in compressions}


def _cell(row: Row) -> str:
    suite, stand_in, error = row["suite_factor"]["value"], row["factor"]["value"], row["error"]
    text = f"{suite:.2f}, {stand_in:.2f}: **{_signed(error['value'])}**"
    text += spread(error)
    if row["suite_noise"] is not None:
        text += f" ({100 * row['suite_noise']:.1f})"
    shares = row.get("generated_share") or [None]
    if None not in shares:
        text += f"; generated {shares[0]:.0%}, {shares[1]:.0%}"
    return text


def spread(error: Row) -> str:
    """Half of an error's 95 % interval in percent; empty where it is not known."""
    if error["low"] is None:
        return ""
    return f" ± {50 * math.log((1 + error['high']) / (1 + error['low'])):.1f}"


def summary(rows: Sequence[Row]) -> list[str]:
    """For each mode and compression, a line for the proxy over all its mixes. Then, for each set of mixes that other
    methods were measured on, a line for the proxy and one for each of these methods."""
    lines = [
        "| | errors | median | 95th percentile | mean | worst | reach the median's bar | reach the other |",
        "|---|---|---|---|---|---|---|---|",
    ]
    at = _compressions_named(rows)
    for mode, compression in dict.fromkeys((row["mode"], row["wanted_compression"]) for row in rows):
        by_method: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            if (row["mode"], row["wanted_compression"]) == (mode, compression):
                by_method[row["method"]].append(row)
        ours, *others = by_method.items()
        lines.append(_summary(f"{mode}{at[compression]}, {ours[0]}", ours[1]))
        for mixes in dict.fromkeys(tuple(sorted({r["mix"] for r in theirs})) for _, theirs in others):
            same = [other for other in others if {r["mix"] for r in other[1]} == {*mixes}]
            for method, theirs in (ours, *same):
                there = [row for row in theirs if row["mix"] in mixes]
                name = f"{mode}{at[compression]}, {' and '.join(mixes)}: {method}"
                lines.append(_summary(name, there))
    return lines


def _summary(name: str, rows: Sequence[Row]) -> str:
    errors = np.array([abs(row["error"]["value"]) for row in rows])
    wanted = rows[0]["wanted_compression"]
    bars = next((bar for compression, bar in BARS.items() if compression >= wanted), BARS[max(BARS)])
    met = [sum(row["least_error"] <= bar for row in rows) for bar in bars]
    kinds = (np.median(errors), np.percentile(errors, 95), errors.mean(), errors.max())
    figures = [f"{100 * x:.1f} %" for x in kinds]
    reached = [f"{n} (of {bar:.0%})" for n, bar in zip(met, bars, strict=True)]
    return "| " + " | ".join([name, str(len(rows)), *figures, *reached]) + " |"


def document(rows: Sequence[Row]) -> str:
    """Factors method by method, then the summary; rows that name another state of the method stand apart."""
    parts = []
    for state in dict.fromkeys(row.get("state", "") for row in rows):
        here = [row for row in rows if row.get("state", "") == state]
        for method in dict.fromkeys(row["method"] for row in here):
            title = f"{method}, {state}" if state else method
            parts += [title, "", *factors([row for row in here if row["method"] == method]), ""]
        parts += [*summary(here), ""]
    return "\n".join(parts)


def _signed(value: float) -> str:
    return f"{100 * value:+.1f} %".replace("-", "−")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--mixes", nargs="+", help="these alone, spelled as the files have them (default: all)")
    parser.add_argument("--settings", type=lambda text: text.split(","), help="these alone (default: all)")
    options = parser.parse_args()
    if missing := [str(path) for path in options.files if not path.is_file()]:
        parser.error(f"there is no file {missing[0]}")
    rows = merged(json.loads(path.read_text(encoding="utf-8"))["rows"] for path in options.files)
    for name, wanted in (("mix", options.mixes), ("setting", options.settings)):
        rows = [row for row in rows if wanted is None or row[name] in wanted]
    if not rows:
        parser.error("the files hold nothing of these mixes and settings")
    print(document(rows))


if __name__ == "__main__":
    main()
