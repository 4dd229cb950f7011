"""What the diagnostics make of times: their arithmetic, on small tables."""

from __future__ import annotations

import json

import pytest
import torch
from torch.nn.functional import conv2d

from benchmarks.diagnostics.block_size import BlockRow, families_of, print_motifs
from benchmarks.diagnostics.forked_processes import ForkedRow, spread
from benchmarks.diagnostics.forked_processes import summed_up as forked_against_fresh
from benchmarks.diagnostics.onednn_primitives import primitives_s, step_times_s
from benchmarks.diagnostics.repeatability import differences, summed_up
from statsnet.measure.rounds_log import Logged, RoundsLog
from statsnet.signatures.timing import Timing

LOG = """onednn_verbose,v1,info,oneDNN v3.7.1 (commit 1)
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::a,,,16x64x3x3,0.25
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx2,forward_inference,src:f32::a,,alg:direct,mb1,2.0
said by the model, not by the library
onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx2,forward_inference,src:f32::a,,alg:direct,mb1,1.5
onednn_verbose,v1,primitive,exec,cpu,reorder,simple:any,undef,src:f32::a,,,16x64x3x3,0.75
"""


def test_times_add_up_by_primitive_and_implementation() -> None:
    times = primitives_s(LOG)
    assert times.keys() == {"reorder", "convolution jit:avx2"}
    assert times["reorder"] == (2, pytest.approx(1e-3))
    assert times["convolution jit:avx2"] == (2, pytest.approx(3.5e-3))


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch was built without oneDNN")
def test_a_convolution_is_found_in_the_log() -> None:
    x, weight = torch.randn(4, 16, 32, 32), torch.randn(32, 16, 3, 3)
    times = step_times_s(lambda: conv2d(x, weight), 3)
    (name,) = (n for n in times if n.startswith("convolution "))
    calls, seconds = times[name]
    assert calls == 1.0
    assert seconds > 0.0


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


def test_the_spread_of_processes_does_not_hold_what_slows_both() -> None:
    assert spread([(1.0, 1.0), (2.0, 2.0)]) == 0.0
    assert spread([(1.0, 1.02), (2.0, 2.04)]) == pytest.approx(0.02 / 2**0.5, rel=0.02)


def test_forked_processes_against_fresh_ones() -> None:
    rows = [
        ForkedRow(network="x", fresh_s=s, fresh_again_s=s, forked_s=1.1 * s, forked_again_s=1.1 * s) for s in (1.0, 2.0)
    ]
    assert forked_against_fresh(rows) == (
        "4 forked processes take 1.1000 of the time of as many fresh ones (1.1000 to 1.1000); "
        "spread 0.00% forked, 0.00% fresh"
    )
