"""Arguments and operators as recordings spell them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statsnet.recordings.arguments import (
    dtype_of_type,
    encode_scalar,
    encode_tensor,
    kineto_arguments,
    operator_name,
    parse_concrete,
    split_list_type,
    trace_argument,
)
from statsnet.signatures.operators import check_argument


def tensor(*shape: int, dtype: str = "float32") -> dict:
    return {"shape": list(shape), "dtype": dtype}


@pytest.mark.parametrize(
    ("spelt", "dtype"),
    [
        ("c10::Half", "float16"), ("c10::BFloat16", "bfloat16"), ("Tensor(c10::BFloat16)", "bfloat16"),
        ("long int", "int64"), ("Tensor(long)", "int64"), ("unsigned char", "uint8"), ("signed char", "int8"),
        ("c10::complex<float>", "complex64"), ("c10::Float8_e4m3fn", "float8_e4m3fn"), ("Tensor(bool)", "bool"),
        ("Tensor(nullptr (uninitialized))", None), ("Scalar", None), ("TensorList", None), ("AcmeHalf", None),
    ],
)  # fmt: skip
def test_dtypes(spelt: str, dtype: str | None) -> None:
    assert dtype_of_type(spelt) == dtype


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("0.", 0.0), ("-0.001", -0.001), ("True", True), ("[2, 2]", [2, 2]), ("[]", []),
        ("[True, False]", [True, False]), ("mean", "mean"), ("'none'", "none"), ("encoder.layer.0", None),
        ("inf", None), ("nan", None), ("[[1, 2], [3]]", None), ("9" * 19, None), ("9223372036854775807", 2**63 - 1),
    ],
)  # fmt: skip
def test_concrete_inputs(text: str, value: object) -> None:
    assert parse_concrete(text) == value
    assert type(parse_concrete(text)) is type(value)


def test_arguments_of_a_kineto_event() -> None:
    dims = [[8], [4, 8], [[1, 2], [3]], [], [], []]
    types = ["float", "c10::BFloat16", "TensorList", "Scalar", "ScalarList", ""]
    strides = [[1], [1, 4], [[2, 1], [1]], [], [], []]
    assert kineto_arguments(dims, types, strides, ["", "", "", "1.5", "[1, 2]", ""]) == [
        tensor(8), tensor(4, 8, dtype="bfloat16") | {"strides": [1, 4]}, {"tensors": [tensor(1, 2), tensor(3)]},
        1.5, [1, 2], None,
    ]  # fmt: skip


def test_an_old_kineto_event_has_neither_strides_nor_scalars() -> None:
    types = ["float", "Int", "Double", "int", "GenericList", ""]
    assert kineto_arguments([[8], [], [], [], [], []], types) == [
        tensor(8), None, None, tensor(dtype="int32"), None, None,
    ]  # fmt: skip


def test_arguments_of_an_execution_trace() -> None:
    value = [7, 8, 0, 6, 4, "cuda:0"]
    assert trace_argument(value, [2, 3], "Tensor(float)", [1, 2]) == tensor(2, 3) | {"strides": [1, 2]}
    assert trace_argument(value, [], "Tensor(float)") is None  # symbolic sizes
    assert trace_argument([1, 0, 0, 0, 0, ""], [], "Tensor(nullptr (uninitialized))") is None
    assert trace_argument([value, "<None>"], [[6], []], "GenericList[Tensor(float),None]") == {
        "tensors": [tensor(6), None]
    }
    nested = "GenericList[GenericList[Tensor(float),Tensor(float)]]"
    assert trace_argument([[value, value]], [[[6], [6]]], nested) == {"tensors": [tensor(6), tensor(6)]}
    assert trace_argument([1, 2], [[], []], "GenericList[Int,Int]") == [1, 2]
    assert trace_argument("cuda:0", [], "Device") is None
    assert trace_argument("model.layer.0", [], "String") is None


def test_members_of_lists() -> None:
    assert split_list_type("GenericList[Tensor(a),Tensor(b<c,d>),GenericList[Int,Int]]") == [
        "Tensor(a)", "Tensor(b<c,d>)", "GenericList[Int,Int]",
    ]  # fmt: skip
    assert split_list_type("GenericList[]") == []
    assert split_list_type("Int") is None


@pytest.mark.parametrize(
    ("name", "args", "full"),
    [
        ("aten::add", [tensor(2), tensor(2), 1], "aten.add.Tensor"),
        ("aten::add", [tensor(2), None, 1], "aten.add.Scalar"),
        ("aten::sum", [tensor(2), None], "aten.sum.default"),
        ("aten::mean", [tensor(2), [0], True, None], "aten.mean.dim"),
        ("aten::_foreach_add_", [{"tensors": []}, {"tensors": []}, 1], "aten._foreach_add_.List"),
        ("aten::pow", [tensor(2), 2], "aten.pow.Tensor_Scalar"),
        ("aten::mm", [tensor(2, 2), tensor(2, 2)], "aten.mm.default"),
        ("acme::rank", [], "acme.rank.default"),
    ],
)
def test_overloads_are_torchs(name: str, args: list, full: str) -> None:
    assert operator_name(name, args) == full


def test_a_recorded_schema_names_the_overload() -> None:
    assert operator_name("aten::add_", [], "aten::add_.Scalar(Tensor(a!) self, Scalar other) -> Tensor(a!)") == (
        "aten.add_.Scalar"
    )
    assert operator_name("aten::mm", [], "aten::mm(Tensor self, Tensor mat2) -> Tensor") == "aten.mm.default"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


@given(json_values, json_values, st.sampled_from(["Tensor(float)", "GenericList[Tensor(float),Int]", "Int", "x"]))
def test_whatever_a_file_holds_becomes_a_valid_argument(value: object, shape: object, kind: str) -> None:
    check_argument(trace_argument(value, shape, kind, shape), "argument")


@given(json_values)
def test_texts_never_pass(value: object) -> None:
    check_argument(encode_scalar(value), "argument")


def test_strides_are_kept_where_they_tell_something() -> None:
    assert encode_tensor([4, 1, 8], "float32", [8, 999, 1]) == tensor(4, 1, 8)
    assert encode_tensor([0, 8], "float32", [1, 1]) == tensor(0, 8)
    assert encode_tensor([4, 8], "float32", [1]) == tensor(4, 8)
    assert encode_tensor([4, 8], None) is None
    assert encode_tensor([-1, 8], "float32") is None
