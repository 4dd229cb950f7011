"""Whether a model that the user names is the one that a member's signature counts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from measuring import member, write_proxy
from synthesis_builders import CLASSES, measured, small_signature

from statsnet.errors import UsageError
from statsnet.evaluation.own_models import OwnModel, parse_model, require_same_work, targets_of, work_ratio
from statsnet.signatures.documents import ProxySpec
from statsnet.signatures.measurement import Variation
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import load_spec, save_signature

OWN = small_signature()


@pytest.fixture
def spec(tmp_path: Path) -> ProxySpec:
    counted = small_signature(measurements=())
    save_signature(tmp_path / "own.json", counted)
    save_signature(tmp_path / "other.json", small_signature(measurements=(), batch=3))
    members = member("signature-12345678", 0.5, counted.id), member("cv/resnet50@large", 0.5)
    return load_spec(write_proxy(tmp_path / "p", *members) / "spec.json")


def more_calls(of: int, times: float) -> Signature:
    clusters = [replace(c, calls=times * c.calls) if i == of else c for i, c in enumerate(OWN.clusters)]
    return replace(OWN, clusters=tuple(clusters))


def refused(signature: Signature, fresh: Signature) -> str:
    with pytest.raises(UsageError, match="is not the model of 'a'") as raised:
        require_same_work("a", "m.py:make", signature, fresh)
    return str(raised.value.cause)


def test_a_member_is_named_by_its_name_or_the_file_of_its_signature(spec: ProxySpec, tmp_path: Path) -> None:
    names = "signature-12345678", "cv/resnet50@large"
    for word in (names[0], str(tmp_path / "own.json")):
        assert targets_of(spec, [OwnModel(member=word, target="m.py:make")]) == {names[0]: "m.py:make"}
    assert targets_of(spec, [OwnModel(member="cv/resnet50", target="a.b:c")]) == {names[1]: "a.b:c"}


def test_who_is_no_member_gets_the_nearest_name(spec: ProxySpec, tmp_path: Path) -> None:
    for word, hint in (
        ("signature-1234567", "did you mean signature-12345678"), ("zzz", "one of signature-12345678, cv/"),
        (str(tmp_path / "other.json"), "a member's name: "),
    ):  # fmt: skip
        with pytest.raises(UsageError) as raised:
            targets_of(spec, [OwnModel(member=word, target="m.py:make")])
        assert hint in str(raised.value.hint)
    twice = [OwnModel(member=word, target="m.py:make") for word in ("signature-12345678", str(tmp_path / "own.json"))]
    with pytest.raises(UsageError, match="has two models"):
        targets_of(spec, twice)


@pytest.mark.parametrize("text", ["", "a", "a=", "=m.py:make", "a=m.py", "a=m.py:", "a=:make", "a=m.py:1x"])
def test_what_is_no_model(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not MEMBER=FILE\.py:factory"):
        parse_model(text)


def test_paths_may_hold_an_equals_sign_and_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "a=b.py").write_text("")
    assert parse_model(f"m={tmp_path}/a=b.py:make").target == f"{tmp_path}/a=b.py:make"
    assert parse_model("m=package.module:make").target == "package.module:make"
    with pytest.raises(UsageError, match="there is no file"):
        parse_model("m=gone.py:make")


def test_the_same_model_passes_and_another_one_is_told_by_its_work_or_its_calls() -> None:
    require_same_work("a", "m.py:make", OWN, OWN)
    assert "FLOPs, its signature" in refused(OWN, more_calls(0, 1.1))
    free = replace(OWN, clusters=(OWN.clusters[0], replace(OWN.clusters[1], flops=None)))
    cause = refused(free, replace(free, clusters=(free.clusters[0], replace(free.clusters[1], calls=99.0))))
    assert f"99 calls of {OWN.clusters[1].op}, its signature " in cause
    assert OWN.clusters[0].op not in cause


def test_calls_are_compared_only_with_a_profile_of_this_kind_of_device() -> None:
    free = replace(OWN, clusters=(OWN.clusters[0], replace(OWN.clusters[1], flops=None)))
    fresh = replace(free, clusters=(free.clusters[0], replace(free.clusters[1], calls=99.0)))
    (measurement,) = free.measurements
    recorded = replace(measurement, source="recording")
    elsewhere = replace(measurement, environment={**measurement.environment, "device": "cuda"})
    for other in ((), (recorded,), (elsewhere,)):
        require_same_work("a", "m.py:make", replace(free, measurements=other), fresh)


def test_what_differs_from_step_to_step_may_differ_more() -> None:
    varies = Variation(
        steps=9, distinct=4, work_deviation=0.2, work_error=0.1, time_deviation=0.2, time_error=0.1
    )  # fmt: skip
    measurement = replace(measured((0.006, 0.002), CLASSES), variation=varies)
    fresh = replace(more_calls(0, 1.3), measurements=(measurement,))
    require_same_work("a", "m.py:make", OWN, fresh)
    assert "FLOPs" in refused(OWN, replace(more_calls(0, 4.0), measurements=(measurement,)))


def test_work_beside_that_of_rounded_sizes() -> None:
    assert work_ratio(OWN, OWN) == 1.0
    assert work_ratio(more_calls(0, 1.234), OWN) == pytest.approx(1.2, abs=0.05)
    bare = replace(
        OWN, clusters=tuple(replace(c, flops=None, bytes_read=None, bytes_written=None) for c in OWN.clusters)
    )
    assert work_ratio(bare, bare) == 1.0
