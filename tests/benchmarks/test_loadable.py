"""Members that a runtime cannot load are left out on both sides."""

from __future__ import annotations

from benchmarks.ways.comparisons import Comparison, plans
from statsnet.measure.rounds_log import Logged, RoundsLog, Subject
from statsnet.signatures.timing import Timing
from statsnet.workloads.settings import Setting, parse_settings


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
