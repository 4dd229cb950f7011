"""Environment records: what they hold, what they compare, what they keep to themselves."""

from __future__ import annotations

import getpass
import json
import platform
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from statsnet.environment import describe, differences, fingerprint, select, slug
from statsnet.environment import record as record_module
from statsnet.errors import DeviceError
from statsnet.signatures.canonical import read_json
from statsnet.signatures.database import default_profiles_dir


def test_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    monkeypatch.setenv("MALLOC_TOP_PAD_", "67108864")
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libtcmalloc.so.4")
    monkeypatch.setenv("OMP_PLACES", "/home/me/places")
    env = describe()
    json.dumps(env)
    assert env["device"] == "cpu"
    assert env["cores"] >= 1
    assert env["threads"] >= 1
    assert env["torch"][0].isdigit()
    assert env["isa"] == sorted(env["isa"])
    assert env["settings"]["ONEDNN_MAX_CPU_ISA"] == "AVX2"
    assert env["settings"]["OMP_PLACES"] == "other"
    assert env["allocator"]["MALLOC_TOP_PAD_"] == "67108864"
    assert env["allocator"]["library"] == "tcmalloc"
    texts = [v for v in json.loads(json.dumps(env)).values() if isinstance(v, str)]
    assert platform.node() not in texts
    assert getpass.getuser() not in texts


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    env = describe()
    assert env["torch"] is env["threads"] is env["cpu_capability"] is None
    assert fingerprint(env)
    assert slug(env).endswith("-torchnone")
    with pytest.raises(DeviceError, match="no GPU"):
        describe("cuda")


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "", "cpu:a"])
def test_unknown_devices(device: str) -> None:
    with pytest.raises(DeviceError, match="is not a device"):
        describe(device)


def test_the_first_core_speaks_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "model name\t: A CPU \nmodel\t\t: 7\nflags\t\t: fma avx2 new\npower management:\n\nmodel name\t: second\n"
    monkeypatch.setattr(record_module, "file_text", lambda _: text)
    env = describe()
    assert (env["device_name"], env["cpu_model"], env["isa"]) == ("A CPU", "A CPU model 7", ["avx2", "fma"])
    monkeypatch.setattr(record_module, "file_text", lambda _: "")
    assert describe()["isa"] == []


@pytest.mark.parametrize(
    "change",
    [
        {"threads": 8},
        {"cpu_model": "other"},
        {"isa": ["avx2"]},
        {"torch": "2.14.0"},
        {"python": "3.12.0"},
        {"settings": {"ONEDNN_MAX_CPU_ISA": "AVX2"}},
        {"allocator": {}},
        {"mkl": None},
    ],
)
def test_what_decides_speed_changes_the_fingerprint(record: dict[str, Any], change: dict[str, Any]) -> None:
    changed = record | change
    assert fingerprint(changed) != fingerprint(record)
    (line,) = differences(record, changed)
    assert line.split(".")[0].split(":")[0] == next(iter(change))


@pytest.mark.parametrize(
    "change",
    [
        {"memory_bytes": 1},
        {"python": "3.11.9"},
        {"settings": {"OMP_NUM_THREADS": "2"}},
        {"gpu": None},
    ],
)
def test_what_does_not_decide_speed_does_not(record: dict[str, Any], change: dict[str, Any]) -> None:
    changed = record | change
    assert fingerprint(changed) == fingerprint(record)
    assert differences(record, changed) == []


def test_what_only_one_side_knows_is_no_difference(record: dict[str, Any]) -> None:
    known = record | {"driver": "580.1", "gpu": {"cudnn": "91002", "power_limit_w": 700}}
    partly = record | {"driver": "580.1", "gpu": {"cudnn": "91002", "power_limit_w": None}}
    assert differences(record, known) == differences(known, record) == differences(known, partly) == []
    other = partly | {"gpu": {"cudnn": "91003", "power_limit_w": None}}
    assert differences(known, other) == ["gpu.cudnn: 91002 against 91003"]


@pytest.mark.parametrize(
    ("folder", "file", "expected"),
    [
        ("cpu-amd-epyc-f25m1-2t-torch2.13", "speech/whisper_base.training.json", "bc2b0bd6abe8"),
        ("cpu-amd-epyc-f26m2-2t-torch2.13", "speech/deepspeech2.training.json", "3294b3468f85"),
    ],
)
def test_shipped_records_keep_their_identity(folder: str, file: str, expected: str) -> None:
    data = read_json(default_profiles_dir() / folder / file)
    environments = [m["environment"] for m in data["measurements"]]
    assert {(slug(env), fingerprint(env)) for env in environments} == {(folder, expected)}


