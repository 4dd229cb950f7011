"""Limits of containers: control groups of both versions, as /proc and /sys show them inside and outside of one."""

from __future__ import annotations

import os

import pytest

from statsnet.environment import describe, quota_env, record
from statsnet.environment.memory import memory_at_hand_bytes
from statsnet.measure.process import child_environment, measuring_environment

GIB = 1 << 30
V2 = "29 23 0:26 {root} /sys/fs/cgroup ro,nosuid shared:4 - cgroup2 cgroup rw,nsdelegate"
V1_CPU = "33 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct ro master:9 - cgroup cgroup rw,cpu,cpuacct"
V1_MEMORY = "36 31 0:32 {root} /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"
V1_NAMED = "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd"
V1_GROUPS = "11:memory:/docker/4f\n4:cpu,cpuacct:/docker/4f\n1:name=systemd:/docker/4f\n"
NO_LIMIT = "9223372036854771712\n"


class Machine:
    """64 cores and 256 GiB; what /proc and /sys show of groups."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: dict[str, str] = {}
        monkeypatch.setattr(record, "file_text", lambda path: self.files.get(os.path.normpath(path), ""))
        monkeypatch.setattr(record.os, "sched_getaffinity", lambda _: set(range(64)), raising=False)
        monkeypatch.setattr(record.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 256 * GIB // 4096}.get)
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            monkeypatch.delenv(name, raising=False)

    def shows(self, groups: str, mounts: list[str], root: str = "/", **limits: str) -> None:
        """`limits` are files below /sys/fs/cgroup."""
        self.files["/proc/self/cgroup"] = groups
        lines = ["22 20 0:20 / /proc rw - proc proc rw", *(m.format(root=root) for m in mounts)]
        self.files["/proc/self/mountinfo"] = "\n".join(lines) + "\n"
        self.files |= {f"/sys/fs/cgroup/{path}": text for path, text in limits.items()}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def seen() -> tuple[int, int]:
    return record.usable_cores(), record.usable_memory_bytes() // GIB


def test_without_groups_the_whole_machine_is_there(machine: Machine) -> None:
    assert seen() == (64, 256)
    assert quota_env() == {}


def test_version_2_inside_a_container(machine: Machine) -> None:
    machine.shows("0::/\n", [V2], **{"cpu.max": "200000 100000\n", "memory.max": f"{4 * GIB}\n"})
    assert seen() == (2, 4)


def test_version_2_without_limits(machine: Machine) -> None:
    machine.shows("0::/\n", [V2], **{"cpu.max": "max 100000\n", "memory.max": "max\n"})
    assert seen() == (64, 256)


def test_version_1_inside_a_container_shows_paths_of_the_host(machine: Machine) -> None:
    machine.shows(
        V1_GROUPS, [V1_CPU, V1_MEMORY, V1_NAMED], root="/docker/4f",
        **{"cpu,cpuacct/cpu.cfs_quota_us": "350000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
           "memory/memory.limit_in_bytes": f"{8 * GIB}\n"},
    )  # fmt: skip
    assert seen() == (3, 8)


def test_version_1_without_limits(machine: Machine) -> None:
    machine.shows(
        V1_GROUPS, [V1_CPU, V1_MEMORY],
        **{"cpu,cpuacct/docker/4f/cpu.cfs_quota_us": "-1\n", "cpu,cpuacct/docker/4f/cpu.cfs_period_us": "100000\n",
           "memory/docker/4f/memory.limit_in_bytes": NO_LIMIT},
    )  # fmt: skip
    assert seen() == (64, 256)


def test_the_tightest_of_all_groups_around_a_process_counts(machine: Machine) -> None:
    """A service within a slice: systemd limits the slice."""
    machine.shows(
        "0::/user.slice/user-1.slice/job.scope\n", [V2],
        **{"user.slice/user-1.slice/job.scope/cpu.max": "max 100000\n", "user.slice/cpu.max": "450000 50000\n",
           "user.slice/user-1.slice/memory.max": f"{3 * GIB}\n",
           "user.slice/user-1.slice/job.scope/memory.max": f"{5 * GIB}\n"},
    )  # fmt: skip
    assert seen() == (9, 3)


def test_both_versions_at_once(machine: Machine) -> None:
    """Version 1 limits the CPU, version 2 is mounted beside it and limits nothing."""
    unified = V2.replace("/sys/fs/cgroup", "/sys/fs/cgroup/unified")
    machine.shows(
        "2:cpu,cpuacct:/job\n0::/job\n", [V1_CPU, unified],
        **{"cpu,cpuacct/job/cpu.cfs_quota_us": "100000", "cpu,cpuacct/job/cpu.cfs_period_us": "100000",
           "unified/job/cpu.max": "max 100000"},
    )  # fmt: skip
    assert seen() == (1, 256)


def test_less_than_a_core_is_one(machine: Machine) -> None:
    machine.shows("0::/\n", [V2], **{"cpu.max": "50000 100000\n"})
    assert seen() == (1, 256)


@pytest.mark.parametrize("text", ["", "200000", "nonsense 1", "200000 0", "-1 100000"])
def test_what_makes_no_sense_limits_nothing(machine: Machine, text: str) -> None:
    machine.shows("0::/../../outside\n", [V2], **{"cpu.max": text, "memory.max": text, "memory.limit_in_bytes": "0"})
    assert record.usable_cores() == 64


def test_measuring_processes_start_as_many_threads_as_the_quota_allows(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.shows("0::/\n", [V2], **{"cpu.max": "200000 100000\n"})
    assert child_environment()["OMP_NUM_THREADS"] == child_environment()["MKL_NUM_THREADS"] == "2"
    here = measuring_environment()
    assert (here["threads"], here["cores"]) == (2, 2)
    assert here["settings"]["OMP_NUM_THREADS"] == "2"
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert child_environment()["OMP_NUM_THREADS"] == "7", "what the user chose counts"
    assert quota_env() == {}


def test_the_record_names_what_the_container_has(machine: Machine) -> None:
    machine.shows("0::/\n", [V2], **{"cpu.max": "200000 100000\n", "memory.max": f"{4 * GIB}\n"})
    here = describe()
    assert (here["cores"], here["memory_bytes"]) == (2, 4 * GIB)


def test_memory_at_hand_is_what_the_tightest_group_has_left(machine: Machine) -> None:
    machine.files["/proc/meminfo"] = f"MemTotal: 1 kB\nMemAvailable: {100 * GIB // 1024} kB\n"
    assert memory_at_hand_bytes() == 100 * GIB
    limits = {"memory.max": f"{4 * GIB}\n", "memory.current": f"{3 * GIB}\n"}
    machine.shows("0::/\n", [V2], **limits, **{"memory.stat": f"anon 5\ninactive_file {GIB}\n"})
    assert memory_at_hand_bytes() == 2 * GIB
    machine.shows("0::/\n", [V2], **limits | {"memory.max": "max\n"})
    assert memory_at_hand_bytes() == 100 * GIB


def test_memory_at_hand_in_a_group_of_version_1(machine: Machine) -> None:
    limits = {"memory/memory.limit_in_bytes": f"{8 * GIB}\n", "memory/memory.usage_in_bytes": f"{9 * GIB}\n"}
    machine.shows(V1_GROUPS, [V1_MEMORY], root="/docker/4f", **limits)
    assert memory_at_hand_bytes() == 0
