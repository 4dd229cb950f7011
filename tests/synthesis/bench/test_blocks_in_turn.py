"""Blocks measured in turn, as they run in a network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from block_configs import CONFIGS

from statsnet.blocks import KINDS
from statsnet.blocks.base import laid_out, with_tuples
from statsnet.measure import reference_network
from statsnet.measure.task import Context, Event
from statsnet.profiling.timeline import Timeline, profile_step
from statsnet.proxy.towers import Placed
from statsnet.synthesis.bench import blocks_in_turn, tasks
from statsnet.synthesis.bench.blocks_in_turn import BlocksInTurn
from statsnet.synthesis.bench.single_block import SingleBlock, in_a_row, run_in_turn
from statsnet.synthesis.bench.tasks import MeasureBlocks

WIDE = Placed(kind="linear", config={"rows": 4, "inputs": 8, "outputs": 16}, optimizer="sgd")
SQUARE = Placed(kind="linear", config={"rows": 4, "inputs": 8, "outputs": 8, "activation": "relu"})


def blocks(mode: str) -> list[SingleBlock]:
    return [SingleBlock(b, mode=mode, dtype=torch.float32, device="cpu") for b in (WIDE, SQUARE)]


def test_the_passes_of_all_blocks_come_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[tuple[str, int]] = []
    first, second = blocks("training")
    usual = {name: getattr(SingleBlock, name) for name in ("forward", "backward", "update")}
    for name, run in usual.items():

        def logged(block: SingleBlock, name: str = name, run: Any = run) -> None:
            log.append((name, 0 if block is first else 1))
            run(block)

        monkeypatch.setattr(SingleBlock, name, logged)
    begun: list[int] = []
    run_in_turn([first, second], lambda: log.append(("flush", -1)), begun.append)
    assert begun == [0, 1, 1, 0, 0]
    assert log == [
        ("flush", -1), ("forward", 0), ("forward", 1),
        ("flush", -1), ("backward", 1), ("backward", 0),
        ("flush", -1), ("update", 0),
    ]  # fmt: skip
    assert all(p.grad is not None for block in (first, second) for p in block.module.parameters())


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_each_block_has_its_own_operators(mode: str) -> None:
    measured = BlocksInTurn("cpu").measure(blocks(mode))
    phases = [[row.phase for row in m.block.operators] for m in measured]
    assert all(("backward" in p) == (mode == "training") for p in phases)
    categories = [{row.category for row in m.block.operators} for m in measured]
    assert "activation" not in categories[0] and "activation" in categories[1]
    assert [bool(m.optimizer.operators) for m in measured] == [mode == "training", False]
    assert all(m.operator_time_s > 0 for m in measured)


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_block_in_a_row_has_the_operators_of_one(mode: str) -> None:
    """It runs several times, one after the other; what one of them does is what is told."""
    bias = Placed(kind="pointwise", config={"functions": ("add",), "operand": (6,), "shape": (4, 6)}, optimizer="sgd")
    assert in_a_row(bias, "cpu") > 1
    assert in_a_row(bias, "cuda:0") == in_a_row(SQUARE, "cpu") == in_a_row(WIDE, "cpu") == 1
    alone, row = (
        BlocksInTurn("cpu").measure([SingleBlock(bias, mode=mode, dtype=torch.float32, device="cpu", in_a_row=n)])[0]
        for n in (1, in_a_row(bias, "cpu"))
    )
    for one, mean in zip(alone.parts, row.parts, strict=True):
        for what in ("flops", "bytes", "calls", "weights"):
            assert sum(getattr(o, what) for o in mean.operators) == sum(getattr(o, what) for o in one.operators)


def test_a_block_that_fails_later_does_not_cost_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has run once, as all do before they take turns."""
    runs: list[int] = []

    def forward(block: SingleBlock, run: Any = SingleBlock.forward) -> None:
        if tuple(block.module(block.x).shape) == (4, 16):
            runs.append(1)
            if len(runs) > 1:
                raise RuntimeError("out of luck")
        run(block)

    monkeypatch.setattr(SingleBlock, "forward", forward)
    wide, square = MeasureBlocks(blocks=(WIDE, SQUARE), mode="inference", dtype="float32").run(Context())
    assert wide.refused == "RuntimeError: out of luck"
    assert square.refused is None and square.block.operators


def test_each_block_says_when_it_takes_its_turn() -> None:
    """So that one that ends the process among others is the one to be left out."""
    said: list[int] = []

    def say(event: Event) -> None:
        said.extend([] if event.item is None else [event.item])

    MeasureBlocks(blocks=(WIDE, SQUARE), mode="inference", dtype="float32").run(Context(say=say))
    assert said == [0, 1, 0, 1]


def test_many_large_blocks_are_measured_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statsnet.synthesis.bench.blocks_in_turn.MOST_BYTES", 1)
    parts: list[int] = []

    def measured(ready: Any, *others: Any, run: Any = tasks._measured) -> Any:
        parts.append(len(ready))
        return run(ready, *others)

    monkeypatch.setattr(tasks, "_measured", measured)
    found = MeasureBlocks(blocks=(WIDE, SQUARE), mode="inference", dtype="float32").run(Context())
    assert (len(found), parts) == (2, [1, 1, 0])


@pytest.mark.parametrize(("durations_s", "passes"), [([3.0, 2.0, 2.0, 9.0], 3), ([1.0, 2.0, 3.0, 4.0, 5.0], 5)])
def test_passes_end_when_their_times_agree(
    monkeypatch: pytest.MonkeyPatch, durations_s: list[float], passes: int
) -> None:
    recorded: list[float] = []

    def profile(*given: Any, **options: Any) -> Timeline:
        line = profile_step(*given, **options)
        recorded.append(durations_s[len(recorded)])
        return replace(line, step_s=recorded[-1])

    monkeypatch.setenv("STATSNET_PATIENCE_S", "0")
    monkeypatch.setattr(blocks_in_turn, "profile_step", profile)
    BlocksInTurn("cpu").measure(blocks("inference"))
    assert len(recorded) == passes


@pytest.mark.parametrize("kind", sorted(CONFIGS))
def test_gradients_lie_in_memory_as_in_a_network(kind: str) -> None:
    for config in CONFIGS[kind]:
        skew = {} if KINDS[kind].index_range(with_tuples(config)) is None else {"skew": 0.0}
        placed = Placed(kind=kind, config={**config, **skew}, optimizer=None)
        block = SingleBlock(placed, mode="training", dtype=torch.float32, device="cpu")
        if not block.training:
            continue
        with torch.no_grad():
            y = block.module(block._input())
        assert block.grad.stride() == laid_out(torch.randn_like(y), block.module).stride(), config


def test_the_reference_network_is_looked_at_several_times_for_each_few_blocks(
    proxy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However short their passes are: one disturbed look would say that they are faster than they are."""
    monkeypatch.setattr(reference_network, "LOOK_S", 0.001)
    bench = BlocksInTurn("cpu", str(proxy_folder))
    assert bench._reference is not None
    for number in (1, 2):
        measured = bench.measure(blocks("inference"))
        assert len(bench._reference.latency_s) >= number * reference_network.FEWEST_LOOKS
        assert all(m.reference_latency_s for m in measured)
