from __future__ import annotations

import pytest
import torch

from statsnet.errors import UsageError
from statsnet.workloads import settings
from statsnet.workloads.settings import BASELINE, Setting, parse_settings, with_threads


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
