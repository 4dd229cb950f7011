"""ONNX models: in the checker, in onnxruntime node by node, and in ZigZag."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clusters import addmm, cluster, convolution, mm, relu, signature, tensor
from exporting import simulators_python, small_manifest

from benchmarks.simulators import zigzag_cycles
from statsnet.exports.build_manifest import manifest_of_signature
from statsnet.exports.manifest import Manifest
from statsnet.exports.onnx_model import Onnx, OnnxShapes
from statsnet.exports.registry import export, write
from statsnet.exports.scaling import scaled
from statsnet.recordings.onnx_model import read_onnx
from statsnet.signatures.database import ProfilesDB

onnx = pytest.importorskip("onnx")


def inputs_of(model: Any) -> dict[str, Any]:
    """Zeros for indices, halves for all others."""
    import numpy as np

    made = {}
    for value in model.graph.input:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        made[value.name] = np.full(shape, 0.5 if dtype.kind == "f" else 0, dtype)
    return made


def run(folder: Path) -> tuple[list[Any], list[dict[str, Any]]]:
    """Outputs, and onnxruntime's record of each node as it stands in the file."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.enable_profiling = 1, True
    options.add_session_config_entry("session.disable_prepacking", "1")  # the record leaves out packed weights
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(folder / "model.onnx", options, providers=["CPUExecutionProvider"])
    outputs = session.run(None, inputs_of(onnx.load(folder / "model.onnx", load_external_data=False)))
    events = json.loads(Path(session.end_profiling()).read_text())
    return outputs, [e for e in events if e["name"].endswith("_kernel_time")]


def sizes(shapes: list[dict[str, list[int]]]) -> Iterator[tuple[str, int]]:
    for shape in shapes:
        for dtype, dims in shape.items():
            yield dtype, math.prod(dims)


BYTES = {"float": 4, "int64": 8}
UNLIKE = ("embedding", "pooling", "reduction", "sort")
"""A table is read in part; maxima without their places; axes and counts are an input."""


def test_onnxruntime_reads_and_writes_the_manifest_s_bytes_node_by_node(tmp_path: Path) -> None:
    import numpy as np

    manifest = small_manifest()
    made = export(Onnx(), manifest)
    write(made, tmp_path)
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    outputs, events = run(tmp_path)
    assert all(np.isfinite(o).all() for o in outputs if o.dtype.kind == "f")
    by_node = {e["name"].removesuffix("_kernel_time"): e["args"] for e in events}
    left = {row.layer for row in made.left_out}
    compared = 0
    for layer in manifest.layers:
        if layer.index in left or len(layer.products) > 1 or layer.category in UNLIKE:
            continue
        compared += 1
        node = by_node[layer.name]
        read = sum(BYTES[dtype] * count for dtype, count in sizes(node["input_type_shape"]))
        written = sum(BYTES[dtype] * count for dtype, count in sizes(node["output_type_shape"]))
        if layer.category == "normalization":  # saved statistics are no output in inference
            written += layer.bytes_written - 4 * math.prod(layer.outputs[0]["shape"])
        assert (read, written) == (layer.bytes_read, layer.bytes_written), layer.name
    assert compared >= 10


def test_openvino_computes_what_onnxruntime_does(tmp_path: Path) -> None:
    import numpy as np

    openvino = pytest.importorskip("openvino")
    write(export(Onnx(), small_manifest()), tmp_path)
    expected, _ = run(tmp_path)
    compiled = openvino.Core().compile_model(str(tmp_path / "model.onnx"), "CPU", {"INFERENCE_NUM_THREADS": 1})
    found = compiled(inputs_of(onnx.load(tmp_path / "model.onnx", load_external_data=False)))
    for place, values in enumerate(expected):
        np.testing.assert_allclose(found[place], values, rtol=1e-2, atol=1e-5)


