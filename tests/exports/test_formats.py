"""What all formats have in common."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import cluster, relu, signature, tensor
from exporting import small_manifest

from statsnet.errors import StatsNetError, UsageError
from statsnet.exports import registry
from statsnet.exports.build_manifest import manifest_of_signature
from statsnet.exports.conformance import check_exporter
from statsnet.exports.registry import all_formats, check_folder, export, exporter_of, write
from statsnet.exports.scaling import scaled


@pytest.mark.parametrize("name", list(all_formats()))
def test_every_format_keeps_its_contract(name: str) -> None:
    manifest = small_manifest()
    check_exporter(exporter_of(name), manifest)
    check_exporter(exporter_of(name), scaled(manifest, macs=20_000, quantum=4))


def test_an_unknown_format_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="manifest, onnx, onnx-shapes, scalesim, c, chakra") as error:
        exporter_of("scale-sim")
    assert "did you mean scalesim?" in str(error.value)


def test_a_format_that_can_hold_nothing_says_so() -> None:
    with pytest.raises(UsageError, match="can hold none"):
        export(exporter_of("scalesim"), manifest_of_signature(signature(relu(8)), "relu"))
    eight = [tensor(*shape, dtype="float8_e4m3fn") for shape in ((32, 64), (64, 48))]
    layers = signature(relu(8), cluster("aten._scaled_mm.default", eight, tensor(32, 48)))
    with pytest.raises(UsageError, match="elements of float8"):  # not why the relu was not scaled
        export(exporter_of("onnx"), scaled(manifest_of_signature(layers, "two"), macs=50_000))


def test_what_is_left_out_is_listed_with_its_shares() -> None:
    manifest = small_manifest()
    made = export(exporter_of("scalesim"), manifest)
    shares = {row.operator: row for row in made.left_out}
    time_s = sum(
        layer.repeats * (layer.time_s or 0) for layer in manifest.layers if layer.operator == "aten.relu.default"
    )
    assert shares["aten.relu.default"].time_share == pytest.approx(time_s / manifest.totals.time_s)
    assert shares["aten.relu.default"].macs_share == 0
    lines = made.files["left-out.csv"].decode().splitlines()
    assert len(lines) == 1 + len(made.left_out)


def test_an_export_that_ends_halfway_has_no_manifest_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the manifest of one export would say how often the layers of another count."""
    made, folder = export(exporter_of("c"), small_manifest()), tmp_path / "out"
    write(made, folder)
    whole = (folder / "manifest.json").read_bytes()
    kept = registry.write_bytes_atomically

    def fills(path: Path, content: bytes) -> None:
        if path.name == [*made.files][-1]:
            raise StatsNetError("the disk is full")
        kept(path, content)

    monkeypatch.setattr(registry, "write_bytes_atomically", fills)
    with pytest.raises(StatsNetError, match="the disk is full"):
        write(made, folder)
    assert b"interrupted" in (folder / "manifest.json").read_bytes()
    monkeypatch.undo()
    check_folder(folder)
    write(made, folder)
    assert (folder / "manifest.json").read_bytes() == whole


def test_files_of_others_are_not_mixed_with_an_export(tmp_path: Path) -> None:
    made = export(exporter_of("c"), small_manifest())
    write(made, tmp_path / "new")
    check_folder(tmp_path / "new")
    write(made, tmp_path / "new")  # its own files are replaced
    (tmp_path / "new" / "notes.txt").write_text("mine")
    with pytest.raises(StatsNetError, match="holds other files"):
        write(made, tmp_path / "new")
    with pytest.raises(StatsNetError, match="'new' is not of this export"):
        check_folder(tmp_path)  # known before the work: there is no manifest
