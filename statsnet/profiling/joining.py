"""Times from profiled steps to the calls of captured steps that may have had other inputs.

A profiled step whose operators and shapes are those of a step captured before is joined to it call by call.
All events are also pooled by operator, phase and input shapes. A call gets the median of its own samples,
else the mean of its pool. If its shapes never occurred in a profiled step, its time is estimated: its number of
elements times the operator's time per element at other shapes.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import NamedTuple

from statsnet.measure.profiler_events import Event, StepEvents
from statsnet.profiling.capture import OpCall
from statsnet.profiling.collective_times import Wait, mean_wait
from statsnet.profiling.event_names import event_name, joined_name
from statsnet.profiling.kernels import cpu_implementation, cuda_implementation
from statsnet.profiling.loop_phases import OPTIMIZER_RANGES, optimizer_places
from statsnet.profiling.timeline import join_in_order, saved_copy, times_of
from statsnet.signatures.operators import is_tensor

Shapes = tuple[tuple[int, ...], ...]
Key = tuple[str, str, Shapes]
"""Operator as the profiler names it, phase, shapes of the tensor arguments (none for lists of tensors)."""


@dataclass(slots=True, kw_only=True)
class Variant:
    """A captured step, and how many captured steps made the same calls. Steps of different `kind` are kept apart.
    `made` counts its calls by the profiler's name and the shapes."""

    calls: list[OpCall]
    keys: list[Key | None]
    times: int = 1
    kind: int = 0
    made: Counter[tuple[str, Shapes]] = field(default_factory=Counter)

    @classmethod
    def of(cls, calls: list[OpCall], kind: int = 0) -> Variant:
        keys = [None if c.metadata else _key(c) for c in calls]
        return cls(calls=calls, keys=keys, kind=kind, made=Counter((key[0], key[2]) for key in keys if key))


@dataclass(slots=True, kw_only=True)
class JoinedSteps:
    """Results of the profiled steps: implementations by variant and call, latencies, means over the steps."""

    implementations: list[list[str]]
    step_s: list[float]
    framework_s: float
    idle_s: float
    kernels_launched: int
    recording_s: float
    estimated_share: float
    waits: list[list[Wait]] = field(default_factory=list)


@dataclass(slots=True)
class _Samples:
    time_s: list[float] = field(default_factory=list)
    kernels: Counter[str] = field(default_factory=Counter)

    def add(self, time_s: float, kernel: str) -> None:
        self.time_s.append(time_s)
        self.kernels[kernel] += 1


