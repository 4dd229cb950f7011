"""Steps of whole models in published tables: their operators, timed one by one, and how long the steps took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from statsnet.devices.tables.row import Key, Merged, TableRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelKey:
    """A model's step; `seq` in tokens. `mode` is `inference` or `training`."""

    model: str
    mode: str
    seq: int
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeStep:
    """A whole model's step as measured on one device. `variant`: how it ran, "" for eager. `layers` is None where the
    table does not say."""

    step: ModelKey
    variant: str
    device: str
    layers: int | None
    time_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOperator:
    """An operator of a model: `calls` in one traced layer (`in_layer`), or in what lies outside of all layers."""

    row: TableRow
    calls: int
    in_layer: bool

    def calls_with(self, layers: int) -> int:
        """Calls in a step of a model of so many layers."""
        return self.calls * (layers if self.in_layer else 1)


class ModelTables:
    """Operators and steps of whole models, collected from several tables. A row has the times of those devices on which
    this model was timed."""

    def __init__(self) -> None:
        self.steps: list[WholeStep] = []
        self._merged: dict[ModelKey, dict[tuple[Key, bool], tuple[Merged, dict[str, int]]]] = {}

    def add(self, step: ModelKey, key: Key, in_layer: bool, calls: int, device: str, time_s: float) -> None:
        merged, counts = self._merged.setdefault(step, {}).setdefault((key, in_layer), (Merged(), {}))
        merged.add_time(key, device, time_s)
        counts[device] = calls

    def add_all(self, models: Mapping[ModelKey, Sequence[ModelOperator]], steps: Iterable[WholeStep]) -> None:
        """What other tables said of models."""
        self.steps += steps
        for step, operators in models.items():
            for o in operators:
                for device, time_s in o.row.time_s.items():
                    self.add(step, o.row.key, o.in_layer, o.calls, device, time_s)

    def operators(self) -> dict[ModelKey, tuple[ModelOperator, ...]]:
        """The operators of each step. An operator that devices count differently appears once for each count."""
        out: dict[ModelKey, tuple[ModelOperator, ...]] = {}
        for step, found in self._merged.items():
            rows: list[ModelOperator] = []
            for (_, in_layer), (merged, counts) in found.items():
                (row,) = merged.rows()
                for calls in sorted(set(counts.values())):
                    times = {d: t for d, t in row.time_s.items() if counts[d] == calls}
                    rows.append(ModelOperator(row=replace(row, time_s=times), calls=calls, in_layer=in_layer))
            out[step] = tuple(rows)
        return out
