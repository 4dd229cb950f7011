"""`show`, `list` and `compare`: good files, and files that are truncated, newer or something else."""

from __future__ import annotations

import json
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import GOLDEN, Cli, environment, member, read, write_proxy, write_result

from statsnet.cli import main
from statsnet.evaluation import run_proxy
from statsnet.signatures.storage import load_result


def damaged(kind: str) -> str:
    text = GOLDEN.read_text()
    if kind == "truncated":
        return text[: len(text) // 2]
    data = json.loads(text)
    if kind == "newer":
        data["schema_version"] = 99
    elif kind == "changed":
        data["dtype"] = "float64"
    elif kind == "another":
        data = {"name": "package", "version": "1.0"}
    return json.dumps(data)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("truncated", "ends too early"),
        ("newer", "has schema_version 99, this StatsNet reads 1"),
        ("changed", "was changed after it was written"),
        ("another", "no file of StatsNet"),
    ],
)
@pytest.mark.parametrize("how", ["show", "synthesize"])
def test_damaged_signatures(failing: Callable[..., str], here: Path, kind: str, text: str, how: str) -> None:
    (here / "x.json").write_text(damaged(kind))
    mode = read(GOLDEN)["mode"]
    arguments = ["show", "x.json"] if how == "show" else ["synthesize", "--mix", "x.json:1", "--mode", mode]
    message = failing(*arguments, code=1)
    assert text in message, message
    assert "cause:" in message


def test_show_every_kind_of_file(cli: Cli, here: Path) -> None:
    write_proxy(here / "p", member("cv/a", 0.75, batch=4), member("nlp/b", 0.25))
    write_result(here / "r.json", 0.010, 0.011)
    shutil.copy(GOLDEN, here / "s.json")
    proxy = cli("show", "p")
    assert "1 conv" in proxy.stdout
    assert "75.0%" in proxy.stdout
    assert cli("show", "p/spec.json").stdout == proxy.stdout
    assert "10.5 ms" in cli("show", "r.json").stdout
    assert "category" in cli("show", "s.json").stdout
    assert cli("show", "s.json", "--json").stdout == GOLDEN.read_text()


@pytest.mark.parametrize(("path", "code", "text"), [("nothing.json", 1, "does not exist"), (".", 2, "no spec.json")])
def test_show_what_is_not_there(failing: Callable[..., str], path: str, code: int, text: str) -> None:
    assert text in failing("show", path, code=code)


def test_control_characters_of_a_file_do_not_reach_the_terminal(cli: Cli, here: Path) -> None:
    write_proxy(here / "p", member("cv/\x1b]0;owned\x07", 1.0))
    done = cli("show", "p")
    assert "cv/?]0;owned?" in done.stdout


def test_nor_those_of_an_error(failing: Callable[..., str], here: Path) -> None:
    (here / "x.json").write_text('{"kind": "\\u001b]0;owned\\u0007"}')
    assert "?]0;owned?" in failing("show", "x.json", code=1)


def test_list_proxies(cli: Cli, here: Path) -> None:
    write_proxy(here / "one")
    write_proxy(here / "generated" / "two")
    (here / "bad").mkdir()
    (here / "bad" / "spec.json").write_text("{")
    rows = json.loads(cli("list", "proxies", "--json").stdout)["proxies"]
    assert [row["folder"] for row in rows] == ["bad", "one", "generated/two"]
    assert rows[0]["problem"]
    assert "generated/two" in cli("list", "proxies", "t*").stdout
    empty = cli("list", "proxies", "z*")
    assert (empty.returncode, empty.stdout) == (0, "")


def test_list_workloads_and_profiles(cli: Cli, here: Path) -> None:
    rows = json.loads(cli("list", "workloads", "resnet*", "--json").stdout)["workloads"]
    assert [row["name"] for row in rows] == ["cv/resnet152", "cv/resnet50"]
    assert "AIBench" in rows[1]["suites"]
    assert rows[0]["presets"]["tiny"]
    data = read(GOLDEN)
    folder = here / "db" / "machine" / data["workload"]["domain"]
    folder.mkdir(parents=True)
    shutil.copy(GOLDEN, folder / f"{data['workload']['name']}.{data['mode']}.json")
    done = cli("list", "profiles", "--profiles", "db")
    assert "machine" in done.stdout
    assert data["mode"] in done.stdout


def test_compare(cli: Cli, here: Path) -> None:
    write_result(here / "a.json", 0.0200, 0.0201, 0.0199)
    write_result(here / "b.json", 0.0100, 0.0101, 0.0099, threads=2)
    done = cli("compare", "a.json", "b.json", "--json", "c.json")
    assert done.returncode == 0, done.stderr
    assert "2.00 ± 0.04 times faster" in done.stdout
    assert "threads: 1 against 2" in done.stdout
    assert read(here / "c.json")["results"][1]["comparison"]["speedup"] == pytest.approx(2.0, rel=1e-3)
    printed = json.loads(cli("compare", "a.json", "b.json", "--json", "-").stdout)
    assert printed == read(here / "c.json")


def test_compare_refuses_two_subjects_and_other_files(failing: Callable[..., str], here: Path) -> None:
    write_result(here / "a.json", 0.02)
    write_result(here / "b.json", 0.02, subject="b")
    shutil.copy(GOLDEN, here / "s.json")
    assert "not of the same subject" in failing("compare", "a.json", "b.json", code=2)
    assert "is a signature, not a result" in failing("compare", "a.json", "s.json", code=2)


