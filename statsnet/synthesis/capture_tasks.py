"""What blocks and networks call, without their times: for devices that are not at hand. Jobs of fresh processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from statsnet import environment
from statsnet.measure.network_file import load_network
from statsnet.profiling.capture import OpCall, capture_step
from statsnet.profiling.memory import memory_record
from statsnet.profiling.motifs import mark_fused
from statsnet.signatures.categories import is_metadata
from statsnet.synthesis.single_block import BlockBench
from statsnet.synthesis.tasks import marked_blocks

Progress = Callable[[dict[str, Any]], None]
FIELDS = ("op", "phase", "args", "outputs", "segment", "producers")


def count_candidates(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Job: candidates, mode, dtype, device (one that is here). Result: for each candidate its `calls`, FIELDS of
    each."""
    torch.manual_seed(0)
    device, total = environment.select(job["device"]), len(job["candidates"])
    found = []
    for number, row in enumerate(job["candidates"]):
        progress({"stage": f"counting block {number + 1} of {total}", "done": number / total})
        bench = BlockBench(row, mode=job["mode"], dtype=getattr(torch, job["dtype"]), device=device)
        found.append([_row(c) for c in capture_step(bench.run, device=device) if not is_metadata(c.op)])
    return {"calls": found}


def count_proxy(job: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Job: folder, device. Result: the `calls` of one step, segments being a block's tower and place; `towers`, the
    blocks in each; and the network's `memory`."""
    device = environment.select(job["device"])
    network = load_network(job["folder"])
    proxy = network.build(device)
    step = network.make_step(proxy, device)
    step()  # makes the optimizers' state
    with marked_blocks(proxy):
        calls = capture_step(step, device=device)
    return {
        "calls": [_row(c) for c in calls],
        "towers": [len(tower) for tower in proxy.towers],
        "memory": memory_record(proxy, [], step, device=device),
    }


def _row(call: OpCall) -> dict[str, Any]:
    return {name: getattr(call, name) for name in FIELDS}


def calls_of(rows: list[dict[str, Any]]) -> list[OpCall]:
    """From a job's result."""
    calls = [OpCall(**{**row, "producers": tuple(row["producers"])}) for row in rows]
    for call in calls:
        call.metadata = is_metadata(call.op)
    mark_fused(calls)
    return calls
