"""How long a GPU waits for its host, where blocks follow one another: closed forms on a fake device."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from statsnet.proxy.towers import Placed
from statsnet.synthesis.bench.blocks_in_turn import IN_A_ROW, wait_per_use_s
from statsnet.synthesis.bench.single_block import SEGMENTS, SingleBlock

LATENCY_S = 40e-6


class Device:
    """A host that needs `host_s` to launch a use's kernels, which then run for `kernel_s` in their queue."""

    def __init__(self, host_s: float, kernel_s: float) -> None:
        self.host_s, self.kernel_s = host_s, kernel_s
        self.host = self.device = 0.0

    def use(self) -> None:
        self.host += self.host_s
        self.device = max(self.device, self.host + LATENCY_S) + self.kernel_s

    def timed(self, step: Callable[[], object]) -> float:
        self.host = begin = max(self.host, self.device)
        step()
        return self.device - begin


@pytest.mark.parametrize(
    ("host_s", "kernel_s", "wait_s"),
    [(26e-6, 3e-6, 23e-6), (26e-6, 90e-6, 0.0), (26e-6, 26e-6, 0.0)],
    ids=["launch-bound", "kernel-bound", "even"],
)
def test_a_device_waits_only_where_launches_take_longer_than_kernels(
    host_s: float, kernel_s: float, wait_s: float
) -> None:
    device = Device(host_s, kernel_s)
    wait = wait_per_use_s(device.use, kernel_s, device.timed)
    # The kernel of a row's last use runs behind its launch, as a single one's does.
    assert wait == pytest.approx(wait_s, abs=1e-9)


def test_one_disturbed_row_does_not_count() -> None:
    device = Device(26e-6, 3e-6)
    rows = iter([1.0, *[0.0] * 20])

    def timed(step: Callable[[], object]) -> float:
        return device.timed(step) + next(rows)

    assert wait_per_use_s(device.use, 3e-6, timed) == pytest.approx(23e-6, abs=1e-9)


BLOCKS = [
    Placed(kind="linear", config={"rows": 4, "inputs": 8, "outputs": 8, "activation": "relu"}, optimizer="adam"),
    Placed(
        kind="embedding_bag",
        config={"rows": 50, "width": 4, "indices": 12, "bags": 3, "skew": 0.9, "sparse": True},
        optimizer="sgd",
    ),
]


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("placed", BLOCKS, ids=lambda placed: placed.kind)
def test_a_block_runs_any_number_of_times_in_a_row(placed: Placed, mode: str) -> None:
    block = SingleBlock(placed, mode=mode, dtype=torch.float32, device="cpu")
    assert block is not None
    block.run()
    uses = block.uses()
    assert tuple(uses) == (SEGMENTS if mode == "training" else SEGMENTS[:1])
    before = [p.detach().clone() for p in block.module.parameters()]
    for _ in range(IN_A_ROW):
        for use in uses.values():
            use()
    changed = any(not torch.equal(a, b) for a, b in zip(before, block.module.parameters(), strict=True))
    assert changed == (mode == "training")
