"""A proxy's folder: its spec.json gives the other files, byte for byte, and it appears whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synthesis_builders import mix_of, small_signature

from statsnet.errors import FileFormatError, StatsNetError
from statsnet.proxy import whole_folder as whole_folder_module
from statsnet.proxy.spec import make_spec, source_of, texts_of
from statsnet.proxy.towers import Placed, build_towers
from statsnet.proxy.whole_folder import check_output, whole_folder
from statsnet.signatures.documents import ProxySpec, SpecBlock, TowerPurpose
from statsnet.signatures.storage import load_fit, load_spec, save
from statsnet.signatures.target import target_of_mix

SHIPPED = sorted(Path(__file__).parents[2].glob("generated/*"))
Count = Callable[..., list[tuple[Placed, int]]]


def spec_of(blocks: list[tuple[Placed, int]], mode: str = "inference") -> ProxySpec:
    """Its shares and skews have more digits than a file keeps."""
    purpose = TowerPurpose(step_share=1 / 3, categories=("gemm",), members=("cv/x",))
    skewed = [
        (replace(b, config={**b.config, "skew": 1 + 1 / 3}) if "skew" in b.config else b, count) for b, count in blocks
    ]
    towers = [replace(tower, purpose=purpose) for tower in build_towers(skewed, training=mode == "training")]
    target = target_of_mix(mix_of(small_signature(mode=mode)))
    return make_spec(target, towers, title="a mix", notes="", dtype="float32", seed=3, budget_s=0.01, environment={})


@pytest.mark.parametrize("mode", ["inference", "training"])
def test_a_file_gives_the_same_bytes(mode: str, count_blocks: Count, tmp_path: Path) -> None:
    spec = spec_of(count_blocks(mode), mode)
    save(tmp_path / "spec.json", spec)
    again = load_spec(tmp_path / "spec.json")
    assert again == spec
    assert source_of(again) == source_of(spec)
    assert re.search(r"skew=1\.33333333\b", source_of(spec))


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "no_such_block"},
        {"config": {"shape": [9], "axis": 0, "no_such_argument": 1}},
    ],
)
def test_a_spec_that_is_no_network_is_refused(changes: dict[str, Any]) -> None:
    spec = spec_of([(Placed(kind="softmax", config={"shape": (9,), "axis": 0}), 1)])
    (tower,) = spec.towers
    block = SpecBlock(**{"kind": "softmax", "config": {"shape": [9], "axis": 0}, "optimizer": None, **changes})
    with pytest.raises(FileFormatError, match="describes no network"):
        source_of(replace(spec, towers=(replace(tower, blocks=(block,)),)))


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_shipped_proxies_are_what_their_specs_say(folder: Path) -> None:
    spec, fit = load_spec(folder / "spec.json"), load_fit(folder / "fit.json")
    texts = texts_of(spec, fit)
    assert {name: (folder / name).read_text(encoding="utf-8") for name in texts} == texts
    assert fit.network_sha256 == hashlib.sha256(texts["network.py"].encode()).hexdigest()
    assert all(tower.purpose for tower in spec.towers)


def test_the_lines_that_the_readme_shows_are_in_a_shipped_network() -> None:
    readme = (SHIPPED[0].parents[1] / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert shown is not None
    network = (SHIPPED[0] / "network.py").read_text(encoding="utf-8")
    assert [line for line in shown[1].splitlines() if line.strip() != "..." and line not in network] == []


def full_disk() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("failure", [full_disk(), KeyboardInterrupt()])
def test_a_full_disk_or_an_interrupt_leaves_what_was_there(tmp_path: Path, failure: BaseException) -> None:
    folder = tmp_path / "proxy"
    folder.mkdir()
    (folder / "network.py").write_text("before")
    expected = StatsNetError if isinstance(failure, OSError) else KeyboardInterrupt

    def write() -> None:
        with whole_folder(folder) as partial:
            (partial / "network.py").write_text("after")
            raise failure

    with pytest.raises(expected) as raised:
        write()
    if isinstance(failure, OSError):
        error = raised.value
        assert "could not be written" in error.message
        assert "No space" in error.cause
        assert "free some space" in error.hint
    assert [p.name for p in tmp_path.iterdir()] == ["proxy"]
    assert (folder / "network.py").read_text() == "before"


def write(folder: Path, text: str) -> None:
    with whole_folder(Path(os.path.realpath(folder))) as partial:
        (partial / "network.py").write_text(text)


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_is_replaced_with_and_without_a_system_that_exchanges_names(
    tmp_path: Path, exchanges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:
        monkeypatch.setattr(whole_folder_module, "_exchanged", lambda *_: False)
    folder = tmp_path / "proxy"
    write(folder, "before")
    folder.chmod(0o750)
    (tmp_path / "link").symlink_to(folder)
    write(tmp_path / "link", "after")
    assert (folder / "network.py").read_text() == "after"
    assert folder.stat().st_mode & 0o777 == 0o750
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "proxy"]


KILLED = """
import os, signal, sys
from pathlib import Path
from statsnet.proxy import whole_folder
moment, folder = sys.argv[1], Path(sys.argv[2])
exchanged, replace = whole_folder._exchanged, os.replace


