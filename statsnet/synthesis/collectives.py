"""The collectives of a proxy: placed by what the suite's add up to, not searched for.

In a step of T seconds a proxy owes T times what the mix asks for in a second. Of each operation there are as many
collectives as calls are owed, rounded, and one at least. The owed calls, in order of their size, are cut into so many
equal parts; each collective moves the bytes of one part. So bytes are exact, and only the number of calls is rounded.

Where a collective begins in its phase, and how much is computed until it is waited for, follow the suite's calls: one
whose process computed for 2 of its 10 ms is waited for after 2 ms of computing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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
from statsnet.signatures.rounding import PLACE_DIGITS, PRIVATE_DIGITS, rounded
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
    """Calls of one operation and size in a second of the target. A call takes `time_s`; for the share `overlap` of that
    its process computes. `place` is the calls' mean place in what their phase computes, from 0 to 1."""

    operation: str
    dtype: str
    phase: str
    nbytes: float
    calls_per_s: float
    time_s: float
    overlap: float
    place: float
    group_size: int | None = None
    group_stride: int | None = None

    @property
    def kind(self) -> tuple[str, int, int]:
        """Calls of one kind may be cut anew. Those of groups that are not of all processes are others."""
        size = self.group_size if self.group_stride else None
        return self.operation, size or 0, self.group_stride or 0


def asked_collectives(target: Target) -> list[AskedCollective]:
    """All that move data, and barriers. What sends and receives in one call counts as both."""
    members = {m.name: m for m in target.members}
    wanted = [c for c in target.clusters if is_collective(c.op) and group_size(c) != 1]
    clusters: dict[str, list[TargetCluster]] = {c.member: [] for c in wanted}
    for cluster in target.clusters:
        if cluster.member in clusters:
            clusters[cluster.member].append(cluster)
    spans = {name: _phase_spans(own) for name, own in clusters.items()}
    asked: list[AskedCollective] = []
    for cluster in wanted:
        whole = _asked(cluster, members[cluster.member], spans[cluster.member])
        both = ("send", "receive") if whole.operation == "send_receive" else ()
        asked += [replace(whole, operation=o, nbytes=whole.nbytes / 2) for o in both] or [whole]
    return asked


def _asked(cluster: TargetCluster, member: TargetMember, spans: Mapping[str, tuple[float, float]]) -> AskedCollective:
    timed, nbytes = _timed(cluster, member), message_bytes(cluster)
    phase = _phase(cluster)
    begin, end = spans[phase]
    spent = cluster.time_share if timed is None else member.steps_per_s * timed.time_s  # in a second of the target
    place = 0.5 if timed is None else (timed.start_share - begin) / max(end - begin, 1e-9)
    return AskedCollective(
        operation=kind_of(cluster.op),
        dtype=_moved_as(dtype_of(cluster.args, cluster.outputs)) if nbytes else "uint8",
        phase=phase,
        nbytes=float(nbytes),
        calls_per_s=cluster.calls_per_s,
        time_s=spent / cluster.calls_per_s if cluster.calls_per_s > 0 else 0.0,
        overlap=_overlap(member) if timed is None else timed.overlap or 0.0,
        place=min(max(place, 0.0), 1.0),
        group_size=group_size(cluster),
        group_stride=group_stride(cluster),
    )


def _phase(cluster: TargetCluster) -> str:
    """The phase of a proxy's step in which such calls are made. Its optimizers follow the backward pass."""
    return "forward" if cluster.phase in ("input", "forward") else "backward"


def _phase_spans(clusters: Sequence[TargetCluster]) -> dict[str, tuple[float, float]]:
    """Where each phase begins and ends in a member's step, as shares of it, by the time of its operators."""
    times = {p: math.fsum(c.time_share for c in clusters if _phase(c) == p and c.phase != "optimizer") for p in PHASES}
    whole = math.fsum(c.time_share for c in clusters) or 1.0
    forward, both = times["forward"] / whole, (times["forward"] + times["backward"]) / whole
    return {"forward": (0.0, forward), "backward": (forward, both)}


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


AWAITED_AT_END = 0.9
"""Calls whose process computes for a larger share of their time are waited for at the phase's end."""


