"""A mix in a YAML file: what it says, and what is said of every mistake in one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statsnet.errors import FileFormatError, StatsNetError, UsageError
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import Mix, resolve_mix
from statsnet.signatures.mix_file import load_mix_file
from statsnet.signatures.mix_request import MixRequest, Selection, mix_requests, parse_mix
from statsnet.signatures.model import Signature, WorkloadName
from statsnet.signatures.storage import save_signature

EXAMPLE = Path(__file__).parents[2] / "examples" / "recsys_cv.yaml"

WHOLE = """\
name: A suite
mode: training
budget: 10ms
notes: |
  First line.
  Second line.
members:
  - workload: cv/dense
    weight: 1
    preset: small
    batch: 8
    dtype: float32
  - domain: recsys
    weight: 2.5
  - file: own.json
    weight: 0.5
"""


@pytest.fixture
def suite(tmp_path: Path) -> Callable[[str], str]:
    """Writes a mix's file and returns its path."""

    def write(text: str) -> str:
        path = tmp_path / "suite.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def one(text: str = "workload: cv/dense, weight: 1") -> str:
    """The members of a mix of one."""
    return f"members: [{{{text}}}]\n"


def weights(mix: Mix) -> dict[str, Any]:
    return {m.name: pytest.approx(m.weight) for m in mix.members}


def test_everything_that_a_file_can_say(suite: Callable[[str], str], tmp_path: Path) -> None:
    mix = load_mix_file(suite(WHOLE))
    assert (mix.name, mix.mode, mix.budget_s, mix.compression) == ("A suite", "training", 0.01, None)
    assert mix.notes == "First line.\nSecond line.\n"
    assert mix_requests(suite(WHOLE)) == [
        MixRequest(
            name="cv/dense", weight=0.25, kind="workload", place=f"'{tmp_path}/suite.yaml', line 8, column 5",
            selection=Selection(preset="small", batch=8, dtype="float32"),
        ),
        MixRequest(
            name="recsys", weight=0.625, kind="domain", place=f"'{tmp_path}/suite.yaml', line 13, column 5"
        ),
        MixRequest(
            name=str(tmp_path / "own.json"), weight=0.125, kind="file",
            place=f"'{tmp_path}/suite.yaml', line 15, column 5",
        ),
    ]  # fmt: skip


def test_a_file_may_hold_members_alone(suite: Callable[[str], str]) -> None:
    mix = load_mix_file(suite(one()))
    assert (mix.name, mix.mode, mix.budget_s, mix.notes) == (None, None, None, "")


def test_the_example_is_the_owner_s_mix() -> None:
    asked = mix_requests(str(EXAMPLE))
    assert [(r.name, r.weight) for r in asked] == [(r.name, r.weight) for r in parse_mix("recsys:0.5,cv:0.5")]


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_both_forms_ask_for_the_same(suite: Callable[[str], str], values: list[float]) -> None:
    members = [{"domain": f"w{i}", "weight": value} for i, value in enumerate(values)]
    long = mix_requests(suite(yaml.safe_dump({"members": members})))
    short = parse_mix(",".join(f"w{i}:{value!r}" for i, value in enumerate(values)))
    assert [(r.name, r.weight) for r in long] == [(r.name, pytest.approx(r.weight)) for r in short]
    assert sum(r.weight for r in long) == pytest.approx(1)


