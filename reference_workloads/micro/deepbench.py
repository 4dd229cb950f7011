"""DeepBench's rows by mode: for inference its set for servers, then that for devices."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from reference_workloads.micro.operators import Operator, workload
from reference_workloads.micro.table import Row, rows

TRAINING = ("training",)
INFERENCE = ("server", "device")


def both_modes(
    table: str, operator: Callable[[Row, int], Operator], every: int, shrink: int
) -> tuple[nn.Module, Tensor]:
    """Each `every`-th row of a mode's sets, made into an operator by `operator(row, shrink)`."""
    training, inference = (
        [operator(row, shrink) for row in rows(table, every, sets)] for sets in (TRAINING, INFERENCE)
    )
    return workload(training, inference)
