"""A fit that tells no more digits of private members than spec.json does.

Exact rates are a fingerprint: whoever guesses a model can compute its FLOPs per byte to nine digits and look for them.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from statsnet.signatures.documents import Characteristic, Fit, FitSummary, Uncovered
from statsnet.signatures.rounding import PRIVATE_DIGITS, in_steps, rounded

OF_THE_PROXY = frozenset(
    {"budget_s", "step_latency_s", "step_latency_error", "coefficient_of_variation", "parameter_count",
     "idle_share_achieved", "framework_share_achieved", "formula_coverage_achieved"}
)  # fmt: skip
"""Figures of a summary that do not depend on the target."""


def without_fingerprints(fit: Fit) -> Fit:
    """The fit with what was asked for rounded to PRIVATE_DIGITS, peak memory to a power of two, and errors against
    these: errors against exact figures would give the figures away."""
    rows = tuple(_rounded(row) for row in fit.characteristics)
    found = {row.name: row for row in rows}
    known = {f.name: getattr(fit.summary, f.name) for f in fields(FitSummary) if f.name not in OF_THE_PROXY}
    figures: dict[str, Any] = {n: rounded(v, PRIVATE_DIGITS) for n, v in known.items() if v is not None}
    for name in ("flops_per_s", "bytes_per_s"):
        if f"{name}_error" in figures:
            figures[f"{name}_error"] = _ratio(found[name]) - 1.0
    if "launches_per_s_ratio" in figures:
        figures["launches_per_s_ratio"] = _ratio(found["launches_per_s"])
    uncovered = fit.uncovered and tuple(map(_rounded_cover, fit.uncovered))
    return replace(fit, characteristics=rows, summary=replace(fit.summary, **figures), uncovered=uncovered)


def _rounded_cover(cover: Uncovered) -> Uncovered:
    fits = cover.fits_from_s and rounded(cover.fits_from_s, PRIVATE_DIGITS)
    return replace(cover, share=rounded(cover.share, PRIVATE_DIGITS), fits_from_s=fits)


def _rounded(row: Characteristic) -> Characteristic:
    if row.target is None:
        return row
    told = in_steps(row.target, 2) if row.group == "memory" else rounded(row.target, PRIVATE_DIGITS)
    return replace(row, target=told)


def _ratio(row: Characteristic) -> float:
    """Achieved over asked; only for what was asked for and achieved."""
    assert row.target and row.achieved is not None
    return row.achieved / row.target
