"""`statsnet export`: layers as input for simulators, compilers and other runtimes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import json_option, options, output
from statsnet.errors import UsageError

if TYPE_CHECKING:
    from statsnet.exports.manifest import Manifest, Reference
    from statsnet.exports.registry import Exporter

_MACS, _QUANTUM = "50M", 32


@json_option.command(short_help="Write layers for simulators, compilers and other runtimes.")
@click.argument("subject", required=False, metavar="[PROXY|SIGNATURE]")
@click.option("--mix", metavar=options.MIX, help=options.MIX_HELP)
@click.option(
    "--format", "format_", required=True, metavar="NAME",
    help="manifest, onnx, onnx-shapes, scalesim, c or chakra (docs/exports.md).",
)  # fmt: skip
@click.option("-o", "--output", "folder", required=True, metavar="DIR", help="Folder for the files.")
@click.option(
    "--layers", type=options.Choice(("distinct", "scaled")), default="distinct", show_default=True,
    help="Each distinct layer at full size, or a few that were made smaller.",
)  # fmt: skip
@click.option("--macs", metavar="N", help=f"With scaled layers: multiply-adds of all of them (default {_MACS}).")
@click.option(
    "--quantum", type=click.IntRange(1, 4096), metavar="N",
    help=f"With scaled layers: dims are multiples of this (default {_QUANTUM}).",
)  # fmt: skip
@click.option(
    "--reference", type=options.Choice(("roofline", "measured")), default="roofline", show_default=True,
    help="Whose time the weights of a mix share: of 100 TFLOP/s and 1 TB/s, or of where the members were measured.",
)  # fmt: skip
@click.option("--bit-widths", is_flag=True, help="With onnx-shapes: give products their elements' bits, for ZigZag.")
@options.mode
@options.profiles
@options.trust
def export(
    subject: str | None,
    mix: str | None,
    format_: str,
    folder: str,
    layers: str,
    macs: str | None,
    quantum: int | None,
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

    Example: statsnet export --mix cv:1 --format scalesim --layers scaled --macs 50M -o sim
    """
    from statsnet.exports.registry import check_folder, write
    from statsnet.exports.registry import export as make
    from statsnet.units import parse_count

    exporter = _exporter(format_, bit_widths)
    _check_scaling(layers, macs, quantum)
    budget = parse_count(macs or _MACS)
    path = Path(folder)
    output.check_folder(path)
    check_folder(path)
    manifest = _manifest(subject, mix, mode, profiles, trust, _reference(reference))
    if layers == "scaled":
        from statsnet.exports.scaling import scaled

        manifest = scaled(manifest, macs=budget, quantum=quantum or _QUANTUM)
    made = make(exporter, manifest)
    write(made, path)
    from statsnet.reporting.export import export_data, export_report

    output.deliver(export_data(manifest, made), json_path, lambda: export_report(manifest, made))
    if json_path != output.STDOUT:
        output.print_written(path)


def _exporter(name: str, bit_widths: bool) -> Exporter:
    from statsnet.exports.onnx_model import OnnxShapes
    from statsnet.exports.registry import exporter_of

    exporter = exporter_of(name)
    if not bit_widths:
        return exporter
    if not isinstance(exporter, OnnxShapes):
        raise UsageError("--bit-widths does not fit the format", hint="give it with --format onnx-shapes")
    return OnnxShapes(bit_widths=True)


def _check_scaling(layers: str, macs: str | None, quantum: int | None) -> None:
    given = [name for name, value in (("--macs", macs), ("--quantum", quantum)) if value is not None]
    if given and layers != "scaled":
        raise UsageError(f"{given[0]} needs scaled layers", hint="give --layers scaled, too")


def _reference(name: str) -> Reference:
    from statsnet.exports.build_manifest import MEASURED, ROOFLINE

    return ROOFLINE if name == "roofline" else MEASURED


def _manifest(
    subject: str | None, mix: str | None, mode: str, profiles: str | None, trust: bool, reference: Reference
) -> Manifest:
    if (subject is None) == (mix is None):
        raise UsageError(
            "give either a proxy or a signature, or --mix",
            cause="there is nothing to export" if mix is None else "both were given",
            hint="for example statsnet export --mix cv:1 --format manifest -o layers",
        )
    if mix is not None:
        from statsnet.exports.build_manifest import manifest_of_mix
        from statsnet.signatures.database import ProfilesDB
        from statsnet.signatures.mix import resolve_mix
        from statsnet.signatures.mix_file import is_mix_file, load_mix_file

        if is_mix_file(mix) and not options.was_given("mode"):
            mode = load_mix_file(mix).mode or mode
        return manifest_of_mix(resolve_mix(mix, mode, ProfilesDB(profiles)), reference=reference)
    assert subject is not None
    from statsnet.exports.subjects import manifest_of_file, manifest_of_proxy

    path = Path(subject)
    if path.is_dir():
        from statsnet.proxy.folder import open_proxy

        opened = open_proxy(path, trust=trust)
        output.print_notes([opened.note] if opened.note else [])
        with output.progress() as report:
            return manifest_of_proxy(opened, reference=reference, report=report)
    return manifest_of_file(path, reference=reference)
