"""A manifest of all distinct layers at full size, from a signature or from the members of a mix."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from statsnet.errors import MeasurementError, UsageError
from statsnet.exports.lowering import products_of
from statsnet.exports.manifest import Communication, Layer, Manifest, ManifestMember, Use
from statsnet.exports.operands import operand_bytes
from statsnet.profiling.costs import cost_of
from statsnet.signatures.categories import base_name
from statsnet.signatures.collectives import group_size, group_stride, is_collective, kind_of, message_bytes
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.operators import ITEM_SIZE, dtype_of, tensors_of
from statsnet.signatures.products import Product
from statsnet.signatures.simulation import Reference
from statsnet.signatures.target import in_its_step

ROOFLINE = Reference(kind="roofline", flops_per_s=100e12, bytes_per_s=1e12)
"""The default: an accelerator of 100 TFLOP/s and 1 TB/s, on which every operator runs at one of the two rates."""

MEASURED = Reference(kind="measured")

PRODUCT_CATEGORIES = ("convolution", "gemm", "attention", "recurrent")
"""Operators whose FLOPs are multiply-adds, all but the pointwise work of a recurrent layer's gates."""

LONGEST_S = 1e9
MOST = 2**56
"""Elements of a tensor, and multiply-adds of a product, that any device could take: formats count in 64 bits."""

Clock = Callable[[Cluster], float | None]
"""Seconds of all calls of a cluster in one step on a device that was recorded; None where they are not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A signature within a manifest, with its steps in the manifest's unit; times of its clusters for one step."""

    name: str
    weight: float
    signature: Signature
    latency_s: float | None
    steps: float
    cluster_time_s: tuple[float | None, ...]
    environment: str | None = None
    keyed_id: str | None = None


def manifest_of_signature(
    signature: Signature, title: str, *, reference: Reference = ROOFLINE, clock: Clock | None = None
) -> Manifest:
    """One step. A recorded reference needs its clock. Raises UsageError for a signature without shapes,
    MeasurementError if the reference is measured times and it has none."""
    part = _part(title, 1.0, signature, next(iter(signature.measurements), None), reference, clock, alone=True)
    return _manifest([part], title, f"one {signature.mode} step", reference)


def manifest_of_mix(mix: Mix, *, reference: Reference = ROOFLINE, clock: Clock | None = None) -> Manifest:
    """One second of the reference device, shared out by the members' weights. Raises as `manifest_of_signature`."""
    if reference.kind == "measured" and len(mix.environments) > 1:
        raise UsageError(
            "the members were measured in different environments",
            cause=f"{len(mix.environments)} environments cannot share one device's time",
            hint="--reference roofline needs no measurements; --environment or --profiles chooses others",
        )
    parts = [
        replace(_part(m.name, m.weight, m.signature, m.measurement, reference, clock), keyed_id=m.keyed_id)
        for m in mix.members
    ]
    return _manifest(parts, mix.title, "one second of the mix on the reference device", reference)


def _part(
    name: str,
    weight: float,
    signature: Signature,
    measurement: Measurement | None,
    reference: Reference,
    clock: Clock | None,
    *,
    alone: bool = False,
) -> _Part:
    if not signature.clusters:
        raise UsageError(f"'{name}' has no layers", cause="its step runs no operator", hint="export another workload")
    if not any(tensors_of((*c.args, *c.outputs)) for c in signature.clusters):
        raise UsageError(
            f"'{name}' holds no shapes",
            cause="its operators were recorded without their arguments, so they are no layers",
            hint="profile the workload, or record it with record_shapes=True and import it again",
        )
    if reference.kind != "measured":
        if clock is None:
            clock = partial(_roofline_s, reference)
        times = tuple(map(clock, signature.clusters))
        known = [t for t in times if t is not None]
        latency_s = math.fsum(known)
        if not latency_s > 0 and not alone:
            raise UsageError(
                f"no operator of '{name}' has a known cost",
                cause="its share of the reference device's time is not known",
                hint="leave it out of the mix, or use --reference measured",
            )
    elif measurement is None:
        raise MeasurementError(
            f"'{name}' was never measured", cause="its signature holds counts only", hint="use --reference roofline"
        )
    else:
        times, latency_s = in_its_step(signature, measurement).cluster_time_s, measurement.latency_s
    if latency_s > LONGEST_S:
        raise UsageError(
            f"a step of '{name}' takes more than {LONGEST_S:.0g} s on the reference device",
            cause="no step takes thirty years",
            hint="take a signature of sizes that run" if alone else "leave it out of the mix",
        )
    return _Part(
        name=name,
        weight=weight,
        signature=signature,
        latency_s=latency_s or None,
        steps=1.0 if alone else weight / latency_s,
        cluster_time_s=times,
        environment=measurement.fingerprint if measurement and reference.kind == "measured" else None,
    )


def _roofline_s(reference: Reference, cluster: Cluster) -> float | None:
    """Seconds of all its calls in a step, at the reference's peak or its bandwidth; None where costs are not known."""
    if cluster.flops is None or cluster.bytes_moved is None:
        return None
    assert reference.flops_per_s and reference.bytes_per_s
    return cluster.calls * max(cluster.flops / reference.flops_per_s, cluster.bytes_moved / reference.bytes_per_s)


