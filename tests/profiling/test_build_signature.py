"""Clusters, motifs and measurements from traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from profiling_helpers import call, tiny_signature

from statsnet import environment
from statsnet.errors import MeasurementError
from statsnet.profiling.build_signature import (
    build_signature,
    mixed_steps,
)
from statsnet.profiling.capture import OpCall
from statsnet.profiling.memory import memory_record
from statsnet.profiling.step_trace import StepTrace
from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.model import Signature
from statsnet.signatures.privacy import assert_clean
from statsnet.signatures.storage import load_signature, save_signature

TINY = ("cv/alexnet", "nlp/bert_base", "recsys/dlrm", "recsys/ncf", "speech/deepspeech2")


def relu(rows: int, time_s: float | None = 1e-6, phase: str = "forward") -> OpCall:
    spec = {"shape": [rows, 4], "dtype": "float32"}
    return call("aten.relu.default", phase, args=[spec], outputs=[spec], time_s=time_s)


def trace(*calls: OpCall, latency_s: float = 1e-5) -> StepTrace:
    return StepTrace(
        device="cpu",
        calls=list(calls),
        implementations=["aten"] * len(calls),
        step_latency_s=[latency_s] * 3,
        unexplained_share=0.5,
    )


def build(*traces: StepTrace, shares: list[float] | None = None) -> Signature:
    return build_signature(
        list(traces),
        mode="inference",
        dtype="float32",
        memory=memory_record(None, [], None, device="cpu"),
        environment=environment.describe("cpu"),
        shares=shares,
    )


@pytest.mark.parametrize("spec", [{"shape": [8, 4], "dtype": "quint4x2"}, {"shape": [1] * 17, "dtype": "float32"}])
def test_a_call_whose_tensors_no_file_holds_is_kept_without_them(spec: dict[str, Any], tmp_path: Path) -> None:
    odd = call("aten.relu.default", args=[{"tensors": [spec]}], outputs=[None], time_s=2e-6)
    signature = build(trace(odd, relu(2)))
    save_signature(tmp_path / "s.json", signature)
    without = next(c for c in load_signature(tmp_path / "s.json").clusters if not c.args)
    assert (without.calls, without.flops, without.outputs) == (1.0, None, ())


def test_calls_with_equal_arguments_in_one_phase_are_one_cluster() -> None:
    signature = build(trace(relu(2, 1e-6), relu(3), relu(2, 2e-6), relu(2, phase="backward")))
    assert [(c.phase, c.args[0]["shape"][0], c.calls) for c in signature.clusters] == [
        ("backward", 2, 1.0), ("forward", 2, 2.0), ("forward", 3, 1.0)
    ]  # fmt: skip
    measurement = signature.measurements[0]
    assert measurement.cluster_time_s == pytest.approx((1e-6, 3e-6, 1e-6))
    assert measurement.launches == 4
    assert measurement.unexplained_share == pytest.approx(0.5)
    assert signature.clusters[0].flops == 8


def test_views_are_in_no_cluster() -> None:
    view = call("aten.view.default", metadata=True)
    signature = build(trace(view, relu(2)))
    assert [c.op for c in signature.clusters] == ["aten.relu.default"]
    assert signature.measurements[0].launches == 1


def test_powers_with_kernels_of_their_own_are_clusters_of_their_own() -> None:
    spec = {"shape": [2, 4], "dtype": "float32"}
    powers = [3.0, 0.75, 1.5, 2.0, 10.0]
    calls = [call("aten.pow.Tensor_Scalar", args=[spec, p], outputs=[spec], time_s=1e-6) for p in powers]
    assert [(c.args[1], c.calls) for c in build(trace(*calls)).clusters] == [(0.75, 3.0), (2.0, 1.0), (3.0, 1.0)]


def test_what_was_not_measured_is_null() -> None:
    assert build(trace(relu(2, None), relu(3))).measurements[0].cluster_time_s[0] is None


def test_shape_variants_are_weighted_by_how_often_they_occur() -> None:
    signature = build(
        trace(relu(1), relu(2), latency_s=1e-5), trace(relu(1), relu(3), latency_s=3e-5), shares=[3.0, 1.0]
    )
    assert [c.calls for c in signature.clusters] == pytest.approx([1.0, 0.75, 0.25])
    assert signature.shape_variants == 2
    assert signature.measurements[0].step_latency_s == pytest.approx([1.5e-5] * 3)
    assert signature.measurements[0].cluster_time_s == pytest.approx((1e-6, 0.75e-6, 0.25e-6))


def test_mixed_steps_are_weighted_sample_by_sample() -> None:
    assert mixed_steps([[1.0, 2.0, 9.0], [3.0, 4.0]], [0.25, 0.75]) == [2.5, 3.5]


def test_motifs_name_their_clusters() -> None:
    first, second = relu(2), relu(2)
    second.op, second.producers = "aten.sigmoid.default", (0,)
    assert [(m.clusters, m.count) for m in build(trace(first, second)).motifs] == [((0, 1), 1.0)]


@pytest.mark.parametrize("name", TINY)
@pytest.mark.parametrize("mode", ["inference", "training"])
def test_signatures_of_tiny_workloads(name: str, mode: str) -> None:
    signature = tiny_signature(name, mode)
    data = signature.to_dict()
    assert_clean(data)
    assert len(canonical_json(data)) < 300_000
    assert signature.name == name
    measurement = signature.measurements[0]
    assert None not in measurement.cluster_time_s
    assert signature.coverage() == pytest.approx(1.0), "every operator has a formula"
    phases = {c.phase for c in signature.clusters}
    assert ("backward" in phases) == ("optimizer" in phases) == (mode == "training")


def test_a_step_of_too_many_shapes_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statsnet.profiling.build_signature.MOST_CLUSTERS", 3)
    with pytest.raises(MeasurementError, match="4 distinct operator calls") as caught:
        build(trace(*(relu(rows) for rows in range(1, 5))))
    assert "aten.relu.default alone has 4" in caught.value.cause
    assert "pad lengths" in caught.value.hint
