"""The attack on aggregates: it finds a member that differs, and guesses among those that do not."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.membership import FleetRow, calls_of, distance, fleets, parts_of, summed_up
from statsnet.profiling.costs import cost_of
from statsnet.signatures.aggregation import sum_of_steps
from statsnet.signatures.levels import coarsen
from statsnet.signatures.model import Cluster, Memory, Signature


def model(*sizes: int, calls: float = 1.0) -> Signature:
    """Products of these sizes, each so many times."""
    squares = [{"shape": [size, size], "dtype": "float32"} for size in sizes]
    clusters = tuple(
        Cluster(op="aten.mm.default", phase="forward", category="gemm", calls=calls, args=(s, s), outputs=(s,),
                flops=2 * n**3, bytes_read=8 * n**2, bytes_written=4 * n**2)
        for s, n in zip(squares, sizes, strict=True)
    )  # fmt: skip
    memory = Memory(parameter_count=1, parameter_bytes=4, buffer_bytes=0, input_bytes=0)
    return Signature(mode="inference", dtype="float32", clusters=clusters, memory=memory)


def test_members_that_differ_are_found_and_those_alike_are_guessed() -> None:
    library = {str(n): model(n) for n in range(750, 790, 4)}
    rows = fleets("squares", "full", library, 20, 3, np.random.default_rng(0))
    assert [(r.presence, r.decomposition) for r in rows] == [(1.0, 1.0)] * 20
    coarse = {name: coarsen(s, "coarse", cost_of) for name, s in library.items()}
    rows = fleets("squares", "coarse", coarse, 20, 3, np.random.default_rng(0))
    assert [(r.presence, r.decomposition) for r in rows] == [(0.5, 0.5)] * 20
    assert summed_up(rows).startswith("coarse: chance 50%, 20 fleets of 3; presence right in 50.0% (")


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
    other = Cluster(op="aten.relu.default", phase="forward", category="activation", calls=1.0, args=(), outputs=())
    lacking = Signature(mode="inference", dtype="float32", clusters=(other,), memory=model(1).memory)
    assert distance(lacking, both) == 100


def test_a_fleet_leaves_somebody_out() -> None:
    with pytest.raises(ValueError, match="leaves none"):
        fleets("squares", "full", {"a": model(8), "b": model(9)}, 1, 2, np.random.default_rng(0))


def test_a_table_is_summed_up_by_hand() -> None:
    rows = [FleetRow(family="f", level="full", fleet=i, members=5, presence=i / 2, decomposition=1.0) for i in range(3)]
    assert summed_up(rows).startswith("full: chance 50%, 3 fleets of 5; presence right in 50.0%")
    assert "decomposition right in 100.0%" in summed_up(rows)
    assert summed_up([]) == "no fleets"
