"""`statsnet map` and `statsnet characterize` as users run them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from cli_support import Cli


@pytest.mark.parametrize(
    ("command", "pictures", "words"),
    [
        ("map", ("map.svg", "tree.svg"), ("stands for all", "silhouette", "cv/resnet50")),
        (
            "characterize",
            ("categories.svg", "costs.svg", "memory.svg"),
            ("Hotspots", "Memory against input size", "cv/resnet50"),
        ),
    ],
)
def test_tables_and_pictures(
    cli: Cli, here: Path, command: str, pictures: tuple[str, ...], words: tuple[str, ...]
) -> None:
    done = cli(command, "cv/*", "-o", "pictures")
    assert done.returncode == 0, done.stderr
    assert all(word in done.stdout for word in words)
    for name in pictures:
        root = ElementTree.parse(here / "pictures" / name).getroot()
        assert "resnet50" in "".join(root.itertext())
    again = cli(command, "cv/*", "-o", "again", timeout=300)  # in another process, whose sets have another order
    assert again.returncode == 0
    for name in pictures:
        assert (here / "again" / name).read_bytes() == (here / "pictures" / name).read_bytes()


@pytest.mark.parametrize("command", ["map", "characterize"])
def test_json(cli: Cli, command: str) -> None:
    done = cli(command, "cv/*", "--mode", "training", "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["mode"] == "training"
    assert all(one["name"].startswith("cv/") for one in data["workloads"])


@pytest.mark.parametrize("command", ["map", "characterize"])
def test_nothing_matches(cli: Cli, command: str) -> None:
    done = cli(command, "moon/*")
    assert done.returncode == 2
    assert "no inference profile of 'moon/*'" in done.stderr
    assert "statsnet list profiles" in done.stderr
