"""Measurements are kept by content; whatever is wrong with the cache only costs time."""

from __future__ import annotations

import os
import pwd
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from statsnet.cli import main
from statsnet.environment import cache_dir
from statsnet.errors import StatsNetError
from statsnet.measure.cache import IN_KEYS, CacheContents, MeasurementCache, code_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    times_s: tuple[float, ...]
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    inner: tuple[Inner, ...]
    config: dict[str, Any] = field(default_factory=dict)


KEPT = Kept(inner=(Inner(times_s=(1.5, 2.0)), Inner(times_s=(), name="a")), config={"size": [2, 3]})


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (KEPT, Kept),
        ([KEPT, KEPT], list[Kept]),
        ({"x": 2.0}, dict[str, float]),
        (2.0, float),
        ({"x": [1.5]}, Any),
    ],
)
def test_values_come_back(value: Any, kind: Any, tmp_path: Path) -> None:
    cache = MeasurementCache(tmp_path)
    key = cache.key(a=1, b=(2, 3))
    assert cache.get(key, kind) is None
    cache.put(key, value)
    again = MeasurementCache(tmp_path).get(key, kind)
    assert (again, type(again)) == (value, type(value))


def test_what_is_remembered_is_measured_once(tmp_path: Path) -> None:
    cache, measured = MeasurementCache(tmp_path), []

    def measure() -> Kept:
        measured.append(1)
        return KEPT

    for _ in range(2):
        assert cache.remember("a key", Kept, measure) == KEPT
    assert len(measured) == 1


@pytest.mark.parametrize(
    "other",
    [
        5,
        "a text",
        [KEPT],
        Inner(times_s=(1.0,)),  # a field is missing
        {"inner": 3},
        {"inner": [{"times_s": ["1.5"]}]},
        {"inner": [{"times_s": [None]}]},
    ],
)
def test_an_entry_of_another_form_counts_as_absent(other: Any, tmp_path: Path) -> None:
    """As that of a version before; what is measured then takes its place."""
    cache = MeasurementCache(tmp_path)
    cache.put("a key", other)
    assert cache.get("a key", Kept) is None
    assert cache.remember("a key", Kept, lambda: KEPT) == KEPT
    assert cache.get("a key", Kept) == KEPT


def test_a_fresh_one_gives_what_was_put_since(tmp_path: Path) -> None:
    old = MeasurementCache(tmp_path)
    key = old.key(a=1)
    old.put(key, 5)
    began = time.time_ns()
    fresh = MeasurementCache(tmp_path, fresh_since_ns=began)
    assert fresh.get(key, int) is None
    fresh.put(key, 6)
    assert fresh.get(key, int) == old.get(key, int) == 6
    assert MeasurementCache(tmp_path, fresh_since_ns=began).get(key, int) == 6  # a run that is taken up again


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
        assert cache.get(key, int) is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    cache = MeasurementCache(blocked)
    cache.put(cache.key(a=1), 5)
    assert cache.get(cache.key(a=1), int) is None


def test_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("STATSNET_CACHE", raising=False)
    assert cache_dir() == tmp_path / "xdg" / "statsnet"
    monkeypatch.setenv("STATSNET_CACHE", str(tmp_path / "own"))
    assert cache_dir() == tmp_path / "own"


def test_contents_are_counted_and_cleared(tmp_path: Path) -> None:
    """What else lies in the folder stays."""
    cache, other = MeasurementCache(tmp_path), tmp_path / "ab" / "mine.json"
    assert cache.contents() == CacheContents(folder=str(tmp_path), entries=0, bytes=0, oldest_s=None)
    for name in "ab":
        cache.put(cache.key(name=name), 1.5)
    other.parent.mkdir(exist_ok=True)
    other.write_text("1")
    contents = cache.contents()
    assert (contents.entries, contents.bytes > 0, contents.oldest_s is not None) == (2, True, True)
    cache.clear()
    assert cache.contents().entries == 0
    assert cache.get(cache.key(name="a"), float) is None
    assert other.read_text() == "1"


def test_what_is_measured_comes_back_as_later_runs_read_it(tmp_path: Path) -> None:
    """With the digits that files hold, so that both runs come to the same results."""
    cache = MeasurementCache(tmp_path)
    first = cache.remember("ab12", float, lambda: 1 / 3)
    assert first == MeasurementCache(tmp_path).get("ab12", float)
    assert first == pytest.approx(1 / 3)


def test_keys_cover_the_code_of_blocks_and_formulas(tmp_path: Path) -> None:
    for number, folder in enumerate(IN_KEYS):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("x = 1")
        seen = {code_digest.__wrapped__(tmp_path), code_digest.__wrapped__(tmp_path)}
        (tmp_path / folder / "a.py").write_text("x = 2")
        seen.add(code_digest.__wrapped__(tmp_path))
        (tmp_path / folder / "a.py").rename(tmp_path / folder / "b.py")
        seen.add(code_digest.__wrapped__(tmp_path))
        (tmp_path / folder / "c.txt").write_text("no code")
        seen.add(code_digest.__wrapped__(tmp_path))
        assert len(seen) == 3, number
    package = Path(os.path.realpath(code_digest.__wrapped__.__code__.co_filename)).parents[1]
    assert all(list((package / folder).glob("*.py")) for folder in IN_KEYS)


def test_a_user_without_a_home_is_told_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def unknown(_: object) -> None:
        raise KeyError

    for name in ("HOME", "XDG_CACHE_HOME", "STATSNET_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(StatsNetError, match="no folder to keep measurements") as refused:
        cache_dir()
    assert "STATSNET_CACHE" in refused.value.hint
    assert main(["cache"]) == 1
    assert "STATSNET_CACHE" in capsys.readouterr().err
