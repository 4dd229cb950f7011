"""Strides written as views, and in other sizes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from statsnet.signatures.strides import resized_strides, span, view_of

BASES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@st.composite
def views(draw: st.DrawFn) -> torch.Tensor:
    """A tensor as torch code makes it: a slice, with axes in another order, a step, expanded."""
    x = torch.arange(math.prod(shape := draw(BASES))).reshape(shape)
    for axis, n in enumerate(x.shape):
        x = x.narrow(axis, 0, draw(st.integers(1, n)))
    x = x.permute(draw(st.permutations(range(x.dim()))))
    if draw(st.booleans()):
        x = x.unsqueeze(0).expand(3, *x.shape)
    return x[..., ::2] if draw(st.booleans()) else x


@given(views())
def test_the_views_as_written_have_the_strides(x: torch.Tensor) -> None:
    view = view_of(x.shape, x.stride())
    if view is None:  # a step in an inner axis
        return
    y = eval(f"torch.zeros({view.base}){view.source}")
    assert y.shape == x.shape
    assert all(n == 1 or a == b for n, a, b in zip(x.shape, x.stride(), y.stride(), strict=True))
    assert view.source.count("expand") <= 1


@pytest.mark.parametrize(
    ("shape", "strides", "source"),
    [
        ((64, 128), (256, 1), "torch.zeros(64, 256).narrow(1, 0, 128)"),
        ((8, 5, 7), (35, 1, 5), "torch.zeros(8, 7, 5).transpose(1, 2)"),
        ((2, 3, 4, 5), (60, 1, 15, 3), "torch.zeros(2, 4, 5, 3).permute(0, 3, 1, 2)"),
        ((8, 16), (0, 1), "torch.zeros(1, 16).expand(8, 16)"),
        ((6, 4), (16, 4), "torch.zeros(6, 4, 4)[..., 0]"),
    ],
)
def test_readable(shape: tuple[int, ...], strides: tuple[int, ...], source: str) -> None:
    view = view_of(shape, strides)
    assert view is not None
    assert f"torch.zeros({', '.join(map(str, view.base))}){view.source}" == source
    assert eval(source).stride() == strides


def test_windows_that_overlap_are_no_such_view() -> None:
    x = torch.zeros(10).unfold(0, 4, 2)
    assert view_of(x.shape, x.stride()) is None
    assert span(x.shape, x.stride()) == 10
    assert resized_strides(x.shape, x.stride(), (2, 4)) == (2, 1)


@pytest.mark.parametrize(
    ("shape", "strides", "new", "resized"),
    [
        ((64, 128), (256, 1), (8, 128), (256, 1)),
        ((64, 128), (256, 1), (64, 32), (64, 1)),
        ((8, 5, 7), (35, 1, 5), (8, 5, 14), (70, 1, 5)),
        ((8, 16), (0, 1), (4, 8), (0, 1)),
    ],
)
def test_what_lies_between_rows_is_in_proportion(
    shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...], resized: tuple[int, ...]
) -> None:
    assert resized_strides(shape, strides, new) == resized
