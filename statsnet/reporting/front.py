"""A picture of a search: how near each design came, against how long its step takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from statsnet.errors import FileFormatError
from statsnet.reporting.pictures import figure
from statsnet.signatures.canonical import read_json
from statsnet.signatures.conversion import typed
from statsnet.signatures.kinds import KINDS
from statsnet.signatures.limits import MOST_ROWS, Finite, PositiveSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedDesign:
    """One design: its step time in seconds, and the measured objective of its fit."""

    number: int
    step_latency_s: PositiveSeconds
    error: Finite


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRecord:
    """What reports show of search.json (docs/formats.md); `front`, `chosen` and `usual` are numbers of designs."""

    budget_s: PositiveSeconds
    tried: Annotated[tuple[TriedDesign, ...], MOST_ROWS]
    front: Annotated[tuple[int, ...], Meta(min_length=1), MOST_ROWS]
    chosen: int
    usual: int | None

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> SearchRecord:
        """Raises ValueError for data that is no record of a search."""
        record: SearchRecord = typed(data, cls)
        numbers = {design.number for design in record.tried}
        if not numbers.issuperset({*record.front, record.chosen, *([] if record.usual is None else [record.usual])}):
            raise ValueError("a design is named that was not tried")
        return record


def load_search(path: Path) -> SearchRecord:
    """Reads search.json. Raises FileFormatError if it is damaged."""
    try:
        return SearchRecord.of(read_json(path, max_bytes=KINDS["statsnet.fit"].max_bytes))
    except ValueError as error:
        raise FileFormatError(
            f"'{path}' is damaged", cause=str(error), hint="synthesize the proxy again, or remove the file"
        ) from error


def front_svg(search: SearchRecord) -> str:
    """SVG of a search. The same record gives the same bytes. Raises ImportError where matplotlib is not installed."""
    tried = {design.number: (1e3 * design.step_latency_s, design.error) for design in search.tried}
    front = sorted(tried[number] for number in search.front)
    with figure(6.4, 4.0) as (made, text):
        axes = made.add_subplot()
        times, errors = zip(*tried.values(), strict=True)
        axes.scatter(times, errors, s=18, color="0.6", label="tried", zorder=2)
        axes.step(*zip(*front, strict=True), where="post", color="tab:blue", label="Pareto front", zorder=3)
        for name, number, marker in (("usual", search.usual, "s"), ("chosen", search.chosen, "*")):
            if number is not None:
                x, y = tried[number]
                axes.scatter([x], [y], s=90, marker=marker, label=name, zorder=4)
        axes.axvline(1e3 * search.budget_s, color="0.3", linestyle=":", label="budget", zorder=1)
        axes.set_xlabel("step time, ms")
        axes.set_ylabel("measured error of the fit (weighted L1)")
        axes.set_ylim(0.0, 1.1 * max(errors))
        axes.legend(frameon=False)
    return text.getvalue()
