"""The attacks on look-alikes and on aggregates: they find what differs, and guess among what does not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from clusters import mm, relu, signature

from benchmarks import membership, reidentification
from benchmarks.membership import FleetRow, calls_of, distance, fleets, parts_of
from benchmarks.reidentification import trials, wilson
from statsnet.profiling.costs import cost_of
from statsnet.signatures.aggregation import sum_of_steps
from statsnet.signatures.levels import coarsen
from statsnet.signatures.model import Signature


def model(*sizes: int, calls: float = 1.0) -> Signature:
    """Products of these sizes, each so many times."""
    products = signature(*(mm(n, n, n, calls=calls) for n in sizes))
    return replace(products, memory=replace(products.memory, parameter_count=sum(n**2 for n in sizes)))


def coarse(library: dict[str, Signature]) -> dict[str, Signature]:
    return {name: coarsen(s, "coarse", cost_of) for name, s in library.items()}


def test_what_differs_is_found_and_what_is_alike_is_guessed() -> None:
    full = {str(n): model(n) for n in (764, 768, 772, 400)}
    rows = trials("squares", "full", 8, full, full)
    assert [row.found for row in rows] == [1.0] * 4
    rows = trials("squares", "coarse", 8, coarse(full), coarse(full))
    assert [(row.found, row.alike, row.twins) for row in rows] == [(pytest.approx(1 / 3), 3, 3)] * 3 + [(1.0, 1, 1)]
    assert reidentification.summed_up(rows).startswith("coarse: chance 25.0%, 4 trials; found 50.0%")


def test_wilsons_interval_by_hand() -> None:
    assert wilson(0.5, 100) == (pytest.approx(0.404, abs=1e-3), pytest.approx(0.596, abs=1e-3))
    assert wilson(0.0, 10)[0] == 0.0


def test_members_that_differ_are_found_and_those_alike_are_guessed() -> None:
    library = {str(n): model(n) for n in range(750, 790, 4)}
    rows = fleets("squares", "full", library, 20, 3, np.random.default_rng(0))
    assert [(r.presence, r.decomposition) for r in rows] == [(1.0, 1.0)] * 20
    rows = fleets("squares", "coarse", coarse(library), 20, 3, np.random.default_rng(0))
    assert [(r.presence, r.decomposition) for r in rows] == [(0.5, 0.5)] * 20
    assert membership.summed_up(rows).startswith("coarse: chance 50%, 20 fleets of 3; presence right in 50.0% (")


def test_calls_tell_members_apart_that_have_the_same_clusters() -> None:
    """Three layers of each size, or one: the sizes alone do not say which."""
    library = {"deep": model(64, 96, calls=3.0), "other": model(96, 128), "wide": model(64, 128, calls=2.0)}
    both = sum_of_steps([library["deep"], library["other"]], [0.25, 0.75])
    assert all(distance(s, both) == 0 for s in library.values())
    parts = parts_of(calls_of(both), {name: calls_of(s) for name, s in library.items()})
    assert parts == {"deep": pytest.approx(0.25), "other": pytest.approx(0.75), "wide": pytest.approx(0.0, abs=1e-9)}


def test_what_is_not_there_is_far() -> None:
    both = sum_of_steps([model(64), model(96)], [0.5, 0.5])
    assert 0 < distance(model(100), both) < distance(model(1000), both) < 100
    assert distance(signature(relu(64)), both) == 100


def test_a_fleet_leaves_somebody_out() -> None:
    with pytest.raises(ValueError, match="leaves none"):
        fleets("squares", "full", {"a": model(8), "b": model(9)}, 1, 2, np.random.default_rng(0))


def test_a_table_is_summed_up_by_hand() -> None:
    rows = [FleetRow(family="f", level="full", fleet=i, members=5, presence=i / 2, decomposition=1.0) for i in range(3)]
    assert membership.summed_up(rows).startswith("full: chance 50%, 3 fleets of 5; presence right in 50.0%")
    assert "decomposition right in 100.0%" in membership.summed_up(rows)
    assert membership.summed_up([]) == "no fleets"
