"""Mixes for recorded devices in another dtype than the database's counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cli_support import GOLDEN
from synthesis_builders import TINY

from statsnet.devices import counted_dtypes
from statsnet.devices.counted_dtypes import CountsInDtype, dtype_asked
from statsnet.devices.make_proxy import MakeOptions, counted_mix
from statsnet.errors import UsageError
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import run
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.storage import load_signature, save_signature


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("profiles")
    signature = run(ProfileWorkload(model=replace(TINY, mode="inference"), device="meta")).signature
    folder = root / "meta" / "recsys"
    folder.mkdir(parents=True)
    save_signature(folder / "ncf.inference.json", signature)
    return root


def test_a_workload_is_counted_in_the_dtype_asked_for(
    counts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = MeasurementCache(tmp_path)
    mix = resolve_mix("recsys:1", "inference", CountsInDtype(counts, "bfloat16", cache))
    (member,) = mix.members
    assert member.signature.dtype == "bfloat16" and not member.signature.measurements
    known = resolve_mix("ncf:1", "inference", CountsInDtype(counts, "float32", cache)).members[0].signature
    assert known.dtype == "float32"
    assert member.signature.memory.parameter_count == known.memory.parameter_count
    assert member.signature.workload == known.workload

    def nothing(*args: object, **kwargs: object) -> object:
        raise AssertionError("counted again")

    monkeypatch.setattr(counted_dtypes, "run", nothing)
    again = resolve_mix("recsys:1", "inference", CountsInDtype(counts, "bfloat16", cache))
    assert again.members[0].signature == member.signature


def test_measured_sizes_take_the_place_of_counts_that_lack_and_a_note_says_so(tmp_path: Path) -> None:
    golden = load_signature(GOLDEN)
    assert golden.workload is not None
    domain, name = golden.workload.domain, golden.workload.name
    save_signature(tmp_path / "here" / domain / f"{name}.{golden.mode}.json", golden)
    notes: list[str] = []
    options = MakeOptions(mode=golden.mode, note=notes.append)
    fallen_back = counted_mix(f"{domain}:1", ProfilesDB(tmp_path), "", options)
    assert fallen_back.members[0].signature == golden
    assert any("the sizes that were measured" in note for note in notes)
    save_signature(tmp_path / "meta" / domain / f"{name}.{golden.mode}.json", replace(golden, measurements=()))
    notes.clear()
    counted = counted_mix(f"{domain}:1", ProfilesDB(tmp_path), "", options)
    assert not counted.members[0].signature.measurements
    assert not notes


def test_a_mix_has_one_dtype(tmp_path: Path) -> None:
    assert dtype_asked("llm:1", None) is None
    assert dtype_asked("llm:1", "bfloat16") == "bfloat16"
    path = tmp_path / "suite.yaml"
    path.write_text("members:\n  - {domain: llm, weight: 1, dtype: bfloat16}\n  - {domain: cv, weight: 1}\n")
    assert dtype_asked(str(path), None) == "bfloat16"
    with pytest.raises(UsageError, match="bfloat16 and float16"):
        dtype_asked(str(path), "float16")
