"""Blocks in other sizes: scaled down, narrowed, resized."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from block_configs import ATTENTION, CONFIGS, CONV, POOL
from networks import operator

from statsnet.blocks import KINDS
from statsnet.blocks.conformance import block_input


def test_attention_is_scaled_by_sequences_then_to_no_less_than_two_heads() -> None:
    kind, config = KINDS["attention"], {**ATTENTION, "batch": 2, "heads": 8}
    assert kind.scaled(config, 2) == {**config, "batch": 1}
    assert kind.scaled(config, 4) == {**config, "batch": 1, "heads": 4}
    assert kind.scaled(config, 16) == {**config, "batch": 1, "heads": 2}
    assert kind.scaled({**config, "batch": 1, "heads": 2}, 2) is None
    shared = {**config, "batch": 1, "kv_heads": 4}
    assert kind.scaled(shared, 2) == {**shared, "heads": 4, "kv_heads": 2}
    assert kind.scaled({**shared, "kv_heads": 1}, 2) == {**shared, "kv_heads": 1, "heads": 4}
    masked = {**config, "mask": (2, 8, 6, 6)}
    assert kind.scaled(masked, 4) == {**masked, "batch": 1, "heads": 4, "mask": (1, 4, 6, 6)}


@pytest.mark.parametrize("name", KINDS)
def test_scaled_blocks_read_about_as_much_less(name: str) -> None:
    """By 4 at least one configuration of each kind divides; not at all below one unit."""
    kind = KINDS[name]
    scaled = [kind.scaled(c, 4) for c in CONFIGS[name]]
    assert any(scaled)
    assert not any(kind.scaled(c, 10**9) for c in CONFIGS[name])


@pytest.mark.parametrize(
    ("name", "config", "divisor", "axis", "left"),
    [
        ("conv", {**CONV, "filters": 192}, 2, "filters", 96),
        ("conv", {**CONV, "filters": 192}, 4, None, None),
        ("conv", {**CONV, "batch": 1, "size": (56, 56)}, 4, "size", (14, 56)),
        ("conv", {**CONV, "filters": 192, "size": (56, 56)}, 8, "filters", 96),
        ("conv", {**CONV, "size": (56, 56)}, 8, None, None),
        ("conv", {**CONV, "channels": 64, "filters": 64, "groups": 64}, 4, "groups", 16),
        ("conv", {**CONV, "channels": 144, "filters": 144, "groups": 144}, 4, "groups", 32),
        ("linear", {"rows": 4, "inputs": 64, "outputs": 512}, 4, "outputs", 128),
        ("linear", {"rows": 4, "inputs": 64, "outputs": 64}, 4, None, None),
        ("norm", {"kind": "layer", "shape": (8, 12)}, 2, None, None),
    ],
)
def test_narrowed(name: str, config: dict[str, Any], divisor: int, axis: str | None, left: Any) -> None:
    narrow = KINDS[name].narrowed(config, divisor)
    if axis is None:
        assert narrow is None
        return
    assert narrow[axis] == left
    module = KINDS[name].build(narrow)
    assert module(block_input(KINDS[name], narrow, module)).isfinite().all()


@pytest.mark.parametrize("factor", [0.6, 1.3])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_resized_block_runs_and_reads_about_as_much(name: str, factor: float) -> None:
    kind = KINDS[name]
    for config in CONFIGS[name]:
        resized = kind.resized(config, factor)
        if resized is None:
            continue
        module = kind.build(resized)
        x = block_input(kind, resized, module)
        before = block_input(kind, config, kind.build(config)).numel()
        assert 0.5 * before <= x.numel() <= 2 * before
        assert torch.isfinite(module(x)).all()


def test_a_look_up_of_rows_keeps_their_length() -> None:
    kind, config = KINDS["gather"], {"shape": (4300, 16), "axis": 0, "count": 38700}
    assert kind.scaled(config, 4) == {**config, "shape": (1075, 16), "count": 9675}
    assert kind.scaled(config, 0.5) == {**config, "shape": (8600, 16), "count": 77400}
    assert kind.scaled({**config, "shape": (2, 16)}, 4) == {**config, "shape": (2, 4)}
    assert kind.scaled({**config, "shape": (8, 16), "axis": 1}, 4) == {**config, "shape": (2, 16), "axis": 1}


def test_what_is_sorted_keeps_its_length() -> None:
    """A shorter axis may not have as many entries as are asked for."""
    kind = KINDS["topk"]
    assert kind.scaled({"shape": (8, 12), "count": 10}, 2) == {"shape": (4, 12), "count": 10}
    assert kind.resized({"shape": (5000,), "count": 4000}, 0.55) is None
    assert kind.resized({"shape": (5000,), "count": 4000}, 1.5) is None


def test_a_short_batch_is_resized_by_the_height_of_its_maps() -> None:
    large = {**CONV, "batch": 2, "size": (56, 56)}
    assert KINDS["conv"].resized(large, 1.5) == {**large, "batch": 3}
    assert KINDS["conv"].resized(large, 1.25) == {**large, "size": (70, 56)}
    assert KINDS["conv"].resized({**large, "size": (13, 13)}, 0.75) is None


def test_a_pointwise_convolution_keeps_as_many_images_as_decide_its_kernel() -> None:
    pointwise = {**CONV, "batch": 32, "size": (56, 56), "kernel": (1, 1), "padding": (0, 0)}
    kind = KINDS["conv"]
    assert kind.scaled(pointwise, 2) == {**pointwise, "batch": 16}
    assert kind.scaled(pointwise, 8) == {**pointwise, "batch": 16, "size": (14, 56)}
    assert kind.scaled(pointwise, 1024) is None
    assert kind.resized({**pointwise, "batch": 16}, 0.5) == {**pointwise, "batch": 16, "size": (28, 56)}
    assert kind.scaled({**pointwise, "batch": 8}, 2) == {**pointwise, "batch": 4}
    assert kind.scaled({**pointwise, "kernel": (3, 3)}, 8) == {**pointwise, "kernel": (3, 3), "batch": 4}


def test_few_filters_of_a_large_kernel_are_not_left_to_a_reference_implementation() -> None:
    """On one thread oneDNN runs 16 filters of 41 x 11 over a map of 86 x 40 by `ref:any`; over two such maps, one of
    40 x 40, or with 32 filters, by `x64:gemm:jit`."""
    kind = KINDS["conv"]
    small = {
        **CONV, "batch": 1, "channels": 1, "size": (40, 40), "filters": 16, "kernel": (41, 11), "stride": (2, 2),
        "padding": (20, 5),
    }  # fmt: skip
    large = {**small, "size": (86, 40)}
    assert kind.scaled({**small, "batch": 2}, 2) == small
    assert kind.scaled({**large, "batch": 2}, 2) is None
    assert kind.resized(small, 1.5) == {**small, "size": (60, 40)}
    assert kind.resized(small, 2.15) is None
    assert kind.narrowed(large, 1) == large  # the model's own


def test_no_map_gets_lower_than_a_window() -> None:
    """Backward over 20 rows of a window of 41, oneDNN 3.12 writes where it must not."""
    kind = KINDS["conv"]
    config = {
        **CONV, "batch": 2, "channels": 1, "size": (80, 160), "filters": 128, "kernel": (41, 11), "stride": (2, 2),
        "padding": (20, 5),
    }  # fmt: skip
    assert kind.narrowed(config, 2) == {**config, "filters": 64}
    assert kind.resized({**config, "batch": 1}, 0.65) == {**config, "batch": 1, "size": (52, 160)}
    assert kind.resized({**config, "batch": 1, "size": (52, 160)}, 0.75) is None
    dilated = {**config, "kernel": (11, 11), "dilation": (4, 1)}
    assert kind.narrowed(dilated, 2) == {**dilated, "filters": 64}
    of_a_model = {**config, "size": (20, 160)}
    assert kind.scaled(of_a_model, 2) == {**of_a_model, "batch": 1}


def test_maps_are_left_for_all_threads() -> None:
    """ATen hands whole maps to its threads, so that with one all but one have nothing to do."""
    kind = KINDS["pool"]
    response_norm = {**POOL, "kind": "avg", "batch": 32, "channels": 1, "kernel": (5, 1), "padding": (2, 0)}
    assert kind.scaled(response_norm, 4) == {**response_norm, "batch": 8}
    assert kind.scaled(response_norm, 8) is None
    assert kind.scaled({**response_norm, "channels": 64}, 256) == {**response_norm, "batch": 1, "channels": 8}
    few = {**response_norm, "batch": 2}
    assert kind.scaled(few, 1) == few
    assert kind.scaled(few, 2) is None


@pytest.mark.parametrize(
    ("rows", "factor", "wanted"),
    [(512, 0.55, 288), (512, 0.93, 480), (4096, 0.85, 3488), (100, 0.55, 56), (48, 0.55, 26)],
)
def test_a_product_of_fewer_rows_leaves_no_rest_where_the_model_leaves_none(
    rows: int, factor: float, wanted: int
) -> None:
    config = {**CONFIGS["linear"][0], "rows": rows}
    resized = KINDS["linear"].resized(config, factor)
    assert resized is not None and resized["rows"] == wanted


@pytest.mark.parametrize(("rows", "divisor", "kept"), [(1024, 1.5, 512), (64, 0.4, 128), (1000, 1.5, 667)])
def test_a_power_of_two_of_rows_that_are_picked_from_stays_one(rows: int, divisor: float, kept: int) -> None:
    """OpenVINO writes columns of that length, three times as slowly for 1,024 rows as for 1,000."""
    gather = {"shape": (rows, 9, 9), "axis": 1, "count": 12, "subscript": True, "indexed_axes": 2}
    assert KINDS["gather"].scaled(gather, divisor) == {**gather, "shape": (kept, 9, 9)}
    config = operator("index.Tensor", ((rows, 9, 9), ()))
    index = ("int64", (12,), ())
    config |= {"operands": (*config["operands"], index, index), "arguments": (("operand", 0), ("operands", (-1, 1, 2)))}
    resized = KINDS["operator"].resized(config, 1 / divisor)
    assert resized is not None and resized["operands"][0][1] == (kept, 9, 9)
