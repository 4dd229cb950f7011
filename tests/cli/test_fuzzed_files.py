"""Files of every kind with one thing changed: they load, or end in an error of StatsNet. Nothing crashes."""

from __future__ import annotations

import contextlib
import copy
import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_support import GOLDEN, read, write_proxy, write_result
from rich.console import Console
from scenario_results import scenario_result, trial

import statsnet
from statsnet.analysis.audit_files import audit_file
from statsnet.cli.show import report_of
from statsnet.errors import StatsNetError
from statsnet.reporting.audit import audit_html, audit_report
from statsnet.signatures.canonical import content_id, write_json_atomically
from statsnet.signatures.storage import kind_of, save

HOSTILE = (
    [None, True, -1, 0, 1, 2**62, 2**63, 10**400, 1e-300, 1e300, "", "x", "\x1b]0;owned\x07", "a" * 500, [], {}, [None],
     [[]], {"x": 1}, [0] * 20, ["\n"], {"device": [], "device_name": {}}]
)  # fmt: skip


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    here = tmp_path_factory.mktemp("documents")
    write_proxy(here / "p")
    write_result(here / "r.json", 0.01, 0.02)
    shipped = next(Path(__file__).parents[2].glob("generated/*/fit.json"))
    rates = [trial([0.01] * 12, qps=qps) for qps in (10.0, 20.0)]
    save(here / "s.json", scenario_result("server", *rates, bound_s=0.05))
    written = [read(here / name) for name in ("p/spec.json", "r.json", "s.json")]
    return [read(GOLDEN), *written, read(shipped)]


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if place:
        yield place
    inner = value.items() if isinstance(value, dict) else enumerate(value[:3]) if isinstance(value, list) else ()
    for key, child in inner:
        yield from places(child, (*place, key))


@pytest.mark.parametrize("seed", range(4))
def test_one_thing_changed(documents: list[dict[str, Any]], tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(40):
        change(document := copy.deepcopy(chance.choice(documents)), chance)
        check(document, tmp_path / "changed.json")


def change(document: dict[str, Any], chance: random.Random) -> None:
    place = chance.choice(list(places(document)))
    node: Any = document
    for key in place[:-1]:
        node = node[key]
    if chance.random() < 0.8:
        node[place[-1]] = chance.choice(HOSTILE)
    else:
        del node[place[-1]]
    if "id" in document:
        document["id"] = content_id(document)


def check(document: dict[str, Any], path: Path) -> None:
    write_json_atomically(path, document)
    with contextlib.suppress(StatsNetError):
        report, out = report_of(path, kind_of(path)), io.StringIO()
        Console(file=out, width=200, markup=False).print(*report)
        assert "\x1b]0;" not in out.getvalue()
    with contextlib.suppress(StatsNetError):
        value = statsnet.load(path)
        assert "\x1b]0;" not in repr(value) + value._repr_html_()
    with contextlib.suppress(StatsNetError):
        files = [audit_file(path, "changed.json")]
        audit_html(files)
        audit_report(files)
