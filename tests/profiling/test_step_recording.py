"""Recordings of steps: the tracks of a trace, what speedscope is given, and marks that leave nothing behind."""

from __future__ import annotations

import gzip
import json
import stat
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from statsnet.errors import MeasurementError
from statsnet.measure.control import Control
from statsnet.measure.task import Context
from statsnet.measure.timing_tasks import Model
from statsnet.profiling import step_recording, trace_tracks
from statsnet.profiling.marks import Phases, around_forwards, marked_modules, marked_proxy, part_and_name
from statsnet.profiling.speedscope import SCHEMA, interpreter_profile
from statsnet.profiling.step_recording import RECORDED, RecordNetwork, RecordWorkload, record_into
from statsnet.profiling.trace_tracks import TRACKS
from statsnet.proxy.towers import Placed, Tower
from statsnet.recordings.kineto import read_kineto

LINEAR = {"rows": 8, "inputs": 16, "outputs": 16, "activation": "gelu"}
MODEL = """
import torch


def make():
    layers = torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8)
    return torch.nn.Sequential(*layers), (torch.randn(4, 16),)
"""
Slices = dict[str, list[dict[str, Any]]]


def tracks(trace: dict[str, Any]) -> Slices:
    """The slices of each of our tracks, in order."""
    ours = [event for event in trace["traceEvents"] if event.get("pid") == trace_tracks.PROCESS]
    names = {e["tid"]: e["args"]["name"] for e in ours if e["name"] == "thread_name"}
    found: Slices = defaultdict(list)
    for event in sorted((e for e in ours if e["ph"] == "X"), key=lambda e: (e["ts"], -e["dur"])):
        found[names[event["tid"]]].append(event)
    return found


def names_of(slices: list[dict[str, Any]]) -> list[str]:
    return [each["name"] for each in slices]


def workload_trace(folder: Path, mode: str) -> dict[str, Any]:
    (folder / "model.py").write_text(MODEL)
    model = Model(target=f"{folder / 'model.py'}:make", mode=mode)
    RecordWorkload(model=model, into=str(folder), name="t.json").run(Context())
    trace: dict[str, Any] = json.loads((folder / "recording.json").read_text())
    return trace


def test_a_training_step_has_its_phases_and_modules_as_tracks(tmp_path: Path) -> None:
    trace = workload_trace(tmp_path, "training")
    found = tracks(trace)
    assert names_of(found["phases"]) == ["forward", "backward", "optimizer"] * RECORDED
    modules = ["Sequential", "0 Linear", "1 Tanh", "2 Linear"]
    assert names_of(found["modules"]) == modules * RECORDED
    assert names_of(found["modules, backward"]) == ["2 Linear", "1 Tanh", "0 Linear"] * RECORDED
    assert set(found) <= set(TRACKS)
    steps = trace_tracks.steps_of(trace)
    for track, slices in found.items():
        for each in slices:
            end = each["ts"] + each["dur"]
            assert any(s.start_us <= each["ts"] and end <= s.end_us + 0.01 for s in steps), track
    for earlier, later in pairwise(found["phases"]):
        assert earlier["ts"] + earlier["dur"] <= later["ts"] + 0.01
    assert not any(str(event["name"]).startswith("statsnet:") for event in trace["traceEvents"])
    counters = [event for event in trace["traceEvents"] if event["ph"] == "C"]
    assert {event["name"] for event in counters} == {"allocated on CPU, MiB"}
    assert trace["traceName"] == "t.json"


def test_a_trace_is_read_back_with_the_work_of_its_step(tmp_path: Path) -> None:
    workload_trace(tmp_path, "training")
    read = read_kineto(tmp_path / "recording.json")
    assert (read.signature.mode, read.signature.optimizer) == ("training", "sgd")
    products = [c for c in read.signature.clusters if c.op in ("aten.addmm.default", "aten.mm.default")]
    forward = 2 * 4 * (16 * 32 + 32 * 8)
    # Backward: of the first layer the weights' gradient alone, of the second both.
    backward = 2 * 4 * (16 * 32 + 2 * 32 * 8)
    assert sum(c.calls * (c.flops or 0) for c in products) == pytest.approx(forward + backward, rel=0.02)


