"""ONNX models: operators and FLOPs from shapes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from clusters import tensor
from onnx_files import helper, onnx, save, weight

from statsnet.blocks import KINDS
from statsnet.errors import UsageError
from statsnet.profiling.replay import replay_clusters
from statsnet.recordings import onnx_operators
from statsnet.recordings.onnx_call import OnnxCall
from statsnet.recordings.onnx_model import read_onnx
from statsnet.recordings.onnx_operators import translate
from statsnet.signatures.model import Signature
from statsnet.signatures.privacy import assert_clean

FLOAT, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL


def calls(signature: Signature) -> dict[str, float]:
    found: Counter[str] = Counter()
    for cluster in signature.clusters:
        found[cluster.op.split(".")[1]] += cluster.calls  # type: ignore[assignment]
    return dict(found)


def test_products_and_convolutions_have_atens_costs(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", FLOAT, ["batch", 3, 16, 16])
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]), helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "g", "h"], ["q"], transB=1),
        helper.make_node("MatMul", ["q", "m"], ["y"]),
    ]  # fmt: skip
    weights = [weight("w", 8, 3, 3, 3), weight("b", 8), weight("g", 10, 8), weight("h", 10), weight("m", 10, 4)]
    path = save(tmp_path / "m.onnx", nodes, [x], weights)
    found = read_onnx(path)
    one, four, said = found.signature, read_onnx(path, dims={"batch": 4}).signature, found.notes
    assert calls(one) == {"convolution": 1, "relu": 1, "mean": 1, "addmm": 1, "mm": 1}
    flops = {c.op.split(".")[1]: c.flops for c in four.clusters}
    assert flops["convolution"] == 2 * (8 * 3 * 3 * 3) * 4 * 8 * 8
    assert (flops["addmm"], flops["mm"]) == (2 * 4 * 8 * 10, 2 * 4 * 10 * 4)
    assert flops["relu"] == 4 * 8 * 8 * 8
    assert (one.batch, four.batch, one.memory.parameter_count) == (1, 4, 216 + 8 + 80 + 10 + 40)
    assert four.memory.input_bytes == 4 * 4 * 3 * 16 * 16
    assert (one.mode, one.dtype, one.measurements) == ("inference", "float32", ())
    assert any("1 symbolic dimensions of the inputs are counted as 1" in text for text in said)
    assert_clean(one.to_dict())
    assert "secret" not in str(one.to_dict())


def test_the_larger_branch_of_an_if_and_an_operator_of_ones_own(tmp_path: Path) -> None:
    def branch(name: str, *ops: str) -> onnx.GraphProto:
        names = ["x", *(f"{name}{i}" for i in range(len(ops)))]
        nodes = [helper.make_node(op, [names[i]], [names[i + 1]]) for i, op in enumerate(ops)]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(names[-1], FLOAT, [4, 4])])

    inputs = [helper.make_tensor_value_info("x", FLOAT, [4, 4]), helper.make_tensor_value_info("flag", BOOL, [])]
    choice = helper.make_node(
        "If", ["flag"], ["z"], then_branch=branch("t", "Relu"), else_branch=branch("e", "Exp", "Tanh")
    )
    own = helper.make_node("SecretRank", ["z"], ["y"], domain="com.acme")
    found = read_onnx(save(tmp_path / "m.onnx", [choice, own], inputs, []))
    signature, said = found.signature, found.notes
    assert calls(signature) == {"exp": 1, "tanh": 1, "opaque": 1}
    assert any("If the branch" in text for text in said) and any("no counterpart" in text for text in said)
    assert not any("Secret" in text for text in said)
    assert_clean(signature.to_dict())
    flag = helper.make_tensor("flag", BOOL, [], [True])
    known = read_onnx(save(tmp_path / "m.onnx", [choice, own], inputs[:1], [flag]))
    assert calls(known.signature) == {"relu": 1, "opaque": 1}  # the smaller one, and nothing to tell
    assert not any("If the branch" in text for text in known.notes)


def test_sizes_go_through_a_branch_that_is_known(tmp_path: Path) -> None:
    def branch(size: int) -> onnx.GraphProto:
        constant = helper.make_node("Constant", [], ["s"], value_ints=[size])
        return helper.make_graph([constant], "b", [], [helper.make_tensor_value_info("s", onnx.TensorProto.INT64, [1])])

    flag = helper.make_tensor("flag", BOOL, [], [True])
    nodes = [helper.make_node("If", ["flag"], ["n"], then_branch=branch(6), else_branch=branch(-1)),
             helper.make_node("Reshape", ["x", "n"], ["r"]), helper.make_node("Relu", ["r"], ["y"])]  # fmt: skip
    x = helper.make_tensor_value_info("x", FLOAT, [2, 3])
    found = read_onnx(save(tmp_path / "m.onnx", nodes, [x], [flag]))
    (relu,) = found.signature.clusters
    assert relu.outputs[0]["shape"] == [6]


def test_a_negative_size_is_unknown(tmp_path: Path) -> None:
    """As onnx infers it in a branch that no input takes."""
    shape = helper.make_tensor("s", onnx.TensorProto.INT64, [2], [-5, 4])
    nodes = [helper.make_node("ConstantOfShape", ["s"], ["z"]), helper.make_node("Add", ["z", "x"], ["y"])]
    found = read_onnx(save(tmp_path / "m.onnx", nodes, [helper.make_tensor_value_info("x", FLOAT, [4])], [shape]))
    assert [c.flops for c in found.signature.clusters] == [None]


@pytest.mark.parametrize("rank", range(1, 7))
def test_every_operator_is_one_of_torch(rank: int) -> None:
    tables = [value for name, value in vars(onnx_operators).items() if name.isupper() and isinstance(value, dict)]
    operators = {op for table in tables for op in table}
    assert {"Conv", "Where", "Slice", "Max"} <= operators
    for op in sorted(operators):
        x = tensor(*range(2, rank + 2))
        call = OnnxCall(op=op, inputs=[x, x, x], outputs=[x], attributes={})
        for name, _ in translate(call) or ():
            library, operator, overload = name.split(".")
            assert overload in getattr(getattr(torch.ops, library), operator).overloads(), f"{op} -> {name}"


@pytest.mark.parametrize(
    ("left", "right", "read"),
    [((4, 3), (3, 5), 12 + 15), ((2, 4, 3), (3, 5), 24 + 15), ((2, 4, 3), (2, 3, 5), 24 + 30), ((3,), (3, 5), 3 + 15),
     ((4, 3), (6, 3, 5), 12 + 90), ((2, 4, 3), (3,), 24 + 3), ((7, 1, 4, 3), (2, 3, 5), 14 * 12 + 14 * 15),
     ((7, 1, 4, 3), (1, 2, 3, 5), 14 * 12 + 14 * 15)],
)  # fmt: skip
def test_a_products_work_is_that_of_its_broadcast_operands(
    tmp_path: Path, left: tuple[int, ...], right: tuple[int, ...], read: int
) -> None:
    """Operands of which both are repeated are copied, as torch.matmul copies them."""
    inputs = [helper.make_tensor_value_info(n, FLOAT, shape) for n, shape in (("a", left), ("b", right))]
    path = save(tmp_path / "m.onnx", [helper.make_node("MatMul", ["a", "b"], ["y"])], inputs, [])
    (cluster,) = read_onnx(path).signature.clusters
    result = torch.empty(left, device="meta") @ torch.empty(right, device="meta")
    assert cluster.flops == 2 * result.numel() * left[-1]
    assert (cluster.bytes_written, cluster.bytes_read) == (4 * result.numel(), 4 * read)


@pytest.mark.parametrize(
    ("equation", "left", "right", "flops"),
    [
        ("bhid,bhjd->bhij", (2, 3, 5, 7), (2, 3, 4, 7), 2 * 2 * 3 * 5 * 4 * 7),
        ("bnm, mk -> bkn", (2, 5, 7), (7, 3), 2 * 2 * 5 * 7 * 3),
        ("ij,j->i", (5, 7), (7,), 2 * 5 * 7),
        ("ij,ij->ij", (5, 7), (5, 7), None),
        ("...ij,jk->...ik", (2, 5, 7), (7, 3), None),
    ],
)  # fmt: skip
def test_an_einsum_of_two_operands_is_a_product(
    tmp_path: Path, equation: str, left: tuple[int, ...], right: tuple[int, ...], flops: int | None
) -> None:
    inputs = [helper.make_tensor_value_info(n, FLOAT, shape) for n, shape in (("a", left), ("b", right))]
    node = helper.make_node("Einsum", ["a", "b"], ["y"], equation=equation)
    (cluster,) = read_onnx(save(tmp_path / "m.onnx", [node], inputs, [])).signature.clusters
    assert cluster.flops == flops


def test_functions_of_the_model_itself_are_what_they_compute(tmp_path: Path) -> None:
    """As torch's exporter wrote its operators."""
    x = helper.make_tensor_value_info("x", FLOAT, [4, 8, 16])
    result = helper.make_tensor_value_info("y", FLOAT, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("pkg.lib", 1)]
    body = [helper.make_node("InstanceNormalization", ["a", "s", "b"], ["n"]), helper.make_node("Relu", ["n"], ["r"])]
    function = helper.make_function("pkg.lib", "aten_norm_relu", ["a", "s", "b"], ["r"], body, opsets[:1])
    call = helper.make_node("aten_norm_relu", ["x", "s", "b"], ["y"], domain="pkg.lib")
    graph = helper.make_graph([call], "g", [x], [result], [weight("s", 8), weight("b", 8)])
    model = helper.make_model(graph, opset_imports=opsets, functions=[function])
    onnx.save(model, tmp_path / "m.onnx")
    found = read_onnx(tmp_path / "m.onnx")
    assert calls(found.signature) == {"group_norm": 1, "relu": 1}
    assert all(c.flops for c in found.signature.clusters)


