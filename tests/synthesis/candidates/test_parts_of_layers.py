"""What runtimes make a part of a layer is no block by itself, so that they find in a proxy what they find in models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from synthesis_builders import cluster, measured, small_signature, tensor

from statsnet.measure.proxy_graph import COLOURS
from statsnet.measure.runtimes import exported_proxy
from statsnet.proxy.towers import Placed, build_towers
from statsnet.signatures.model import Cluster, Motif
from statsnet.signatures.target import Target, target_of
from statsnet.synthesis.candidates.operator_candidates import operator_candidates
from statsnet.synthesis.candidates.parts_of_layers import run_with_layers
from statsnet.synthesis.candidates.sources import sources

MAP = (2, 16, 14, 14)
CONV = cluster(
    "aten.convolution.default", "convolution",
    (tensor(*MAP), tensor(16, 16, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1), tensor(*MAP),
)  # fmt: skip
NORM = cluster(
    "aten.native_batch_norm.default", "normalization", (tensor(*MAP), *[tensor(16)] * 4, False, 0.1, 1e-5), tensor(*MAP)
)
ADD = cluster("aten.add.Tensor", "elementwise", (tensor(*MAP), tensor(*MAP)), tensor(*MAP))
RELU = cluster("aten.relu.default", "activation", (tensor(*MAP),), tensor(*MAP))
MUL = cluster("aten.mul.Tensor", "elementwise", (tensor(*MAP), tensor(*MAP)), tensor(*MAP))
LINEAR = cluster("aten.mm.default", "gemm", (tensor(64, 32), tensor(32, 48, strides=[1, 32])), tensor(64, 48))
DECONV = cluster(
    "aten.convolution.default", "convolution",
    (tensor(*MAP), tensor(16, 16, 3, 3), None, [1, 1], [1, 1], [1, 1], True, [0, 0], 1), tensor(*MAP),
)  # fmt: skip
PRODUCTS = cluster("aten.bmm.default", "gemm", (tensor(4, 16, 32), tensor(4, 32, 48)), tensor(4, 16, 48))
OF_PRODUCTS = cluster("aten.relu.default", "activation", (tensor(4, 16, 48),), tensor(4, 16, 48))
OF_ROWS = {
    "norm": cluster("aten.native_batch_norm.default", "normalization",
                    (tensor(64, 48), *[tensor(48)] * 4, False, 0.1, 1e-5), tensor(64, 48)),
    "relu": cluster("aten.relu.default", "activation", (tensor(64, 48),), tensor(64, 48)),
    "add": cluster("aten.add.Tensor", "elementwise", (tensor(64, 48), tensor(64, 48)), tensor(64, 48)),
    "bias": cluster("aten.add.Tensor", "elementwise", (tensor(64, 48), tensor(48)), tensor(64, 48)),
}  # fmt: skip


def target(*motif: Cluster, behind: float = 4.0, mode: str = "inference") -> Target:
    """A step runs the motif so often, and calls each of its operators four times."""
    names = [f"{c.op.split('.')[1]}|aten|float32|contiguous" for c in motif]
    measurement = measured([0.008 / len(motif)] * len(motif), names)
    motifs = (Motif(clusters=tuple(range(len(motif))), count=behind),)
    return target_of(small_signature(clusters=motif, motifs=motifs, mode=mode, measurements=(measurement,)))


@pytest.mark.parametrize(
    ("motif", "kinds"),
    [
        ((CONV, NORM), {"conv"}),
        ((CONV, NORM, RELU), {"conv"}),
        ((CONV, NORM, ADD, RELU), {"conv"}),
        ((CONV, RELU), {"conv"}),
        ((CONV, NORM, RELU, MUL), {"conv", "pointwise"}),  # a block of a convolution has no product
        ((CONV, RELU, ADD), {"conv", "pointwise"}),  # nor an addition behind its activation
        ((NORM, RELU), {"norm", "pointwise"}),
        ((LINEAR, OF_ROWS["relu"]), {"linear"}),
        ((LINEAR, OF_ROWS["add"], OF_ROWS["relu"]), {"linear"}),
        ((LINEAR, OF_ROWS["bias"]), {"linear", "pointwise"}),
        ((LINEAR, OF_ROWS["norm"], OF_ROWS["relu"]), {"linear", "pointwise"}),
        ((DECONV, RELU), {"deconv"}),
        ((DECONV, ADD), {"deconv", "pointwise"}),
        ((PRODUCTS, OF_PRODUCTS), {"batched_matmul", "pointwise"}),
    ],
)
def test_what_a_layers_block_has_behind_it_is_no_block(motif: tuple[Cluster, ...], kinds: set[str]) -> None:
    assert {s.kind for s in sources(target(*motif))} - {"conv_chain"} == kinds


def test_small_change_is_a_layer_with_less_behind_it() -> None:
    """Runtimes run each as one node."""
    made = [s.config for s in sources(target(CONV, NORM, ADD, RELU)) if s.kind == "conv"]
    assert [(c["norm"], c["residual"], c["activation"]) for c in made] == [
        (True, True, "relu"), (True, True, ""), (True, False, ""), (False, False, ""),
    ]  # fmt: skip


def test_in_training_each_operator_may_be_a_block() -> None:
    assert {s.kind for s in sources(target(CONV, NORM, RELU, mode="training"))} >= {"conv", "norm", "pointwise"}


@pytest.mark.parametrize(
    ("behind", "mode", "is_part"), [(4.0, "inference", True), (1.0, "inference", False), (4.0, "training", False)]
)
def test_nor_is_it_an_operator_by_itself(behind: float, mode: str, is_part: bool) -> None:
    """If more than half of its calls are behind a layer."""
    wanted = target(CONV, NORM, RELU, behind=behind, mode=mode)
    assert run_with_layers(wanted) == (frozenset({1, 2}) if is_part else frozenset())
    chosen = operator_candidates(
        wanted, {c.kernel_class: 0.1 for c in wanted.clusters[1:]}, budget_s=0.02, own_dtype="float32", own_sizes=False
    )
    assert bool(chosen) != is_part


@pytest.mark.filterwarnings("ignore")  # torch's exporter warns of torch's own code
def test_openvino_runs_no_more_of_their_blocks_than_of_a_model(write_source: Callable[..., str], load: Any) -> None:
    """Its graph, as it runs, has neither batch norms nor additions nor activations. Only images that come in, and what
    goes out, change their layout."""
    placed = [Placed(kind=s.kind, config=s.config) for s in sources(target(CONV, NORM, ADD, RELU))]
    network = load(write_source("inference", build_towers([(block, 1) for block in placed])))
    step = exported_proxy("openvino", network, network.build(), "cpu")
    nodes = step().get_compiled_model().get_runtime_model().get_ordered_ops()
    types = [node.get_rt_info()["layerType"].value for node in nodes]
    assert "Convolution" in types
    assert {*types} <= {"Input", "Const", "Reorder", "Convolution", "Pooling", "Output"}
    inner = [node for node, kind in zip(nodes, types, strict=True) if kind == "Reorder" and COLOURS not in sides(node)]
    assert all({reader.get_rt_info()["layerType"].value for reader in readers(node)} == {"Output"} for node in inner)


def sides(node: Any) -> list[int]:
    return [length.get_min_length() for length in node.get_output_partial_shape(0)]


def readers(node: Any) -> list[Any]:
    return [reader.get_node() for reader in node.output(0).get_target_inputs()]
