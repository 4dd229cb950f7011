"""Candidates judged by their factors against the factor of the motif that they stand for."""

from __future__ import annotations

import json

import pytest

from benchmarks.diagnostics.block_size import BlockRow, families_of, print_motifs


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
