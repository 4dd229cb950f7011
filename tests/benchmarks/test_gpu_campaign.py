"""The campaign on a GPU: what it would run, how it goes on, and what it prints. Nothing here has a GPU."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from benchmarks.gpu_campaign import COUNTED, DTYPES, MODES, PIECES, WORKLOADS, Step, _of_the_device, plan, run, table
from statsnet.cli.app import statsnet

ROOT = Path(__file__).parents[2]


def test_every_step_is_a_command_that_statsnet_takes(tmp_path: Path) -> None:
    steps = plan(tmp_path, "cuda")
    for step in steps:
        command: click.Command = statsnet
        words = list(step.arguments)
        while isinstance(command, click.Group):
            command = command.commands[words.pop(0)]
        with command.make_context(command.name, words) as context:
            assert context.params["device"] == "cuda"
            assert not context.args
    assert len({step.makes for step in steps}) == len(steps)
    profiles = [s.arguments for s in steps if s.arguments[0] == "profile"]
    assert len(profiles) == len(WORKLOADS) * len(MODES) * len(DTYPES) + len(PIECES) + len(COUNTED)
    assert [a[1] for a in profiles if a[a.index("--counters") + 1] == "auto"] == [*COUNTED]


def test_a_proxy_comes_as_early_as_its_members_allow(tmp_path: Path) -> None:
    kinds = [step.arguments[0] for step in plan(tmp_path, "cuda")]
    first = kinds.index("synthesize")
    assert kinds[first : first + 3] == ["synthesize", "validate", "run"]
    names = [step.arguments[1] for step in plan(tmp_path, "cuda")[:first]]
    assert sorted(names) == sorted(w for w in WORKLOADS if w.startswith(("cv", "recsys")))


def test_it_goes_on_where_it_was_stopped_and_names_what_failed(tmp_path: Path) -> None:
    steps = [Step(name=n, arguments=(n,), makes=tmp_path / "files" / n) for n in "abcd"]
    called: list[str] = []
    now = [0.0]

    def call(arguments: Sequence[str]) -> tuple[int, str]:
        (name,) = arguments
        called.append(name)
        now[0] += 10.0
        if name == "b" and called.count("b") == 1:
            return 1, "statsnet: it is broken"
        (tmp_path / "files" / name).write_text('{"kind": "statsnet.spec"}')
        return 0, ""

    def once() -> list[tuple[str, str]]:
        outcomes = run(steps, limit_s=25.0, call=call, say=lambda _: None, clock=lambda: now[0])
        shown = table(outcomes)
        assert all(f"| {o.step.name} | {o.status} |" in shown for o in outcomes)
        assert "broken" in shown or all(o.status != "failed" for o in outcomes)
        return [(o.step.name, o.status) for o in outcomes]

    assert once() == [("a", "done"), ("b", "failed"), ("c", "done"), ("d", "left out")]
    assert once() == [("a", "there"), ("b", "done"), ("c", "there"), ("d", "done")]
    assert called == ["a", "b", "c", "b", "d"]


FIT = {
    "kind": "statsnet.fit",
    "summary": {"category_total_variation": 0.038, "flops_per_s_error": 0.01, "compression": 51.0},
    "characteristics": [],
}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (json.dumps(FIT), ["categories 3.8 points", "FLOP/s +1.0 %", "compression 51"]),
        ((ROOT / "tests/signatures/golden_signature.json").read_text(), ["ms", "clusters"]),
    ],
)
def test_its_table_has_the_figures_of_what_was_made(text: str, words: list[str], tmp_path: Path) -> None:
    made = tmp_path / "file.json"
    made.write_text(text)
    shown = table(run([Step(name="x", arguments=(), makes=made)], limit_s=1.0, call=lambda _: (1, ""), say=print))
    assert all(word in shown for word in words), shown


def test_its_table_names_power_and_the_counter_that_is_furthest_off() -> None:
    def row(name: str, group: str, unit: str, target: float, achieved: float | None) -> dict[str, Any]:
        return {"name": name, "group": group, "unit": unit, "target": target, "achieved": achieved}

    rows = [
        row("power", "rate", "W", 500.0, 510.0),
        row("l2_hit_rate", "counter", "share", 0.5, 0.48),
        row("achieved_occupancy", "counter", "share", 0.3, 0.35),
        row("ipc", "counter", "instructions/cycle", 2.0, 3.0),
        row("sm_utilization", "counter", "share", 0.9, None),
    ]
    assert _of_the_device(rows) == ["power +2.0 %", "achieved_occupancy +5.0 points"]
    assert _of_the_device(rows[4:]) == []
