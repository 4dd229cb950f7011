"""Whatever is wrong with a recording's events: what is read adds up, or the file is refused in a sentence."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recording_files import LINEAR, launch, operator, step, training_step, write

from statsnet.errors import FileFormatError
from statsnet.recordings.imported import Imported
from statsnet.recordings.kineto import read_kineto

PRODUCT, FLASH = "Cijk_Alik_Bljk_BBS_BH_MT256x224x64", "void flash::flash_fwd_kernel<64>(int)"
HALF = "c10::BFloat16"
FOREIGN = operator("acme::rank", 1700, 20, [[64, 128], [128, 256], []], [HALF, HALF, "Scalar"], ["", "", "True"])
STEP = [*training_step(), FOREIGN, *launch(6, 1705, PRODUCT, 1710, 5)]
NUMBERS = st.sampled_from([0, -1, 1, 7, 1e-9, 1000, 1040.5, 2**31, 2**63, "12", "x", None, True, [1]])
CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "ts": NUMBERS, "dur": NUMBERS, "pid": st.sampled_from([0, 100, "a", None]), "cat": st.sampled_from(
        ["kernel", "cpu_op", "cuda_runtime", "gpu_memset", "user_annotation", "", None]),
    "name": st.sampled_from(["aten::mm", "ProfilerStep#4", "ProfilerStep#0", "cudaGraphLaunch", "", None]),
    "ph": st.sampled_from(["X", "B", None]),
}  # fmt: skip
ARGUMENTS: dict[str, st.SearchStrategy[Any]] = {
    "correlation": NUMBERS, "stream": NUMBERS, "grid": NUMBERS,
    "Input Dims": st.sampled_from([[], [[]], [[0, 3], [3, 0]], [[64, 128], [128, 256]], [[-4, 2]], [[4, 8, 0], [0, 3]],
                                   [[2**50, 1], [1, 2**50]], "x", None]),
    "Input type": st.sampled_from([[], ["float", "float"], ["Half"], ["c10::BFloat16", "int"], None]),
}  # fmt: skip
CHANGE = st.tuples(
    st.integers(0, len(STEP) - 1),
    st.one_of(*(st.tuples(st.just(name), values) for name, values in (CHANGES | ARGUMENTS).items())),
)


def changed(changes: list[tuple[int, tuple[str, Any]]]) -> list[dict[str, Any]]:
    events = [event | {"args": dict(event.get("args", {}))} for event in STEP]
    for place, (name, value) in changes:
        (events[place] if name in CHANGES else events[place]["args"])[name] = value
    return events


def read(path: Path) -> tuple[Imported | None, str | None]:
    """What a file holds, or what its refusal tells to do next."""
    try:
        return read_kineto(path), "nothing"
    except FileFormatError as refused:
        return None, refused.hint


def check(found: Imported) -> None:
    """No time is negative, and operators together have the time of their kernels, each counted once."""
    (measurement,) = found.signature.measurements
    times = [t for t in measurement.cluster_time_s if t is not None]
    assert all(t >= 0 for t in times) and all(s >= 0 for s in measurement.step_latency_s)
    assert all((c.flops or 0) >= 0 and c.calls > 0 for c in found.signature.clusters)
    if measurement.gpu is not None and len(times) == len(measurement.cluster_time_s):
        placed = sum(k.time_s for k in measurement.gpu.kernels if k.cluster is not None)
        assert placed == pytest.approx(sum(times), rel=1e-6, abs=1e-9)
        assert measurement.gpu.busy_time_s <= measurement.step_latency_s[0] * (1 + 1e-9)


@given(st.lists(CHANGE, min_size=1, max_size=6))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_events_with_wrong_fields(tmp_path: Path, changes: list[tuple[int, tuple[str, Any]]]) -> None:
    found, hint = read(write(tmp_path / "t.json", changed(changes)))
    assert hint
    if found is not None:
        check(found)


@given(st.integers(0, 3000))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_compressed_file_that_ends_anywhere(tmp_path: Path, end: int) -> None:
    whole = gzip.compress(json.dumps({"traceEvents": STEP}).encode())
    (tmp_path / "t.json.gz").write_bytes(whole[: end % len(whole)])
    with pytest.raises(FileFormatError) as refused:
        read_kineto(tmp_path / "t.json.gz")
    assert refused.value.hint


@pytest.mark.parametrize("kernel", [PRODUCT, FLASH])
@pytest.mark.parametrize(
    "dims",
    [
        [[4, 8, 0], [0, 3]], [[0, 0], [0, 0]], [[2**50, 1], [1, 2**50]], [[0, 5], [5], [5, 0]], [[1] * 16] * 2,
        [[0] * 4] * 3, [[2**25, 2**25, 1, 1]] * 3, [[2**50, 0, 1, 1]] * 3, [[0, 0, 0]] * 5, [[5], [5], [5]],
        [[1] * 17, [1], [None], "x", {}],
    ],
)  # fmt: skip
def test_an_operator_of_another_library_with_sizes_that_cannot_be(tmp_path: Path, kernel: str, dims: Any) -> None:
    values = ["", "", "", "0.5", "True", "-1"]
    called = operator("acme::rank", 1010, 50, dims, [HALF] * len(dims), values)
    found, hint = read(write(tmp_path / "t.json", [step(1, 1000, 500), called, *launch(1, 1015, kernel, 1020, 5)]))
    assert hint
    if found is not None:
        check(found)


def test_launches_of_one_number_in_a_process(tmp_path: Path) -> None:
    """As where two recordings of processes with the same number were put into one file."""
    events = [
        step(1, 1000, 500), *LINEAR, *launch(3, 1030, "ampere_sgemm_128x64_nn", 1035, 40),
        operator("aten::relu", 1100, 9, [[8, 8]], ["float"], [""]), *launch(3, 1103, "gemm", 1110, 7),
    ]  # fmt: skip
    with pytest.raises(FileFormatError, match="cannot be told apart"):
        read_kineto(write(tmp_path / "t.json", events))


@pytest.mark.parametrize("again", [STEP, STEP[3:]], ids=["all", "a part"])
def test_events_that_a_file_holds_twice_are_read_once(tmp_path: Path, again: list[dict[str, Any]]) -> None:
    once = read_kineto(write(tmp_path / "t.json", STEP))
    twice = read_kineto(write(tmp_path / "u.json", [*STEP, *again]))
    assert twice.signature == once.signature
    said = [note for note in twice.notes if note not in once.notes]
    assert len(said) == 1 and "events more than once" in said[0]


def test_operators_that_overlap_on_a_thread(tmp_path: Path) -> None:
    """The second begins within the first and ends after it: no recorder writes that, but clocks jump."""
    events = [step(1, 1000, 500), operator("aten::relu", 1010, 50, [[8, 8]], ["float"], [""]),
              *launch(1, 1015, "relu", 1020, 5), operator("aten::neg", 1040, 50, [[8, 8]], ["float"], [""]),
              *launch(2, 1070, "neg", 1080, 3)]  # fmt: skip
    found = read_kineto(write(tmp_path / "t.json", events))
    check(found)
    assert found.signature.measurements[0].operator_time_s == pytest.approx(8e-6)


def test_kernels_without_length(tmp_path: Path) -> None:
    zero = [event | ({"dur": 0} if event["cat"] == "kernel" else {}) for event in STEP]
    found = read_kineto(write(tmp_path / "t.json", zero), step=4)
    check(found)
    assert found.signature.measurements[0].operator_time_s == pytest.approx(2e-6)  # of the memset
