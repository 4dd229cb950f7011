"""A workload's model in another runtime: the same numbers, or a clear error."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from runtime_outputs import arrays_of

from statsnet.errors import UsageError, WorkloadError
from statsnet.measure import runtimes
from statsnet.measure.process import child_environment
from statsnet.measure.runtimes import RUNTIMES, exported_workload, saved_onnx
from statsnet.workloads import BuiltWorkload, build, make_step
from statsnet.workloads.settings import parse_setting

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch's exporter warns of torch's own code
    pytest.mark.usefixtures("one_reading_of_operators"),
]

FACTORY = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.table = nn.EmbeddingBag(50, 8, mode=mode)
        self.layers = nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))

    def forward(self, dense, *, indices):
        return self.layers(torch.cat([dense, self.table(indices)], 1))


def make(batches=(3, 5), mode="sum"):
    inputs = [((torch.randn(n, 4),), {"indices": torch.randint(50, (n, 6))}) for n in batches]
    return {"model": Model(mode), "inputs": inputs}


class Choosy(nn.Linear):
    def forward(self, x):
        return super().forward(x if x.sum() > 0 else -x)


def choosy():
    return Choosy(4, 4), torch.randn(2, 4)


class Commonest(nn.Module):
    def forward(self, x):
        return torch.mode(x, 1)[0]


def commonest():
    return Commonest(), torch.randn(3, 4)


class Bags(nn.Module):
    # A bag in the middle and one at the end have no rows.

    def __init__(self, mode, last, padding):
        super().__init__()
        self.table = nn.EmbeddingBag(9, 3, mode=mode, include_last_offset=last, padding_idx=2 if padding else None)
        self.register_buffer("starts", torch.tensor([0, 2, 2, 5, 7] + [7] * last))

    def forward(self, indices, weights):
        weighted = {"per_sample_weights": weights} if self.table.mode == "sum" else {}
        return self.table(indices, self.starts, **weighted)


class FromEnd(nn.Module):
    def forward(self, table, indices):
        return nn.functional.embedding_bag(indices, table, torch.tensor([0, 2]), padding_idx=-1)


def from_end():
    return FromEnd(), (torch.randn(9, 3), torch.tensor([8, 1, 8, 8, 3]))


class Reflected(nn.Module):
    def forward(self, x):
        return nn.functional.pad(x, (2, 1, 2, 1), mode="reflect").sort()[0]


def reflected():
    return Reflected(), torch.randn(1, 2, 6, 7)


class LearntBias(nn.Module):
    # Attention as T5's; how its result lies in memory depends on whether there are gradients.

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(32, 32)
        self.bias = nn.Embedding(5, 4)

    def forward(self, *, use_cache, x, length=None, heads):
        bias = self.bias(torch.arange(25).view(5, 5) % 5).permute(2, 0, 1).expand(2, heads, 5, 5)
        q = self.query(x).unflatten(-1, (heads, -1)).transpose(1, 2)
        made = nn.functional.scaled_dot_product_attention(q, q, q, bias, scale=1.0)
        made = made.transpose(1, 2).reshape(2, 5, 32)
        return (made, q) if use_cache else made


def learnt_bias():
    return LearntBias(), {"use_cache": False, "x": torch.randn(2, 5, 32), "length": None, "heads": 4}


def layer():
    return nn.Linear(300, 5), (torch.randn(2, 300),)


def bags(mode, last, padding):
    return Bags(mode, last, padding), (torch.tensor([0, 2, 3, 2, 8, 2, 2]), torch.arange(1.0, 8.0))
"""