def placed_collectives(
    target: Target, step_s: float, *, asked: Sequence[AskedCollective] | None = None, beside: float = 1.0
) -> tuple[SpecCollective, ...]:
    """Those of a step of `step_s` seconds, in their order within it, of what a target asks for. An inference step has a
    forward phase alone. Sizes that follow from private members are rounded. What is computed between a collective's
    begin and its end is multiplied by `beside`."""
    asked = asked_collectives(target) if asked is None else asked
    computing_s = {p: step_s * computing_share(target) * s for p, s in _phase_shares(target).items()}
    order = {operation: i for i, operation in enumerate(OPERATORS)}
    asked = [a for a in asked if a.nbytes > 0 or a.operation in WITHOUT_DATA]
    kinds = sorted({a.kind for a in asked if a.operation in order}, key=lambda kind: (order[kind[0]], kind))
    placed = [
        _placed(part, computing_s, beside=beside, is_training=target.mode == "training", is_private=target.is_private)
        for kind in kinds
        for part in _parts([a for a in asked if a.kind == kind], step_s)
    ]
    made = [p for p in placed if p.elements > 0 or p.operation in WITHOUT_DATA]
    made.sort(key=lambda p: (PHASES.index(p.phase), p.begins_at))
    equal = [list(group) for _, group in groupby(made)]
    return tuple(replace(group[0], count=len(group)) for group in equal)


def _phase_shares(target: Target) -> dict[str, float]:
    """Each phase's share of what a process computes."""
    spans = _phase_spans([c for c in target.clusters if not is_collective(c.op)])
    return {phase: end - begin for phase, (begin, end) in spans.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Owed:
    """So many owed calls of one kind, at a place in what their phase computes."""

    asked: AskedCollective
    calls: float
    place: float


def _placed(
    part: Sequence[_Owed], computing_s: Mapping[str, float], *, beside: float, is_training: bool, is_private: bool
) -> SpecCollective:
    """One collective that stands for a part of the owed calls."""
    most = max(part, key=lambda owed: owed.asked.nbytes * owed.calls).asked
    phase = most.phase if is_training else "forward"
    nbytes = math.fsum(o.asked.nbytes * o.calls for o in part)
    time_s = math.fsum(o.asked.time_s * o.calls for o in part)
    beside_s = math.fsum(o.asked.overlap * o.asked.time_s * o.calls for o in part)
    share = min(beside * beside_s / computing_s[phase], 1.0) if computing_s[phase] > 0 else 0.0
    there = [o for o in part if o.asked.phase == phase or not is_training]
    place = math.fsum(o.place * o.calls for o in there) / math.fsum(o.calls for o in there)
    begin = min(place, 1 - share)
    end = 1.0 if beside_s > AWAITED_AT_END * time_s else begin + share
    nbytes = rounded(nbytes, PRIVATE_DIGITS) if is_private else nbytes
    return SpecCollective(
        operation=most.operation,
        elements=round(nbytes / ITEM_SIZE.get(most.dtype, 4)),
        dtype=most.dtype,
        phase=phase,  # type: ignore[arg-type]
        begins_at=round(begin, PLACE_DIGITS),
        awaited_at=round(end, PLACE_DIGITS),
        group_size=most.group_size,
        group_stride=most.group_stride,
    )


def _parts(asked: Sequence[AskedCollective], step_s: float) -> Iterator[list[_Owed]]:
    """The owed calls of one operation in equal parts, one for each collective. Calls of one size are spread evenly
    about their mean place."""
    owed = step_s * math.fsum(a.calls_per_s for a in asked)
    if not owed > 0:
        return
    count = max(1, round(owed))
    ends: list[tuple[float, float, AskedCollective]] = []
    begin = 0.0
    for a in sorted(asked, key=lambda a: (a.phase, a.overlap, a.dtype, a.nbytes)):
        ends.append((begin, begin + step_s * a.calls_per_s, a))
        begin = ends[-1][1]
    for i in range(count):
        low, high = owed * i / count, owed * (i + 1) / count
        yield [
            _Owed(asked=a, calls=min(end, high) - max(start, low), place=_place(a, start, end, low, high))
            for start, end, a in ends
            if min(end, high) > max(start, low)
        ]


def _place(asked: AskedCollective, start: float, end: float, low: float, high: float) -> float:
    """Of those calls between `low` and `high`, where all that are asked for lie from `start` to `end`."""
    middle = ((max(start, low) + min(end, high)) / 2 - start) / (end - start)
    return asked.place + (2 * middle - 1) * min(asked.place, 1 - asked.place)


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
    overlap = _overlap_asked(asked)
    own_overlap = _overlap_of(measured) if measured else None
    rows.append(row(name=OVERLAP, unit="share of their time", target=overlap, achieved=own_overlap, bar=OVERLAP_BAR))
    return tuple(rows)


def _overlap_asked(asked: Sequence[AskedCollective]) -> float | None:
    """Share of the collectives' time, each call's from its begin to its end, in which a process computes."""
    spent = math.fsum(a.calls_per_s * a.time_s for a in asked)
    return math.fsum(a.calls_per_s * a.time_s * a.overlap for a in asked) / spent if spent > 0 else None


def _overlap_of(measured: Measurement) -> float | None:
    """The same, of a measured network."""
    calls = measured.collectives.calls if measured.collectives else ()
    spent_s = math.fsum(c.time_s for c in calls)
    return 1 - math.fsum(min(c.exposed_time_s, c.time_s) for c in calls) / spent_s if spent_s > 0 else None
