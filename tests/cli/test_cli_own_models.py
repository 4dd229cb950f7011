"""`--model`: a member that is not registered runs as the user's own model, in validate, explain and scenarios."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from cli_support import MODEL, member, read, write_proxy

from statsnet.cli import main
from statsnet.evaluation import suite
from statsnet.evaluation.own_models import OwnModel
from statsnet.measure.control import Job
from statsnet.measure.process import run_job
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.signatures.storage import load_signature, load_spec, save_signature

OTHER = """

def other(batch: int = 4):
    return torch.nn.Linear(16, 8), (torch.randn(batch, 16),)
"""
FILE = "horcrux.py"
"""Of the model. Nothing tells its name that is made with it."""
QUICK = ("--settings", "dtype=bfloat16", "--rounds", "1", "--min-time", "20ms", "--json", "out.json")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A proxy for one model of a user's own, with its signature in a file."""
    folder = tmp_path_factory.mktemp("own")
    (folder / FILE).write_text(MODEL + OTHER)
    task = ProfileWorkload(model=Model(target=f"{folder}/{FILE}:make", mode="inference"), min_time_s=0.0, repeats=1)
    signature = run_job(Job(task)).signature
    save_signature(folder / "own.json", signature)
    write_proxy(folder / "p", member("signature-12345678", 1.0, signature.id, batch=signature.batch))
    write_proxy(folder / "lost", member("signature-12345678", 1.0, batch=4))
    return folder


@pytest.fixture
def here(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(place)
    shipped = suite.find_signatures
    monkeypatch.setattr(  # the database holds hundreds of files to look into
        suite, "find_signatures", lambda ids, folders: shipped(ids, [f for f in folders if f.is_file()])
    )
    return place


@pytest.mark.parametrize("command", ["validate", "explain"])
def test_the_model_runs_where_a_replay_can_not_follow(
    here: Path, own_cache: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert main([command, "p", "--profiles", "own.json", *QUICK]) == 2
    said = capsys.readouterr().err
    assert "its model is not at hand" in said
    assert "--model signature-12345678=path/to/file.py:make" in said
    # The factors of validate need long warm-ups on a busy machine; its fit runs the model as well.
    quick = QUICK if command == "explain" else QUICK[2:]
    assert main([command, "p", "--model", f"own.json={FILE}:make", *quick]) == 0, capsys.readouterr().err
    assert read(here / "out.json")["members"][0]["evidence"] == "model"
    said = capsys.readouterr()
    kept = [path.read_text(errors="replace") for path in own_cache.rglob("*") if path.is_file()]
    told = [said.out, said.err, (here / "out.json").read_text(), *kept]
    assert not [text for text in told if "horcrux" in text.lower()]


def test_another_model_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "p", "--model", f"own.json={FILE}:other", *QUICK]) == 2
    said = capsys.readouterr().err
    assert "is not the model of 'signature-12345678'" in said
    assert "batch of 4" in said


def test_without_a_signature_nothing_can_be_checked_and_it_says_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["explain", "lost", "--model", f"signature-12345678={FILE}:make", *QUICK]
    assert main(arguments) == 0, capsys.readouterr().err
    assert "was not checked: its signature was not found" in capsys.readouterr().out


def test_it_answers_queries(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mlperf_loadgen")
    asked = ["validate", "p", "--scenario", "offline", "--rounds", "1", "--min-time", "20ms", "--json", "out.json"]
    assert main(asked) == 2
    assert "--model MEMBER=path/to/file.py:make" in capsys.readouterr().err
    assert main([*asked, "--model", f"own.json={FILE}:make"]) == 0, capsys.readouterr().err
    (asked_member,) = read(here / "out.json")["beside"]["members"]
    assert asked_member["name"] == "signature-12345678"


@pytest.mark.parametrize("command", ["validate", "explain"])
def test_a_wrong_member_is_told_the_nearest(here: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "p", "--model", f"signature-1234567={FILE}:make", *QUICK]) == 2
    assert "did you mean signature-12345678?" in capsys.readouterr().err


def test_a_model_of_a_coarse_member_counts_by_its_work(place: Path) -> None:
    """The signature has other sizes, and so another time."""
    exact = load_signature(place / "own.json")
    clusters = tuple(replace(c, flops=c.flops and 1.25 * c.flops) for c in exact.clusters)
    coarse = replace(exact, level="coarse", clusters=clusters)
    spec = load_spec(place / "p" / "spec.json")
    (member,) = suite.suite_of(spec, models=[OwnModel(member="signature-12345678", target=f"{place}/{FILE}:make")])
    for signature, is_rounded in ((exact, False), (coarse, True)):
        (checked,), notes = suite.check_own_models([replace(member, signature=signature)], spec, "cpu")
        assert notes == [] and checked.is_rounded == is_rounded
        ratio = exact.flops_per_step / signature.flops_per_step
        assert checked.latency_s_reference == pytest.approx(member.latency_s_reference * ratio, rel=0.05)
