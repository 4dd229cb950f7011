"""One operator of a function, as it was captured, and the generic block that stands for it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from statsnet.blocks.base import Config
from statsnet.blocks.operator import OperatorKind
from statsnet.blocks.operator_call import operands_of
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.signatures.categories import categorize
from statsnet.signatures.model import Cluster

KIND = OperatorKind()


def call_of(function: Callable[[], object], name: str) -> OpCall:
    """The only call of an operator of this name, `aten.mm.default`."""
    (call,) = [call for call in capture_step(function, device="cpu") if call.op == name]
    return call


def cluster_of(call: OpCall) -> Cluster:
    return Cluster(
        op=call.op, phase="forward", category=categorize(call.op, "forward"), calls=1.0, args=tuple(call.args),
        outputs=tuple(call.outputs),
    )  # fmt: skip


def config_of(call: OpCall) -> Config:
    config = KIND.of_call(cluster_of(call), "float32")
    assert config is not None
    return config


def run(config: Config, name: str) -> OpCall:
    """The call that the block makes in its second step, moved to its own dtype."""
    block = KIND.build(config).to(torch.float32)
    (x,) = block.samples(1)  # type: ignore[operator]
    return call_of(lambda: block(x), name)


def check_block_and_smaller(function: Callable[[], object], name: str) -> None:
    """The function's block makes the same call; one of half the size runs, and holds less."""
    call = call_of(function, name)
    config = config_of(call)
    ran = run(config, name)
    assert (ran.op, ran.args, ran.outputs) == (call.op, call.args, call.outputs)
    smaller = KIND.scaled(config, 2)
    assert smaller is not None
    assert sum(o.numel for o in operands_of(smaller)) < sum(o.numel for o in operands_of(config))
    run(smaller, name)
