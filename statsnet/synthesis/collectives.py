"""The collectives of a proxy: placed by what the suite's add up to, not searched for.

In a step of T seconds a proxy owes T times what the mix asks for in a second. Of each operation there are as many
collectives as calls are owed, rounded, and one at least. The owed calls, in order of their size, are cut into so many
equal parts; each collective moves the bytes of one part. So bytes are exact, and only the number of calls is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from statsnet.blocks.collective import OPERATORS, PHASES, WITHOUT_DATA
from statsnet.signatures.collectives import (
    CollectiveTime,
    group_size,
    group_stride,
    is_collective,
    kind_of,
    message_bytes,
)
from statsnet.signatures.computing import computing_share, exposed_s
from statsnet.signatures.documents import COLLECTIVE_GROUP, Characteristic, SpecCollective
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.operators import ITEM_SIZE, REAL, dtype_of
from statsnet.signatures.rounding import PRIVATE_DIGITS, rounded
from statsnet.signatures.target import Target, TargetMember
from statsnet.signatures.target_cluster import TargetCluster

WAITING, OVERLAP = "waiting for collectives", "collectives beside computation"
"""Names of the two rows of fit.json that are shares."""

COUNTED_BAR, WAITING_BAR, OVERLAP_BAR = 0.05, 0.03, 0.05
"""The largest errors of bytes and calls, as shares of what is asked for, and of the two shares, as differences."""

MOVED = frozenset({"float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool"})
"""Dtypes that both gloo and NCCL add up."""

CALLS_ERROR = 0.02
"""A step is made so long that no operation's calls are rounded by a larger share. A measured step may be 3 % longer or
shorter than its budget (trials.STEP_TOLERANCE), and with both calls should be within COUNTED_BAR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedCollective:
    """Calls of one operation and size in a second of the target, in which a process computes or not. `start_share` is
    their place in the step."""

    operation: str
    dtype: str
    phase: str
    overlapped: bool
    nbytes: float
    calls_per_s: float
    start_share: float
    group_size: int | None = None
    group_stride: int | None = None

    @property
    def kind(self) -> tuple[str, int, int]:
        """Calls of one kind may be cut anew. Those of groups that are not of all processes are others."""
        size = self.group_size if self.group_stride else None
        return self.operation, size or 0, self.group_stride or 0


def asked_collectives(target: Target) -> list[AskedCollective]:
    """All that move data, and barriers. What sends and receives in one call counts as both. A call that overlaps with
    computation for a share of its time counts as that share of a call that does, and as the rest of one that does not.
    """
    members = {m.name: m for m in target.members}
    asked: list[AskedCollective] = []
    for cluster in target.clusters:
        if not is_collective(cluster.op) or group_size(cluster) == 1:
            continue
        kind, nbytes = kind_of(cluster.op), message_bytes(cluster)
        for asked_for in _halves(cluster, nbytes, members[cluster.member]):
            both = ("send", "receive") if kind == "send_receive" else ()
            asked += [replace(asked_for, operation=o, nbytes=nbytes / 2) for o in both] or [asked_for]
    return asked


def _halves(cluster: TargetCluster, nbytes: int, member: TargetMember) -> Iterator[AskedCollective]:
    timed = _timed(cluster, member)
    overlap = _overlap(member) if timed is None else timed.overlap or 0.0
    whole = AskedCollective(
        operation=kind_of(cluster.op),
        dtype=_moved_as(dtype_of(cluster.args, cluster.outputs)) if nbytes else "uint8",
        phase="forward" if cluster.phase in ("input", "forward") else "backward",
        overlapped=True,
        nbytes=float(nbytes),
        calls_per_s=cluster.calls_per_s,
        start_share=0.5 if timed is None else timed.start_share,
        group_size=group_size(cluster),
        group_stride=group_stride(cluster),
    )
    for overlapped, share in ((True, overlap), (False, 1 - overlap)):
        if share > 0:
            yield replace(whole, overlapped=overlapped, calls_per_s=share * whole.calls_per_s)


def _moved_as(dtype: str) -> str:
    """The dtype in which a proxy moves such elements: complex ones as their parts, as torch does, and as bytes what
    gloo or NCCL does not know."""
    real = REAL.get(dtype, dtype)
    return real if real in MOVED else "uint8"


def _timed(cluster: TargetCluster, member: TargetMember) -> CollectiveTime | None:
    known = member.measurement.collectives
    return next((c for c in known.calls if c.cluster == cluster.cluster), None) if known else None


def _overlap(member: TargetMember) -> float:
    """Of a member whose collectives were not timed one by one, as in aggregates: of all together."""
    times = zip(member.signature.clusters, member.measurement.cluster_time_s, strict=True)
    spent_s = math.fsum(t or 0.0 for c, t in times if is_collective(c.op))
    return max(0.0, 1 - exposed_s(member.signature, member.measurement) / spent_s) if spent_s > 0 else 0.0


