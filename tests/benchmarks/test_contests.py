"""What stands for a suite: networks that exist are not made again, and every way has subjects of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from contests import OTHERS, PROXY, REPRESENTATIVES, SEARCHED, VARIANTS, contests

from statsnet.measure.cache import MeasurementCache
from statsnet.measure.timing_tasks import TimeNetwork
from statsnet.progress import Progress
from statsnet.workloads.settings import BASELINE

MADE = Path(__file__).parents[2] / "generated" / "recsys-cv"
MIX = "recsys:0.5,cv:0.5"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A proxy and a network of another way, as a run before has left them."""
    name = "recsys-0.5-cv-0.5.inference.50"
    shutil.copytree(MADE, tmp_path / name)
    (tmp_path / f"{name}.no-rounds").mkdir()
    (tmp_path / f"{name}.no-rounds" / "network.py").write_text("# another network\n")
    (tmp_path / f"{name}.searched").mkdir()
    (tmp_path / f"{name}.searched" / "network.py").write_text("# a third\n")
    return tmp_path


def test_what_is_there_is_not_made_again(folder: Path) -> None:
    said: list[Progress] = []
    held = contests(
        MIX,
        "inference",
        50.0,
        folder,
        ways=("subset", "no rounds", SEARCHED),
        cache=MeasurementCache(enabled=False),
        report=said.append,
    )
    assert [c.method for c in held] == [PROXY, "subset", "no rounds", SEARCHED]
    assert said == []
    suite = {s.identity for _, s in held[0].suite}
    assert sum(w for w, _ in held[0].suite) == pytest.approx(1.0)
    assert sum(w for w, _ in held[1].stand_in) == pytest.approx(1.0)
    assert len(held[1].stand_in) == REPRESENTATIVES
    assert {s.identity for _, s in held[1].stand_in} <= suite
    networks = [held[i].stand_in[0][1] for i in (0, 2, 3)]
    assert len({n.identity for n in networks} | suite) == len(suite) + 3
    task = networks[0].job(BASELINE).task
    assert isinstance(task, TimeNetwork) and task.network_sha256 == networks[0].identity


def test_ways_have_names_of_their_own() -> None:
    assert len({PROXY, *OTHERS, *VARIANTS}) == 1 + len(OTHERS) + len(VARIANTS)
