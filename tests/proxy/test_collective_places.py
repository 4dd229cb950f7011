"""Between which towers a network's collectives begin and are waited for, in its forward and backward pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from networks import operator
from torch import Tensor, nn

from statsnet.blocks.base import Config
from statsnet.proxy.collective_places import PLACE_COUNTS, collective_configs
from statsnet.proxy.towers import Placed, Tower
from statsnet.signatures.documents import SpecCollective, TowerPurpose

Load = Callable[[str], Any]
Source = Callable[..., str]

LINEAR = Placed(kind="linear", config={"rows": 8, "inputs": 16, "outputs": 16}, optimizer="sgd")
MUL = Placed(kind="operator", config=operator("mul.Tensor", ((8, 16), ()), ((8, 16), ()), spelling="torch"))
RECURRENT = Placed(kind="recurrent", config={"steps": 4, "batch": 2, "inputs": 8, "hidden": 8})
LATER = Tower(blocks=(MUL,), in_backward=True)
TOWERS = [Tower(blocks=(LINEAR,)), LATER, *[Tower(blocks=(LINEAR,))] * 3]
REDUCE = SpecCollective(operation="all_reduce", elements=8, dtype="float32", phase="forward", begins_at=0.0,
                        awaited_at=0.0)  # fmt: skip


def taking(share: float, tower: Tower) -> Tower:
    return replace(tower, purpose=TowerPurpose(step_share=share, categories=("gemm",), members=()))


def places(
    collectives: Iterable[SpecCollective], towers: list[Tower], *, training: bool = True
) -> list[tuple[int, int]]:
    found = collective_configs(list(collectives), towers, training=training)
    return [(c["after"], c["until"]) for c in found]


def at(begin: float, end: float, phase: Any = "forward") -> SpecCollective:
    return replace(REDUCE, begins_at=begin, awaited_at=end, phase=phase)


def test_towers_count_by_their_time() -> None:
    """Of a half of the phase, the first tower is all; of the forward pass, what runs in the other one is nothing. The
    operator's 0.1 of the step are of the backward pass alone, of the others' 0.8 two thirds are."""
    towers = [taking(share, t) for share, t in zip((0.4, 0.1, 0.1, 0.1, 0.2), TOWERS, strict=True)]
    wanted = [at(0.0, 0.5), at(0.5, 0.5), at(0.6, 1.0), at(0.74, 1.0)]
    assert places(wanted, towers) == [(0, 1), (1, 1), (3, 5), (4, 5)]
    backward = [replace(w, phase="backward") for w in wanted]
    assert places(backward, towers) == [(0, 3), (3, 3), (4, 5), (4, 5)], "the operators first, then the last tower"
    inference = [replace(t, in_backward=False) for t in towers]
    assert places([at(0.41, 0.79)], inference, training=False) == [(1, 4)]


def test_an_operator_by_itself_has_a_forward_pass_alone() -> None:
    """It takes 0.3 of the step; of the tower's 0.6, the forward pass takes 0.2."""
    towers = [taking(0.3, Tower(blocks=(MUL,))), taking(0.6, Tower(blocks=(LINEAR,)))]
    assert places([at(0.6, 1.0)], towers) == [(1, 2)]
    assert places([at(0.2, 0.2)], towers) == [(0, 0)]


@pytest.mark.parametrize("change", [{"begins_at": 0.52, "awaited_at": 0.5}, {"begins_at": 0.9, "awaited_at": 0.1}])
def test_none_is_awaited_before_it_begins(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="before it begins"):
        replace(REDUCE, **change)


def test_towers_without_known_times_take_as_long() -> None:
    assert places([at(0.0, 0.25), at(0.5, 1.0)], [TOWERS[0]] * 4) == [(0, 1), (2, 4)]


