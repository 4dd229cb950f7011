"""The designs that a search chooses from, as parameters of Optuna's trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from statsnet.synthesis.problem import Design

SIZES = (0.6, 1.0, 1.6)
SHARES = (0.5, 0.7, 1.0)
"""Shares of the budget: a shorter step that fits as well makes a better proxy."""

DISTINCT = (24, 44, 64, 100)
ORDERS = 6
SEEDS = 3
DESIGNS = (SIZES, SHARES, DISTINCT, ORDERS, SEEDS)

USUAL: Mapping[str, Any] = {**asdict(Design()), "share": 1.0}
"""The design of a synthesis without search."""

_CHOICES: Mapping[str, Sequence[float]] = {
    "size": SIZES, "max_distinct": DISTINCT, "order": range(ORDERS), "seed": range(SEEDS), "share": SHARES,
}  # fmt: skip
"""What each parameter may be. For Optuna a range is a number, and other choices have no order."""


def propose(trial: Any) -> dict[str, Any]:
    """The parameters that Optuna proposes for its trial."""
    return {
        name: trial.suggest_int(name, 0, len(of) - 1) if isinstance(of, range) else trial.suggest_categorical(name, of)
        for name, of in _CHOICES.items()
    }


def set_usual(storage: Any, trial_id: int) -> dict[str, Any]:
    """Make the usual design a trial's, whatever Optuna would propose; returns its parameters."""
    from optuna.distributions import CategoricalDistribution, IntDistribution

    for name, of in _CHOICES.items():
        kind = IntDistribution(0, len(of) - 1) if isinstance(of, range) else CategoricalDistribution(of)
        storage.set_trial_param(trial_id, name, kind.to_internal_repr(USUAL[name]), kind)
    return dict(USUAL)


def is_design(params: Mapping[str, Any]) -> bool:
    """Whether they are parameters that a search may have chosen: a stranger's journal may hold any."""
    return params.keys() == _CHOICES.keys() and all(params[name] in of for name, of in _CHOICES.items())


def may_be_usual(params: Mapping[str, Any]) -> bool:
    """Whether a trial tries the usual design; one whose parameters are not all chosen yet may do so."""
    return not params.keys() >= USUAL.keys() or params == USUAL


def design_of(params: Mapping[str, Any], seed: int) -> tuple[Design, float]:
    """A trial's design, and its share of the budget; `seed` is the request's."""
    values = {**params, "seed": seed + params["seed"]}
    share = values.pop("share")
    return Design(**values), share
