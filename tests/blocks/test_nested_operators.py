"""Operators on sequences of different lengths, in one nested tensor, as blocks."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from statsnet.blocks.operator_call import operands_of
from statsnet.signatures.nested import Nested, lengths_of
from tests.support.operator_calls import KIND, call_of, config_of, run

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

LENGTHS = (20, 14, 9, 17, 20, 3)
ENCODER = "aten._transformer_encoder_layer_fwd.default"


def encoder() -> object:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 1).eval()
    mask = torch.arange(max(LENGTHS)) >= torch.tensor(LENGTHS)[:, None]
    with torch.no_grad():
        return model(torch.randn(len(LENGTHS), max(LENGTHS), 32), src_key_padding_mask=mask)


def test_a_block_has_rows_as_long_and_a_smaller_one_fewer() -> None:
    call = call_of(encoder, ENCODER)
    config = config_of(call)
    ran = run(config, ENCODER)
    assert (ran.op, ran.args[1:]) == (call.op, call.args[1:])
    assert ran.args[0] | {"squares": 0} == call.args[0] | {"squares": 0}
    assert ran.args[0]["squares"] == pytest.approx(call.args[0]["squares"], rel=0.1)
    smaller = KIND.scaled(config, 2)
    assert smaller is not None
    (nested,) = (o.form for o in operands_of(smaller) if isinstance(o.form, Nested))
    assert len(nested.lengths) == 3 and max(nested.lengths) == 20
    run(smaller, ENCODER)


@pytest.mark.parametrize("rows", [(20, 3), (19,) * 6, (20, -1, 3, 3, 3, 3)])
def test_a_spec_can_hold_no_rows_of_another_tensor(rows: tuple[int, ...]) -> None:
    config = config_of(call_of(encoder, ENCODER))
    (dtype, shape, strides, _), *others = config["operands"]
    with pytest.raises(ValueError, match="an operand is no tensor"):
        operands_of({**config, "operands": ((dtype, shape, strides, ("nested", rows)), *others)})


@given(st.lists(st.integers(1, 100), min_size=1, max_size=20), st.integers(1, 40), st.integers(1, 100))
def test_other_rows_are_spread_over_the_given_ones(lengths: list[int], rows: int, longest: int) -> None:
    made = Nested(tuple(lengths)).resized(rows, longest).lengths
    assert (len(made), max(made)) == (rows, longest)
    if max(lengths) == longest and rows >= len(lengths) and rows % len(lengths) == 0:
        assert set(made) <= set(lengths)


def test_lengths_of_a_damaged_file_end() -> None:
    lengths = lengths_of({"shape": [4, 2**30], "dtype": "float32", "elements": 37 * 2**27, "squares": 2**62})
    assert len(lengths) == 4 and max(lengths) == 2**30
    assert lengths_of({"shape": [1, 96, 8], "dtype": "float32", "elements": 8 * 85, "squares": 85**2}) == (96,)


def test_rows_that_differ_along_another_axis_are_refused() -> None:
    lengths = (20, 14, 9, 17)
    encoded = {"shape": [4, 8, 20, 64], "dtype": "float32", "elements": 8 * 64 * sum(lengths),
               "squares": sum(n * n for n in lengths)}  # fmt: skip
    with pytest.raises(NotImplementedError, match="another axis"):
        lengths_of(encoded)


def test_only_tokens_are_fewer_in_a_smaller_layer() -> None:
    """Not the width, which all weights have, nor weights whose length is the batch's by chance."""
    config = config_of(call_of(encoder, ENCODER))
    _, *weights = config["operands"]
    for divisor in (2, 16, 256, 16384):
        smaller = KIND.scaled(config, divisor)
        if smaller is not None:
            assert smaller["operands"][0][1][2] == 32 and list(smaller["operands"][1:]) == weights
            run(smaller, ENCODER)
    assert KIND.narrowed(config, 2) is None


def test_lengths_add_up_to_what_is_stored() -> None:
    encoded = {"shape": [4, 10, 8], "dtype": "float32", "elements": 8 * 22, "squares": 100 + 16 + 25 + 9}
    lengths = lengths_of(encoded)
    assert (len(lengths), max(lengths), sum(lengths)) == (4, 10, 22)
