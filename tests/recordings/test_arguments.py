"""Arguments and operators as recordings spell them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from clusters import tensor
from hypothesis import given
from hypothesis import strategies as st

from statsnet.recordings.arguments import (
    Arguments,
    dtype_of_type,
    of_execution_trace,
    parsed,
    plain,
    split_list_type,
    stand_in_tensor,
)
from statsnet.recordings.described import Describer
from statsnet.signatures.operators import check_argument


@pytest.mark.parametrize(
    ("spelt", "dtype"),
    [
        ("c10::Half", torch.float16), ("c10::BFloat16", torch.bfloat16), ("long int", torch.int64),
        ("unsigned char", torch.uint8), ("signed char", torch.int8), ("c10::complex<float>", torch.complex64),
        ("c10::complex<c10::Half>", torch.complex32), ("c10::Float8_e4m3fn", torch.float8_e4m3fn), ("bool", torch.bool),
        ("Bool", None), ("nullptr (uninitialized)", None), ("Scalar", None), ("TensorList", None), ("AcmeHalf", None),
    ],
)  # fmt: skip
def test_dtypes(spelt: str, dtype: torch.dtype | None) -> None:
    assert dtype_of_type(spelt) == dtype


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("0.", 0.0), ("-0.001", -0.001), ("True", True), ("[2, 2]", [2, 2]), ("[]", []), ("false", False),
        ("[True, False]", [True, False]), ("mean", "mean"), ("nan", None), ("9" * 30, None),
        ("9223372036854775807", 2**63 - 1),
    ],
)  # fmt: skip
def test_values_from_texts(text: str, value: object) -> None:
    assert parsed(text) == value
    assert type(parsed(text)) is type(value)


def described(name: str, dims: list, types: list, strides: Any = None, values: Any = None) -> tuple[str, list]:
    found = Describer().describe(name, Arguments(dims, types, strides, values))
    return found.op, found.args


def test_arguments_of_a_profiler_s_event() -> None:
    op, args = described(
        "aten::addmm", [[8], [4, 8], [8, 8], [], []], ["float"] * 3 + ["Scalar"] * 2, [[1], [1, 4], [8, 1], [], []],
        ["", "", "", "1.5", "1"],
    )  # fmt: skip
    assert op == "aten.addmm.default"
    assert args == [tensor(8), tensor(4, 8) | {"strides": [1, 4]}, tensor(8, 8), 1.5, 1]


def test_an_old_event_has_neither_strides_nor_scalars() -> None:
    op, args = described("aten::add", [[8], [8], []], ["float", "float", "Int"])
    assert (op, args) == ("aten.add.Tensor", [tensor(8), tensor(8), 1])


@pytest.mark.parametrize(
    ("name", "dims", "types", "values", "full"),
    [
        ("aten::add", [[2], [2], []], ["float", "float", "Scalar"], ["", "", "1"], "aten.add.Tensor"),
        ("aten::add", [[2], [], []], ["float", "Scalar", "Scalar"], ["", "2", "1"], "aten.add.Scalar"),
        ("aten::mean", [[2], [], [], []], ["float", "ScalarList", "Scalar", ""], ["", "[0]", "True", ""],
         "aten.mean.dim"),
        ("aten::pow", [[2], []], ["float", "Scalar"], ["", "2"], "aten.pow.Tensor_Scalar"),
        ("aten::_foreach_add_", [[[2]], [[2]], []], ["TensorList", "TensorList", "Scalar"], ["", "", "1"],
         "aten._foreach_add_.List"),
        ("acme::rank", [], [], [], "custom.opaque.default"),
    ],
)  # fmt: skip
def test_overloads_are_torchs(name: str, dims: list, types: list, values: list, full: str) -> None:
    assert described(name, dims, types, None, values)[0] == full


def test_a_recorded_schema_names_the_overload() -> None:
    nothing = Arguments([], [], [], [])
    schema = "aten::add_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)"
    assert Describer().describe_with_results("aten::add_", schema, nothing, nothing).op == "aten.add_.Scalar"


def test_arguments_of_an_execution_trace() -> None:
    value = [7, 8, 0, 6, 4, "cuda:0"]
    lists = "GenericList[Tensor(float),None]"
    found = of_execution_trace(
        [value, value, [value, "<None>"], [1, 2], "cuda:0", True],
        [[2, 3], [], [[6], []], [[], []], [], []],
        ["Tensor(float)", "Tensor(float)", lists, "GenericList[Int,Int]", "Device", "Bool"],
        [[1, 2], [], [[1], []], [], [], []],
    )
    assert found.dims == [[2, 3], None, [[6], None], [], [], []]  # symbolic sizes contradict the number of elements
    assert found.types == ["float", "float", ("float", ""), "ScalarList", "", "Scalar"]
    assert found.values == [None, None, None, [1, 2], None, True]
    nested = "GenericList[GenericList[Tensor(float),Tensor(c10::Half)]]"
    flat = of_execution_trace([[[value, value]]], [[[[6], [6]]]], [nested], [])
    assert (flat.dims, flat.types) == ([[[6], [6]]], [("float", "c10::Half")])


def test_members_of_lists() -> None:
    assert split_list_type("GenericList[Tensor(a),Tensor(b<c,d>),GenericList[Int,Int]]") == [
        "Tensor(a)", "Tensor(b<c,d>)", "GenericList[Int,Int]",
    ]  # fmt: skip
    assert split_list_type("GenericList[]") == []
    assert split_list_type("Int") is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)
KINDS = ["Tensor(float)", "GenericList[Tensor(float),Int]", "Int", "x", "float", "TensorList", "", "Scalar"]


@given(json_values, json_values, st.sampled_from(KINDS), st.sampled_from(["aten::add", "aten::cat", "acme::rank"]))
def test_whatever_a_file_holds_becomes_a_valid_argument(value: object, shape: object, kind: str, name: str) -> None:
    describer = Describer()
    traced = of_execution_trace([value, value], [shape, shape], [kind, kind], [shape])
    recorded = Arguments([shape, value], [kind, kind], [value], [plain(value), plain(shape)])  # as readers give them
    for found in (
        describer.describe_with_results(name, "", traced, traced), describer.describe(name, recorded),
    ):  # fmt: skip
        for argument in (*found.args, *found.outputs):
            check_argument(argument, "argument")


def test_strides_and_sizes_that_cannot_be() -> None:
    made = stand_in_tensor([4, 8], torch.float32, [1])
    assert made is not None and made.is_contiguous()
    for sizes in ([-1, 8], [2**70], [0, 2**62, 2**62], [True], "4", None, [2.0]):
        assert stand_in_tensor(sizes, torch.float32) is None
    assert stand_in_tensor([4, 8], None) is None
    assert stand_in_tensor([4, 8], torch.float32, [2**62, 2**62]) is not None
