"""A benchmark's times: kept at once, used again, of this environment alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import timings
from timings import Subject, Timings, run_rounds

from statsnet.running.settings import BASELINE, Setting

ONE_THREAD = Setting(name="threads=1", threads=1)


def subject(name: str) -> Subject:
    return Subject(
        identity=name, label=name, job=lambda setting: {"kind": name, "setting": setting.to_dict()}
    )


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the jobs that were run; each takes as many seconds as have run before it."""
    done: list[str] = []

    def run(job: dict[str, Any]) -> dict[str, Any]:
        done.append(f"{job['kind']} {job['setting']['name']}")
        return {"latency_s": [float(len(done))] * 3, "stable": True}

    monkeypatch.setattr(timings, "run_job", run)
    return done


def measured(
    path: Path, ran: list[str], *, most: int = 2, uncertain: set[tuple[str, str]] | None = None
) -> Timings:
    found = Timings(path, here="here")
    run_rounds(
        found, [subject("a"), subject("b")], [BASELINE, ONE_THREAD], fewest=2, most=most,
        uncertain=lambda: uncertain or set(), say=lambda _: None,
    )  # fmt: skip
    return found


def test_subjects_and_settings_take_turns(tmp_path: Path, ran: list[str]) -> None:
    found = measured(tmp_path / "times.jsonl", ran)
    assert ran == ["a baseline", "a threads=1", "b baseline", "b threads=1"] * 2
    assert [p["latency_s"] for p in found.of(subject("b"), BASELINE)] == [[3.0], [7.0]]


def test_what_was_measured_is_not_measured_again(tmp_path: Path, ran: list[str]) -> None:
    path = tmp_path / "times.jsonl"
    measured(path, ran)
    *kept, last = path.read_text().splitlines()
    path.write_text("\n".join(kept) + "\n" + last[:20])  # stopped while it wrote
    ran.clear()
    measured(path, ran)
    assert ran == ["b threads=1"]
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
    assert ran[8:] == ["b threads=1"] * 2