def placed_collectives(
    asked: Sequence[AskedCollective], step_s: float, *, mode: str, is_private: bool = False
) -> tuple[SpecCollective, ...]:
    """Those of a step of `step_s` seconds, in their order within it. An inference step has a forward phase alone. Sizes
    that follow from private members are rounded."""
    placed: list[tuple[float, SpecCollective]] = []
    order = {operation: i for i, operation in enumerate(OPERATORS)}
    asked = [a for a in asked if a.nbytes > 0 or a.operation in WITHOUT_DATA]
    kinds = sorted({a.kind for a in asked if a.operation in order}, key=lambda kind: (order[kind[0]], kind))
    for kind in kinds:
        for part in _parts([a for a in asked if a.kind == kind], step_s):
            most = max(part, key=lambda entry: entry[0].nbytes * entry[1])[0]
            nbytes = math.fsum(a.nbytes * calls for a, calls in part)
            nbytes = rounded(nbytes, PRIVATE_DIGITS) if is_private else nbytes
            elements = round(nbytes / ITEM_SIZE.get(most.dtype, 4))
            if elements < 1 and most.operation not in WITHOUT_DATA:
                continue
            phase = most.phase if mode == "training" else "forward"
            made = SpecCollective(operation=most.operation, elements=elements, dtype=most.dtype, phase=phase,  # type: ignore[arg-type]
                                  overlapped=most.overlapped, group_size=most.group_size,
                                  group_stride=most.group_stride, count=1)  # fmt: skip
            placed.append((most.start_share, made))
    placed.sort(key=lambda entry: (PHASES.index(entry[1].phase), entry[0]))
    equal = [list(group) for _, group in groupby(made for _, made in placed)]
    return tuple(replace(group[0], count=len(group)) for group in equal)


def _parts(asked: Sequence[AskedCollective], step_s: float) -> Iterator[list[tuple[AskedCollective, float]]]:
    """The owed calls of one operation in equal parts, one for each collective: what is in it, and how many calls."""
    owed = step_s * math.fsum(a.calls_per_s for a in asked)
    if not owed > 0:
        return
    count = max(1, round(owed))
    ends: list[tuple[float, float, AskedCollective]] = []
    begin = 0.0
    for a in sorted(asked, key=lambda a: (a.phase, a.overlapped, a.dtype, a.nbytes)):
        ends.append((begin, begin + step_s * a.calls_per_s, a))
        begin = ends[-1][1]
    for i in range(count):
        low, high = owed * i / count, owed * (i + 1) / count
        yield [(a, min(end, high) - max(start, low)) for start, end, a in ends if min(end, high) > max(start, low)]


def step_of_whole_calls(asked: Sequence[AskedCollective], least_s: float, most_s: float) -> float:
    """A step from `least_s` to `most_s`: one of the two, or one between them in which some operation's calls are whole.
    Of these, the shortest in which no operation's calls are rounded by more than CALLS_ERROR; if there is none, the one
    in which they are rounded least. Barriers, and calls of unknown sizes, do not make a step longer."""
    sums = (
        math.fsum(a.calls_per_s for a in asked if a.kind == kind)
        for kind in sorted({a.kind for a in asked if a.operation in OPERATORS and a.nbytes > 0})
    )
    rates = [rate for rate in sums if rate > 0]
    if not rates or most_s <= least_s:
        return least_s
    most_calls = math.ceil(0.5 / CALLS_ERROR)  # from so many on, rounding is within the bar
    aims = (calls / rate for rate in rates for calls in range(1, most_calls + 1))
    steps = sorted({least_s, most_s, *(s for s in aims if least_s <= s <= most_s)})
    errors = {s: max(abs(max(1, round(rate * s)) / (rate * s) - 1) for rate in rates) for s in steps}
    good = (s for s in steps if errors[s] <= CALLS_ERROR * (1 + 1e-9))
    return next(good, min(steps, key=lambda s: (errors[s], s)))


def communication_rows(
    target: Target, placed: Sequence[SpecCollective], step_s: float, measured: Measurement | None
) -> tuple[Characteristic, ...]:
    """Rows of fit.json. Bytes and calls are counted, per second of a step of `step_s`: as long as the proxy computes in
    one process, and as it should wait. How long it does wait is known only if several processes were `measured`."""
    asked = asked_collectives(target)
    if not asked:
        return ()
    row, rows = partial(Characteristic, group=COLLECTIVE_GROUP), []
    for operation in sorted({a.operation for a in asked}):
        mine, made = [a for a in asked if a.operation == operation], [p for p in placed if p.operation == operation]
        wanted = math.fsum(a.calls_per_s * a.nbytes for a in mine), math.fsum(a.calls_per_s for a in mine)
        found = sum(p.count * p.nbytes for p in made) / step_s, sum(p.count for p in made) / step_s
        for what, unit, asked_for, achieved in zip(("bytes", "calls"), ("B/s", "1/s"), wanted, found, strict=True):
            if what == "bytes" and operation in WITHOUT_DATA:
                continue
            name = f"{operation} {what}"
            rows.append(row(name=name, target=asked_for, achieved=achieved, unit=unit, bar=COUNTED_BAR))
    known = measured.collectives if measured else None
    exposed = None if known is None or measured is None else known.exposed_time_s / measured.latency_s
    waiting = 1 - computing_share(target)
    rows.append(row(name=WAITING, unit="share of step", target=waiting, achieved=exposed, bar=WAITING_BAR))
    overlap = _overlap_of([(m.steps_per_s, m.measurement) for m in target.members])
    own_overlap = _overlap_of([(1.0, measured)] if measured else [])
    rows.append(row(name=OVERLAP, unit="share of their time", target=overlap, achieved=own_overlap, bar=OVERLAP_BAR))
    return tuple(rows)


def _overlap_of(steps: Sequence[tuple[float, Measurement]]) -> float | None:
    """Share of the collectives' time, each call's from its begin to its end, in which a process computes."""
    calls = [(n, c) for n, m in steps if m.collectives is not None for c in m.collectives.calls]
    spent_s = math.fsum(n * c.time_s for n, c in calls)
    exposed = math.fsum(n * min(c.exposed_time_s, c.time_s) for n, c in calls)
    return 1 - exposed / spent_s if spent_s > 0 else None
