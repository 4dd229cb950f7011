"""Candidates of small synthetic targets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from synthesis_builders import CLASSES, GEMM, GEMM_S, RELU, RELU_S, measured, small_signature, tensor

from statsnet.blocks import KINDS
from statsnet.signatures.model import Motif
from statsnet.signatures.target import Target, target_of
from statsnet.synthesis.candidates.candidates import candidates


@pytest.mark.parametrize(("mode", "kinds"), [("inference", {"linear"}), ("training", {"linear", "pointwise"})])
def test_candidates_are_the_motif_and_parts_of_it(target: Target, mode: str, kinds: set[str]) -> None:
    """In inference an activation is a part of its layer."""
    (member,) = target.members
    target = replace(target, members=(replace(member, signature=replace(member.signature, mode=mode)),))
    blocks = candidates(target, budget_s=0.02)
    assert len({c.key for c in blocks}) == len(blocks)
    activations = {c.config.get("activation") for c in blocks if c.kind == "linear"}
    assert activations == {"relu", ""}
    assert {c.kind for c in blocks} - {"parameters"} == kinds
    for candidate in blocks:
        assert 0 < candidate.scale <= 16  # small calls may be joined into one
        assert candidate.time_s > 0
        KINDS[candidate.kind].build(candidate.config)


def test_smaller_budgets_take_smaller_blocks(target: Target) -> None:
    def largest(budget_s: float) -> int:
        chosen = candidates(target, budget_s=budget_s)
        return max(KINDS[c.kind].elements_read(c.config) for c in chosen)

    assert largest(1e-5) < largest(1.0)


@pytest.mark.parametrize(("budget_s", "fits"), [(0.02, True), (0.002, False)])
def test_a_motif_of_its_own_size_is_a_candidate_where_it_fits(target: Target, budget_s: float, fits: bool) -> None:
    """The product takes 1.5 ms a call; others that take about as long run other kernels, or at another intensity."""
    blocks = candidates(target, budget_s=budget_s)
    originals = [c for c in blocks if c.kind == "linear" and c.scale == 1.0]
    assert {c.config["rows"] for c in originals} == ({64} if fits else set())


def test_short_motifs_are_joined_into_larger_blocks(target: Target) -> None:
    """A product of 1.5 ms, in a step of 20 s: even 16 of it are short."""
    blocks = candidates(target, budget_s=20.0)
    assert max(c.scale for c in blocks if c.kind == "linear") == 16


def test_the_limit_is_kept(target: Target) -> None:
    assert len(candidates(target, budget_s=0.001, limit=3)) == 3


def test_candidates_carry_their_members_optimizer() -> None:
    training = target_of(small_signature(mode="training", optimizer="adamw"))
    assert {c.optimizer for c in candidates(training, budget_s=0.02)} == {"adamw"}


@pytest.mark.parametrize(("strides", "wanted"), [([1024, 1], True), ([0, 0], False), (None, False)])
def test_gradients_that_arrive_strided_make_joined_candidates(strides: list[int] | None, wanted: bool) -> None:
    """As from behind a concatenation; an expanded gradient is that of a sum."""
    gradient = tensor(64, 512, **({"strides": strides} if strides else {}))
    backward = replace(
        RELU, op="aten.threshold_backward.default", phase="backward", args=(gradient, tensor(64, 512), 0)
    )
    measurement = measured((GEMM_S, RELU_S, RELU_S), (*CLASSES, "activation|aten|strided"))
    signature = small_signature(mode="training", clusters=(GEMM, RELU, backward), measurements=(measurement,))
    blocks = candidates(target_of(signature), budget_s=0.02)
    assert any(c.config.get("output_is_concatenated") for c in blocks) == wanted
    assert any(c.kind == "pointwise" and "output_is_concatenated" not in c.config for c in blocks)


def test_a_gradient_is_cut_along_the_axis_along_which_the_model_cuts_it() -> None:
    """Maps that were concatenated by channels. In every size several samples are left, else the slice is contiguous."""
    maps, cut = tensor(8, 16, 12, 12), tensor(8, 16, 12, 12, strides=[4608, 144, 12, 1])
    relu = replace(RELU, args=(maps,), outputs=(maps,))
    backward = replace(
        RELU, op="aten.threshold_backward.default", phase="backward", args=(cut, maps, 0), outputs=(maps,)
    )
    measurement = measured((GEMM_S, RELU_S, RELU_S), (*CLASSES, "activation|aten|strided"))
    signature = small_signature(mode="training", clusters=(GEMM, relu, backward), measurements=(measurement,))
    cut_blocks = [c for c in candidates(target_of(signature), budget_s=0.02) if "output_is_concatenated" in c.config]
    assert {c.config["concatenated_axis"] for c in cut_blocks} == {-3}
    assert len(cut_blocks) > 1 and all(c.config["shape"][0] > 1 for c in cut_blocks)


@pytest.mark.parametrize(("strides", "axes"), [([3072, 1, 24], {1}), (None, set())])
def test_a_gradient_that_arrives_transposed_makes_candidates_with_such_a_gradient(
    strides: list[int] | None, axes: set[int]
) -> None:
    maps, transposed = tensor(8, 24, 128), tensor(8, 24, 128, **({"strides": strides} if strides else {}))
    relu = replace(RELU, args=(maps,), outputs=(maps,))
    backward = replace(
        RELU, op="aten.threshold_backward.default", phase="backward", args=(transposed, maps, 0), outputs=(maps,)
    )
    measurement = measured((GEMM_S, RELU_S, RELU_S), (*CLASSES, "activation|aten|transposed"))
    signature = small_signature(mode="training", clusters=(GEMM, relu, backward), measurements=(measurement,))
    blocks = [c for c in candidates(target_of(signature), budget_s=0.02) if c.kind == "pointwise"]
    assert {c.config["output_last_axis"] for c in blocks if "output_last_axis" in c.config} == axes
    assert any("output_last_axis" not in c.config for c in blocks)


def test_nothing_can_stand_for_unknown_operators() -> None:
    opaque = replace(RELU, op="custom.opaque.default", category="other")
    signature = small_signature(clusters=(opaque, opaque), motifs=(Motif(clusters=(0,), count=1.0),))
    assert candidates(target_of(signature), budget_s=0.02) == []
