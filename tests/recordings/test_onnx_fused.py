"""Operators of ONNX Runtime, quantized models and sizes that a model computes itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from statsnet.profiling.replay import replay_clusters
from statsnet.recordings.onnx_model import read_onnx
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.operators import tensors_of

onnx = pytest.importorskip("onnx")
helper = onnx.helper
FLOAT, UINT8, INT8, INT64 = (getattr(onnx.TensorProto, name) for name in ("FLOAT", "UINT8", "INT8", "INT64"))
Given = dict[str, tuple[int, ...]]


def save(path: Path, nodes: list[Any], given: Given, *, opset: int = 17, outputs: tuple[str, ...] = ("y",)) -> Path:
    """A model of float inputs; those whose names begin with q are integers of 8 bit, with i indices."""
    kinds = {"q": INT8, "u": UINT8, "i": INT64}
    inputs = [helper.make_tensor_value_info(n, kinds.get(n[0], FLOAT), shape) for n, shape in given.items()]
    results = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "graph", inputs, results)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), path)
    return path


def flops(signature: Signature) -> dict[str, float | None]:
    """FLOPs of all calls by operator; None where those of one are not known."""
    found: dict[str, float | None] = {}
    for cluster in signature.clusters:
        name, so_far = cluster.op.split(".")[1], 0.0
        if name in found:
            so_far = found[name]  # type: ignore[assignment]
        unknown = cluster.flops is None or so_far is None
        found[name] = None if unknown else so_far + cluster.calls * cluster.flops  # type: ignore[operator]
    return found


B, S, K, H, D = 2, 5, 12, 3, 4
CASES: dict[str, tuple[str, list[str], dict[str, Any], Given, dict[str, float]]] = {
    "a convolution with its activation and what is added": (
        "FusedConv", ["x", "w", "b", "z"], {"activation": "Relu", "pads": [1, 1, 1, 1], "strides": [2, 2]},
        {"x": (2, 3, 8, 8), "w": (6, 3, 3, 3), "b": (6,), "z": (2, 6, 4, 4)},
        {"convolution": 2 * 27 * 2 * 6 * 16, "add": 192, "relu": 192},
    ),
    "a product of transposed operands": (
        "FusedMatMul", ["x", "w"], {"transA": 1, "transB": 1, "alpha": 0.5}, {"x": (2, 7, 5), "w": (2, 4, 7)},
        {"bmm": 2 * 2 * 5 * 7 * 4},
    ),
    "a biased gelu": ("BiasGelu", ["x", "b"], {}, {"x": (3, 8), "b": (8,)}, {"add": 24}),
    "a norm of a sum": (
        "SkipLayerNormalization", ["x", "z", "g", "h", "b"], {},
        {"x": (2, 3, 8), "z": (2, 3, 8), "g": (8,), "h": (8,), "b": (8,)}, {"add": 2 * 48},
    ),
    "attention with its projections": (
        "Attention", ["x", "w", "b"], {"num_heads": H}, {"x": (B, S, K), "w": (K, 3 * K), "b": (3 * K,)},
        {"mm": 2 * B * S * K * 3 * K, "add": B * S * 3 * K, "scaled_dot_product_attention": 4 * B * H * S * S * D},
    ),
    "causal attention": (
        "Attention", ["x", "w"], {"num_heads": H, "unidirectional": 1}, {"x": (B, S, K), "w": (K, 3 * K)},
        {"mm": 2 * B * S * K * 3 * K, "scaled_dot_product_attention": 4 * B * H * (S * (S + 1) // 2) * D},
    ),
    "attention to other tokens": (
        "MultiHeadAttention", ["x", "z", "v"], {"num_heads": H}, {"x": (B, S, K), "z": (B, 7, K), "v": (B, 7, 2 * K)},
        {"scaled_dot_product_attention": 2 * B * H * S * 7 * (D + 2 * D)},
    ),
    "grouped queries with a cache": (
        "GroupQueryAttention", ["x", "k", "v", "p", "r"], {"num_heads": 4, "kv_num_heads": 2},
        {"x": (B, 1, 4 * D), "k": (B, 1, 2 * D), "v": (B, 1, 2 * D), "p": (B, 2, 9, D), "r": (B, 2, 9, D)},
        {"scaled_dot_product_attention": 4 * B * 4 * 1 * 10 * D},
    ),
    "weights of four bits": (
        "MatMulNBits", ["x", "u", "s"], {"K": 32, "N": 8, "bits": 4, "block_size": 32},
        {"x": (3, 32), "u": (8, 1, 16), "s": (8,)}, {"linear_dynamic": 2 * 3 * 32 * 8},
    ),
    "a quantized product": (
        "QGemm", ["q", "s", "qz", "qw", "s", "qz", "i", "s", "qz"], {"transB": 1},
        {"q": (3, 7), "s": (), "qz": (), "qw": (5, 7), "i": (5,)}, {"_int_mm": 2 * 3 * 7 * 5},
    ),
    "a quantized sum": (
        "QLinearAdd", ["q", "s", "qz", "qw", "s", "qz", "s", "qz"], {},
        {"q": (3, 7), "s": (), "qz": (), "qw": (3, 7)}, {"add": 21},
    ),
    "a product of weights that were quantized": (
        "DynamicQuantizeMatMul", ["x", "qw", "s"], {}, {"x": (2, 3, 7), "qw": (7, 5), "s": ()},
        {"_int_mm": 2 * 6 * 7 * 5},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_operator_of_onnx_runtime_has_the_counts_of_its_parts(case: str, tmp_path: Path) -> None:
    """What comes after it has shapes, too."""
    op, inputs, attributes, given, expected = CASES[case]
    nodes = [helper.make_node(op, inputs, ["fused"], domain="com.microsoft", **attributes)]
    nodes.append(helper.make_node("Tanh", ["fused"], ["y"]))
    found = read_onnx(save(tmp_path / "m.onnx", nodes, given))
    counted = flops(found.signature)
    assert {name: counted[name] for name in expected} == expected
    assert None not in counted.values() and counted["tanh"]
    assert found.notes == ("an ONNX model has no times: the signature has counts alone",)


def test_what_is_not_known_is_named_and_has_no_counts(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Rare", ["x"], ["z"], domain="com.microsoft"), helper.make_node("LRN", ["z"], ["y"], size=3),
    ]  # fmt: skip
    found = read_onnx(save(tmp_path / "m.onnx", nodes, {"x": (1, 4, 8, 8)}))
    assert flops(found.signature) == {"opaque": None}
    assert any("their cost is not known (Rare, LRN)" in note for note in found.notes)


def test_a_sum_that_a_norm_hands_on_has_its_shape(tmp_path: Path) -> None:
    node = helper.make_node(
        "SkipLayerNormalization", ["x", "z", "g", "h"], ["y", "", "", "sum"], domain="com.microsoft"
    )
    given: Given = {"x": (2, 3, 8), "z": (2, 3, 8), "g": (8,), "h": (8,)}
    path = save(tmp_path / "m.onnx", [node, helper.make_node("Relu", ["sum"], ["r"])], given, outputs=("y", "r"))
    assert flops(read_onnx(path).signature)["relu"] == 48


def test_quantized_tensors_are_read_with_their_own_bytes(tmp_path: Path) -> None:
    """Weights that the model unpacks are unpacked beforehand."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "uz"], ["a"]),
        helper.make_node("QLinearConv", ["a", "s", "uz", "qw", "s", "qz", "s", "uz"], ["c"]),
        helper.make_node("DequantizeLinear", ["c", "s", "uz"], ["d"]),
        helper.make_node("DequantizeLinear", ["packed", "s", "qz"], ["w"]),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]  # fmt: skip
    given: Given = {"x": (1, 3, 8, 8), "s": (), "uz": (), "qz": (), "qw": (4, 3, 1, 1)}
    path = save(tmp_path / "m.onnx", nodes, given)
    model = onnx.load(path)
    model.graph.initializer.append(helper.make_tensor("packed", INT8, (8, 16), [1] * 128))
    onnx.save(model, path)
    found = read_onnx(path).signature
    assert flops(found) == {"_to_copy": 0, "conv2d": 2 * 12 * 64, "mm": 2 * 32 * 8 * 16}
    bytes_read = {c.op.split(".")[1]: c.bytes_read for c in found.clusters}
    assert (bytes_read["conv2d"], bytes_read["mm"]) == (192 + 12, 4 * (256 + 128))
    assert sum(c.calls for c in found.clusters if "_to_copy" in c.op) == 2


