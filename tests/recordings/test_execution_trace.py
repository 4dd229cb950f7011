"""PyTorch execution traces: operators, phases and FLOPs of a step."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from statsnet.errors import FileFormatError, UsageError
from statsnet.recordings import execution_nodes
from statsnet.recordings.execution_trace import read_execution_trace
from statsnet.recordings.parameters import DATA_AT
from statsnet.signatures.model import Signature
from statsnet.signatures.privacy import assert_clean


def tensor(storage: int, *shape: int, strides: list[int] | None = None) -> tuple[list, list, str, list]:
    count = math.prod(shape)
    contiguous = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
    return [storage, storage, 0, count, 4, "cuda:0"], list(shape), "Tensor(float)", strides or contiguous


def node(
    number: int, name: str, parent: int, inputs: tuple = (), outputs: tuple = (), schema: str = ""
) -> dict[str, Any]:
    def side(parts: tuple) -> dict[str, Any]:
        names = ("values", "shapes", "types", "strides")
        return {key: [part[i] for part in parts] for i, key in enumerate(names)}

    return {"id": number, "name": name, "ctrl_deps": parent, "inputs": side(inputs), "outputs": side(outputs),
            "attrs": [{"name": "op_schema", "type": "string", "value": schema}]}  # fmt: skip


NONE = ("<None>", [], "None", [])
X, W, Y = tensor(1, 64, 128), tensor(2, 256, 128), tensor(3, 64, 256)
W_T = tensor(2, 128, 256, strides=[1, 128])


def step_nodes(first: int, number: int, products: int) -> list[dict[str, Any]]:
    """A step with products in the forward pass, one backward in another thread, and an optimizer."""
    nodes = [node(first, f"ProfilerStep#{number}", 2)]
    for i in range(products):
        nodes.append(node(first + 10 * i + 1, "aten::linear", first, (X, W, NONE), (Y,)))
        nodes.append(node(first + 10 * i + 2, "aten::mm", first + 10 * i + 1, (X, W_T), (Y,)))
    last = first + 10 * products
    nodes.append(node(last + 1, "autograd::engine::evaluate_function: MmBackward0", 3))
    nodes.append(node(last + 2, "MmBackward0", last + 1))
    nodes.append(node(last + 3, "aten::mm", last + 2, (tensor(5, 256, 64), X), (tensor(6, 256, 128),)))
    nodes.append(node(last + 4, "Optimizer.step#SGD.step", first))
    nodes.append(node(last + 5, "aten::add_", last + 4, (W, tensor(6, 256, 128), (-0.1, [], "Double", [])), (W,)))
    return nodes


def write(path: Path, nodes: list[dict[str, Any]], schema: str = "1.1.1-chakra.0.0.4") -> Path:
    roots = [node(1, "[pytorch|profiler|execution_trace|process]", 1),
             node(2, "[pytorch|profiler|execution_trace|thread]", 1),
             node(3, "[pytorch|profiler|execution_trace|thread]", 1)]  # fmt: skip
    text = json.dumps({"schema": schema, "pid": 1, "nodes": [*nodes, *reversed(roots)]})
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def calls(signature: Signature) -> dict[tuple[str, str], float]:
    found: Counter[tuple[str, str]] = Counter()
    for cluster in signature.clusters:
        found[cluster.op, cluster.phase] += cluster.calls  # type: ignore[assignment]
    return dict(found)


def test_a_clipped_gradient_is_the_optimizers(tmp_path: Path) -> None:
    nodes = step_nodes(100, 4, 1)
    optimizer = next(i for i, n in enumerate(nodes) if n["name"].startswith("Optimizer."))
    for later in nodes[optimizer:]:
        later["id"] += 10
    nodes[-1]["ctrl_deps"] += 10
    clip = node(nodes[optimizer]["id"] - 5, "aten::neg", 100, (tensor(6, 256, 128),), (tensor(6, 256, 128),))
    signature = read_execution_trace(write(tmp_path / "et.json", [*nodes, clip])).signature
    assert calls(signature)["aten.neg.default", "optimizer"] == 1


def test_a_composite_operator_that_runs_no_other_is_a_call(tmp_path: Path) -> None:
    nodes = [node(100, "aten::linear", 2, (X, W, NONE), (Y,)), node(101, "aten::empty", 100)]
    found = calls(read_execution_trace(write(tmp_path / "et.json", nodes)).signature)
    assert found["aten.linear.default", "forward"] == 1


def test_a_step_has_its_products_once_and_its_phases(tmp_path: Path) -> None:
    nodes = [*step_nodes(100, 4, 1), *step_nodes(200, 5, 2)]
    path = write(tmp_path / "et.json.gz", nodes)
    signature = read_execution_trace(path).signature  # the busiest
    twice = read_execution_trace(write(tmp_path / "twice.json", nodes * 2))
    assert twice.signature == signature and any("nodes more than once" in note for note in twice.notes)
    assert calls(signature) == {
        ("aten.mm.default", "forward"): 2, ("aten.mm.default", "backward"): 1, ("aten.add_.Tensor", "optimizer"): 1,
    }  # fmt: skip
    assert (signature.mode, signature.optimizer, signature.dtype) == ("training", "sgd", "float32")
    products = [c for c in signature.clusters if c.op == "aten.mm.default"]
    assert {c.flops for c in products} == {2 * 64 * 128 * 256}
    assert [1, 128] in [p.args[1].get("strides") for p in products]
    assert (signature.memory.parameter_count, signature.memory.input_bytes) == (256 * 128, 4 * 64 * 128)
    assert signature.measurements == ()
    assert_clean(signature.to_dict())
    assert calls(read_execution_trace(path, step=4).signature)["aten.mm.default", "forward"] == 1
    with pytest.raises(UsageError) as error:
        read_execution_trace(path, step=7)
    assert "4, 5" in error.value.cause


def test_a_trace_without_steps_is_one_step(tmp_path: Path) -> None:
    path = write(tmp_path / "et.json", [node(5, "aten::mm", 2, (X, W_T), (Y,)), node(6, "acme::rank", 2, (Y,), (Y,))])
    signature = read_execution_trace(path).signature
    assert calls(signature) == {("aten.mm.default", "forward"): 1, ("custom.opaque.default", "forward"): 1}
    assert signature.mode == "inference"
    with pytest.raises(UsageError, match="no step 1"):
        read_execution_trace(path, step=1)


def test_a_step_of_several_processes_says_how_many_they_are(tmp_path: Path) -> None:
    """As many as are in the largest group."""
    noted = {"collective_name": "allreduce", "pg_size": 4, "in_msg_nelems": 64, "out_msg_nelems": 64, "dtype": "Float"}
    around = node(11, "c10d::allreduce_", 2)
    comms = node(12, "record_param_comms", 11)
    comms["attrs"] += [{"name": name, "type": "string", "value": value} for name, value in noted.items()]
    nodes = [node(10, "aten::mm", 2, (X, W_T), (Y,)), around, comms]
    assert read_execution_trace(write(tmp_path / "et.json", nodes)).signature.processes == 4
    assert read_execution_trace(write(tmp_path / "et.json", nodes[:1])).signature.processes is None


def test_a_missing_parent_a_circle_and_an_unknown_size(tmp_path: Path) -> None:
    unknown = ([35, 0, 0, 0, 0, ""], [], "Tensor(float)", [])
    nodes = [
        node(12, "aten::mm", 11, (X, W_T), (Y,)), node(11, "aten::linear", 9001, (X, W, NONE), (Y,)),
        node(21, "aten::mul", 22, (unknown, (0.5, [], "Double", [])), (unknown,)), node(22, "## loop ##", 21),
    ]  # fmt: skip
    found = read_execution_trace(write(tmp_path / "et.json", nodes))
    signature, said = found.signature, found.notes
    assert {c.op.rpartition(".")[0]: c.calls for c in signature.clusters} == {"aten.mm": 1, "aten.mul": 1}
    assert {c.op.split(".")[1]: c.flops for c in signature.clusters} == {"mm": 4_194_304, "mul": None}
    assert [text.partition(" ")[0] for text in said[:2]] == ["1", "2"]
    assert any("1 of 2 operators have no FLOPs and bytes" in text for text in said)


def test_depth_beyond_pythons_recursion(tmp_path: Path) -> None:
    ranges = [node(i, "## range ##", i - 1) for i in range(4, 5000)]
    path = write(tmp_path / "et.json", [*reversed(ranges), node(6000, "aten::mm", 4999, (X, W_T), (Y,))])
    assert calls(read_execution_trace(path).signature) == {("aten.mm.default", "forward"): 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is empty"), ('{"schema": "1.1.1", "nodes": [', "no JSON"), ("[1, 2]", "no execution trace"),
        ('{"schemaVersion": 1, "traceEvents": []}', "timeline"), ('{"schema": "9.0", "nodes": []}', "schema '9.0'"),
        ('{"schema": "1.1.1", "nodes": [{"id": 1}]}', "cannot be read"),
        ('{"schema": "1.1.1", "nodes": [7]}', "cannot be read"),
        ('{"schema": "1.1.1", "nodes": []}', "no operators"), ("\x1f\x8bxx", "is not an execution trace"),
    ],
)  # fmt: skip
def test_other_files_are_refused_in_a_sentence(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "et.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(FileFormatError) as error:
        read_execution_trace(path)
    assert said in f"{error.value.message} {error.value.cause}"
    assert error.value.hint


def test_nodes_may_be_many_but_no_lists_without_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution_nodes, "MAX_PARTS", 50)
    path = write(tmp_path / "et.json", step_nodes(100, 4, 8))
    assert calls(read_execution_trace(path).signature)["aten.mm.default", "forward"] == 8
    path.write_text('{"schema": "1.1.1", "nodes": [' + "[]," * 100 + "[]]}")
    with pytest.raises(FileFormatError, match="too large") as refused:
        read_execution_trace(path)
    assert refused.value.hint == "trace fewer steps"


def test_what_torchs_own_observer_writes(tmp_path: Path) -> None:
    from torch.profiler import ExecutionTraceObserver

    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    x = torch.ones(8, 16)
    held = sum(parameter.numel() for parameter in model.parameters())
    observer = ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "et.json"))
    observer.start()
    model(x).sum().backward()
    observer.stop()
    observer.unregister_callback()
    signature = read_execution_trace(tmp_path / "et.json").signature
    found = calls(signature)
    assert found["aten.addmm.default", "forward"] == 2
    assert found["aten.mm.default", "backward"] == 3
    assert (signature.memory.parameter_count, signature.memory.input_bytes) == (held, x.numel() * 4)
    forward = 2 * 8 * (16 * 32 + 32 * 4)
    assert sum(c.calls * (c.flops or 0) for c in signature.clusters if "mm" in c.op) == 2 * forward + 2 * 8 * 32 * 4


def test_what_stays_in_memory_of_a_model_with_tables_and_norms(tmp_path: Path) -> None:
    from torch.profiler import ExecutionTraceObserver

    table, layers = torch.nn.Embedding(50, 8), torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))
    bags, rows, given = torch.nn.EmbeddingBag(20, 8), torch.arange(6), torch.ones(6, 8)
    observer = ExecutionTraceObserver()
    observer.register_callback(str(tmp_path / "et.json"))
    observer.start()
    with torch.no_grad():
        layers(table(rows) + bags(rows, rows) + given)
    observer.stop()
    observer.unregister_callback()
    memory = read_execution_trace(tmp_path / "et.json").signature.memory
    weights = [p.numel() for part in (table, layers, bags) for p in part.parameters()]
    # What is added to a result might be a bias: a trace does not say.
    assert (memory.parameter_count, memory.input_bytes) == (sum(weights) + given.numel(), rows.numel() * 8)


@pytest.mark.parametrize("operator", DATA_AT)
def test_the_places_of_data_are_those_of_tensors(operator: str) -> None:
    packet = getattr(torch.ops.aten, operator)
    kinds = [str(argument.type) for argument in getattr(packet, packet.overloads()[0])._schema.arguments]
    assert all("Tensor" in kinds[place] for place in DATA_AT[operator])
    assert sum("Tensor" in kind for kind in kinds) > len(DATA_AT[operator])  # some hold weights


def recorded(name: str) -> Path:
    folder = os.environ.get("STATSNET_SHARED_DATA")
    if not folder:
        pytest.skip("STATSNET_SHARED_DATA names no folder of recordings")
    return Path(folder, "traces", "et", f"{name}-et.json.gz")


def counted(signature: Signature, op: str) -> tuple[float, float]:
    """Calls and FLOPs of an operator in a step."""
    rows = [c for c in signature.clusters if c.op == f"aten.{op}.default"]
    return sum(c.calls for c in rows), sum(c.calls * (c.flops or 0.0) for c in rows)


@pytest.mark.parametrize(
    ("name", "steps", "figures"),
    [
        ("param-resnet50-ddp1", (6, 7, 8), {"addmm": (3, 393_216_000), "mm": (6, 786_432_000),
                                            "convolution": (159, 784_730_161_152)}),
        ("param-hf-gpt2-training", (0,), {"addmm": (144, 724_775_731_200), "bmm": (216, 144_955_146_240),
                                          "mm": (291, 1_647_170_027_520)}),
        ("param-dlrm-8rank-rank0", (None,), {"addmm": (7, 19_824_640), "bmm": (3, 1_119_744), "mm": (13, 39_542_784)}),
        ("param-linear", (None,), {"addmm": (21, 22_548_578_304), "mm": (41, 44_023_414_784)}),
    ],
)  # fmt: skip
def test_recorded_traces(name: str, steps: tuple[int | None, ...], figures: dict[str, tuple[float, float]]) -> None:
    signatures = [read_execution_trace(recorded(name), step=step).signature for step in steps]
    for op, (count, flops) in figures.items():
        pairs = [counted(signature, op) for signature in signatures]
        assert (sum(n for n, _ in pairs), sum(f for _, f in pairs)) == (count, flops)
    assert all(s.mode == "training" and s.dtype == "float32" for s in signatures)
    assert_clean(signatures[0].to_dict())


def test_recorded_traces_of_a_compiled_step_and_of_collectives() -> None:
    compiled = read_execution_trace(recorded("param-pt2-inductor"), step=5)
    assert compiled.signature.flops_per_step == 128
    assert any("generated" in text for text in compiled.notes)
    gathers = read_execution_trace(recorded("chakra-1.0.2")).signature
    assert calls(gathers)["c10d.allgather_.default", "forward"] == 10
