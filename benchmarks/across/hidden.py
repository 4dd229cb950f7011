"""How good a selection is where several devices at a time are hidden: all choices of them, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

from benchmarks.across.contestants import selected
from benchmarks.across.pairs import Pair, Timed
from benchmarks.console import markdown_table, report
from statsnet.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceErrors:
    """Errors of the selected operators on the pairs with a hidden device, as shares. `steps` are those against measured
    whole steps, and `floor` is what all operators of the suite reach there; each mean and worst, None where no step was
    measured."""

    hidden: tuple[str, ...]
    mean: float
    worst: float
    steps: tuple[float, float] | None
    floor: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenChoices:
    """A suite, and one entry for each choice of hidden devices."""

    suite: int
    name: str
    choices: tuple[ChoiceErrors, ...]


def hidden_choices(timed: Timed, count: int) -> HiddenChoices | None:
    """All choices of `count` of the suite's devices; None if it has no more than these."""
    suite = timed.suite
    choices = [*combinations(suite.devices, count)] if count < len(suite.devices) else []
    made = []
    for number, hidden in enumerate(choices, start=1):
        report(Progress(stage=f"  {number} of {len(choices)}: {', '.join(hidden)}"))
        if pairs := [*timed.pairs(hidden)]:
            made.append(_errors(hidden, pairs))
    return HiddenChoices(suite=suite.number, name=suite.name, choices=tuple(made)) if made else None


def _errors(hidden: tuple[str, ...], pairs: Sequence[Pair]) -> ChoiceErrors:
    factors = [(pair, pair.factor(selected(pair))) for pair in pairs]
    errors = [abs(factor / pair.suite_factor - 1.0) for pair, factor in factors]
    stepped = [(pair.suite_factor, factor, step) for pair, factor in factors if (step := pair.step_factor) is not None]
    return ChoiceErrors(
        hidden=hidden,
        mean=fmean(errors),
        worst=max(errors),
        steps=_mean_and_worst([abs(factor / step - 1.0) for _, factor, step in stepped]),
        floor=_mean_and_worst([abs(suite / step - 1.0) for suite, _, step in stepped]),
    )


def _mean_and_worst(errors: Sequence[float]) -> tuple[float, float] | None:
    return (fmean(errors), max(errors)) if errors else None


def choices_summary(found: Sequence[HiddenChoices]) -> str:
    """A table with a line for each suite, its worst choices, and a last line with the mean and worst error."""
    head = ("suite", "choices", "mean error (at most)", "worst pair: middle choice", "worst choice",
            "whole steps: mean (floor)", "at most floor ×: mean, worst")  # fmt: skip
    lines, worst, last = [], [], []
    for each in found:
        mean, at_most = fmean(c.mean for c in each.choices), max(c.mean for c in each.choices)
        middle, farthest = median(c.worst for c in each.choices), max(each.choices, key=lambda c: c.worst)
        name = f"{each.suite}, {each.name}"
        lines.append([name, str(len(each.choices)), f"{mean:.2%} ({at_most:.2%})", f"{middle:.2%}",
                      f"{farthest.worst:.2%}", *_steps(each.choices)])  # fmt: skip
        worst.append(f"Suite {each.suite} ({each.name}) is farthest off with {', '.join(farthest.hidden)} hidden.")
        last.append(f"suite {each.suite} ({each.name}): mean {mean:.2%}, worst {farthest.worst:.2%}")
    return "\n\n".join([markdown_table(head, lines), "\n".join(worst), "; ".join(last)])


def _steps(choices: Sequence[ChoiceErrors]) -> tuple[str, str]:
    known = [(c.steps, c.floor) for c in choices if c.steps is not None and c.floor is not None and min(c.floor) > 0]
    if not known:
        return "–", "–"
    mean, floor = fmean(s[0] for s, _ in known), fmean(f[0] for _, f in known)
    ratios = (max(s[i] / f[i] for s, f in known) for i in range(2))
    return f"{mean:.2%} ({floor:.2%})", ", ".join(f"{ratio:.2f}" for ratio in ratios)
