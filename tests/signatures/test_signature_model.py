"""Signatures as objects: totals, lookups, dictionaries and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from statsnet.environment import fingerprint
from statsnet.errors import MeasurementError
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Motif, Signature


def test_totals_are_calls_times_cost_per_call(dense_signature: Signature) -> None:
    assert dense_signature.calls_per_step == 6
    assert dense_signature.flops_per_step == 4 * 8192 + 2 * 256
    assert dense_signature.bytes_per_step == 4 * (2560 + 1024) + 2 * 2048


def test_operators_without_formula_do_not_count(sparse_signature: Signature) -> None:
    assert sparse_signature.flops_per_step == 2 * 256


def test_coverage_is_a_share_of_measured_time(sparse_signature: Signature, dense_signature: Signature) -> None:
    assert sparse_signature.coverage() == pytest.approx(0.001 / 0.0015)
    assert dense_signature.coverage() == 1.0
    assert dataclasses.replace(dense_signature, measurements=()).coverage() is None


def test_latency_is_the_median_of_undisturbed_steps(
    dense_signature: Signature, make_measurement: Callable[..., Measurement]
) -> None:
    assert dense_signature.measurements[0].latency_s == 0.010
    with pytest.raises(MeasurementError, match="no undisturbed step"):
        _ = make_measurement((), (), step_latency_s=()).latency_s


def test_measurement_is_found_by_fingerprint(dense_signature: Signature, record: dict[str, Any]) -> None:
    assert dense_signature.measurement_for(fingerprint(record)) is dense_signature.measurements[0]
    assert dense_signature.measurement_for(fingerprint(record | {"threads": 7})) is None


def test_name(dense_signature: Signature) -> None:
    assert dense_signature.name == "cv/dense"
    assert dataclasses.replace(dense_signature, workload=None).name is None


def test_id_follows_content(dense_signature: Signature) -> None:
    assert dataclasses.replace(dense_signature, batch=9).id != dense_signature.id
    assert dataclasses.replace(dense_signature, measurements=()).id != dense_signature.id


def test_parts_must_agree(dense_signature: Signature, make_measurement: Callable[..., Measurement]) -> None:
    with pytest.raises(ValueError, match="motif"):
        dataclasses.replace(dense_signature, motifs=(Motif(clusters=(2,), count=1.0),))
    with pytest.raises(ValueError, match="as long as"):
        dataclasses.replace(dense_signature, measurements=(make_measurement((), ()),))