def test_every_shape_is_the_one_that_onnx_infers() -> None:
    """Pooling and convolutions of odd sizes too: with data_prop and strict_mode, a contradiction is an error."""
    for name, mode in (
        ("cv/googlenet", "inference"),
        ("speech/deepspeech2", "inference"),
        ("nlp/bert_base", "training"),
    ):
        given = next(e for e in ProfilesDB().find(name) if e.mode == mode).load()
        model = onnx.load_from_string(export(OnnxShapes(), manifest_of_signature(given, name)).files["model.onnx"])
        onnx.checker.check_model(model)
        wanted = {v.name: v.type.SerializeToString() for v in model.graph.output}
        for value in model.graph.output:
            value.type.tensor_type.ClearField("shape")
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        assert {v.name: v.type.SerializeToString() for v in inferred.graph.output} == wanted


def test_what_onnx_cannot_compute_is_left_out() -> None:
    """A sum over booleans is of integers in torch; a sigmoid takes floats."""
    flags, numbers = tensor(4, 6, dtype="bool"), tensor(4, 6, dtype="int64")
    layers = [
        cluster("aten.sum.dim_IntList", [flags, [1], False, None], tensor(4, dtype="int64")),
        cluster("aten.add.Tensor", [tensor(4, 6), numbers, 1], tensor(4, 6)),
        cluster("aten.add.Tensor", [tensor(4, 6), tensor(dtype="float64"), 1], tensor(4, 6)),
        cluster("aten.sigmoid.default", [numbers], tensor(4, 6)),
    ]
    made = export(OnnxShapes(), manifest_of_signature(signature(*layers), "four"))
    assert {row.layer: row.reason for row in made.left_out} == {
        0: "ONNX's ReduceSum takes no elements of this type",
        3: "ONNX's Sigmoid takes no elements of this type",
    }


STRANGE = {
    "places of a number": cluster("aten.gather.default", [tensor(), 0, tensor(dtype="int64"), False], tensor()),
    "no windows": cluster("aten._adaptive_avg_pool2d.default", [tensor(1, 3, 4, 4), [0, 4]], tensor(1, 3, 0, 4)),
    "no groups": cluster("aten.native_group_norm.default", [tensor(1, 4, 2), None, None, 1, 4, 2, 0, 1e-5],
                         tensor(1, 4, 2)),
    "a trillion groups": cluster("aten.native_group_norm.default",
                                 [tensor(1, 2**40, 2), None, None, 1, 2**40, 2, 2**40, 1e-5], tensor(1, 2**40, 2)),
    "an axis that is none": cluster("aten._softmax.default", [tensor(4, 6), 1e300, False], tensor(4, 6)),
    "axes that are words": cluster("aten.mean.dim", [tensor(4, 6), ["sum"], False, None], tensor(4)),
    "one axis alone": cluster("aten.native_batch_norm.default",
                              [tensor(4), None, None, None, None, True, 0.1, 1e-5], tensor(4)),
    "joined elements of two types": cluster("aten.cat.default",
                                            [{"tensors": [tensor(2, 3), tensor(2, 3, dtype="int64")]}], tensor(4, 3)),
    "chosen from two types": cluster("aten.where.self", [tensor(4, dtype="bool"), tensor(4, dtype="float64"),
                                                         tensor(4)], tensor(4, dtype="float64")),
    "a wider result": cluster("aten._softmax.default", [tensor(4, 6, dtype="float16"), 1, True], tensor(4, 6)),
    "chances for each": cluster("aten.bernoulli.default", [tensor(4), None], tensor(4)),
    "a mean for each": cluster("aten.normal.Tensor_float", [tensor(4), 1.0], tensor(4)),
    "a division by integers": cluster("aten.div.Tensor_mode", [tensor(4, dtype="int64"), tensor(4, dtype="int64")],
                                      tensor(4, dtype="int64")),
    "a sum so far of one": cluster("aten.cumsum.default", [tensor(), 0], tensor()),
}  # fmt: skip
"""What torch can compute and ONNX cannot, and what a stranger's file may hold."""


