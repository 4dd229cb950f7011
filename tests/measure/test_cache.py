"""Measurements are kept by content; whatever is wrong with the cache only costs time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from statsnet.environment import cache_dir
from statsnet.measure.cache import MeasurementCache


def test_values_come_back(tmp_path: Path) -> None:
    cache = MeasurementCache(tmp_path)
    key = cache.key(a=1, b=(2, 3))
    assert cache.get(key) is None
    cache.put(key, {"x": [1.5]})
    assert MeasurementCache(tmp_path).get(key) == {"x": [1.5]}
    assert MeasurementCache(tmp_path, enabled=False).get(key) is None


def test_a_fresh_one_gives_what_was_put_since(tmp_path: Path) -> None:
    old = MeasurementCache(tmp_path)
    key = old.key(a=1)
    old.put(key, 5)
    began = time.time_ns()
    fresh = MeasurementCache(tmp_path, fresh_since_ns=began)
    assert fresh.get(key) is None
    fresh.put(key, 6)
    assert fresh.get(key) == old.get(key) == 6
    assert MeasurementCache(tmp_path, fresh_since_ns=began).get(key) == 6  # a run that is taken up again


def test_keys_depend_on_content_alone(tmp_path: Path) -> None:
    cache = MeasurementCache(tmp_path)
    assert cache.key(a=1, b=(2,)) == cache.key(b=[2], a=1)
    assert cache.key(a=1) != cache.key(a=2)


def test_a_damaged_entry_counts_as_absent(tmp_path: Path) -> None:
    cache = MeasurementCache(tmp_path)
    key = cache.key(a=1)
    cache.put(key, 5)
    (path,) = tmp_path.rglob("*.json")
    for text in ("{", "[]", '{"other": 1}', ""):
        path.write_text(text, encoding="utf-8")
        assert cache.get(key) is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    cache = MeasurementCache(blocked)
    cache.put(cache.key(a=1), 5)
    assert cache.get(cache.key(a=1)) is None


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("STATSNET_CACHE", raising=False)
    assert cache_dir() == tmp_path / "xdg" / "statsnet"
    monkeypatch.setenv("STATSNET_CACHE", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"
