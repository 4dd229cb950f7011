from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from statsnet.errors import DeviceError, UsageError
from statsnet.workloads import settings
from statsnet.workloads.settings import (
    BASELINE,
    GRAPHS,
    WARM_UPS,
    Setting,
    graphed,
    parse_setting,
    parse_settings,
    with_threads,
    wrap_step,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "threads=1",
            Setting(name="threads=1", threads=1, env={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}),
        ),
        ("onednn=sse41", Setting(name="onednn=sse41", env={"ONEDNN_MAX_CPU_ISA": "SSE41"})),
        ("mkl=compatible", Setting(name="mkl=compatible", env={"MKL_CBWR": "COMPATIBLE"})),
        ("aten=default", Setting(name="aten=default", env={"ATEN_CPU_CAPABILITY": "default"})),
        ("mkldnn=off", Setting(name="mkldnn=off", in_process={"mkldnn": False})),
        ("dtype=bfloat16", Setting(name="dtype=bfloat16", in_process={"dtype": "bfloat16"})),
        ("channels_last", Setting(name="layout=channels_last", in_process={"layout": "channels_last"})),
        (
            "compile=inductor",
            Setting(
                name="compile=inductor",
                env={"TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE": "1"},
                in_process={"compile": "inductor"},
            ),
        ),
        ("precision=medium", Setting(name="precision=medium", in_process={"precision": "medium"})),
    ],
)
def test_one_setting(text: str, expected: Setting) -> None:
    assert parse_settings(text) == [expected]


def test_a_comma_separates_settings_and_a_plus_joins_them() -> None:
    one, two = parse_settings(" threads = 2 , ONEDNN=sse41 + mkl=compatible+mkldnn=off,")
    assert one.threads == 2
    assert two == Setting(
        name="onednn=sse41+mkl=compatible+mkldnn=off",
        env={"ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"},
        in_process={"mkldnn": False},
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("thread=1", ["'thread' is not a setting", "did you mean threads"]),
        ("onednn=sse4", ["'sse4' is not a value of the setting 'onednn'", "did you mean sse41"]),
        ("chanels_last", ["is not a setting", "did you mean channels_last"]),
        ("mkldnn", ["'' is not a value", "known are off, on"]),
        ("threads=0", ["not a number of threads"]),
        ("threads=-1", ["not a number of threads"]),
        ("threads=99999", ["not a number of threads"]),
        ("threads=two", ["not a number of threads"]),
        ("threads=²", ["not a number of threads"]),
        ("threads=1+threads=2", ["stands twice", "comma"]),
        ("threads=1,threads=1", ["given twice"]),
        ("runtime=onnx", ["'onnx' is not a value of the setting 'runtime'", "did you mean onnxruntime"]),
        ("runtime=openvino+dtype=bfloat16", ["sets 'dtype' for another runtime", "runtime=openvino"]),
        ("threads=1++onednn=avx2", ["'' is not a setting"]),
        ("", ["no setting was given"]),
        (" , ", ["no setting was given"]),
    ],
)
def test_what_is_not_known_is_refused(text: str, words: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        parse_settings(text)
    assert refused.value.exit_code == 2
    for word in words:
        assert word in str(refused.value)


def test_a_setting_that_changes_nothing_is_named() -> None:
    found = settings.unchanging(parse_settings("threads=1,threads=2,threads=2+dtype=bfloat16"), 2)
    assert [sentence.split()[0] for sentence in found] == ["threads=2"]


def test_the_settings_own_threads_win() -> None:
    (single,) = parse_settings("threads=1")
    assert with_threads(BASELINE, 4).env == settings.thread_env(4)
    assert with_threads(BASELINE, 4).threads == 4
    assert with_threads(single, 4).threads == 1
    assert with_threads(BASELINE, None) == BASELINE


def test_apply_switches_this_process() -> None:
    (setting,) = parse_settings("threads=1+mkldnn=off+precision=high")
    before = torch.get_num_threads(), torch.get_float32_matmul_precision()
    try:
        settings.apply(setting)
        assert torch.get_num_threads() == 1
        assert torch.get_float32_matmul_precision() == "high"
        assert not torch.backends.mkldnn.enabled
    finally:
        torch.set_num_threads(before[0])
        torch.set_float32_matmul_precision(before[1])
        settings.apply(Setting(name="undo", in_process={"mkldnn": True}))


def test_dtype_runs_the_step_under_autocast() -> None:
    (setting,) = parse_settings("dtype=bfloat16")
    a = torch.ones(2, 2)
    assert settings.wrap_step(setting, lambda: a @ a, "cpu")().dtype is torch.bfloat16
    assert settings.wrap_step(BASELINE, lambda: a @ a, "cpu")().dtype is torch.float32


def test_layout_reaches_what_a_convolution_returns() -> None:
    (setting,) = parse_settings("channels_last")
    conv = settings.convert_module(setting, torch.nn.Conv2d(4, 4, 3))
    assert conv(torch.randn(2, 4, 8, 8)).is_contiguous(memory_format=torch.channels_last)


class PlayedGraph:
    """What ran while it was recorded is told again when it is launched."""

    def __init__(self) -> None:
        self.recorded: list[int] = []
        self.log: list[int] = []

    def pool(self) -> object:
        return self

    def replay(self) -> None:
        self.log += self.recorded


class PlayedStream:
    def wait_stream(self, other: PlayedStream) -> None:
        assert isinstance(other, PlayedStream)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inputs that were run outside of a recording, or launched."""
    log: list[int] = []
    pools: list[Any] = []

    @contextlib.contextmanager
    def record(graph: PlayedGraph, pool: object) -> Iterator[None]:
        assert pool is (pools[0] if pools else None)
        pools.append(graph)
        before = len(log)
        yield
        graph.recorded, graph.log = log[before:], log
        del log[before:]

    monkeypatch.setattr(torch.cuda, "device", lambda _device: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "Stream", PlayedStream)
    monkeypatch.setattr(torch.cuda, "current_stream", PlayedStream)
    monkeypatch.setattr(torch.cuda, "stream", lambda _stream: contextlib.nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", PlayedGraph)
    monkeypatch.setattr(torch.cuda, "graph", record)
    return log


def test_each_input_has_a_recording(ran: list[int]) -> None:
    inputs = iter(range(100))
    step = wrap_step(parse_setting("graphs=cuda"), lambda: ran.append(next(inputs)), "cuda:0")
    assert ran == [*range(WARM_UPS)]
    ran.clear()
    for _ in range(GRAPHS + 2):
        step()
    first = WARM_UPS
    assert ran == [*range(first, first + GRAPHS), first, first + 1]


def test_without_a_gpu_there_are_none() -> None:
    with pytest.raises(DeviceError, match="need a GPU"):
        graphed(lambda: None, "cpu", 1)
