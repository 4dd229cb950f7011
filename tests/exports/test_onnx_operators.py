"""Operators of the onnx formats in onnxruntime: what torch computes of the same operands, and the manifest's bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from clusters import cluster, signature
from exporting import missing

from statsnet.exports.build_manifest import manifest_of_signature
from statsnet.exports.manifest import Layer
from statsnet.exports.onnx_model import Onnx, OnnxShapes
from statsnet.exports.onnx_nodes import piece_of
from statsnet.exports.onnx_piece import DTYPES
from statsnet.exports.onnx_refused import refused
from statsnet.exports.registry import export
from statsnet.profiling.encode import encode_arguments, encode_outputs
from statsnet.workloads.torch_operators import find_overload

onnx = pytest.importorskip("onnx")
aten = torch.ops.aten
Values = Sequence[torch.Tensor]


def tensors_in(values: Any) -> list[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        return [values]
    return [t for v in values for t in tensors_in(v)] if isinstance(values, (list, tuple)) else []


@dataclass(frozen=True)
class Case:
    """A call. `feeds` makes the inputs of the graph of its arguments, `results` those outputs that it has; `unlike` are
    the sides whose bytes are others than the manifest's, as docs/exports.md says."""

    op: str
    args: tuple[Any, ...]
    feeds: Callable[..., Values] = lambda *args: tensors_in(args)
    results: Callable[[Values], Values] = lambda made: made
    unlike: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


