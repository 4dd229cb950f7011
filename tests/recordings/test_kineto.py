"""A profiler's recording becomes the signature that a live profile would have made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recording_files import FLOPS, LINEAR, launch, on_gpu, operator, span, step, training_step, write

from statsnet.errors import FileFormatError, MeasurementError, UsageError
from statsnet.measure import profiler_events
from statsnet.recordings.chrome_trace import read_chrome_trace
from statsnet.recordings.kineto import read_kineto
from statsnet.recordings.trace_fields import whole_events
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Signature
from statsnet.signatures.privacy import assert_clean

US = 1e-6


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return write(tmp_path / "trace.json.gz", training_step())


def measurement(signature: Signature) -> Measurement:
    (only,) = signature.measurements
    return only


def rows(signature: Signature) -> dict[tuple[str, str], tuple[float, float | None, float | None]]:
    """Calls, seconds and FLOPs by operator and phase."""
    times = measurement(signature).cluster_time_s
    return {(c.op, c.phase): (c.calls, t, c.flops) for c, t in zip(signature.clusters, times, strict=True)}


def test_the_busiest_step_and_its_operators(recording: Path) -> None:
    signature = read_kineto(recording).signature
    found = rows(signature)
    assert found.keys() == {
        ("aten.addmm.default", "forward"), ("aten.mm.default", "backward"), ("custom.opaque.default", "optimizer"),
    }  # fmt: skip
    calls, time_s, flops = found["aten.addmm.default", "forward"]
    assert (calls, time_s) == (1, pytest.approx(42 * US))  # the memset inside is its own
    assert flops == FLOPS
    assert (signature.mode, signature.dtype, signature.optimizer) == ("training", "float32", "adamw")


def test_a_clipped_gradient_and_one_that_is_set_to_zero_are_the_optimizers(tmp_path: Path) -> None:
    def on(name: str, ts: float) -> dict[str, Any]:
        return operator(name, ts, 5, [[8, 8]], ["float"], [""])

    ranges = [span("user_annotation", "Optimizer.zero_grad#SGD.zero_grad", 1700, 50), on("aten::zero_", 1710)]
    events = [*training_step(), on("aten::relu", 1100), on("aten::neg", 1300), *ranges, on("aten::exp", 1800)]
    phases = dict(rows(read_kineto(write(tmp_path / "trace.json", events)).signature).keys())
    found = {name: phases[f"aten.{name}.default"] for name in ("relu", "neg", "zero_", "exp")}
    assert found == {"relu": "forward", "neg": "optimizer", "zero_": "optimizer", "exp": "forward"}


def test_a_cpus_steps_of_equal_work_give_median_times(tmp_path: Path) -> None:
    """Any of them may have been disturbed; one here has only a part of the operators, one has other shapes."""
    events: list[dict[str, Any]] = []
    steps = [(0, 900, (10, 800)), (1000, 300, (90, 30)), (2000, 200, (20, 40)), (3000, 50, (1,)), (4000, 900, (2, 3))]
    for number, (begin, lasts, operators_us) in enumerate(steps):
        events.append(step(number, begin, lasts))
        for i, lasts_us in enumerate(operators_us):
            shape = [[16 if number == 4 else 8, 8 + i]]
            events.append(operator("aten::relu", begin + 1 + 95 * i, lasts_us, shape, ["float"], [""]))
    found = read_kineto(write(tmp_path / "trace.json", events))
    assert found.notes[0] == "ProfilerStep 1 was read, by its time in the middle of 5"
    only = measurement(found.signature)
    assert sorted(only.step_latency_s) == pytest.approx([200 * US, 300 * US, 900 * US])
    assert sorted(only.cluster_time_s) == pytest.approx([20 * US, 40 * US])  # type: ignore[type-var]
    asked = measurement(read_kineto(tmp_path / "trace.json", step=0).signature)
    assert asked.step_latency_s == (pytest.approx(900 * US),)
    assert sorted(asked.cluster_time_s) == pytest.approx([10 * US, 800 * US])  # type: ignore[type-var]


def test_each_event_of_many_steps_is_nested_a_few_times_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once for each step: a recording of 1,000 steps would take minutes."""
    events = []
    for number in range(50):
        events += [step(number, 100 * number, 90), operator("aten::relu", 100 * number + 5, 9, [[8]], ["float"], [""])]
    seen: list[int] = []
    nest = profiler_events._nest
    monkeypatch.setattr(profiler_events, "_nest", lambda given: seen.append(len(given)) or nest(given))
    found = read_kineto(write(tmp_path / "trace.json", events)).signature
    assert len(measurement(found).step_latency_s) == 50
    assert sum(seen) < 10 * len(events)


