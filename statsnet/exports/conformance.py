"""What every format must do; a test of a new one calls `check_exporter`."""

from __future__ import annotations

from statsnet.exports.manifest import Manifest
from statsnet.exports.registry import Exporter, export


def check_exporter(exporter: Exporter, manifest: Manifest) -> None:
    """Raises AssertionError, with what is wrong, if an exporter does not keep its contract for this manifest, some of
    whose layers it must be able to hold."""
    first, second = export(exporter, manifest), export(exporter, manifest)
    assert first.files == second.files, "two exports of one manifest differ"
    assert "manifest.json" in first.files and "left-out.csv" in first.files
    left = [row.layer for row in first.left_out]
    held = [layer for layer in manifest.layers if exporter.reason_against(layer) is None]
    assert len(left) == len(set(left)), "a layer is left out twice"
    assert first.held == len(held) and len(held) + len(left) - len(manifest.left_out) == len(manifest.layers), (
        "a layer is neither held nor listed as left out"
    )
    assert all(row.reason and row.reason == row.reason.strip(" .") for row in first.left_out), "a reason is no clause"
    for name, content in first.files.items():
        assert "/" not in name and content, f"'{name}' is not a plain file with content"
    assert exporter.name and exporter.title and exporter.__doc__, "a format has a name, a title and a docstring"
