"""ONNX models that somebody made to do harm, or that are damaged: what fits is counted, the rest is refused."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import pytest
from onnx_files import FLOAT, helper, onnx, save, weight

from statsnet.errors import FileFormatError, UsageError
from statsnet.recordings import onnx_file
from statsnet.recordings.onnx_graph import GraphReader
from statsnet.recordings.onnx_model import read_onnx
from statsnet.recordings.onnx_values import computed
from statsnet.signatures import gzipped

MANY = 2**40


def value(name: str, *shape: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, shape)


@pytest.mark.parametrize(
    ("op", "shapes", "attributes"),
    [
        ("LSTM", [(3, 2, 4), (MANY, 16, 4), (MANY, 16, 4)], {"hidden_size": 4}),  # as many weights as directions
        ("LSTM", [(3, 2, 4), (5,), (5,)], {"hidden_size": 4}),
        ("Gemm", [(2, 3), ()], {}),
        ("Conv", [(1, 3, 8, 8), (3, 3, 3, 3)], {"group": b"three"}),
        ("Conv", [(1, 3, 8, 8), (3, 3, 3, 3)], {"strides": [float("nan"), 1.0]}),
        ("GroupNormalization", [(1, 4, 8), (2,), (2,)], {"num_groups": [2, 2]}),
    ],
)
def test_a_node_that_does_not_fit_its_operator_has_no_cost(
    op: str, shapes: list[tuple[int, ...]], attributes: dict[str, Any], tmp_path: Path
) -> None:
    names = [f"x{i}" for i in range(len(shapes))]
    inputs = [value(name, *shape) for name, shape in zip(names, shapes, strict=True)]
    node = helper.make_node(op, names, ["y"], **attributes)
    found = read_onnx(save(tmp_path / "m.onnx", [node], inputs, []))
    (cluster,) = found.signature.clusters
    assert (cluster.op, cluster.flops) == ("custom.opaque.default", None)
    assert f"1 operators have no counterpart in ATen: their cost is not known ({op})" in found.notes


def functions(count: int, last: str) -> list[onnx.FunctionProto]:
    """Each of which calls the next one twice."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    made = []
    for i in range(count):
        op, domain = (f"F{i + 1}", "com.acme") if i < count - 1 else (last, "com.acme" if last[0] == "F" else "")
        body = [helper.make_node(op, [x], [y], domain=domain) for x, y in (("a", "c"), ("c", "b"))]
        made.append(helper.make_function("com.acme", f"F{i}", ["a"], ["b"], body, opsets))
    return made


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        (functions(30, "Relu"), "1.07e+09 operators"),
        (functions(200, "Relu"), "more than 100 deep"),
        (functions(3, "F0"), "more than 100 deep"),
        (functions(2, "Relu") * 2, "two of its functions have one name"),
    ],
    ids=["many", "deep", "endless", "twice"],
)
def test_functions_that_never_end_are_refused_before_they_are_inlined(
    made: list[onnx.FunctionProto], cause: str, tmp_path: Path
) -> None:
    last = helper.make_node(made[-1].name, ["x"], ["z"], domain="com.acme")  # known before what calls it
    call = helper.make_node("F0", ["x"], ["y"], domain="com.acme")
    middle = helper.make_node(made[len(made) // 2].name, ["x"], ["w"], domain="com.acme")
    with pytest.raises(FileFormatError) as refused:
        read_onnx(save(tmp_path / "m.onnx", [last, middle, call], [value("x", 3)], [], functions=made))
    assert cause in refused.value.cause


@pytest.mark.parametrize("place", ["value", "sparse_value"])
def test_no_other_file_is_read(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a model names would be looked up where the command runs, and become sizes that a signature tells."""
    monkeypatch.chdir(tmp_path)
    Path("of_the_user").write_bytes(b"".join(n.to_bytes(8, "little") for n in (123, 45)))
    outside = onnx.TensorProto(data_type=onnx.TensorProto.INT64, dims=[2], data_location=1)
    for key, text in (("location", "of_the_user"), ("offset", "0"), ("length", "16")):
        entry = outside.external_data.add()
        entry.key, entry.value = key, text
    constant = onnx.NodeProto(op_type="Constant", output=["k"])
    attribute = constant.attribute.add(name=place, type=4 if place == "value" else 11)
    (attribute.t if place == "value" else attribute.sparse_tensor.values).CopyFrom(outside)
    nodes = [constant, helper.make_node("Expand", ["x", "k"], ["e"]), helper.make_node("Relu", ["e"], ["y"])]
    found = read_onnx(save(tmp_path / "m.onnx", nodes, [value("x", 1, 1)], []))
    assert "123" not in str(found.signature.clusters)
    assert any("depends on values" in note for note in found.notes)


def test_a_weight_of_a_hundred_thousand_axes_has_no_size(tmp_path: Path) -> None:
    """Its number of elements would have millions of digits."""
    x = helper.make_tensor_value_info("x", FLOAT, [2])
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [x], [])
    model = onnx.load(path)
    model.graph.initializer.append(onnx.TensorProto(name="w", data_type=FLOAT, dims=[2**40] * 100_000))
    onnx.save(model, path)
    assert read_onnx(path).signature.memory.parameter_count == 0


def test_a_size_whose_name_is_no_text_has_none(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", FLOAT, ["batch", 3])
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [x], [])
    path.write_bytes(path.read_bytes().replace(b"batch", b"b\xfftch"))
    assert any("neither a size nor a name" in note for note in read_onnx(path).notes)


def test_an_operator_whose_name_is_no_text_is_unknown(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Secret", ["x"], ["y"])], [value("x", 3)], [])
    path.write_bytes(path.read_bytes().replace(b"Secret", b"S\xffcret"))
    assert any("no counterpart in ATen" in note and "\ufffd" in note for note in read_onnx(path).notes)


def test_shapes_that_do_not_fit_are_refused_even_without_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise onnx.shape_inference.InferenceError

    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])],
                [helper.make_tensor_value_info("x", FLOAT, [2])], [])  # fmt: skip
    monkeypatch.setattr("onnx.shape_inference.infer_shapes", fail)
    with pytest.raises(FileFormatError) as refused:
        read_onnx(path)
    assert refused.value.cause == "InferenceError"


def test_other_files_and_sizes_are_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (b"", b"{}", b"\x00" * 9, b"\x1f\x8bxx"):
        (tmp_path / "m.onnx").write_bytes(content)
        with pytest.raises(FileFormatError) as refused:
            read_onnx(tmp_path / "m.onnx")
        assert refused.value.hint
    monkeypatch.setattr(gzipped, "FREE_BYTES", 2**16)
    (tmp_path / "m.onnx.gz").write_bytes(gzip.compress(bytes(2**20)))  # weights of zeros
    with pytest.raises(FileFormatError, match="unpacks to too much"):
        read_onnx(tmp_path / "m.onnx.gz")
    with pytest.raises(FileFormatError, match="cannot be read"):
        read_onnx(tmp_path / "missing.onnx")
    x = helper.make_tensor_value_info("x", FLOAT, ["batch", 3])
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [x], [])
    with pytest.raises(UsageError) as unknown:
        read_onnx(path, dims={"sequence": 2})
    assert "batch" in unknown.value.cause
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UsageError, match="onnx is not installed"):
        read_onnx(path)


def test_a_model_that_is_too_large_is_told_to_keep_its_weights_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = [weight("w", 300, 300)]
    path = save(tmp_path / "m.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [value("x", 2, 300)], weights)
    (cluster,) = read_onnx(path).signature.clusters
    assert cluster.flops == 2 * 2 * 300 * 300, "a long weight's shape is enough"
    monkeypatch.setattr(onnx_file, "MOST_BYTES", 1000)
    with pytest.raises(FileFormatError, match="too large") as refused:
        read_onnx(path)
    assert "save_as_external_data" in (refused.value.hint or "")


def test_what_computes_sizes_holds_no_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor in such a graph may lie in another file."""
    monkeypatch.setattr("onnx.reference.ReferenceEvaluator.__init__", lambda *_, **__: pytest.fail("is computed"))
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["k"])], "g", [], [value("k")])
    named = helper.make_tensor("n", onnx.TensorProto.INT64, [1], [3])
    nodes = [helper.make_node("Identity", ["n"], ["s"], body=graph), helper.make_node("Relu", ["x"], ["y"])]
    read_onnx(save(tmp_path / "m.onnx", nodes, [value("x", 2, 3)], [named]))


