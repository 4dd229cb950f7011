"""`statsnet map` and `statsnet characterize` as users run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_support import Cli, environment

SHOWN = {
    "map": (("map.svg", "tree.svg"), ("stands for all", "silhouette", "recsys/ncf")),
    "characterize": (
        ("categories.svg", "costs.svg", "memory.svg"), ("Hotspots", "Memory against input size", "recsys/ncf"),
    ),
}  # fmt: skip
AGAIN = "from statsnet.cli import main; import sys; [main([c, 'recsys/*', '-o', 'again']) for c in sys.argv[1:]]"


def test_tables_and_pictures(cli: Cli, here: Path) -> None:
    for command, (pictures, words) in SHOWN.items():
        done = cli(command, "recsys/*", "-o", "pictures")
        assert done.returncode == 0, done.stderr
        assert all(word in done.stdout for word in words)
        for name in pictures:
            root = ElementTree.parse(here / "pictures" / name).getroot()
            assert "ncf" in "".join(root.itertext())
    # In another process, whose sets have another order:
    subprocess.run([sys.executable, "-c", AGAIN, *SHOWN], cwd=here, env=environment(here), check=True, timeout=300)
    for file in (here / "pictures").iterdir():
        assert (here / "again" / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize("command", ["map", "characterize"])
def test_json(cli: Cli, command: str) -> None:
    done = cli(command, "recsys/*", "--mode", "training", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["mode"] == "training"
    assert all(one["name"].startswith("recsys/") for one in data["workloads"])


@pytest.mark.parametrize("command", ["map", "characterize"])
def test_nothing_matches(cli: Cli, command: str) -> None:
    done = cli(command, "moon/*")
    assert done.returncode == 2
    assert "no inference profile of 'moon/*'" in done.stderr
    assert "statsnet list profiles" in done.stderr
