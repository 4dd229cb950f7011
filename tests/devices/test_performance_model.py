"""The model of operators' times: it finds tiles and waves, its bounds hold, and a file holds all of it."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from device_tables import gemm_rows, gemm_time_s

from statsnet.devices import fit_performance
from statsnet.devices.device_record import (
    DeviceRecord,
    ExactTime,
    build_record,
    load_record,
    record_bytes,
    save_record,
)
from statsnet.devices.fit_performance import FEWEST, USUAL, fit_floor, fit_kind, held_out
from statsnet.devices.performance_model import STEP, Trees, predict_rows
from statsnet.devices.tables.reading import read_all
from statsnet.devices.tables.row import TableRow
from statsnet.devices.tables.words import named
from statsnet.devices.tree_fit import FOREST, LEAST_GAIN, fit_trees
from statsnet.errors import FileFormatError, UsageError

DEVICE = "acme-one"


@pytest.fixture(scope="module")
def record() -> DeviceRecord:
    return build_record(gemm_rows(300), DEVICE)


def test_trees_as_arrays_predict_as_scikit_learn_does() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(500, 4)), 5)
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    trees, gains = fit_trees(x, y, USUAL)
    theirs = HistGradientBoostingRegressor(
        max_iter=62, learning_rate=0.1, max_leaf_nodes=16, min_samples_leaf=8, l2_regularization=0.1,
        early_stopping=False, random_state=0,
    ).fit(x, y)  # fmt: skip
    assert np.abs(trees.predict(x) - theirs.predict(x)).max() < 0.01
    assert gains.max() == 1.0 and gains[3] < 0.1 < gains[0]
    assert fit_trees(x, np.ones(500), USUAL)[1].tolist() == [LEAST_GAIN] * 4


def test_few_rows_have_a_forest() -> None:
    from sklearn.ensemble import ExtraTreesRegressor

    x = np.round(np.random.default_rng(0).normal(size=(80, 4)), 5)
    y = np.sin(x[:, 0]) + x[:, 1] * x[:, 2]
    theirs = ExtraTreesRegressor(FOREST, max_features=0.5, random_state=0).fit(x, y)
    off = fit_trees(x, y, USUAL)[0].predict(x) - theirs.predict(x)
    assert np.quantile(np.abs(off), 0.9) < 0.01


@pytest.mark.parametrize(
    ("feature", "value", "message"),
    [
        ((0, -1), (0, 1), "not complete"), ((0, -1, -1, 0), (0, 1, 1, 0), "not complete"),
        ((1, -1, -1), (0, 1, 1), "node 0 asks"), ((0, -1, -1), (1, 1, 1), "node 0 asks"), ((0,), (), "length"),
    ],
)  # fmt: skip
def test_nodes_that_are_no_trees(feature: tuple[int, ...], value: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trees(thresholds=((0.5,),), feature=feature, value=value, base=0.0).check()


def test_trees_by_hand() -> None:
    """None at all, and one of two leaves: the left one for what is at most the threshold."""
    none = Trees(thresholds=((0.5,),), feature=(), value=(), base=0.25)
    assert none.predict(np.zeros((3, 1))).tolist() == [0.25] * 3
    one = Trees(thresholds=((0.5,),), feature=(0, -1, -1), value=(0, 100, 200), base=0.0)
    assert one.predict(np.array([[0.5], [0.6]])).tolist() == pytest.approx([100 * STEP, 200 * STEP])


def test_the_floor_is_found() -> None:
    rng = np.random.default_rng(0)
    flops, nbytes = 10 ** rng.uniform(6, 12, 400), 10 ** rng.uniform(4, 9, 400)
    floor = fit_floor(flops, nbytes, 4e-6 + np.hypot(flops / 3e13, nbytes / 8e11))
    assert floor.latency_s == pytest.approx(4e-6, rel=0.02)
    assert floor.flops_per_s == pytest.approx(3e13, rel=0.02)
    assert floor.bytes_per_s == pytest.approx(8e11, rel=0.02)


def test_new_sizes_are_predicted_to_their_noise(record: DeviceRecord) -> None:
    (model,) = record.models
    assert model.held_out.median_error < 0.1
    new = gemm_rows(200, noise=0.0, seed=1)
    off = [abs(p.time_s / r.time_s[DEVICE] - 1) for p, r in zip(record.predict(new), new, strict=True)]
    assert np.median(off) < 0.08


def test_the_bounds_hold() -> None:
    """Coverage on rows that neither the fit nor the bounds have seen, for several draws together."""
    inside_80 = inside_95 = total = 0
    for seed in range(3):
        record = build_record(gemm_rows(150, noise=0.1, seed=seed), DEVICE)
        new = gemm_rows(200, noise=0.1, seed=100 + seed)
        bounds = record.models[0].held_out
        for p, row in zip(record.predict(new), new, strict=True):
            off = math.log(row.time_s[DEVICE] / p.time_s)
            inside_80 += bounds.low_80 <= off <= bounds.high_80
            inside_95 += bounds.low_95 <= off <= bounds.high_95
            total += 1
    assert 0.72 < inside_80 / total < 0.9
    assert 0.9 < inside_95 / total < 0.995


def test_bounds_of_few_rows_are_the_extremes() -> None:
    few = held_out(np.array([-0.2, 0.0, 0.1]))
    assert (few.low_95, few.high_95) == (-0.2, 0.1)
    assert few.median_error == pytest.approx(1 - math.exp(-0.1))


def test_variants_of_the_same_dims_are_left_out_together() -> None:
    """Else a row would be predicted from its own twin, and noise would look like knowledge."""
    rows = gemm_rows(60, noise=0.5)
    twins = [
        TableRow(source=r.source, operator=r.operator, dtype=r.dtype, dims=r.dims, variant="NT", time_s=r.time_s)
        for r in rows
    ]
    assert fit_kind([*rows, *twins], DEVICE).held_out.median_error > 0.15


def _rows_of(count: int, sizes: int, time_s: Callable[[np.ndarray], float]) -> list[TableRow]:
    """Operators with `sizes` dims each."""
    drawn = np.exp(np.random.default_rng(0).uniform(math.log(16), math.log(4096), (count, sizes))).astype(int)
    return [
        TableRow(source="plain", operator="other", dtype="float32",
                 dims=tuple((f"dim{i}", size) for i, size in enumerate(d)), time_s={DEVICE: time_s(d)})
        for d in drawn.tolist()
    ]  # fmt: skip


def test_sizes_that_decide_nothing_are_no_distance(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows_of(80, 8, lambda d: 1e-5 * (1 + (d[0] / 300) ** 2))
    weighed = fit_kind(rows, DEVICE)
    monkeypatch.setattr(fit_performance, "POWERS", (0.0,))
    assert weighed.process is not None
    assert weighed.held_out.median_error < 0.85 * fit_kind(rows, DEVICE).held_out.median_error


def test_times_that_double_now_and_then_do_not_move_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the calls run in another state of the device: a mean would be wrong for all of them."""
    rng = np.random.default_rng(0)
    rows = _rows_of(600, 2, lambda d: 1e-5 * (1 + d[0] / 300) * (2 if rng.random() < 0.3 else 1))
    monkeypatch.setattr(fit_performance, "ROUGH", 1.0)  # no forest
    thorough = fit_kind(rows, DEVICE).held_out.median_error
    monkeypatch.setattr(fit_performance, "GOOD", 1.0)
    assert thorough < 0.8 * fit_kind(rows, DEVICE).held_out.median_error