def test_a_limit_on_file_size_leaves_nothing_behind(cli: Cli, here: Path) -> None:
    write_result(here / "a.json", 0.02)
    done = cli(
        "compare", "a.json", "a.json", "--json", "c.json",
        env=environment(here) | {"PYTHONDONTWRITEBYTECODE": "1"},  # else Python keeps what was cut off, and reads it
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )  # fmt: skip
    assert done.returncode == 1
    assert "could not write 'c.json'" in done.stderr
    assert "File too large" in done.stderr
    assert [p.name for p in here.iterdir()] == ["a.json"]


def test_the_cache_is_shown_and_cleared(own_cache: Path, cli: Cli) -> None:
    kept = own_cache / "ab" / f"{'ab' * 32}.json"
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    assert json.loads(cli("cache", "--json").stdout)["entries"] == 1
    done = cli("cache", "--clear")
    assert done.returncode == 0
    assert "measurements  0" in done.stdout
    assert not kept.exists()


def test_compare_many_in_every_format(cli: Cli, here: Path) -> None:
    for name, time_s, threads in (("a", 0.020, 1), ("b", 0.010, 2), ("c", 0.005, 4)):
        write_result(here / f"{name}.json", time_s, 1.005 * time_s, 0.995 * time_s, threads=threads)
    files = ("a.json", "b.json", "c.json", "--baseline", "b.json", "--price", "c.json=72/day", "--price", "b.json=3/h")
    shown = cli("compare", *files)
    assert shown.returncode == 0, shown.stderr
    assert "2.00 ± 0.02 times slower" in shown.stdout
    data = json.loads(cli("compare", *files, "--json").stdout)
    assert data == json.loads(cli("compare", *files, "--json").stdout)
    assert [row["baseline"] for row in data["results"]] == [False, True, False]
    assert data["results"][2]["cost_factor"]["value"] == pytest.approx(0.5, rel=1e-3)
    assert cli("compare", *files, "--format", "csv").stdout.count("\n") == 4
    assert "| c.json | Z80 | 4 threads |" in cli("compare", *files, "--format", "markdown").stdout
    written = cli("compare", *files, "--format", "html", "--json", "all.json")
    assert written.stdout.startswith("<!DOCTYPE html>")
    assert "http" not in written.stdout.replace("http-equiv", "")
    assert read(here / "all.json") == data


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["a.json", "b.json", "--price", "a.json=free"], "'a.json=free' is not a price"),
        (["a.json", "b.json", "--price", "a.json=-1/h"], "is not a price"),
        (["a.json", "b.json", "--price", "a.jsn=1/h"], "did you mean a.json?"),
        (["a.json", "b.json", "--baseline", "x.json"], "'x.json' is none of the results"),
        (["a.json", "b.json", "--json", "--format", "csv"], "both go to stdout"),
        (["--json", "a.json", "b.json", "b.json"], "'a.json' is a result, and would be overwritten"),
    ],
)
def test_what_compare_refuses(failing: Callable[..., str], here: Path, arguments: list[str], text: str) -> None:
    write_result(here / "a.json", 0.02, 0.02)
    write_result(here / "b.json", 0.01, 0.01, threads=2)
    assert text in failing("compare", *arguments, code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "p", "-o", "p/network.py"),
        ("audit", "p", "--html", "p/README.md"),
        ("run", "p", "--json=p/network.py"),
        ("cover", "p", "s.json", "--json", "p/spec.json"),
    ],
)
def test_no_file_of_a_proxy_that_is_read_is_written(
    failing: Callable[..., str], here: Path, arguments: tuple[str, ...]
) -> None:
    write_proxy(here / "p")
    shutil.copy(GOLDEN, here / "s.json")
    before = {path: path.read_bytes() for path in here.rglob("*") if path.is_file()}
    assert "would be overwritten" in failing(*arguments, code=2)
    assert {path: path.read_bytes() for path in here.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("arguments", [("report", "s.json", "-o", "-"), ("audit", "s.json", "--html", "-")])
def test_a_page_does_not_go_to_a_file_called_minus(
    failing: Callable[..., str], here: Path, arguments: tuple[str, ...]
) -> None:
    shutil.copy(GOLDEN, here / "s.json")
    assert "'-' is not a file" in failing(*arguments, code=2)


def test_a_file_in_place_of_a_proxy(failing: Callable[..., str], here: Path) -> None:
    (here / "r.json").write_text("{}")
    assert "cause: it is a file" in failing("run", "r.json", code=2)


@pytest.mark.parametrize("how", [(), ("--macs", "1000")], ids=["measured", "for simulators"])
def test_a_device_file_in_place_of_a_proxy(failing: Callable[..., str], how: tuple[str, ...]) -> None:
    """Refused for what it is: nothing is tried beside it first, where it would be another's folder."""
    asked = ("synthesize", "--mix", "recsys/dlrm:1", *how, "-o", "/dev/null")
    assert "'/dev/null' is a file" in failing(*asked, code=1)


def test_an_option_without_its_choice(failing: Callable[..., str]) -> None:
    assert "?" not in failing("coarsen", "s.json", code=2)  # click sets the choices off with tabs


@pytest.mark.parametrize("changed", [False, True])
def test_a_changed_network_stands_for_nothing(
    here: Path, changed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    write_proxy(here / "p")
    write_result(here / "r.json", 0.010, 0.011)
    monkeypatch.setattr(run_proxy, "run_proxy", lambda *_, **__: load_result(here / "r.json"))
    if changed:
        with open(here / "p" / "network.py", "a") as file:
            file.write("# another\n")
    assert main(["run", "p", "--trust"]) == 0
    assert ("stands for" in capsys.readouterr().out) != changed