INTEGERS: dict[str, tuple[str, list[str], dict[str, Any], Given, str]] = {
    "whole products": ("MatMulInteger", ["u", "q"], {}, {"u": (2, 3, 8), "q": (8, 16)}, "_int_mm"),
    "each with its own": ("MatMulInteger", ["u", "q"], {}, {"u": (2, 3, 8), "q": (2, 8, 16)}, "bmm"),
    "scaled back": (
        "QLinearMatMul", ["u", "s", "uz", "q", "s", "qz", "s", "uz"], {},
        {"u": (3, 8), "s": (), "uz": (), "q": (8, 16), "qz": ()}, "_int_mm",
    ),
    "a map": (
        "QLinearConv", ["u", "s", "uz", "q", "s", "qz", "s", "uz"], {"pads": [1, 1, 1, 1], "strides": [2, 2]},
        {"u": (1, 4, 8, 8), "s": (), "uz": (), "q": (8, 2, 3, 3), "qz": ()}, "conv2d",
    ),
    "a row": ("ConvInteger", ["u", "q"], {}, {"u": (1, 4, 8), "q": (8, 4, 3)}, "conv2d"),
}  # fmt: skip


@pytest.mark.parametrize("case", INTEGERS)
def test_an_operator_of_integers_can_be_run_again(case: str, tmp_path: Path) -> None:
    op, inputs, attributes, given, expected = INTEGERS[case]
    attributes = {"group": 2, **attributes} if case == "a map" else attributes
    path = save(tmp_path / "m.onnx", [helper.make_node(op, inputs, ["y"], **attributes)], given)
    (cluster,) = read_onnx(path).signature.clusters
    assert cluster.op.split(".")[1] == expected and cluster.flops
    if "Integer" in op:
        assert cluster.outputs[0]["dtype"] == "int32", "sums of bytes are wider"
    assert runs([cluster])


