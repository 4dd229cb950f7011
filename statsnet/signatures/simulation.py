"""What the files of a proxy for simulators hold beside its network: how often each layer counts, and what is predicted.

Nothing of it was measured. Such a proxy is a few layers that were made smaller; each runs once, and sums over them,
weighted by `repeats`, follow the mix's (docs/exports.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from statsnet.signatures.limits import Finite, Label, PositiveSeconds, Quantity, Share, Size
from statsnet.signatures.products import Product
from statsnet.units import format_quantity

Rate = Annotated[float, Meta(gt=0, le=1e24)]
Sentence = Annotated[str, Meta(max_length=1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The device whose time the weights of a mix share: a roofline with these rates, the environment in which each
    member was measured, or a recorded `device`, whose record says how long operators take there."""

    kind: Literal["roofline", "measured", "recorded"]
    flops_per_s: Rate | None = None
    bytes_per_s: Rate | None = None
    environment: Label | None = None
    device: Label | None = None

    @property
    def words(self) -> str:
        """What a reader is told."""
        if self.kind == "measured":
            return "as measured"
        if self.kind == "recorded":
            return f"{self.device}, from its record"
        rates = format_quantity(self.flops_per_s, "FLOP/s"), format_quantity(self.bytes_per_s, "B/s")
        return f"roofline of {rates[0]} and {rates[1]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedLayer:
    """How often a layer of the proxy counts, and what it came from. The share is of the mix's multiply-adds."""

    repeats: Finite
    macs_share: Finite
    dtype: Annotated[str, Meta(min_length=1, max_length=40)]
    of_operator: Label
    unscaled: Product


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Of a spec: its layers, in the order of the towers, of one block each."""

    unit: Sentence
    reference: Reference
    layers: Annotated[tuple[SimulatedLayer, ...], Meta(min_length=1, max_length=10_000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What an array is predicted to do with a layer at full size and scaled: the mean utilisation over the arrays and
    dataflows of `systolic.SPREAD`, the furthest that it moves on one of them, FLOP per byte, and the bytes of the
    operands."""

    utilisation_unscaled: Share
    utilisation: Share
    largest_change: Finite
    intensity_unscaled: Finite
    intensity: Finite
    working_set_bytes_unscaled: Finite
    working_set_bytes: Finite


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A layer that is not held, why, and its share of the multiply-adds and time; None where they are not known."""

    layer: Size
    operator: Label
    reason: Label
    repeats: Finite
    macs_share: Finite | None
    time_share: Finite | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationFit:
    """Of a fit: predictions, one for each layer; what the layers do not preserve, in words; which of the mix's they do
    not stand for. One pass over the layers takes `simulated_macs` multiply-adds, one step of each member
    `suite_macs`; these steps take `suite_latency_s` on the reference device, as far as it knows."""

    measured: bool = False
    simulated_macs: Quantity
    suite_macs: Quantity
    suite_latency_s: PositiveSeconds | None
    predictions: Annotated[tuple[Prediction, ...], Meta(max_length=10_000)]
    not_preserved: Annotated[tuple[Sentence, ...], Meta(max_length=100)]
    left_out: Annotated[tuple[LeftOut, ...], Meta(max_length=100_000)]
