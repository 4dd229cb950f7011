"""`statsnet profile`: a user's model end to end, and everything that can go wrong with one."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from cli_support import GOLDEN, Cli, WhenSaid, environment, read
from forked_programs import forked

from statsnet.cli import main
from statsnet.cli.profile_many import are_many
from statsnet.environment import slug
from statsnet.errors import WorkloadError
from statsnet.measure import process
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.signatures import packed
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import Mix, resolve_mix
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import load_signature

QUICK = ("--min-time", "20ms")


def test_a_model_of_ones_own_in_both_modes(cli: Cli, here: Path, model: str) -> None:
    done = cli("profile", f"{model}:make", "--set", "width=24", "--batch", "3", "-o", "a/b.json", *QUICK)
    assert done.returncode == 0, done.stderr
    signature = load_signature(here / "a" / "b.json")
    assert (signature.mode, signature.batch, signature.workload) == ("inference", 3, None)
    assert signature.memory.parameter_count == 24 * 32 + 32 + 32 * 8 + 8
    assert "Time by category" in done.stdout
    assert "much of an architecture can be told" in done.stdout
    assert "building the model" in done.stderr

    done = cli("profile", f"{model}:make", "--mode", "training", "--optimizer", "adam", "--json", "--min-time", "0.1s")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["measurements"][0]["reference"]["latency_s"] > 0
    assert (data["mode"], data["optimizer"]) == ("training", "adam")
    assert {c["phase"] for c in data["counts"]["clusters"]} >= {"forward", "backward", "optimizer"}
    text = json.dumps(data)
    assert "model.py" not in text
    assert str(here) not in text


def test_counts_alone_need_no_device(cli: Cli, here: Path) -> None:
    done = cli("profile", "ncf", "--preset", "tiny", "--device", "meta", "-o", "ncf.json")
    assert done.returncode == 0, done.stderr
    assert "counts only" in done.stdout
    shown = cli("show", "ncf.json")
    assert shown.returncode == 0, shown.stderr
    assert "recsys/ncf" in shown.stdout


def test_sizes_set_by_hand_make_it_a_model_of_ones_own(cli: Cli, here: Path) -> None:
    """Under the workload's name another model would be timed in its place."""
    done = cli("profile", "ncf", "--preset", "tiny", "--set", "max_rows=50", "--device", "meta", "-o", "a.json")
    assert done.returncode == 0, done.stderr
    assert load_signature(here / "a.json").workload is None


def test_processes_that_run_a_step_together(here: Path) -> None:
    """However long their steps take, all take the same number, or they would wait for each other for ever."""
    words = ("profile", "micro/deepbench_all_reduce", "--preset", "tiny", "-o", "two.json", *QUICK)
    done = forked("-m", "statsnet", *words, folder=here, ranks=2, variables=environment(here))
    assert done.returncode == 0, done.stderr
    signature = load_signature(here / "two.json")
    assert "collective" in {c.category for c in signature.clusters}
    known = signature.measurements[0].collectives
    assert known is not None and known.processes == 2
    assert signature.workload is None  # its name means a step in one process
    assert done.stdout.count("Time by category") == 1


def test_processes_that_are_started_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[object] = []

    def refuse(task: ProfileWorkload, processes: int, *_: object, timeout_s: float, **__: object) -> None:
        asked.extend((task.model.target, processes, timeout_s))
        raise WorkloadError("rank 1 of 2: a step failed", cause="ValueError: bad data")

    monkeypatch.setattr("statsnet.profiling.members.run_in_group", refuse)
    words = ["--nproc", "2", "--group-timeout", "30s", "--min-time", "10ms", "-o", "x.json"]
    assert main(["profile", "recsys/ncf", *words]) == 1
    assert asked == ["recsys/ncf", 2, 30.0]
    assert "rank 1 of 2: a step failed\ncause: ValueError: bad data" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options",
    [["--check"], ["--trace", "t.json"], ["--mix", "recsys/ncf:1"]],
)
def test_several_processes_measure_one_workload_on_a_device_each(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    target = [] if "--mix" in options else ["recsys/ncf"]
    assert main(["profile", *target, "--nproc", "2", "-o", "x", *options]) == 2
    assert f"--nproc and {options[0]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--nproc", "2", "--device", "cuda:1"], "--device cuda:1 was given for several processes"),
        (["--nproc", "100000"], "--nproc 100000 asks for more processes than this machine has memory for"),
        (["--nproc", "2", "--device", "cuda", "--counters", "ncu"], "--counters ncu was given for several processes"),
        (["--nproc", "abc"], "'abc' is not a valid whole number"),
        (["--group-timeout", "30s"], "--group-timeout was given for one process"),
        (["--nproc", "2", "--device", "meta", "--group-timeout", "30s"], "--group-timeout was given for counting"),
    ],
)
def test_what_several_processes_cannot_do(options: list[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "recsys/ncf", "-o", "x.json", *options]) == 2
    assert what in capsys.readouterr().err


