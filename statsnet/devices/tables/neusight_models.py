"""Tables of sitar-lab/NeuSight's whole models: their operators, timed one by one, and their measured steps, µs."""

from __future__ import annotations

import json
import math
from pathlib import Path

from statsnet.devices.tables.csv_file import MICRO, Format, Record, Tally, device_of, integers, records, seconds
from statsnet.devices.tables.model_steps import ModelKey, ModelTables, WholeStep
from statsnet.devices.tables.row import Direction

SOURCE = "neusight_model"
OPERATORS = frozenset({"model", "mode", "seq", "batch", "device", "op", "input_shapes", "output_shape", "dtype",
                       "in_layer", "count", "fw_us", "bw_us", "acc_us"})  # fmt: skip
STEPS = frozenset({"model", "mode", "seq", "batch", "variant", "device", "num_layer", "e2e_us", "fw_us", "bw_us"})

MODES = {"inf": "inference", "train": "training"}
WORDS = {"truediv": "div", "LayerNorm": "layer_norm", "Softmax": "softmax", "ReLU": "relu", "Tanh": "tanh",
         "Dropout": "dropout", "Embedding": "embedding"}  # fmt: skip
PRODUCTS = {"Linear": "NT bias", "addmm": "NN bias", "matmul": "NN", "bmm": "NN"}
LAUNCHES_NOTHING = frozenset(
    {"size", "view", "getitem", "getattr", "dim", "permute", "transpose", "expand", "unsqueeze", "split", "finfo"}
)
"""Rows that run no kernel: their times are those of a call from Python."""


def _step(r: Record) -> ModelKey:
    seq, batch = integers((r["seq"], r["batch"]))
    return ModelKey(model=r["model"], mode=MODES.get(r["mode"], r["mode"]), seq=seq, batch=batch)


def described(op: str, input_shapes: str, output_shape: str) -> tuple[str, tuple[tuple[str, int], ...], str]:
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


def read_operators(path: Path, tally: Tally, tables: ModelTables) -> None:
    """Add a table's operators of whole models."""
    for r in records(path, tally, needed=("model", "device", "op")):
        try:
            step, (count, in_layer) = _step(r), integers((r["count"], r["in_layer"]))
            operator, dims, variant = described(r["op"], r["input_shapes"], r["output_shape"])
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
                tables.add(step, key, bool(in_layer), count, device, time_s)


def read_steps(path: Path, tally: Tally, tables: ModelTables) -> None:
    """Add the measured steps of whole models."""
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
            tables.steps.append(whole)


FORMATS = (
    Format(name="NeuSight's models, operators", columns=OPERATORS, read_models=read_operators),
    Format(name="NeuSight's models, steps", columns=STEPS, read_models=read_steps),
)
