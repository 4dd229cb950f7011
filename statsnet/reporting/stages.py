"""Where the time of a long command went, as a table."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from statsnet.reporting.tables import percent, table

SHOWN_FROM_S = 0.5


def stages_table(spent_s: Mapping[str, float], total_s: float, waited_s: float = 0.0) -> Table:
    """Each stage that took any time, in order; of the whole, `waited_s` was spent on waiting for a quiet machine."""
    rows = [*spent_s.items(), ("everything else", total_s - sum(spent_s.values()))]
    shown = [(name, time_s) for name, time_s in rows if time_s >= SHOWN_FROM_S]
    shown.append(("in all", total_s))
    if waited_s >= SHOWN_FROM_S:
        shown.append(("of that, waiting for a quiet machine", waited_s))
    share = 1 / total_s if total_s > 0 else 0.0
    cells = [(name, _clock_time(time_s), percent(time_s * share)) for name, time_s in shown]
    return table("Where the time went", ("stage", "time", "share"), cells)


def _clock_time(seconds: float) -> str:
    """`45 s`, `3 min 5 s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
