"""Shape classes: what lets an operator scale otherwise than another one of the same kernel."""

from __future__ import annotations

from typing import Any

import pytest

from statsnet.signatures.shapes import shape_class, weight_bytes


def convolution(batch: int, kernel: int, stride: int = 1, groups: int = 1) -> tuple[list[Any], list[Any]]:
    x, weight = ({"shape": s, "dtype": "float32"} for s in ([batch, 8, 20, 20], [8, 8 // groups, kernel, kernel]))
    return [x, weight, None, [stride] * 2, [0, 0], [1, 1], False, [0, 0], groups], [x]


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ({"batch": 16, "kernel": 1}, "kernel 1x1"),
        ({"batch": 15, "kernel": 1}, "kernel 1x1 few images"),
        ({"batch": 2, "kernel": 1, "stride": 2}, "kernel 1x1 strided"),
        ({"batch": 2, "kernel": 3}, "kernel 3x3"),
        ({"batch": 2, "kernel": 3, "groups": 8}, "kernel 3x3 grouped"),
    ],
)
def test_convolutions(shape: dict[str, int], wanted: str) -> None:
    args, outputs = convolution(**shape)
    assert shape_class("aten.convolution.default", args, outputs) == wanted
    backward = [outputs[0], args[0], args[1], None, *args[3:], [True, True, False]]
    assert shape_class("aten.convolution_backward.default", backward, outputs) == wanted


@pytest.mark.parametrize(
    ("op", "shape", "wanted"),
    [
        ("aten.native_batch_norm.default", [16, 512, 7, 7], "rows 4^3"),
        ("aten.native_batch_norm.default", [16, 64, 56, 56], "rows 4^6"),
        ("aten.native_batch_norm_backward.default", [1, 64, 56, 56], "rows 4^6"),
        ("aten.native_batch_norm.default", [256, 1024], "rows 4^5"),
        ("aten.native_layer_norm.default", [16, 128, 768], "rows 4^5"),
        ("aten.native_batch_norm.default", [1, 8, 7, 7], "one thread"),
        ("aten.relu.default", [16, 512, 7, 7], "L3"),
    ],
)
def test_normalisations_by_the_length_of_a_row(op: str, shape: list[int], wanted: str) -> None:
    x = {"shape": shape, "dtype": "float32"}
    assert shape_class(op, [x], [x]) == wanted


def test_weights_are_what_a_forward_product_reads_whatever_its_rows() -> None:
    x, weight, bias = ({"shape": s, "dtype": "float32"} for s in ([64, 256], [256, 512], [512]))
    args, _ = convolution(batch=4, kernel=3)
    assert weight_bytes("aten.convolution.default", "forward", args) == 4 * 8 * 8 * 9
    assert weight_bytes("aten.mm.default", "forward", [x, weight]) == 4 * 256 * 512
    assert weight_bytes("aten.addmm.default", "forward", [bias, x, weight]) == 4 * 256 * 512
    assert weight_bytes("aten.mm.default", "backward", [x, weight]) == 0
    assert weight_bytes("aten.bmm.default", "forward", [x, weight]) == 0