@dataclass
class Recorded:
    """What a network does, in order: `f2` is its third tower in the forward pass, `b2` in the other."""

    happened: list[str]

    def watch(self, network: Any, proxy: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
        for i, tower in enumerate(proxy.towers):  # type: ignore[arg-type]
            monkeypatch.setattr(tower[0], "forward", self._noting(i, tower[0].forward))
        numbers = {id(c): i for i, c in enumerate(proxy.collectives)}  # type: ignore[arg-type]
        monkeypatch.setattr(network, "processes", lambda: 2)
        monkeypatch.setattr(network.Collective, "start", lambda c: self._begun(numbers[id(c)]))

    def _noting(self, i: int, forward: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        def noted(x: Tensor) -> Tensor:
            self.happened.append(f"f{i}")
            if x.requires_grad:
                x.register_hook(lambda _: self.happened.append(f"b{i}"))
            return forward(x)

        return noted

    def _begun(self, number: int) -> Any:
        self.happened.append(f"begin {number}")
        return type("Work", (), {"wait": lambda _: self.happened.append(f"wait {number}")})()


def step_of(collectives: list[Config], towers: list[Tower], mode: str, *, write_source: Source, load: Load,
            monkeypatch: pytest.MonkeyPatch) -> list[str]:  # fmt: skip
    network = load(write_source(mode, towers, collectives=collectives))
    proxy = network.build()
    step = network.make_step(proxy)
    recorded = Recorded([])
    recorded.watch(network, proxy, monkeypatch)
    step()
    return recorded.happened


def made(after: int, until: int, phase: str = "forward") -> Config:
    return {"operation": "all_reduce", "elements": 8, "phase": phase, "after": after, "until": until}


def test_a_training_step_runs_them_among_its_towers(
    write_source: Source, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [made(0, 2), made(2, 2), made(3, 5), *(made(a, u, "backward") for a, u in ((0, 0), (1, 2), (3, 5)))]
    happened = step_of(
        wanted, [*TOWERS, LATER], "training", write_source=write_source, load=load, monkeypatch=monkeypatch
    )
    assert " ".join(happened) == (
        "begin 0 f0 wait 0 begin 1 wait 1 f2 begin 2 f3 f4 wait 2 "
        "begin 3 wait 3 f1 begin 4 f5 wait 4 b4 begin 5 b3 b2 wait 5 b0"
    )


@pytest.mark.parametrize("head", [LINEAR, RECURRENT], ids=["loop", "without a loop"])
def test_so_does_an_inference_step(
    head: Placed, write_source: Source, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    towers = [Tower(blocks=(head,)), *[Tower(blocks=(LINEAR,))] * 2]
    wanted = [made(0, 1), made(2, 3), made(3, 3)]
    happened = step_of(wanted, towers, "inference", write_source=write_source, load=load, monkeypatch=monkeypatch)
    assert " ".join(happened) == "begin 0 f0 wait 0 f1 begin 1 f2 wait 1 begin 2 wait 2"


shares = st.floats(0, 1, allow_nan=False)


@given(st.lists(shares, min_size=1, max_size=8), shares, shares)
def test_no_other_pair_of_places_is_nearer(takes: list[float], begin: float, end: float) -> None:
    """Nearer is what computes a more fitting share of the phase, and beside that what begins nearer."""
    assume(sum(takes) > 0.01)
    begin, end = min(begin, end), max(begin, end)
    ends = [math.fsum(takes[:i]) / math.fsum(takes) for i in range(len(takes) + 1)]

    def cost(after: int, until: int) -> float:
        return abs(ends[until] - ends[after] - (end - begin)) + PLACE_COUNTS * abs(ends[after] - begin)

    towers = [taking(share, Tower(blocks=(LINEAR,))) for share in takes]
    ((after, until),) = places([at(begin, end)], towers)
    assert after <= until
    if end < 1:
        pairs = itertools.combinations_with_replacement(range(len(ends)), 2)
        assert cost(after, until) <= min(itertools.starmap(cost, pairs)) + 1e-9
    else:
        assert until == len(takes)