def test_beginnings_and_ends_make_events(tmp_path: Path) -> None:
    """As tools write them that merge or convert traces; one event never ends, one never began."""
    ends, parts = [], [{"ph": "E", "pid": 100, "tid": 100, "ts": 1, "name": "early"}]
    for event in (step(4, 1000, 900), *LINEAR[::2]):
        parts.append({k: v for k, v in event.items() if k != "dur"} | {"ph": "B"})
        ends.insert(0, {"ph": "E", "pid": event["pid"], "tid": event["tid"], "ts": event["ts"] + event["dur"]})
    parts += [*launch(3, 1030, "ampere_sgemm_128x64_nn", 1035, 40), *ends]
    parts.append({"ph": "B", "cat": "cpu_op", "name": "aten::mm", "pid": 100, "tid": 100, "ts": 1950})
    found = read_kineto(write(tmp_path / "trace.json", parts)).signature
    assert rows(found) == {("aten.addmm.default", "forward"): (1, pytest.approx(40 * US), FLOPS)}
    assert measurement(found).step_latency_s == (pytest.approx(900 * US),)


def test_what_never_ends_does_not_take_the_end_of_what_is_around_it() -> None:
    names = (("B", "linear"), ("B", "mm"), ("E", "other"), ("E", "linear"), ("B", "relu"), ("E", None), ("E", "mm"))
    events: list[dict[str, Any]] = [{"ph": kind, "name": name, "ts": ts} for ts, (kind, name) in enumerate(names)]
    assert [(e["name"], e["dur"]) for e in whole_events(events)] == [("linear", "3"), ("relu", "1")]


def test_kernels_belong_to_the_step_that_launched_them(recording: Path) -> None:
    found = read_kineto(recording)
    gpu = measurement(found.signature).gpu
    assert gpu is not None
    assert gpu.busy_time_s == pytest.approx((2 + 40 + 40 + 10) * US)  # not the 400 µs of an earlier step
    assert sum(k.launches for k in gpu.kernels) == 4
    assert any("1 kernels and copies have no launch" in note for note in found.notes)
    assert measurement(found.signature).step_latency_s == (pytest.approx(900 * US),)
    assert measurement(found.signature).idle_time_s == pytest.approx((900 - 92) * US)


def test_of_several_processes_in_one_file_one_is_read(tmp_path: Path) -> None:
    """As a tool writes that merges the recordings of ranks."""
    one, other = (operator(f"aten::{name}", 1100, 10, [[8]], ["float"], [""]) for name in ("relu", "tanh"))
    idle = [e | {"pid": 77} for e in (step(4, 1000, 900), other)]
    events = [*idle, step(4, 1000, 900), one, *launch(1, 1101, "relu_kernel", 1110, 40)]
    found = read_kineto(write(tmp_path / "trace.json", events))
    assert rows(found.signature).keys() == {("aten.relu.default", "forward")}
    assert found.notes == ("the file holds 2 processes: the one with the most work was read",)


def test_what_other_processes_ran_is_not_counted(tmp_path: Path) -> None:
    """Their kernels, those without times, and on a device of their own also those without a launch."""
    one = [operator("aten::relu", 1100, 10, [[8]], ["float"], [""]), *launch(1, 1101, "relu_kernel", 1110, 40)]
    short = [e for number in (2, 3) for e in launch(number, 1101, "relu_kernel", 1110, 1)]
    others = [operator("aten::tanh", 1100, 10, [[8]], ["float"], [""]), *short, *launch(4, 1101, "lost", 0, 0)]
    foreign = [e | {"pid": 77, "args": e["args"] | {"device": 1}} for e in (*others, on_gpu(9, "unlaunched", 1200, 5))]
    recording = read_chrome_trace(write(tmp_path / "trace.json", [*foreign, *one, on_gpu(8, "early", 1000, 5)]))
    assert (recording.devices, recording.unlaunched, recording.lost) == ({0: 2}, 1, 0)


