"""Times in another unit than microseconds are found out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recording_files import launch, operator, step, write

from statsnet.errors import FileFormatError
from statsnet.recordings.kineto import read_kineto

VIEWS = [operator("aten::t", 1001 + 2 * i, 0.5 + i % 3, [[8, 8]], ["float"], [""]) for i in range(20)]
WORK = [operator("aten::relu", 1045, 15, [[8, 8]], ["float"], [""]), *launch(1, 1047, "relu_kernel", 1055, 5)]


def in_unit(events: list[dict[str, Any]], factor: float) -> list[dict[str, Any]]:
    return [e | {"ts": f"{e['ts'] * factor:.9f}", "dur": f"{e['dur'] * factor:.9f}"} for e in events]


def notes(path: Path) -> str:
    return " ".join(read_kineto(path).notes)


@pytest.mark.parametrize(
    ("factor", "unit"),
    [(1e3, "nanoseconds"), (1e-3, "milliseconds"), (1e-6, "milliseconds or seconds"), (1.0, ""), (30.0, "")],
)
def test_what_takes_as_long_everywhere_tells_the_unit(tmp_path: Path, factor: float, unit: str) -> None:
    """A host that is 30 times slower is not refused, nor is `displayTimeUnit` a unit of times."""
    path = write(tmp_path / "t.json", in_unit([step(1, 1000, 100_000), *VIEWS, *WORK], factor), displayTimeUnit="ns")
    if unit:
        with pytest.raises(FileFormatError, match=f"are {unit}, not microseconds(.|\\n)*try: convert the times"):
            read_kineto(path)
    else:
        assert "not microseconds" not in notes(path)


def test_a_date_tells_the_unit(tmp_path: Path) -> None:
    """Of a clock that began in 1970, and of one that begins with every quarter of a year."""
    for name, begin, factor, head in (("old", 1.7e15, 1e3, {}), ("new", 4e12, 1e3, {"baseTimeNanoseconds": 10**18})):
        events = [e | {"ts": int((begin + e["ts"]) * factor)} for e in WORK]
        with pytest.raises(FileFormatError, match="are nanoseconds, not microseconds"):
            read_kineto(write(tmp_path / f"{name}.json", events, **head))


def test_rates_beyond_any_device(tmp_path: Path) -> None:
    """If most of the work has them, the unit is wrong; if little has, something was not recorded."""

    def product(ts: float, kernel_us: float, number: int, size: int) -> list[dict[str, Any]]:
        called = operator("aten::mm", ts, 15, [[size, size], [size, size]], ["float", "float"], ["", ""])
        return [called, *launch(number, ts + 2, "ampere_sgemm_128x64_nn", ts + 8, kernel_us)]

    fast = product(1040, 0.5, 2, 4096)
    with pytest.raises(
        FileFormatError, match=r"shorter than any device could be(.|\n)*kernels or shapes\s+are missing"
    ):
        read_kineto(write(tmp_path / "t.json", [step(1, 1000, 200), *WORK, *fast]))
    usual = product(1100, 90_000, 3, 8192)
    path = write(tmp_path / "u.json", [step(1, 1000, 100_000), *WORK, *fast, *usual])
    assert "1 kind of operators took less time than any device needs" in notes(path)


def test_a_few_calls_only_raise_a_doubt(tmp_path: Path) -> None:
    """Launches alone may be slow: some tools run each kernel many times within one."""
    path = write(tmp_path / "t.json", in_unit([step(1, 1000, 100), *WORK], 1e3))
    assert "the times may be nanoseconds, not microseconds" in notes(path)
    assert "not microseconds" not in notes(write(tmp_path / "u.json", [step(1, 1000, 100), *WORK]))


def test_the_first_allocations_of_a_device_may_take_long(tmp_path: Path) -> None:
    first = [operator("aten::empty_strided", 1000 + 400 * i, 300, [[]], [""], [""]) for i in range(25)]
    assert "the times may be nanoseconds" in notes(
        write(tmp_path / "t.json", [step(1, 900, 20_000), *first, *in_unit(WORK, 10)])
    )


def test_what_is_no_date_tells_no_unit(tmp_path: Path) -> None:
    """Times that are no numbers, and a clock's beginning that no date has."""
    nowhere = [e | {"ts": ts} for e in WORK for ts in ("soon", "NaN", [1], -(10**30))]
    with pytest.raises(FileFormatError) as refused:
        read_kineto(write(tmp_path / "t.json", nowhere))
    assert "nanoseconds" not in str(refused.value)
    path = write(tmp_path / "u.json", [step(1, 1000, 200), *VIEWS, *WORK], baseTimeNanoseconds=10**400)
    assert "not microseconds" not in notes(path)