@pytest.mark.parametrize("case", STRANGE)
def test_a_layer_that_onnx_cannot_hold_is_left_out_and_the_others_are_there(case: str) -> None:
    made = export(OnnxShapes(), manifest_of_signature(signature(STRANGE[case], relu(4, 4)), "two"))
    assert [row.layer for row in made.left_out] == [0]
    assert len(onnx.load_from_string(made.files["model.onnx"]).graph.node) == 1


def test_a_batch_norm_of_a_gpu_s_library_is_one() -> None:
    args = [tensor(2, 3, 4, 4), *[tensor(3)] * 4, False, 0.1, 1e-5]
    layer = cluster("aten.cudnn_batch_norm.default", args, tensor(2, 3, 4, 4), tensor(0), tensor(0), tensor(0))
    made = export(OnnxShapes(), manifest_of_signature(signature(layer), "one"))
    assert [n.op_type for n in onnx.load_from_string(made.files["model.onnx"]).graph.node] == ["BatchNormalization"]


def test_sums_over_nodes_are_the_manifest_s_where_a_layer_stands_for_several_shapes() -> None:
    """The node has one of the shapes; its repeats make up for that."""
    folded = replace(relu(64, 64, calls=4), bytes_read=64 * 64 * 2, bytes_written=64 * 64 * 2)
    made = export(OnnxShapes(), manifest_of_signature(signature(folded), "one")).files["nodes.csv"].decode()
    assert [float(row.split(",")[4]) for row in made.splitlines()[1:]] == [2.0]


def test_complex_and_integer_products_run(tmp_path: Path) -> None:
    """A complex product is four of real numbers; one of 8-bit integers has an operator of its own."""
    complex_ones = [tensor(*shape, dtype="complex64") for shape in ((4, 8), (8, 6), (4, 6))]
    integers = [tensor(*shape, dtype="int8") for shape in ((4, 8), (8, 6))]
    given = signature(cluster("aten.mm.default", complex_ones[:2], complex_ones[2]),
                      cluster("aten._int_mm.default", integers, tensor(4, 6, dtype="int32")))  # fmt: skip
    made = export(Onnx(), manifest_of_signature(given, "two"))
    write(made, tmp_path)
    rows = [line.split(",") for line in made.files["nodes.csv"].decode().splitlines()[1:]]
    assert [(row[1], float(row[4])) for row in rows] == [("MatMul", 4.0), ("MatMulInteger", 1.0)]
    outputs, _ = run(tmp_path)
    assert [output.dtype.name for output in outputs] == ["float32", "int32"]
    shapes = onnx.load_from_string(export(OnnxShapes(), manifest_of_signature(given, "two")).files["model.onnx"])
    onnx.checker.check_model(shapes, full_check=True)
    assert [node.op_type for node in shapes.graph.node] == ["MatMul", "MatMul"]  # the only one that ZigZag takes


def test_an_import_of_the_model_has_the_same_multiply_adds(tmp_path: Path) -> None:
    layers = signature(mm(7, 24, 5), addmm(4, 8, 6), convolution(tensor(2, 6, 9, 9), tensor(8, 3, 3, 3), groups=2))
    manifest = manifest_of_signature(layers, "three")
    write(export(OnnxShapes(), manifest), tmp_path)
    assert read_onnx(tmp_path / "model.onnx").signature.flops_per_step == 2 * manifest.totals.macs


def test_the_model_has_the_same_bytes_in_every_process(tmp_path: Path) -> None:
    code = ("import hashlib; from exporting import small_manifest; from statsnet.exports.onnx_model import Onnx; "
            "from statsnet.exports.registry import export; "
            "print(hashlib.sha256(b''.join(export(Onnx(), small_manifest()).files.values())).hexdigest())")  # fmt: skip
    seen = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
                       capture_output=True, text=True, check=True).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(seen) == 1


