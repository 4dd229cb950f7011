"""A generated network in other runtimes: every kind of block can be exported, and computes what it does in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from networks import operator
from runtime_outputs import arrays_of

from statsnet.errors import UsageError
from statsnet.measure import runtimes
from statsnet.measure.proxy_graph import graph_of
from statsnet.measure.runtimes import exported_proxy
from statsnet.proxy.towers import Placed, Tower, build_towers

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # torch's exporter warns of torch's own code
    pytest.mark.usefixtures("one_reading_of_operators"),
]


def one_of(kind: str, config: dict[str, Any]) -> list[Tower]:
    return build_towers([(Placed(kind=kind, config=config, optimizer=None), 1)])


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino"])
def test_every_block_computes_what_it_does_in_torch(runtime: str, write_source: Callable[..., str], load: Any) -> None:
    pytest.importorskip(runtime)
    network = load(write_source("inference"))
    proxy = network.build()
    graph, inputs = graph_of(network, proxy, "cpu")
    here = graph(*inputs[0][0])
    there = arrays_of(exported_proxy(runtime, network, proxy, "cpu")())
    for given, expected in zip(there, [*here[0], *here[1]], strict=True):
        np.testing.assert_allclose(given, expected.detach().numpy(), rtol=1e-3, atol=1e-4)
    for given, whole in zip(here[0], proxy(network.batches(proxy, "cpu")[0]), strict=True):
        is_cut = whole.dim() == 4 and given.shape == (*whole.shape[:2], 1, 1)
        assert is_cut or given.shape == whole.shape


IN_ORDER = [
    {**operator("cummax.default", ((2, 5, 8), ()), more=(("number", 1),)), "output": 1},
    {**operator("cummin.default", ((2, 5, 8), ()), more=(("number", -1),)), "output": 0},
    operator("searchsorted.Tensor", ((2, 9), ()), ((2, 5), ())),
    operator("bucketize.Tensor", ((2, 5), ()), ((9,), ())),
    *({**operator("adaptive_max_pool2d.default", ((2, 3, 7, 6), ()), more=(("numbers", (3, 4)),)), "output": n}
      for n in (0, 1)),
    {**operator("adaptive_max_pool3d.default", ((3, 7, 6, 5), ()), more=(("numbers", (3, 6, 2)),)), "output": 1},
]  # fmt: skip


@pytest.mark.parametrize("runtime", ["onnxruntime", "openvino", "iree"])
def test_operators_that_torch_s_exporter_lacks_compute_what_they_do_in_torch(
    runtime: str, write_source: Callable[..., str], load: Any
) -> None:
    pytest.importorskip("iree.runtime" if runtime == "iree" else runtime)
    configs = IN_ORDER[:4:3] if runtime == "iree" else IN_ORDER  # it compiles all of them for 16 s
    towers = [tower for config in configs for tower in one_of("operator", config)]
    network = load(write_source("inference", towers))
    proxy = network.build()
    made = [np.asarray(array) for array in arrays_of(exported_proxy(runtime, network, proxy, "cpu")())]
    for found, expected in zip(made, proxy(network.batches(proxy, "cpu")[0]), strict=True):
        np.testing.assert_array_equal(found, expected.numpy())


def looking(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A runtime of this name, which runs nothing. The list gets its program, and its arrays in each step."""
    taken: list[Any] = []

    def look(program: torch.export.ExportedProgram) -> runtimes.Program:
        taken.append(program)
        return lambda arrays: taken.append(arrays)

    monkeypatch.setitem(runtimes.RUNTIMES, "looking", look)
    return taken


def test_what_operators_by_themselves_read_is_an_input_without_what_is_expanded(
    monkeypatch: pytest.MonkeyPatch, write_source: Callable[..., str], load: Any
) -> None:
    """A runtime would compute with constants before it runs, and take a copy of arrays with strides in each step."""
    taken = looking(monkeypatch)
    operands = ((2, 5, 8), (8, 0, 1)), ((2, 5, 8), (48, 1, 5))  # one is expanded; the other a transposed slice
    network = load(write_source("inference", one_of("operator", operator("mul.Tensor", *operands))))
    proxy = network.build()
    step = exported_proxy("looking", network, proxy, "cpu")
    step(), step()
    program, arrays, of_next = taken
    assert [a.shape for a in arrays] == [(2, 1, 8), (2, 8, 5)]
    assert [a is b for a, b in zip(arrays, of_next, strict=True)] == [False, True]  # the second operand stays
    assert all(a.flags.c_contiguous for a in arrays)
    called = [str(node.target).split(".")[1] for node in program.graph.nodes if node.op == "call_function"]
    assert called == ["permute", "expand", "mul"]
    (made,), _ = program.module()(*graph_of(network, proxy, "cpu")[1][0][0])
    (expected,) = proxy(network.batches(proxy, "cpu")[0])
    np.testing.assert_array_equal(made.numpy(), expected.numpy())


def test_weights_of_operators_by_themselves_stay_constants(write_source: Callable[..., str], load: Any) -> None:
    """As those of models do, so that a runtime may pack them."""
    by_weight = operator("mm.default", ((4, 8), ()), ((8, 6), ()))
    of_two_branches = operator("bmm.default", ((2, 4, 8), ()), ((2, 8, 6), ()))
    for config, inputs in ((by_weight, 0), (of_two_branches, 1)):
        network = load(write_source("inference", one_of("operator", config)))
        _, (((_, _, _, beside), _), *_) = graph_of(network, network.build(), "cpu")
        assert sum(len(others) for others in beside.values()) == inputs


