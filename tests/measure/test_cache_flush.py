"""How large a buffer overwrites a device's caches, with /sys trees of our own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from statsnet.measure import cache_flush as module
from statsnet.measure.cache_flush import cache_flush, flush_bytes, last_level_bytes

MIB = 2**20


def write_cores(root: Path, *cores: tuple[int, str, str], levels: tuple[int, ...] = (1, 1, 2, 3)) -> Path:
    """Each core with the size and the sharers of its last cache; the other caches are its own."""
    for core, last_size, sharing in cores:
        for number, level in enumerate(levels):
            index = root / f"cpu{core}" / "cache" / f"index{number}"
            index.mkdir(parents=True)
            is_last = number == len(levels) - 1
            (index / "level").write_text(f"{level}\n")
            (index / "size").write_text(f"{last_size if is_last else '48K'}\n")
            (index / "shared_cpu_list").write_text(f"{sharing if is_last else core}\n")
    return root


def test_a_cache_that_cores_share_counts_once(tmp_path: Path) -> None:
    root = write_cores(tmp_path, (0, "32768K", "0-1"), (1, "32768K", "0-1"), (2, "32768K", "2-3"))
    assert last_level_bytes({0, 1}, root) == 32 * MIB
    assert last_level_bytes({0, 1, 2}, root) == 64 * MIB


def test_without_a_third_level_the_second_is_the_last(tmp_path: Path) -> None:
    root = write_cores(tmp_path, (0, "2048K", "0"), (1, "2048K", "1"), levels=(1, 1, 2))
    assert last_level_bytes({0, 1}, root) == 4 * MIB


def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    assert last_level_bytes({0, 1}, tmp_path) == 0
    root = write_cores(tmp_path, (0, "", "0"), (1, "1024K", "1"))
    (root / "cpu1" / "cache" / "index3" / "shared_cpu_list").unlink()
    assert last_level_bytes({0, 1}, root) == 0


@pytest.mark.parametrize(
    ("cores", "last_level_mib", "expected_mib"),
    [(2, 0, 64), (2, 8, 64), (2, 32, 64), (2, 480, 128), (8, 96, 192), (16, 480, 960), (96, 1152, 1024)],
)
def test_sizes_on_a_cpu(cores: int, last_level_mib: int, expected_mib: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores_to_run_on", lambda: {*range(cores)})
    monkeypatch.setattr(module, "last_level_bytes", lambda _: last_level_mib * MIB)
    assert flush_bytes("cpu") == expected_mib * MIB


@pytest.mark.parametrize("device", ["cuda", "cuda:1"])
def test_size_on_a_gpu(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = SimpleNamespace(L2_cache_size=50 * MIB)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    assert flush_bytes(device) == 100 * MIB


def test_a_flush_is_one_fill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "last_level_bytes", lambda _: 0)
    flush = cache_flush("cpu")
    with torch.profiler.profile() as profiled:
        buffer = flush()
    assert [e.key for e in profiled.key_averages()] == ["aten::fill_"]
    assert isinstance(buffer, torch.Tensor)
    assert (buffer.nbytes, buffer.dtype) == (64 * MIB, torch.float32)
    assert buffer.eq(1.0).all()
