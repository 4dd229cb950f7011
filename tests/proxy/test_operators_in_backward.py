"""Operators by themselves that a generated network runs in the backward pass of its training step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from networks import operator
from synthesis_builders import mix_of, small_signature
from torch import Tensor, nn

from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.marks import Phases, marked_proxy
from statsnet.profiling.trace import trace_step
from statsnet.proxy.spec import make_spec, source_of
from statsnet.proxy.towers import Placed, Tower
from statsnet.signatures.documents import TowerPurpose
from statsnet.signatures.target import target_of_mix
from statsnet.synthesis.bench.tasks import blocks_in_place, marked_blocks

Load = Callable[[str], Any]
Source = Callable[..., str]

MUL = Placed(kind="operator", config=operator("mul.Tensor", ((8, 16), ()), ((8, 16), ()), spelling="torch"))
TANH = Placed(kind="operator", config=operator("tanh.default", ((8, 16), ()), spelling="torch"))
LINEAR = Placed(kind="linear", config={"rows": 8, "inputs": 16, "outputs": 16, "activation": "relu"}, optimizer="sgd")
RECURRENT = Placed(kind="recurrent", config={"steps": 4, "batch": 2, "inputs": 8, "hidden": 8})

TOWERS = [
    Tower(blocks=(MUL,), in_backward=True),
    Tower(blocks=(LINEAR,)),
    Tower(blocks=(TANH,)),
    Tower(blocks=(MUL,), in_backward=True),
]
WITHOUT_GRADIENTS = [TOWERS[0], TOWERS[2]]
WITH_RECURRENT = [Tower(blocks=(RECURRENT,)), *TOWERS]


def of_products(calls: list[OpCall]) -> list[OpCall]:
    """The calls of MUL."""
    return [c for c in calls if c.op == "aten.mul.Tensor" and c.args[0]["shape"] == [8, 16]]


def products(network: Any, proxy: nn.Module, outputs: list[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """What each product in the backward pass has come to, and what it should for one of the step's inputs."""
    found = []
    for place in sorted(network.IN_BACKWARD):
        (block,) = proxy.towers[place]
        x, other = block.operands
        found.append((outputs[place], x * other))
    return found


@pytest.mark.parametrize("towers", [TOWERS, WITHOUT_GRADIENTS, WITH_RECURRENT])
def test_it_runs_where_the_backward_pass_does(towers: list[Tower], write_source: Source, load: Load) -> None:
    network = load(write_source("training", towers))
    proxy = network.build()
    step = network.make_step(proxy)
    calls = capture_step(step, device="cpu")
    assert [c.phase for c in of_products(calls)] == ["backward"] * sum(t.in_backward for t in towers)
    assert "forward" in {c.phase for c in calls if c.op == "aten.tanh.default"}
    for found, wanted in products(network, proxy, step()):
        torch.testing.assert_close(found, wanted)


def test_its_profile_says_so(write_source: Source, load: Load) -> None:
    """Measured as any network is: its time is known, and that it is the block's."""
    network = load(write_source("training", TOWERS))
    proxy = network.build()
    step = network.make_step(proxy)
    trace = trace_step(lambda _: step(), repeats=2, while_capturing=lambda: marked_blocks(proxy))
    assert trace.unmatched_calls == 0
    blocks = blocks_in_place([1, 1, 1, 1], trace)
    for tower, (part,) in zip(TOWERS, blocks, strict=True):
        phases = {row.phase for row in part.operators if row.time_s > 0}
        assert phases == {"backward" if tower.in_backward else "forward"} | (
            {"backward"} if tower is TOWERS[1] else set()
        )


@pytest.mark.parametrize("enabled", [True, False])
def test_under_autocast_it_stays_there(enabled: bool, write_source: Source, load: Load) -> None:
    network = load(write_source("training", TOWERS))
    step = network.make_step(network.build())
    with torch.autocast("cpu", enabled=enabled):
        dtypes = {y.dtype for y in step()}  # the first step tries which operators take the dtype
        calls = capture_step(step, device="cpu")
    assert [c.phase for c in of_products(calls)] == ["backward"] * 2
    assert dtypes == {torch.bfloat16 if enabled else torch.float32}


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # torch looks at it behind a recurrent layer
@pytest.mark.parametrize("towers", [TOWERS, WITH_RECURRENT])
def test_a_compiler_neither_moves_nor_drops_it(towers: list[Tower], write_source: Source, load: Load) -> None:
    """It compiles what runs in the backward pass as a program of its own, which is run there."""
    network = load(write_source("training", towers))
    proxy = network.build()
    ran: list[tuple[bool, int]] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., Any]:
        count = sum(node.op == "call_function" and node.target is torch.mul for node in graph.graph.nodes)

        def run(*given: Tensor) -> Any:
            ran.append((torch._C._current_graph_task_id() != -1, count))
            return graph.forward(*given)

        return run

    proxy.compile(backend=backend)
    step = network.make_step(proxy)
    step()
    ran.clear()
    outputs = step()
    assert {in_backward for in_backward, count in ran if count} == {True}
    assert sum(count for _, count in ran) == 2
    for found, wanted in products(network, proxy, outputs):
        torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_network_without_any_has_no_word_of_it(mode: str, write_source: Source) -> None:
    source = write_source(mode, [replace(tower, in_backward=False) for tower in TOWERS])
    assert "IN_BACKWARD" not in source
    assert "in_backward" not in source


@pytest.mark.parametrize(("mode", "block"), [("training", LINEAR), ("inference", MUL)])
def test_only_operators_of_training_steps_can_be_told_to(mode: str, block: Placed, write_source: Source) -> None:
    with pytest.raises(ValueError, match="only operators by themselves, of a training step"):
        write_source(mode, [Tower(blocks=(block,), in_backward=True)])


def test_comments_say_how_many_do(write_source: Source) -> None:
    purpose = TowerPurpose(step_share=0.1, categories=("elementwise",), members=("a",))
    towers = [replace(TOWERS[0], purpose=purpose, in_backward=n > 0) for n in range(3)]
    assert "# 30.0 % of the step: elementwise, 2 of 3 in the backward pass, as in a\n" in write_source(
        "training", towers
    )
    assert "# 20.0 % of the step: elementwise, in the backward pass, as in a\n" in write_source("training", towers[1:])


def test_a_trace_shows_it_within_the_backward_phase(
    write_source: Source, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", said.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: None)
    network = load(write_source("training", TOWERS[:2]))
    proxy, phases = network.build(), Phases(on_gpu=True)
    step = network.make_step(proxy)
    step()
    said.clear()
    with marked_proxy(network, proxy, phases, on_gpu=True):
        step()
    phases.leave()
    assert said == ["forward", "tower 2", "2.1 Linear", "backward", "tower 1", "1.1 Operator", "optimizer"]


def test_a_spec_keeps_it() -> None:
    target = target_of_mix(mix_of(small_signature(mode="training")))
    spec = make_spec(
        target, TOWERS, title="t", notes="", dtype="float32", seed=0, budget_s=0.01, environment={"device": "cpu"}
    )
    assert [t.in_backward for t in spec.towers] == [True, None, None, True]
    assert "IN_BACKWARD = frozenset(\n    {\n        0, 3\n" in source_of(spec)
