"""Tables and the forms of figures that all reports share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from statsnet.errors import shown
from statsnet.signatures.intervals import Interval
from statsnet.units import plural

Report = list[RenderableType]
"""What a command prints, from top to bottom."""

MISSING = "–"


def table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, left: int = 1, verdict: bool = False
) -> Table:
    """A table whose first `left` columns hold words (aligned left) and the others figures (right). With a `verdict`,
    the last one holds words too."""
    made = Table(title=shown(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    made.show_edge = False
    for number, column in enumerate(columns):
        is_left = number < left or (verdict and number == len(columns) - 1)
        made.add_column(shown(column), justify="left" if is_left else "right", overflow="fold")
    for row in rows:
        made.add_row(*(Text(shown(cell)) for cell in row))
    return made


def pairs(title: str, rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values side by side, without a head."""
    made = Table(
        title=shown(title), title_justify="left", title_style="bold", box=None, show_header=False, pad_edge=False
    )
    made.add_column(justify="left", no_wrap=True)
    made.add_column(justify="left", overflow="fold")
    for name, value in rows:
        made.add_row(Text(shown(name)), Text(shown(value)))
    return made


def line(text: str) -> Text:
    return Text(shown(text))


def notes(title: str, texts: Iterable[str]) -> Report:
    """A heading and a line for each text; nothing where there is none."""
    lines = list(texts)
    return [line("\n".join([title, *(f"  {text}" for text in lines)]))] if lines else []


def percent(share: float | None) -> str:
    return MISSING if share is None else f"{share:.1%}"


def signed_percent(share: float | None) -> str:
    return MISSING if share is None else f"{share:+.1%}"


def points(share: float | None) -> str:
    """A difference of two shares: 0.012 -> `1.2 points`."""
    return MISSING if share is None else f"{100 * share:.1f} points"


def signed_points(difference: float | None) -> str:
    return MISSING if difference is None else f"{100 * difference:+.1f} points"


def times(value: float | None) -> str:
    return MISSING if value is None else f"{value:.3g}×"


def bounds(interval: Interval | None) -> str:
    if interval is None or interval.low is None or interval.high is None:
        return MISSING
    return f"{interval.low:.3g} to {interval.high:.3g}"


def environment_line(environment: Mapping[str, Any]) -> str:
    """`AMD EPYC 9R14, 2 threads, torch 2.13.0+cpu, MKL_CBWR=COMPATIBLE`."""
    parts = [str(environment.get("device_name") or environment.get("device") or "unknown device")]
    if environment.get("threads"):
        parts.append(plural(environment["threads"], "thread"))
    if environment.get("torch"):
        parts.append(f"torch {environment['torch']}")
    parts += [f"{key}={value}" for key, value in sorted((environment.get("settings") or {}).items())]
    return ", ".join(parts)


SHOWN_FROM_S = 0.5


def stages_table(spent_s: Mapping[str, float], total_s: float, waited_s: float) -> Table:
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