def test_a_missing_file_is_said_before_any_process_is_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "gone.py:make", "--nproc", "2", "-o", "x.json"]) == 2
    assert "statsnet: there is no file 'gone.py'" in capsys.readouterr().err


def test_torchrun_has_started_the_processes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    assert main(["profile", "recsys/ncf", "--nproc", "2", "-o", "x.json"]) == 2
    assert "leave out --nproc" in capsys.readouterr().err


def test_one_of_many_processes_is_counted(cli: Cli, here: Path) -> None:
    words = ("profile", "micro/deepbench_all_reduce", "--preset", "tiny", "--device", "meta", "--nproc", "1000")
    done = cli(*words, "-o", "c.json")
    assert done.returncode == 0, done.stderr
    assert "1,000 run the step together" in done.stdout
    assert load_signature(here / "c.json").processes == 1000


@pytest.mark.parametrize(
    ("target", "code", "texts"),
    [
        ("resnet5", 2, ["no workload 'resnet5'", "did you mean cv/resnet50"]),
        ("model.py:nothing", 2, ["has no factory 'nothing'", "make"]),
        ("model.py:raises", 1, ["the weights are gone", "model.py, line"]),
        ("model.py:wrong_input", 1, ["a step of 'model.py:wrong_input' failed", "RuntimeError"]),
    ],
)
def test_a_target_that_fails(failing: Callable[..., str], model: str, target: str, code: int, texts: list[str]) -> None:
    message = failing("profile", target, "-o", "x.json", code=code)
    assert all(text in message for text in texts), message


def test_cuda_where_there_is_none(failing: Callable[..., str], model: str) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    message = failing("profile", f"{model}:make", "--device", "cuda", "-o", "x.json", code=1)
    assert "no CUDA device" in message
    assert "--device cpu" in message


@pytest.mark.parametrize("output", ["folder", "/dev/full", "model.py/x.json"])
def test_an_output_that_can_not_be_a_file(failing: Callable[..., str], here: Path, model: str, output: str) -> None:
    (here / "folder").mkdir()
    message = failing("profile", f"{model}:make", "-o", output, code=2)
    assert "try:" in message
    assert Path("/dev/full").is_char_device()


def test_a_full_disk_leaves_nothing_behind(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    profile = Profile(signature=Signature.from_dict(read(GOLDEN)))
    monkeypatch.setattr(process, "run", lambda *_, **__: profile)
    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.chdir(here)
    assert main(["profile", "ncf", "-o", "sub/x.json"]) == 1
    text = capsys.readouterr().err
    assert "No space left" in text
    assert "free some space" in text
    assert not [p for p in here.rglob("*") if p.is_file()]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_in_the_middle_leaves_nothing_behind(
    number: signal.Signals, code: int, here: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(here.parent / "tmp"))
    monkeypatch.chdir(here)
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background a shell has it ignored
    try:
        with contextlib.redirect_stderr(WhenSaid("building the model", partial(signal.raise_signal, number))) as errors:
            assert main(["profile", f"{model}:slow", "-o", "x.json"]) == code
    finally:
        signal.signal(signal.SIGINT, heard)
    said = errors.getvalue()
    assert "building the model" in said and "Traceback" not in said
    assert ("interrupted" in said) == (number == signal.SIGINT)
    assert nothing_is_left(here)


def nothing_is_left(here: Path) -> bool:
    """But the model, which was there before."""
    names = {p.name for p in here.iterdir()} | {p.name for p in (here.parent / "tmp").glob("statsnet-*")}
    return names - {"__pycache__"} == {"model.py"}


def test_a_step_under_a_setting_says_so_in_its_environment(cli: Cli, here: Path, model: str) -> None:
    done = cli("profile", f"{model}:make", "--setting", "dtype=bfloat16+channels_last", "-o", "s.json", *QUICK)
    assert done.returncode == 0, done.stderr
    settings = load_signature(here / "s.json").measurements[0].environment["settings"]
    assert (settings["dtype"], settings["layout"]) == ("bfloat16", "channels_last")
    assert "dtype=bfloat16" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--counters", "ncu"], "hardware counters were asked for of 'cpu'"),
        (["--setting", "graphs=cuda"], "CUDA graphs need a GPU"),
        (["--setting", "compiled=yes"], "'compiled' is not a setting"),
        (["--setting", "runtime=openvino"], "a signature holds torch's operators"),
        (["--setting", "threads=1", "--device", "meta"], "was given for counting"),
    ],
)
def test_what_a_cpu_has_not_is_said(words: list[str], said: str, cli: Cli, here: Path, model: str) -> None:
    done = cli("profile", f"{model}:make", "-o", "s.json", *words, *QUICK)
    assert done.returncode != 0
    assert said in done.stderr
    assert not (here / "s.json").exists()


SUITE = """
mode: training
members:
  - {workload: ncf, weight: 1, preset: tiny}
  - {workload: recsys/din, weight: 1, preset: tiny, batch: 4}
  - {file: own.json, weight: 2}
"""