def test_a_rough_kind_has_a_forest_whose_median_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenth of the calls run in another state of the device: squared errors lead to what lies between."""
    rng = np.random.default_rng(1)
    rows = [
        TableRow(source="plain", operator="other", dtype="float32", dims=(("a", 8 + 8 * a), ("b", 16 + b)),
                 time_s={DEVICE: 1e-5 * (1 + (7 * a + b // 8 * 3) % 4) * (3 if rng.random() < 0.1 else 1)})
        for a in range(7) for b in range(60)
    ]  # fmt: skip
    forest = fit_kind(rows, DEVICE)
    monkeypatch.setattr(fit_performance, "ROUGH", 1.0)
    boosted = fit_kind(rows, DEVICE)
    assert forest.trees is not None and forest.trees.middle
    assert boosted.trees is None or not boosted.trees.middle
    assert forest.held_out.median_error < 0.1 < 0.15 < boosted.held_out.median_error


def test_the_median_over_trees_by_hand() -> None:
    leaves = Trees(thresholds=((0.5,),), feature=(-1, -1, -1), value=(200, 400, 9000), base=1.0, middle=True)
    assert leaves.predict(np.zeros((2, 1))).tolist() == pytest.approx([1.2, 1.2])


def test_a_file_holds_all_of_it(record: DeviceRecord, tmp_path: Path) -> None:
    save_record(tmp_path / "r.json.gz", record)
    save_record(tmp_path / "r.json", record)
    again = load_record(tmp_path / "r.json.gz")
    assert record_bytes(again) == record_bytes(record) == (tmp_path / "r.json").read_bytes()
    assert gzip.decompress((tmp_path / "r.json.gz").read_bytes()) == record_bytes(record)
    new = gemm_rows(50, seed=2)
    for one, other in zip(record.predict(new), again.predict(new), strict=True):
        assert one.time_s == pytest.approx(other.time_s, rel=1e-3)


EXACT = {"operator": "gemm", "dtype": "float32", "variant": "", "direction": "forward", "time_s": 1e-5}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d | {"schema_version": 99}, "version 99"),
        (lambda d: d | {"kind": "statsnet.fit"}, "statsnet.fit"),
        (lambda d: d | {"device": "../../etc"}, "device"),
        (lambda d: {k: v for k, v in d.items() if k != "reached"}, "reached"),
        (lambda d: d["models"][0]["features"].append("nonsense") or d, "features|needs|lengths"),
        (lambda d: d["models"][0]["names"].pop() and d, "needs|dims"),
        (lambda d: d["models"][0]["floor"].update(latency_s=-1) or d, "latency_s"),
        (lambda d: [d], "no JSON object"),
        (lambda d: d["models"][0]["process"]["dims"].__setitem__(0, [1, 0, 5, 5]) or d, "m is 0"),
        (lambda d: d | {"exact": [EXACT | {"dims": [["batch", 1], ["m", 0], ["n", 5], ["k", 5]]}]}, "m is 0"),
        (lambda d: d | {"exact": [EXACT | {"dims": [["m", 1]]}]}, "gemm has the dims"),
    ],
)
def test_damaged_records(record: DeviceRecord, tmp_path: Path, change: object, message: str) -> None:
    data = change(json.loads(record_bytes(record)))  # type: ignore[operator]
    (tmp_path / "r.json").write_text(json.dumps(data))
    with pytest.raises(FileFormatError) as error:
        load_record(tmp_path / "r.json")
    assert any(part in str(error.value) for part in message.split("|"))


def test_what_no_table_has_is_a_roofline(record: DeviceRecord) -> None:
    rows = [
        TableRow(source="", operator=name, dtype=dtype, dims=dims, time_s={})
        for name, dtype, dims in (
            ("softmax", "float32", named("softmax", (1024, 1024))),
            ("gemm", "bfloat16", named("gemm", (1, 512, 512, 512))),
            ("gemm", "float32", named("gemm", (1, 512, 512, 512))),
        )
    ]
    softmax, half, full = record.predict(rows)
    assert (softmax.evidence, half.evidence, full.evidence) == ("roofline", "roofline", "model")
    assert full.time_s == pytest.approx(gemm_time_s(512, 512, 512), rel=0.3)


def test_what_can_not_be_read_is_not_written(record: DeviceRecord, tmp_path: Path) -> None:
    dims = (("flops", 0), ("bytes_read", 2**41), ("bytes_written", 2**41))
    exact = ExactTime(operator="aten.x", dtype="int8", dims=dims, variant="", direction="forward", time_s=1.0)
    save_record(tmp_path / "r.json", replace(record, exact=(exact,)))
    assert load_record(tmp_path / "r.json").exact == (exact,)
    for bad in (
        replace(record, device="x" * 81),
        replace(record, exact=(replace(exact, variant="v" * 500),)),
        replace(record, exact=(replace(exact, dims=(("flops", 0), ("bytes_read", 2**63), ("bytes_written", 0))),)),
    ):
        with pytest.raises(FileFormatError, match="is not a recorded device"):
            save_record(tmp_path / "bad.json", bad)
    assert not (tmp_path / "bad.json").exists()


def test_too_little_to_record() -> None:
    with pytest.raises(UsageError, match="no source has times of 'acme-two'"):
        build_record(gemm_rows(20), "acme-two")
    with pytest.raises(UsageError, match="too few"):
        build_record(gemm_rows(5), DEVICE)
    (first, *_) = gemm_rows(1)
    same = [replace(first, variant=f"v{i}") for i in range(2 * FEWEST)]
    with pytest.raises(UsageError, match="too few"):
        build_record(same, DEVICE)


@pytest.fixture(scope="module")
def tables() -> Path:
    folder = os.environ.get("STATSNET_SHARED_DATA")
    if not folder or not (Path(folder) / "gpu_tables").is_dir():
        pytest.skip("STATSNET_SHARED_DATA does not name the folder that holds gpu_tables/")
    return Path(folder) / "gpu_tables"


@pytest.mark.parametrize(("device", "worst"), [("nvidia-v100", 0.1), ("nvidia-titan-xp", 0.1)])
def test_held_out_error_on_a_real_device(tables: Path, device: str, worst: float) -> None:
    rows = products_of(tables, device)
    assert len(rows) > 100
    assert fit_kind(rows, device).held_out.median_error < worst


@pytest.mark.parametrize("device", ["nvidia-v100", "nvidia-titan-xp", "intel-xeon-phi-7250"])
def test_the_bounds_hold_on_a_real_device(tables: Path, device: str) -> None:
    """For the half of the rows that neither the fit nor the bounds have seen."""
    rows = products_of(tables, device)
    random.Random(0).shuffle(rows)
    half = len(rows) // 2
    model, new = fit_kind(rows[:half], device), rows[half:]
    bounds = model.held_out
    off = np.log([r.time_s[device] for r in new]) - np.log(predict_rows(model, device, new))
    assert 0.7 < np.mean((bounds.low_80 <= off) & (off <= bounds.high_80)) < 0.95
    assert np.mean((bounds.low_95 <= off) & (off <= bounds.high_95)) > 0.9


def products_of(tables: Path, device: str) -> list[TableRow]:
    """DeepBench's, in float32."""
    return [
        r for r in read_all([tables / "deepbench.csv.gz"]).rows
        if r.operator == "gemm" and r.dtype == "float32" and device in r.time_s
    ]  # fmt: skip
