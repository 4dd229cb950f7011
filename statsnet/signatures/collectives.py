"""Collectives as data: which operators they are, what they move among how many processes, how a step waits for them."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Annotated, Any, Literal, Protocol, cast, get_args

from msgspec import Meta

from statsnet.signatures.categories import base_name, namespace
from statsnet.signatures.limits import MOST_PROCESSES, Seconds, Share, Size
from statsnet.signatures.operators import bytes_of
from statsnet.signatures.rounding import in_steps, rounded

Backend = Literal["gloo", "nccl", "other"]
BACKENDS = get_args(Backend)


def backend_of(name: str, device: str) -> Backend:
    """What moves the data of tensors on a kind of device, by torch's name of a group's backend: `nccl`, or
    `cpu:gloo,cuda:nccl` of a group that has one for each kind."""
    named = dict(part.strip().rpartition(":")[::2] for part in name.lower().split(","))
    found = named.get(device, named.get("", ""))
    return cast(Backend, found) if found in BACKENDS else "other"


_C10D = {
    ("all_reduce", 1): "allreduce_ allreduce_coalesced_",
    ("broadcast", 1): "broadcast_",
    ("reduce", 1): "reduce_",
    ("barrier", 1): "barrier monitored_barrier_",
    ("send", 1): "send",
    ("receive", 1): "recv_ recv_any_source_",
    ("all_gather", 2): "allgather_ _allgather_base_ allgather_coalesced_ allgather_into_tensor_coalesced_",
    ("reduce_scatter", 2): "reduce_scatter_ _reduce_scatter_base_ reduce_scatter_tensor_coalesced_",
    ("gather", 2): "gather_",
    ("scatter", 2): "scatter_",
    ("all_to_all", 2): "alltoall_ alltoall_base_",
}
_FUNCTIONAL = {
    ("all_reduce", 2): "all_reduce all_reduce_ all_reduce_coalesced all_reduce_coalesced_",
    ("all_gather", 2): "all_gather_into_tensor all_gather_into_tensor_out all_gather_into_tensor_coalesced",
    ("reduce_scatter", 3): "reduce_scatter_tensor reduce_scatter_tensor_out reduce_scatter_tensor_coalesced",
    ("all_to_all", 3): "all_to_all_single",
    ("broadcast", 2): "broadcast broadcast_",
    ("send", 3): "isend",
    ("receive", 3): "irecv",
    ("send_receive", 4): "batch_p2p_ops",
}
_SYMMETRIC_MEMORY = {
    ("all_reduce", 2): "one_shot_all_reduce one_shot_all_reduce_out two_shot_all_reduce_ two_shot_all_reduce_out "
    "multimem_all_reduce_ multimem_one_shot_all_reduce multimem_one_shot_all_reduce_out",
    ("all_reduce", 3): "one_shot_all_reduce_copy one_shot_all_reduce_copy_out",
    ("all_gather", 1): "multimem_all_gather_out",
    ("reduce_scatter", 1): "reduce_scatter_out",
    ("all_to_all", 2): "nvshmem_all_to_all",
    ("broadcast", 2): "nvshmem_broadcast",
}
"""Others of this library compute, too, or move what a single device asks for."""


def _table(rows: Mapping[tuple[str, int], str]) -> dict[str, tuple[str, int]]:
    return {name: row for row, names in rows.items() for name in names.split()}


_TABLES = {"c10d": _table(_C10D)} | dict.fromkeys(
    ("_c10d_functional", "_c10d_functional_autograd"), _table(_FUNCTIONAL)
)
_TABLES |= {"symm_mem": _table(_SYMMETRIC_MEMORY), "_dtensor": {"shard_dim_alltoall": ("all_to_all", 3)}}
"""By library and operator: what it does, and which of its arguments is the group."""


class Call(Protocol):
    """An operator's call, as a cluster holds it."""

    @property
    def op(self) -> str: ...
    @property
    def args(self) -> Sequence[Any]: ...
    @property
    def outputs(self) -> Sequence[Any]: ...


