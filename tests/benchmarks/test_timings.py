"""A benchmark's times: kept at once, used again, of this environment alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import timings
from timings import Subject, Timings, run_rounds

from statsnet.workloads.settings import BASELINE, Setting

ONE_THREAD = Setting(name="threads=1", threads=1)


def subject(name: str) -> Subject:
    return Subject(
        identity=name, label=name, job=lambda setting: {"kind": name, "setting": setting.to_dict()}
    )


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The groups that were run; each process takes as many seconds as groups have run before it."""
    done: list[str] = []

    def run(group: dict[str, Any]) -> dict[str, Any]:
        jobs = group["jobs"]
        done.append(f"{jobs[0]['kind']} {' '.join(job['setting']['name'] for job in jobs)}")
        times = [float(len(done))] * 3
        return {"outcomes": [{"latency_s": times, "window_latency_s": times, "stable": True} for _ in jobs]}

    monkeypatch.setattr(timings, "side_by_side", run)
    return done


def measured(
    path: Path, ran: list[str], *, most: int = 2, uncertain: set[tuple[str, str]] | None = None
) -> Timings:
    found = Timings(path, here="here")
    run_rounds(
        found, [subject("a"), subject("b")], [ONE_THREAD], fewest=2, most=most,
        uncertain=lambda: uncertain or set(), say=lambda _: None,
    )  # fmt: skip
    return found


def test_subjects_and_settings_take_turns(tmp_path: Path, ran: list[str]) -> None:
    found = measured(tmp_path / "times.jsonl", ran)
    assert ran == ["a baseline threads=1", "b baseline threads=1"] * 2
    assert [p["latency_s"] for p in found.of(subject("b"), BASELINE)] == [[2.0], [4.0]]
    before, after = found.pairs(subject("b"), ONE_THREAD)
    assert (
        [p["window_latency_s"] for p in before]
        == [p["window_latency_s"] for p in after]
        == [[2.0] * 3, [4.0] * 3]
    )


def test_what_was_measured_is_not_measured_again(tmp_path: Path, ran: list[str]) -> None:
    path = tmp_path / "times.jsonl"
    measured(path, ran)
    *kept, last = path.read_text().splitlines()
    path.write_text("\n".join(kept) + "\n" + last[:20])  # stopped while it wrote
    ran.clear()
    measured(path, ran)
    assert ran == ["b baseline threads=1"]
    ran.clear()
    measured(path, ran)
    assert ran == []


def test_times_of_another_machine_do_not_count(tmp_path: Path, ran: list[str]) -> None:
    path = tmp_path / "times.jsonl"
    measured(path, ran)
    lines = [{**json.loads(line), "environment": "elsewhere"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    ran.clear()
    measured(path, ran)
    assert len(ran) == len(lines) == len(path.read_text().splitlines()) / 2


def test_only_what_is_uncertain_runs_on(tmp_path: Path, ran: list[str]) -> None:
    measured(tmp_path / "times.jsonl", ran, most=4, uncertain={("b", "threads=1")})
    assert ran[4:] == ["b baseline threads=1"] * 2


def test_without_settings_the_baseline_runs_alone(tmp_path: Path, ran: list[str]) -> None:
    found = Timings(tmp_path / "times.jsonl", here="here")
    run_rounds(found, [subject("a")], [], fewest=2, most=2, uncertain=set, say=lambda _: None)
    assert ran == ["a baseline"] * 2


def test_that_a_subject_does_not_run_in_a_setting_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(group: dict[str, Any]) -> dict[str, Any]:
        assert [job["may_fail"] for job in group["jobs"]] == [False, True]
        times = {"latency_s": [1.0] * 3, "window_latency_s": [1.0] * 3}
        return {"outcomes": [times, {"failed": "a (threads=1): it needs two"}]}

    monkeypatch.setattr(timings, "side_by_side", run)
    Timings(tmp_path / "times.jsonl", here="here").measure(subject("a"), [ONE_THREAD])
    read = Timings(tmp_path / "times.jsonl", here="here")
    assert read.failed(subject("a"), ONE_THREAD) == "a (threads=1): it needs two"
    assert read.failed(subject("a"), BASELINE) is None
    assert len(read.of(subject("a"), ONE_THREAD)) == 1, "it is not tried again in the same round"
