"""Counters of candidates and of a finished proxy, with a GPU's events and its counters played."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from statsnet.measure.cache import MeasurementCache
from statsnet.measure.device_kernels import Kernel
from statsnet.profiling.gpu_activity import Launch, no_counters
from statsnet.profiling.timeline import Timeline
from statsnet.signatures.gpu import Counters
from statsnet.synthesis import counted
from statsnet.synthesis import live_bench as measure
from statsnet.synthesis.block_costs import BlockCosts
from statsnet.synthesis.block_runs import PROCESSES
from statsnet.synthesis.candidates import Candidate
from statsnet.synthesis.counted import counted_columns
from statsnet.synthesis.live_bench import Bench
from statsnet.synthesis.loads import works_of
from statsnet.synthesis.tasks import first_launches

ROW = {
    "category": "gemm", "kernel_class": "k", "shape_class": "", "phase": "forward", "time_s": 1e-3, "flops": 1.0,
    "bytes": 1.0, "weights": 0, "calls": 1, "fused": 0.0,
}  # fmt: skip


def column(*clusters: int | None, block: int = 1, optimizer: int = 0) -> dict[str, Any]:
    return {
        "block": {"operators": [dict(ROW) for _ in range(block)], "framework_s": 0.0},
        "optimizer": {"operators": [dict(ROW) for _ in range(optimizer)], "framework_s": 0.0},
        "launches": [Launch(cluster=c, family="k", time_s=1e-6).to_dict() for c in clusters],
    }


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """Of the kernels that were to be counted; the occupancy of row i is i / 10."""
    seen: list[int | None] = []

    def play(_job: Any, launches: Sequence[Launch], clusters: int, how: str) -> tuple[Counters, str]:
        seen.extend(launch.cluster for launch in launches)
        if how == "auto":
            return no_counters("not_permitted"), "no hardware counters"
        values = tuple(i / 10 for i in range(clusters))
        return Counters(tool="ncu 1", clusters={"achieved_occupancy": values}, missing={}), ""

    monkeypatch.setattr(counted, "counters_of", play)
    return seen


def test_rows_are_counted_through_all_candidates(places: list[int | None]) -> None:
    columns = [column(None, 0, 1, block=1, optimizer=1), column(1, 0, block=2)]
    found, why = counted_columns(columns, {}, "ncu")
    assert places == [None, 0, 1, 3, 2]
    assert why == ""
    rows = [row["counters"] for c in found for part in ("block", "optimizer") for row in c[part]["operators"]]
    assert rows == [{"achieved_occupancy": i / 10} for i in range(4)]
    assert works_of(found[1]["block"])[0].counters == (("achieved_occupancy", 0.2),)


def test_without_counters_columns_are_as_they_were(places: list[int | None]) -> None:
    found, why = counted_columns([column(0)], {}, "auto")
    assert why == "no hardware counters"
    assert works_of(found[0]["block"])[0].counters == ()


def test_a_block_in_place_has_the_counters_that_it_has_alone() -> None:
    from statsnet.proxy.towers import Placed, Tower

    config = {"rows": 4, "columns": 8, "op": "relu"}
    candidate = Candidate(kind="pointwise", config=config, optimizer=None, scale=1.0, time_s=1e-3)
    alone = {"operators": [{**ROW, "counters": {"achieved_occupancy": 0.4}}], "framework_s": 0.0}
    columns = BlockCosts([candidate], [{"block": alone, "optimizer": {"operators": [], "framework_s": 0.0}}])
    placed = Placed(kind="pointwise", config=config)
    columns.learn([Tower(blocks=(placed,))], [[{"operators": [dict(ROW)], "framework_s": 0.0}]])
    (work,) = columns._load(placed, {}).works
    assert work.counters == (("achieved_occupancy", 0.4),)


def test_the_first_of_several_steps_is_the_one_that_is_counted() -> None:
    def kernel(name: str, at: int) -> Kernel:
        return Kernel(name, at, at + 1)

    fill, gemm, copy, again = (
        kernel("fill", 0),
        kernel("sgemm", 2),
        kernel("Memcpy DtoD", 4),
        kernel("fill", 6),
    )
    timeline = Timeline(
        step_s=1.0, op_time_s=[], op_events=[], op_kernels=[[fill], [gemm, copy], [again], []],
        on_device=[fill, gemm, copy, again], framework_s=0.0, idle_s=0.0, events=0, unmatched=0,
    )  # fmt: skip
    found = first_launches(timeline, 2, {1: 5})
    assert [(x.cluster, x.family) for x in found] == [(None, "fill"), (5, "sgemm")]


def test_what_was_counted_is_kept_and_what_could_not_be_is_tried_again(
    places: list[int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes: list[str] = []
    runs: list[str] = []

    def run(job: dict[str, Any], **_: Any) -> dict[str, Any]:
        runs.append(job["kind"])
        return {"columns": [column(0) for _ in job["candidates"]]}

    monkeypatch.setattr(measure, "run_job", run)
    candidate = Candidate(kind="k", config={}, optimizer=None, scale=1.0, time_s=1e-3)
    bench = Bench(
        environment={"device": "cuda"}, mode="inference", dtype="float32", device="cuda:0",
        cache=MeasurementCache(tmp_path), report=lambda _stage, _share: None, counters="auto", note=notes.append,
    )  # fmt: skip
    bench.columns([candidate])
    assert (places, notes) == ([], [])
    for build_and_measure in (1, 2):  # a permission may be given in between
        bench.columns([candidate], counters=True)
        assert (places, notes) == ([0] * build_and_measure, ["no hardware counters"] * build_and_measure)
    allowed = replace(bench, counters="ncu")
    for _ in range(2):  # the second time from the cache
        ((_, found),) = allowed.columns([candidate], counters=True)
        assert found["block"]["operators"][0]["counters"] == {"achieved_occupancy": 0.0}
    assert (places, len(notes)) == ([0] * 3, 2)
    assert runs == ["measure_candidates"] * PROCESSES  # timed once
    assert not replace(bench, device="cpu").counts
    assert not replace(bench, counters="off").counts