def test_operators_of_several_operands_absent_outputs_and_sizes_without_a_name(tmp_path: Path) -> None:
    a = helper.make_tensor_value_info("a", FLOAT, [None, 3, None])
    nodes = [helper.make_node("Max", ["a", "a", "a", "a"], ["m"]), helper.make_node("Sum", ["m"], ["s"]),
             helper.make_node("LSTM", ["s", "w", "r"], ["", "y"], hidden_size=2)]  # fmt: skip
    path = save(tmp_path / "m.onnx", nodes, [a], [weight("w", 1, 8, 1), weight("r", 1, 8, 2)])
    found = read_onnx(path)
    assert calls(found.signature) == {"maximum": 3, "lstm": 1}
    assert not any("depends on values" in note for note in found.notes)
    assert any("2 dimensions of the inputs have neither" in note for note in found.notes)
    with pytest.raises(UsageError) as unknown:
        read_onnx(path, dims={"batch": 2})
    assert (unknown.value.cause, unknown.value.hint) == ("its named dimensions are none", "leave out --dim")


def recorded(name: str) -> Path:
    folder = os.environ.get("STATSNET_SHARED_DATA")
    if not folder:
        pytest.skip("STATSNET_SHARED_DATA names no folder of recordings")
    return Path(folder, "traces", "onnx", f"{name}.onnx.gz")


