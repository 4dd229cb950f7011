"""Operators of quantised layers as blocks: a weight of bytes of the same shape, packed as a model packs it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from statsnet.blocks import recognise
from statsnet.blocks.operator_call import operands_of
from statsnet.profiling.made_up import arguments
from statsnet.profiling.replay import why_not_run
from statsnet.signatures.kernel_class import class_now, kernel_class
from statsnet.signatures.quantized import CONVOLUTION, packed_of
from statsnet.workloads.packed_values import packed_conv, packed_linear, quantized
from statsnet.workloads.torch_operators import overload
from tests.support.operator_calls import KIND, call_of, check_block_and_smaller, cluster_of, config_of, run

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")

OPS = torch.ops.quantized


def images() -> Tensor:
    return quantized(torch.randn(4, 32, 20, 20), torch.quint8).contiguous(memory_format=torch.channels_last)


def rows() -> Tensor:
    return quantized(torch.randn(24, 64), torch.quint8)


def recurrent(kind: type[nn.LSTM] | type[nn.GRU]) -> Callable[[], object]:
    model = nn.Sequential(kind(16, 24, num_layers=2, batch_first=True)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = torch.ao.quantization.quantize_dynamic(model, {kind}, dtype=torch.qint8)
    return lambda: small(torch.randn(4, 10, 16))


def depthwise() -> Any:
    return packed_conv(32, 1, 3, 3, stride=(1, 1), padding=(1, 1), groups=32, bias=False)


def wide() -> Any:
    return packed_conv(48, 32, 3, 3, stride=(2, 2), padding=(1, 1))


CALLS: dict[str, tuple[Callable[[], object], str]] = {
    "a layer that quantises its input": (
        lambda: OPS.linear_dynamic(torch.randn(24, 64), packed_linear(96, 64)), "quantized.linear_dynamic.default",
    ),
    "a layer": (lambda: OPS.linear(rows(), packed_linear(96, 64), 0.1, 128), "quantized.linear.default"),
    "a convolution": (lambda: OPS.conv2d_relu(images(), wide(), 0.1, 128), "quantized.conv2d_relu.new"),
    "a depthwise convolution": (lambda: OPS.conv2d(images(), depthwise(), 0.1, 128), "quantized.conv2d.new"),
    "a convolution of half of the channels": (
        lambda: OPS.conv2d(images().narrow(1, 8, 16), packed_conv(8, 16, 1, 1, stride=(1, 1), padding=(0, 0)), 0.1, 0),
        "quantized.conv2d.new",
    ),
    "a sum of transposed rows": (lambda: OPS.add(rows().t(), rows().t(), 0.1, 128), "quantized.add.default"),
    "an LSTM": (lambda: recurrent(nn.LSTM)(), "aten.quantized_lstm.input"),
    "a GRU": (lambda: recurrent(nn.GRU)(), "aten.quantized_gru.input"),
    "a sum": (lambda: OPS.add_relu(rows(), rows(), 0.1, 128), "quantized.add_relu.default"),
    "numbers to bytes": (
        lambda: torch.quantize_per_tensor(torch.randn(24, 64), 0.1, 128, torch.quint8),
        "aten.quantize_per_tensor.default",
    ),
    "bytes to numbers": (lambda: rows().dequantize(), "aten.dequantize.self"),
    "an activation of bytes": (lambda: torch.relu(rows()), "aten.relu.default"),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_a_block_makes_the_same_call_and_a_smaller_one_reads_less(what: str) -> None:
    check_block_and_smaller(*CALLS[what])


@pytest.mark.parametrize("what", CALLS)
def test_it_runs_again_without_the_model(what: str) -> None:
    call = call_of(*CALLS[what])
    assert why_not_run(cluster_of(call)) is None
    positional, keyword = arguments(cluster_of(call), "cpu")
    again = call_of(lambda: overload(call.op)(*positional, **keyword), call.op)
    assert (again.args, again.outputs) == (call.args, call.outputs)


@pytest.mark.parametrize("what", CALLS)
def test_no_block_of_numbers_with_a_fraction_stands_for_it(what: str) -> None:
    call = call_of(*CALLS[what])
    assert recognise([cluster_of(call)]) is None


def test_a_kernel_class_tells_of_bytes() -> None:
    call = call_of(*CALLS["a convolution"])
    assert kernel_class(call.op, call.args, call.outputs, "aten") == "conv2d_relu|aten|quint8|channels_last"
    assert class_now("conv2d_relu|aten|float32|channels_last", call.args) == "conv2d_relu|aten|quint8|channels_last"


@given(
    size=st.integers(7, 60), kernel=st.sampled_from([1, 3, 5, 7]), stride=st.integers(1, 3), half=st.booleans(),
)  # fmt: skip
def test_stride_and_padding_lead_to_the_same_map(size: int, kernel: int, stride: int, half: bool) -> None:
    padding = kernel // 2 if half else 0
    out = (size + 2 * padding - kernel) // stride + 1
    encoded = {"tensors": [{"shape": [8, 4, kernel, kernel], "dtype": "qint8"}, None]}
    found = packed_of(CONVOLUTION[0], encoded, [1, 4, size, size], [1, 8, out, out])
    assert found is not None
    packed = found[1]
    assert (size + 2 * packed.padding[0] - kernel) // packed.stride[0] + 1 == out
    if half and out > 1:
        assert packed.stride[0] == stride


@pytest.mark.parametrize(
    "packed",
    [
        (True, (0, 1), (0, 0), 1),
        (True, (1, 1), (0, 0), 0),
        (True, (1,), (0,), 1),
        (1, (), (), 1),
        (True, (), (), -1),
        (),
        (True, (), (), 1, 1),
        (True, 1, (), 1),
        ("True", (), (), 1),
    ],
)
def test_a_spec_can_hold_no_layer_that_there_is_not(packed: tuple[object, ...]) -> None:
    config = config_of(call_of(*CALLS["a layer"]))
    x, (dtype, shape, strides, _) = config["operands"]
    with pytest.raises(ValueError, match="an operand is no tensor"):
        operands_of({**config, "operands": (x, (dtype, shape, strides, ("packed", *packed)))})


@pytest.mark.parametrize("kind", ["a layer", "a depthwise convolution", "a convolution"])
def test_a_narrow_layer_takes_its_input(kind: str) -> None:
    """Also one that is too large to be tried."""
    function, name = CALLS[kind]
    config = config_of(call_of(function, name))
    for divisor in (2, 4):
        narrow = KIND.narrowed(config, divisor)
        if narrow is not None:
            run(narrow, name)
    x, weight = (4, 512, 2048), (1024, 2048)
    large = {**config_of(call_of(*CALLS["a layer"])), "operands": (
        ("quint8", x, ()), ("qint8", weight, (), ("packed", True, (), (), 1)),
    )}  # fmt: skip
    narrow = KIND.narrowed(large, 4)
    assert narrow is not None
    first, second = operands_of(narrow)
    assert first.shape[-1] == second.shape[1]


def test_what_no_convolution_leads_to_is_no_block() -> None:
    weight = {"tensors": [{"shape": [8, 4, 3, 3], "dtype": "qint8"}, None]}
    assert packed_of(CONVOLUTION[0], weight, [1, 4, 9, 9], [1, 8, 50, 9]) is None  # larger than its input
    assert packed_of(CONVOLUTION[0], weight, [1, 8, 9, 9], [1, 4, 9, 9]) is None  # transposed
    assert packed_of(CONVOLUTION[0], weight, [4, 9], [8, 9]) is None
    endless = {"tensors": [{"shape": [8, 4, 2**60, 1], "dtype": "qint8"}]}
    assert packed_of(CONVOLUTION[0], endless, [1, 4, 9, 9], [1, 8, 9, 9]) is None
    assert packed_of("LinearPackedParamsBase", {"shape": [8, 4], "dtype": "qint8"}, [], []) is None


def test_a_layer_that_torch_quantised_is_a_block() -> None:
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU()).eval()
    small = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    name = "quantized.linear_dynamic.default"
    call = call_of(lambda: small(torch.randn(8, 64)), name)
    assert run(config_of(call), name).args == call.args


def test_a_product_of_numbers_of_eight_bits_is_a_block() -> None:
    left, right = (torch.randn(32, 64).to(torch.float8_e4m3fn) for _ in range(2))
    one, name = torch.ones(()), "aten._scaled_mm.default"
    call = call_of(lambda: torch._scaled_mm(left, right.t(), one, one, out_dtype=torch.bfloat16), name)
    ran = run(config_of(call), name)
    assert (ran.args, ran.outputs) == (call.args, call.outputs)
