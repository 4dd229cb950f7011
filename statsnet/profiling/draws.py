"""Steps that draw random numbers, made to draw the same ones again."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from statsnet.workloads import Step, Successive


def prepared(turn: Successive, number: int) -> Successive:
    """The turns, with the next input ready and these numbers to draw."""
    turn.prepare()
    draw_again(number)
    return turn


def drawn(step: Step) -> list[Any]:
    """What tells whether Python's or NumPy's generators have been drawn from, or one that the step's model keeps."""
    numpy = sys.modules.get("numpy")
    shared = [random.getstate(), *([repr(numpy.random.get_state(legacy=False))] if numpy else [])]
    return [*shared, *map(_state_of, step.renewal.held_values())]


def _state_of(generator: Any) -> Any:
    numpy = sys.modules.get("numpy")
    if isinstance(generator, random.Random):
        return generator.getstate()
    if numpy is not None and isinstance(generator, numpy.random.Generator):
        return repr(generator.bit_generator.state)
    if numpy is not None and isinstance(generator, numpy.random.RandomState):
        return repr(generator.get_state(legacy=False))
    return None


def draw_again(number: int) -> None:
    """Seed every generator that a model is likely to draw from: torch's on all devices, Python's and NumPy's. After two
    calls with the same number, two steps make the same choices (unless they keep a generator of their own)."""
    torch.manual_seed(number)
    random.seed(number)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(number)
