"""Memory against input size, from signatures of one workload in several sizes."""

from __future__ import annotations

from dataclasses import replace

from statsnet.analysis.database import NamedSignature, measured_signatures
from statsnet.analysis.sizes import memory_by_size


def resized(named: NamedSignature, factor: int, *, counted: bool = False) -> NamedSignature:
    signature, memory = named.signature, named.signature.memory
    assert memory.activation_bytes is not None
    memory = replace(memory, input_bytes=factor * memory.input_bytes, activation_bytes=factor * memory.activation_bytes)
    changed = replace(signature, memory=memory, measurements=() if counted else signature.measurements)
    return replace(named, signature=changed)


def test_sizes_grow_and_what_was_run_goes_before_what_was_counted() -> None:
    base = measured_signatures(["cv/resnet50"], "inference")[1][0]
    by_workload = memory_by_size(
        [resized(base, 4), resized(base, 2, counted=True), resized(base, 1, counted=True), base]
    )
    assert list(by_workload) == ["cv/resnet50"]
    sizes = by_workload["cv/resnet50"]
    assert [s.input_bytes // base.signature.memory.input_bytes for s in sizes] == [1, 2, 4]
    assert [s.counted for s in sizes] == [False, True, False]
    assert len({s.activation_bytes / s.input_bytes for s in sizes}) == 1


def test_what_is_not_known_is_left_out() -> None:
    base = measured_signatures(["cv/resnet50"], "inference")[1][0]
    unknown = replace(base.signature, memory=replace(base.signature.memory, activation_bytes=None))
    assert memory_by_size([replace(base, signature=unknown)]) == {}


def test_a_signature_without_a_name_is_called_as_it_is_given() -> None:
    base = measured_signatures(["cv/resnet50"], "inference")[1][0]
    unnamed = NamedSignature(name="mine", signature=replace(base.signature, workload=None))
    assert [size.preset for size in memory_by_size([unnamed])["mine"]] == [""]
