"""How wrong is it to let a smaller operator stand for a larger one, on another device? Learnt from published tables.

If an operator's axis is cut, its factor from device to device changes. The risk is the mean of the absolute difference
of the two factors' logarithms, over all pairs of devices that measured both. benchmarks/diagnostics/cut_risk.py
computes it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from statsnet.devices.device_record import content_of, read_plain
from statsnet.devices.operator_work import work_of
from statsnet.errors import FileFormatError
from statsnet.signatures.canonical import canonical_json, write_bytes_atomically

KIND = "statsnet.cut_risk"
VERSION = 2
FILE = "cut_risk.json"
TITLE = "a table of the risks of cut sizes"

POINTWISE = "pointwise"
"""All operators that read and write each number once; their one axis is the bytes that they move."""

AXES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "gemm": {"batch": ("batch",), "m": ("m",), "n": ("n",), "k": ("k",)},
    "convolution": {
        "batch": ("batch",), "in_channels": ("in_channels",), "out_channels": ("out_channels",),
        "map": ("in_h", "in_w"),
    },
    "attention_prefill": {"batch": ("batch",), "length": ("q_len", "kv_len"), "heads": ("heads",)},
    "attention_decode": {"batch": ("batch",), "length": ("kv_len",), "heads": ("heads",)},
    "attention_encoder": {"batch": ("batch",), "length": ("q_len", "kv_len"), "heads": ("heads",)},
    POINTWISE: {"bytes": ("bytes",)},
}  # fmt: skip
"""The axes of each kind of operator that blocks cut, and the dims that change together."""

MOST_OCTAVES = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskEntry:
    """For operators whose larger one has 10^`decade` to 10^(`decade` + 1) FLOPs (point-wise: bytes), cut on `axis` to
    2^−`octaves`. `pairs` is how many such pairs of operators were compared."""

    operator: Annotated[str, Meta(max_length=40)]
    axis: Annotated[str, Meta(max_length=40)]
    decade: Annotated[int, Meta(ge=0, le=30)]
    octaves: Annotated[int, Meta(ge=1, le=MOST_OCTAVES)]
    risk: Annotated[float, Meta(ge=0, le=20)]
    pairs: Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, kw_only=True)
class CutRisk:
    """The entries of all kinds, axes, sizes and cuts."""

    entries: tuple[RiskEntry, ...]

    @cached_property
    def _by_axis(self) -> dict[tuple[str, str], dict[int, list[tuple[float, float]]]]:
        found: dict[tuple[str, str], dict[int, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
        for e in sorted(self.entries, key=lambda e: e.octaves):
            found[e.operator, e.axis][e.decade].append((float(e.octaves), e.risk))
        return found

    @cached_property
    def worst(self) -> float:
        """The largest risk: for what is like no operator that the target has."""
        return max((e.risk for e in self.entries), default=0.0)

    def of_axis(self, operator: str, axis: str, octaves: float, work: float) -> float:
        """Of a cut (or growth) by so many octaves, where the larger operator has so much `work`. Linear between known
        cuts, from 0 for none; that of the nearest size if the size is not known."""
        if octaves == 0:
            return 0.0
        decades = self._by_axis.get((operator, axis))
        if not decades:
            return self.worst
        decade = math.log10(max(work, 1.0)) - 0.5
        points = decades[min(decades, key=lambda d: abs(d - decade))]
        before, risk_before = 0.0, 0.0
        for at, risk in points:
            if octaves <= at:
                return risk_before + (risk - risk_before) * (octaves - before) / (at - before)
            before, risk_before = at, risk
        return risk_before

    def between(self, operator: str, ours: Mapping[str, int], other: Mapping[str, int], dtype: str) -> float:
        """Of an operator with the dims `ours` that stands for one with `other`: the sum over their axes. The worst
        of all if they differ in what is no axis, such as a window."""
        axes = AXES.get(operator)
        if axes is None or ours.keys() != other.keys():
            return 0.0 if dict(ours) == dict(other) else self.worst
        cut = {name for names in axes.values() for name in names}
        if any(ours[name] != other[name] for name in ours.keys() - cut - TIED.get(operator, frozenset())):
            return self.worst
        work = max(_work(operator, dtype, ours), _work(operator, dtype, other))
        return sum(
            self.of_axis(operator, axis, octaves_apart(ours, other, names), work) for axis, names in axes.items()
        )


TIED = {
    "attention_prefill": frozenset({"kv_heads"}), "attention_encoder": frozenset({"kv_heads"}),
    "attention_decode": frozenset({"kv_heads", "q_len"}), "convolution": frozenset({"groups"}),
}  # fmt: skip
"""Dims that change with an axis: depth-wise convolutions have as many groups as channels."""


def octaves_apart(ours: Mapping[str, int], other: Mapping[str, int], names: Sequence[str]) -> float:
    """The mean over `names` of the absolute difference of the logarithms."""
    return sum(abs(math.log2(ours[n] / other[n])) for n in names) / len(names)


def _work(operator: str, dtype: str, dims: Mapping[str, int]) -> float:
    if operator == POINTWISE:
        return float(dims["bytes"])
    return work_of(operator, dtype, dims)[0]


def save_risk(path: Path, risk: CutRisk) -> None:
    """Write a file that `load_risk` reads."""
    data: dict[str, Any] = {"kind": KIND, "schema_version": VERSION, "entries": msgspec.to_builtins(risk.entries)}
    write_bytes_atomically(path, canonical_json(data).encode())


def load_risk(path: Path) -> CutRisk:
    """Raises FileFormatError if the file cannot be read or is of another kind or version."""
    hint = "benchmarks/diagnostics/cut_risk.py makes one from tables"
    content = content_of(path, read_plain(path), KIND, VERSION, title=TITLE, hint=hint)
    try:
        return msgspec.convert(content, CutRisk, strict=True)
    except ValueError as error:
        raise FileFormatError(f"'{path}' is not {TITLE}", cause=str(error), hint=hint) from error
