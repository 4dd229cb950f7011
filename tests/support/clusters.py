"""Encoded tensors, and the clusters of operators on them, with the costs of their formulas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from statsnet.profiling.costs import cost_of
from statsnet.signatures.categories import categorize
from statsnet.signatures.model import Cluster, Memory, Motif, Signature


def tensor(*shape: int, dtype: str = "float32", strides: Iterable[int] | None = None, **more: Any) -> dict[str, Any]:
    return {"shape": list(shape), "dtype": dtype, **({} if strides is None else {"strides": list(strides)}), **more}


def cluster(op: str, args: list[Any], *outputs: dict[str, Any], calls: float = 1, phase: str = "forward") -> Cluster:
    cost = cost_of(op, args, list(outputs))
    return Cluster(
        op=op, phase=phase, category=categorize(op, phase), calls=calls, args=tuple(args), outputs=outputs,
        flops=cost.flops if cost else None, bytes_read=cost.bytes_read if cost else None,
        bytes_written=cost.bytes_written if cost else None,
    )  # fmt: skip


def convolution(
    x: dict[str, Any], weight: dict[str, Any], *, stride: int = 1, padding: int = 0, dilation: int = 1, groups: int = 1,
    bias: bool = False, transposed: bool = False, calls: float = 1,
) -> Cluster:  # fmt: skip
    space = len(weight["shape"]) - 2
    sizes = zip(x["shape"][2:], weight["shape"][2:], strict=True)
    if transposed:
        out = [(n - 1) * stride - 2 * padding + dilation * (k - 1) + 1 for n, k in sizes]
        channels = weight["shape"][1] * groups
    else:
        out = [(n + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for n, k in sizes]
        channels = weight["shape"][0]
    args = [x, weight, tensor(channels) if bias else None, [stride] * space, [padding] * space, [dilation] * space,
            transposed, [0] * space, groups]  # fmt: skip
    return cluster("aten.convolution.default", args, tensor(x["shape"][0], channels, *out), calls=calls)


def mm(rows: int, depth: int, columns: int, **more: Any) -> Cluster:
    return cluster("aten.mm.default", [tensor(rows, depth), tensor(depth, columns)], tensor(rows, columns), **more)


def addmm(rows: int, depth: int, columns: int, **more: Any) -> Cluster:
    args = [tensor(columns), tensor(rows, depth), tensor(depth, columns), 1, 1]
    return cluster("aten.addmm.default", args, tensor(rows, columns), **more)


def attention(batch: int, heads: int, length: int, width: int, *, causal: bool = False) -> Cluster:
    q = tensor(batch, heads, length, width)
    args = [q, q, q, 0.0, causal, None, None]
    op = "aten._scaled_dot_product_flash_attention_for_cpu.default"
    return cluster(op, args, q, tensor(batch, heads, length))


def relu(*shape: int, **more: Any) -> Cluster:
    return cluster("aten.relu.default", [tensor(*shape)], tensor(*shape), **more)


def signature(*clusters: Cluster, mode: str = "inference", motifs: tuple[Motif, ...] = ()) -> Signature:
    memory = Memory(parameter_count=0, parameter_bytes=0, buffer_bytes=0, input_bytes=0)
    return Signature(mode=mode, dtype="float32", clusters=clusters, memory=memory, motifs=motifs)  # type: ignore[arg-type]
