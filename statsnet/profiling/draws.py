"""Steps that draw random numbers, made to draw the same ones again."""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from statsnet.workloads import Successive


def prepared(turn: Successive, number: int) -> Successive:
    """The turns, with the next input ready and these numbers to draw."""
    turn.prepare()
    draw_again(number)
    return turn


def drawn() -> list[Any]:
    """What tells whether Python's or NumPy's generators have been drawn from."""
    numpy = sys.modules.get("numpy")
    return [random.getstate(), *([repr(numpy.random.get_state(legacy=False))] if numpy else [])]


def draw_again(number: int) -> None:
    """Seed every generator that a model is likely to draw from: torch's on all devices, Python's and NumPy's. After two
    calls with the same number, two steps make the same choices (unless they keep a generator of their own)."""
    torch.manual_seed(number)
    random.seed(number)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(number)