def proxy_in(folder: Path, write_source: Callable[..., str], mode: str) -> str:
    optimizer = "adamw" if mode == "training" else None
    linear = Placed(kind="linear", config=LINEAR, optimizer=optimizer)
    softmax = Placed(kind="softmax", config={"shape": (8, 16), "axis": 1})
    towers = [Tower(blocks=(linear, softmax)), Tower(blocks=(linear, linear))]
    folder.mkdir()
    (folder / "network.py").write_text(write_source(mode, towers))
    return str(folder)


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_proxy_has_its_towers_and_blocks_as_tracks(
    tmp_path: Path, write_source: Callable[..., str], mode: str
) -> None:
    folder = proxy_in(tmp_path / "p", write_source, mode)
    recorded = RecordNetwork(folder=folder, into=str(tmp_path), name="p.json").run(Context())
    found = tracks(json.loads((tmp_path / "recording.json").read_text()))
    assert names_of(found["towers"]) == ["tower 1", "tower 2"] * RECORDED
    blocks = ["1.1 Linear", "1.2 Softmax", "2.1 Linear", "2.2 Linear"]
    assert names_of(found["blocks"]) == blocks * RECORDED
    phases = ["forward", "backward", "optimizer"] if mode == "training" else ["forward"]
    assert names_of(found["phases"]) == phases * RECORDED
    if mode == "training":
        # Towers do not read each other, so autograd may go through them in turn.
        backward = names_of(found["blocks, backward"])
        for tower in ("1", "2"):
            own = list(dict.fromkeys(name for name in backward if name.startswith(tower)))
            assert own == [name for name in reversed(blocks) if name.startswith(tower)]
        assert set(names_of(found["towers, backward"])) == {"tower 1", "tower 2"}
    else:
        assert not found.keys() & {"towers, backward", "blocks, backward"}
    assert (recorded.steps.count, recorded.steps.kernels, recorded.python_share) == (RECORDED, 0, None)


def test_what_python_did_is_balanced_and_nested(tmp_path: Path, write_source: Callable[..., str]) -> None:
    folder = proxy_in(tmp_path / "p", write_source, "inference")
    task = RecordNetwork(folder=folder, into=str(tmp_path), name="p.speedscope.json", form="speedscope")
    recorded = task.run(Context())
    document = json.loads((tmp_path / "recording.json").read_text())
    assert (document["$schema"], document["name"]) == (SCHEMA, "p.speedscope.json")
    frames = document["shared"]["frames"]
    (profile,) = document["profiles"]
    assert (profile["type"], profile["unit"]) == ("evented", "microseconds")
    stack: list[int] = []
    at = profile["startValue"]
    for event in profile["events"]:
        assert at <= event["at"] <= profile["endValue"]
        at = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert stack.pop() == event["frame"]
    assert not stack
    names = {frame["name"] for frame in frames}
    assert {"through", "aten::addmm", "ProfilerStep#0"} <= names
    assert any(frame.get("file", "").endswith("network.py") and frame["line"] > 0 for frame in frames)
    assert recorded.python_share is not None
    assert 0 < recorded.python_share < 1


def event(name: str, begin: float, length: float, category: str = "python_function", thread: int = 1) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": begin, "dur": length, "pid": 1, "tid": thread}


def test_python_s_share_is_what_no_operator_covers() -> None:
    events = [
        event("ProfilerStep#0", 100, 100, "user_annotation"),
        event("a.py(3): f", 110, 60),
        event("aten::mm", 120, 30, "cpu_op"),
        event("aten::empty", 125, 5, "cpu_op"),
        event("<built-in method g at 0x7f00>", 160, 40),  # ends after f: cut there
        event("a.py(9): elsewhere", 110, 60, thread=2),
        event("a.py(7): before", 10, 20),
    ]
    found = interpreter_profile({"traceEvents": events}, "x")
    assert found.python_share == pytest.approx((60 - 30) / 100)
    frames = [frame["name"] for frame in found.document["shared"]["frames"]]
    assert frames == ["ProfilerStep#0", "f", "aten::mm", "aten::empty", "<built-in method g>"]
    shown = [(e["type"], e["frame"], e["at"]) for e in found.document["profiles"][0]["events"]]
    assert shown[-5:] == [("C", 2, 150), ("O", 4, 160), ("C", 4, 170), ("C", 1, 170), ("C", 0, 200)]


