"""The formats: how one is added, and what an export holds beside the format's own files.

An exporter is one file in this folder with an `Exporter`, which `all_formats` lists and `conformance.check_exporter`
checks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from statsnet.errors import StatsNetError, UsageError, did_you_mean
from statsnet.exports.manifest import Layer, Manifest, left_out_of, manifest_json
from statsnet.signatures.canonical import canonical_csv, write_bytes_atomically
from statsnet.signatures.simulation import LeftOut

MANIFEST = "manifest.json"
UNFINISHED = b'{"unfinished": "the export was interrupted: repeat it"}\n'


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """Files by their names within the folder, and what they do not hold."""

    format: str
    files: Mapping[str, bytes]
    left_out: tuple[LeftOut, ...]
    held: int
    notes: tuple[str, ...] = field(default=())


class Exporter(ABC):
    """One format. Stateless: the same manifest gives the same bytes in every process."""

    name: ClassVar[str]
    title: ClassVar[str]

    @abstractmethod
    def reason_against(self, layer: Layer) -> str | None:
        """Why the format cannot hold this layer; None if it can."""

    @abstractmethod
    def files(self, manifest: Manifest) -> dict[str, bytes]:
        """The format's files by their names, of a manifest all of whose layers it can hold. Raises UsageError if what
        they need is not installed."""

    def notes(self, manifest: Manifest) -> list[str]:
        """What whoever uses these files should know, a sentence each."""
        return []


def export(exporter: Exporter, manifest: Manifest) -> Export:
    """A manifest in one format: its files, the manifest itself, and a table of what was left out.

    Raises UsageError if the format can hold none of the layers.
    """
    reasons = [(layer, exporter.reason_against(layer)) for layer in manifest.layers]
    held = [layer for layer, reason in reasons if reason is None]
    of_format = left_out_of([(layer, reason) for layer, reason in reasons if reason is not None], manifest.totals)
    left = (*manifest.left_out, *of_format)
    if not held:
        raise UsageError(
            f"{exporter.title} can hold none of these layers",
            cause=(*of_format, *left)[0].reason if left else "there are none",
            hint="--format manifest holds every layer",
        )
    kept = manifest.only(held)
    files = {MANIFEST: manifest_json(manifest), "left-out.csv": _left_out_csv(left), **exporter.files(kept)}
    return Export(
        format=exporter.name, files=files, left_out=left, held=len(held),
        notes=(*exporter.notes(kept), *manifest.not_preserved),
    )  # fmt: skip


def check_folder(folder: Path) -> None:
    """Find out before the work whether a folder holds files of no export. Raises StatsNetError if so."""
    if not (folder / MANIFEST).is_file():
        _refuse_others(folder, ())


def write(made: Export, folder: Path) -> None:
    """Write all files, the manifest last: until then UNFINISHED stands in its place, so that nobody takes files of two
    exports for one. Raises StatsNetError if one cannot be written, or if there are others in the folder."""
    _refuse_others(folder, made.files)
    others = ((name, content) for name, content in made.files.items() if name != MANIFEST)
    for name, content in [(MANIFEST, UNFINISHED), *others, (MANIFEST, made.files[MANIFEST])]:
        write_bytes_atomically(folder / name, content)


def _refuse_others(folder: Path, own: Collection[str]) -> None:
    others = sorted({p.name for p in folder.iterdir()} - {*own}) if folder.is_dir() else []
    if others:
        raise StatsNetError(
            f"'{folder}' holds other files",
            cause=f"'{others[0]}' is not of this export",
            hint="choose an empty or a new folder with -o",
        )


def _left_out_csv(rows: Iterable[LeftOut]) -> bytes:
    head = ("layer", "operator", "reason", "repeats", "macs_share", "time_share")
    return canonical_csv(head, ([getattr(row, name) for name in head] for row in rows)).encode()


def exporter_of(name: str) -> Exporter:
    """The format of that name. Raises UsageError for an unknown one."""
    formats = all_formats()
    if name in formats:
        return formats[name]
    raise UsageError(
        f"'{name[:40]}' is not a format",
        cause=f"there are {', '.join(formats)}",
        hint=did_you_mean(name, formats, otherwise="docs/exports.md says what each of them is for"),
    )


def all_formats() -> dict[str, Exporter]:
    """By name, in the order in which they are shown."""
    from statsnet.exports import c_source, chakra, manifest_files, onnx_model, scalesim

    exporters: tuple[Exporter, ...] = (
        manifest_files.ManifestFiles(), onnx_model.Onnx(), onnx_model.OnnxShapes(), scalesim.ScaleSim(),
        c_source.CSource(), chakra.Chakra(),
    )  # fmt: skip
    return {exporter.name: exporter for exporter in exporters}