@pytest.fixture
def factory(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(FACTORY)
    return str(tmp_path / "mine.py")


@pytest.mark.parametrize(
    ("runtime", "mode", "batches"), [("onnxruntime", "sum", (3, 5)), ("openvino", "max", (3,)), ("iree", "sum", (3,))]
)
def test_each_input_gives_what_it_gives_in_torch(
    runtime: str, mode: str, batches: tuple[int, ...], factory: str
) -> None:
    """Positional and named inputs, look-ups in bags; once two sizes of batch, each of which is exported by itself.
    OpenVINO takes maxima as ONNX alone."""
    pytest.importorskip("iree.runtime" if runtime == "iree" else runtime)
    built = build(f"{factory}:make", mode="inference", overrides={"mode": mode, "batches": batches})
    step, there = make_step(built), exported_workload(runtime, built)
    for index in range(len(batches) + 1):
        (output,) = arrays_of(there())
        np.testing.assert_allclose(np.asarray(output), step(index).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_a_model_is_called_with_flags_and_numbers_too(
    runtime: str, factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenVINO reads it without a way through ONNX. And attention may have a bias that is learnt."""
    pytest.importorskip(runtime)
    if runtime == "openvino":
        monkeypatch.delattr(runtimes, "saved_onnx")
    built = build(f"{factory}:learnt_bias", mode="inference")
    (output,) = arrays_of(exported_workload(runtime, built)())
    np.testing.assert_allclose(output, make_step(built)(0).numpy(), rtol=1e-4, atol=1e-5)


def test_iree_takes_models_larger_than_protobuf_does(factory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its importer then reads the graph without the weights."""
    pytest.importorskip("iree.runtime")
    monkeypatch.setattr(runtimes, "MOST_OF_PROTOBUF", 0)
    built = build(f"{factory}:layer", mode="inference")
    (output,) = arrays_of(exported_workload("iree", built)())
    np.testing.assert_allclose(np.asarray(output), make_step(built)(0).numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("mode", "last", "padding"),
    [("sum", False, False), ("sum", True, True), ("mean", True, True), ("max", False, True)],
)
def test_bags_are_no_loop(mode: str, last: bool, padding: bool, factory: str, tmp_path: Path) -> None:
    overrides = {"mode": mode, "last": last, "padding": padding}
    check_onnx(build(f"{factory}:bags", mode="inference", overrides=overrides), tmp_path / "bags.onnx")


def test_padding_may_be_counted_from_the_end(factory: str, tmp_path: Path) -> None:
    check_onnx(build(f"{factory}:from_end", mode="inference"), tmp_path / "bags.onnx")


def check_onnx(built: BuiltWorkload, path: Path) -> None:
    """The model as ONNX has no loop and gives what it gives in torch."""
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    ((args, _),) = built.inputs
    saved_onnx(torch.export.export(built.model, args), path)
    assert not {node.op_type for node in onnx.load(path).graph.node} & {"Loop", "SequenceInsert", "If"}
    session = onnxruntime.InferenceSession(path)
    given = {value.name: x.numpy() for value, x in zip(session.get_inputs(), args, strict=False)}
    np.testing.assert_allclose(session.run(None, given)[0], built.model(*args).detach().numpy(), rtol=1e-6)


def test_each_has_a_word_among_the_settings() -> None:
    assert {parse_setting(f"runtime={name}").in_process["runtime"] for name in RUNTIMES} == {*RUNTIMES}
    with pytest.raises(UsageError) as refused:
        parse_setting("runtime=torch")
    assert refused.value.cause == f"known are {', '.join(RUNTIMES)}"


def test_training_is_refused(factory: str) -> None:
    with pytest.raises(UsageError, match="asked for training in float32"):
        exported_workload("onnxruntime", build(f"{factory}:make", mode="training"))


def test_a_model_that_cannot_be_exported_is_named_with_the_cause(factory: str) -> None:
    with pytest.raises(WorkloadError, match="could not be handed to onnxruntime") as raised:
        exported_workload("onnxruntime", build(f"{factory}:choosy", mode="inference"))
    assert raised.value.cause


def test_an_operator_that_the_exporter_does_not_know_is_named(factory: str) -> None:
    pytest.importorskip("onnxscript")
    with pytest.raises(WorkloadError) as raised:
        exported_workload("onnxruntime", build(f"{factory}:commonest", mode="inference"))
    assert raised.value.cause is not None and "aten.mode" in raised.value.cause


def test_a_runtime_that_is_not_installed(monkeypatch: pytest.MonkeyPatch, factory: str) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(UsageError, match="not installed") as raised:
        exported_workload("onnxruntime", build(f"{factory}:make", mode="inference"))
    assert "statsnet[runtimes]" in raised.value.hint


def test_threads_are_torch_s(monkeypatch: pytest.MonkeyPatch, factory: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    used: list[int] = []
    session = onnxruntime.InferenceSession

    def watched(path: Any, options: Any, **more: Any) -> Any:
        used.append(options.intra_op_num_threads)
        return session(path, options, **more)

    monkeypatch.setattr(onnxruntime, "InferenceSession", watched)
    exported_workload("onnxruntime", build(f"{factory}:layer", mode="inference"))
    assert used == [torch.get_num_threads()]


def test_openvino_tells_its_makers_nothing(factory: str) -> None:
    """It sends them events, and names of operators, wherever the package that sends them can be imported."""
    pytest.importorskip("openvino")
    exported_workload("openvino", build(f"{factory}:layer", mode="inference"))()
    senders = {name: module.tm.__name__ for name, module in sys.modules.items()
               if name.startswith("openvino.") and hasattr(module, "tm")}  # fmt: skip
    assert "openvino.tools.ovc.convert_impl" in senders
    assert {*senders.values()} == {"openvino.tools.ovc.telemetry_stub"}
    with pytest.raises(ImportError):
        importlib.import_module("openvino_telemetry")


def test_onnxruntime_tells_its_makers_nothing_unless_its_user_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    assert child_environment()["ORT_DISABLE_TELEMETRY"] == "1"
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    assert child_environment()["ORT_DISABLE_TELEMETRY"] == "0"


def test_what_iree_cannot_compile_is_named(factory: str) -> None:
    pytest.importorskip("iree.runtime")
    with pytest.raises(WorkloadError) as raised:
        exported_workload("iree", build(f"{factory}:reflected", mode="inference"))
    assert raised.value.cause is not None and "LLVM Translation failed" in raised.value.cause