@given(st.text(max_size=200) | st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_text_is_answered_with_a_traceback(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    with pytest.raises((UsageError, FileFormatError)):
        load_mix_file(path)


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_KEYS = ("name", "mode", "budget", "compression", "notes", "members")
_MEMBER_KEYS = ("workload", "domain", "file", "weight", "preset", "batch", "dtype")


@given(
    st.dictionaries(st.sampled_from(_KEYS), _PLAIN),
    st.none() | st.lists(st.dictionaries(st.sampled_from(_MEMBER_KEYS), _PLAIN), max_size=2),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_value_of_any_type_is_taken_or_named_with_its_place(
    tmp_path: Path, data: dict[str, Any], members: list[Any] | None
) -> None:
    path = tmp_path / "any.yaml"
    path.write_text(yaml.safe_dump(data if members is None else {**data, "members": members}))
    try:
        mix = load_mix_file(path)
    except StatsNetError as refused:
        said = refused
    else:
        assert all(type(m.weight) is float and m.weight > 0 for m in mix.members)
        assert mix.budget_s is None or mix.budget_s > 0
        return
    assert "any.yaml" in said.message
    assert said.cause


@pytest.mark.parametrize(
    ("text", "message", "more"),
    [
        (one("workload: cv/dense, wieght: 1"), "line 1, column 32: 'wieght' is not a key of a member", "mean weight?"),
        ("nam: x\n" + one(), "line 1, column 1: 'nam' is not a key of a mix", "did you mean name"),
        ("settings: x\n" + one(), "'settings' is not a key of a mix", "one of name, mode, members"),
        (one("workload: a, weight: 1, settings: x"), "'settings' is not a key of a member", "one of workload, domain"),
        ("name: x\n", "line 1, column 1: the mix has no members", "a list"),
        ("members: []\n", "line 1, column 10: a list is not a value of members", "1 to 1000"),
        ("members:\n", "nothing is not a value of members", "a list"),
        ("members: cv\n", "'cv' is not a value of members", "a list"),
        ("members: [cv]\n", "'cv' is not a member", "keys and values"),
        ("members: {workload: cv}\n", "a group of keys is not a value of members", "a list"),
        ("- workload: cv\n  weight: 1\n", "a list is not a mix", "keys and values"),
        ("recsys:0.5,cv:0.5\n", "'recsys:0.5,cv:0.5' is not a mix", "keys and values"),
        (one("workload: a"), "a member has no weight", "a positive number"),
        (one("weight: 1"), "a member has no workload, domain or file", "one of workload, domain and file"),
        (one("workload: a, domain: b, weight: 1"), "a member has both workload and domain", "one of"),
        (one("file: a.json, weight: 1, batch: 4"), "line 1, column 44: a file has no batch to choose", "weight alone"),
        (one("workload: a, weight: 0"), "line 1, column 33: '0' is not a value of weight", "a positive number"),
        (one("workload: a, weight: -1"), "'-1' is not a value of weight", "a positive number"),
        (one("workload: a, weight: .nan"), "'.nan' is not a value of weight", "a positive number"),
        (one("workload: a, weight: .inf"), "'.inf' is not a value of weight", "a positive number"),
        (one("workload: a, weight: yes"), "'yes' is not a value of weight", "a positive number"),
        (one("workload: a, weight: '1'"), "'1' is not a value of weight", "without quotes"),
        (one("workload: a, weight: 1e3"), "'1e3' is not a value of weight", "without an exponent"),
        (one("workload: a, weight: heavy"), "'heavy' is not a value of weight", "a positive number"),
        (one("workload: a, weight: "), "nothing is not a value of weight", "a positive number"),
        (one("workload: a, weight: [1]"), "a list is not a value of weight", "a positive number"),
        (one("workload: a, weight: 1" + 400 * "0"), "is not a value of weight", "a positive number"),
        (one("workload: a, weight: 1, batch: 0"), "'0' is not a value of batch", "a whole number"),
        (one("workload: a, weight: 1, batch: 1.5"), "'1.5' is not a value of batch", "a whole number"),
        (one("workload: a, weight: 1, preset: A b"), "'A b' is not a value of preset", "such as small"),
        (one("workload: 5, weight: 1"), "'5' is not a value of workload", "in quotes: workload: '5'"),
        (one("file: '', weight: 1"), "nothing is not a value of file", "the path"),
        ("mode: inferring\n" + one(), "line 1, column 7: 'inferring' is not a value of mode", "inference or training"),
        ("name: 2024-01-01\n" + one(), "'2024-01-01' is not a value of name", "in quotes"),
        ('name: "a\\nb"\n' + one(), "'a?b' is not a value of name", "one line"),
        ("budget: 10\n" + one(), "'10' is not a value of budget", "10ms"),
        ("budget: 10 hours\n" + one(), "'10 hours' is not a value of budget", "10ms"),
        ("compression: 0.5\n" + one(), "'0.5' is not a value of compression", "from 1 on"),
        ("budget: 1ms\ncompression: 5\n" + one(), "line 2, column 14: budget and compression were both", "one of them"),
        ("name: a\nname: b\n" + one(), "line 2, column 1: the key 'name' stands twice", "each key once"),
        (one("workload: a, weight: 1, weight: 2"), "the key 'weight' stands twice", "each key once"),
        (one("<<: {weight: 1}, workload: a"), "'<<' is not a key of a member", "one of workload"),
        ("? [a]\n: 1\n" + one(), "a list is not a key of a mix", "one of name"),
        (
            "members:\n- {domain: cv, weight: 1}\n- {domain: cv, weight: 2}\n",
            "line 3, column 3: 'cv' stands twice", "the sum of its weights",
        ),
        (
            "members:\n- {domain: cv, weight: 1.0e+300}\n- {domain: nlp, weight: 1.0e-300}\n",
            "the weights are too far apart", "",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_mix_is_said_with_its_place(
    suite: Callable[[str], str], text: str, message: str, more: str
) -> None:
    with pytest.raises(UsageError) as caught:
        mix_requests(suite(text))
    assert message in caught.value.message
    assert more in f"{caught.value.cause} {caught.value.hint}"
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("text", "message", "cause"),
    [
        ("", "is empty", "a mix is expected"),
        ("# nothing\n", "is empty", "a mix is expected"),
        ("name: [\n", "line 2, column 1: this is not the YAML of a mix", "expected"),
        ("name: a\n\tmode: b\n", "line 2, column 1", "cannot start any token"),
        ("name: 'a\n", "line 2, column 1", "unexpected end of stream"),
        ("name: a\n---\nname: b\n", "line 2, column 1", "another document"),
        ("name: \x00\n", "not the YAML of a mix", "line 1 holds the character U+0000"),
        ("a: &x [1]\n", "line 1, column 4", "anchors"),
        ("a: *x\n", "line 1, column 4", "anchors"),
        ("a: !!python/object/apply:os.system ['false']\n", "line 1, column 4", "tags"),
        ("a: !!int ''\n", "line 1, column 4", "tags"),
        ("name: 2024-13-45\n" + one(), "not the YAML of a mix", "month must be"),
        (one("workload: a, weight: 1" + 5000 * "0"), "not the YAML of a mix", "Exceeds the limit"),
        (100_000 * "[", "line 1, column 9", "deeper than 8"),
        ("members: [" + 100_000 * "a," + "]", "line 1, column", "more than any mix"),
        (100_000 * "- ", "line 1, column 17", "deeper than 8"),
        ("a: &a [x, x]\n" + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(30)), "line 1, column 4", "anchors"),
        ("#" + 2**18 * "x", "is too large", "262144 bytes"),
    ],
)  # fmt: skip
def test_what_is_no_yaml_of_a_mix(suite: Callable[[str], str], text: str, message: str, cause: str) -> None:
    with pytest.raises(FileFormatError) as caught:
        mix_requests(suite(text))
    assert message in caught.value.message
    assert cause in caught.value.cause


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    os.mkfifo(tmp_path / "pipe.yml")
    (tmp_path / "latin.yaml").write_bytes("name: Käse\n".encode("latin-1"))
    for name, message in {
        "folder.yaml": "is a folder, not a file", "pipe.yml": "is not a regular file",
        "latin.yaml": "is not a text file", "none.yaml": "does not exist",
    }.items():  # fmt: skip
        with pytest.raises(FileFormatError, match=message):
            mix_requests(str(tmp_path / name))


def test_a_file_is_resolved_as_the_short_form_is(
    suite: Callable[[str], str], profiles: Path, tmp_path: Path, make_dense: Callable[..., Signature]
) -> None:
    save_signature(tmp_path / "own.json", make_dense(workload=None, batch=3))
    db = ProfilesDB(profiles)
    text = suite("members:\n- {domain: cv, weight: 2}\n- {workload: dense, weight: 1}\n- {file: own.json, weight: 1}\n")
    long = resolve_mix(text, "inference", db)
    assert weights(long) == weights(resolve_mix(f"cv:2,dense:1,{tmp_path}/own.json:1", "inference", db))


def test_a_size_chooses_among_the_profiles_that_there_are(
    suite: Callable[[str], str], profiles: Path, make_dense: Callable[..., Signature]
) -> None:
    other = make_dense(batch=99, workload=WorkloadName(domain="cv", name="dense", preset="standard"))
    save_signature(profiles / "machine-c" / "cv" / "dense.inference.json", other)
    db = ProfilesDB(profiles)

    def resolved(members: str) -> Mix:
        return resolve_mix(suite(f"members: [{members}]"), "inference", db)

    for size in ("preset: standard", "batch: 99", "batch: 99, dtype: float32, preset: standard"):
        (member,) = resolved(f"{{workload: dense, weight: 1, {size}}}").members
        assert (member.name, member.signature.batch) == ("cv/dense", 99)
    both = resolved("{domain: cv, weight: 1, batch: 8}, {workload: dense, weight: 1, batch: 99}")
    assert weights(both) == {"cv/dense": 0.5, f"cv/dense@{other.id[7:15]}": 0.5}


@pytest.mark.parametrize(
    ("member", "message", "more"),
    [
        (
            "{workload: dense, weight: 1, preset: tiny, batch: 2}",
            "no inference profile of 'dense' with preset tiny, batch 2",
            "statsnet profile cv/dense --preset tiny --batch 2 -o FILE",
        ),
        ("{domain: cv, weight: 1, dtype: bfloat16}", "with dtype bfloat16", "-o DIR makes all that this mix lacks"),
        ("{domain: cvv, weight: 1}", "'cvv' is no domain", "did you mean cv"),
        ("{domain: dense, weight: 1}", "'dense' is no domain", "dense"),
        ("{workload: cv, weight: 1}", "'cv' is no domain", "cv"),
    ],
)  # fmt: skip
def test_what_no_profile_fits_is_said_with_its_place(
    suite: Callable[[str], str], profiles: Path, member: str, message: str, more: str
) -> None:
    path = suite(f"members:\n- {member}\n")
    with pytest.raises(UsageError) as caught:
        resolve_mix(path, "inference", ProfilesDB(profiles))
    assert f"'{path}', line 2, column 3: " in caught.value.message
    assert message in caught.value.message
    assert more in f"{caught.value.cause} {caught.value.hint}"
