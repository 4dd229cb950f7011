"""What stands for a suite: networks that exist are not made again, and every way has subjects of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from measuring import member, write_proxy

from benchmarks.ways.comparisons import PROXY, REPRESENTATIVES, Comparison, comparisons, plans
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.rounds_log import Logged, RoundsLog, Subject
from statsnet.measure.timing_tasks import TimeNetwork
from statsnet.progress import Progress
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.timing import Timing
from statsnet.workloads.settings import BASELINE, Setting, parse_settings

MIX = "cv/alexnet:1,cv/resnet50:1,nlp/gpt2:1,recsys/dlrm:1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A proxy and networks of other ways, as an earlier run has left them."""
    name = "alexnet-1-resnet50-1-gpt2-1-dlrm-1.inference.50"
    members = resolve_mix(MIX, "inference", ProfilesDB()).members
    write_network(tmp_path / f"{name}.histogram", "# another network\n")
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
        ways=("subset", "histogram", "random"),
        cache=MeasurementCache(folder / "cache"),
        report=said.append,
    )
    assert [c.way for c in held] == [PROXY, "subset", "histogram", "random"]
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


def subject(name: str) -> Subject:
    return Subject(identity=f"id of {name}", label=name, job=lambda setting: None)  # type: ignore[arg-type]


def comparison(*names: str) -> Comparison:
    suite = [(1 / len(names), subject(name)) for name in names]
    return Comparison(mix="core.cv:1", mode="inference", compression=100.0, way="statsnet", suite=suite,
                      stand_in=[(1.0, subject("the proxy of " + "+".join(names)))])  # fmt: skip


def log_with(failing: dict[str, list[str]], names: tuple[str, ...], settings: list[Setting]) -> RoundsLog:
    log = RoundsLog(here="here")
    for name in names:
        group = {"baseline": Logged(timing=Timing(latency_s=(1.0,)))}
        for setting in settings:
            failed = setting.name in failing.get(name, [])
            group[setting.name] = Logged(failed="it does not load") if failed else group["baseline"]
        log.groups[f"id of {name}"].append(group)
    return log


def test_a_smaller_mix_is_compared_where_a_member_does_not_load() -> None:
    names = ("cv/a", "cv/b", "cv/c")
    settings = list(parse_settings("threads=1,runtime=onnxruntime,runtime=openvino"))
    log = log_with({"cv/b": ["runtime=openvino"]}, names, settings)
    made: list[str] = []

    def remake(mix: str, whole: Comparison) -> Comparison:
        made.append(mix)
        return comparison(*(part.partition(":")[0] for part in mix.split(",")))

    usual, smaller = plans(log, comparison(*names), settings, remake)
    assert usual.names == ("threads=1", "runtime=onnxruntime") and len(usual.comparison.suite) == 3
    assert smaller.names == ("runtime=openvino",)
    assert smaller.comparison.mix == "core.cv:1 without cv/b"
    assert [s.label for _, s in smaller.comparison.suite] == ["cv/a", "cv/c"]
    assert smaller.comparison.stand_in[0][1].label == "the proxy of cv/a+cv/c"
    assert made == ["cv/a:0.5,cv/c:0.5"]


def test_another_setting_that_fails_or_a_suite_without_any_member_stays_whole() -> None:
    names = ("cv/a", "cv/b")
    settings = list(parse_settings("threads=1,runtime=openvino"))
    log = log_with({"cv/a": ["threads=1", "runtime=openvino"], "cv/b": ["runtime=openvino"]}, names, settings)

    def remake(mix: str, whole: Comparison) -> Comparison:
        raise AssertionError("nothing is left to compare")

    assert [len(plan.comparison.suite) for plan in plans(log, comparison(*names), settings, remake)] == [2, 2]