def test_weights_wrap_round_in_a_file_that_is_as_long_as_the_largest() -> None:
    layers = [mm(1, 4096, 4096 + n) for n in range(4)]
    files = export(Onnx(), manifest_of_signature(signature(*layers), "four")).files
    assert len(files["weights-float32.bin"]) == 4 * 4096 * 4099
    model = onnx.load_from_string(files["model.onnx"])
    for weight in model.graph.initializer:
        place = {e.key: e.value for e in weight.external_data}
        assert int(place["offset"]) % 4096 == 0
        assert int(place["offset"]) + int(place["length"]) <= len(files["weights-float32.bin"])


def test_bit_widths_are_attributes_of_products() -> None:
    x, w, out = (tensor(*shape, dtype="bfloat16") for shape in ((4, 8), (8, 6), (4, 6)))
    layers = signature(mm(4, 8, 6), cluster("aten.mm.default", [x, w], out))
    manifest = manifest_of_signature(layers, "two")
    model = onnx.load_from_string(export(OnnxShapes(bit_widths=True), manifest).files["model.onnx"])
    widths = [{a.name: a.i for a in node.attribute} for node in model.graph.node]
    assert widths == [{"weight_size": 32, "act_size": 32}, {"weight_size": 16, "act_size": 16}]
    plain = onnx.load_from_string(export(OnnxShapes(), manifest).files["model.onnx"])
    onnx.checker.check_model(plain)


ZIGZAG = """
import sys, zigzag, pathlib
from math import prod
from zigzag.parser.onnx.onnx_model_parser import ONNXModelParser
mapping = pathlib.Path(zigzag.__file__).parent / "inputs/mapping/default.yaml"
workload = ONNXModelParser(sys.argv[1], str(mapping)).run()
for node in workload.nodes():
    if hasattr(node, "layer_dim_sizes"):
        print(node.name, prod(node.layer_dim_sizes.data.values()))
"""


@pytest.mark.parametrize("bit_widths", [False, True])
def test_zigzag_finds_the_multiply_adds_of_each_product(bit_widths: bool, tmp_path: Path) -> None:
    python = simulators_python("zigzag")
    manifests: tuple[Manifest, ...] = (small_manifest(), scaled(small_manifest(), macs=20_000, quantum=4))
    for number, manifest in enumerate(manifests):
        folder = tmp_path / str(number)
        made = export(OnnxShapes(bit_widths=bit_widths), manifest)
        write(made, folder)
        done = subprocess.run([python, "-c", ZIGZAG, folder / "model.onnx"], capture_output=True, text=True, check=True)
        found = {line.split()[0]: int(line.split()[1]) for line in done.stdout.splitlines()}
        rows = [line.split(",") for line in made.files["nodes.csv"].decode().splitlines()[1:]]
        assert found == {row[0]: int(row[5]) for row in rows if row[5] != "0"}


def test_zigzag_counts_each_layer_as_often_as_it_repeats(tmp_path: Path) -> None:
    python = simulators_python("zigzag")
    once = signature(mm(64, 32, 16))
    twice = replace(once, clusters=tuple(replace(c, calls=2 * c.calls) for c in once.clusters))
    for name, counted in (("once", once), ("twice", twice)):
        write(export(OnnxShapes(), manifest_of_signature(counted, name)), tmp_path / name)
    cycles = [zigzag_cycles(python, tmp_path / name, "tpu_like") for name in ("once", "twice")]
    assert cycles[0] >= 64 * 32 * 16 / 32**2 and cycles[1] == 2 * cycles[0]


def test_zigzag_counts_a_layer_that_fits_an_array_as_a_whole(tmp_path: Path) -> None:
    """As the products of one row do that attention and experts have."""
    python = simulators_python("zigzag")
    write(export(OnnxShapes(), manifest_of_signature(signature(mm(1, 32, 32)), "one")), tmp_path)
    assert zigzag_cycles(python, tmp_path, "tpu_like") >= 1


