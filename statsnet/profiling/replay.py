"""Runs operators again from their signature alone, without the model, to time clusters on another machine."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import Any

import torch

from statsnet.measure.cache_flush import cache_flush
from statsnet.measure.ncu import run_in_range
from statsnet.profiling.capture import capture_step
from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.kernel_families import kernel_family
from statsnet.profiling.kernels import cpu_implementation, cuda_implementation
from statsnet.profiling.operator_schemas import is_replayable, misfit
from statsnet.profiling.replay_limits import TimeLimit, memory_limit, needed_bytes, require_memory
from statsnet.profiling.timeline import event_overhead_s, profile_step
from statsnet.signatures.indices import index_bound
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import INFINITE, flatten_tensor_list, is_tensor
from statsnet.workloads.torch_operators import overload

CHUNK_BYTES = 2**30
REPEATS = 3


def arguments(cluster: Cluster, device: str) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments with made-up values: normal floats, indices within bounds."""
    schema = overload(cluster.op)._schema.arguments
    high = index_bound(cluster)
    positional: list[Any] = []
    keyword: dict[str, Any] = {}
    for argument, encoded in zip(schema, cluster.args, strict=False):
        value = _value(encoded, high, device)
        if argument.name.endswith("dtype") and value is None and cluster.outputs and cluster.outputs[0]:
            value = getattr(torch, cluster.outputs[0]["dtype"])
        if value is None and argument.default_value is None and str(argument.type) in ("number", "float"):
            value = -math.inf  # infinities (masks) are not JSON
        if argument.name == "offsets" and value is not None:
            value = _bag_offsets(value, cluster)
        if argument.name == "offset2bag" and value is not None:
            value = _bags_of_indices(value, cluster)
        if argument.name == "device" and value is None:
            value = torch.device(device)
        if argument.kwarg_only:
            keyword[argument.name] = value if value is not None else argument.default_value
        else:
            positional.append(value if value is not None else argument.default_value)
    if any(argument.name == "device" and argument.kwarg_only for argument in schema[len(cluster.args) :]):
        keyword["device"] = torch.device(device)
    return positional, keyword


def _value(encoded: Any, high: int, device: str) -> Any:
    if is_tensor(encoded):
        return _tensor(encoded, high, device)
    if isinstance(encoded, dict):
        entries = flatten_tensor_list(encoded["tensors"])
        return [
            None if entry is None else _tensor(entry, high, device)
            for entry in entries
            for _ in range(1 if entry is None else entry.get("times", 1))
        ]
    return float(encoded) if encoded in INFINITE else encoded


