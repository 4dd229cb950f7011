"""Collectives of a proxy as calls of torch's operators, and of any layer as the node that PyTorch's observer writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from statsnet.blocks.collective import OPERATORS, encoded_call
from statsnet.exports.manifest import Communication
from statsnet.profiling.costs import cost_of
from statsnet.signatures.categories import COLLECTIVE
from statsnet.signatures.documents import SpecCollective
from statsnet.signatures.model import Cluster

FEWEST = 2
"""Processes of a group whose size is not known."""

NODE_NAME = "record_param_comms"

_NAMES = {
    "all_reduce": "allreduce", "all_gather": "_allgather_base", "reduce_scatter": "_reduce_scatter_base",
    "all_to_all": "all_to_all", "receive": "recv",
}  # fmt: skip
"""Names of collectives as process groups record them; others have the same name there."""

_DTYPES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int",
    "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool",
}  # fmt: skip


def clusters_of(collectives: Iterable[SpecCollective]) -> list[Cluster]:
    """The calls of a process among the spec's number of processes; without times."""
    return [_cluster(c) for c in collectives]


def _cluster(given: SpecCollective) -> Cluster:
    group = [given.group_size or FEWEST, given.group_stride] if given.group_stride else given.group_size or FEWEST
    op = OPERATORS[given.operation]
    args, written = encoded_call(given.operation, given.elements, given.dtype, group)
    cost = cost_of(op, args, written)
    return Cluster(
        op=op, phase=given.phase, category=COLLECTIVE, calls=float(given.count), args=tuple(args),
        outputs=tuple(written), flops=cost.flops if cost else None, bytes_read=cost.bytes_read if cost else None,
        bytes_written=cost.bytes_written if cost else None,
    )  # fmt: skip


def attributes(communication: Communication, dtype: str, item_bytes: int) -> list[tuple[str, str, Any]]:
    """Name, type and value of what PyTorch's observer says of a collective, in its order. A group's first rank is 0."""
    group = communication.group_size or FEWEST
    larger = communication.message_bytes // item_bytes
    smaller = -(-larger // group)
    return [
        ("collective_name", "string", _NAMES.get(communication.operation, communication.operation)),
        ("dtype", "string", _DTYPES.get(dtype, dtype)),
        ("in_msg_nelems", "uint64", smaller if communication.operation in ("all_gather", "gather") else larger),
        ("out_msg_nelems", "uint64", smaller if communication.operation in ("reduce_scatter", "scatter") else larger),
        ("in_split_size", "string", "[]"),
        ("out_split_size", "string", "[]"),
        ("global_rank_start", "uint64", 0),
        ("global_rank_stride", "uint64", communication.group_stride or 1),
        ("pg_name", "string", f"of {group}"),
        ("pg_desc", "string", f"{group} processes"),
        ("pg_size", "uint64", group),
    ]
