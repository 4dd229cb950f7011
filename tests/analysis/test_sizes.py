"""Memory against input size, from signatures of one workload in several sizes."""

from __future__ import annotations

from dataclasses import replace

from statsnet.analysis.database import measured_signatures
from statsnet.analysis.sizes import memory_by_size
from statsnet.signatures.model import Signature


def resized(signature: Signature, factor: int, *, counted: bool = False) -> Signature:
    memory = signature.memory
    assert memory.activation_bytes is not None
    memory = replace(memory, input_bytes=factor * memory.input_bytes, activation_bytes=factor * memory.activation_bytes)
    return replace(signature, memory=memory, measurements=() if counted else signature.measurements)


def test_sizes_grow_and_what_was_run_goes_before_what_was_counted() -> None:
    base = measured_signatures("cv/resnet50", "inference")[1][0]
    by_workload = memory_by_size(
        [resized(base, 4), resized(base, 2, counted=True), resized(base, 1, counted=True), base]
    )
    assert list(by_workload) == ["cv/resnet50"]
    sizes = by_workload["cv/resnet50"]
    assert [s.input_bytes // base.memory.input_bytes for s in sizes] == [1, 2, 4]
    assert [s.counted for s in sizes] == [False, True, False]
    assert len({s.activation_bytes / s.input_bytes for s in sizes}) == 1


def test_what_is_not_known_is_left_out() -> None:
    base = measured_signatures("cv/resnet50", "inference")[1][0]
    unknown = replace(base, memory=replace(base.memory, activation_bytes=None))
    assert memory_by_size([unknown, replace(base, workload=None)]) == {}
