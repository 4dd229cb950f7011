"""What `statsnet export` and `statsnet synthesize --macs` have in common: the reference device, and scaled layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from statsnet.cli.options import Whole

if TYPE_CHECKING:
    from statsnet.exports.build_manifest import Clock
    from statsnet.exports.manifest import Manifest
    from statsnet.signatures.database import ProfilesDB
    from statsnet.signatures.simulation import Reference

reference = click.option(
    "--reference", default="roofline", show_default=True, metavar="NAME",
    help="Whose time the weights of a mix share: roofline (100 TFLOP/s, 1 TB/s), measured (where the members were), or "
    "a recorded device (statsnet device list).",
)  # fmt: skip


def scaling(only_with: str) -> Callable[[Any], Any]:
    """The options for scaled layers, but --macs; `only_with` says when they may be given."""

    def added(command: Any) -> Any:
        signed = click.option(
            "--signed/--unsigned", default=True, show_default=True,
            help=f"{only_with}: may some layers count negatively? That takes fewer multiply-adds.",
        )  # fmt: skip
        quantum = click.option(
            "--quantum", type=Whole(1, 4096), metavar="N",
            help=f"{only_with}: dims are multiples of this (default 8).",
        )  # fmt: skip
        return quantum(signed(command))

    return added


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceDevice:
    """A reference as a manifest holds it; of a recorded device also its clock and what it is."""

    record: Reference
    clock: Clock | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)


def reference_device(name: str, database: ProfilesDB) -> ReferenceDevice:
    """The reference of that name. Raises UsageError for a device that was not recorded."""
    from statsnet.exports.build_manifest import MEASURED, ROOFLINE
    from statsnet.signatures.simulation import Reference

    if name == "roofline":
        return ReferenceDevice(record=ROOFLINE)
    if name == "measured":
        return ReferenceDevice(record=MEASURED)
    from statsnet.devices.recorded_bench import recorded_device
    from statsnet.measure.at_hand import PREFIX

    device = recorded_device(name.removeprefix(PREFIX), database)
    record = Reference(kind="recorded", device=str(device.environment.get("device_name") or "a recorded device"))
    return ReferenceDevice(record=record, clock=device.seconds, environment=device.environment)


def scaled_manifest(whole: Manifest, macs: int | None, quantum: int | None, signed: bool) -> Manifest:
    """The scaled layers of a manifest. Raises as `scaled` does."""
    from statsnet.exports.scaling import USUAL_QUANTUM, scaled

    return scaled(whole, macs=macs, quantum=quantum or USUAL_QUANTUM, signed=signed)
