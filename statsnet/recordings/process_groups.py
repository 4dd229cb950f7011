"""What a process group notes beside each collective: how much is sent in it, and among which processes.

PyTorch's profiler and its observer of execution traces record it as `record_param_comms`, below the collective's
operator or around the library's range.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statsnet.blocks.collective import OPERATORS, encoded_call
from statsnet.recordings.described import Described
from statsnet.signatures.collectives import is_collective, kind_of, with_group
from statsnet.signatures.limits import MOST_PROCESSES

NAME = "record_param_comms"

_NO_COLLECTIVES = ("wait", "init")
_DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
}  # fmt: skip
_MOST_ELEMENTS = 2**50


@dataclass(frozen=True, slots=True)
class Noted:
    """Ranks of the group and how far they are apart; elements of the larger side, and their dtype, if they are
    known."""

    processes: int
    stride: int
    elements: int | None = None
    dtype: str | None = None


def noted_in_timeline(args: Mapping[str, Any]) -> Noted | None:
    """From the fields of an event of the profiler's timeline."""
    names = ("Collective name", "Group size", "Global rank stride", "In msg nelems", "Out msg nelems", "dtype")
    return _noted(*(args.get(name) for name in names))


def noted_in_node(attributes: Mapping[str, Any]) -> Noted | None:
    """From the attributes of an execution trace's node."""
    names = ("collective_name", "pg_size", "global_rank_stride", "in_msg_nelems", "out_msg_nelems", "dtype")
    return _noted(*(attributes.get(name) for name in names))


def _noted(name: Any, processes: Any, stride: Any, sent: Any, received: Any, dtype: Any) -> Noted | None:
    if name in _NO_COLLECTIVES or not _is_count(processes, MOST_PROCESSES):
        return None
    sides = [n for n in (sent, received) if _is_count(n, _MOST_ELEMENTS)]
    known = _DTYPES.get(dtype) if isinstance(dtype, str) else None
    return Noted(processes, stride if _is_count(stride, MOST_PROCESSES) else 1, max(sides, default=None), known)


def _is_count(value: Any, most: int) -> bool:
    return type(value) is int and 0 < value <= most


def with_noted(described: Described, noted: Noted | None, processes: int) -> Described:
    """A collective with its group, in a step of so many `processes`; also with its sizes, where its arguments were not
    recorded. Any other operator as it is."""
    if noted is None or not is_collective(described.op):
        return described
    group = noted.processes if noted.processes >= processes else [noted.processes, noted.stride]
    kind = kind_of(described.op)
    if not described.complete and kind in OPERATORS and noted.elements and noted.dtype:
        args, outputs = encoded_call(kind, noted.elements, noted.dtype, group)
        return Described(op=OPERATORS[kind], args=args, outputs=outputs, complete=True)
    args = with_group(described.op, described.args, group)
    return Described(op=described.op, args=args, outputs=described.outputs, complete=described.complete)
