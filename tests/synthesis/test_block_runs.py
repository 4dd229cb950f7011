"""Blocks that end the process that measures them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from statsnet.environment import describe
from statsnet.errors import ProcessError
from statsnet.measure.cache import MeasurementCache
from statsnet.synthesis.block_runs import MOST_FAULTS, PROCESSES, fastest_columns
from statsnet.synthesis.candidates import Candidate
from statsnet.synthesis.live_bench import Bench


def candidate(name: str, **config: Any) -> Candidate:
    return Candidate(kind=name, config=config, optimizer=None, scale=1.0, time_s=1e-3)


def column(time_s: float) -> dict[str, Any]:
    return {"block": {"operators": [{"time_s": time_s}]}, "optimizer": {"operators": []}}


def failing(*names: str, runs: list[list[str]], from_run: int = 0) -> Callable[..., list[dict[str, Any]]]:
    """A job whose process ends when it comes to one of these, from a run on; later runs take longer."""

    def job(wanted: Sequence[Candidate], begun: Callable[[int], None]) -> list[dict[str, Any]]:
        runs.append([c.kind for c in wanted])
        for place, c in enumerate(wanted):
            begun(place)
            if c.kind in names and len(runs) > from_run:
                raise ProcessError("a measuring process was ended by the signal SIGSEGV")
        return [column(len(runs)) for _ in wanted]

    return job


@pytest.mark.parametrize("from_run", range(PROCESSES))
def test_the_rest_is_measured_without_the_block_that_ends_its_process(from_run: int) -> None:
    runs: list[list[str]] = []
    wanted = [candidate(name) for name in "abc"]
    found, faults = fastest_columns(wanted, failing("b", runs=runs, from_run=from_run))
    first = found[wanted[0].key]["block"]["operators"][0]["time_s"]
    assert found.keys() == {wanted[0].key, wanted[2].key}
    assert list(faults) == [wanted[1].key]
    assert runs.count(["a", "c"]) == PROCESSES - from_run
    assert first == min(n for n, _ in enumerate(runs, 1) if n != from_run + 1), (
        "the fastest that has ended well"
    )


def test_many_faults_are_no_blocks_matter() -> None:
    wanted = [candidate(f"k{i}") for i in range(MOST_FAULTS + 5)]
    with pytest.raises(ProcessError, match=rf"SIGSEGV while it measured k{MOST_FAULTS} "):
        fastest_columns(wanted, failing(*(c.kind for c in wanted), runs=[]))


def test_where_no_block_was_begun_the_process_itself_is_told_of() -> None:
    found, faults = fastest_columns([candidate("a")], failing("a", runs=[]))
    assert (found, len(faults)) == ({}, 1)

    def cannot_start(*_: Any) -> list[dict[str, Any]]:
        raise ProcessError("no torch")

    with pytest.raises(ProcessError, match=r"^no torch$"):
        fastest_columns([candidate("a"), candidate("b")], cannot_start)


def test_a_real_process_that_fails_leaves_the_others_blocks(tmp_path: Path) -> None:
    notes: list[str] = []
    bench = Bench(
        environment=describe("cpu"), mode="inference", dtype="float32", device="cpu",
        cache=MeasurementCache(tmp_path), report=lambda _stage, _share: None, note=notes.append,
    )  # fmt: skip
    size = {
        "rows": 8,
        "inputs": 8,
        "outputs": 8,
        "bias": True,
        "activation": "",
        "weight_first_axis_in": False,
    }
    sound, negative = candidate("linear", **size), candidate("linear", **{**size, "outputs": -8})
    with pytest.raises(ProcessError, match="exit code 1"):
        bench.columns([negative])
    for times in (1, 2):  # the second time the sound one is from the cache, the other is tried again
        ((kept, found),) = bench.columns([negative, sound])
        assert kept == sound
        assert found["block"]["operators"]
        assert len(notes) == times
    assert "exit code 1" in notes[0] and '"outputs": -8' in notes[0]
