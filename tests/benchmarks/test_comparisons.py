"""What stands for a suite: networks that exist are not made again, and every way has subjects of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from measuring import member, write_proxy

from benchmarks.ways.ablations import ABLATIONS
from benchmarks.ways.comparisons import OTHERS, PROXY, REPRESENTATIVES, comparisons
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.timing_tasks import TimeNetwork
from statsnet.progress import Progress
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import resolve_mix
from statsnet.workloads.settings import BASELINE

MIX = "cv/alexnet:1,cv/resnet50:1,nlp/gpt2:1,recsys/dlrm:1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A proxy and networks of other ways, as an earlier run has left them."""
    name = "alexnet-1-resnet50-1-gpt2-1-dlrm-1.inference.50"
    members = resolve_mix(MIX, "inference", ProfilesDB()).members
    write_network(tmp_path / f"{name}.no-rounds", "# another network\n")
    write_network(tmp_path / f"{name}.random", "# a third\n")
    write_network(tmp_path / name, "")
    write_proxy(tmp_path / name, *(member(m.name, m.weight, m.signature.id, preset="small") for m in members))
    return tmp_path


def write_network(folder: Path, text: str) -> None:
    folder.mkdir()
    (folder / "network.py").write_text(text)


def test_what_is_there_is_not_made_again(folder: Path) -> None:
    said: list[Progress] = []
    held = comparisons(
        MIX,
        "inference",
        50.0,
        folder,
        ways=("subset", "no rounds", "random"),
        cache=MeasurementCache(enabled=False),
        report=said.append,
    )
    assert [c.way for c in held] == [PROXY, "subset", "no rounds", "random"]
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
    assert len({PROXY, *OTHERS, *ABLATIONS}) == 1 + len(OTHERS) + len(ABLATIONS)
