"""The manifest: every layer as typed data. All formats are made from it, and it is a format itself.

Amounts of a layer (FLOPs, bytes, multiply-adds) are those of one call; `repeats` says how many calls the manifest's
unit holds, so that sums weighted by it are the suite's. The unit is a step of a signature or a proxy, and a second of
the reference device of a mix (docs/exports.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.conversion import IF_KNOWN, plain
from statsnet.signatures.products import Product
from statsnet.signatures.simulation import LeftOut, Prediction, Reference


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestMember:
    """A workload: its weight, how long one step takes on the reference device, and how many steps the unit holds."""

    name: str
    weight: float
    signature: str
    mode: str
    batch: int | None
    latency_s: float | None
    steps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """How often one step of a member calls a layer."""

    member: str
    calls: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """An axis that was made shorter: its size was `unscaled`, `factor` times `size`."""

    axis: Literal["batch", "rows", "columns", "depth"]
    unscaled: int
    size: int
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How a scaled layer came from a layer of the suite, and what share of the suite's multiply-adds it stands for."""

    of_operator: str
    unscaled: Product
    cuts: tuple[Cut, ...]
    prediction: Prediction
    macs_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Communication:
    """What a collective sends: the larger side of a process in bytes, as nccl-tests counts it, among how many processes
    (None: not known). `group_stride` is how far apart their ranks are, if they are not all of the step's."""

    operation: str
    message_bytes: int
    group_size: int | None
    group_stride: int | None = field(default=None, metadata=IF_KNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One distinct operator call. `args` and `outputs` are encoded as signatures/operators.py says. What is not known
    is None; `macs` is also None where an operator multiplies, but its products are not known. `depends_on` are layers
    whose results it reads, as far as the signature's motifs tell. `time_s` is that of one call on the reference
    device."""

    index: int
    name: str
    operator: str
    phase: str
    category: str
    args: tuple[Any, ...]
    outputs: tuple[Any, ...]
    dtype: str
    dtype_bits: int
    uses: tuple[Use, ...]
    repeats: float
    products: tuple[Product, ...]
    macs: float | None
    flops: float | None
    bytes_input: float | None
    bytes_weight: float | None
    bytes_written: float | None
    time_s: float | None
    depends_on: tuple[int, ...] = ()
    scaling: Scaling | None = field(default=None, metadata=IF_KNOWN)
    communication: Communication | None = field(default=None, metadata=IF_KNOWN)

    @property
    def bytes_read(self) -> float | None:
        if self.bytes_input is None or self.bytes_weight is None:
            return None
        return self.bytes_input + self.bytes_weight

    @property
    def density(self) -> float:
        """Share of its dense products' multiply-adds that are needed."""
        dense = math.fsum(p.macs / p.density for p in self.products)
        return math.fsum(p.macs for p in self.products) / dense if dense else 1.0

    @property
    def reason_against_products(self) -> str | None:
        """Why it is no product that a format of products could hold; None if it has some."""
        if self.products:
            return None
        return "its products are not known" if self.macs is None else "it is no matrix product"

    @property
    def assumed_macs(self) -> float:
        """Multiply-adds of one call; half its FLOPs where an operator multiplies but its products are not known."""
        return (self.flops or 0.0) / 2 if self.macs is None else self.macs


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over all layers weighted by their repeats; `simulated_macs` is what one pass over each layer costs, in
    dense multiply-adds. Calls whose amounts are not known are left out of a sum and counted in `unknown_calls`."""

    calls: float
    macs: float
    flops: float
    bytes_read: float
    bytes_written: float
    time_s: float
    simulated_macs: float
    unknown_calls: float


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """`unit` says what the repeats count. Of scaled layers, `not_preserved` says in words what they lose, and
    `left_out` which layers they do not stand for."""

    kind: Literal["statsnet.manifest"] = "statsnet.manifest"
    schema_version: Literal[1] = 1
    title: str
    unit: str
    layer_mode: Literal["distinct", "sampled", "scaled"] = "distinct"
    reference: Reference
    members: tuple[ManifestMember, ...]
    layers: tuple[Layer, ...]
    not_preserved: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    @property
    def totals(self) -> Totals:
        return totals_of(self.layers)

    @property
    def suite_macs(self) -> float:
        """Multiply-adds of one step of each member; of distinct layers alone, as scaled ones say no use."""
        run = {m.name for m in self.members if m.steps}
        return math.fsum(layer.assumed_macs * u.calls for layer in self.layers for u in layer.uses if u.member in run)

    def only(self, layers: Iterable[Layer]) -> Manifest:
        """The same with fewer layers, whose indices stay."""
        return replace(self, layers=tuple(layers))


def totals_of(layers: Iterable[Layer]) -> Totals:
    """See Totals."""
    chosen = list(layers)

    def total(amounts: Iterable[tuple[float, float | None]]) -> float:
        return math.fsum(repeats * amount for repeats, amount in amounts if amount is not None)

    simulated = {product.alone for layer in chosen for product in layer.products}
    return Totals(
        calls=math.fsum(layer.repeats for layer in chosen),
        macs=total((layer.repeats, layer.assumed_macs) for layer in chosen),
        flops=total((layer.repeats, layer.flops) for layer in chosen),
        bytes_read=total((layer.repeats, layer.bytes_read) for layer in chosen),
        bytes_written=total((layer.repeats, layer.bytes_written) for layer in chosen),
        time_s=total((layer.repeats, layer.time_s) for layer in chosen),
        simulated_macs=float(sum(p.dense_macs for p in simulated)),
        unknown_calls=math.fsum(layer.repeats for layer in chosen if layer.flops is None or layer.bytes_read is None),
    )


def left_out_of(layers: Sequence[tuple[Layer, str]], totals: Totals) -> tuple[LeftOut, ...]:
    """Layers, each with the reason why it is not held, as shares of the totals; the costliest first."""

    def share(amount: float | None, total: float) -> float | None:
        return None if amount is None or not total else amount / total

    rows = [
        LeftOut(
            layer=layer.index, operator=layer.operator, reason=reason, repeats=layer.repeats,
            macs_share=share(layer.repeats * layer.assumed_macs, totals.macs),
            time_share=share(None if layer.time_s is None else layer.repeats * layer.time_s, totals.time_s),
        )
        for layer, reason in layers
    ]  # fmt: skip
    return tuple(sorted(rows, key=lambda r: (-(r.macs_share or 0.0), -(r.time_share or 0.0), r.layer)))


def manifest_json(manifest: Manifest) -> bytes:
    """Canonical JSON, with the totals for whoever checks a sum."""
    return canonical_json({**plain(manifest), "totals": plain(manifest.totals)}).encode("ascii")
