"""At which pace a measured network is compared with the members: what its blocks and the reference network tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from synthesis_builders import small_costs, small_signature

from statsnet.synthesis.bench.network_measurement import NetworkMeasurement
from statsnet.synthesis.confirming import measured_at_pace, usual_pace
from statsnet.synthesis.trials import Knowledge, Trial

STEP_S = small_signature().measurements[0].latency_s


def measured(paces: Sequence[float], *, earlier: Sequence[float] = (), steady: bool = False) -> NetworkMeasurement:
    """A network whose step takes STEP_S by the reference network, in processes whose blocks have these paces."""
    network = NetworkMeasurement(signature=small_signature(), build_s=0.0, blocks=tuple(() for _ in paces), drift=1.0)
    bench = SimpleNamespace(measure_network=lambda *_: network)
    problem = SimpleNamespace(bench=bench, speed=SimpleNamespace(is_steady=steady))
    left = list(paces)
    costs = SimpleNamespace(pace=lambda *_: left.pop(0))
    runs = range(len(paces))
    return measured_at_pace("", [], runs, cast(Any, costs), cast(Any, problem), earlier=earlier)


def test_blocks_that_are_faster_in_every_network_are_not_a_faster_machine() -> None:
    found = measured([0.87, 0.87], earlier=[0.87, 0.86, 0.88])
    assert found.latency_s == pytest.approx(STEP_S)
    assert found.drift == pytest.approx(1.0)
    assert found.paces == (0.87, 0.87)


def test_a_process_whose_reference_network_was_slowed_alone_is_brought_to_the_others() -> None:
    """By the reference network its blocks took a quarter less time, and so did its step; in other processes they did
    not."""
    found = measured([0.75], earlier=[1.0, 1.0, 1.0])
    assert found.latency_s == pytest.approx(STEP_S / 0.75)
    assert found.drift == pytest.approx(0.75)


def test_a_single_process_cannot_tell_its_blocks_from_its_reference_network() -> None:
    """Half of the difference is taken for each."""
    assert measured([0.75]).latency_s == pytest.approx(STEP_S / (0.75 / 0.875))


def test_what_later_networks_tell_holds_for_earlier_ones_too() -> None:
    """Of one process half of the difference was taken for the machine's; two more say that networks' blocks are slower
    than alone by that much."""
    first = measured([1.5])
    assert first.latency_s == pytest.approx(STEP_S * 1.25 / 1.5)
    trial = Trial(counts={}, towers=[], source="", measurement=first, solution=cast(Any, None))
    costs = small_costs()
    (identity, alone), *_ = costs.block_loads.items()
    known = Knowledge(costs=replace(costs, in_place={identity: (alone.groups,)}), trials=(trial,))
    revised = known.at_pace(usual_pace((1.5, 1.5, 1.5)) / usual_pace((1.5,)))
    assert revised.trials[0].latency_s == pytest.approx(STEP_S)
    assert revised.trials[0].measurement.drift == pytest.approx(1.0)
    assert revised.paces == (1.5,)
    (there,) = revised.costs.in_place[identity]
    assert [g.time_s for g in there] == pytest.approx([g.time_s * 1.5 / 1.25 for g in alone.groups])
    assert known.at_pace(1.0) is known


def test_a_device_that_keeps_its_speed_has_no_pace() -> None:
    assert measured([0.5], steady=True).latency_s == pytest.approx(STEP_S)