def test_the_members_of_a_mix_are_profiled_once(cli: Cli, here: Path, model: str) -> None:
    assert cli("profile", f"{model}:make", "--mode", "training", "-o", "own.json", *QUICK).returncode == 0
    (here / "suite.yaml").write_text(SUITE)
    words = ("profile", "--mix", "suite.yaml", "-o", "db", *QUICK)
    first = cli(*words)
    assert first.returncode == 0, first.stderr
    assert first.stdout.count(": profiled into db/") == 2
    assert "own.json: skipped, it is a signature file" in first.stdout
    sizes = {p.name: load_signature(p).batch for p in sorted((here / "db").glob("*/recsys/*.json"))}
    assert sizes == {"din.training.json": 4, "ncf.training.json": 16}
    names = sorted(m.name for m in resolved(here).members)
    assert names[:2] == ["recsys/din", "recsys/ncf"]

    second = cli(*words)
    assert second.returncode == 0, second.stderr
    assert second.stdout.count(": skipped, ") == 3
    assert "profiled" not in second.stdout
    assert "building the model" not in second.stderr

    (here / "suite.yaml").write_text(
        SUITE.replace("batch: 4", "batch: 8") + "  - {workload: dlrm, weight: 1, preset: none}\n"
    )
    third = cli(*words)
    assert third.returncode == 1
    assert "recsys/ncf: skipped" in third.stdout
    assert "recsys/din: failed" in third.stdout
    assert "is another signature of this workload; cause: it is preset tiny, batch 4" in third.stdout
    assert "recsys/dlrm: failed" in third.stdout
    assert "2 of 4 members could not be profiled" in third.stderr
    assert "Traceback" not in third.stderr


def resolved(here: Path) -> Mix:
    return resolve_mix(str(here / "suite.yaml"), "training", ProfilesDB(here / "db"))


def test_what_ships_is_copied(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """On the machine that a shipped profile is of, nothing is measured."""
    shipped = ProfilesDB().find("ncf", "inference")[0]
    record = shipped.load().measurements[0].environment
    monkeypatch.setattr(process, "measuring_environment", lambda _device: record)
    monkeypatch.setattr(process, "run", lambda *_, **__: pytest.fail("measured"))
    monkeypatch.chdir(here)
    assert main(["profile", "--mix", "ncf:1", "-o", "db"]) == 0
    assert "recsys/ncf: copied" in capsys.readouterr().out
    copy = here / "db" / slug(record) / "recsys" / "ncf.inference.json"
    assert copy.read_bytes() == packed.read(shipped.path, 10**7)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ncf", "--mix", "ncf:1", "-o", "db"], "a workload and --mix were both given"),
        (["-o", "db"], "no workload was given"),
        (["--mix", "ncf:1"], "no output was given"),
        (["--mix", "ncf:1", "-o", "db", "--batch", "4"], "--batch and --mix were both given"),
        (["--mix", "ncf:1", "--json"], "--json and --mix were both given"),
        (["--mix", "ncf:1", "-o", "db", "--device", "meta"], "--mix was given for counting"),
        (["--mix", "ncff:1", "-o", "db"], "did you mean recsys/ncf"),
        (["--mix", "none.yaml", "-o", "db"], "'none.yaml' does not exist"),
        (["--mix", "ncf:0", "-o", "db"], "'0' is not a weight"),
    ],
)
def test_a_mix_to_be_profiled_that_is_refused(failing: Callable[..., str], words: list[str], said: str) -> None:
    assert said in failing("profile", *words, code=1 if "none.yaml" in words else 2)


@pytest.mark.parametrize("options", [["--mix", "recsys/ncf:1", "-o", "d"], ["recsys/ncf", "--device", "meta"]])
def test_a_check_needs_one_workload_and_a_device(cli: Cli, options: list[str]) -> None:
    done = cli("profile", *options, "--check")
    assert done.returncode == 2
    assert "--check was given with" in done.stderr


def test_a_check_needs_no_output(cli: Cli) -> None:
    done = cli("profile", "recsys/ncf", "--preset", "tiny", "--check")
    assert done.returncode == 0, done.stderr
    assert "FlopCounterMode" in done.stdout
    assert "aten.addmm" in done.stdout


def test_a_check_beside_json_is_told_apart(cli: Cli) -> None:
    done = cli(
        "profile", "recsys/ncf", "--preset", "tiny", "--device", "cpu", "--min-time", "0.01s", "--check", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kind"] == "statsnet.signature"
    assert "FlopCounterMode" in done.stderr


def test_a_models_file_is_not_overwritten(failing: Callable[..., str], here: Path, model: str) -> None:
    before = (here / model).read_text()
    assert "would be overwritten" in failing("profile", f"{model}:make", "-o", model, code=2)
    assert (here / model).read_text() == before


@pytest.mark.parametrize(
    ("target", "many"),
    [("cv/*", True), ("exp[1]/net.py:make", False), ("runs[2]/net.py", False), ("cv/resnet50", False)],
)
def test_signs_in_the_path_of_a_file_make_no_pattern(target: str, many: bool) -> None:
    assert are_many([target], "local") is many