def test_operands_that_make_a_large_one_together_are_no_sizes() -> None:
    axes = [[1] * i + [64] + [1] * (3 - i) for i in range(4)]
    weights = [helper.make_tensor(f"n{i}", FLOAT, shape, [0.0] * 64) for i, shape in enumerate(axes)]
    node = helper.make_node("Max", [w.name for w in weights], ["y"])
    values = {w.name: onnx.numpy_helper.to_array(w) for w in weights}
    assert computed(onnx, node, values, {}, 17) is None


def test_a_split_has_as_many_results_as_the_model_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are computed as the model says; two billion parts of two numbers would take all memory."""
    monkeypatch.setattr("onnx.reference.ReferenceEvaluator.run", lambda *_: pytest.fail("is computed"))
    nodes = [helper.make_node("Shape", ["x"], ["s"]),
             helper.make_node("Split", ["s"], ["m", "n"], axis=0, num_outputs=2**31),
             helper.make_node("Relu", ["x"], ["y"])]  # fmt: skip
    read_onnx(save(tmp_path / "m.onnx", nodes, [value("x", 2, 3)], []))


def test_many_operands_take_memory_for_each_once() -> None:
    many = 2000
    nodes = [helper.make_node("Relu", ["x"], [f"r{i}"]) for i in range(many)]
    nodes.append(helper.make_node("Max", [f"r{i}" for i in range(many)], ["y"]))
    reader = GraphReader(lambda _: None, 17)
    reader.read(helper.make_graph(nodes, "g", [value("x", 2)], [value("y", 2)]))
    assert len(reader.calls) == many + many - 1
    assert sum(len(call.producers) for call in reader.calls) < 100 * len(reader.calls)