def test_recorded_models() -> None:
    detector = read_onnx(recorded("FastestDet")).signature
    assert {op: calls(detector)[op] for op in ("convolution", "relu", "index_select", "cat")} == {
        "convolution": 70, "relu": 48, "index_select": 26, "cat": 20,
    }  # fmt: skip
    assert detector.memory.parameter_count == 241_309
    assert all(c.flops is not None and c.bytes_moved is not None for c in detector.clusters)
    assert detector.memory.input_bytes == 4 * 3 * 352 * 352
    upscaling = read_onnx(recorded("pytorch_super_resolution"), dims={"batch_size": 2}).signature
    assert calls(upscaling) == {"convolution": 4, "relu": 3, "pixel_shuffle": 1}
    assert (upscaling.memory.parameter_count, upscaling.batch) == (59_657, 2)
    weights = 64 * 25 + 64 * 64 * 9 + 32 * 64 * 9 + 9 * 32 * 9
    products = sum(c.calls * (c.flops or 0) for c in upscaling.clusters if c.op == "aten.convolution.default")
    assert products == 2 * 2 * 224 * 224 * weights
    dense = read_onnx(recorded("light_densenet121")).signature
    assert {op: calls(dense)[op] for op in ("convolution", "native_batch_norm")} == {
        "convolution": 121, "native_batch_norm": 121,
    }  # fmt: skip
    speech = read_onnx(recorded("silero_vad_16k_op15")).signature
    assert (calls(speech)["convolution"], speech.memory.parameter_count) == (6, 309_633)


def replayed(signature: Signature) -> list[str]:
    """The operators that cannot be run as the model calls them."""
    failures = replay_clusters(signature.clusters, device="cpu", progress=lambda _: None).failures
    return [op for op, _ in failures]


def test_operators_can_be_run_again_along_the_axes_that_the_model_names(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", FLOAT, [2, 4, 8, 8])
    axes = onnx.numpy_helper.from_array(np.array([2, 3]), "axes")
    nodes = [
        helper.make_node("ReduceMean", ["x", "axes"], ["m"]),
        helper.make_node("ReduceMax", ["x", "axes"], ["a"], keepdims=0),
        helper.make_node("ReduceL2", ["x", "axes"], ["l"]),
        helper.make_node("ArgMax", ["x"], ["g"], axis=1, keepdims=0),
        helper.make_node("ReduceProd", ["m"], ["p"], keepdims=0),
        helper.make_node("Clip", ["x"], ["c"]),
        helper.make_node("DepthToSpace", ["x"], ["d"], blocksize=2),
        helper.make_node("SpaceToDepth", ["d"], ["s"], blocksize=2),
        helper.make_node("Trilu", ["x"], ["t"]),
    ]
    signature = read_onnx(save(tmp_path / "m.onnx", nodes, [x], [axes])).signature
    outputs = {c.op.split(".")[1]: c.outputs[0]["shape"] for c in signature.clusters if c.outputs[0]}
    by_name = {c.op.split(".")[1]: c for c in signature.clusters}
    assert list(by_name["mean"].args[1:]) == [[2, 3], True] and outputs["mean"] == [2, 4, 1, 1]
    assert list(by_name["amax"].args[1:]) == [[2, 3], False]
    assert replayed(signature) == []


def constant(name: str, *numbers: float, dtype: type = np.int64) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(numbers, dtype=dtype), name)


