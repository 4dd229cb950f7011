"""This machine as an engine, errands as data, and which nodes of a fleet measure together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from engines import check_engine, errand
from fake_tasks import Doubling

from statsnet.errors import StatsNetError, UsageError
from statsnet.measure.engine import Fleet, LeftOut, LocalEngine, Place
from statsnet.measure.errand import decode_errand
from statsnet.measure.fleet import alike, kinds_of, of_one_kind, of_one_speed
from statsnet.measure.reference_network import Looked
from statsnet.measure.task import encoded, to_json


def test_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATSNET_DEVICE_LOCK", str(tmp_path))
    check_engine(LocalEngine(), tmp_path)


def test_an_errand_travels_as_data() -> None:
    sent = errand(Doubling(2.0), label="two")
    text = to_json(encoded(sent))
    assert to_json(encoded(decode_errand(json.loads(text)))) == text
    with pytest.raises(UsageError, match="is not an errand"):
        decode_errand({"class": "fake_tasks:Doubling", "fields": {"question": 1.0}})


def place(name: str, **changes: Any) -> Place:
    environment = {"device": "cpu", "device_name": "Z80", "threads": 1, "torch": "2.9.0", "settings": {}, **changes}
    return Place(id=name, name=name, device="cpu", environment=environment)


@pytest.mark.parametrize(
    ("steps_s", "kept"),
    [
        ([1.0], {0}),
        ([1.0, 1.029], {0, 1}),
        ([1.0, 1.031], {0}),  # of two that differ the faster: nothing makes a node too fast
        ([1.05, 1.0, 1.06], {0, 2}),  # but most nodes count more than the fastest one
        ([1.0, 1.02, 1.04, 1.06], {0, 1}),
        ([], set()),
    ],
)
def test_nodes_of_one_speed(steps_s: list[float], kept: set[int]) -> None:
    assert alike(dict(enumerate(steps_s))) == kept


class Timed:
    """An engine whose nodes have these steps; None fails."""

    def __init__(self, *steps_s: float | None) -> None:
        self.steps_s = steps_s

    def find(self, device: str | None) -> Fleet:
        raise NotImplementedError

    def run(self, asked: Any, *, report: Any = None) -> Any:
        from statsnet.measure.engine import Done

        for index, step_s in enumerate(self.steps_s):
            error = None if step_s else StatsNetError("no memory", hint="buy some")
            looked = Looked(latency_s=step_s) if step_s else None
            yield Done(index=index, place=asked[index].places[0], result=looked, error=error)


def test_a_slow_node_is_named() -> None:
    places = [place(name) for name in "abcd"]
    kept, left_out = of_one_speed(Timed(1.0, 1.2, 1.01, None), places, "")
    assert [each.name for each in kept] == ["a", "c"]
    said = {each.name: str(each) for each in left_out}
    assert "its reference network takes 1.200 times as long as on the other nodes" in said["b"]
    assert "no memory" in said["d"]
    kept, (fast,) = of_one_speed(Timed(1.0, 0.95, 1.01, 1.02), places, "")
    assert [each.name for each in kept] == ["a", "c", "d"]
    assert str(fast).startswith("b is left out: it is faster than most nodes: its reference network takes 0.950 times")
    assert "the others" in fast.hint
    assert of_one_speed(Timed(), places[:1], "") == ((places[0],), ())  # one alone is not looked at


def test_nodes_of_another_environment_are_left_out() -> None:
    places = (place("a", torch="2.8.0"), place("b"), place("c"))
    kind, left_out = of_one_kind(Fleet(places=places))
    assert (kind.name, [p.name for p in kind.places]) == ("cpu-z80-1t-torch2.9", ["b", "c"])
    assert str(left_out[0]) == (
        "a is left out: its environment is another (torch: 2.9.0 against 2.8.0); "
        "--environment cpu-z80-1t-torch2.8 measures on such nodes"
    )
    other, _ = of_one_kind(Fleet(places=places), "cpu-z80-1t-torch2.8")
    assert other.places == places[:1]
    with pytest.raises(UsageError, match="no node has the environment") as refused:
        of_one_kind(Fleet(places=places), "cpu-z80-1t-torch2.7")
    assert "cpu-z80-1t-torch2.8" in refused.value.hint


def test_two_environments_of_one_slug_are_told_apart() -> None:
    places = (place("a", cores=1), place("b", cores=2))
    names = [kind.name for kind in kinds_of(Fleet(places=places))]
    assert len(set(names)) == 2
    assert all(name.startswith("cpu-z80-1t-torch2.9-") for name in names)


def test_a_fleet_without_a_place_says_why() -> None:
    found = Fleet(places=(), left_out=(LeftOut(name="a", why="it sleeps", hint="wake it"),))
    with pytest.raises(StatsNetError) as failed:
        kinds_of(found)
    assert (failed.value.cause, failed.value.hint) == ("a: it sleeps", "wake it")
