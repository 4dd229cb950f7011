"""Mixes: text to weights, names to signatures."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import statsnet
from statsnet.environment import fingerprint
from statsnet.errors import FileFormatError, UsageError
from statsnet.signatures.database import ProfilesDB, default_profiles_dir
from statsnet.signatures.mix import Mix, resolve_mix
from statsnet.signatures.mix_request import parse_mix
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import save_signature


def weights(mix: Mix) -> dict[str, Any]:
    return {m.name: pytest.approx(m.weight) for m in mix.members}


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("recsys:0.5,cv:0.5", [("recsys", 0.5), ("cv", 0.5)]),
        (" recsys : 1 , cv: 3 ", [("recsys", 0.25), ("cv", 0.75)]),
        ("cv/resnet50:2e0", [("cv/resnet50", 1.0)]),
        ("C:/a.json:1", [("C:/a.json", 1.0)]),
        ("cv:1e308,nlp:1e308", [("cv", 0.5), ("nlp", 0.5)]),
    ],
)
def test_weights_are_normalised(text: str, parsed: list[tuple[str, float]]) -> None:
    assert [(r.name, r.weight) for r in parse_mix(text)] == parsed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (" , ", "is empty"),
        ("cv:1,,nlp:1", "empty part"),
        ("cv:1,", "empty part"),
        ("cv", "'cv' has no weight"),
        ("cv:1,nlp", "'nlp' has no weight"),
        (":1", "has no name"),
        ("cv:", "'' is not a weight for 'cv'"),
        ("cv:half", "'half' is not a weight"),
        ("cv:0", "'0' is not a weight"),
        ("cv:-1", "'-1' is not a weight"),
        ("cv:nan", "'nan' is not a weight"),
        ("cv:inf", "'inf' is not a weight"),
        ("cv:1_0", "'1_0' is not a weight"),
        ("cv:1,cv:2", "'cv' stands twice"),
        ("cv:1e300,nlp:1e-300", "too far apart"),
    ],
)
def test_bad_mixes_are_usage_errors(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_mix(text)
    assert message in caught.value.message
    assert caught.value.exit_code == 2
    assert caught.value.hint


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8))
def test_shares_keep_their_ratios(values: list[float]) -> None:
    parsed = parse_mix(",".join(f"w{i}:{v!r}" for i, v in enumerate(values)))
    assert sum(r.weight for r in parsed) == pytest.approx(1)
    assert [r.weight / parsed[0].weight for r in parsed] == pytest.approx([v / values[0] for v in values])


def test_listing_reads_names_only(profiles: Path) -> None:
    for path in profiles.glob("*/*/*.json"):
        path.write_text("not read")
    (profiles / "machine-a" / "cv" / "notes.json").write_text("no mode in the name")
    (profiles / "machine-a" / "cv" / ".dense.inference.json").write_text("hidden")
    (profiles / "README.md").write_text("no profile")
    (profiles / "meta" / "llm").mkdir(parents=True)
    (profiles / "meta" / "llm" / "large.inference.json").write_text("counted, not measured")
    db = ProfilesDB(profiles)
    assert db.domains == ("cv", "recsys")
    assert db.names == ("cv/dense", "cv/wide", "recsys/sparse")
    assert [(e.environment, e.mode) for e in db.find("dense")] == [
        ("machine-a", "inference"),
        ("machine-b", "inference"),
        ("machine-b", "training"),
    ]
    assert [e.environment for e in db.find("cv/dense", "training")] == ["machine-b"]
    assert db.find("nothing") == ()
    assert [e.name for e in db.counts] == ["llm/large"]
    assert db.find("large") == ()


def test_an_absent_database_is_empty(tmp_path: Path) -> None:
    db = ProfilesDB(tmp_path / "none")
    assert db.entries == ()
    with pytest.raises(UsageError, match="'cv' is not known"):
        resolve_mix("cv:1", "inference", db)


def test_a_short_name_must_be_unique(profiles: Path) -> None:
    shutil.copytree(profiles / "machine-b" / "cv", profiles / "machine-b" / "nlp")
    with pytest.raises(UsageError, match="several workloads") as caught:
        ProfilesDB(profiles).find("dense")
    assert caught.value.cause == "cv/dense, nlp/dense"


def test_a_file_must_hold_what_its_name_says(profiles: Path) -> None:
    folder = profiles / "machine-a" / "cv"
    (folder / "dense.inference.json").rename(folder / "other.inference.json")
    with pytest.raises(FileFormatError, match="does not hold what its name says"):
        resolve_mix("other:1", "inference", ProfilesDB(profiles))


def test_default_database_is_beside_the_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert default_profiles_dir().name == "profiles_db"
    package = tmp_path / "statsnet"
    package.mkdir()
    monkeypatch.setattr(statsnet, "__file__", str(package / "__init__.py"))
    assert default_profiles_dir() == tmp_path / "profiles_db"
    (package / "profiles_db").mkdir()
    assert default_profiles_dir() == package / "profiles_db"


def test_domain_stands_for_its_workloads_in_equal_shares(profiles: Path) -> None:
    mix = resolve_mix("cv:0.5,recsys:0.5", "inference", ProfilesDB(profiles))
    assert weights(mix) == {"cv/dense": 0.25, "cv/wide": 0.25, "recsys/sparse": 0.5}
    assert [m.source for m in mix.members] == ["database"] * 3


def test_weights_of_a_workload_reached_twice_add_up(profiles: Path) -> None:
    mix = resolve_mix("cv:0.5,dense:0.25,cv/dense:0.25", "inference", ProfilesDB(profiles))
    assert weights(mix) == {"cv/dense": 0.75, "cv/wide": 0.25}


def test_the_environment_asked_for_is_preferred_then_one_for_all(profiles: Path, record: dict[str, Any]) -> None:
    db, eight = ProfilesDB(profiles), fingerprint(record | {"threads": 8})

    def folders(text: str, environment: str | None = None) -> set[str]:
        mix = resolve_mix(text, "inference", db, environment=environment)
        return {m.path.parent.parent.name for m in mix.members}

    assert folders("dense:1") == {"machine-a"}
    assert folders("dense:1", eight) == {"machine-b"}
    assert folders("dense:1", fingerprint(record)) == {"machine-a"}
    assert folders("dense:1", "0" * 12) == {"machine-a"}
    assert folders("cv:1") == {"machine-b"}
    assert folders("dense:1,sparse:1") == {"machine-a"}
    assert folders("dense:1,sparse:1", eight) == {"machine-b", "machine-a"}
    mixed = resolve_mix("cv:1,sparse:1", "inference", db, environment=eight)
    assert len(mixed.environments) == 2
    assert {m.name: m.path.parent.parent.name for m in mixed.members} == {
        "cv/dense": "machine-b",
        "cv/wide": "machine-b",
        "recsys/sparse": "machine-a",
    }


@pytest.mark.parametrize(
    ("text", "mode", "message", "more"),
    [
        ("resnet:1", "inference", "'resnet' is no domain", "known domains: cv, recsys"),
        ("dens:1", "inference", "'dens' is no domain", "did you mean dense or"),
        ("cv/dens:1", "inference", "'cv/dens' is no domain", "cv/dense"),
        ("resys:1", "inference", "'resys' is no domain", "recsys"),
        ("recsys:1", "training", "no training profile of 'recsys'", "there is inference"),
        ("cv/wide:1", "training", "no training profile of 'cv/wide'", "--mode inference"),
        ("cv:1", "both", "'both' is not a mode", "inference or training"),
    ],
)
def test_what_is_not_there_is_explained(profiles: Path, text: str, mode: str, message: str, more: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_mix(text, mode, ProfilesDB(profiles))
    assert message in caught.value.message
    assert more in caught.value.cause + caught.value.hint


def test_files_are_members_named_without_their_path(
    profiles: Path, tmp_path: Path, make_dense: Callable[..., Signature]
) -> None:
    customer = make_dense(workload=None, batch=3)
    path = tmp_path / "customer_secret.json"
    save_signature(path, customer)
    mix = resolve_mix(f"sparse:1,{path}:1", "inference", ProfilesDB(profiles))
    assert weights(mix) == {"recsys/sparse": 0.5, f"signature-{(mix.members[1].keyed_id or '')[7:15]}": 0.5}
    assert mix.members[1].source == "file"
    assert mix.members[1].path == path


def test_a_file_of_a_shipped_workload(profiles: Path, tmp_path: Path, make_dense: Callable[..., Signature]) -> None:
    same, other = tmp_path / "same.json", tmp_path / "other.json"
    save_signature(same, make_dense())
    save_signature(other, make_dense(batch=3))
    mix = resolve_mix(f"dense:1,{same}:2,{other}:1", "inference", ProfilesDB(profiles))
    assert weights(mix) == {"cv/dense": 0.75, f"cv/dense@{make_dense(batch=3).id[7:15]}": 0.25}


def test_files_are_checked(profiles: Path, tmp_path: Path, make_dense: Callable[..., Signature]) -> None:
    db, path = ProfilesDB(profiles), tmp_path / "t.json"
    with pytest.raises(FileFormatError, match="does not exist"):
        resolve_mix(f"{path}:1", "inference", db)
    save_signature(path, make_dense(mode="training", optimizer="sgd"))
    with pytest.raises(UsageError, match="is a signature of training, not of inference"):
        resolve_mix(f"{path}:1", "inference", db)


def test_a_title_says_what_is_mixed_and_names_no_path(profiles: Path, make_dense: Callable[..., Signature]) -> None:
    secret = profiles.parent / "secret.json"
    save_signature(secret, make_dense(workload=None))
    db = ProfilesDB(profiles)
    assert resolve_mix("sparse:1,cv:3", "inference", db).title == "sparse:0.25,cv:0.75"
    title = resolve_mix(f"sparse:1,{secret}:1", "inference", db).title
    assert re.fullmatch("sparse:0.5,signature-[0-9a-f]{8}:0.5", title)
    mix_file = profiles.parent / "secret.yaml"
    mix_file.write_text("members: [{file: secret.json, weight: 1}, {file: ./secret.json, weight: 1}]")
    mix = resolve_mix(str(mix_file), "inference", db)
    assert "secret" not in mix.title
    assert [member.weight for member in mix.members] == [1.0]