def test_kernels_and_backward_threads_of_a_gpu_s_trace() -> None:
    def numbered(name: str, begin: float, number: int, *, thread: int, forward_thread: int) -> dict[str, Any]:
        args = {"Sequence number": number, "Fwd thread id": forward_thread}
        return event(name, begin, 2, "cpu_op", thread) | {"args": args}

    backward = "autograd::engine::evaluate_function: MmBackward0"
    events = [
        event("ProfilerStep#0", 0, 100, "user_annotation"),
        event("statsnet:block:1.1 Linear", 10, 10, "user_annotation"),
        event("statsnet:block:1.2 Linear", 20, 10, "user_annotation"),
        event("statsnet:block:1.1 Linear", 60, 5, "gpu_user_annotation", 7),
        event("k", 60, 5, "kernel", 7),
        numbered("aten::mm", 12, 5, thread=1, forward_thread=0),
        numbered("aten::t", 15, 6, thread=1, forward_thread=0),  # the next node's number already
        numbered("aten::mm", 22, 6, thread=1, forward_thread=0),
        numbered("aten::sum", 32, 7, thread=1, forward_thread=0),  # the loss: of no block
        *(numbered(backward, 80 - 10 * (n - 5), n, thread=2, forward_thread=1) for n in (5, 6, 7)),
        numbered("MmBackward0", 80, 5, thread=2, forward_thread=1),
    ]
    trace: dict[str, Any] = {"traceEvents": events}
    assert trace_tracks.recorded_steps(trace).kernels == 1
    trace_tracks.add_tracks(trace, name="x")
    found = tracks(trace)
    assert [(e["name"], e["ts"]) for e in found["blocks"]] == [("1.1 Linear", 10), ("1.2 Linear", 20)]
    assert [(e["name"], e["ts"]) for e in found["blocks, backward"]] == [("1.2 Linear", 70), ("1.1 Linear", 80)]
    (on_gpu,) = (e for e in trace["traceEvents"] if e.get("cat") == "gpu_user_annotation")
    assert (on_gpu["name"], on_gpu["tid"]) == ("1.1 Linear", 7)


def test_a_recording_without_python_says_so() -> None:
    events = [event("ProfilerStep#0", 0, 10, "user_annotation"), event("aten::mm", 1, 5, "cpu_op")]
    with pytest.raises(MeasurementError, match="no Python function"):
        interpreter_profile({"traceEvents": events}, "x")


def test_a_file_is_its_owner_s_alone(tmp_path: Path, temporary_files: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    path = tmp_path / "t.json.gz"
    path.write_text("what was there")
    path.chmod(0o644)
    task = RecordWorkload(model=Model(target=f"{tmp_path / 'model.py'}:make", mode="inference"))
    recorded = record_into(path, task, Control())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names_of(tracks(json.loads(gzip.decompress(path.read_bytes())))["phases"]) == ["forward"] * RECORDED
    assert recorded.steps.operators > 0
    assert not list(temporary_files.iterdir())


def test_a_long_step_is_recorded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_recording, "LONG_STEP_S", 0.0)
    assert names_of(tracks(workload_trace(tmp_path, "inference"))["phases"]) == ["forward"]


def test_marks_leave_nothing_behind(write_source: Callable[..., str], load: Callable[[str], Any]) -> None:
    module = nn.Linear(2, 2)
    module.forward = own = lambda x: x  # type: ignore[method-assign]
    other = nn.Tanh()
    with around_forwards([(module, nullcontext), (other, nullcontext)]):
        assert vars(other)["forward"] is not None
        assert vars(module)["forward"] is not own
    assert vars(module)["forward"] is own
    assert "forward" not in vars(other)
    network = load(write_source("training"))
    proxy, backward = network.build(), network.backward
    with marked_proxy(network, proxy, Phases(on_gpu=False), on_gpu=False):
        assert network.backward is not backward
    assert network.backward is backward
    assert not any("forward" in vars(each) for each in proxy.modules())


def test_nsight_sees_the_same_ranges(
    write_source: Callable[..., str], load: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", said.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: said.append("/"))
    linear = Placed(kind="linear", config=LINEAR)
    network = load(write_source("training", [Tower(blocks=(linear, linear))]))
    proxy, phases = network.build(), Phases(on_gpu=True)
    step = network.make_step(proxy)
    step()
    said.clear()
    with marked_proxy(network, proxy, phases, on_gpu=True):
        step()
    phases.leave()
    assert said == ["forward", "tower 1", "1.1 Linear", "/", "1.2 Linear", "/", "/", "/", "backward", "/"]
    said.clear()
    model = nn.Sequential(nn.Tanh())
    with marked_modules(model, on_gpu=True):
        model(torch.ones(1))
    assert said == ["Sequential", "0 Tanh", "/", "/"]


def test_labels_of_others_are_not_ours() -> None:
    assert part_and_name("statsnet:block:1.2 Linear: x") == ("block", "1.2 Linear: x")
    assert part_and_name("statsnet:step") is None
    assert part_and_name("statsnet:nothing:x") is None
    assert part_and_name("block:1") is None
