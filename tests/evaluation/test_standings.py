"""Any number of results against a baseline."""

from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from statsnet.errors import UsageError
from statsnet.evaluation.standings import NamedResult, standings
from statsnet.evaluation.verdicts import verdict
from statsnet.reporting.html.markup import grid, html, markdown
from statsnet.reporting.standings import COLUMNS, _by_result, standings_csv, standings_report
from statsnet.signatures.intervals import Interval
from statsnet.signatures.results import Result, Subject
from statsnet.signatures.timing import ProcessPower, Timing


def named(
    name: str,
    *seconds: float,
    subject: str = "1",
    price: float | None = None,
    energy_j: float | None = None,
    **environment: Any,
) -> NamedResult:
    power = None if energy_j is None else ProcessPower(energy_j_per_step=energy_j)
    return NamedResult(
        name=name,
        price_per_h=price,
        result=Result(
            subject=Subject(type="proxy", id=f"sha256:{subject * 64}", mode="inference"),
            environment={"device": "cpu", "device_name": "A CPU", "threads": 2} | environment,
            processes=tuple(Timing(latency_s=(s,), power=power) for s in seconds),
        ),
    )


def test_each_is_compared_with_the_first_or_with_the_baseline() -> None:
    results = [named("a", 1.0, 1.01), named("b", 2.0, 2.02, device_name="B"), named("c", 4.0, 4.04, threads=1)]
    found = standings(results)
    assert found.rows[0].verdict == "baseline"
    assert [row.factor and row.factor.value for row in found.rows] == [None, pytest.approx(2.0), pytest.approx(4.0)]
    found = standings(results, ["c"])
    assert [row.factor and row.factor.value for row in found.rows] == [pytest.approx(0.25), pytest.approx(0.5), None]
    with pytest.raises(UsageError, match="'d' is none of the results"):
        standings(results, ["d"])


def test_energy_and_cost_per_step() -> None:
    a = named("a", 0.9, 1.0, 1.1, price=3600.0, energy_j=10.0)
    b = named("b", 0.45, 0.5, 0.55, price=1800.0, energy_j=20.0, threads=4)
    first, second = standings([a, b]).rows
    assert first.cost_per_step == pytest.approx(0.9966, rel=1e-3)  # the geometric mean of the times, at 1 a second
    assert second.energy_factor == pytest.approx(2.0)
    assert second.cost_factor is not None
    assert second.factor is not None
    assert second.cost_factor.value == pytest.approx(0.25)
    assert second.cost_factor.low == pytest.approx(0.5 * (second.factor.low or 0))


def test_the_geometric_mean_over_several_proxies() -> None:
    results = [
        named(f"{subject}{where}", *(time * t for t in (1.0, 1.01, 0.99)), subject=subject, device_name=where)
        for subject, where, time in (("1", "A", 1.0), ("1", "B", 2.0), ("2", "A", 5.0), ("2", "B", 40.0))
    ]
    found = standings(results)
    assert [row.verdict for row in found.rows if row.is_baseline] == ["baseline"] * 2
    (mean,) = found.means
    assert (mean.machine, mean.subjects) == ("B", 2)
    assert mean.factor.value == pytest.approx(4.0)
    half = [math.log(row.factor.high / row.factor.value) for row in found.rows if row.factor and row.factor.high]
    assert math.log((mean.factor.high or 0) / 4.0) == pytest.approx(math.hypot(*half) / 2)
    assert "Geometric mean of the factors" in markdown(standings_report(found))


def test_several_results_against_one_baseline_share_its_error() -> None:
    """Else the mean over proxies would look surer than any of its parts."""
    spread = (1.0, 1.2, 0.8)
    once = [named(f"{s}{w}", *(w * t for t in spread), subject=s, threads=w) for s in "12" for w in (1, 2)]
    again = [named(f"1again{i}", *(2 * t for t in spread), subject="1", threads=2) for i in range(3)]
    (mean,), (of_more,) = standings(once).means, standings([*once, *again]).means
    assert of_more.factor == mean.factor


def test_a_proxy_has_one_baseline() -> None:
    with pytest.raises(UsageError, match="'a' and 'b' are both given as baselines"):
        standings([named("a", 1.0), named("b", 2.0), named("c", 3.0)], ["a", "b"])