def test_what_onnxruntime_refuses_is_said(tmp_path: Path) -> None:
    """It has no convolutions of 64 bits on CPUs, nor bounds of 0 for integers, but has products of both."""
    onnxruntime = pytest.importorskip("onnxruntime")
    images, filters = (tensor(*shape, dtype="float64") for shape in ((1, 4, 8, 8), (4, 4, 3, 3)))
    numbers, bias = tensor(8, 8, dtype="int64"), tensor(8, dtype="int64")
    asked = {
        "Conv of float64": convolution(images, filters, padding=1),
        "Relu of int64": cluster("aten.relu.default", [numbers], numbers),
        "": cluster("aten.addmm.default", [bias, numbers, numbers, 1, 1], numbers),
    }
    for number, (name, layer) in enumerate(asked.items()):
        made, folder = export(Onnx(), manifest_of_signature(signature(layer), "one")), tmp_path / str(number)
        write(made, folder)
        assert f"has no {name};" in " ".join(made.notes) if name else "refuses" not in " ".join(made.notes)
        if name:
            with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
                onnxruntime.InferenceSession(folder / "model.onnx", providers=["CPUExecutionProvider"])
        else:
            run(folder)


@pytest.mark.parametrize("exporter", [Onnx(), OnnxShapes()], ids=["onnx", "onnx-shapes"])
def test_convolutions_of_bfloat16_are_matrix_products(exporter: Onnx | OnnxShapes) -> None:
    """ONNX's Conv takes none of it before opset 22, and they would be most of a model."""
    images, filters = (tensor(*shape, dtype="bfloat16") for shape in ((1, 4, 8, 8), (6, 4, 3, 3)))
    made = export(exporter, manifest_of_signature(signature(convolution(images, filters, padding=1)), "one"))
    (node,) = made.files["nodes.csv"].decode().splitlines()[1:]
    assert not made.left_out and ",MatMul," in node and float(node.split(",")[-1]) == 64 * 6 * 4 * 9


def test_elements_of_8_bits_are_multiplied_where_onnx_can() -> None:
    """Convolutions of integers as matrix products; float8 in shapes alone, whose values play no part."""
    maps = convolution(tensor(1, 4, 8, 8, dtype="quint8"), tensor(6, 4, 3, 3, dtype="qint8"))
    x, w, out = tensor(4, 16, dtype="float8_e4m3fn"), tensor(16, 8, dtype="float8_e4m3fn"), tensor(4, 8)
    given = manifest_of_signature(signature(maps, cluster("aten._scaled_mm.default", [x, w], out)), "two")
    made, shapes = export(Onnx(), given), export(OnnxShapes(bit_widths=True), given)
    assert [row.split(",")[1] for row in made.files["nodes.csv"].decode().splitlines()[1:]] == ["MatMulInteger"]
    assert [row.reason for row in made.left_out] == ["no ONNX operator here takes elements of float8_e4m3fn"]
    nodes = onnx.load_from_string(shapes.files["model.onnx"]).graph.node
    assert [node.op_type for node in nodes] == ["MatMul", "MatMul"] and not shapes.left_out
    assert all(a.i == 8 for node in nodes for a in node.attribute)


def test_packed_weights_have_bits_of_their_own() -> None:
    x, out = tensor(9, 128, dtype="bfloat16"), tensor(9, 64, dtype="bfloat16")
    halves = tensor(8, 1, 32, 4, dtype="int32")  # of bytes, eight to an element
    four = cluster("aten._weight_int4pack_mm.default", [x, halves, 32, tensor(4, 64, 2)], out)
    eight = cluster("aten._weight_int8pack_mm.default", [x, tensor(64, 128, dtype="int8"), tensor(64)], out)
    given = manifest_of_signature(signature(four, eight), "two")
    nodes = onnx.load_from_string(export(OnnxShapes(bit_widths=True), given).files["model.onnx"]).graph.node
    assert [{a.name: a.i for a in node.attribute} for node in nodes] == [
        {"weight_size": 4, "act_size": 16}, {"weight_size": 8, "act_size": 16}
    ]  # fmt: skip