class StepJoin:
    """Takes captured and profiled steps in any order; the first one should be captured.

    Each step is reduced to numbers at once, because thousands of event objects would slow down the garbage
    collector and with it the following steps.
    """

    def __init__(self, *, device: str, event_overhead_s: float) -> None:
        self.variants: list[Variant] = []
        self._device = device
        self._overhead_s = event_overhead_s
        self._known: set[Key] = set()
        self._exact: dict[tuple[int, int], _Samples] = defaultdict(_Samples)
        self._pooled: dict[Key, _Samples] = defaultdict(_Samples)
        self._waits: dict[tuple[int, int] | Key, list[Wait]] = defaultdict(list)
        self._steps: list[_ProfiledStep] = []

    def add_captured(self, calls: list[OpCall], kind: int = 0) -> None:
        """Add a step to those with the same calls, or as a variant of its own."""
        variant = Variant.of(calls, kind)
        for other in self.variants:
            if other.keys == variant.keys and other.kind == kind:
                other.times += 1
                return
        self.variants.append(variant)
        self._known.update(key for key in variant.keys if key is not None)

    def add_profiled(self, step: StepEvents) -> int:
        """Add the times of a step, profiled with shapes; and say how many calls it made."""
        number, matched = _same_step(self.variants, step)
        if number is None:
            leaves = _with_optimizer(list(_leaves(step, self._known)), step)
            matched = {i: event for i, (event, _) in enumerate(leaves)}
            keys: list[Key | None] = [key for _, key in leaves]
        else:
            keys = self.variants[number].keys
        timeline = times_of(
            step, matched, len(keys), len(matched), device=self._device, event_overhead_s=self._overhead_s
        )
        for i, key in enumerate(keys):
            if key is not None and (time_s := timeline.op_time_s[i]) is not None:
                kernel = cuda_implementation(timeline.op_kernels[i])
                self._pooled[key].add(time_s, kernel)
                if number is not None:
                    self._exact[number, i].add(time_s, kernel)
        for wait in timeline.waits.each:
            if (key := keys[wait.call]) is not None:
                self._waits[key].append(wait)
                if number is not None:
                    self._waits[number, wait.call].append(wait)
        launched = sum(len(k) for k in timeline.op_kernels)
        self._steps.append(
            _ProfiledStep(timeline.step_s, timeline.framework_s, timeline.idle_s, launched, timeline.events)
        )
        return len(matched)

    @property
    def lacks_times(self) -> bool:
        """Whether some call of a captured step is like none in the profiled ones."""
        return any(key not in self._pooled for variant in self.variants for key in variant.keys if key is not None)

    def finish(self) -> JoinedSteps:
        """Set `time_s` of every call of the variants."""
        estimated = total = 0.0
        implementations = []
        for number, variant in enumerate(self.variants):
            own = [self._exact.get((number, i)) for i in range(len(variant.calls))]
            estimated += variant.times * _set_times(variant, own, self._pooled)
            total += variant.times * sum(c.time_s or 0.0 for c in variant.calls)
            implementations.append(_implementations(variant, own, self._pooled, self._device))
        return JoinedSteps(
            implementations=implementations,
            step_s=[s.step_s for s in self._steps],
            framework_s=fmean(s.framework_s for s in self._steps),
            idle_s=fmean(s.idle_s for s in self._steps),
            kernels_launched=math.ceil(fmean(s.launched for s in self._steps)),
            recording_s=self._overhead_s * fmean(s.events for s in self._steps),
            estimated_share=estimated / total if total else 0.0,
            waits=[self._waits_of(number, variant) for number, variant in enumerate(self.variants)],
        )

    def _waits_of(self, number: int, variant: Variant) -> list[Wait]:
        """The collectives of a captured step: from profiled steps like it, else from others of their shapes."""
        found = []
        for i, key in enumerate(variant.keys):
            samples = self._waits.get((number, i)) or (self._waits.get(key, []) if key else [])
            found += [mean_wait(i, samples, len(samples))] if samples else []
        return found


class _ProfiledStep(NamedTuple):
    step_s: float
    framework_s: float
    idle_s: float
    launched: int
    events: int


NEAREST = 3
"""A step is compared with so many captured ones. A loop may have captured dozens, each of another length."""


def nearest_variants(variants: Sequence[Variant], step: StepEvents) -> list[int]:
    """The places of those that the step most likely is, by the names and shapes of their calls: first those of which it
    lacks the fewest, the longest of these first."""
    made = Counter((joined_name(event), _event_shapes(event)) for event in step.inside)

    def distance(place: int) -> tuple[int, int]:
        wanted = variants[place].made
        return (wanted - made).total(), -wanted.total()

    return sorted(range(len(variants)), key=distance)[:NEAREST]


def _same_step(variants: list[Variant], step: StepEvents) -> tuple[int | None, dict[int, Event]]:
    """The variant whose calls the step made, at the same shapes, and the events of its calls."""
    for number in nearest_variants(variants, step):
        variant = variants[number]
        matched = join_in_order(step, variant.calls)
        if matched is None or _does_more(step, variant, matched):
            continue
        pairs = ((event, variant.keys[i]) for i, event in matched.items())
        if all(key is None or _event_shapes(event) == key[2] for event, key in pairs):
            return number, matched
    return None, {}


def event_shapes(step: StepEvents, calls: list[OpCall]) -> list[Shapes] | None:
    """The shapes at which a step, profiled with shapes, made exactly these calls; None if it made others."""
    matched = join_in_order(step, calls)
    return (
        None
        if matched is None
        else [_event_shapes(event) for _, event in sorted(matched.items(), key=lambda item: item[0])]
    )


def _does_more(step: StepEvents, variant: Variant, matched: dict[int, Event]) -> bool:
    """Whether one of the variant's operators occurs beside the events that are matched."""
    names = {key[0] for key in variant.keys if key is not None}
    taken = {id(event) for event in matched.values()}
    around: set[int] = set()
    for root in step.roots:
        _find_around(root, taken, around)
    stack = list(step.roots)
    while stack:
        event = stack.pop()
        if id(event) in taken:
            continue
        if joined_name(event) in names and id(event) not in around:
            return True
        stack.extend(event.children)
    return False


