"""What stands for a point-wise operator that a device's tables lack: another one that moves as many bytes.

On a GPU the time of a point-wise operator is that of its bytes: in NeuSight's tables mul and div of equal sizes take as
long as add, and gelu about as long as relu.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from statsnet.devices.operator_mapping import Mapped
from statsnet.devices.operator_work import SCALAR, item_bytes
from statsnet.devices.tables.words import ITEM_BYTES

BINARY = ("add", "mul", "div", "sub")
UNARY = ("relu", "gelu", "tanh")
DTYPES = ("float32", "float16", "bfloat16")


def stand_ins(part: Mapped) -> Iterator[Mapped]:
    """The operator itself, then others with the same bytes, nearest first."""
    yield part
    if part.operator not in (*BINARY, *UNARY, "pow") or part.dtype not in ITEM_BYTES or part.direction != "forward":
        return
    scalar = part.operator in UNARY or part.variant == SCALAR
    if part.operator == "pow" and not scalar:
        return  # computes for longer than its bytes take
    like = dict.fromkeys((part.operator, *(UNARY if scalar else BINARY)))
    for dtype in dict.fromkeys((part.dtype, *DTYPES)):
        dims = _of_dtype(part, dtype)
        if dims is None:
            continue
        for operator in like:
            variant = "" if operator in UNARY else part.variant
            yield replace(part, operator=operator, dtype=dtype, dims=dims, variant=variant)


def _of_dtype(part: Mapped, dtype: str) -> tuple[tuple[str, int], ...] | None:
    """Dims with as many bytes in another dtype; None if there are none."""
    wide = dict(part.dims)
    columns, rest = divmod(wide["columns"] * item_bytes(part.dtype), item_bytes(dtype))
    return None if rest or not columns else (("rows", wide["rows"]), ("columns", int(columns)))
