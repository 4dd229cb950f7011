"""Real devices as rows: a step's time on each device that was recorded, by its operators' factors (elsewhere.py)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from statsnet.synthesis.loads import OperatorTable, StepLoad


class RecordedDevices:
    """Times on the devices `names`, in units of the target's time there. Operators without a known fate change like the
    target's, and so does the time between operators."""

    def __init__(self, names: Sequence[str], target: StepLoad) -> None:
        table = OperatorTable([target.groups])
        known_s = np.array([g.time_s if g.fate else 0.0 for g in table.groups])
        factors = np.array([g.fate.factors if g.fate else (0.0,) * len(names) for g in table.groups])
        factors = factors.reshape(len(table.groups), len(names))
        self.names = tuple(names)
        self.usual = known_s @ factors / known_s.sum() if known_s.sum() > 0 else np.ones(len(names))

    def times_s(self, table: OperatorTable, framework_s: np.ndarray) -> np.ndarray:
        """Shape (devices, loads): seconds there ÷ the target's factor."""
        factors = np.array([g.fate.factors if g.fate else self.usual for g in table.groups])
        relative = factors.reshape(len(table.groups), len(self.names)) / self.usual
        times_s = [table.sums(table.time_s * of_device) + framework_s for of_device in relative.T]
        return np.array(times_s).reshape(len(self.names), table.loads)
