"""What a proxy's spec pins is enough to measure its suite again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from statsnet.errors import UsageError
from statsnet.evaluation.suite import suite_of
from statsnet.measure.timing_tasks import TimeWorkload
from statsnet.signatures.documents import ProxySpec, SpecMember
from statsnet.workloads.settings import BASELINE, parse_setting

ENTRY = SpecMember(
    name="recsys/ncf", weight=1.0, signature="sha256:in-no-file", latency_s=0.1, batch=8, preset="tiny",
    optimizer="sgd_momentum", peak_bytes=12345,
)  # fmt: skip


def spec_of(member: SpecMember) -> ProxySpec:
    return ProxySpec(
        title="a mix",
        id="", mode="training", dtype="float32", seed=0, budget_s=1.0, reference_environment={}, mix=(member,),
        towers=(),
    )  # fmt: skip


@pytest.mark.parametrize(("pinned", "asked_for"), [("sgd_momentum", "sgd_momentum"), ("custom", None)])
def test_a_member_whose_profile_is_in_no_file_keeps_its_optimizer(
    pinned: str, asked_for: str | None, tmp_path: Path
) -> None:
    """As after `synthesize --fresh`; and it is known how many of its processes fit side by side."""
    spec = spec_of(replace(ENTRY, optimizer=pinned))
    (member,) = suite_of(spec, tmp_path)
    assert member.signature is None
    assert member.evidence == "model"
    job = member.timing_job(spec, "cpu", BASELINE)
    assert isinstance(job.task, TimeWorkload)
    assert job.task.model.optimizer == asked_for
    assert job.control.peak_bytes == 12345


def test_without_a_model_a_profile_is_needed(tmp_path: Path) -> None:
    spec = spec_of(replace(ENTRY, name="a/customers"))
    with pytest.raises(UsageError, match="cannot be measured") as raised:
        suite_of(spec, tmp_path)
    assert "--profiles" in str(raised.value.hint)


@pytest.mark.parametrize("setting", ["dtype=bfloat16", "channels_last", "compile=inductor", "graphs=cuda"])
def test_a_replay_does_not_follow_what_acts_on_the_model(setting: str, tmp_path: Path) -> None:
    (member,) = suite_of(spec_of(ENTRY), tmp_path)
    member.require_to_follow(parse_setting(setting))
    with pytest.raises(UsageError, match="cannot be measured under"):
        replace(member, target=None).require_to_follow(parse_setting(setting))
