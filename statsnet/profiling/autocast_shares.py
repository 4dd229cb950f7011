"""Which operators work in lower precision when torch's autocast is on: a sum with a residual mostly does not."""

from __future__ import annotations

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from statsnet.environment.memory import memory_at_hand_bytes
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.conversion import plain
from statsnet.signatures.model import Cluster, Signature, round_autocast_share
from statsnet.signatures.operators import tensors_of
from statsnet.workloads import Step

FULL, LOWER = "float32", ("bfloat16", "float16")
"""Autocast turns the one dtype into the others, and leaves all else alone."""

LONGEST_S = 2.0
"""No step that takes longer runs once more: without instructions for the lower precision it may take ten times as
long."""

MOST_MEMORY = 0.5
"""Nor, on a CPU, one that took more than this share of what memory is free now: autocast keeps copies."""

Phases = Callable[[Callable[[str], None] | None], None]


def with_autocast_shares(signature: Signature, step: Step, device: str, phases: Phases) -> Signature:
    """The signature of a measured step, whose clusters know how they work under autocast. The step runs once more,
    untimed. A model that fails under autocast, or whose step is long or large, leaves the signature as it is."""
    if signature.measurements[0].latency_s > LONGEST_S or all(FULL not in _dtypes(c.args) for c in signature.clusters):
        return signature
    if device == "cpu" and (signature.memory.peak_bytes or 0) > MOST_MEMORY * memory_at_hand_bytes():
        return signature
    return told_of_autocast(signature, step, device, phases)


def with_known_shares(signature: Signature, known: Signature) -> Signature | None:
    """The signature, told by another one of the same work. None if that lacks one of its clusters, or does not know."""
    shares = {_identity(c): c.autocast_share for c in known.clusters}
    identities = [_identity(c) for c in signature.clusters]
    if not shares.keys() >= {*identities} or all(shares[i] is None for i in identities):
        return None
    pairs = zip(signature.clusters, identities, strict=True)
    return replace(signature, clusters=tuple(replace(c, autocast_share=shares[i]) for c, i in pairs))


def _identity(cluster: Cluster) -> str:
    return canonical_json(plain((cluster.op, cluster.phase, cluster.args, cluster.outputs)))


def told_of_autocast(signature: Signature, step: Step, device: str, phases: Phases) -> Signature:
    """As `with_autocast_shares`, however long the step is."""

    def run() -> None:
        with torch.autocast(device, dtype=torch.bfloat16):
            step(0)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step.prepare(0)
            calls = capture_step(run, device="meta", phases=phases)  # no names of kernels are wanted
    except (Exception, SystemExit):  # whatever the user's model raises
        return signature
    return _told(signature, calls)


def _told(signature: Signature, calls: Sequence[OpCall]) -> Signature:
    """The signature of a step, told the calls of one under autocast: see `Cluster.autocast_share`. Calls are a
    cluster's if operator, phase and shapes are its own; if there are none, those of its operator and phase count."""
    alike: defaultdict[tuple[Any, ...], list[bool]] = defaultdict(list)
    for call in calls:
        if is_metadata(call.op) or (is_lowered := _is_lowered(call.args)) is None:
            continue
        alike[call.op, call.phase, _shapes(call.args)].append(is_lowered)
        alike[call.op, call.phase].append(is_lowered)

    def told(cluster: Cluster) -> Cluster:
        key = (cluster.op, cluster.phase)
        found = alike.get((*key, _shapes(cluster.args))) or alike.get(key)
        if not found or FULL not in _dtypes(cluster.args):
            return cluster
        return replace(cluster, autocast_share=round_autocast_share(sum(found) / len(found), "full"))

    return replace(signature, clusters=tuple(map(told, signature.clusters)))


def _is_lowered(args: Iterable[Any]) -> bool | None:
    """Whether most of the floating numbers that a call reads are of lower precision: weights and statistics stay as
    they are. None if it reads none."""
    elements: Counter[bool] = Counter()
    for tensor in tensors_of(args):
        if tensor.dtype.startswith(("float", "bfloat")):
            elements[tensor.dtype in LOWER] += math.prod(tensor.shape)
    return elements[True] > elements[False] if elements else None


def _dtypes(args: Iterable[Any]) -> set[str]:
    return {tensor.dtype for tensor in tensors_of(args)}


def _shapes(args: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(tensor.shape) for tensor in tensors_of(args))
