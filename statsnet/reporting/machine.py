"""What `doctor` found, as a table and a list of what to change."""

from __future__ import annotations

from collections.abc import Sequence

from statsnet.evaluation.machine import Finding
from statsnet.evaluation.noise import Noise
from statsnet.measure.idle_memory import slow_memory
from statsnet.reporting.tables import Report, line, notes, percent, table
from statsnet.units import format_duration

QUIET = 0.05
"""On a quiet machine, the middle half of an operator's runs lie within this share of their median."""

WORDS = {"ok": "ok", "change": "change this", "absent": "not here", "unknown": "note"}


def machine_report(found: Sequence[Finding]) -> Report:
    rows = [(each.name, WORDS[each.state], each.value) for each in found]
    advice = {
        state: [f"{each.name}: {each.advice}" for each in found if each.state == state and each.advice]
        for state in WORDS
    }
    report: Report = [table("This machine", ("what", "", "found"), rows, left=3)]
    report += notes("to change before measuring:", advice["change"])
    if not advice["change"]:
        report.append(line("nothing to change before measuring"))
    return [*report, *notes("to know:", advice["unknown"]), *notes("to add:", advice["absent"])]


def noise_finding(noise: Noise) -> Finding:
    """Noise as a finding: quiet, or disturbed and by what."""
    value = (
        f"a product of two matrices takes {format_duration(noise.median_s)}; the middle half of {noise.steps} runs lie "
        f"within {percent(noise.spread)} of it"
    )
    if noise.warnings:
        return Finding(name="noise now", state="change", value=value, advice="; ".join(noise.warnings))
    if noise.spread > QUIET:
        advice = "stop other programs; results will need more --processes"
        return Finding(name="noise now", state="change", value=value, advice=advice)
    return Finding(name="noise now", state="ok", value=value)


def idle_memory_finding(noise: Noise) -> Finding:
    """Whether memory stays at hand while nobody uses it."""
    if noise.page_s is None:
        return Finding(
            name="idle memory", state="unknown", value="not looked at: pages are large, or STATSNET_PATIENCE_S is 0"
        )
    value = f"a page that was not used for a moment takes {format_duration(noise.page_s)} to reach"
    slow = slow_memory(noise.page_s)
    return Finding(name="idle memory", state="change" if slow else "ok", value=value, advice="".join(slow))