def _bag_offsets(offsets: torch.Tensor, cluster: Cluster) -> torch.Tensor:
    """Bags of equal length over the indices, the argument before the offsets."""
    indices = int(cluster.args[1]["shape"][0])
    bags = max(1, offsets.numel())
    return (torch.arange(bags, device=offsets.device) * (indices // bags)).to(offsets.dtype)


def _bags_of_indices(places: torch.Tensor, cluster: Cluster) -> torch.Tensor:
    """The bag of each index. The bags are the rows of the first argument, the gradient."""
    bags, indices = int(cluster.args[0]["shape"][0]), max(1, places.numel())
    return (torch.arange(places.numel(), device=places.device) * bags // indices).to(places.dtype)


def _tensor(spec: dict[str, Any], high: int, device: str) -> torch.Tensor:
    dtype = getattr(torch, spec["dtype"])
    if spec.get("squares") is not None:
        return _nested(spec, dtype, device)
    if spec.get("elements") is not None:
        return _sparse_matrix(spec, dtype, device)
    if spec.get("sparse") is not None:
        return _sparse_rows(spec, dtype, device)
    shape, strides = spec["shape"], spec.get("strides")
    if strides is None:
        out = torch.empty(shape, dtype=dtype, device=device)
    else:
        out = torch.empty_strided(shape, strides, dtype=dtype, device=device)
    stored = out if strides is None or 0 not in strides else out.as_strided(
        [1 if s == 0 else n for n, s in zip(shape, strides, strict=True)], strides
    )  # fmt: skip
    if dtype.is_floating_point or dtype.is_complex:
        stored.normal_()
    elif dtype in (torch.uint8, torch.bool):
        stored.zero_()
    else:
        stored.random_(0, max(1, high))
    return out


def _sparse_rows(spec: dict[str, Any], dtype: torch.dtype, device: str) -> torch.Tensor:
    """A gradient of an embedding: some rows of a table."""
    rows, *rest = spec["shape"]
    indices = torch.randint(0, max(1, rows), (1, spec["sparse"]), device=device)
    values = torch.randn(spec["sparse"], *rest, dtype=dtype, device=device)
    return torch.sparse_coo_tensor(indices, values, spec["shape"], check_invariants=False)


def _sparse_matrix(spec: dict[str, Any], dtype: torch.dtype, device: str) -> torch.Tensor:
    """A matrix with as many elements in each row, at random columns: COO or CSR, as the bytes of the indices tell; of
    blocks, if each index has several elements."""
    if len(spec["shape"]) != 2:
        raise NotImplementedError("batches and slices of sparse tensors are not made up")
    (rows, columns), stored = spec["shape"], spec["sparse"]
    if spec["elements"] != stored:
        return _block_matrix(spec, dtype, device)
    starts = torch.arange(rows + 1, device=device) * stored // max(1, rows)
    values = torch.randn(stored, dtype=dtype, device=device)
    places = torch.randint(0, max(1, columns), (stored,), device=device)
    if spec["index_bytes"] == 2 * 8 * stored:
        row_of = torch.repeat_interleave(torch.arange(rows, device=device), starts.diff())
        indices = torch.stack([row_of, places])
        return torch.sparse_coo_tensor(indices, values, spec["shape"], check_invariants=False, is_coalesced=True)
    compressed = torch.sparse_compressed_tensor
    return compressed(starts, places, values, spec["shape"], layout=torch.sparse_csr, check_invariants=False)


def _block_matrix(spec: dict[str, Any], dtype: torch.dtype, device: str) -> torch.Tensor:
    """A matrix in BSR form: the indices' bytes tell how many rows of blocks there are, and so how high a block is."""
    (rows, columns), blocks = spec["shape"], spec["sparse"]
    for index_bytes in (8, 4):
        block_rows = spec["index_bytes"] // index_bytes - blocks - 1
        if min(blocks, block_rows) <= 0 or rows % block_rows or spec["elements"] % (blocks * (rows // block_rows)):
            continue
        high = rows // block_rows
        wide = spec["elements"] // (blocks * high)
        if columns % wide == 0:
            return _blocks(blocks, block_rows, (high, wide), spec["shape"], dtype, device)
    raise NotImplementedError("the blocks of a sparse tensor do not tile it")


def _blocks(
    blocks: int, block_rows: int, size: tuple[int, int], shape: list[int], dtype: torch.dtype, device: str
) -> torch.Tensor:
    starts = torch.arange(block_rows + 1, device=device) * blocks // block_rows
    places = torch.randint(0, shape[1] // size[1], (blocks,), device=device)
    values = torch.randn(blocks, *size, dtype=dtype, device=device)
    compressed = torch.sparse_compressed_tensor
    return compressed(starts, places, values, shape, layout=torch.sparse_bsr, check_invariants=False)


def _nested(spec: dict[str, Any], dtype: torch.dtype, device: str) -> torch.Tensor:
    """A nested tensor with the batch, the longest row, the numbers stored and, as nearly as a linear run of lengths
    can, the sum of the squares of the lengths."""
    batch, longest, *rest = spec["shape"]
    total = spec["elements"] // max(1, math.prod(rest))
    lengths = nested_lengths(batch, longest, total, spec["squares"])
    rows = [torch.randn(length, *rest, dtype=dtype, device=device) for length in lengths]
    return torch.nested.nested_tensor(rows)  # of a jagged one, the tensors inside are captured


def nested_lengths(batch: int, longest: int, total: int, squares: int) -> list[int]:
    """Lengths of a nested tensor's rows: one is `longest`, they add up to `total`, and their squares nearly to
    `squares`."""
    if batch <= 1:
        return [total] * batch
    left, rows = total - longest, batch - 1
    mean = left / rows
    spread = math.sqrt(max(0.0, (squares - longest**2) / rows - mean**2))
    # Evenly spaced lengths around the mean have this deviation if the outermost are so far from it.
    reach = spread * math.sqrt(3 * (rows - 1) / (rows + 1)) if rows > 1 else 0.0
    wanted = [mean + reach * (2 * i / max(1, rows - 1) - 1) for i in range(rows)]
    lengths = [min(longest, max(0, round(w))) for w in wanted]
    for i in itertools.cycle(range(rows)):
        gap = left - sum(lengths)
        if gap == 0 or all(n in (0, longest) for n in lengths):
            break
        lengths[i] = min(longest, max(0, lengths[i] + (gap > 0) - (gap < 0)))
    return [longest, *lengths]


@dataclass(slots=True)
class Replay:
    """Seconds per call and implementation of each cluster; None if it could not be run (`failures` has the reasons).
    `launches` are, on a GPU, the kernels of one call of each cluster, in the clusters' order."""

    times: list[float | None]
    kernels: list[str | None]
    launches: list[Launch] = field(default_factory=list)
    failures: list[list[str]] = field(default_factory=list)


def why_not_run(cluster: Cluster) -> str | None:
    """Why this call is not run again; None where it may be."""
    if not is_replayable(cluster.op):
        return "not an operator whose work is known"
    return misfit(cluster.op, cluster.args)


def call_of(cluster: Cluster, device: str) -> Callable[[], Any]:
    """The call of a cluster, with made-up arguments."""
    positional, keyword = arguments(cluster, device)
    return torch.no_grad()(partial(overload(cluster.op), *positional, **keyword))


def replay_clusters(clusters: tuple[Cluster, ...], *, device: str, progress: Callable[[float], None]) -> Replay:
    """Run a call of each cluster several times, with the caches flushed before each time.

    Raises MeasurementError for a call that needs more memory than there is. The process ends if an operator takes
    longer than `replay_limits.OPERATOR_LIMIT_S`.
    """
    limit = TimeLimit()
    try:
        with memory_limit(device):
            return _replayed(clusters, device, progress, limit)
    finally:
        limit.stop()


def _replayed(
    clusters: tuple[Cluster, ...], device: str, progress: Callable[[float], None], limit: TimeLimit
) -> Replay:
    replay = Replay([None] * len(clusters), [None] * len(clusters))
    refused = [why_not_run(cluster) for cluster in clusters]
    needed = [
        0 if why else needed_bytes(c, lambda c=c: call_of(c, "meta")())  # type: ignore[misc]
        for c, why in zip(clusters, refused, strict=True)
    ]
    require_memory(clusters, needed, device)
    overhead_s = event_overhead_s()
    flush = cache_flush(device)
    chunk: list[tuple[int, Any, list[Any], dict[str, Any]]] = []
    held = 0
    for index, cluster in enumerate(clusters):
        if (why := refused[index]) is not None:
            replay.failures.append([cluster.op, why])
            continue
        limit.begin(cluster.op)
        try:
            positional, keyword = arguments(cluster, device)
            function = overload(cluster.op)
            with torch.no_grad():
                function(*positional, **keyword)
        except Exception as error:  # an operator of another version or library: reported, not fatal
            replay.failures.append([cluster.op, f"{type(error).__name__}"])
            continue
        chunk.append((index, function, positional, keyword))
        held += _bytes(positional) + _bytes(list(keyword.values()))
        if held > CHUNK_BYTES or index == len(clusters) - 1:
            _time_chunk(chunk, flush, device, overhead_s, replay)
            chunk, held = [], 0
            progress((index + 1) / len(clusters))
    if chunk:
        _time_chunk(chunk, flush, device, overhead_s, replay)
    return replay


def count_clusters(clusters: tuple[Cluster, ...], *, device: str) -> None:
    """Run one call of each cluster that can be run, within ncu.RANGE. The kernels are those of `Replay.launches`."""
    for cluster in clusters:
        if why_not_run(cluster) is not None:
            continue
        try:
            call = call_of(cluster, device)
            call()
        except Exception:  # an operator that could not be timed either
            continue
        run_in_range(call, device)


def _time_chunk(
    chunk: list[tuple[int, Any, list[Any], dict[str, Any]]],
    flush: Callable[[], object],
    device: str,
    overhead_s: float,
    replay: Replay,
) -> None:
    def run_chunk() -> None:
        for index, function, positional, keyword in chunk:
            flush()
            with torch.no_grad(), torch.profiler.record_function(f"segment:{index}"):
                function(*positional, **keyword)

    calls = capture_step(run_chunk, device=device)
    profiled = partial(profile_step, run_chunk, calls, device=device, event_overhead_s=overhead_s)
    timelines = [profiled() for _ in range(REPEATS)]
    for i, call in enumerate(calls):
        if not call.segment:
            continue
        index = int(call.segment)
        samples = [time_s for line in timelines if (time_s := line.op_time_s[i]) is not None]
        if not samples:
            continue
        replay.times[index] = (replay.times[index] or 0.0) + median(samples)
        launched = timelines[-1].op_kernels[i]
        replay.kernels[index] = cuda_implementation(launched) if device == "cuda" else cpu_implementation(call.kernels)
        replay.launches += [
            Launch(cluster=index, family=kernel_family(k.name), time_s=k.elapsed_s)
            for k in sorted(launched, key=lambda k: k.start_ns)
            if not k.is_copy
        ]


def _bytes(values: list[Any]) -> int:
    total = 0
    for value in values:
        if isinstance(value, torch.Tensor):
            numel = value.numel() if value.layout == torch.strided else value._values().numel()
            total += numel * value.element_size()
        elif isinstance(value, list):
            total += _bytes(value)
    return total
