"""Coarser targets lose what they are to lose, and keep the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.ways import coarser_signatures as coarser
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.target import Target, target_of_mix
from statsnet.synthesis.candidates import candidates
from statsnet.synthesis.sources import sources

MIX = "recsys/dlrm:1,cv/mobilenet_v2:2,nlp/bert_base:1"


@pytest.fixture(scope="module", params=["inference", "training"])
def target(request: pytest.FixtureRequest) -> Target:
    return target_of_mix(resolve_mix(MIX, request.param, ProfilesDB()))


def shapes(value: Any) -> Iterator[list[int]]:
    if isinstance(value, dict):
        yield from ([value["shape"]] if "shape" in value else [])
        yield from shapes(value.get("tensors"))
    elif isinstance(value, list | tuple):
        for v in value:
            yield from shapes(v)


def test_rounded_shapes_are_powers_of_two_and_still_fit_together(target: Target) -> None:
    coarse = coarser.rounded(target)
    dims = [n for c in coarse.clusters for shape in shapes([c.args, c.outputs]) for n in shape]
    assert dims and all(n < coarser.SMALL or n.bit_count() == 1 for n in dims)
    assert [c.time_share for c in coarse.clusters] == [c.time_share for c in target.clusters]
    assert {s.kind for s in sources(coarse)} == {s.kind for s in sources(target)}
    assert candidates(coarse, budget_s=0.05)


def test_strides_stay_those_of_a_dense_tensor() -> None:
    (column, expanded) = coarser._rounded(
        [
            {"shape": [100, 30], "dtype": "float32", "strides": [1, 100]},
            {"shape": [100, 30], "dtype": "float32", "strides": [0, 1]},
        ]
    )
    assert (column["shape"], column["strides"]) == ([128, 32], [1, 128])
    assert (expanded["shape"], expanded["strides"]) == ([128, 32], [0, 1])


def test_the_dearest_operators_stand_for_all_of_their_members_time(target: Target) -> None:
    coarse = coarser.dearest(target, 7)
    for member in target.members:
        before = [c for c in target.clusters if c.member == member.name]
        after = [c for c in coarse.clusters if c.member == member.name]
        assert len(after) == 7
        assert math.isclose(sum(c.time_share for c in after), sum(c.time_share for c in before))
        assert min(c.time_share for c in after) > 0
    assert coarse.flops_per_s > 0.5 * target.flops_per_s


def test_motifs_name_the_operators_that_they_named(target: Target) -> None:
    coarse = coarser.dearest(target, 40)
    runs = [tuple((target.clusters[i].member, target.clusters[i].op) for i in m.clusters) for m in target.motifs]
    kept = [tuple((coarse.clusters[i].member, coarse.clusters[i].op) for i in m.clusters) for m in coarse.motifs]
    assert kept
    assert set(kept) <= set(runs)