def test_look_ups_and_what_is_filled_can_be_run_again(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", FLOAT, [4, 5, 6])
    i, j = (helper.make_tensor_value_info(n, onnx.TensorProto.INT64, s) for n, s in (("i", [7, 2]), ("j", [3, 2])))
    updates = helper.make_tensor_value_info("u", FLOAT, [7, 6])
    limits = [onnx.numpy_helper.from_array(np.array(n, dtype=np.int64), f"n{n}") for n in (0, 1, 100)]
    nodes = [
        helper.make_node("ScatterND", ["x", "i", "u"], ["s"]), helper.make_node("Gather", ["x", "j"], ["g"], axis=1),
        helper.make_node("OneHot", ["j", "d", "v"], ["o"]), helper.make_node("Range", ["n0", "n100", "n1"], ["r"]),
        helper.make_node("EyeLike", ["u"], ["e"]), helper.make_node("ThresholdedRelu", ["x"], ["t"], alpha=0.5),
        helper.make_node("Identity", ["g"], ["y"]),
    ]  # fmt: skip
    weights = [constant("d", 9), constant("v", 0, 1, dtype=np.float32), *limits]
    signature = read_onnx(save(tmp_path / "m.onnx", nodes, [x, i, j, updates], weights)).signature
    outputs = {c.op.split(".")[1]: c.outputs[0]["shape"] for c in signature.clusters if c.outputs[0]}
    assert outputs == {"index_put": [4, 5, 6], "index_select": [4, 6, 6], "one_hot": [3, 2, 9], "arange": [100],
                       "eye": [7, 6], "threshold": [4, 5, 6]}  # fmt: skip
    assert replayed(signature) == []


def test_weights_of_half_a_byte_are_counted(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", FLOAT, [2, 3])
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [x], [weight("w", 2, 2)])
    model = onnx.load(path)
    for kind in (onnx.TensorProto.UINT4, onnx.TensorProto.INT4, onnx.TensorProto.FLOAT4E2M1):
        model.graph.initializer.append(onnx.TensorProto(name=f"w{kind}", data_type=kind, dims=[3, 5]))
    onnx.save(model, path)
    memory = read_onnx(path).signature.memory
    assert (memory.parameter_count, memory.parameter_bytes) == (4 + 3 * 15, 16 + 3 * 8)


def test_a_row_of_unknown_length_is_not_free(tmp_path: Path) -> None:
    """Its end is an input of the model."""
    end = helper.make_tensor_value_info("n", onnx.TensorProto.INT64, [])
    limits = [onnx.numpy_helper.from_array(np.array(n, dtype=np.int64), f"n{n}") for n in (0, 1)]
    nodes = [helper.make_node("Range", ["n0", "n", "n1"], ["y"])]
    (cluster,) = read_onnx(save(tmp_path / "m.onnx", nodes, [end], limits)).signature.clusters
    assert not cluster.op.startswith("aten.arange")


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_windows_that_keep_the_size_are_padded(auto_pad: str, tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", FLOAT, [1, 4, 14, 14])
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], auto_pad=auto_pad, strides=[2, 2]),
        helper.make_node("MaxPool", ["y"], ["p"], kernel_shape=[3, 3], auto_pad=auto_pad, dilations=[1, 1]),
        helper.make_node("AveragePool", ["p"], ["a"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("ConvTranspose", ["a", "v"], ["t"], auto_pad=auto_pad, strides=[2, 2]),
    ]  # fmt: skip
    found = read_onnx(save(tmp_path / "m.onnx", nodes, [x], [weight("w", 8, 4, 3, 3), weight("v", 8, 4, 3, 3)]))
    first, second = (c for c in found.signature.clusters if c.op == "aten.convolution.default")
    assert list(first.args[4]) == [1, 1] and first.outputs[0]["shape"] == [1, 8, 7, 7]
    assert second.outputs[0]["shape"] == [1, 4, 8, 8]
    assert replayed(found.signature) == []
    for cluster in found.signature.clusters:
        if "pool" in cluster.op:
            assert KINDS["pool"].from_motif([cluster]) is not None


@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_layers_can_be_run_again(op: str, gates: int, tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", FLOAT, [5, 2, 8])
    node = helper.make_node(op, ["x", "w", "r", "b"], ["y"], hidden_size=4, direction="bidirectional")
    weights = [weight("w", 2, 4 * gates, 8), weight("r", 2, 4 * gates, 4), weight("b", 2, 8 * gates)]
    assert replayed(read_onnx(save(tmp_path / "m.onnx", [node], [x], weights)).signature) == []