def test_processes_whose_launches_have_equal_numbers_are_not_mixed(tmp_path: Path) -> None:
    one = [operator("aten::relu", 1100, 10, [[8]], ["float"], [""]), *launch(1, 1101, "relu_kernel", 1110, 40)]
    events = [*one, *(e | {"pid": 77} for e in one)]
    with pytest.raises(FileFormatError, match="cannot be told apart"):
        read_kineto(write(tmp_path / "trace.json", events))


def test_a_step_by_its_number(recording: Path) -> None:
    assert rows(read_kineto(recording, step=3).signature).keys() == {("aten.relu.default", "forward")}
    with pytest.raises(UsageError, match="has no step 7"):
        read_kineto(recording, step=7)


def test_the_mode_can_be_told(recording: Path) -> None:
    assert read_kineto(recording, step=3).signature.mode == "inference"
    assert read_kineto(recording, step=3, mode="training").signature.mode == "training"


def test_no_name_enters(recording: Path) -> None:
    signature = read_kineto(recording).signature
    data = signature.to_dict()
    assert_clean(data)
    assert "secret" not in json.dumps(data)
    assert Signature.from_dict(data) == signature


def test_the_device_is_described(recording: Path) -> None:
    environment = measurement(read_kineto(recording).signature).environment
    assert (environment["device"], environment["device_name"]) == ("cuda", "NVIDIA H100 80GB HBM3")
    assert environment["memory_bytes"] == 79 * 2**30, "the exact size tells one machine from others"
    gpu = environment["gpu"]
    assert gpu is not None
    assert (gpu["compute_capability"], gpu["multiprocessors"]) == ("9.0", 132)
    assert environment["torch"] is None


def test_numbers_as_a_table_writes_them_again(tmp_path: Path) -> None:
    """A column of whole numbers with gaps becomes one of `3.0`."""
    numbers = ("correlation", "stream", "device")
    events = [e | {"args": {k: float(v) if k in numbers else v for k, v in e.get("args", {}).items()}}
              for e in training_step()]  # fmt: skip
    signature = read_kineto(write(tmp_path / "trace.json", events)).signature
    assert rows(signature)["aten.addmm.default", "forward"] == (1, pytest.approx(42 * US), FLOPS)


def test_kernels_of_other_makers_without_launches_give_no_times(tmp_path: Path) -> None:
    events = [e | {"cat": "hpu_op"} if e["cat"] == "kernel" else e for e in training_step() if "cuda" not in e["cat"]]
    found = read_kineto(write(tmp_path / "trace.json", events))
    assert set(measurement(found.signature).cluster_time_s) == {None}
    assert any("no kernel was recorded with its launch" in note for note in found.notes)


def test_old_categories_and_whole_recordings(tmp_path: Path) -> None:
    old = {"cpu_op": "Operator", "kernel": "Kernel", "cuda_runtime": "Runtime", "gpu_memset": "Memset"}
    events = [e | {"cat": old.get(e["cat"], e["cat"])} for e in training_step() if "ProfilerStep" not in e["name"]]
    signature = read_kineto(write(tmp_path / "trace.json", events)).signature
    assert rows(signature)["aten.addmm.default", "forward"][1] == pytest.approx(42 * US)
    assert ("aten.relu.default", "forward") in rows(signature)


def test_a_recording_without_shapes_has_times_alone(tmp_path: Path) -> None:
    events = [e | {"args": {k: v for k, v in e["args"].items() if not k.startswith(("Input", "Concrete"))}}
              if "args" in e else e for e in training_step()]  # fmt: skip
    found = read_kineto(write(tmp_path / "trace.json", events))
    assert rows(found.signature)["aten.addmm.default", "forward"] == (1, pytest.approx(42 * US), None)
    assert any("no shapes" in note for note in found.notes)
    assert found.signature.flops_per_step == 0


