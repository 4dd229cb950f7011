"""Where a proxy's tail cannot stand for its suite's, it is said in words."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace

import pytest
from rich.console import Console
from scenario_results import scenario_result, trial

from statsnet.evaluation.scenario_factors import scenario_factors, tail_notes
from statsnet.evaluation.scenario_rules import judge
from statsnet.reporting.html.of_scenario import scenario_section
from statsnet.reporting.scenarios import scenario_report
from statsnet.signatures.scenarios import AskedMember, ScenarioName, ScenarioResult, SuiteBeside, UnderSetting

ALIKE = [0.001] * 700
MIXED = [0.010] * 650 + [0.8] * 50
MEMBERS = (
    AskedMember(name="quick", weight=0.5, query_share=0.93),
    AskedMember(name="slow", weight=0.5, query_share=0.07),
)


def beside(
    suite: Sequence[float],
    proxy: Sequence[float],
    *,
    scenario: ScenarioName = "single-stream",
    members: tuple[AskedMember, ...] = MEMBERS,
) -> ScenarioResult:
    """The setting slows both sides alike, and its tail is that of the baseline."""
    qps = 10.0 if scenario == "server" else None
    setting = UnderSetting(
        name="threads=1",
        suite=(trial([2 * t for t in suite], qps=qps),),
        proxy=(trial([2 * t for t in proxy], qps=qps),),
    )
    side = SuiteBeside(members=members, proxy=(trial(proxy, qps=qps),), settings=(setting,))
    return scenario_result(scenario, trial(suite, qps=qps), beside=side)


@pytest.mark.parametrize("scenario", ["single-stream", "multi-stream", "server"])
def test_a_mixture_has_a_tail_that_steps_of_one_length_have_not(scenario: ScenarioName) -> None:
    at_baseline, under = tail_notes(beside(MIXED, ALIKE, scenario=scenario))
    assert at_baseline.startswith("at the baseline the suite's p99 is 80 times its p50, the proxy's 1 times: ")
    assert "the longest are those of slow, 7.0% of the queries" in at_baseline
    assert at_baseline.endswith("its p99 cannot stand for the suite's")
    assert under.startswith("under threads=1 ")


def test_alike_tails_need_no_words() -> None:
    assert tail_notes(beside(MIXED, [t / 10 for t in MIXED])) == ()


def test_a_proxy_with_the_longer_tail_was_disturbed() -> None:
    notes = tail_notes(beside(ALIKE, MIXED))
    assert all("the proxy's runs were disturbed" in note for note in notes)
    assert len(notes) == 2


def test_a_suite_of_one_names_no_member() -> None:
    (note, _) = tail_notes(beside(MIXED, ALIKE, members=(AskedMember(name="one", weight=1.0, query_share=1.0),)))
    assert "steps of the suite differ more than the proxy's" in note


def test_nothing_is_said_of_percentiles_that_are_not_known_or_have_no_meaning() -> None:
    assert tail_notes(beside(MIXED[:5], ALIKE)) == ()
    assert tail_notes(beside(MIXED, ALIKE, scenario="offline")) == ()
    assert tail_notes(scenario_result("single-stream", trial(MIXED))) == ()


def test_the_table_and_the_picture_say_it() -> None:
    result = beside(MIXED, ALIKE)
    console = Console(file=io.StringIO(), width=2000, record=True)
    for part in scenario_report(result):
        console.print(part)
    assert "cannot stand for the suite's" in console.export_text()
    picture = scenario_section("x", result).pictures[-1]
    assert "At the baseline the suite's p99 is 80 times its p50" in picture.note


def test_a_rate_that_a_setting_is_too_slow_for_has_no_factor() -> None:
    """The backlog goes by how long the run was, and is no property of suite or proxy."""
    found = beside(MIXED, ALIKE, scenario="server")
    rows, missing = scenario_factors(found)
    assert rows and not missing
    assert found.beside is not None
    (under,) = found.beside.settings
    slow = replace(under.suite[0], answers=tuple(replace(a, step_s=0.2) for a in under.suite[0].answers))
    overloaded = replace(found.beside, settings=(replace(under, suite=(slow,)),))
    rows, missing = scenario_factors(replace(found, beside=overloaded))
    assert (rows, missing) == ((), ("under threads=1, queries come faster than steps end: give a lower --qps",))
    (reason,) = judge("server", found.rules, slow).reasons
    assert reason.text == "queries come every 100 ms, a step takes 200 ms"
    assert reason.hint == "a lower --qps"
    before = replace(found, trials=(slow,))
    assert scenario_factors(before) == (
        (),
        ("at the baseline, queries come faster than steps end: give a lower --qps",),
    )
