"""The map of workloads."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from statsnet.analysis.characteristics import characteristics_of
from statsnet.analysis.database import measured_signatures
from statsnet.analysis.similarity import Cluster, Similarity

pytest.importorskip("matplotlib")

from statsnet.reporting.map_picture import map_svg
from statsnet.reporting.pictures import categories_svg, costs_svg


def similarity(*places: tuple[str, float, float], groups: tuple[Cluster, ...]) -> Similarity:
    return Similarity(
        names=tuple(name for name, _, _ in places),
        points=np.zeros((len(places), 1)),
        tree=np.zeros((0, 4)),
        places=np.array([place for _, *place in places]),
        clusters=groups,
        silhouette=0.0,
        cost=1.0,
        missed={},
    )


def texts(picture: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def test_names_have_the_colour_of_their_domain_and_no_prefix() -> None:
    group = Cluster(members=("cv/a", "cv/b", "my own $x_1$"), representative="cv/b")
    of = similarity(("cv/a", 0, 0), ("cv/b", 5, 5), ("my own $x_1$", 9, 0), groups=(group,))
    picture = map_svg(of)
    assert {"a", "b", "my own $x_1$", "cv (2)", "others (1)"} <= {*texts(picture)}
    assert picture == map_svg(of)


def test_pictures_show_names_with_dollars_as_they_are_and_powers_as_powers() -> None:
    one = characteristics_of(measured_signatures(["cv/resnet50"], "inference")[1][0])
    named = replace(one, name="my own $x_1$")
    assert "my own $x_1$" in texts(categories_svg([named]))
    shown = texts(costs_svg([named]))
    assert "my own $x_1$" in shown and not any("mathdefault" in text for text in shown)


def test_where_points_are_crowded_the_one_that_stands_for_its_group_has_its_name() -> None:
    crowd = tuple(f"cv/workload_number_{number}" for number in range(30))
    far = ("nlp/far", 100.0, 100.0)
    groups = (Cluster(members=crowd, representative=crowd[17]), Cluster(members=("nlp/far",), representative="nlp/far"))
    shown = texts(map_svg(similarity(*((name, 0.0, 0.0) for name in crowd), far, groups=groups)))
    named = [text for text in shown if text.startswith("workload_number_")]
    assert "workload_number_17" in named
    assert len(named) <= 4
    assert "far" in shown
