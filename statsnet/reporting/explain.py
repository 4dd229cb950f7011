"""Where a proxy's error comes from, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from statsnet.evaluation.explained import Explained, ExplainedBlock, ExplainedClass, ExplainedSetting
from statsnet.reporting.tables import (
    Report,
    environment_line,
    notes,
    pairs,
    percent,
    points,
    signed_percent,
    table,
    times,
)
from statsnet.reporting.validation import error_interval, factor_text

SHOWN = 12
"""Most rows of a table; what is left of the classes is summed up."""

SMALL = 1e-3
"""A block that adds less to the error is left out."""


def explained_report(found: Explained) -> Report:
    """For each setting the classes, what to do about the large ones, and blocks; then the members, and notes."""
    rounds = "1 round" if found.rounds == 1 else f"{found.rounds} rounds"
    rows = [
        ("measured", f"{rounds}, each in new processes"),
        ("environment", environment_line(found.environment)),
    ]
    report: Report = [pairs(f"proxy {found.proxy[:19]}, {found.mode}", rows)]
    for setting in found.settings:
        report += _setting(setting)
    return [*report, _member_table(found), *notes("notes:", found.notes)]


def _setting(setting: ExplainedSetting) -> Report:
    rows = [
        ("suite's factor", factor_text(setting.suite_factor)),
        ("proxy's factor", factor_text(setting.proxy_factor)),
        ("error", f"{signed_percent(setting.error.value)} ({error_interval(setting.error)})"),
        ("suite's noise", percent(setting.suite_noise)),
        ("verdict", setting.verdict),
    ]
    report: Report = [pairs(setting.name, rows), _class_table(setting.classes)]
    report += notes("What to do:", _advice(setting.classes))
    blocks = [block for block in setting.blocks[:SHOWN] if abs(block.error) >= SMALL]
    return [*report, _block_table(blocks)] if blocks else report


def _class_table(classes: Sequence[ExplainedClass]) -> Table:
    """The largest errors first. The last row is the sum of all, also of those that are not shown."""
    rows = [_class_row(row) for row in classes[:SHOWN]]
    for name, some in ((f"{len(classes) - SHOWN} others", classes[SHOWN:]), ("all", classes)):
        if some:
            rows.append((name, *_sums(some), ""))
    columns = ("kernel class", "suite", "proxy", "factor", "proxy's", "by share", "by factor", "error", "noise")
    return table("By kernel class: share of the step, factor, and what it adds to the error", columns, rows)


def _class_row(row: ExplainedClass) -> tuple[str, ...]:
    error = row.error
    return (
        error.name,
        percent(error.suite.here),
        percent(error.proxy.here),
        times(error.suite.factor),
        times(error.proxy.factor),
        signed_percent(error.by_share),
        signed_percent(error.by_factor),
        signed_percent(error.error),
        points(row.noise),
    )


def _sums(rows: Sequence[ExplainedClass]) -> tuple[str, ...]:
    errors = [row.error for row in rows]
    shares = (percent(sum(getattr(e, side).here for e in errors)) for side in ("suite", "proxy"))
    parts = (signed_percent(sum(getattr(e, part) for e in errors)) for part in ("by_share", "by_factor", "error"))
    return (*shares, "", "", *parts)


def _advice(classes: Sequence[ExplainedClass]) -> list[str]:
    """A line for each of the large classes; one for all those that are noise."""
    advised = [row for row in classes if row.advice]
    noisy = [row for row in advised if row.advice and row.advice.cause == "noise"]
    lines = [_advice_line(row) for row in advised if row not in noisy]
    if noisy:
        others = [row.error.name for row in noisy[1:]]
        also = "" if not others else f" So does {others[0]}." if len(others) == 1 else f" So do {len(others)} others."
        lines.append(_advice_line(noisy[0]) + also)
    return lines


def _advice_line(row: ExplainedClass) -> str:
    error, advice = row.error, row.advice
    assert advice is not None, "only large classes have one"
    return f"{error.name} ({signed_percent(error.error)}, {advice.cause}): {advice.says}. Try: {advice.do}."


def _block_table(blocks: Sequence[ExplainedBlock]) -> Table:
    rows = [
        (
            f"{block.tower}, {block.index}",
            block.block.kind,
            block.kernel_class,
            percent(block.share),
            times(block.factor),
            times(block.expected),
            signed_percent(block.error),
        )
        for block in blocks
    ]
    columns = ("tower, block", "kind", "most of its time in", "share", "factor", "as the suite's", "error")
    return table("By block: its operators against the suite's of the same classes", columns, rows, left=3)


def _member_table(found: Explained) -> Table:
    """The members whose shares moved most come first."""
    settings = [setting.name for setting in found.settings]
    members = sorted(found.members, key=lambda m: (-abs(m.share - m.weight), m.name))
    rows = [
        (
            m.name,
            m.evidence,
            percent(m.weight),
            percent(m.share),
            times(m.pace),
            *(times(m.factors[name]) for name in settings),
        )
        for m in members
    ]
    columns = ("workload", "evidence", "weight", "share now", "pace", *settings)
    title = "The suite: its pace against that of when the proxy was made, and its factors"
    return table(title, columns, rows, left=2)