def _find_around(event: Event, taken: set[int], around: set[int]) -> bool:
    """Add to `around` the events, from this one down, that hold one of `taken`. True if this one holds or is one."""
    inside = [_find_around(child, taken, around) for child in event.children]
    if any(inside):
        around.add(id(event))
    return any(inside) or id(event) in taken


def _leaves(step: StepEvents, known: set[Key]) -> Iterator[tuple[Event, Key]]:
    """Events of the captured operators with their keys, in order. If events of one name are nested, the outermost
    counts, unless only an inner one was captured."""
    names = {name for name, _, _ in known}
    stack = [(event, "forward") for event in reversed(step.roots)]
    while stack:
        event, outer_phase = stack.pop()
        phase = _phase(event, outer_phase)
        name = joined_name(event)
        key = (name, phase, _event_shapes(event))
        if key in known or (name in names and not _holds(event, event.name)):
            if (copy := saved_copy(event)) is not None and joined_name(copy) in names:
                yield copy, (joined_name(copy), phase, _event_shapes(copy))
            yield event, key
        else:
            stack.extend((child, phase) for child in reversed(event.children))


def _phase(event: Event, outer: str) -> str:
    if event.name.startswith("autograd::engine::"):
        return "backward"
    return "optimizer" if event.name.startswith(OPTIMIZER_RANGES) else outer


def _with_optimizer(leaves: list[tuple[Event, Key]], step: StepEvents) -> list[tuple[Event, Key]]:
    """The same leaves; those that a capture counts to the optimizer, outside its ranges, are the optimizer's."""
    calls = [(event.start_ns, i, key[0].replace("::", "."), key[1]) for i, (event, key) in enumerate(leaves)]
    begun = [(event.start_ns, event.name) for event in step.inside if event.name.startswith(OPTIMIZER_RANGES)]
    found = optimizer_places(calls, begun)
    return [(event, (key[0], "optimizer", key[2]) if i in found else key) for i, (event, key) in enumerate(leaves)]


def _holds(event: Event, name: str) -> bool:
    """An operator may run the one of its name that is not in place, or is; that is its own work."""
    return any(c.name == name or _holds(c, name) for c in event.children)


def _set_times(variant: Variant, own: list[_Samples | None], pooled: dict[Key, _Samples]) -> float:
    """Set the calls' times; return how many of these seconds are estimates."""
    estimated = 0.0
    for call, key, samples in zip(variant.calls, variant.keys, own, strict=True):
        if key is None:
            call.time_s = 0.0
        elif samples is not None:
            call.time_s = median(samples.time_s)
        elif key in pooled:
            call.time_s = fmean(pooled[key].time_s)
        else:
            call.time_s = _estimate(key, pooled)
            estimated += call.time_s or 0.0
    return estimated


def _estimate(key: Key, pooled: dict[Key, _Samples]) -> float | None:
    """Seconds estimated from the operator's other shapes; None if it was never profiled in this phase."""
    others = [
        (_numel(shapes), fmean(samples.time_s))
        for (name, phase, shapes), samples in pooled.items()
        if (name, phase, len(shapes)) == (key[0], key[1], len(key[2]))
    ]
    if not others:
        return None
    return _numel(key[2]) * sum(time_s for _, time_s in others) / sum(numel for numel, _ in others)


def _implementations(
    variant: Variant, own: list[_Samples | None], pooled: dict[Key, _Samples], device: str
) -> list[str]:
    if device != "cuda":
        return [cpu_implementation(call.kernels) for call in variant.calls]
    names = []
    for key, samples in zip(variant.keys, own, strict=True):
        samples = samples or (pooled.get(key) if key is not None else None)
        names.append(samples.kernels.most_common(1)[0][0] if samples else "unknown")
    return names


def _key(call: OpCall) -> Key:
    shapes = tuple(tuple(a["shape"]) for a in call.args if is_tensor(a) and a["shape"])
    return (event_name(call), call.phase, shapes)


def _event_shapes(event: Event) -> Shapes:
    """Shapes of an event's tensor arguments. For any other argument the profiler gives an empty shape."""
    return tuple(tuple(s) for s in event.shapes if s and not isinstance(s[0], (list, tuple)))


def _numel(shapes: Shapes) -> int:
    return sum(math.prod(s) for s in shapes) or 1
