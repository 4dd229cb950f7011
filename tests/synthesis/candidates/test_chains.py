"""Convolutions in a row: which follow each other, and what a block of them is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from synthesis_builders import cluster, measured, small_signature, tensor

from statsnet.blocks import KINDS
from statsnet.blocks.conv_chain import chained, layers_of
from statsnet.profiling.capture import capture_step
from statsnet.profiling.motifs import mark_fused
from statsnet.signatures.model import Cluster, Motif
from statsnet.signatures.target import Target, target_of
from statsnet.synthesis.candidates.chains import chains
from statsnet.synthesis.candidates.sources import sources
from statsnet.synthesis.costs.loads import load_of_target
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics


def layer(channels: int, filters: int, kernel: int, size: int = 8, stride: int = 1) -> dict[str, Any]:
    return {
        "batch": 2, "channels": channels, "size": (size, size), "filters": filters, "kernel": (kernel, kernel),
        "stride": (stride, stride), "padding": (kernel // 2, kernel // 2), "norm": True, "activation": "relu",
    }  # fmt: skip


def convolution(channels: int, filters: int, kernel: int, size: int = 8, stride: int = 1) -> Cluster:
    operands = (tensor(2, channels, size, size), tensor(filters, channels, kernel, kernel), None,
                [stride] * 2, [kernel // 2] * 2, [1, 1], False, [0, 0], 1)  # fmt: skip
    return cluster(
        "aten.convolution.default", "convolution", operands, tensor(2, filters, size // stride, size // stride)
    )


def target(*clusters: Cluster, mode: str = "inference", device: str = "cpu", count: float = 4.0) -> Target:
    """The first takes 1 ms of a step of 10, each other one a bit less; each is called so often."""
    times = [1e-3 - i * 1e-5 for i in range(len(clusters))]
    environment = {"device": device, "device_name": "some"}
    measurement = measured(times, ["convolution"] * len(clusters), environment=environment)
    motifs = tuple(Motif(clusters=(i,), count=count) for i in range(len(clusters)))
    made = tuple(replace(c, calls=count) for c in clusters)
    return target_of(small_signature(mode=mode, clusters=made, measurements=(measurement,), motifs=motifs))


def test_a_chain_is_its_convolutions() -> None:
    first, second = layer(8, 16, 3, stride=2), layer(16, 4, 3, size=4)
    config = chained([first, second])
    assert config is not None
    assert [{**found, "norm": True, "activation": "relu"} for found in layers_of(config)] == [
        {**first, "groups": 1},
        {**second, "groups": 1},
    ]
    chain = KINDS["conv_chain"].build(config).eval()
    alone = [KINDS["conv"].build(each).eval() for each in (first, second)]
    for block, part in zip(alone, chain.layers, strict=True):  # type: ignore[arg-type]
        block.load_state_dict(part.state_dict())
    x = torch.randn(2, 8, 8, 8)
    with torch.no_grad():
        assert torch.equal(chain(x), alone[1](alone[0](x)))


@pytest.mark.parametrize(
    "second", [layer(8, 4, 3), layer(16, 4, 3, size=4), layer(16, 4, 1), {**layer(16, 4, 3), "padding": (1, 0)}]
)
def test_no_chain(second: dict[str, Any]) -> None:
    """Other channels, another map, a pointwise one behind one with windows, a window that is not square."""
    assert chained([layer(8, 16, 3), second]) is None


def test_convolutions_that_may_follow_each_other_are_a_source() -> None:
    """Of a bottleneck, 32 channels to 8, to 8, and to 32: windows by themselves, and pointwise ones."""
    made = target(convolution(8, 32, 1), convolution(8, 8, 3), convolution(32, 8, 1), convolution(3, 8, 7, size=16))
    wide, windows = chains(made)
    assert (wide.config["channels"], wide.config["kernels"]) == ((8, 32, 8, 32, 8), (1, 1, 1, 1))
    assert (windows.config["channels"], windows.config["kernels"]) == ((8, 8, 8, 8, 8), (3, 3, 3, 3))
    assert wide.time_s == pytest.approx(2 * (1.00e-3 + 0.98e-3) / 4)
    assert wide.share == pytest.approx(0.198)
    assert [s.config for s in sources(made) if s.kind == "conv_chain"] == [wide.config, windows.config]


def test_a_chain_is_made_smaller_as_its_convolutions() -> None:
    """Of pointwise ones 16 images stay; others keep their maps as long as there are several."""
    kind = KINDS["conv_chain"]
    for kernel, expected in ((1, (16, (2, 8))), (3, (4, (8, 8)))):
        config = chained([{**layer(8, 8, kernel), "batch": 16}] * 2)
        assert config is not None
        smaller = kind.scaled(config, 4)
        assert smaller is not None
        assert (smaller["batch"], smaller["size"]) == expected
    assert kind.scaled({**config, "batch": 2}, 4) is None


def test_a_chain_has_the_map_that_it_adds() -> None:
    """As a bottleneck: what only narrows or widens comes first, and a sum when there is a map of its shape. The map is
    then no side input, which other runtimes would bring into their layout first."""
    config = chained([layer(8, 32, 1), layer(32, 8, 1), {**layer(8, 32, 1), "residual": True}])
    assert config is not None
    chain = KINDS["conv_chain"].build(config).eval()
    assert [name for name, _ in chain.named_parameters() if "side_input" in name] == []
    first, second, third = chain.layers  # type: ignore[misc]
    x = torch.randn(2, 8, 8, 8)
    with torch.no_grad():
        wide = first(x)
        third.activation = None
        assert torch.allclose(chain(x), third(second(wide)) + wide, atol=1e-6)


def test_a_basic_block_adds_what_it_has_read() -> None:
    """Not what its second convolution reads, which has the same shape."""
    config = chained([layer(8, 8, 3), {**layer(8, 8, 3), "residual": True}])
    assert config is not None
    chain = KINDS["conv_chain"].build(config).eval()
    first, second = chain.layers  # type: ignore[misc]
    x = torch.randn(2, 8, 8, 8)
    with torch.no_grad():
        second.activation = None
        assert torch.allclose(chain(x), second(first(x), x), atol=1e-6)


def test_a_map_is_added_once_and_not_by_what_reads_it() -> None:
    """As in models: so runtimes may write the sum in its place. What is left has a side input."""
    adding = {**layer(8, 8, 3), "residual": True}
    config = chained([adding, adding, {**layer(8, 16, 3)}, {**layer(16, 16, 3), "residual": True}])
    assert config is not None
    chain: Any = KINDS["conv_chain"].build(config)
    assert chain.branches == [None, 0, None, None]
    assert [layer.side_input is not None for layer in chain.layers] == [True, False, False, True]


def test_what_is_called_several_times_may_follow_itself() -> None:
    (row,) = chains(target(convolution(8, 8, 3)))
    assert row.config["channels"] == (8, 8, 8, 8, 8)
    assert row.share == pytest.approx(0.1)
    assert chains(target(convolution(8, 16, 3))) == []
    assert chains(target(convolution(8, 8, 3), count=1.0)) == []


def test_no_chains_where_no_other_runtime_runs() -> None:
    """Training, and GPUs."""
    for changes in ({"mode": "training"}, {"device": "cuda"}):
        made = target(convolution(8, 8, 3), **changes)
        assert not [s for s in sources(made) if s.kind == "conv_chain"]
        assert not [key for key in MatchedCharacteristics(made).keys if key[0] == "joined"]


@pytest.mark.parametrize(
    ("place", "value"), [(3, [0, 0]), (4, None), (4, "same"), (4, [[1], [1]]), (1, tensor(8, 8, 3))]
)
def test_odd_convolutions_are_in_no_chain(place: int, value: Any) -> None:
    """As in files of strangers: a stride of 0, paddings of other forms, a weight of another rank."""
    sound = convolution(8, 8, 3)
    odd = replace(sound, args=tuple(value if i == place else arg for i, arg in enumerate(sound.args)))
    assert chains(target(odd)) == []
    assert load_of_target(target(odd, replace(sound, op="aten.mkldnn_convolution.default", args=()))).groups


def test_a_chain_in_a_file_has_a_limit() -> None:
    with pytest.raises(ValueError, match="100 convolutions"):
        KINDS["conv_chain"].check({"kernels": (3,) * 100})


def test_the_share_of_convolutions_that_read_what_others_write() -> None:
    """A network's first convolution is none of them; nor is one of a row by itself."""
    load = load_of_target(target(convolution(3, 8, 3), convolution(8, 16, 3)))
    assert load.groups[0].joined == pytest.approx(0.99 / 1.99)
    config = chained([layer(8, 16, 3), layer(16, 4, 3)])
    assert config is not None
    for kind, given, expected in (("conv_chain", config, [False, True]), ("conv", layer(8, 16, 3), [False])):
        block = KINDS[kind].build(given).eval()
        with torch.no_grad():
            calls = capture_step(lambda block=block: block(torch.randn(2, 8, 8, 8)), device="cpu")
        mark_fused(calls)
        assert [c.joined for c in calls if "convolution" in c.op] == expected
