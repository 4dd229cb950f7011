"""A proxy's error taken apart, on outcomes that are made up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from measuring import member, write_proxy
from synthesis_builders import CLASSES, measured, part, small_signature

from statsnet.cli import output
from statsnet.errors import UsageError
from statsnet.evaluation import explain
from statsnet.evaluation.causes import Advice
from statsnet.evaluation.explain import ExplainOptions, explain_proxy
from statsnet.evaluation.explained import Explained
from statsnet.measure.control import Job
from statsnet.profiling.replay_task import Replayed, ReplayOperators
from statsnet.reporting.explain import explained_report
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import save_signature
from statsnet.synthesis.bench.tasks import NetworkTrace
from statsnet.workloads.settings import BASELINE, parse_settings

GEMM, RELU = CLASSES


def step(gemm_s: float, relu_s: float, whole_s: float) -> Measurement:
    return replace(measured((gemm_s, relu_s), CLASSES), step_latency_s=(whole_s,))


SUITE = {"baseline": step(0.006, 0.002, 0.010), "threads=1": step(0.012, 0.002, 0.016)}
PROXY = {"baseline": step(0.0050, 0.0020, 0.010), "threads=1": step(0.0075, 0.0020, 0.0125)}
"""The suite's products take twice as long under the setting, the proxy's 1.5 times."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A proxy for one workload whose model is not at hand."""
    signature = small_signature(measurements=())
    save_signature(tmp_path / "db" / "own.json", signature)
    return write_proxy(tmp_path / "p", member("signature-1", 1.0, signature.id))


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[Job[Any]]:
    """Makes up what processes find; returns the jobs that were asked for."""
    asked: list[Job[Any]] = []

    def outcome(job: Job[Any]) -> Replayed | NetworkTrace:
        setting = job.control.setting.name
        if isinstance(job.task, ReplayOperators):
            longer = 2.0 if job.task.signature.batch else 1.0
            return Replayed(
                measurement=SUITE[setting].scale_times(longer), failures=(("custom.gone.default", "not known"),)
            )
        signature: Signature = small_signature(measurements=(PROXY[setting],))
        gemm_s = PROXY[setting].cluster_time_s[0] or 0.0
        return NetworkTrace(signature=signature, build_s=1.0, blocks=((part(GEMM, gemm_s),),))

    def rounds(jobs: Sequence[Job[Any]], count: int, **_: Any) -> list[list[Any]]:
        asked.extend(jobs)
        return [[outcome(job)] * count for job in jobs]

    monkeypatch.setattr(explain, "run_in_rounds", rounds)
    return asked


def explained(folder: Path, **changes: Any) -> Explained:
    settings = parse_settings("threads=1")
    return explain_proxy(folder, ExplainOptions(settings=settings, profiles=folder.parent / "db", **changes))


def test_classes_and_blocks_of_a_replayed_suite(folder: Path, tasks: list[Job[Any]]) -> None:
    found = explained(folder)
    assert [job.control.setting.name for job in tasks] == [BASELINE.name, "threads=1"] * 2
    (setting,) = found.settings
    assert (setting.suite_factor.value, setting.proxy_factor.value) == pytest.approx((1.6, 1.25))
    assert setting.error.value == pytest.approx(1.25 / 1.6 - 1)
    assert setting.suite_noise == 0.0
    gemm, between, relu = setting.classes
    assert [row.error.name for row in setting.classes] == [GEMM, "between operators", RELU]
    assert gemm.error.by_share == pytest.approx(-0.1 * 2 / 1.6)
    assert gemm.error.by_factor == pytest.approx(0.5 * -0.5 / 1.6)
    assert between.error.by_share == pytest.approx(0.1 / 1.6)
    assert (relu.error.error, relu.advice) == (pytest.approx(0.0), None)
    assert sum(row.error.error for row in setting.classes) == pytest.approx(setting.error.value)
    assert between.advice and between.advice.cause == "between operators"
    (block,) = setting.blocks
    assert (block.factor, block.expected, block.share) == pytest.approx((1.5, 2.0, 0.5))
    assert block.error == pytest.approx(gemm.error.by_factor)
    (row,) = found.members
    assert (row.evidence, row.pace, row.factors) == ("replay", 1.0, {"threads=1": pytest.approx(1.6)})


def test_a_member_at_another_pace_is_named(folder: Path, tasks: list[Job[Any]]) -> None:
    """Both took 0.25 s where the proxy was made. The second takes twice as long as the first now."""
    other = small_signature(measurements=(), batch=4)
    save_signature(folder.parent / "db" / "other.json", other)
    own = small_signature(measurements=()).id
    write_proxy(folder, member("signature-1", 0.5, own), member("signature-2", 0.5, other.id))
    found = explained(folder)
    assert [m.share for m in found.members] == pytest.approx([1 / 3, 2 / 3])
    assert [m.pace for m in found.members] == pytest.approx([2 / 3, 4 / 3])
    assert found.settings[0].suite_factor.value == pytest.approx(1.6)  # both follow the setting alike


def test_what_was_not_measured_is_said(folder: Path, tasks: list[Job[Any]]) -> None:
    notes = " ".join(explained(folder, rounds=1).notes)
    assert "weaker evidence" in notes
    assert "custom.gone.default: not known" in notes
    assert "made in another environment" not in notes


def test_the_report_names_class_cause_and_block(
    folder: Path, tasks: list[Job[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    found = explained(folder)
    output.print_report(explained_report(found))
    said = capsys.readouterr().out
    assert "1.6×" in said and "-21.9%" in said
    assert f"{GEMM} (-28.1%" in said
    assert "Try: " in said and "0, 0" in said
    data = found.to_dict()
    (setting,) = data["settings"]
    assert sum(row["error"] for row in setting["classes"]) == pytest.approx(setting["error"]["value"])
    assert setting["verdict"]


def test_classes_that_are_noise_share_a_line(
    folder: Path, tasks: list[Job[Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    found = explained(folder)
    (setting,) = found.settings
    noise = Advice(cause="noise", says="it is noise", do="a quiet machine")
    noisy = [replace(row, advice=noise) for row in setting.classes]
    output.print_report(explained_report(replace(found, settings=(replace(setting, classes=tuple(noisy)),))))
    assert capsys.readouterr().out.count("it is noise. Try: a quiet machine. So do 2 others.") == 1


@pytest.mark.parametrize(
    ("settings", "cause"),
    [
        ("compile=inductor", "in one piece"),
        ("runtime=openvino", "in one piece"),
        ("dtype=bfloat16", "a replay does not"),
    ],
)
def test_settings_that_can_not_be_explained_are_refused_before_anything_is_measured(
    folder: Path, tasks: list[Job[Any]], settings: str, cause: str
) -> None:
    options = ExplainOptions(settings=parse_settings(settings), profiles=folder.parent / "db")
    with pytest.raises(UsageError) as refused:
        explain_proxy(folder, options)
    assert cause in refused.value.cause
    assert not tasks
