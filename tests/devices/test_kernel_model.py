"""Times of operators on a device that is a formula: known ones as they are, others from their like."""

from __future__ import annotations

import math
from typing import Any

import pytest
from clusters import tensor

from statsnet.devices.hardware import chip_of
from statsnet.devices.kernel_model import FEWEST, KernelModel, Known
from statsnet.errors import UsageError

FLOPS_PER_S, BYTES_PER_S, CALL_S = 1e11, 1e10, 5e-6


def product(rows: int, depth: int, columns: int) -> tuple[str, str, list[Any], list[Any]]:
    args = [tensor(rows, depth), tensor(depth, columns)]
    return "aten.mm.default", "forward", args, [tensor(rows, columns)]


def activation(name: str, elements: int) -> tuple[str, str, list[Any], list[Any]]:
    return f"aten.{name}.default", "forward", [tensor(elements)], [tensor(elements)]


def product_s(rows: int, depth: int, columns: int) -> float:
    nbytes = 4 * (rows * depth + depth * columns + rows * columns)
    return CALL_S + max(2 * rows * depth * columns / FLOPS_PER_S, nbytes / BYTES_PER_S)


def activation_s(elements: int) -> float:
    return CALL_S + 8 * elements / BYTES_PER_S


def known(call: tuple[str, str, list[Any], list[Any]], time_s: float, kernel: str) -> Known:
    op, phase, args, outputs = call
    return Known(op=op, phase=phase, args=args, outputs=outputs, time_s=time_s, kernel=kernel)


SIZES = [(r, d, c) for r in (16, 64, 256, 1024, 4096) for d in (64, 256, 1024) for c in (64, 256, 1024)]
ELEMENTS = [2**n for n in range(8, 24)]


@pytest.fixture(scope="module")
def model() -> KernelModel:
    products = [known(product(*s), product_s(*s), "small" if s[0] < 100 else "large") for s in SIZES]
    return KernelModel([*products, *(known(activation("relu", n), activation_s(n), "vector") for n in ELEMENTS)])


def test_what_was_measured_counts_as_it_is(model: KernelModel) -> None:
    estimate = model.estimate(*product(64, 256, 1024))
    assert estimate.time_s == product_s(64, 256, 1024)
    assert (estimate.kernel, estimate.evidence) == ("small", "exact")
    assert estimate.kernel_class == "gemm|small|float32|nn"


@pytest.mark.parametrize("size", [(100, 256, 256), (512, 512, 512), (2048, 128, 900), (32, 700, 64)])
def test_other_sizes_are_between(model: KernelModel, size: tuple[int, int, int]) -> None:
    estimate = model.estimate(*product(*size))
    assert estimate.evidence == "model"
    assert abs(math.log(estimate.time_s / product_s(*size))) < 0.35
    assert estimate.kernel == ("small" if size[0] < 128 else "large")


def test_another_operator_of_the_same_kind_of_work(model: KernelModel) -> None:
    """No sigmoid was measured: its category's operators tell."""
    estimate = model.estimate(*activation("sigmoid", 100_000))
    assert estimate.evidence == "model"
    assert estimate.time_s == pytest.approx(activation_s(100_000), rel=0.3)


def test_where_nothing_is_alike_the_roofline_tells(model: KernelModel) -> None:
    table, indices = tensor(100_000, 64), {"shape": [4096], "dtype": "int64"}
    estimate = model.estimate("aten.embedding.default", "forward", [table, indices], [tensor(4096, 64)])
    assert (estimate.evidence, estimate.kernel) == ("roofline", "unknown")
    assert 0.2 < estimate.time_s / (2 * 4096 * 64 * 4 / BYTES_PER_S) < 5


def test_its_error_is_that_of_entries_predicted_from_the_others(model: KernelModel) -> None:
    errors = model.errors()
    assert {name: count for name, (count, _) in errors.items()} == {
        "mm float32": len(SIZES),
        "relu float32": len(ELEMENTS),
    }
    assert all(0.0 < error < 0.35 for _, error in errors.values())


def test_few_entries_make_no_regressor() -> None:
    few = KernelModel([known(activation("relu", n), activation_s(n), "v") for n in ELEMENTS[: FEWEST - 1]])
    assert few.estimate(*activation("relu", 3000)).evidence == "roofline"
    assert few.errors() == {}
    with pytest.raises(ValueError, match="without measured operators"):
        KernelModel([])


def attention(q_len: int, kv_len: int) -> tuple[str, str, list[Any], list[Any]]:
    q, kv = tensor(1, 8, q_len, 64), tensor(1, 8, kv_len, 64)
    return "aten.scaled_dot_product_attention.default", "forward", [q, kv, kv, None, 0.0, False], [q]


def gradient(channels: int, *, of_data: bool) -> tuple[str, str, list[Any], list[Any]]:
    """Of a convolution's data or of its weights."""
    x, weight = tensor(2, channels, 16, 16), tensor(8, channels, 3, 3)
    sizes = [[8], [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    args = [tensor(2, 8, 16, 16), x, weight, *sizes, [of_data, not of_data, False]]
    outputs = [x, None, None] if of_data else [None, weight, None]
    return "aten.convolution_backward.default", "backward", args, outputs


def test_what_one_aten_operator_does_in_several_ways_is_several_kinds() -> None:
    """Else times of one way would be predicted from another's, or not at all for want of its dims."""
    sizes = [16 * (i + 1) for i in range(2 * FEWEST)]
    calls = [
        *((attention(n, n), 1e-3) for n in sizes), *((attention(1, n), 1e-5) for n in sizes),
        *((gradient(n, of_data=True), 1e-3) for n in sizes), *((gradient(n, of_data=False), 1e-5) for n in sizes),
        *((("aten.add_.Tensor", "forward", [tensor(n, 8), tensor(n, 8)], [tensor(n, 8)]), 1e-3) for n in sizes),
        *((("aten.add_.Tensor", "forward", [tensor(n), 1.0], []), 1e-5) for n in sizes),
    ]  # fmt: skip
    model = KernelModel([known(call, time_s, "k") for call, time_s in calls])
    assert {title: count for title, (count, _) in model.errors().items()} == {
        "scaled_dot_product_attention float32 encoder": len(sizes),
        "scaled_dot_product_attention float32 decode": len(sizes),
        "convolution_backward float32 backward_data": len(sizes),
        "convolution_backward float32 backward_weight": len(sizes),
        "add_ float32": len(sizes),
        "add_ float32 by work": len(sizes),
    }
    for slow, quick in ((attention(100, 100), attention(1, 100)),
                        (gradient(100, of_data=True), gradient(100, of_data=False))):  # fmt: skip
        assert model.estimate(*slow).time_s == pytest.approx(1e-3, rel=0.2)
        assert model.estimate(*quick).time_s == pytest.approx(1e-5, rel=0.2)


def test_models_are_fitted_to_the_chip_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waves of tiles depend on its cores."""
    entries = [known(product(*s), product_s(*s), "k") for s in SIZES]
    model = KernelModel(entries, "nvidia-h100-sxm")
    asked: list[str] = []
    monkeypatch.setattr("statsnet.devices.performance_model.chip_of", lambda name: asked.append(name) or chip_of(name))
    assert model.estimate(*product(100, 256, 256)).evidence == "model"
    assert set(asked) == {"nvidia-h100-sxm"}


def test_a_recording_without_sizes_tells_nothing_of_others() -> None:
    known = [Known(op="aten.mm.default", phase="forward", args=(), outputs=(), time_s=1e-3, kernel="k")]
    with pytest.raises(UsageError, match="tells no operator's sizes"):
        KernelModel(known)
