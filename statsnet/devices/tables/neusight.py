"""Table of sitar-lab/NeuSight's single operators, float32, forward, one row a device, µs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from statsnet.devices.tables.csv_file import MICRO, Format, Tally, device_of, integers, records, seconds
from statsnet.devices.tables.row import Merged, TableRow
from statsnet.devices.tables.words import named

SOURCE = "neusight"
COLUMNS = frozenset({"op", "dims", "device", "latency_us"})
DTYPE = "float32"
POINTWISE = {"ln": "layer_norm"}


def dims_of(op: str, text: str) -> tuple[str, tuple[tuple[str, int], ...], str]:
    """Operator, dims and variant. Raises ValueError for dims that are none of this operator's."""
    sizes = integers(text.split("x"))
    if op in ("linear", "bmm"):
        return "gemm", named("gemm", sizes), "NT bias" if op == "linear" else "NN"
    if op == "conv":
        batch, c, out, kernel, size, stride, pad = sizes
        dims = (batch, c, size, size, out, kernel, kernel, pad, pad, stride, stride, 1, 1, 1)
        return "convolution", named("convolution", dims), "NCHW"
    scalar = op in ("addu", "mulu", "divu", "powu", "subu")
    operator = POINTWISE.get(op, op[:-1] if scalar else op)
    rows, columns = sizes
    return operator, (("rows", rows), ("columns", columns)), "scalar" if scalar else ""


def read(path: Path, tally: Tally) -> Iterator[TableRow]:
    """Its operators."""
    merged = Merged()
    for record in records(path, tally, needed=("op", "dims", "device")):
        try:
            operator, dims, variant = dims_of(record["op"], record["dims"])
        except ValueError:
            tally.drop(path, "the dims are not understood")
            continue
        device, time_s = device_of(record["device"], path, tally), seconds(record["latency_us"], MICRO, path, tally)
        if device is not None and time_s is not None:
            merged.add_time((SOURCE, operator, DTYPE, dims, variant, "forward"), device, time_s)
    yield from merged.rows()


MODEL_OPERATORS = Format(
    name="NeuSight's models, operators",
    columns=frozenset({"model", "mode", "seq", "batch", "device", "op", "input_shapes", "output_shape", "dtype",
                       "in_layer", "count", "fw_us", "bw_us", "acc_us"}),
)  # fmt: skip
MODEL_STEPS = Format(
    name="NeuSight's models, steps",
    columns=frozenset({"model", "mode", "seq", "batch", "variant", "device", "num_layer", "e2e_us", "fw_us", "bw_us"}),
)
"""Tables of whole models, which lie beside the others; no single operator for a record is in them."""

FORMATS = (Format(name="NeuSight's operators", columns=COLUMNS, read=read), MODEL_OPERATORS, MODEL_STEPS)
