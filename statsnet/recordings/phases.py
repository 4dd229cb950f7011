"""What a range around operators tells of them: their phase, and the optimizer."""

from __future__ import annotations

import re

from statsnet.profiling.loop_phases import OPTIMIZER_RANGES
from statsnet.signatures.public_names import safe_optimizer

STEP = re.compile(r"ProfilerStep\s*#\s*(\d{1,18})")
_BACKWARD = re.compile(r"(autograd::engine::evaluate_function: .*|torch::autograd::.*|\w*Backward\d*)")
_OPTIMIZER = re.compile(r"Optimizer\.step#(\w+?)\.step")


def phase_of(name: str, outer: str) -> str:
    """The phase of a range, given that of the range around it."""
    if name.startswith(OPTIMIZER_RANGES):
        return "optimizer"
    if name.startswith("enumerate(DataLoader)"):
        return "input"
    return "backward" if outer == "forward" and _BACKWARD.fullmatch(name) else outer


def optimizer_of(name: str) -> str | None:
    """The optimizer whose step a range is, as signatures spell it; None if it is no such range."""
    match = _OPTIMIZER.match(name)
    return None if match is None else safe_optimizer(match[1])
