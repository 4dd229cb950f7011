"""Mixes of the core, spelled out for the product."""

from __future__ import annotations

import pytest

from benchmarks.suites import CORE, MIXES, mix_name, mix_text, spelled_out
from statsnet import workloads
from statsnet.signatures.mix import parse_mix


@pytest.mark.parametrize(("name", "mix"), MIXES.items())
def test_every_mix_names_workloads_that_there_are(name: str, mix: str) -> None:
    assert (mix_text(name), mix_name(mix)) == (mix, name)
    parsed = {part.name: part.weight for part in parse_mix(spelled_out(mix))}
    assert set(parsed) <= set(workloads.names())
    assert sum(parsed.values()) == pytest.approx(1.0)


def test_a_domain_s_weight_is_shared_by_its_core() -> None:
    parsed = {part.name: part.weight for part in parse_mix(spelled_out("core.recsys:1,cv/resnet50:3"))}
    assert parsed["cv/resnet50"] == pytest.approx(0.75)
    assert [parsed[f"recsys/{name}"] for name in CORE["recsys"]] == pytest.approx([1 / 12] * 3)
    assert spelled_out("cv:2") == "cv:1.0"
    assert mix_text("cv:2") == mix_name("cv:2") == "cv:2"
