"""Which kernel classes of a target the candidates for a proxy, and the finished proxy, have; and what a fit misses."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from statsnet.errors import printable
from statsnet.signatures.comparison import judged
from statsnet.signatures.documents import Characteristic, Fit, Uncovered
from statsnet.signatures.target import Target
from statsnet.units import format_duration

SHOWN = 0.001
"""Classes with a smaller share of the target's time are not named."""

NAMED = 8
"""Most kernel classes that a warning names."""

COVERAGE_BAR = 0.95
"""A proxy that covers less of its target's time should not be relied on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelClassCoverage:
    """Shares of the target's operator time: in kernel classes of which at least one candidate has an operator, and of
    which the finished proxy has one. `uncovered` names the classes that the proxy lacks, the largest first."""

    candidates: float
    proxy: float
    uncovered: tuple[Uncovered, ...]


def coverage_of(target: Target, tried: Mapping[str, float], achieved: Target) -> KernelClassCoverage:
    """`tried` are the kernel classes of all candidates, each with the seconds that it takes in the candidate that has
    least of it; `achieved` is what the proxy was measured to be."""
    shares = target.kernel_class_shares
    held = {name for name, share in achieved.kernel_class_shares.items() if share > 0}
    missing = [name for name, share in shares.items() if share >= SHOWN and name not in held]
    return KernelClassCoverage(
        candidates=_sum_of(shares, held.union(tried)),
        proxy=_sum_of(shares, held),
        uncovered=tuple(
            Uncovered(
                kernel_class=name,
                share=shares[name],
                has_candidate=name in tried,
                fits_from_s=tried[name] / shares[name] if tried.get(name) else None,
            )
            for name in sorted(missing, key=lambda name: (-shares[name], name))
        ),
    )


def coverage_warning(fit: Fit) -> str | None:
    """A sentence that names what a proxy lacks, if that is more than it should be."""
    covered = fit.summary.proxy_coverage
    if covered is None or covered >= COVERAGE_BAR:
        return None
    missing = fit.uncovered or ()
    named = ", ".join(f"{c.kernel_class} ({c.share:.1%})" for c in missing[:NAMED])
    more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    enough_s = _enough_s(missing, covered)
    longer = ""
    if enough_s and enough_s > (fit.summary.budget_s or 0.0):  # else they had room, and were not worth it
        longer = f" {_budget_option(enough_s)} has room for enough of them."
    return (
        f"The proxy covers {covered:.1%} of its target's operator time. It has no operator of these kernel classes: "
        f"{named}{more}.{longer}"
    )


def bars_warning(fit: Fit) -> str | None:
    """A sentence that names the bars of a good fit that this one misses, if there are any, and what may help."""
    missed = [each for each in judged(fit.summary) if each.is_missed]
    if not missed:
        return None
    ways = []
    if any(each.is_rate for each in missed) and not fit.recorded:
        ways.append("on an idle machine with --fresh")
    if longer := _longer_step(fit):
        ways.append(f"with {longer}, for a longer step")
    if fit.effort != "thorough" and not fit.recorded:
        ways.append("with --effort thorough, which measures more")
    *first, last = (each.name for each in missed)
    names = f"{', '.join(first)} and {last}" if first else last
    said = f"The fit misses its {'bars' if first else 'bar'} for {names}."
    return f"{said} Try statsnet synthesize again: {'; then '.join(ways)}." if ways else said


def _longer_step(fit: Fit) -> str | None:
    """The option for a step that is twice as long. None if that is longer than the suite."""
    twice_s = 2 * (fit.summary.budget_s or 0.0)
    return _budget_option(twice_s) if 0 < twice_s <= (fit.summary.suite_latency_s or 0.0) else None


def _budget_option(budget_s: float) -> str:
    return f"--budget {format_duration(budget_s).replace(' ', '')}"


def missed_warning(fit: Fit) -> str | None:
    """A sentence that names the characteristics whose errors are beyond their bars, if there are any."""
    missed = [row for row in fit.characteristics if row.is_missed]
    if not missed:
        return None
    hint = _counted_hint([row for row in missed if not row.is_share], fit.summary.step_latency_error or 0.0)
    return f"Missed, so do not rely on them: {', '.join(map(_missed, missed))}.{hint}"


def not_together(fit: Fit) -> str | None:
    """A sentence that says why it is not known how long the processes wait, if it is not."""
    why = fit.not_together
    return None if why is None else f"How long its processes wait for each other was not measured: {printable(why)}."


def _counted_hint(missed: Sequence[Characteristic], longer: float) -> str:
    """The next step for rows that count bytes and calls in a second, if some missed their bars; the step is by a share
    `longer` than its budget."""
    if not missed:
        return ""
    planned = [(1 + (row.missed_by or 0.0)) * (1 + longer) - 1 for row in missed]
    if all(abs(error) <= (row.bar or 0.0) for error, row in zip(planned, missed, strict=True)):
        how = f"{abs(longer):.1%} {'longer' if longer > 0 else 'shorter'}"
        return f" Calls are counted by time, and the step is {how} than planned: make it again on an idle machine."
    return " A longer step rounds calls less: a lower --compression, or a larger --budget."


def _missed(row: Characteristic) -> str:
    assert row.missed_by is not None and row.bar is not None
    unit = " points" if row.is_share else "%"
    return f"{row.name} {100 * row.missed_by:+.1f}{unit} (bar: {100 * row.bar:g}{unit})"


def _enough_s(missing: Sequence[Uncovered], covered: float) -> float | None:
    """The shortest step in which the share of so many classes has room for a block that COVERAGE_BAR is reached. None
    if their candidates are not known, or would not do."""
    for cover in sorted((c for c in missing if c.fits_from_s), key=lambda c: c.fits_from_s or 0.0):
        covered += cover.share
        if covered >= COVERAGE_BAR:
            return cover.fits_from_s
    return None


def _sum_of(shares: dict[str, float], names: Collection[str]) -> float:
    return min(sum(share for name, share in shares.items() if name in names), 1.0)
