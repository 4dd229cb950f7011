"""One operator of a published table, with its time on every device that the table has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Direction = Literal["forward", "backward_data", "backward_weight", "backward"]

Key = tuple[str, str, str, tuple[tuple[str, int], ...], str, Direction]
"""Source, operator, dtype, dims, variant, direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One operator with given dims.

    `operator` is a word of ours, the same for all sources: `gemm`, `convolution`, `attention_prefill`,
    `attention_decode`, `moe`, `softmax`, `layer_norm`, `add`, `lstm`, ... `dims` are named sizes in a fixed order for
    each operator (a gemm has batch, m, n, k). `variant` is whatever else picks another kernel: transposition, layout,
    window, distribution.
    `time_s` holds the seconds of one call by the device's canonical name; a device that was not measured is missing.
    """

    source: str
    operator: str
    dtype: str
    dims: tuple[tuple[str, int], ...]
    variant: str = ""
    direction: Direction = "forward"
    time_s: Mapping[str, float]

    @property
    def key(self) -> Key:
        """What makes it this operator, whatever the device."""
        return (self.source, self.operator, self.dtype, self.dims, self.variant, self.direction)