def test_operators_alone_were_run_on_a_cpu(tmp_path: Path) -> None:
    found = read_kineto(write(tmp_path / "trace.json", [step(1, 1000, 100), *LINEAR], deviceProperties=[]))
    assert measurement(found.signature).environment["device"] == "cpu"
    assert rows(found.signature)["aten.addmm.default", "forward"][1] == pytest.approx(30 * US)
    assert measurement(found.signature).framework_time_s == pytest.approx(70 * US)
    assert any("CPU" in note for note in found.notes)


def test_a_gpus_step_without_its_kernels_has_no_times(tmp_path: Path) -> None:
    """It was recorded with activities=[CPU] alone."""
    sizes = [[1, 3, 8, 8], [4, 3, 3, 3]]
    one = operator("aten::cudnn_convolution", 1010, 30, sizes, ["float", "float"])
    found = read_kineto(write(tmp_path / "trace.json", [step(1, 1000, 100), one]))
    assert measurement(found.signature).environment["device"] == "cuda"
    assert measurement(found.signature).cluster_time_s == (None,)
    assert any("no kernel was recorded at all" in note and "activities" in note for note in found.notes)
    unjoined = [e | {"args": {}} if e["cat"] == "kernel" else e for e in (one, *launch(1, 1015, "conv", 1020, 5))]
    found = read_kineto(write(tmp_path / "trace.json", unjoined))
    assert measurement(found.signature).cluster_time_s == (None,)
    assert any("no kernel was recorded with its launch" in note for note in found.notes)
    on_cpu = read_kineto(write(tmp_path / "trace.json", [step(1, 1000, 100), *LINEAR]))
    assert any("the file lists a GPU" in note for note in on_cpu.notes)


def test_kernels_alone_are_refused(tmp_path: Path) -> None:
    events = launch(1, 10, "ampere_sgemm_128x64_nn", 20, 5)
    with pytest.raises(FileFormatError, match="holds no operators") as refused:
        read_kineto(write(tmp_path / "trace.json", events))
    assert "activities" in refused.value.cause and "record_shapes" in refused.value.hint


def test_a_kernel_without_times_leaves_its_call_unknown(tmp_path: Path) -> None:
    lost = [operator("aten::relu", 1100, 10, [[8]], ["float"], [""]), *launch(8, 1101, "relu_kernel", 0, 0)]
    found = read_kineto(write(tmp_path / "trace.json", [step(1, 1000, 900), *LINEAR, *launch(3, 1030, "gemm", 1035, 40),
                                                        *lost]))  # fmt: skip
    assert rows(found.signature)["aten.relu.default", "forward"][1] is None
    assert measurement(found.signature).latency_s == pytest.approx(900 * US)
    assert any("1 kernels and copies have no times" in note for note in found.notes)


def graph_replay() -> list[dict[str, Any]]:
    """A graph of two kernels, launched twice."""
    return [
        operator("aten::neg", 1005, 5, [[8]], ["float"], [""]),
        *launch(1, 1006, "neg_kernel", 1007, 1),
        *(event for i in (0, 1) for event in (
            span("cuda_runtime", "cudaGraphLaunch", 1100 + 100 * i, 5, correlation=50 + i),
            on_gpu(50 + i, "ampere_sgemm_128x64_nn", 1110 + 100 * i, 40),
            on_gpu(50 + i, "relu_kernel", 1155 + 100 * i, 10))),
    ]  # fmt: skip


def captured() -> list[dict[str, Any]]:
    relu = operator("aten::relu", 1070, 10, [[64, 256]], ["float"], [""])
    return [
        *LINEAR,
        span("cuda_runtime", "cudaLaunchKernel", 1030, 1, correlation=1),
        relu,
        span("cuda_runtime", "cudaLaunchKernel", 1075, 1, correlation=2),
    ]  # fmt: skip


