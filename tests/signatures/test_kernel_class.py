"""Kernel classes tell layouts apart, and a target tells them as they are told now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from clusters import tensor

from statsnet.signatures.kernel_class import class_now, implementation, kernel_class
from statsnet.signatures.model import Signature
from statsnet.signatures.target import target_of


@pytest.mark.parametrize(
    ("op", "args", "layout"),
    [
        ("aten.tanh.default", [tensor(8, 16)], "contiguous"),
        ("aten.tanh.default", [tensor(8, 16, strides=(32, 1))], "strided"),
        ("aten.tanh.default", [tensor(8, 16, strides=(1, 8))], "transposed"),
        ("aten.tanh.default", [tensor(1, 16, 8, 8, strides=(16, 1, 128, 16))], "channels_last"),
        ("aten.tanh.default", [tensor(2, 1, 8, 4, strides=(32, 5, 1, 8))], "transposed"),
        ("aten.tanh.default", [tensor(8, 16, strides=(0, 1))], "expanded"),
        ("aten.tanh.default", [tensor(2, 3, 4, 4, strides=(48, 1, 12, 3))], "channels_last"),
        ("aten.mul.Tensor", [tensor(8, 16), tensor(8, 16, strides=(0, 1))], "expanded"),
        ("aten.mul.Tensor", [tensor(8, 16), tensor(16, 8, strides=(1, 16))], "contiguous"),
        ("aten.cat.default", [{"tensors": [tensor(8, 16, strides=(32, 1)), tensor(8, 4)]}, 1], "strided"),
        ("aten.mm.default", [tensor(8, 16), tensor(16, 4, strides=(1, 16))], "nt"),
        ("aten.bmm.default", [tensor(2, 8, 4, strides=(32, 1, 8)), tensor(2, 4, 4)], "tn"),
    ],
)
def test_layouts(op: str, args: list[Any], layout: str) -> None:
    assert kernel_class(op, args, [], "aten").rpartition("|")[2] == layout


def test_a_class_of_an_older_file_gets_the_layout_of_now(dense_signature: Signature) -> None:
    (measurement,) = dense_signature.measurements
    old = tuple(f"{c.category}|aten|float32|n" for c in dense_signature.clusters)
    target = target_of(replace(dense_signature, measurements=(replace(measurement, kernel_class=old),)))
    assert {c.kernel_class.rpartition("|")[2] for c in target.clusters} <= {"nt", "contiguous"}


@pytest.mark.parametrize(
    ("kernels", "name"),
    [
        (("mkl:sgemm", "mkl:sgemm_as_gemv", "mkl:sgemm"), "mkl:sgemm"),
        (("mkl:sgemm_as_gemv", "mkl:sgemm"), "mkl:sgemm"),
        (("mkl:sgemm_as_gemv",), "mkl:sgemm_as_gemv"),
        (("onednn:jit", "mkl:sgemm_as_gemv"), "onednn:jit+mkl:sgemm_as_gemv"),
    ],
)
def test_a_group_of_one_row_makes_no_other_class(kernels: tuple[str, ...], name: str) -> None:
    """How many rows an expert of a mixture gets depends on values."""
    assert implementation(kernels) == name
    args = [tensor(8, 16), tensor(4, 16, 8), tensor(4)]
    stored = kernel_class("aten._grouped_mm.default", args, [tensor(8, 8)], "+".join(kernels))
    assert class_now(stored, args) == f"_grouped_mm|{name}|float32|contiguous"
