"""NeuSight's tables of whole models: their operators, timed one by one, and how long their steps took, in µs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from statsnet.devices.tables.csv_file import MICRO, Record, Tally, device_of, integers, records, seconds
from statsnet.devices.tables.neusight import MODEL_OPERATORS, MODEL_STEPS
from statsnet.devices.tables.reading import Keep, csv_files, read_all, recognised
from statsnet.devices.tables.row import Direction, Key, Merged, TableRow

SOURCE = "neusight_model"
MODES = {"inf": "inference", "train": "training"}
WORDS = {"truediv": "div", "LayerNorm": "layer_norm", "Softmax": "softmax", "ReLU": "relu", "Tanh": "tanh",
         "Dropout": "dropout", "Embedding": "embedding"}  # fmt: skip
PRODUCTS = {"Linear": "NT bias", "addmm": "NN bias", "matmul": "NN", "bmm": "NN"}
LAUNCHES_NOTHING = frozenset(
    {"size", "view", "getitem", "getattr", "dim", "permute", "transpose", "expand", "unsqueeze", "split", "finfo"}
)
"""Rows that run no kernel: their times are those of a call from Python."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTables:
    """Single operators, and whole models. `notes` has a sentence for whatever was left out."""

    rows: tuple[TableRow, ...]
    steps: tuple[WholeStep, ...]
    models: Mapping[ModelKey, tuple[ModelOperator, ...]]
    notes: tuple[str, ...]

    @property
    def devices(self) -> frozenset[str]:
        """All devices of rows, models and steps."""
        rows = (*self.rows, *(o.row for operators in self.models.values() for o in operators))
        return frozenset({*(d for row in rows for d in row.time_s), *(step.device for step in self.steps)})


def read_published(paths: Sequence[Path], keep: Keep | None = None) -> PublishedTables:
    """All tables in `paths`; raises as `read_all` does."""
    tables, tally, models = read_all(paths, keep), Tally(), _Models()
    for path, asked in csv_files(paths):
        form = recognised(path, asked=asked)
        if form is MODEL_OPERATORS:
            _read_operators(path, tally, models)
        elif form is MODEL_STEPS:
            _read_steps(path, tally, models)
    return PublishedTables(
        rows=tables.rows, steps=tuple(models.steps), models=models.operators(), notes=(*tables.notes, *tally.notes())
    )


class _Models:
    """What several tables say of models. An operator's row has the times of those devices on which this model was
    timed."""

    def __init__(self) -> None:
        self.steps: list[WholeStep] = []
        self._merged: dict[ModelKey, dict[tuple[Key, bool], tuple[Merged, dict[str, int]]]] = {}

    def add(self, step: ModelKey, key: Key, in_layer: bool, calls: int, device: str, time_s: float) -> None:
        merged, counts = self._merged.setdefault(step, {}).setdefault((key, in_layer), (Merged(), {}))
        merged.add_time(key, device, time_s)
        counts[device] = calls

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


def _step(r: Record) -> ModelKey:
    seq, batch = integers((r["seq"], r["batch"]))
    return ModelKey(model=r["model"], mode=MODES.get(r["mode"], r["mode"]), seq=seq, batch=batch)


def _described(op: str, input_shapes: str, output_shape: str) -> tuple[str, tuple[tuple[str, int], ...], str]:
    """Operator, dims and variant. Shapes that broadcast stay in the variant. Raises ValueError for shapes that are
    none."""
    inputs = [[int(n) for n in shape] for shape in json.loads(input_shapes)]
    output = [int(n) for n in output_shape.strip("()").split(",") if n.strip()]
    if op in PRODUCTS and output and inputs:
        operand = inputs[1] if op == "addmm" else inputs[0]
        shared = op == "Linear"
        batch = 1 if shared else math.prod(output[:-2])
        m = math.prod(output[:-1]) if shared else (output[-2] if len(output) > 1 else 1)
        return "gemm", (("batch", batch), ("m", m), ("n", output[-1]), ("k", operand[-1])), PRODUCTS[op]
    word = WORDS.get(op, "finfo" if "finfo" in op else op)
    dims = (("rows", math.prod(output[:-1])), ("columns", output[-1] if output else 1))
    same = all(shape == output for shape in inputs)
    return word, dims, "" if same else "in " + " ".join("x".join(map(str, shape)) for shape in inputs)


def _read_operators(path: Path, tally: Tally, models: _Models) -> None:
    for r in records(path, tally, needed=("model", "device", "op")):
        try:
            step, (count, in_layer) = _step(r), integers((r["count"], r["in_layer"]))
            operator, dims, variant = _described(r["op"], r["input_shapes"], r["output_shape"])
        except (ValueError, TypeError, IndexError):
            tally.drop(path, "the shapes or counts are not understood")
            continue
        if (device := device_of(r["device"], path, tally)) is None:
            continue
        directions: tuple[tuple[str, Direction, str], ...] = (
            ("fw_us", "forward", variant), ("bw_us", "backward", variant),
            ("acc_us", "backward", f"{variant} accumulate"),
        )  # fmt: skip
        for column, direction, how in directions:
            if column != "fw_us" and r[column] in ("", "0", "0.0"):
                continue  # inference has neither, nor has training for what needs no gradient
            time_s = seconds(r[column], MICRO, path, tally)
            if time_s is not None:
                key = (SOURCE, operator, r["dtype"] or "none", dims, how.strip(), direction)
                models.add(step, key, bool(in_layer), count, device, time_s)


def _read_steps(path: Path, tally: Tally, models: _Models) -> None:
    for r in records(path, tally, needed=("model", "device")):
        try:
            step = _step(r)
            layers = integers((r["num_layer"] or "0",))[0] or None
        except ValueError:
            tally.drop(path, "the sizes are not understood")
            continue
        device, time_s = device_of(r["device"], path, tally), seconds(r["e2e_us"], MICRO, path, tally)
        if device is not None and time_s is not None:
            whole = WholeStep(step=step, variant=r["variant"], device=device, layers=layers, time_s=time_s)
            models.steps.append(whole)