def test_a_graph_s_kernels_get_the_operators_of_its_capture(tmp_path: Path) -> None:
    replay = write(tmp_path / "replay.json", graph_replay())
    alone = read_kineto(replay)
    assert rows(alone.signature)["custom.opaque.default", "forward"][:2] == (2, pytest.approx(100 * US))
    assert any("--capture" in note for note in alone.notes)
    found = read_kineto(replay, capture=write(tmp_path / "capture.json", captured()))
    assert rows(found.signature)["aten.addmm.default", "forward"][:2] == (2, pytest.approx(80 * US))
    assert rows(found.signature)["aten.relu.default", "forward"][:2] == (2, pytest.approx(20 * US))
    assert any("4 of 4 kernels" in note for note in found.notes)


def test_a_capture_of_another_clock_in_many_ranges(tmp_path: Path) -> None:
    later = [e | {"ts": e["ts"] + 10**6} for e in captured()]
    around = [span("user_annotation", f"range {i}", 10**6, 10**5 - i) for i in range(3000)]
    replay = write(tmp_path / "replay.json", [step(1, 1000, 900), *graph_replay()])
    found = read_kineto(replay, capture=write(tmp_path / "capture.json", [*around, *later]))
    assert rows(found.signature)["aten.addmm.default", "forward"][:2] == (2, pytest.approx(80 * US))
    assert rows(found.signature)["aten.relu.default", "forward"][:2] == (2, pytest.approx(20 * US))
    assert measurement(found.signature).step_latency_s == (pytest.approx(900 * US),)


def test_a_capture_of_another_graph_gives_nothing(tmp_path: Path) -> None:
    replay = write(tmp_path / "replay.json", graph_replay())
    found = read_kineto(replay, capture=write(tmp_path / "capture.json", captured()[:-1]))
    assert any("0 of 4 kernels" in note for note in found.notes)
    assert ("custom.opaque.default", "forward") in rows(found.signature)


def execution_trace(path: Path, elements: tuple[int, int, int] = (256, 64 * 128, 128 * 256)) -> Path:
    """One addmm, in schema 1.1.1."""
    node = {"id": 5, "name": "aten::addmm", "ctrl_deps": 1, "inputs": {
        "values": [*([1, 2, 0, n, 4, "cuda:0"] for n in elements), 1, 1],
        "shapes": [[256], [64, 128], [128, 256], [], []], "types": ["Tensor(float)"] * 3 + ["Int", "Int"]}}  # fmt: skip
    path.write_text(json.dumps({"schema": "1.1.1", "nodes": [node]}))
    return path


def test_shapes_from_an_execution_trace(tmp_path: Path) -> None:
    events = [e | {"args": {}} if e["cat"] == "cpu_op" else e for e in [*LINEAR, *launch(3, 1030, "gemm", 1035, 40)]]
    trace = execution_trace(tmp_path / "et.json")
    found = read_kineto(write(tmp_path / "trace.json", events), execution_trace=trace)
    assert rows(found.signature)["aten.addmm.default", "forward"][2] == FLOPS
    assert "1 of 3 operators" in found.notes[0]
    whole = read_kineto(write(tmp_path / "whole.json", [*LINEAR]), execution_trace=trace)
    assert "adds none" in whole.notes[0]
    two = [*events, *(e | {"ts": e["ts"] + 100} for e in events if e["name"] == "aten::addmm")]
    again = read_kineto(write(tmp_path / "two.json", two), execution_trace=trace)  # two unmarked steps
    assert again.signature.flops_per_step == 2 * found.signature.flops_per_step


def test_another_program_s_execution_trace_is_refused(tmp_path: Path) -> None:
    events = [operator("aten::relu", 1010, 10), *launch(3, 1011, "relu", 1035, 40)]
    with pytest.raises(FileFormatError, match="of another program"):
        read_kineto(write(tmp_path / "t.json", events), execution_trace=execution_trace(tmp_path / "et.json"))


