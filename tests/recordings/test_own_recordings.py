"""What torch's profiler records here agrees with what a live profile captures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from statsnet.profiling.build_signature import build_signature
from statsnet.profiling.capture import capture_step
from statsnet.profiling.step_trace import StepTrace
from statsnet.recordings.kineto import read_kineto
from statsnet.signatures.categories import is_metadata
from statsnet.signatures.model import Signature

MEMORY = dict.fromkeys(("parameter_count", "parameter_bytes", "buffer_bytes", "input_bytes"))


def work(signature: Signature) -> Counter[tuple[str, str]]:
    """FLOPs by operator and phase."""
    flops: Counter[tuple[str, str]] = Counter()
    for cluster in signature.clusters:
        flops[cluster.op, cluster.phase] += int(cluster.calls * (cluster.flops or 0))
    return +flops


def test_a_recorded_training_step_has_the_work_of_the_captured_one(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(8 * 7 * 7, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 4),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    images = torch.randn(4, 3, 16, 16)

    def step() -> None:
        optimizer.zero_grad()
        model(images).softmax(-1).square().mean().backward()
        optimizer.step()

    step()
    calls = capture_step(step, device="cpu")
    for call in calls:
        call.metadata = is_metadata(call.op)
    live = build_signature(
        [StepTrace.counted(calls)], mode="training", dtype="float32", memory=MEMORY, environment=None
    )
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as session:
        step()
    session.export_chrome_trace(str(tmp_path / "trace.json"))
    found = read_kineto(tmp_path / "trace.json").signature
    assert (found.mode, found.dtype, found.optimizer) == ("training", "float32", "sgd")
    assert found.measurements[0].environment["device"] == "cpu"
    assert found.flops_per_step == pytest.approx(live.flops_per_step, rel=0.02)
    for key, flops in work(live).items():
        if key[1] != "optimizer":  # autograd adds gradients in place, except while they are captured
            assert work(found)[key] == pytest.approx(flops, rel=0.02), key


def test_infinite_orders_of_norms_stay_apart(tmp_path: Path) -> None:
    def step() -> None:
        for order in (float("inf"), -float("inf"), 2.0):
            torch.linalg.vector_norm(torch.ones(4, 8), order, dim=1)

    live = [call.args for call in capture_step(step, device="cpu") if call.op == "aten.linalg_vector_norm.default"]
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as session:
        step()
    session.export_chrome_trace(str(tmp_path / "trace.json"))
    found = read_kineto(tmp_path / "trace.json").signature
    orders = [c.args[1] for c in found.clusters if c.op == "aten.linalg_vector_norm.default"]
    assert [args[1] for args in live] == ["inf", "-inf", 2.0]
    assert sorted(orders, key=str) == ["-inf", 2.0, "inf"]  # a signature's clusters are in an order of their own


def test_the_work_of_a_sparse_update_is_not_known(tmp_path: Path) -> None:
    table = torch.zeros(1000, 8)
    gradient = torch.sparse_coo_tensor(torch.tensor([[1, 5]]), torch.ones(2, 8), (1000, 8), check_invariants=False)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as session:
        table.add_(gradient, alpha=-0.5)
    session.export_chrome_trace(str(tmp_path / "trace.json"))
    found = read_kineto(tmp_path / "trace.json")
    assert {c.op: c.flops for c in found.signature.clusters} == {"aten.add_.Tensor": None}
    assert any("1 of 1 operators have no FLOPs" in note for note in found.notes)
