"""What the diagnostics make of times: their arithmetic, on small tables."""

from __future__ import annotations

import json

import pytest

from benchmarks.diagnostics.block_size import BlockRow, families_of, print_motifs
from benchmarks.diagnostics.repeatability import differences, summed_up
from statsnet.measure.rounds_log import Logged, RoundsLog
from statsnet.signatures.timing import Timing


def log_of(seconds: list[float]) -> RoundsLog:
    """Groups of one workload whose baseline takes a second and whose setting takes `seconds`; it failed once."""
    log = RoundsLog(here="")
    log.groups["w"] = [
        {
            name: Logged(timing=Timing(latency_s=(s,), window_latency_s=(s,) * 3))
            for name, s in (("baseline", 1.0), ("threads=1", there))
        }
        for there in seconds
    ]
    log.groups["w"].append({**log.groups["w"][0], "threads=1": Logged(failed="it broke")})
    return log


def test_each_two_groups_are_compared() -> None:
    first, second, *worst = summed_up(differences(log_of([1.0, 1.1, 1.21]))).splitlines()
    assert first == "3 pairs of groups: median 10.0%, 95th percentile 19.9%"
    assert second.startswith("3 of them are further apart")  # turns without any scatter explain no difference
    assert worst[0].split() == ["21.0%", "w", "threads=1"]


def test_a_single_group_says_nothing() -> None:
    assert summed_up(differences(log_of([1.5]))).startswith("nothing of this environment")


def block(motif: int, kind: str, config: dict[str, int], here_s: float, there_s: float) -> BlockRow:
    return BlockRow(
        mix="x:1", mode="inference", setting="threads=1", motif=motif, motif_share=0.6 if motif == 1 else 0.4,
        kind=kind, config=json.dumps(config), baseline_s=here_s, setting_s=there_s,
    )  # fmt: skip


def test_a_candidate_is_held_against_its_own_motif(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the first motif, slowed by 2, one candidate is slowed by 3 and one, a short one, by 1;
    of the second all by 4."""
    large, half, small = ({"rows": n, "inputs": 4} for n in (8, 4, 2))
    print_motifs(
        [
            block(1, "linear", large, 0.02, 0.04),
            block(1, "linear", half, 0.01, 0.03),
            block(1, "linear", small, 4e-4, 4e-4),
            block(2, "pool", {"size": 9}, 0.9, 3.6),
            block(2, "pool", {"size": 3}, 0.1, 0.4),
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["60.0%", "+50.0%", "-50.0%", "40.0%", "+0.0%"]
    assert "{'rows': 4}" in lines[1]
    assert [line.split() for line in lines[6:]] == [
        ["linear", "0.5", "ms", "1", "-50.0%", "0.693"],
        ["linear", "longer", "1", "+50.0%", "0.405"],
        ["pool", "longer", "1", "+0.0%", "0.000"],
    ]


def test_the_dearest_motifs_come_first_with_candidates_of_other_sizes() -> None:
    families = families_of("cv/resnet50:1", "inference", 3)
    shares = [share for share, _ in families]
    assert len(families) == 3 and shares == sorted(shares, reverse=True)
    for _, (motif, *others) in families:
        assert others and all(b.kind == motif.kind and b.config != motif.config for b in others)