def test_a_part_that_a_block_reads_is_an_input(
    monkeypatch: pytest.MonkeyPatch, write_source: Callable[..., str], load: Any
) -> None:
    """torch reads it where it lies; a graph would copy it, which no model of the mix does."""
    programs: list[Any] = []
    monkeypatch.setitem(runtimes.RUNTIMES, "looking", lambda program: programs.append(program) or print)
    wide, narrow = ({"rows": 8, "inputs": 16, "outputs": n} for n in (16, 4))
    same, less = Placed(kind="linear", config=wide), Placed(kind="linear", config={**narrow, "rows": 6})
    network = load(write_source("inference", [Tower(blocks=(same, same, less))]))
    proxy = network.build()
    exported_proxy("looking", network, proxy, "cpu")
    (program,) = programs
    called = [str(node.target) for node in program.graph.nodes if node.op == "call_function"]
    assert not [name for name in called if "slice" in name or "as_strided" in name]
    assert ends_of(program) == (2, 2)
    with torch.no_grad():  # and torch's own network is as it was
        assert proxy(network.batches(proxy, "cpu")[0])[0].shape == (6, 4)


def ends_of(program: torch.export.ExportedProgram) -> tuple[int, int]:
    """The numbers of its inputs and outputs."""
    return len(program.graph_signature.user_inputs), len(program.graph_signature.user_outputs)


def test_a_map_that_a_block_reads_in_another_shape_is_an_input(
    monkeypatch: pytest.MonkeyPatch, write_source: Callable[..., str], load: Any
) -> None:
    """A runtime that keeps maps in a layout of its own would convert it."""
    programs: list[Any] = []
    monkeypatch.setitem(runtimes.RUNTIMES, "looking", lambda program: programs.append(program) or print)
    ones: dict[str, Any] = {"kernel": (1, 1), "stride": (1, 1), "padding": (0, 0)}
    convolution = {"batch": 1, "channels": 4, "size": (4, 4), "filters": 4, **ones}
    rows = {"rows": 16, "inputs": 4, "outputs": 4}
    blocks = [Placed(kind="conv", config=convolution)] * 2 + [Placed(kind="linear", config=rows)]
    network = load(write_source("inference", [Tower(blocks=tuple(blocks))]))
    exported_proxy("looking", network, network.build(), "cpu")
    assert ends_of(programs[0]) == (2, 2)


def test_maps_come_of_images_and_go_out_at_one_position(write_source: Callable[..., str], load: Any) -> None:
    """No model takes in or hands out maps of many channels, for which runtimes have a layout of their own."""
    pointwise: dict[str, Any] = {"kernel": (1, 1), "stride": (1, 1), "padding": (0, 0)}
    maps = {"batch": 2, "channels": 16, "size": (4, 6), "filters": 32, **pointwise}
    network = load(write_source("inference", one_of("conv", maps)))
    graph, inputs = graph_of(network, network.build(), "cpu")
    (((given,), *_), _), *_ = inputs
    assert given.shape == (2, 3, 4, 6)
    ((end,), cut) = graph(*inputs[0][0])
    assert end.shape == (2, 32, 1, 1)
    assert not cut


def test_a_convolution_by_itself_has_maps_of_images_too(write_source: Callable[..., str], load: Any) -> None:
    """Else OpenVINO would bring its whole map into a layout of its own, and its result back."""
    pairs = (("numbers", (1, 1)), ("numbers", (0, 0)), ("numbers", (1, 1)))
    more = (("nothing",), *pairs, ("number", False), ("numbers", (0, 0)), ("number", 1))
    convolution = operator("convolution.default", ((2, 16, 4, 6), ()), ((32, 16, 1, 1), ()), more=more)
    network = load(write_source("inference", one_of("operator", convolution)))
    graph, inputs = graph_of(network, network.build(), "cpu")
    (((given,), *_), _), *_ = inputs
    assert given.shape == (2, 3, 4, 6)
    ((end,), _) = graph(*inputs[0][0])
    assert end.shape == (2, 32, 1, 1)


def test_what_stands_for_other_branches_is_an_input(
    monkeypatch: pytest.MonkeyPatch, write_source: Callable[..., str], load: Any
) -> None:
    """A runtime may lay out constants as it likes; it cannot do so with what another branch writes in each step."""
    taken = looking(monkeypatch)
    sizes = {"batch": 2, "rows": 4, "depth": 8, "columns": 8, "transposed": True}
    network = load(write_source("inference", one_of("batched_matmul", sizes)))
    exported_proxy("looking", network, network.build(), "cpu")()
    program, arrays = taken
    assert [a.size for a in arrays] == [64, 128]
    assert ends_of(program)[0] == 2


def test_steps_take_their_inputs_in_turn(
    monkeypatch: pytest.MonkeyPatch, write_source: Callable[..., str], load: Any
) -> None:
    monkeypatch.setitem(runtimes.RUNTIMES, "telling", lambda _: lambda arrays: arrays[0].copy())
    look_ups = {"rows": 50, "width": 4, "indices": 16, "skew": 1.05}
    network = load(write_source("inference", one_of("embedding", look_ups)))
    step = exported_proxy("telling", network, network.build(), "cpu")
    first, second, *others = [step() for _ in range(9)]
    assert not np.array_equal(first, second)
    assert np.array_equal(first, others[-1])  # of eight


def test_training_is_refused(write_source: Callable[..., str], load: Any) -> None:
    network = load(write_source("training"))
    with pytest.raises(UsageError, match="asked for training in float32"):
        exported_proxy("onnxruntime", network, network.build(), "cpu")
