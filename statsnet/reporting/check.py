"""A workload's counts beside torch's, as tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statsnet.reporting.tables import Report, notes, pairs, table
from statsnet.units import format_quantity, plural

if TYPE_CHECKING:
    from statsnet.profiling.check import Check, OperatorCheck

SHOWN = 8


def check_report(check: Check) -> Report:
    """What agrees with torch, operator by operator, and what does not."""
    report: Report = [pairs("the counts of one step beside torch's own", _summary(check))]
    if check.operators:
        columns = ("operator", "calls", "FLOPs", "FlopCounterMode", "verdict")
        report.append(
            table("FLOPs of the operators for which torch has a formula", columns, map(_row, check.operators))
        )
    lines = (f"{name}: {plural(calls, 'call')}" for name, calls in check.uncounted[:SHOWN])
    report += notes("without a cost formula here:", lines)
    report += notes(
        "seen by the profiler alone:", (f"{share:.1%} of the step: {n}" for n, share in check.unseen.shares[:SHOWN])
    )
    return report


def _summary(check: Check) -> list[tuple[str, str]]:
    calls = (
        f"{check.unseen.timed} captured, {check.unseen.unmatched} of them not seen by the profiler; "
        f"{check.unseen.time_share:.1%} of the step in others: " + ("agree" if check.calls_agree else "do not agree")
    )
    return [("FLOPs", _flops(check)), ("calls", calls)]


def _flops(check: Check) -> str:
    if check.torch_failed:
        return f"not compared: FlopCounterMode fails ({check.torch_failed})"
    left_out = sum(1 for row in check.operators if row.exception)
    if left_out == len(check.operators):
        return "not compared: " + ("torch counts these in its own way" if left_out else "torch has no formula for any")
    verdict = "agree" if check.flops_agree else "differ by more than 1 %"
    without = f" (without {plural(left_out, 'operator')} that torch counts in its own way)" if left_out else ""
    here, there = (format_quantity(flops, "FLOP") for flops in (check.flops, check.torch_flops))
    return f"{here} here, {there} by torch: {verdict}{without}"


def _row(row: OperatorCheck) -> tuple[str, ...]:
    verdict = "agrees" if row.agrees else row.exception or "differs"
    return row.op, str(row.calls), format_quantity(row.flops), format_quantity(row.torch_flops), verdict
