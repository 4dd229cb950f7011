"""Events of a profiled step that are work and belong to no captured call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from statsnet.measure.profiler_events import PACKAGED, Event
from statsnet.profiling.capture import OpCall
from statsnet.profiling.event_names import computes, event_name, is_stopped, joined_name

_TAKES_GRADIENTS = "torch::autograd::AccumulateGrad"
"""Autograd copies a gradient or takes it over, depending on who else holds it at that moment: so a profiled step may
have copies that the captured one lacks, and nothing is hidden in them."""


def work_beside(roots: Iterable[Event], taken: Collection[int], calls: Iterable[OpCall]) -> dict[str, float]:
    """Seconds by name of the outermost operators that belong to none of these calls; `taken` are the ids of the events
    that do."""
    known = {event_name(call) for call in calls if call.metadata}
    seconds: dict[str, float] = defaultdict(float)
    for root in roots:
        _add(root, taken, known, seconds)
    return seconds


def _add(event: Event, taken: Collection[int], known: Collection[str], seconds: dict[str, float]) -> bool:
    """Add the time of those within this event. True if it holds a call."""
    if id(event) in taken:
        return True
    if event.name == PACKAGED:  # few of its operators are seen, such as copies
        seconds[PACKAGED] += event.elapsed_s
        return False
    if event.name.endswith(_TAKES_GRADIENTS) or is_stopped(event):
        return False
    inside: dict[str, float] = defaultdict(float)
    holds = [_add(child, taken, known, inside) for child in event.children]
    if not any(holds) and joined_name(event) in known:
        return False  # the work of a captured call that as a rule has none: a sparse tensor's view is a copy
    if not any(holds) and computes(event.name):
        seconds[event.name] += event.elapsed_s
        return False
    for name, time_s in inside.items():
        seconds[name] += time_s
    return any(holds)