def test_equal_calls_with_and_without_a_time_are_told_apart(tmp_path: Path) -> None:
    again = [e | {"ts": e["ts"] + 200} for e in LINEAR]
    events = [step(1, 1000, 900), *LINEAR, *launch(3, 1030, "gemm", 1035, 40), *again, *launch(4, 1230, "gemm", 0, 0)]
    signature = read_kineto(write(tmp_path / "trace.json", events)).signature
    assert [c.calls for c in signature.clusters] == [1, 1]
    assert measurement(signature).cluster_time_s == (pytest.approx(40 * US), None)
    assert signature.flops_per_step == 2 * FLOPS


COUNTED = """==PROF== Connected to process 7
"ID","Kernel Name","sm__warps_active.avg.pct_of_peak_sustained_active","dram__bytes_read.sum","dram__bytes_write.sum"
"","","%","Kbyte","byte"
"0","ampere_sgemm_128x64_nn","25","2","500"
"1","ampere_sgemm_128x64_tn","50","n/a","n/a"
"2","triton_poi_secret_fused_0","75","1","0"
"""


def test_counters_of_nsight_compute_reach_their_clusters(recording: Path, tmp_path: Path) -> None:
    table = tmp_path / "ncu.csv"
    table.write_text(COUNTED)
    signature = read_kineto(recording, ncu=table).signature
    gpu = measurement(signature).gpu
    assert gpu is not None
    occupancy = dict(zip((c.op for c in signature.clusters), gpu.counters.clusters["achieved_occupancy"], strict=True))
    assert occupancy == {"aten.addmm.default": 0.25, "aten.mm.default": 0.5, "custom.opaque.default": 0.75}
    assert gpu.counters.clusters["dram_bytes"] == (2500.0, None, 1000.0)  # fills are not counted
    assert "secret" not in json.dumps(signature.to_dict())
    table.write_text(COUNTED.replace("ampere_sgemm_128x64_tn", "void at::native::reduce_kernel<512>(int)"))
    with pytest.raises(MeasurementError):
        read_kineto(recording, ncu=table)


def test_a_scaled_product_s_second_matrix_lies_by_columns(tmp_path: Path) -> None:
    """Recordings without strides: torch's operator takes it in no other layout."""
    fp8 = "c10::Float8_e4m3fn"
    dims = [[64, 128], [128, 256], [], [], [], [], [], []]
    types = [fp8, fp8, "float", "float", "", "", "Scalar", "Scalar"]
    event = operator("aten::_scaled_mm", 1010, 50, dims, types, ["", "", "", "", "", "", "15", "False"])
    path = write(tmp_path / "t.json", [event, *launch(1, 1020, "nvjet_qqtst_64x256", 1030, 5)])
    (cluster,) = read_kineto(path).signature.clusters
    assert cluster.op == "aten._scaled_mm.default" and cluster.flops == 2 * 64 * 128 * 256
    assert cluster.args[1]["strides"] == [1, 128]


def test_a_step_on_an_apple_gpu_has_no_times(tmp_path: Path) -> None:
    events = [operator("aten::_mps_convolution", 10, 50, [[1, 3, 8, 8], [4, 3, 3, 3]], ["float", "float"])]
    found = read_kineto(write(tmp_path / "t.json", events, deviceProperties=[]))
    assert any("Apple GPU" in note for note in found.notes) and not any("CUDA" in note for note in found.notes)
    assert measurement(found.signature).cluster_time_s == (None,)


def test_a_composite_operator_with_a_kernel_of_the_device_is_a_call(tmp_path: Path) -> None:
    """Of an Apple GPU's steps: `linear` holds a memory allocation at most, and no `addmm`."""
    linear = LINEAR[0]
    empty = operator("aten::empty", 1011, 3, [[], []], ["", ""], ["[64, 256]", ""])
    mish = operator("aten::mish_backward", 1100, 9, [[8, 8], [8, 8]], ["float", "float"], ["", ""])
    found = rows(read_kineto(write(tmp_path / "t.json", [linear, empty, mish], deviceProperties=[])).signature)
    assert {op for op, _ in found} == {"aten.linear.default", "aten.mish_backward.default"}
    assert found["aten.linear.default", "forward"][2] == FLOPS
    others = rows(read_kineto(write(tmp_path / "others.json", LINEAR, deviceProperties=[])).signature)
    assert {op for op, _ in others} == {"aten.addmm.default"}