def is_collective(op: str) -> bool:
    """Whether an operator moves data between processes. One that waits for another's result moves none."""
    return _row(op) is not None


def kind_of(op: str) -> str:
    """What a collective does: `all_reduce`, `all_gather` …; the operator's own name if it is not known."""
    row = _row(op)
    return row[0] if row else base_name(op)


def encoded_group(ranks: Sequence[int], processes: int) -> int | list[int]:
    """What stands in place of a group among a call's arguments: how many ranks it has; of a group that does not have
    all `processes`, also how far these are apart. Ranks that are not evenly apart count as neighbours."""
    size = len(ranks)
    if size >= processes:
        return size
    steps = {after - before for before, after in pairwise(sorted(ranks))}
    return [size, max(steps.pop(), 1) if len(steps) == 1 else 1]


def group_size(call: Call) -> int | None:
    """How many processes take part, which stands in place of the group among the arguments; None if it is not known,
    as in some recordings."""
    group = _group(call)
    return group[0] if group else None


def group_stride(call: Call) -> int | None:
    """How far apart the ranks of a group are that does not have all processes of the step: 1 for neighbours. None for a
    group of all processes, and for one that is not known."""
    group = _group(call)
    return group[1] if group else None


def _group(call: Call) -> tuple[int, int | None] | None:
    row = _row(call.op)
    value = call.args[row[1]] if row and row[1] < len(call.args) else None
    size, stride = value if isinstance(value, list) and len(value) == 2 else (value, None)
    known = _positive(size)
    return None if known is None else (known, _positive(stride))


def _positive(value: Any) -> int | None:
    """A count of processes, or how far they are apart; None for anything else."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and 0 < value <= MOST_PROCESSES else None


def with_group(op: str, args: Sequence[Any], group: int | list[int] | None) -> list[Any]:
    """A collective's arguments with its group in its place, where they did not tell it."""
    row = _row(op)
    if row is None or group is None or row[1] >= len(args) or args[row[1]] is not None:
        return list(args)
    return [*args[: row[1]], group, *args[row[1] + 1 :]]


def message_bytes(call: Call) -> int:
    """Bytes of one call, as nccl-tests count them: of the tensor that is reduced or sent, of all that is gathered, of
    all that is scattered, also where this process has a part of it alone; none of a barrier. What crosses the network
    is that times a factor of the algorithm."""
    kind, sides = kind_of(call.op), [bytes_of([arg], []) for arg in call.args]
    if kind == "barrier":
        return 0
    if kind in ("gather", "scatter") and (parts := [n for n in sides if n]):
        sides.append((group_size(call) or 1) * min(parts))
    return max(*sides, bytes_of([], call.outputs), 0)


_RING = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}


def sent_bytes(call: Call) -> float | None:
    """Bytes that each process sends in one call around a ring: of n parts all but its own, twice where they are added
    up and given back. No algorithm sends less (nccl-tests, doc/PERFORMANCE.md). None where processes send different
    amounts, as in a broadcast, or the group is not known."""
    size, factor = group_size(call), _RING.get(kind_of(call.op))
    return None if size is None or factor is None else factor * (size - 1) / size * message_bytes(call)


