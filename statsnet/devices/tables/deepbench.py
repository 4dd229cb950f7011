"""Table of baidu-research/DeepBench: products, convolutions and recurrent layers, one row a device, µs.

DeepBench names the dims and transpositions of column-major BLAS. A column-major product (M, N, K) with operands A and
B is the row-major product m = N, n = M, k = K with B first.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from statsnet.devices.tables.csv_file import MICRO, Format, Tally, device_of, integers, records, seconds
from statsnet.devices.tables.row import Direction, Merged, TableRow
from statsnet.devices.tables.words import dtype_word, named

SOURCE = "deepbench"
COLUMNS = frozenset({"suite", "op", "direction", "dtype", "dims", "device", "latency_us"})

DIRECTIONS: dict[str, Direction] = {
    "": "forward", "fwd": "forward", "bwd": "backward", "bwd_data": "backward_data", "bwd_weight": "backward_weight",
}  # fmt: skip

OPERATORS = {"gemm": "gemm", "conv": "convolution", "spgemm": "sparse_gemm", "rnn": "rnn", "lstm": "lstm", "gru": "gru",
             "allreduce": "allreduce"}  # fmt: skip


def dims_of(op: str, text: str) -> tuple[str, tuple[tuple[str, int], ...], str]:
    """Operator, dims and variant. Raises ValueError for dims that are none of this operator's."""
    operator = OPERATORS.get(op, op)
    sizes, _, rest = text.partition("_")
    numbers = integers(sizes.split("x"))
    if operator in ("gemm", "sparse_gemm"):
        m, n, k = numbers
        transposed, _, zeros = rest.partition("_s")
        if len(transposed) != 2:
            raise ValueError(f"'{text}' does not say which operands are transposed")
        product = (1, n, m, k, *([round(1000 * float(zeros))] if operator == "sparse_gemm" else []))
        return operator, named(operator, product), transposed[1] + transposed[0]
    if operator == "convolution":
        w, h, c, batch, out, fw, fh, pw, ph, sw, sh = numbers
        return operator, named(operator, (batch, c, h, w, out, fh, fw, ph, pw, sh, sw, 1, 1, 1)), "NCHW"
    if operator in ("rnn", "lstm", "gru", "allreduce"):
        return operator, named(operator, numbers), ""
    return operator, tuple((f"dim{i}", n) for i, n in enumerate(numbers)), rest


def read(path: Path, tally: Tally) -> Iterator[TableRow]:
    """Its operators."""
    merged = Merged()
    for record in records(path, tally, needed=("op", "dtype", "dims", "device")):
        try:
            operator, dims, variant = dims_of(record["op"], record["dims"])
            direction = DIRECTIONS[record["direction"]]
        except (ValueError, KeyError, OverflowError):
            tally.drop(path, "the dims or the direction are not understood")
            continue
        if operator in ("rnn", "lstm", "gru") and record["suite"] != "train":
            variant = record["suite"]
        device, time_s = device_of(record["device"], path, tally), seconds(record["latency_us"], MICRO, path, tally)
        if device is not None and time_s is not None:
            merged.add_time((SOURCE, operator, dtype_word(record["dtype"]), dims, variant, direction), device, time_s)
    yield from merged.rows()


FORMATS = (Format(name="DeepBench", columns=COLUMNS, read=read),)
