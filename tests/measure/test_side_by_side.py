"""Processes that take turns: real ones, and the rules by which a step is timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statsnet.errors import StatsNetError, WorkloadError
from statsnet.measure.side_by_side import FEWEST_TURNS, side_by_side
from statsnet.measure.timing_tasks import take_turns
from statsnet.workloads.settings import BASELINE, parse_settings

SETTINGS = [BASELINE, *parse_settings("threads=1,aten=default")]


def timing(target: str, **limits: float) -> dict[str, Any]:
    common = {"kind": "time_workload", "target": target, "mode": "inference", "preset": "tiny", **limits}
    return {"jobs": [{**common, "setting": s.to_dict(), "label": f"it ({s.name})"} for s in SETTINGS]}


def test_every_process_has_as_many_windows() -> None:
    outcomes = side_by_side(timing("recsys/ncf", max_time_s=0.1))["outcomes"]
    assert [o["environment"]["threads"] for o in outcomes][1] == 1
    assert outcomes[2]["environment"]["settings"]["ATEN_CPU_CAPABILITY"] == "default"
    for outcome in outcomes:
        assert len(outcome["window_latency_s"]) == FEWEST_TURNS
        assert min(outcome["latency_s"]) <= min(outcome["window_latency_s"])
        assert len(outcome["latency_s"]) > FEWEST_TURNS


def test_what_may_not_share_the_memory_runs_one_after_the_other() -> None:
    jobs = timing("recsys/ncf", max_time_s=0.1, min_time_s=0.02, peak_bytes=1 << 60)["jobs"]
    outcomes = side_by_side({"jobs": jobs})["outcomes"]
    assert len(outcomes) == len(SETTINGS)
    assert all("window_latency_s" not in o for o in outcomes)


def test_a_process_that_fails_says_why(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text("def make():\n    raise RuntimeError('the weights are gone')\n")
    with pytest.raises(WorkloadError) as caught:
        side_by_side({"jobs": [{**job, "preset": None} for job in timing(f"{model}:make")["jobs"]]})
    assert "the weights are gone" in str(caught.value.cause)


def test_one_that_dies_in_its_turn_ends_all(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import os, torch\n"
        "class Dying(torch.nn.Module):\n"
        "    steps = 0\n"
        "    def forward(self, x):\n"
        "        Dying.steps += 1\n"
        "        if os.environ.get('ATEN_CPU_CAPABILITY') and Dying.steps > 40:\n"
        "            os._exit(3)\n"
        "        return x @ x\n"
        "def make():\n"
        "    return Dying(), (torch.ones(300, 300),)\n"
    )
    jobs = [{**job, "preset": None} for job in timing(f"{model}:make", max_time_s=0.5)["jobs"]]
    with pytest.raises(
        StatsNetError, match=r"it \(aten=default\): a measuring process failed \(exit code 3\)"
    ):
        side_by_side({"jobs": jobs})


@pytest.mark.parametrize("side", ["side by side", "one after the other"])
def test_one_that_may_fail_says_why_and_the_others_go_on(tmp_path: Path, side: str) -> None:
    model = tmp_path / "model.py"
    model.write_text(
        "import os, torch\n"
        "class Choosy(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        if os.environ.get('ATEN_CPU_CAPABILITY'):\n"
        "            raise RuntimeError('no kernel for this capability')\n"
        "        return x @ x\n"
        "def make():\n"
        "    return Choosy(), (torch.ones(300, 300),)\n"
    )
    limits = {"peak_bytes": 1 << 60} if side == "one after the other" else {}
    jobs = timing(f"{model}:make", max_time_s=0.1, min_time_s=0.02, **limits)["jobs"]
    outcomes = side_by_side({"jobs": [{**job, "preset": None, "may_fail": True} for job in jobs]})["outcomes"]
    assert ["failed" in o for o in outcomes] == [False, False, True]
    assert outcomes[2]["failed"].startswith("it (aten=default): ")
    assert "no kernel for this capability" in outcomes[2]["failed"]


def test_a_window_for_each_command() -> None:
    said: list[dict[str, Any]] = []
    found = take_turns(lambda: sum(range(100_000)), ["step", "step", "step"], said.append, limit_s=0.1)
    assert said[0] == {"ready": True}
    assert [event["window_s"] for event in said[1:]] == found["window_latency_s"]
    assert len(found["window_latency_s"]) == 3
