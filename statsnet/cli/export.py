"""`statsnet export`: layers as input for simulators, compilers and other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import json_option, layers, options, output
from statsnet.environment import outputs
from statsnet.errors import UsageError

if TYPE_CHECKING:
    from statsnet.cli.layers import ReferenceDevice
    from statsnet.exports.manifest import Manifest
    from statsnet.exports.registry import Exporter
    from statsnet.proxy.folder import ProxyFolder
    from statsnet.signatures.database import ProfilesDB


@json_option.command(short_help="Write layers for simulators, compilers and other runtimes.")
@click.argument("subject", required=False, metavar="[PROXY|SIGNATURE]")
@click.option("--mix", metavar=options.MIX, help=options.MIX_HELP)
@click.option(
    "--format", "format_", required=True, metavar="NAME",
    help="manifest, onnx, onnx-shapes, scalesim, c or chakra (docs/exports.md).",
)  # fmt: skip
@click.option("-o", "--output", "folder", required=True, metavar="DIR", help="Folder for the files.")
@click.option(
    "--layers", "layer_mode", type=options.Choice(("distinct", "sampled", "scaled")), default="distinct",
    show_default=True,
    help="Each distinct layer at full size, some of them, or a few that were made smaller.",
)  # fmt: skip
@click.option(
    "--macs", metavar="N",
    help="Multiply-adds of all layers that are sampled (default: half of one step of each workload) or scaled "
    "(default: as few as are near enough, at most 50M or a thousandth of the mix).",
)  # fmt: skip
@layers.scaling("With scaled layers")
@layers.reference
@click.option("--bit-widths", is_flag=True, help="With onnx-shapes: give products their elements' bits, for ZigZag.")
@options.mode
@options.profiles
@options.trust
@options.sandbox
def export(
    subject: str | None,
    mix: str | None,
    format_: str,
    folder: str,
    layer_mode: str,
    macs: str | None,
    quantum: int | None,
    signed: bool,
    reference: str,
    bit_widths: bool,
    mode: str,
    profiles: str | None,
    trust: bool,
    json_path: str | None,
) -> None:
    """Write the layers of a proxy, a signature or a mix into DIR, in the format of another program.

    Each distinct layer stands there once; manifest.json says how often it counts, so that weighted sums are those of
    the whole. What a format cannot hold is listed in left-out.csv.

    Example: statsnet export --mix cv:1 --format scalesim --layers scaled -o sim
    """
    from statsnet.exports.registry import check_folder, write
    from statsnet.exports.registry import export as make
    from statsnet.signatures.database import ProfilesDB
    from statsnet.units import parse_count

    exporter = _exporter(format_, bit_widths)
    _check_scaling(layer_mode, macs)
    budget = None if macs is None else parse_count(macs)
    path = Path(folder)
    json_option.check_not_within(json_path, path)
    json_option.check_no_input(json_path, [subject, mix])
    outputs.check_folder(path)
    check_folder(path)
    database = ProfilesDB(profiles)
    device = layers.reference_device(reference, database)
    manifest = _manifest(subject, mix, mode, database, trust, device, json_path)
    if layer_mode == "sampled":
        from statsnet.exports.sampling import sampled

        manifest = sampled(manifest, macs=budget)
    elif layer_mode == "scaled":
        manifest = layers.scaled_manifest(manifest, budget, quantum, signed)
    made = make(exporter, manifest)
    write(made, path)
    from statsnet.reporting.export import export_data, export_report

    output.deliver(export_data(manifest, made), json_path, lambda: export_report(manifest, made), written=path)


def _exporter(name: str, bit_widths: bool) -> Exporter:
    from statsnet.exports.onnx_model import OnnxShapes
    from statsnet.exports.registry import exporter_of

    exporter = exporter_of(name)
    if not bit_widths:
        return exporter
    if not isinstance(exporter, OnnxShapes):
        raise UsageError("--bit-widths does not fit the format", hint="give it with --format onnx-shapes")
    return OnnxShapes(bit_widths=True)


def _check_scaling(layer_mode: str, macs: str | None) -> None:
    if macs is not None and layer_mode == "distinct":
        raise UsageError("--macs needs sampled or scaled layers", hint="give --layers scaled, too")
    option = options.first_given("quantum", "signed")
    if option and layer_mode != "scaled":
        raise UsageError(f"{option} needs scaled layers", hint="give --layers scaled, too")


def _check_simulation(opened: ProxyFolder) -> None:
    """Raises UsageError for what a proxy for simulators has chosen already."""
    option = options.first_given("layer_mode", "reference")
    if opened.spec.simulation is not None and option:
        raise UsageError(
            f"{option} was given for a proxy for simulators",
            cause="its layers and their repeats are chosen already",
            hint="leave it out",
        )


def _manifest(
    subject: str | None,
    mix: str | None,
    mode: str,
    database: ProfilesDB,
    trust: bool,
    device: ReferenceDevice,
    json_path: str | None,
) -> Manifest:
    if (subject is None) == (mix is None):
        raise UsageError(
            "give either a proxy or a signature, or --mix",
            cause="there is nothing to export" if mix is None else "both were given",
            hint="for example statsnet export --mix cv:1 --format manifest -o layers",
        )
    if mix is not None:
        from statsnet.exports.build_manifest import manifest_of_mix
        from statsnet.signatures.mix import resolve_mix
        from statsnet.synthesis.asked import asked_of

        asked = asked_of(mix, mode=options.given_mode(mode))
        resolved = resolve_mix(asked.mix, asked.mode, database)
        json_option.check_no_input(json_path, [member.path for member in resolved.members])
        return manifest_of_mix(resolved, reference=device.record, clock=device.clock)
    assert subject is not None
    if options.was_given("mode"):
        raise UsageError("--mode is for mixes", cause=f"'{subject}' has a mode already", hint="leave it out")
    from statsnet.exports.subjects import manifest_of_file, manifest_of_proxy

    path = Path(subject)
    name = subject.partition(":")[0]
    if not path.exists() and (name in database.domains or database.find(name)):
        raise UsageError(
            f"there is no file '{subject}'",
            cause="that is the name of workloads whose signatures are at hand",
            hint=f"give names with --mix {name}:1",
        )
    if path.is_dir():
        from statsnet.proxy.folder import open_proxy

        opened = open_proxy(path, trust=trust)
        output.print_notes(opened.notes)
        _check_simulation(opened)
        with output.progress() as report:
            return manifest_of_proxy(opened, reference=device.record, clock=device.clock, report=report)
    return manifest_of_file(path, reference=device.record, clock=device.clock)