def runs(clusters: Sequence[Cluster]) -> bool:
    return replay_clusters(clusters, device="cpu", progress=lambda _: None).failures == []


@pytest.mark.parametrize(
    ("bits", "group", "op"), [(4, 32, "_weight_int4pack_mm_for_cpu"), (8, 64, "_weight_int8pack_mm")]
)
def test_weights_of_few_bits_can_be_run_again(bits: int, group: int, op: str, tmp_path: Path) -> None:
    attributes = {"K": 64, "N": 16, "bits": bits, "block_size": group}
    node = helper.make_node("MatMulNBits", ["x", "u", "s"], ["y"], domain="com.microsoft", **attributes)
    given: Given = {"x": (2, 3, 64), "u": (16, 64 // group, group * bits // 8), "s": (16 * 64 // group,)}
    (cluster,) = read_onnx(save(tmp_path / "m.onnx", [node], given)).signature.clusters
    assert (cluster.op.split(".")[1], cluster.flops) == (op, 2 * 6 * 64 * 16)
    assert tensors_of(cluster.args)[1].nbytes == 16 * 8 * bits
    assert runs([cluster])


@pytest.mark.parametrize("op", ["QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax", "QLinearGlobalAveragePool"])
def test_what_a_quantized_model_does_between_products_can_be_run_again(op: str, tmp_path: Path) -> None:
    node = helper.make_node(op, ["u", "s", "uz", "s", "uz"], ["y"], domain="com.microsoft")
    found = read_onnx(save(tmp_path / "m.onnx", [node], {"u": (1, 4, 8, 8), "s": (), "uz": ()})).signature
    assert runs(found.clusters)


def test_sizes_that_a_model_computes_are_constants(tmp_path: Path) -> None:
    """Heads are split as exporters do: by a size that is cast and divided. What computes sizes is no operator."""

    def constant(name: str, values: list[int]) -> Any:
        value = helper.make_tensor(name, INT64, [len(values)] if len(values) > 1 else [], values)
        return helper.make_node("Constant", [], [name], value=value)

    nodes = [
        helper.make_node("Shape", ["x"], ["all"]), constant("two", [2]), constant("four", [4]), constant("zero", [0]),
        helper.make_node("Gather", ["all", "two"], ["width"], axis=0),
        helper.make_node("Cast", ["width"], ["f"], to=FLOAT), helper.make_node("Cast", ["four"], ["g"], to=FLOAT),
        helper.make_node("Div", ["f", "g"], ["h"]), helper.make_node("Cast", ["h"], ["each"], to=INT64),
        helper.make_node("Unsqueeze", ["each", "axis"], ["last"]), constant("axis", [0]),
        helper.make_node("Concat", ["rest", "last"], ["shape"], axis=0), constant("rest", [0, 0, 4]),
        helper.make_node("Reshape", ["x", "shape"], ["heads"]), helper.make_node("Relu", ["heads"], ["y"]),
    ]  # fmt: skip
    ordered = sorted(nodes, key=lambda node: node.op_type != "Constant")
    ordered[[n.output[0] for n in ordered].index("axis")].attribute[0].t.dims[:] = [1]
    found = read_onnx(save(tmp_path / "m.onnx", ordered, {"x": (2, 5, 12)}))
    assert flops(found.signature) == {"relu": 2 * 5 * 12}
    (cluster,) = found.signature.clusters
    assert cluster.args[0]["shape"] == [2, 5, 4, 3]


def test_attention_of_onnx_itself(tmp_path: Path) -> None:
    """Opset 23: with heads apart, or side by side; grouped queries and a cache."""
    apart = helper.make_node("Attention", ["x", "k", "k", "", "p", "p"], ["y", "c", "d"], is_causal=1)
    given: Given = {"x": (B, 4, 1, D), "k": (B, 2, 1, D), "p": (B, 2, 9, D)}
    found = read_onnx(save(tmp_path / "a.onnx", [apart], given, opset=23)).signature
    assert flops(found) == {"scaled_dot_product_attention": 4 * B * 4 * 10 * D}
    beside = helper.make_node("Attention", ["x", "k", "k"], ["y"], q_num_heads=4, kv_num_heads=2, is_causal=1)
    given = {"x": (B, S, 4 * D), "k": (B, S, 2 * D)}
    found = read_onnx(save(tmp_path / "b.onnx", [beside], given, opset=23)).signature
    assert flops(found) == {"scaled_dot_product_attention": 4 * B * 4 * (S * (S + 1) // 2) * D}


@pytest.mark.parametrize("op", ["FusedConv", "FusedMatMul", "Attention", "MultiHeadAttention", "MatMulNBits", "QGemm",
                                "SkipLayerNormalization", "EmbedLayerNormalization", "GroupQueryAttention",
                                "QLinearConcat", "RotaryEmbedding", "BiasGelu", "ReorderOutput"])  # fmt: skip
def test_odd_fused_operators_do_not_stop_the_reading(op: str, tmp_path: Path) -> None:
    """Without inputs, with absent or scalar ones, without an output."""
    nodes = [
        helper.make_node(op, [], ["a"], domain="com.microsoft"),
        helper.make_node(op, ["", "", ""], ["b"], domain="com.microsoft", num_heads=0),
        helper.make_node(op, ["s", "s", "s"], ["c"], domain="com.microsoft", num_heads=3, channels=2, K=1, N=1),
        helper.make_node(op, ["s"], [], domain="com.microsoft"), helper.make_node("Relu", ["s"], ["y"]),
    ]  # fmt: skip
    assert flops(read_onnx(save(tmp_path / "m.onnx", nodes, {"s": ()})).signature)["relu"] == 1


def test_sizes_that_cannot_be_computed_are_not_known(tmp_path: Path) -> None:
    """Too many elements, sizes beyond what a number holds."""
    one = helper.make_tensor("one", INT64, [1], [1 << 40])
    nodes = [
        helper.make_node("Constant", [], ["many"], value=one),
        helper.make_node("ConstantOfShape", ["many"], ["b"]), helper.make_node("Expand", ["many", "many"], ["c"]),
        helper.make_node("Range", ["many", "many", "many"], ["d"]),
        helper.make_node("Split", ["many"], ["f", "g"]), helper.make_node("Relu", ["x"], ["y"]),
    ]  # fmt: skip
    assert flops(read_onnx(save(tmp_path / "m.onnx", nodes, {"x": (3,)})).signature)["relu"] == 3


ODD: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "no heads of keys": ("GroupQueryAttention", ["x", "x", "x"], {"num_heads": 4, "kv_num_heads": 0}),
    "fewer than no heads of keys": ("GroupQueryAttention", ["x", "x", "x"], {"num_heads": 4, "kv_num_heads": -2}),
    "half as many heads": ("GroupQueryAttention", ["x"], {"num_heads": 4, "kv_num_heads": -2}),
    "one hidden size": ("Attention", ["x", "w"], {"num_heads": 3, "qkv_hidden_sizes": 12}),
    "hidden sizes below zero": ("Attention", ["x", "w"], {"num_heads": 3, "qkv_hidden_sizes": [-3, -3, -3]}),
    "fractions of sizes": ("Attention", ["x", "w"], {"num_heads": 3, "qkv_hidden_sizes": [1.5, 1.5, 1.5]}),
}


@pytest.mark.parametrize("case", ODD)
def test_attention_of_odd_sizes_has_no_counts(case: str, tmp_path: Path) -> None:
    op, inputs, attributes = ODD[case]
    nodes = [
        helper.make_node(op, inputs, ["a"], domain="com.microsoft", **attributes),
        helper.make_node("Relu", ["x"], ["y"]),
    ]
    found = read_onnx(save(tmp_path / "m.onnx", nodes, {"x": (2, 5, 12), "w": (12, 36)}))
    assert flops(found.signature) == {"opaque": None, "relu": 120}


def test_attributes_that_an_operator_does_not_have_count_as_absent(tmp_path: Path) -> None:
    names = ("name", "op_type", "inputs", "outputs", "domain", "overload", "doc_string", "own")
    node = helper.make_node("FusedConv", ["x", "w"], ["y"], domain="com.microsoft", activation="Relu")
    node.attribute.extend(helper.make_attribute(name, "z") for name in names)
    node.attribute.add(name="dilations", type=onnx.AttributeProto.INTS)
    found = read_onnx(save(tmp_path / "m.onnx", [node], {"x": (1, 3, 8, 8), "w": (6, 3, 1, 1)}))
    assert flops(found.signature) == {"convolution": 2 * 3 * 6 * 64, "relu": 6 * 64}


def test_weights_that_cannot_be_read_and_nodes_without_inputs(tmp_path: Path) -> None:
    nodes = [helper.make_node("DequantizeLinear", [], ["d"]), helper.make_node("Relu", ["x"], ["y"])]
    path = save(tmp_path / "m.onnx", nodes, {"x": (3,)})
    model = onnx.load(path)
    model.graph.initializer.add(name="short", data_type=FLOAT, dims=[4], raw_data=b"123")
    model.graph.initializer.add(name="unknown", data_type=99, dims=[4])
    onnx.save(model, path)
    assert flops(read_onnx(path).signature)["relu"] == 3
