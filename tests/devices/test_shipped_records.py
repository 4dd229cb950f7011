"""The records that come with StatsNet: small, whole, attributed, and as good as they say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.record_devices import attribution
from statsnet.devices.cut_risk import AXES, FILE, load_risk, save_risk
from statsnet.devices.device_record import load_record
from statsnet.devices.names import canonical_name, device_named
from statsnet.devices.record_folder import FOLDER, load_records, record_paths
from statsnet.devices.tables.provenance import SMALL_CARDS, UNEVEN, doubt_of
from statsnet.devices.tables.row import TableRow
from statsnet.errors import UsageError
from statsnet.signatures.database import default_profiles_dir

PROFILES = default_profiles_dir()
MOST_BYTES = 6_000_000


def test_they_are_small_and_whole() -> None:
    paths = record_paths(PROFILES)
    assert "nvidia-h100-sxm" in paths
    assert sum(path.stat().st_size for path in paths.values()) < MOST_BYTES
    for name, path in paths.items():
        record = load_record(path)
        assert record.device == name == canonical_name(name)
        assert all(p.licence and p.commit for p in record.sources)


def test_their_sources_are_named() -> None:
    text = (PROFILES / FOLDER / "ATTRIBUTION.md").read_text()
    assert text == attribution(load_records(PROFILES))


def test_what_is_doubtful_is_not_in_them() -> None:
    for record in load_records(PROFILES):
        for model in record.models:
            assert not (model.source == "neusight" and record.device in SMALL_CARDS)
            assert not (model.source == "miopen" and record.device in UNEVEN and model.dtype != "float32")


@pytest.mark.parametrize(("times", "is_doubtful"), [(1.9, False), (2.1, True)])
def test_what_a_smaller_card_can_not_have_taken_is_doubtful(times: float, is_doubtful: bool) -> None:
    """A Vega 56 was measured at two clocks."""
    row = TableRow(source="miopen", operator="convolution", dtype="float32", dims=(),
                   time_s={"amd-vega-56": times, "amd-vega-64": 1.0})  # fmt: skip
    assert bool(doubt_of(row, "amd-vega-56")) == is_doubtful
    assert not doubt_of(replace(row, time_s={"amd-vega-56": times}), "amd-vega-56")


def test_new_sizes_are_predicted_within_a_tenth_of_their_time() -> None:
    """Kinds with at least 50 rows. Nearly all others are convolutions (docs/how-to/absent-device.md)."""
    errors = [m.held_out.median_error for r in load_records(PROFILES) for m in r.models if m.rows >= 50]
    assert sum(error <= 0.1 for error in errors) > 0.9 * len(errors)
    assert sorted(errors)[len(errors) // 2] < 0.05


def test_they_are_found_by_a_part_of_their_names() -> None:
    assert device_named("h100-sxm", record_paths(PROFILES)) == "nvidia-h100-sxm"
    with pytest.raises(UsageError, match="no recorded device"):
        device_named("z80", record_paths(PROFILES))


def test_their_risks_are_read_and_of_axes_that_blocks_cut(tmp_path: Path) -> None:
    path = PROFILES / FOLDER / FILE
    risk = load_risk(path)
    assert {(e.operator, e.axis) for e in risk.entries} <= {(o, axis) for o, axes in AXES.items() for axis in axes}
    save_risk(tmp_path / FILE, risk)
    assert (tmp_path / FILE).read_bytes() == path.read_bytes()
