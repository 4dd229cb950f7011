"""Groups of workloads: what a distance, a group and the few that stand for all must be."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statsnet.analysis.database import NamedSignature, measured_signatures
from statsnet.analysis.similarity import Similarity, positions, representatives, similarity
from statsnet.errors import UsageError
from statsnet.signatures.target import target_of


@pytest.fixture(scope="module")
def signatures() -> list[NamedSignature]:
    """The shipped ones of inference."""
    _, shipped = measured_signatures(["*"], "inference")
    return shipped[:12]


@pytest.fixture(scope="module")
def grouping(signatures: list[NamedSignature]) -> Similarity:
    return similarity(signatures)


def test_distances_are_those_of_distributions(signatures: list[NamedSignature]) -> None:
    points = positions([target_of(n.signature) for n in signatures])
    assert np.linalg.norm(points, axis=1) == pytest.approx(np.ones(len(points)))
    away = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert away.max() <= np.sqrt(2.0) + 1e-9
    one, same = positions([target_of(signatures[0].signature)] * 2)
    assert one == pytest.approx(same)


def test_every_workload_is_in_one_group_and_one_of_them_stands_for_it(grouping: Similarity) -> None:
    assert sorted(name for cluster in grouping.clusters for name in cluster.members) == sorted(grouping.names)
    assert all(cluster.representative in cluster.members for cluster in grouping.clusters)
    assert 2 <= len(grouping.clusters) < len(grouping.names)
    assert 0.0 < grouping.cost < 1.0
    assert all(0.0 <= value <= 1.0 for value in grouping.missed.values())
    assert grouping.places.shape == (len(grouping.names), 2)


def test_more_groups_cost_more_and_miss_less(signatures: list[NamedSignature]) -> None:
    few, many = similarity(signatures, clusters=2), similarity(signatures, clusters=len(signatures) - 1)
    assert few.cost < many.cost
    assert few.missed["category"] > many.missed["category"]


def test_the_same_signatures_give_the_same_map(signatures: list[NamedSignature], grouping: Similarity) -> None:
    again = similarity(signatures)
    assert again.to_dict() == grouping.to_dict()


@given(st.lists(st.integers(1, 4), min_size=1, max_size=20))
def test_representatives_stand_for_all(labels: list[int]) -> None:
    points = np.random.default_rng(0).random((len(labels), 3))
    chosen = representatives(points, np.array(labels))
    assert sum(chosen.values()) == pytest.approx(1.0)
    assert {labels[i] for i in chosen} == set(labels)


@pytest.mark.parametrize("clusters", [1, 12])
def test_an_impossible_number_of_groups(signatures: list[NamedSignature], clusters: int) -> None:
    with pytest.raises(UsageError, match="cannot be put into"):
        similarity(signatures[:11], clusters=clusters)


def test_two_workloads_are_too_few(signatures: list[NamedSignature]) -> None:
    with pytest.raises(UsageError, match="cannot be grouped"):
        similarity(signatures[:2])


def test_an_environment_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="in the environment 'moon'"):
        measured_signatures(["*"], "inference", environment="moon")
    with pytest.raises(UsageError, match="no inference profile of 'nothing'"):
        measured_signatures(["nothing"], "inference")