def end(*_):
    os.kill(os.getpid(), signal.SIGKILL)


if moment == "exchanged":
    whole_folder._exchanged = lambda *paths: exchanged(*paths) and end()
elif moment == "aside":
    whole_folder._exchanged = lambda *_: False
    os.replace = lambda a, b: (replace(a, b), end())
with whole_folder.whole_folder(folder) as partial:
    (partial / "network.py").write_text("after")
    if moment == "written":
        end()
"""


@pytest.mark.parametrize("moment", ["written", "exchanged", "aside"])
def test_one_of_the_two_is_there_whenever_the_process_is_killed(tmp_path: Path, moment: str) -> None:
    folder = tmp_path / "proxy"
    write(folder, "before")
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", KILLED, moment, str(folder)], env=variables, check=False)
    assert done.returncode == -signal.SIGKILL
    found = sorted(path.read_text() for path in tmp_path.rglob("network.py"))
    assert "before" in found or folder.exists()
    assert folder.exists() or moment == "aside"
    for mark in tmp_path.glob(".proxy-*/.temporary"):
        os.utime(mark, (0, 0))
    write(folder, "new")
    assert (folder / "network.py").read_text() == "new"
    left = {path.name for path in tmp_path.iterdir()} - {"proxy"}
    assert all(name.endswith(".old") for name in left) and len(left) == (moment == "aside")


@pytest.mark.parametrize(
    ("folder", "message", "cause"),
    [
        (".", "cannot be replaced as a whole", "the folder that you are in"),
        ("..", "is not a proxy folder", "it holds"),
        ("loop", "is a link to itself", ""),
        ("file", "is a file", ""),
        ("to-file", "is a file", ""),
        ("letters", "is not a proxy folder", "mother.txt"),
        ("to-letters", "is not a proxy folder", "mother.txt"),
        ("/proc", "is not a proxy folder", "it holds"),
        ("/proc/proxy", "cannot be written", "no folder can be made"),
    ],
)
def test_what_can_not_be_replaced_is_known_before_the_work(
    tmp_path: Path, folder: str, message: str, cause: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    (here / "loop").symlink_to("loop")
    if folder != ".":
        (here / "file").write_text("")
        (here / "to-file").symlink_to("file")
        (here / "letters").mkdir()
        (here / "letters" / "mother.txt").write_text("Dear")
        (here / "to-letters").symlink_to("letters")
    else:
        (here / "loop").unlink()
    with pytest.raises(StatsNetError) as refused:
        check_output(Path(folder))
    assert message in refused.value.message
    assert cause in refused.value.cause


def test_new_folders_and_links_to_proxies_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "proxy", "before")
    (tmp_path / "link").symlink_to("proxy")
    (tmp_path / "dangling").symlink_to("not-yet")
    for name in ("proxy", "link", "dangling", "new", "deep/er/new"):
        check_output(Path(name))
