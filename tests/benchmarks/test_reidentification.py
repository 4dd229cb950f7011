"""The attack on families of look-alikes: it finds what differs, and guesses among what does not."""

from __future__ import annotations

import pytest

from benchmarks.reidentification import summed_up, trials, wilson
from statsnet.profiling.costs import cost_of
from statsnet.signatures.levels import coarsen
from statsnet.signatures.model import Cluster, Memory, Signature


def product(size: int, calls: float = 1.0) -> Signature:
    square = {"shape": [size, size], "dtype": "float32"}
    cluster = Cluster(
        op="aten.mm.default", phase="forward", category="gemm", calls=calls, args=(square, square), outputs=(square,),
        flops=2 * size**3, bytes_read=8 * size**2, bytes_written=4 * size**2,
    )  # fmt: skip
    memory = Memory(parameter_count=size**2, parameter_bytes=4 * size**2, buffer_bytes=0, input_bytes=0)
    return Signature(mode="inference", dtype="float32", clusters=(cluster,), memory=memory)


def test_what_differs_is_found_and_what_is_alike_is_guessed() -> None:
    full = {str(n): product(n) for n in (764, 768, 772, 400)}
    rows = trials("squares", "full", 8, full, full)
    assert [row.found for row in rows] == [1.0] * 4
    coarse = {name: coarsen(s, "coarse", cost_of) for name, s in full.items()}
    rows = trials("squares", "coarse", 8, coarse, coarse)
    assert [(row.found, row.alike, row.twins) for row in rows] == [(pytest.approx(1 / 3), 3, 3)] * 3 + [(1.0, 1, 1)]
    assert summed_up(rows).startswith("coarse: chance 25.0%, 4 trials; found 50.0%")


def test_wilsons_interval_by_hand() -> None:
    low, high = wilson(0.5, 100)
    assert (low, high) == (pytest.approx(0.404, abs=1e-3), pytest.approx(0.596, abs=1e-3))
    assert wilson(0.0, 10)[0] == 0.0
