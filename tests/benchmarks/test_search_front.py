"""The program that compares searches with the solver alone: what it reads from proxies, and its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import csv_tables
from benchmarks.search_front import THREE, FrontRow, Network, as_near_step_s, markdown, mix_of, networks_of, within
from statsnet import workloads
from statsnet.signatures.mix_request import parse_mix


def network(error: float, step_latency_s: float) -> Network:
    return Network(error=error, step_latency_s=step_latency_s)


def row(way: str, error: float, step_s: float | None) -> FrontRow:
    return FrontRow(
        mix="m", way=way, wall_s=60.0, networks=3, error=error, kernel_classes=0.021, budget_s=0.01,
        as_near_step_s=step_s,
    )  # fmt: skip


def test_a_network_that_is_too_long_is_no_better_one() -> None:
    networks = [network(0.1, 0.02), network(0.2, 0.0105), network(0.3, 0.008)]
    assert within(networks, 0.01) == networks[1:]
    assert within(networks[:1], 0.01) == networks[:1]


def test_the_shortest_that_is_as_near() -> None:
    networks = [network(0.1, 0.02), network(0.2, 0.0105), network(0.3, 0.008)]
    assert as_near_step_s(networks, 0.2) == 0.0105
    assert as_near_step_s(networks, 0.05) is None


def test_a_proxy_s_rounds_are_networks() -> None:
    """As in a folder that a worker made."""
    found = networks_of(Path("generated"))
    assert found
    assert all(n.step_latency_s > 0 for n in found)


def test_the_table_sets_each_beside_the_solver(tmp_path: Path) -> None:
    rows = [row("solver alone", 0.2, 0.01), row("one worker", 0.15, 0.008), row("two workers", 0.1, None)]
    csv_tables.write(tmp_path / "t.csv", FrontRow, rows, one_machine=False)
    lines = markdown(csv_tables.read(tmp_path / "t.csv", FrontRow)).splitlines()
    assert [cell.strip() for cell in lines[3].strip("|").split("|")] == [
        "m", "one worker", "60 s", "3", "0.1500 (0.75)", "2.1", "8.00 ms (0.80)",
    ]  # fmt: skip
    assert "none" in lines[4]


def test_without_the_solver_s_row_there_is_nothing_beside() -> None:
    assert "(" not in markdown([row("one worker", 0.15, 0.008)])


@pytest.mark.parametrize("text", ["vision,recommendation", "vision, recommendation"])
def test_names_and_mixes(text: str) -> None:
    from benchmarks.search_front import _mixes

    assert _mixes(text) == ["vision", "recommendation"]
    assert _mixes("recsys/ncf:1,recsys/dlrm:1") == ["recsys/ncf:1,recsys/dlrm:1"]


@pytest.mark.parametrize("name", THREE)
def test_each_mix_is_one_of_workloads_that_there_are(name: str) -> None:
    assert {part.name for part in parse_mix(mix_of(name))} <= set(workloads.names())