def test_what_has_no_baseline_is_said_and_not_compared() -> None:
    results = [named("a", 1.0, 1.0), named("b", 2.0, 2.0, threads=4), named("c", 9.0, subject="3", threads=8)]
    found = standings(results)
    assert found.rows[2].factor is None
    assert found.rows[2].verdict.startswith("not comparable: it is of another proxy")
    with pytest.raises(UsageError, match="not of the same subject"):
        standings([results[0], results[2]])
    with pytest.raises(UsageError, match="nothing to compare"):
        standings(results[:1])


def test_machines_and_settings_as_a_table() -> None:
    results = [named(f"{m}{t}", t * 1.0, t * 1.01, device_name=m, threads=t) for m in ("A", "B") for t in (1, 2)]
    report = standings_report(standings(results))
    table = next(grid(part) for part in report if isinstance(part, Table) and str(part.title).startswith("Factors"))
    assert table.head == ("machine", "1 thread", "2 threads")
    assert table.rows[0][1] == "1×"
    assert table.rows[1][2].startswith("2×")


def test_csv_json_markdown_and_html() -> None:
    found = standings([named("a|<b>", 1.0, 1.01), named("b", 2.0, 2.01, device_name="A, B")])
    rows = list(csv.DictReader(io.StringIO(standings_csv(found))))
    assert tuple(rows[0]) == COLUMNS
    assert float(rows[1]["factor"]) == pytest.approx(2.0, rel=0.01)
    assert rows[1]["machine"] == "A, B"
    assert rows[0]["factor_low"] == ""
    assert [row["significant"] for row in rows] == ["", "1"]
    data = found.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    report = standings_report(found)
    assert "| a\\|\\<b\\> | A CPU | 2 threads |" in markdown(report)
    assert "<td>a|&lt;b&gt;</td>" in html(report)


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        ((1.424, 1.40, 1.45), "1.42 ± 0.03 times slower"),
        ((0.5, 0.4999, 0.5001), "2.0000 ± 0.0004 times faster"),
        ((0.5, 0.5, 0.5), "2 times faster"),
        ((3.0, 1.2, 8.4), "1.2 to 8.4 times slower"),
        ((1.01, 0.98, 1.03), "no difference shown (0.98 to 1.03 times as long)"),
        ((3.17, 1e-3, 1e4), "no difference shown: the processes differ too much to tell any factor"),
        ((120.0, 110.0, 130.0), "120 ± 10 times slower"),
    ],
)
def test_verdicts(interval: tuple[float, float, float], words: str) -> None:
    value, low, high = interval
    assert verdict(Interval(value=value, low=low, high=high)) == words


def test_a_factor_from_one_process_in_words() -> None:
    one = Interval(value=0.5, low=None, high=None)
    assert verdict(one).startswith("2 times faster, but whether")


def test_a_weakness_of_one_result_is_said_once() -> None:
    results = [named("a", 1.0, 1.01), named("b", 2.0, 2.02, device_name="B"), named("c", 4.0, 4.04, threads=1)]
    unstable = [
        replace(r, result=replace(r.result, processes=tuple(replace(p, stable=False) for p in r.result.processes)))
        for r in results
    ]
    console = Console(width=200)
    with console.capture() as capture:
        for part in standings_report(standings(unstable)):
            console.print(part)
    said = capture.get()
    assert [said.count(f"{name}: 2 of 2 processes were not stable") for name in "abc"] == [1, 1, 1]
    assert said.count("were not stable") == 3


def test_a_weakness_of_a_member_is_said_once() -> None:
    texts = ["a, cv/x,: drifts", "a, cv/x,: drifts"]
    assert _by_result([("b", texts), ("c", texts)], "abc") == ["a, cv/x,: drifts"]


def test_a_text_that_begins_like_a_name_is_not_taken_for_its_own() -> None:
    same = [named("a", 1.0, 1.01), named("b", 2.0, 2.02), named("c", 4.0, 4.04)]
    console = Console(width=200)
    with console.capture() as capture:
        for part in standings_report(standings(same)):
            console.print(part)
    assert [capture.get().count(f"{name}: both results come from the same environment") for name in "bc"] == [1, 1]


def test_one_process_with_the_same_time_is_neither_faster_nor_slower() -> None:
    assert verdict(Interval(value=1.0004, low=None, high=None)).startswith("no difference seen, but ")
