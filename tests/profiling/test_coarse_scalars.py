"""Scalars in signatures: those that choose a kernel stay, and no other becomes one of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from profiling_helpers import captured
from torch import Tensor

from statsnet.blocks.pointwise import FUNCTIONS, function_of
from statsnet.profiling.coarse_scalars import (
    GENERIC_EXPONENT,
    KEPT,
    KEPT_EXPONENTS,
    KEPT_INTEGERS,
    coarse_arguments,
    coarse_exponent,
    coarse_integer,
    coarse_number,
    is_value,
)
from statsnet.profiling.made_up import arguments
from statsnet.signatures.model import Cluster

numbers = st.floats(allow_nan=False, min_value=-1e299, max_value=1e299, allow_subnormal=False)
FLOATS = {"shape": [2], "dtype": "float32"}
INTEGERS = {"shape": [2], "dtype": "int64"}


@given(numbers)
def test_a_coarse_number_keeps_sign_and_order_of_magnitude(value: float) -> None:
    coarse = coarse_number(value)
    assert math.copysign(1, coarse) == math.copysign(1, value)
    if value == 0 or coarse == 0:
        assert value == coarse
    else:
        assert abs(math.log10(abs(coarse)) - math.log10(abs(value))) <= 0.5 + 1e-9
    assert coarse_number(coarse) == pytest.approx(coarse, rel=1e-12)


@given(numbers)
def test_no_number_becomes_one_that_chooses_a_kernel(value: float) -> None:
    assert (abs(coarse_number(value)) in KEPT) == (abs(value) in KEPT)


@given(st.floats(min_value=1e-6, max_value=1e6).filter(lambda v: v not in KEPT))
def test_a_coarse_number_tells_nothing_but_a_power_of_ten(value: float) -> None:
    coarse = coarse_number(value)
    exponent = math.log10(coarse)
    assert coarse in (0.4, 0.7, 1.5, 2.5) or exponent == pytest.approx(round(exponent), abs=1e-9)


@given(st.one_of(numbers, st.integers(-100, 100)))
def test_exponents_are_kept_or_generic(value: float) -> None:
    assert coarse_exponent(value) == (value if abs(value) in KEPT_EXPONENTS else GENERIC_EXPONENT)


def test_of_an_operator_that_nobody_knows_only_flags_and_texts_stay() -> None:
    args = [True, 7, 0.13, [0.0123, 50257, None], "mean"]
    assert coarse_arguments("custom.opaque.default", args) == [True, 10, 0.1, [0.01, 100_000, None], "mean"]


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_coarse_integer_keeps_sign_and_order_of_magnitude(value: int) -> None:
    coarse = coarse_integer(value)
    assert -(2**63) <= coarse < 2**63
    assert coarse_integer(coarse) == coarse
    assert (abs(coarse) in KEPT_INTEGERS) == (abs(value) in KEPT_INTEGERS)
    if value:
        assert coarse * value > 0
        assert abs(math.log10(abs(coarse)) - math.log10(abs(value))) <= 1


LIST = {"tensors": [FLOATS, FLOATS]}


@pytest.mark.parametrize(
    ("op", "args", "kept"),
    [
        ("aten.add.Tensor", [INTEGERS, 50257], [INTEGERS, 100_000]),
        ("aten.add.Tensor", [INTEGERS, INTEGERS, 3], [INTEGERS, INTEGERS, 10]),
        ("aten.eq.Scalar", [INTEGERS, 50256], [INTEGERS, 100_000]),
        ("aten.masked_fill.Scalar", [INTEGERS, INTEGERS, -7777], [INTEGERS, INTEGERS, -10_000]),
        ("aten.full.default", [[3, 777], 151643], [[3, 777], 100_000]),
        ("aten.clamp.default", [INTEGERS, 5, 50255], [INTEGERS, 10, 100_000]),
        ("aten.random_.from", [INTEGERS, 3, 32003], [INTEGERS, 10, 100_000]),
        ("aten.embedding.default", [FLOATS, INTEGERS, 50256, False, False], [FLOATS, INTEGERS, 0, False, False]),
        ("aten.embedding.default", [FLOATS, INTEGERS, -1, False, False], [FLOATS, INTEGERS, -1, False, False]),
        ("aten.nll_loss_forward.default", [FLOATS, INTEGERS, None, 1, 777], [FLOATS, INTEGERS, None, 1, 1000]),
        ("aten.quantize_per_tensor.default", [FLOATS, 0.0123, 117, None], [FLOATS, 0.01, 100, None]),
        ("aten.constant_pad_nd.default", [FLOATS, [3, 3], 50257], [FLOATS, [3, 3], 100_000]),
        ("quantized.linear.default", [FLOATS, None, 0.0123, 117], [FLOATS, None, 0.01, 100]),
        (
            "onednn.qadd.tensor",
            [INTEGERS, 0.01, 117, INTEGERS, 0.01, 83, 0.01, 57, None],
            [INTEGERS, 0.01, 100, INTEGERS, 0.01, 100, 0.01, 100, None],
        ),
        ("aten.as_strided_scatter.default", [FLOATS, FLOATS, [4], [1], 31_337], [FLOATS, FLOATS, [4], [1], 10_000]),
        (
            "aten._ctc_loss.default",
            [FLOATS, INTEGERS, [83, 97, 61], [23, 7, 19], 28],
            [FLOATS, INTEGERS, [97, 97, 97], [23, 23, 23], 10],
        ),
        ("aten._foreach_add.ScalarList", [LIST, [7, 1]], [LIST, [10, 1]]),
        ("aten.arange.start_step", [100, 612, 2], [0, 512, 2]),
        ("aten.arange.default", [777], [777]),
        ("aten.view.default", [FLOATS, [3, 777]], [FLOATS, [3, 777]]),
        ("aten.slice.Tensor", [FLOATS, 1, 37, 9223372036854775807, 1], [FLOATS, 1, 37, 9223372036854775807, 1]),
        ("aten.topk.default", [FLOATS, 37, -1, True, True], [FLOATS, 37, -1, True, True]),
        ("aten.select_backward.default", [FLOATS, [4, 60_000], 1, 31_337], [FLOATS, [4, 60_000], 1, 10_000]),
        ("aten.select_backward.default", [FLOATS, [4, 60_000], 1, -28_662], [FLOATS, [4, 60_000], 1, -10_000]),
        ("aten.select_backward.default", [FLOATS, [4, 60_000], 1, 127], [FLOATS, [4, 60_000], 1, 127]),
        ("aten.slice_backward.default", [FLOATS, [60_000], 0, 31_337, 31_339, 1], [FLOATS, [60_000], 0, 0, 2, 1]),
        ("aten.slice_backward.default", [FLOATS, [60_000], 0, -28_663, -28_661, 1], [FLOATS, [60_000], 0, 0, 2, 1]),
        ("aten.slice_backward.default", [FLOATS, [512], 0, 256, 2**63 - 1, 1], [FLOATS, [512], 0, 256, 2**63 - 1, 1]),
        ("aten.linalg_vector_norm.default", [FLOATS, 7, [5]], [FLOATS, 7, [5]]),
    ],
)
def test_integers_that_are_values_are_coarse_and_sizes_stay(op: str, args: list[Any], kept: list[Any]) -> None:
    assert coarse_arguments(op, args) == kept
    assert coarse_arguments(op, kept) == kept


@pytest.mark.parametrize(
    ("op", "args", "exponent"),
    [
        ("aten.pow.Tensor_Scalar", [FLOATS, 3.0], 3.0),
        ("aten.pow_.Scalar", [FLOATS, 0.75], GENERIC_EXPONENT),
        ("aten.pow.Tensor_Scalar", [FLOATS, 4], GENERIC_EXPONENT),
        ("aten.pow.Tensor_Scalar", [INTEGERS, 4], 4),
        ("aten.pow.Tensor_Tensor", [FLOATS, FLOATS], FLOATS),
        ("aten.pow.Scalar", [10000.0, FLOATS], FLOATS),
        ("aten._foreach_pow.ScalarList", [{"tensors": [FLOATS, FLOATS]}, [3.0, 0.9]], [3.0, GENERIC_EXPONENT]),
    ],
)
def test_exponents_of_all_forms_of_powers(op: str, args: list[Any], exponent: Any) -> None:
    assert coarse_arguments(op, args)[1] == exponent


def replayed_arguments(function: Callable[[Tensor], Any], name: str) -> list[Any]:
    """What a replay gives to the operator `name`, of which `function` makes one call."""
    (call,) = [c for c in captured(lambda: function(torch.ones(4, 4))) if c.op.split(".")[1] == name]
    args = tuple(coarse_arguments(call.op, call.args))
    positional, keyword = arguments(
        Cluster(op=call.op, phase="forward", category="other", calls=1.0, args=args, outputs=tuple(call.outputs)), "cpu"
    )
    return [v for v in (*positional, *keyword.values()) if not isinstance(v, Tensor)]


@pytest.mark.parametrize(
    ("function", "name", "scalar"),
    [
        (lambda x: x.pow(3), "pow", 3),
        (lambda x: x.pow(0.75), "pow", 0.75),
        (lambda x: x.pow(-0.5), "pow", -0.5),
        (lambda x: torch.linalg.vector_norm(x, math.inf), "linalg_vector_norm", math.inf),
        (lambda x: torch.linalg.vector_norm(x, -math.inf), "linalg_vector_norm", -math.inf),
        (lambda x: torch.linalg.vector_norm(x, 1), "linalg_vector_norm", 1),
        (lambda x: torch.linalg.vector_norm(x, 0), "linalg_vector_norm", 0),
        (lambda x: torch.linalg.vector_norm(x, 1.2), "linalg_vector_norm", 1.5),
        (lambda x: torch.addmm(x, x, x, beta=0, alpha=0.9), "addmm", 0),
        (lambda x: torch.addmm(x, x, x, beta=0.9, alpha=1), "addmm", 0.7),
        (lambda x: torch.add(x, x, alpha=0.9), "add", 0.7),
        (lambda x: F.dropout(x, 0.4, training=True), "div_", 0.7),  # by the share that is kept
        (lambda x: torch.native_dropout(x, 0.9, True), "native_dropout", 0.7),
        (lambda x: torch.native_dropout(x, 1.0, True), "native_dropout", 1.0),
        (lambda x: F.leaky_relu(x, 0.9), "leaky_relu", 0.7),
        (lambda x: F.gelu(x, approximate="tanh"), "gelu", "tanh"),
        (lambda x: torch.div(x, 3.0, rounding_mode="trunc"), "div", "trunc"),
        (lambda x: x.clamp(min=0.0), "clamp", None),
        (lambda x: x.masked_fill(x > 0, -math.inf), "masked_fill", -math.inf),
        (lambda x: torch.linalg.qr(x, mode="r"), "linalg_qr", "r"),
    ],
)
def test_a_replay_gets_scalars_that_choose_the_same_kernel(
    function: Callable[[Tensor], Any], name: str, scalar: Any
) -> None:
    assert scalar in replayed_arguments(function, name)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: x.pow(3), "cube"),
        (lambda x: x.pow(2.0), "square"),
        (lambda x: x.pow(0.5), "sqrt"),
        (lambda x: x.pow(0.75), "power"),
        (lambda x: x.pow(7), "power"),
        (lambda x: 2.0**x, "power"),
        (lambda x: x**x, "power"),
        (F.gelu, "gelu"),
        (lambda x: F.gelu(x, approximate="tanh"), "gelu_tanh"),
    ],
)
def test_a_block_computes_the_same_kind_of_function(function: Callable[[Tensor], Any], name: str) -> None:
    (call,) = [c for c in captured(lambda: function(torch.ones(4, 4))) if c.op.split(".")[1] in ("pow", "gelu")]
    args = tuple(coarse_arguments(call.op, call.args))
    cluster = Cluster(op=call.op, phase="forward", category="other", calls=1.0, args=args, outputs=tuple(call.outputs))
    assert function_of(cluster) == name


def test_a_generic_power_is_safe_for_every_number() -> None:
    x = torch.tensor([-2.0, 0.0, 3.0], requires_grad=True)
    FUNCTIONS["power"](x, None).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_batch_sizes_of_packed_sequences_are_not_kept() -> None:
    """A tensor held them, and the lengths of all sequences follow from them. What is not packed has none."""
    weights = {"tensors": [FLOATS] * 4}
    state = [FLOATS, weights, 4, None, FLOATS, FLOATS, 2, 48, 0, 1, True, 0.0, True, False]
    assert coarse_arguments("aten._cudnn_rnn.default", [*state, [4, 3, 3, 1], None]) == [*state, None, None]
    assert coarse_arguments("aten._cudnn_rnn.default", [*state, [], None]) == [*state, [], None]


def test_every_zero_point_and_seed_that_torch_knows_is_a_value() -> None:
    schemas = torch._C._jit_get_all_schemas()
    taken = {a.name for s in schemas for a in s.arguments if str(a.type) in ("int", "Optional[int]")}
    like = {name for name in taken if "zero" in name or name.endswith("zp") or "seed" in name}
    assert {"Y_zero_point_i", "x_zero_point", "other_zp", "seed"} <= like
    assert {name for name in like if not is_value(name)} == set()