def test_fingerprint_survives_a_file(record: dict[str, Any]) -> None:
    assert fingerprint(json.loads(json.dumps(record))) == fingerprint(record)
    assert len(fingerprint(record)) == 12


def test_differences_are_readable(record: dict[str, Any]) -> None:
    other = record | {"threads": 8, "isa": [], "settings": {"MKL_CBWR": "AVX2"}}
    assert differences(record, other) == [
        "isa: avx2 fma against not set",
        "settings.MKL_CBWR: not set against AVX2",
        "threads: 2 against 8",
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, "cpu-amd-epyc-7b13-2t-torch2.13"),
        ({"device_name": "AMD EPYC 7B13 64-Core Processor"}, "cpu-amd-epyc-7b13-2t-torch2.13"),
        (
            {"device_name": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "threads": 4},
            "cpu-intel-xeon-platinum-8481c-4t-torch2.13",
        ),
        ({"cpu_model": "AMD EPYC family 26 model 2 stepping 1"}, "cpu-amd-epyc-7b13-f26m2-2t-torch2.13"),
        ({"device": "cuda", "device_name": "NVIDIA H200"}, "cuda-nvidia-h200-torch2.13"),
        ({"settings": {"MKL_CBWR": "AVX2"}}, "cpu-amd-epyc-7b13-2t-torch2.13-mkl_cbwr.avx2"),
        ({"device_name": "../../x"}, "cpu-..-..-x-2t-torch2.13"),
    ],
)
def test_slugs(record: dict[str, Any], change: dict[str, Any], expected: str) -> None:
    assert slug(record | {"cpu_model": "A CPU"} | change) == expected


def test_long_slugs_stay_unique(record: dict[str, Any]) -> None:
    long = record | {"settings": {"KMP_AFFINITY": "granularity=fine," * 4, "OMP_PLACES": "cores" * 8}}
    assert len(slug(long)) == 100
    assert slug(long).endswith(fingerprint(long))


class FakeNvml(SimpleNamespace):
    class NVMLError(Exception):
        pass

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def nvmlInit(self) -> None: ...
    def nvmlShutdown(self) -> None: ...
    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.65.06"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        assert uuid == "GPU-1234"
        return uuid

    def nvmlDeviceGetMaxClockInfo(self, handle: str, clock: int) -> int:
        return 1980 if clock == self.NVML_CLOCK_SM else 3201

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: str) -> int:
        raise self.NVMLError("not supported")


def test_gpu_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(
        name="NVIDIA H200", total_memory=150, major=9, minor=0, multi_processor_count=132, uuid="1234"
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: 91002)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    env = describe("cuda:0")
    assert (env["device"], env["device_name"], env["cuda"], env["driver"]) == (
        "cuda", "NVIDIA H200", "13.0", "580.65.06",
    )  # fmt: skip
    assert env["gpu"] == {
        "compute_capability": "9.0",
        "multiprocessors": 132,
        "cudnn": "91002",
        "sm_clock_max_mhz": 1980,
        "memory_clock_max_mhz": 3201,
        "power_limit_w": None,
    }
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert describe("cuda")["driver"] is None
    with pytest.raises(DeviceError, match="no device cuda:1"):
        describe("cuda:1")


@pytest.mark.parametrize(
    ("device", "kind", "current"), [("cpu", "cpu", []), ("cuda", "cuda", [0]), ("cuda:1", "cuda", [1])]
)
def test_a_device_is_made_the_current_one(
    device: str, kind: str, current: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    assert select(device) == kind
    assert chosen == current


def test_what_torch_refuses_to_tell_is_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after `torch.backends.fp32_precision` was set."""

    def refuse() -> str:
        raise RuntimeError("PyTorch is checking whether allow_tf32 is a mix of the legacy and new APIs")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    assert describe()["settings"]["float32_matmul_precision"] == "other"


def test_processors_of_arm_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_part(part: str) -> str:
        fields = ("processor", "0"), ("CPU implementer", "0x41"), ("CPU part", part), ("CPU revision", "1")
        text = "".join(f"{key}\t: {value}\n" for key, value in fields)
        monkeypatch.setattr(record_module, "file_text", lambda path: text if path == "/proc/cpuinfo" else "")
        return str(record_module.describe_machine()["cpu_model"])

    assert of_part("0xd0c") != of_part("0xd40")
    assert of_part("0xd0c").endswith("implementer 0x41 part 0xd0c revision 1")
