"""A finished network in several processes: placed anew until it waits and overlaps as the suite does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from distributed_signatures import distributed_signature
from synthesis_builders import linear

from statsnet.proxy.spec import make_spec
from statsnet.proxy.towers import Tower
from statsnet.signatures.collectives import CollectiveTime
from statsnet.signatures.documents import ProxySpec
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.target import Target, target_of
from statsnet.synthesis.bench.bench import Bench, Unmeasured
from statsnet.synthesis.together import MOST_TRIES, Together, with_collectives

STEP_S = 0.012
TOWERS = [Tower(blocks=(linear(64),))] * 20


def suite() -> Target:
    """Its process computes for three fifths of its all-reduces' 5 ms."""
    target = target_of(distributed_signature())
    return replace(target, clusters=tuple(replace(c, phase="backward") for c in target.clusters))


def network(target: Target) -> ProxySpec:
    return make_spec(target, TOWERS, title="a mix", notes="", dtype="float32", seed=0, budget_s=STEP_S,
                     environment={"device": "cpu"})  # fmt: skip


@dataclass
class Processes:
    """A bench whose processes compute for the given shares of their collectives' time, one network after another."""

    overlaps: Sequence[float]
    sources: list[str] = field(default_factory=list)
    setup: Any = field(default_factory=lambda: SimpleNamespace(deadline=SimpleNamespace(passed=False)))

    def measure_together(self, source: str, processes: int) -> Measurement:
        overlap = self.overlaps[min(len(self.sources), len(self.overlaps) - 1)]
        self.sources.append(source)
        (measured,) = distributed_signature().measurements
        assert measured.collectives is not None
        call = CollectiveTime(cluster=1, time_s=0.005, exposed_time_s=0.005 * (1 - overlap), start_share=0.5)
        return replace(measured, collectives=replace(measured.collectives, calls=(call,)))


def made(*overlaps: float, tries: int = MOST_TRIES) -> tuple[Together, Processes]:
    target, bench = suite(), Processes(overlaps)
    return with_collectives(network(target), target, STEP_S, cast(Bench, bench), tries=tries), bench


def computed_beside(spec: ProxySpec) -> float:
    """Share of the backward pass, on average."""
    placed = spec.collectives or ()
    return sum(c.count * (c.awaited_at - c.begins_at) for c in placed) / sum(c.count for c in placed)


def test_what_overlaps_as_it_should_is_measured_once() -> None:
    together, bench = made(0.62)
    assert len(bench.sources) == 1
    assert together.worst_miss < 1


def test_what_computes_too_much_beside_its_collectives_computes_less() -> None:
    first, _ = made(0.9, tries=1)
    together, bench = made(0.9, 0.6)
    assert len(bench.sources) == 2
    assert computed_beside(together.spec) == pytest.approx(0.6 / 0.9 * computed_beside(first.spec), rel=0.1)
    assert together.overlap is not None
    assert together.overlap.achieved == pytest.approx(0.6)


@pytest.mark.parametrize(("overlaps", "kept"), [((0.9, 0.4, 0.75, 0.3), 0.75), ((0.8, 0.1, 0.1, 0.1), 0.8)])
def test_if_none_is_right_the_nearest_is_kept(overlaps: Sequence[float], kept: float) -> None:
    together, bench = made(*overlaps)
    assert len(bench.sources) == MOST_TRIES
    assert together.overlap is not None
    assert together.overlap.achieved == pytest.approx(kept)


def test_after_the_deadline_none_is_placed_anew() -> None:
    target, bench = suite(), Processes((0.9,))
    bench.setup.deadline.passed = True
    with_collectives(network(target), target, STEP_S, cast(Bench, bench), tries=MOST_TRIES)
    assert len(bench.sources) == 1


def test_without_overlap_more_is_computed() -> None:
    first, _ = made(0.0, tries=1)
    together, _ = made(0.0, 0.6)
    assert computed_beside(together.spec) > 2 * computed_beside(first.spec)


def test_what_cannot_be_measured_is_placed_once_and_says_why() -> None:
    class Alone:
        def measure_together(self, *_: Any) -> Unmeasured:
            return Unmeasured("there is no core")

    target = suite()
    together = with_collectives(network(target), target, STEP_S, cast(Bench, Alone()), tries=MOST_TRIES)
    assert together.spec.collectives
    assert (together.unmeasured, together.worst_miss) == ("there is no core", 0.0)
