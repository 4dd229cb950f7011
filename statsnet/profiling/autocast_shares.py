"""Which operators work in lower precision when torch's autocast is on: a sum with a residual mostly does not."""

from __future__ import annotations

import math
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch

from statsnet.profiling.capture import OpCall, capture_step
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.model import AUTOCAST_DIGITS, Cluster, Signature
from statsnet.signatures.operators import tensors_of
from statsnet.workloads import Step

FULL = "float32"
"""Autocast turns this dtype into a lower one, and leaves all others alone."""

LONGEST_S = 5.0
"""No step that takes longer runs once more: without instructions for the lower precision it may take ten times as
long."""


def with_autocast_shares(signature: Signature, step: Step, device: str) -> Signature:
    """The signature of a measured step, whose clusters know how they work under autocast. The step runs once more,
    untimed. A model that fails under autocast, or whose step is long, leaves the signature as it is."""
    if signature.measurements[0].latency_s > LONGEST_S or all(FULL not in _dtypes(c.args) for c in signature.clusters):
        return signature

    def run() -> None:
        with torch.autocast(device):
            step(0)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step.prepare(0)
            calls = capture_step(run, device="meta")  # no names of kernels are wanted
    except Exception:  # whatever the user's model raises
        return signature
    return told_of_autocast(signature, calls)


def told_of_autocast(signature: Signature, calls: Sequence[OpCall]) -> Signature:
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
        return replace(cluster, autocast_share=round(sum(found) / len(found), AUTOCAST_DIGITS))

    return replace(signature, clusters=tuple(map(told, signature.clusters)))


def _is_lowered(args: Iterable[Any]) -> bool | None:
    """Whether most of the floating numbers that a call reads are of lower precision: weights and statistics stay as
    they are. None if it reads none."""
    elements: Counter[bool] = Counter()
    for tensor in tensors_of(args):
        if tensor.dtype.startswith(("float", "bfloat")):
            elements[tensor.dtype != FULL] += math.prod(tensor.shape)
    return elements[True] > elements[False] if elements else None


def _dtypes(args: Iterable[Any]) -> set[str]:
    return {tensor.dtype for tensor in tensors_of(args)}


def _shapes(args: Iterable[Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(tensor.shape) for tensor in tensors_of(args))