def _row(op: str) -> tuple[str, int] | None:
    return _TABLES.get(namespace(op), {}).get(base_name(op))


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveTime:
    """The calls of one cluster in a mean step. `time_s` is from each call to the end of its work, `exposed_time_s` what
    of that this process spent without computing; `start_share` is the calls' mean place in the step, from 0 to 1."""

    cluster: Size
    time_s: Seconds
    exposed_time_s: Seconds
    start_share: Share

    @property
    def overlap(self) -> float | None:
        """Share of its time in which this process computed."""
        return 1 - min(self.exposed_time_s / self.time_s, 1.0) if self.time_s else None

    def scale_times(self, factor: float) -> CollectiveTime:
        return replace(self, time_s=factor * self.time_s, exposed_time_s=factor * self.exposed_time_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collectives:
    """How processes that made one step together waited for each other. All but the last two fields are of the first
    process; those have a value for each, by rank: its median undisturbed step, and its `exposed_time_s`. That is the
    exposed communication time: seconds in which a collective ran and the process computed nothing, each counted once.
    What moves the data counts with what is waited for another process; no clock of one process tells them apart."""

    processes: Annotated[int, Meta(ge=2, le=MOST_PROCESSES)]
    backend: Backend
    exposed_time_s: Seconds
    calls: Annotated[tuple[CollectiveTime, ...], Meta(max_length=20_000)]
    rank_step_latency_s: Annotated[tuple[Seconds, ...], Meta(max_length=MOST_PROCESSES)]
    rank_waiting_s: Annotated[tuple[Seconds, ...], Meta(max_length=MOST_PROCESSES)]

    @property
    def slowest_rank(self) -> int | None:
        """The one that waits least: the others wait for it."""
        waiting = self.rank_waiting_s
        return min(range(len(waiting)), key=waiting.__getitem__) if waiting else None

    @property
    def step_spread(self) -> float | None:
        """(Longest − shortest) ÷ median of the processes' steps."""
        steps = self.rank_step_latency_s
        return (max(steps) - min(steps)) / median(steps) if steps and median(steps) else None

    def scale_times(self, factor: float) -> Collectives:
        """The same on a machine that takes `factor` times as long."""
        return replace(
            self,
            exposed_time_s=factor * self.exposed_time_s,
            calls=tuple(c.scale_times(factor) for c in self.calls),
            rank_step_latency_s=tuple(factor * t for t in self.rank_step_latency_s),
            rank_waiting_s=tuple(factor * t for t in self.rank_waiting_s),
        )

    def moved(self, place: Mapping[int, int]) -> Collectives:
        """With clusters at other places; those that come to the same one are added up, those without one left out."""
        groups: dict[int, list[CollectiveTime]] = {}
        for call in self.calls:
            if call.cluster in place:
                groups.setdefault(place[call.cluster], []).append(call)
        return replace(self, calls=tuple(_added_up(cluster, groups[cluster]) for cluster in sorted(groups)))

    def without_order(self, kinds: Sequence[Hashable]) -> Collectives:
        """With one place in the step for all calls of clusters of one kind: the mean over their time, with two digits
        behind the point. `kinds` has one for each cluster."""
        groups: dict[Hashable, list[CollectiveTime]] = {}
        for call in self.calls:
            groups.setdefault(kinds[call.cluster], []).append(call)
        places = {kind: round(_added_up(0, parts).start_share, 2) for kind, parts in groups.items()}
        return replace(self, calls=tuple(replace(c, start_share=places[kinds[c.cluster]]) for c in self.calls))

    def coarse(self) -> Collectives:
        """Times with two digits, places with one; the number of processes as a power of two; of their times, only
        those of the extremes, in order."""

        def extremes(values: Sequence[float]) -> tuple[float, ...]:
            return tuple(rounded(v) for v in (min(values), max(values))) if values else ()

        return replace(
            self,
            processes=max(2, in_steps(self.processes, 2)),
            exposed_time_s=rounded(self.exposed_time_s),
            calls=tuple(
                replace(
                    c, time_s=rounded(c.time_s), exposed_time_s=rounded(c.exposed_time_s),
                    start_share=round(c.start_share, 1),
                )
                for c in self.calls
            ),
            rank_step_latency_s=extremes(self.rank_step_latency_s),
            rank_waiting_s=extremes(self.rank_waiting_s),
        )  # fmt: skip


def _added_up(cluster: int, parts: Sequence[CollectiveTime]) -> CollectiveTime:
    if len(parts) == 1:
        return replace(parts[0], cluster=cluster)
    total_s = math.fsum(p.time_s for p in parts)
    starts = [p.start_share * (p.time_s if total_s else 1.0) for p in parts]
    return CollectiveTime(
        cluster=cluster,
        time_s=total_s,
        exposed_time_s=math.fsum(p.exposed_time_s for p in parts),
        start_share=min(1.0, math.fsum(starts) / (total_s or len(parts))),
    )
