"""Replay of operators that a stranger chose: what is not run, and what is too large or too long."""

from __future__ import annotations

import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from statsnet.errors import MeasurementError
from statsnet.measure.process import run
from statsnet.measure.task import Context
from statsnet.profiling import replay_limits
from statsnet.profiling.operator_schemas import is_replayable, misfit
from statsnet.profiling.replay import replay_clusters
from statsnet.profiling.replay_limits import TimeLimit, memory_limit, needed_bytes, stored_bytes
from statsnet.profiling.replay_task import ReplayOperators
from statsnet.progress import silent
from statsnet.signatures.model import Cluster, Memory, Signature
from statsnet.signatures.operators import TensorSpec

F32: dict[str, Any] = {"shape": [4, 4], "dtype": "float32"}


def cluster(op: str, *args: Any, outputs: tuple[Any, ...] = (F32,)) -> Cluster:
    return Cluster(op=op, phase="forward", category="gemm", calls=1.0, args=args, outputs=outputs)


def signature(*clusters: Cluster) -> Signature:
    nothing = Memory(parameter_count=0, parameter_bytes=0, buffer_bytes=0, input_bytes=0)
    return Signature(mode="inference", dtype="float32", clusters=clusters, memory=nothing)


GOOD = cluster("aten.mm.default", F32, F32)


def why_left_out(bad: Cluster) -> str:
    replay = replay_clusters((GOOD, bad), device="cpu", progress=silent)
    assert replay.times[0] is not None and replay.times[1] is None
    ((op, why),) = replay.failures
    assert op == bad.op
    return why


def test_an_operator_that_writes_a_file_is_not_run(tmp_path: Path) -> None:
    """Its category is a claim of the file."""
    path = tmp_path / "made"
    assert "not an operator" in why_left_out(cluster("aten.from_file.default", str(path), True, 1_000_000))
    assert not path.exists()


@pytest.mark.parametrize(
    "op",
    ["aten.from_file.default", "aten.warn.default", "prims.no_such.default",
     "c10d.barrier.default", "_c10d_functional.all_reduce.default", "custom.opaque.default"],
)  # fmt: skip
def test_what_is_never_run(op: str) -> None:
    assert not is_replayable(op)


@pytest.mark.parametrize(
    ("op", "args", "why"),
    [
        ("aten.convolution.default", (), "'input' is missing"),
        ("aten.mm.default", (F32, "mean"), "'mat2' is no tensor"),
        ("aten.mm.default", (F32, F32, F32), "takes 2 arguments, not 3"),
        ("aten.cat.default", (F32,), "'tensors' is no list of tensors"),
        ("aten.sum.dim_IntList", (F32, [0, "mean"]), "'dim' is no"),
        ("aten.add.Tensor", (F32, F32, F32), "'alpha' is no number"),
        ("aten.add.Tensor", (F32, F32, 1), None),
        ("aten.add.Tensor", (F32, 2.0), None),
        ("aten.masked_fill.Scalar", (F32, F32, "-inf"), None),
        ("aten.index.Tensor", (F32, {"tensors": [None, F32]}), None),
        ("aten.gelu.default", (F32, "tanh"), None),
        ("aten.ones_like.default", (F32, None, None, None, None, 3), None),
        ("aten.ones_like.default", (F32, None, None, None, None, 255), "'memory_format' is a number"),
        ("aten.ones_like.default", (F32, 255), "'dtype' is a number"),
    ],
)
def test_arguments_are_compared_with_the_schema(op: str, args: tuple[Any, ...], why: str | None) -> None:
    found = misfit(op, args)
    assert found is None if why is None else found is not None and why in found


def test_arguments_that_do_not_fit_are_not_tried() -> None:
    assert "takes 2 arguments" in why_left_out(cluster("aten.mm.default", F32, F32, F32))


HUGE = 10**13


@pytest.mark.parametrize(
    "huge",
    [
        cluster("aten.zeros.default", [HUGE]),
        cluster("aten.repeat.default", F32, [10**6, 10**6]),
        cluster("aten.relu.default", {"shape": [HUGE], "dtype": "uint8"}),
        cluster("aten.relu.default", {"shape": [2], "dtype": "float32", "strides": [HUGE]}),
        cluster("aten.nonzero.default", F32, outputs=({"shape": [HUGE, 2], "dtype": "int64"},)),
    ],
    ids=lambda c: c.op,
)
def test_a_signature_that_asks_for_terabytes_is_refused_with_the_reason(huge: Cluster) -> None:
    with pytest.raises(MeasurementError) as refused:
        replay_clusters((GOOD, huge), device="cpu", progress=silent)
    assert huge.op in refused.value.message
    assert "at hand here" in refused.value.cause


def test_the_command_hears_the_reason() -> None:
    task = ReplayOperators(signature=signature(GOOD, cluster("aten.zeros.default", [HUGE])))
    with pytest.raises(MeasurementError, match=r"aten\.zeros\.default needs 36.4 TiB"):
        run(task)


def test_needed_bytes_are_those_of_arguments_and_results() -> None:
    call = cluster("aten.repeat.default", F32, [10, 1], outputs=())
    assert needed_bytes(call, lambda: torch.empty(4, 4, device="meta").repeat(10, 1)) == 64 + 640
    assert needed_bytes(call, lambda: 1 / 0) == 64
    assert stored_bytes(TensorSpec(shape=(3, 4), dtype="float32", strides=(100, 1))) == 4 * (2 * 100 + 3 + 1)
    assert stored_bytes(TensorSpec(shape=(0, 4), dtype="float32", strides=(1, 1))) == 0


def test_memory_is_limited_while_operators_run_and_not_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_limits, "memory_at_hand_bytes", lambda: 10**8)
    monkeypatch.setattr(replay_limits, "STACK_BYTES", 0)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with memory_limit("cpu"), pytest.raises(RuntimeError, match="allocate memory"):
        torch.empty(10**9, dtype=torch.uint8)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    torch.empty(10**9, dtype=torch.uint8)


def test_an_operator_that_does_not_end_ends_the_process(capfd: pytest.CaptureFixture[str]) -> None:
    ended: list[int] = []
    limit = TimeLimit(0.01, ended.append)
    limit.begin("aten.mm.default")
    assert limit._timer is not None
    limit._timer.join()
    assert ended == [replay_limits.TOO_LONG_EXIT]
    assert "aten.mm.default ran longer than 0.01 s" in capfd.readouterr().err
    limit = TimeLimit(600.0, ended.append)
    limit.begin("aten.mm.default")
    limit.stop()
    assert limit._timer is not None
    limit._timer.join()
    assert len(ended) == 1


def test_a_replay_that_does_not_end_is_ended_with_the_reason() -> None:
    limit = TimeLimit(all_s=0.0)
    with pytest.raises(MeasurementError, match="its operators take too long") as ended:
        limit.begin("aten.mm.default")
    assert "aten.mm.default" in ended.value.cause


def test_a_nested_tensor_of_more_rows_than_there_are() -> None:
    rows = {"shape": [2**62, 4], "dtype": "float32", "elements": 8, "squares": 16}
    assert "NotImplementedError" in why_left_out(cluster("aten.relu.default", rows, outputs=(F32,)))


def test_nothing_that_can_be_replayed() -> None:
    task = ReplayOperators(signature=signature(replace(GOOD, op="custom.opaque.default")))
    with pytest.raises(MeasurementError, match="no operator of the signature"):
        task.run(Context())
