"""`statsnet audit` and `statsnet coarsen`, and the level of what is written."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import MODEL, Cli, read, write_proxy, write_result

from statsnet.cli import main
from statsnet.signatures.canonical import content_id, write_json_atomically

SHIPPED = Path(__file__).parents[2] / "profiles_db"


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "model.py").write_text(MODEL)
    words = [f"{folder / 'model.py'}:make", "--device", "meta", "-o", str(folder / "own.json")]
    assert main(["profile", *words]) == 0
    return folder / "own.json"


@pytest.fixture
def own(profiled: Path, here: Path) -> Path:
    return Path(shutil.copy(profiled, here))


def change(path: Path, place: list[str | int], value: object) -> None:
    data = read(path)
    node = data
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = value
    write_json_atomically(path, {**data, "id": content_id(data)})


def test_what_is_written_is_statistical_and_can_only_become_coarser(
    cli: Cli, failing: Callable[..., str], here: Path, own: Path
) -> None:
    assert read(own)["level"] == "statistical"
    done = cli("coarsen", "own.json", "--level", "coarse", "-o", "shared.json")
    assert done.returncode == 0, done.stderr
    assert "level coarse" in done.stdout
    assert read(here / "shared.json")["level"] == "coarse"
    for name in ("own.json", "shared.json"):
        done = cli("audit", name)
        assert done.returncode == 0, done.stdout
        assert "holds only what its level allows" in done.stdout
    message = failing("coarsen", "shared.json", "--level", "statistical", "-o", "finer.json", code=2)
    assert "cannot become 'statistical'" in message
    assert "would be overwritten" in failing("coarsen", "own.json", "--level", "coarse", "-o", "own.json", code=2)
    assert "--level" in failing("coarsen", "own.json", "--level", "full", "-o", "x.json", code=2)


@pytest.mark.parametrize(
    ("place", "value", "what"),
    [
        (["batch"], 77, "a size is exact"),
        (["counts", "clusters", 0, "args", 0, "shape", 0], 777, "a size is exact"),
        (["counts", "clusters", 0, "calls"], 777, "a count is exact"),
        (["counts", "memory", "parameter_count"], 777, "a size is exact"),
        (["counts", "memory", "input_bytes"], 256, "leaves out"),
        (["optimizer"], "acme", "not in the vocabulary"),
    ],
)
def test_what_a_level_does_not_allow(cli: Cli, here: Path, own: Path, place: list[str | int], value: object,
                                     what: str) -> None:  # fmt: skip
    cli("coarsen", "own.json", "--level", "coarse", "-o", "shared.json")
    change(here / "shared.json", place, value)
    done = cli("audit", "shared.json", "--json")
    assert done.returncode == 1, done.stderr
    assert what in done.stdout


def test_order_is_found(cli: Cli, own: Path) -> None:
    clusters = read(own)["counts"]["clusters"]
    assert len(clusters) > 1
    change(own, ["counts", "clusters"], clusters[::-1])
    done = cli("audit", "own.json")
    assert done.returncode == 1
    assert "an order that may be that of layers" in " ".join(done.stdout.split())


def test_tables_for_a_reviewer(cli: Cli, here: Path, own: Path) -> None:
    done = cli("audit", "own.json", "--html", "a.html", "--markdown", "a.md", "--json", "a.json")
    assert done.returncode == 0, done.stderr
    (file,) = read(here / "a.json")["files"]
    fields = {row["field"]: row for row in file["rows"]}
    assert fields["counts.clusters[].op"]["reveals"] == "which operators run"
    assert "device, software" not in {row["reveals"] for row in file["rows"]}, "it was measured nowhere"
    for text in ((here / "a.html").read_text(), (here / "a.md").read_text()):
        assert "counts.clusters[].args[].shape[]" in text.replace("\\", "")
        assert "It holds only what its level allows." in text
    assert "://" not in (here / "a.html").read_text()


def test_texts_of_a_file_are_no_markup(cli: Cli, here: Path) -> None:
    write_proxy(here / "p")
    change(here / "p" / "spec.json", ["title"], "<script>alert(1)</script>|x")
    cli("audit", "p", "--html", "a.html", "--markdown", "a.md")
    assert "<script>" not in (here / "a.html").read_text() + (here / "a.md").read_text()


def test_a_kind_can_not_take_over_a_terminal(cli: Cli, here: Path) -> None:
    write_json_atomically(here / "x.json", {"kind": "statsnet.\x1b]0;x"})
    done = cli("audit", "x.json")
    assert done.returncode == 0, done.stderr
    assert "statsnet.?]0;x" in done.stdout and "\x1b]" not in done.stdout


def test_a_proxy_and_a_result(cli: Cli, here: Path) -> None:
    write_proxy(here / "p")
    write_result(here / "r.json", 0.01, 0.02)
    assert cli("audit", "p").returncode == 0
    assert cli("audit", "r.json").returncode == 0
    (here / "p" / "notes.txt").write_text("x")
    change(here / "p" / "spec.json", ["notes"], "made by me@acme.com from /home/me/model.py")
    done = cli("audit", "p", "--json")
    assert done.returncode == 1
    assert "looks like a path" in done.stdout and "no file of a proxy" in done.stdout


@pytest.mark.parametrize(("name", "what"), [("nothing.json", "does not exist"), ("empty", "holds no files"),
                                            ("other.json", "no file of StatsNet")])  # fmt: skip
def test_what_can_not_be_audited(failing: Callable[..., str], here: Path, name: str, what: str) -> None:
    (here / "empty").mkdir()
    (here / "other.json").write_text('{"kind": "x"}')
    assert what in failing("audit", name, code=2 if name == "empty" else 1)


def test_a_folder_names_what_it_can_not_audit_and_goes_on(cli: Cli, here: Path) -> None:
    (here / "f").mkdir()
    (here / "f" / "a_list.json").write_text("[1]")
    (here / "f" / "cut.json").write_text('{"kind": "statsnet.res')
    (here / "f" / "other.json").write_text('{"kind": "x", "secret": "me"}')
    write_result(here / "f" / "r.json", 0.01, 0.02)
    done = cli("audit", "f", "--html", "a.html", "--json", "a.json")
    assert done.returncode == 1, done.stderr
    assert "r.json: statsnet.result" in done.stdout
    assert "3 of 4 files could not be audited: a_list.json, cut.json, other.json" in " ".join(done.stdout.split())
    assert "it is no file of StatsNet" in done.stdout
    assert "not audited: cut.json" in (here / "a.html").read_text()
    problems = {file["name"]: file["problems"] for file in read(here / "a.json")["files"]}
    assert "ends too early" in problems["cut.json"][0]
    assert problems["r.json"] == []
    (here / "f" / "r.json").unlink()
    done = cli("audit", "f")
    assert done.returncode == 2
    assert "holds no files of StatsNet" in done.stderr


def test_the_record_of_a_search_is_audited_with_its_proxy(cli: Cli, here: Path) -> None:
    write_proxy(here / "p")
    write_json_atomically(here / "p" / "search.json", {"kind": "statsnet.search", "tried": [], "by": "/home/me/x.py"})
    done = cli("audit", "p")
    assert done.returncode == 1
    assert "by says '/home/me/x.py'" in " ".join(done.stdout.split())


@pytest.mark.parametrize("environment", sorted(p.name for p in SHIPPED.iterdir() if p.is_dir() and p.name != "devices"))
def test_what_ships_holds_what_its_level_allows(environment: str, cli: Cli, here: Path) -> None:
    """One domain for each environment: all of them take a minute."""
    smallest = min((SHIPPED / environment).glob("*.zip"), key=lambda path: path.stat().st_size)
    (here / "profiles" / environment).mkdir(parents=True)
    shutil.copy(smallest, here / "profiles" / environment)
    done = cli("audit", "profiles")
    assert "clusters" in done.stdout
    assert done.returncode == 0, done.stdout
