"""Situations from public reports: the values that the headers of the case files give, worked out by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from statsnet.errors import MeasurementError, WorkloadError  # noqa: E402
from statsnet.measure.task import Context  # noqa: E402
from statsnet.measure.timing_tasks import Model  # noqa: E402
from statsnet.profiling.capture import OpCall, capture_step  # noqa: E402
from statsnet.profiling.costs import cost_of  # noqa: E402
from statsnet.profiling.memory import memory_record  # noqa: E402
from statsnet.profiling.tasks import ProfileWorkload  # noqa: E402
from statsnet.workloads import BuiltWorkload, build, make_step  # noqa: E402

CASES = os.environ.get("STATSNET_CASES")

pytestmark = [
    pytest.mark.skipif(not CASES, reason="STATSNET_CASES does not name the folder of the cases"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

PRODUCTS = ("mm", "addmm", "bmm", "linear", "_sparse_mm", "mkldnn_rnn_layer", "_transformer_encoder_layer_fwd")


def target(case: str) -> str:
    name, _, factory = case.partition(":")
    (found,) = (Path(str(CASES)) / "models").glob(f"{name}_*.py")
    return f"{found}:{factory}"


def ran(case: str, mode: str = "inference", **options: Any) -> tuple[BuiltWorkload, list[OpCall], dict[str, Any]]:
    """The model, the calls of its second step, and its memory."""
    built = build(target(case), mode=mode, **options)
    step = make_step(built)
    step(0)

    def phases(callback: Any) -> None:
        step.on_phase = callback

    calls = capture_step(lambda: step(1), device="cpu", phases=phases)
    return built, calls, memory_record(built.model, built.inputs[:1], None, device="cpu", optimizer=step.optimizer)


def flops(calls: list[OpCall], *names: str, phase: str | None = None) -> float:
    total = 0.0
    for call in calls:
        if call.op.split(".")[1] in (names or PRODUCTS) and phase in (None, call.phase):
            cost = cost_of(call.op, call.args, call.outputs)
            assert cost is not None, call.op
            total += cost.flops
    return total


def test_nested_batches() -> None:
    _, calls, _ = ran("01:make")
    assert 566_231_040 <= flops(calls) <= 1.01 * 566_231_040  # the fused layer also holds norms and the activation
    _, calls, _ = ran("01:make_jagged")
    assert flops(calls) == 167_772_160
    ran("01:make", "training")


@pytest.mark.parametrize("dtype", [None, "float32", "float64"])
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_complex_parameters(dtype: str | None, mode: str) -> None:
    built, calls, memory = ran("02:make", mode, dtype=dtype)
    wide = dtype == "float64"
    assert {p.dtype for p in built.model.parameters() if p.is_complex()} == {
        torch.complex128 if wide else torch.complex64
    }
    assert flops(calls, "bmm", phase="forward") == 37_748_736
    assert flops(calls, "convolution", phase="forward") == 134_217_728
    assert flops(calls, "_fft_r2c", "_fft_c2r", "_fft_c2c", phase="forward") == pytest.approx(125_829_120, rel=0.25)
    assert memory["parameter_bytes"] == 9_454_080 * (2 if wide else 1)
    assert built.dtype == (dtype or "float32")


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_mixed_dtypes(dtype: str | None, mode: str) -> None:
    built, calls, memory = ran("03:make", mode, dtype=dtype)
    assert built.dtype == "mixed"
    assert flops(calls, "mm", phase="forward") == 536_870_912 + 2_097_152
    assert memory["parameter_bytes"] == 4_204_544
    assert ("float32" in built.cast) is (dtype is not None)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_higher_order_operators() -> None:
    _, calls, _ = ran("05:make")
    assert flops(calls, "addmm", "mm") == 67_108_864
    assert flops(calls, "bmm") == 67_108_864  # dense, as the unfused path computes
    _, calls, _ = ran("05:make_cond")
    assert flops(calls, "addmm", "mm") == 100_663_296


def test_a_cache_that_grows() -> None:
    _, calls, _ = ran("08:make")
    (keys,) = {call.args[1]["shape"][2] for call in calls if "attention" in call.op}
    assert keys == 513
    assert flops(calls) == 33_570_816 - 4 * 2_101_248  # the projections and the feed-forward layers
    found = flops(calls, "_scaled_dot_product_flash_attention_for_cpu")
    assert 4 * 2_101_248 <= found < 1.02 * 4 * 2_101_248  # with its softmax


def test_threads() -> None:
    with pytest.raises(MeasurementError, match="operator by operator") as caught:
        ProfileWorkload(model=Model(target=target("10:make"), mode="inference"), min_time_s=0.0).run(Context())
    assert "threads of its own" in caught.value.cause


def test_sorted_lengths() -> None:
    def counted(descending: bool) -> tuple[float, int, int]:
        model = Model(target=target("15:make"), mode="inference", overrides={"descending": descending})
        signature = ProfileWorkload(model=model, device="meta").run(Context()).signature
        assert signature.inputs is not None
        names = {*PRODUCTS, "_scaled_dot_product_flash_attention_for_cpu"}
        costs = [c.calls * (c.flops or 0.0) for c in signature.clusters if c.op.split(".")[1] in names]
        return sum(costs), signature.inputs.distinct, sum(signature.inputs.stands_for)

    found, distinct, steps = counted(descending=False)
    assert found == pytest.approx(150_667_264, rel=0.01)
    assert (distinct, steps) == (32, 32)
    assert counted(descending=True) == (found, distinct, steps)


def test_layers_that_are_dropped_in_training_alone() -> None:
    _, calls, _ = ran("16:make")
    assert flops(calls) == 2 * 256**3 + 12 * 2 * 2 * 256 * 256 * 1024


@pytest.mark.parametrize(("name", "adjacency_bytes"), [("make_csr", 65536 * 12 + 4097 * 8), ("make_coo", 65536 * 20)])
def test_sparse_adjacency(name: str, adjacency_bytes: int) -> None:
    _, calls, memory = ran(f"07:{name}")
    assert flops(calls) == 16_777_216 + 67_108_864
    assert memory["input_bytes"] == 4096 * 64 * 4 + adjacency_bytes


@pytest.mark.parametrize("name", ["make", "make_inner"])
def test_compiled_models(name: str) -> None:
    with pytest.raises(WorkloadError, match="compiled already") as caught:
        build(target(f"11:{name}"), mode="inference", overrides={"backend": "eager"})
    assert "compile=inductor" in caught.value.hint


@pytest.mark.parametrize("name", ["make_pair", "make_flag"])
def test_optimizers_of_several_parts(name: str) -> None:
    _, calls, memory = ran(f"13:{name}", "training")
    assert flops(calls, "mm", "addmm", phase="optimizer") == 1_509_949_440
    assert memory["optimizer_bytes"] == pytest.approx(3 * 256 * 256 * 4 + 2 * 3 * 256 * 4, abs=64)


def test_an_optimizer_with_a_closure() -> None:
    _, calls, _ = ran("13:make_lbfgs", "training")
    evaluations = flops(calls, "addmm", phase="forward") / (3 * 2 * 512 * 256 * 256)
    assert evaluations in (1, 2, 3, 4)


def test_batch_objects() -> None:
    built, calls, memory = ran("18:make_graph")
    assert len(built.input_groups()) == 1
    assert memory["input_bytes"] == 393_216
    assert flops(calls) == 8_388_608
    built, calls, _ = ran("18:make_double")
    assert (built.dtype, flops(calls)) == ("float64", 8_388_608)


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_packed_sequences(mode: str) -> None:
    _, calls, _ = ran("18:make_packed", mode)
    assert sum(f for c in calls if c.phase == "forward" and (f := _product_flops(c))) == 133_693_440


def _product_flops(call: OpCall) -> float:
    names = ("mm", "addmm", "linear", "mkldnn_linear")
    cost = cost_of(call.op, call.args, call.outputs) if call.op.split(".")[1] in names else None
    return cost.flops if cost else 0.0