def x(*shape: int, low: float = -2.0, high: float = 2.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(math.prod(shape))
    return torch.rand(*shape, generator=generator) * (high - low) + low


def places(*shape: int, below: int) -> torch.Tensor:
    return torch.randint(below, shape, generator=torch.Generator().manual_seed(0))


def flags(*shape: int) -> torch.Tensor:
    return x(*shape) > 0


def stored(t: torch.Tensor, size: int) -> torch.Tensor:
    """Elements as they lie in memory."""
    return torch.as_strided(t, (size,), (1,))


def halves(t: torch.Tensor, axis: int) -> Values:
    return t.chunk(2, axis)


def first(made: Values) -> Values:
    return made[:1]


DENSE = {"memory_format": torch.contiguous_format}
MOVED = x(2, 5, 3, 4).permute(0, 3, 1, 2)
EXPANDED = x(2, 1, 4).expand(2, 3, 4)
GROUPS = (x(2, 6, 4, 5), x(6), x(6), 2, 6, 20, 3, 1e-5)
OWN_STATISTICS = (x(2, 3, 4, 5), x(3), x(3), None, None, True, 0.1, 1e-5)
ROWS = places(7, below=5)
BAGS = (x(20, 4), places(12, below=20), torch.arange(0, 12, 3))

CASES = [
    *(Case(f"aten.{name}.default", (x(3, 4, low=0.1),)) for name in ("rsqrt", "mish", "sign", "ceil", "floor")),
    *(Case(f"aten.{name}.default", (x(3, 4, low=0.1),)) for name in
      ("hardswish", "hardsigmoid", "softplus", "gelu", "silu", "relu", "sigmoid", "tanh", "exp", "log", "sqrt",
       "neg", "abs", "erf", "sin", "cos", "reciprocal")),
    Case("aten.hardswish.default", (x(4, 5, low=-4, high=4),), nodes=("HardSigmoid", "Mul")),
    Case("aten.ge.Scalar", (x(3, 4), 0.5)),
    Case("aten.le.Tensor", (x(3, 4), x(4))),
    Case("aten._log_softmax.default", (x(3, 4), -1, False)),
    Case("aten.celu.default", (x(3, 4), 0.5)),
    Case("aten.elu.default", (x(3, 4), 0.5)),
    Case("aten.elu.default", (x(3, 4), 1.6732632423543772, 1.0507009873554805), nodes=("Selu",)),
    Case("aten.leaky_relu.default", (x(3, 4), 0.25)),
    Case("aten._prelu_kernel.default", (x(2, 3, 4), x(1, 3, 1))),
    Case("aten.glu.default", (x(3, 8, 2), 1), feeds=halves, nodes=("Sigmoid", "Mul")),
    Case("aten.clamp.default", (x(3, 4), -1, 0.5), nodes=("Clip",)),
    Case("aten.clamp.default", (x(3, 4), 0, None), nodes=("Max",)),
    Case("aten.clamp.default", (x(3, 4), None, 1), nodes=("Min",)),
    Case("aten.clamp.default", (places(4, below=9), 2, 5)),
    Case("aten.clamp_min.default", (x(3, 4), 0.25)),
    Case("aten.clamp_max.default", (x(3, 4), 0.25)),
    Case("aten.hardtanh.default", (x(3, 4), 0, 1)),
    Case("aten.rsub.Scalar", (x(3, 4), 1)),
    Case("aten.mul.Tensor", (x(3, 4), places(3, 4, below=9)), nodes=("Cast", "Mul")),
    Case("aten.gt.Tensor", (places(3, 4, below=9), x(3, 4)), nodes=("Cast", "Greater")),
    Case("aten.ne.Scalar", (places(4, 5, below=3), 1), nodes=("Equal", "Not")),
    Case("aten.remainder.Scalar", (places(12, below=9) - 4, 3)),
    Case("aten.bitwise_not.default", (flags(3, 4),)),
    Case("aten.bitwise_and.Tensor", (flags(3, 4), flags(4))),
    Case("aten.bitwise_or.Tensor", (places(9, below=9), places(9, below=5))),
    Case("aten.logical_and.default", (flags(3, 4), flags(4))),
    Case("aten.masked_fill.Scalar", (x(2, 3, 4), flags(2, 1, 4), -math.inf), feeds=lambda a, mask, _: (a, mask)),
    Case("aten.native_group_norm.default", GROUPS, results=first, unlike=("written",),
         nodes=("InstanceNormalization", "Mul", "Add")),
    Case("aten.native_group_norm.default", (x(2, 6, 9), None, None, 2, 6, 9, 6, 1e-5), results=first,
         feeds=lambda a, *_: (a,), unlike=("written",), nodes=("InstanceNormalization",)),
    Case("aten.native_batch_norm.default", OWN_STATISTICS, unlike=("written",),
         feeds=lambda a, *more: (a.transpose(0, 1), more[0], more[1]), results=lambda made: (made[0].transpose(0, 1),)),
    Case("aten._weight_norm_interface.default", (x(3, 4, 5), x(1, 1, 5), 2), nodes=("ReduceL2", "Div", "Mul")),
    Case("aten.prod.dim_int", (x(3, 4, 2), -1)),
    Case("aten.any.dim", (flags(3, 4), 1)),
    Case("aten.all.default", (flags(3, 4),)),
    Case("aten.logsumexp.default", (x(3, 4, 2), [1], True)),
    Case("aten.linalg_vector_norm.default", (x(3, 4, 2), 2, [0, 2], True)),
    Case("aten.max.default", (x(3, 4),)),
    Case("aten.max.dim", (x(3, 4, 2), 1), nodes=("ReduceMax", "ArgMax")),
    Case("aten.min.dim", (x(3, 4, 2), 1, True), nodes=("ReduceMin", "ArgMin")),
    Case("aten.argmax.default", (x(3, 4, 2), -1)),
    Case("aten.argmax.default", (x(3, 4),)),
    Case("aten.cumsum.default", (x(3, 4, 2), 1)),
    Case("aten.topk.default", (x(3, 9), 4, -1, False, True)),
    Case("aten.sort.default", (x(3, 9), 1, True)),
    Case("aten.sort.stable", (places(3, 40, below=5), ), kwargs={"stable": True, "dim": 1}),
    Case("aten.sort.stable", (x(3, 40).round(),), kwargs={"stable": True, "dim": -1, "descending": True}),
    Case("aten.adaptive_max_pool2d.default", (x(2, 3, 4, 9), [2, 3]), results=first, unlike=("written",)),
    Case("aten.adaptive_max_pool3d.default", (x(2, 3, 4, 9, 5), [2, 3, 1]), results=first, unlike=("written",)),
    Case("aten.constant_pad_nd.default", (x(2, 3, 4), [3, -1, 1, 0], 0.5)),
    Case("aten.reflection_pad2d.default", (x(2, 3, 4, 5), [1, 2, 3, 0])),
    Case("aten.replication_pad1d.default", (x(2, 3, 4), [1, 2])),
    Case("aten.upsample_nearest2d.default", (x(1, 2, 3, 4), [7, 8])),
    Case("aten._upsample_nearest_exact1d.default", (x(1, 2, 3), [7])),
    Case("aten.upsample_bilinear2d.default", (x(1, 2, 3, 4), [6, 9], False)),
    Case("aten.upsample_bilinear2d.default", (x(1, 2, 3, 4), [6, 9], True)),
    Case("aten.upsample_linear1d.default", (x(2, 3, 4), [9], False)),
    Case("aten.upsample_trilinear3d.default", (x(1, 2, 3, 4, 2), [6, 9, 3], False)),
    Case("aten.upsample_bicubic2d.default", (x(1, 2, 6, 7), [12, 14], False)),
    Case("aten.affine_grid_generator.default", (x(2, 2, 3), [2, 5, 4, 6], False)),
    Case("aten.grid_sampler_2d.default", (x(2, 3, 4, 5), x(2, 6, 7, 2), 0, 0, False)),
    Case("aten.grid_sampler_2d.default", (x(2, 3, 4, 5), x(2, 6, 7, 2), 1, 2, True)),
    Case("aten.grid_sampler_3d.default", (x(1, 2, 3, 4, 5), x(1, 2, 3, 4, 3), 0, 1, False)),
    Case("aten._safe_softmax.default", (x(3, 4), -1)),
    Case("aten._adaptive_avg_pool2d.default", (x(2, 3, 6, 8), [3, 2])),
    Case("aten.pixel_shuffle.default", (x(2, 12, 3, 4), 2)),
    Case("aten.clone.default", (MOVED,), feeds=lambda a: (stored(a, 120),), nodes=("Transpose",), kwargs=DENSE),
    Case("aten.clone.default", (MOVED,), feeds=lambda a: (stored(a, 120),), nodes=("Identity",),
         results=lambda made: (stored(made[0], 120),)),
    Case("aten.clone.default", (EXPANDED.transpose(1, 2),), feeds=lambda a: (stored(a, 8),), kwargs=DENSE,
         nodes=("Expand",)),
    Case("aten.clone.default", (EXPANDED.transpose(0, 2),), feeds=lambda a: (stored(a, 8),), kwargs=DENSE,
         nodes=("Transpose", "Expand")),
    Case("aten.clone.default", (x(3, 4, 5).transpose(1, 2)[:2],), feeds=lambda a: (stored(a, 40),), kwargs=DENSE),
    Case("aten.clone.default", (x(3, 4),), nodes=("Identity",)),
    Case("aten._to_copy.default", (flags(3, 4),), kwargs={"dtype": torch.float32}, nodes=("Cast",)),
    Case("aten.copy_.default", (x(3, 4, 6)[..., 2:], x(4)), feeds=lambda into, a: (a,), nodes=("Expand",)),
    Case("aten.zeros.default", ([3, 4],), feeds=lambda *_: (torch.zeros(()),), unlike=("read",), nodes=("Expand",)),
    Case("aten.full_like.default", (x(3, 4), 7), feeds=lambda *_: (torch.tensor(7.0),), unlike=("read",)),
    Case("aten.stack.default", ([x(3, 4), x(3, 4) * 2], -1)),
    Case("aten.repeat.default", (x(3, 4), [2, 1, 3])),
    Case("aten.triu.default", (x(2, 4, 4), 1)),
    Case("aten.tril.default", (x(4, 5),)),
    Case("aten.roll.default", (x(2, 3, 4, 5), [1, 2], [1, 2]), unlike=("read",),
         feeds=lambda a, *_: (a, torch.arange(12).view(3, 4).roll((1, 2), (0, 1)))),
    *(Case("aten._embedding_bag.default", (*BAGS, False, how),
           feeds=lambda table, i, *_: (table, i), results=first, unlike=("read", "written")) for how in (0, 1, 2)),
    Case("aten._embedding_bag.default", (*BAGS, False, 0, False, x(12)),
         results=first, unlike=("read", "written"), nodes=("Gather", "Mul", "ReduceSum"),
         feeds=lambda table, i, _, scaled, how, sparse, weights: (table, i, weights)),
    Case("aten.index_select.default", (x(3, 5, 2), 1, ROWS), unlike=("read",)),
    Case("aten.index.Tensor", (x(3, 5, 2), [None, ROWS]), unlike=("read",), feeds=lambda a, i: (a, i[1])),
    Case("aten.index.Tensor", (x(3, 5, 6), [None, ROWS, ROWS]), unlike=("read",),
         feeds=lambda a, i: (a, i[1] * 6 + i[2]), nodes=("Gather",)),
    Case("aten.index.Tensor", (x(5, 6, 2), [ROWS, ROWS]), feeds=lambda a, i: (a, torch.stack(i, -1)), unlike=("read",),
         nodes=("GatherND",)),
    Case("aten.gather.default", (x(3, 5, 2), 1, places(2, 7, 2, below=5)), unlike=("read",),
         feeds=lambda a, _, i: (a[:2], i)),
    Case("aten.index_put.default", (x(5, 3), [ROWS], x(7, 3), True), unlike=("read",)),
    Case("aten.index_add.default", (x(5, 3), 0, ROWS, x(7, 3)), unlike=("read",)),
    Case("aten.index_copy.default", (x(9, 3), 0, torch.arange(7), x(7, 3)), unlike=("read",)),
    Case("aten.scatter.src", (x(3, 5), 1, torch.arange(4).expand(3, 4), x(3, 6)), unlike=("read",),
         feeds=lambda a, _, i, s: (a, i, s[:, :4])),
    Case("aten.scatter_add.default", (x(3, 5), 1, places(3, 7, below=5), x(3, 7)), unlike=("read",)),
    Case("aten.scatter_reduce.two", (x(3, 5), 1, places(3, 7, below=5), x(3, 7), "amax"), unlike=("read",)),
]  # fmt: skip


def called(case: Case) -> tuple[Layer, Any, Values, Values]:
    """The layer of the call, its model, and the operands and results as the graph has them."""
    overload = find_overload(case.op)
    assert overload is not None
    feeds = [t.clone() for t in case.feeds(*case.args)]
    made = overload(*case.args, **case.kwargs)
    encoded = encode_outputs(made)
    layers = signature(cluster(case.op, encode_arguments(overload, case.args, case.kwargs), *encoded))
    manifest = manifest_of_signature(layers, "one")
    exported = export(OnnxShapes(), manifest)
    assert export(Onnx(), manifest).held == 1
    model = onnx.load_from_string(exported.files["model.onnx"])
    return manifest.layers[0], model, feeds, case.results(tensors_in(made))


def bytes_of(values: Any) -> int:
    return sum(
        math.prod(d.dim_value for d in v.type.tensor_type.shape.dim)
        * onnx.helper.tensor_dtype_to_np_dtype(v.type.tensor_type.elem_type).itemsize
        for v in values
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op.removeprefix("aten."))
def test_it_computes_what_torch_does(case: Case, tmp_path: Path) -> None:
    """In onnxruntime, which has a time of each node by its name."""
    try:
        import onnxruntime
    except ImportError:
        missing("onnxruntime")
    layer, model, feeds, wanted = called(case)
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_profiling, options.profile_file_prefix = True, str(tmp_path / "profile")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = zip(session.get_inputs(), feeds, strict=True)
    outputs = session.run(None, {value.name: t.reshape(value.shape).numpy() for value, t in given})
    assert len(outputs) == len(wanted)
    for found, expected in zip(outputs, wanted, strict=True):
        torch.testing.assert_close(torch.from_numpy(found).reshape(expected.shape), expected)
    timed = {event["name"] for event in json.loads(Path(session.end_profiling()).read_text())}
    assert {f"{node.name}_kernel_time" for node in model.graph.node} <= timed
    if case.nodes:
        assert tuple(node.op_type for node in model.graph.node) == case.nodes
    if "read" not in case.unlike:
        assert bytes_of(model.graph.input) == layer.bytes_read
    if "written" not in case.unlike:
        assert bytes_of(model.graph.output) == layer.bytes_written


# It looks up by grid in images alone, and has no order of equal elements.
NOT_IN_OPENVINO = ("aten.grid_sampler_3d.default", "aten.sort.stable")
IN_OPENVINO = [case for case in CASES if case.op not in NOT_IN_OPENVINO]


@pytest.mark.parametrize("case", IN_OPENVINO, ids=lambda case: case.op.removeprefix("aten."))
def test_openvino_computes_it_too(case: Case, tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    _, model, feeds, wanted = called(case)
    onnx.save(model, tmp_path / "model.onnx")
    shapes = [[d.dim_value for d in value.type.tensor_type.shape.dim] for value in model.graph.input]
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = openvino.Core().compile_model(str(tmp_path / "model.onnx"), "CPU", settings)
    outputs = compiled([t.reshape(shape).numpy() for t, shape in zip(feeds, shapes, strict=True)])
    for place, expected in enumerate(wanted):
        found = torch.from_numpy(outputs[place].copy()).reshape(expected.shape)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "args", "lowest", "highest"),
    [("aten.bernoulli_.float", (x(40, 50), 0.25), 0, 1), ("aten.rand.default", ([40, 50],), 0, 1),
     ("aten.randn_like.default", (x(40, 50),), -9, 9)],
)  # fmt: skip
def test_random_numbers_are_made_and_nothing_is_read(op: str, args: Any, lowest: float, highest: float) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    layer, model, _, wanted = called(Case(op, args))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (made,) = session.run(None, {})
    assert made.shape == wanted[0].shape and lowest <= made.min() < made.max() <= highest
    assert abs(made.mean() - wanted[0].numpy().mean()) < 0.1
    assert not model.graph.input and bytes_of(model.graph.output) == layer.bytes_written


def in_elements_of(dtype: str, encoded: Any) -> Any:
    """Arguments or results with elements of another type in place of float32."""
    return json.loads(json.dumps(encoded).replace('"float32"', f'"{dtype}"'))


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_it_is_known_which_elements_onnxruntime_refuses(dtype: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    tried = 0
    for case in (*CASES, Case("aten.rand.default", ([4, 5],)), Case("aten.randn_like.default", (x(4, 5),))):
        overload = find_overload(case.op)
        assert overload is not None
        args = in_elements_of(dtype, encode_arguments(overload, case.args, case.kwargs))
        outputs = in_elements_of(dtype, encode_outputs(overload(*case.args, **case.kwargs)))
        manifest = manifest_of_signature(signature(cluster(case.op, args, *outputs)), "one")
        if OnnxShapes().reason_against(manifest.layers[0]) is not None:
            continue
        tried += 1
        model = export(OnnxShapes(), manifest).files["model.onnx"]
        if refused(piece_of(manifest.layers[0])) is None:
            onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
            continue
        with pytest.raises(Exception, match="NOT_IMPLEMENTED"):
            onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    assert tried > 25