@dataclass(slots=True)
class _Found:
    """A distinct layer while the members are read."""

    index: int
    cluster: Cluster
    uses: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    repeats: list[float] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)
    timed_repeats: list[float] = field(default_factory=list)
    depends_on: set[int] = field(default_factory=set)


def _manifest(parts: Sequence[_Part], title: str, unit: str, reference: Reference) -> Manifest:
    found: dict[str, _Found] = {}
    for part in parts:
        places = [_add(found, cluster, part, i) for i, cluster in enumerate(part.signature.clusters)]
        layers = list(found.values())
        for motif in part.signature.motifs:
            for before, after in zip(motif.clusters, motif.clusters[1:], strict=False):
                layers[places[after]].depends_on.add(places[before])
    if reference.kind == "measured":
        reference = replace(reference, environment=parts[0].environment)
    return Manifest(
        title=title,
        unit=unit,
        reference=reference,
        members=tuple(_member(part) for part in parts),
        layers=tuple(map(_layer, found.values())),
    )


def _add(found: dict[str, _Found], cluster: Cluster, part: _Part, index: int) -> int:
    """Count a cluster's calls; returns the place of its layer."""
    work = cluster.flops, cluster.bytes_read, cluster.bytes_written  # a cluster of rounded sizes has a mean of several
    key = json.dumps([cluster.op, cluster.phase, cluster.args, cluster.outputs, work], sort_keys=True)
    layer = found.setdefault(key, _Found(len(found), cluster))
    repeats, time_s = cluster.calls * part.steps, part.cluster_time_s[index]
    layer.uses[part.name] += cluster.calls
    layer.repeats.append(repeats)
    if time_s is not None:
        layer.times_s.append(time_s * part.steps)
        layer.timed_repeats.append(repeats)
    return layer.index


def _layer(found: _Found) -> Layer:
    cluster, index = found.cluster, found.index
    products = _mean_products(cluster)
    _check_size(cluster, products)
    macs: float | None = math.fsum(p.macs for p in products)
    if not products and _multiplies(cluster) and cluster.flops != 0:
        macs = None
    bytes_input, bytes_weight = operand_bytes(cluster)
    dtype = dtype_of(cluster.args, cluster.outputs)
    return Layer(
        index=index,
        name=f"l{index:04}_{cluster.category}",
        operator=cluster.op,
        phase=cluster.phase,
        category=cluster.category,
        args=cluster.args,
        outputs=cluster.outputs,
        dtype=dtype,
        dtype_bits=8 * ITEM_SIZE.get(dtype, 4) if dtype != "none" else 0,
        uses=tuple(Use(member=name, calls=calls) for name, calls in found.uses.items()),
        repeats=math.fsum(found.repeats),
        products=products,
        macs=macs,
        flops=cluster.flops,
        bytes_input=bytes_input,
        bytes_weight=bytes_weight,
        bytes_written=cluster.bytes_written,
        time_s=math.fsum(found.times_s) / math.fsum(found.timed_repeats) if found.timed_repeats else None,
        depends_on=tuple(sorted(found.depends_on)),
        communication=_communication(cluster),
    )


def _multiplies(cluster: Cluster) -> bool:
    """Whether its FLOPs are multiply-adds. Those of a fused cell are not: its products come before it."""
    return cluster.category in PRODUCT_CATEGORIES and not base_name(cluster.op).startswith("_thnn_fused")


def _mean_products(cluster: Cluster) -> tuple[Product, ...]:
    """Those of its arguments. Where it stands for calls of several shapes, they run as often as its mean work says, so
    that sums over them are the suite's."""
    products = products_of(cluster.op, cluster.args, cluster.outputs)
    work = cost_of(cluster.op, cluster.args, cluster.outputs) if products else None
    if work is None or not work.flops or not cluster.flops or math.isclose(work.flops, cluster.flops, rel_tol=1e-8):
        return products
    return tuple(replace(p, times=p.times * cluster.flops / work.flops) for p in products)


def _check_size(cluster: Cluster, products: Sequence[Product]) -> None:
    elements = [math.prod(tensor.shape) for tensor in tensors_of((*cluster.args, *cluster.outputs))]
    largest = max([*elements, *(p.dense_macs * p.batch for p in products)], default=0)
    if largest > MOST:
        raise UsageError(
            f"{cluster.op} is too large to be exported",
            cause=f"it has more than {MOST:.1g} elements or multiply-adds, which no device can take",
            hint="take a signature of sizes that run",
        )


def _communication(cluster: Cluster) -> Communication | None:
    if not is_collective(cluster.op):
        return None
    return Communication(
        operation=kind_of(cluster.op),
        message_bytes=message_bytes(cluster),
        group_size=group_size(cluster),
        group_stride=group_stride(cluster),
    )


def _member(part: _Part) -> ManifestMember:
    signature = part.signature
    return ManifestMember(name=part.name, weight=part.weight, signature=part.keyed_id or signature.id,
                          mode=signature.mode, batch=signature.batch, latency_s=part.latency_s,
                          steps=part.steps)  # fmt: skip
