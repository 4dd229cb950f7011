"""What candidates are made from: here, what an optimizer steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from synthesis_builders import measured, mix_of, small_signature, tensor
from torch import nn

from statsnet.blocks import KINDS
from statsnet.measure.network_file import written
from statsnet.measure.task import Context
from statsnet.profiling.capture import capture_step
from statsnet.signatures.model import Cluster, Mode, Motif, Skew
from statsnet.signatures.target import Target, target_of, target_of_mix
from statsnet.signatures.target_cluster import TargetMotif
from statsnet.synthesis.bench.machine_speed import reference_network
from statsnet.synthesis.bench.tasks import MeasureIdleStep
from statsnet.synthesis.budget import SHORTEST_STEP_S, budget_of
from statsnet.synthesis.candidates.candidates import LARGER, LARGEST_SHARE, SIZES, StepRoom, candidates
from statsnet.synthesis.candidates.sources import BATCHES, Source, sources

TABLE = (5000, 16)


def cluster(op: str, phase: str, args: tuple[Any, ...], *out: int, **more: Any) -> Cluster:
    category = "optimizer" if phase == "optimizer" else "embedding"
    return Cluster(
        op=op, phase=phase, category=category, calls=1.0, args=args, outputs=(tensor(*out),),
        flops=1.0, bytes_read=1.0, bytes_written=1.0, **more,
    )  # fmt: skip


def look_up(indices: int) -> Cluster:
    skew = Skew(distinct_share=1.0, top1pct_share=0.01, zipf=0.0)
    args = (tensor(*TABLE), tensor(indices), -1, False, False)
    return cluster("aten.embedding.default", "forward", args, indices, TABLE[1], skew=skew)


def stepped(op: str, *shape: int, **gradient: Any) -> Cluster:
    return cluster(op, "optimizer", (tensor(*shape), tensor(*shape, **gradient)), *shape)


def target(*clusters: Cluster, optimizer: str = "adam") -> Target:
    """Every cluster takes 1 ms of a step of 10."""
    measurement = measured((0.001,) * len(clusters), ("k",) * len(clusters))
    changes = {"clusters": clusters, "measurements": (measurement,), "motifs": (), "optimizer": optimizer}
    return target_of(small_signature(mode="training", **changes))


def of_parameters(target: Target) -> list[Source]:
    return [s for s in sources(target) if s.kind == "parameters"]


def test_an_optimizers_operators_on_one_parameter_are_one_source() -> None:
    (source,) = of_parameters(target(stepped("aten.lerp_.Scalar", 64, 256), stepped("aten.sqrt.default", 64, 256)))
    assert source.config == {"shape": (64, 256)}
    assert source.optimizer == "adam"
    assert source.time_s == pytest.approx(0.002)
    assert source.share == pytest.approx(0.2)


def test_a_parameter_that_several_members_have_takes_its_time_once() -> None:
    """Else the block for it would come out as many times too small."""
    clusters = (stepped("aten.lerp_.Scalar", 64, 256), stepped("aten.sqrt.default", 64, 256))
    measurement = measured((0.001,) * 2, ("k",) * 2)
    signatures = [
        small_signature(mode="training", clusters=clusters, measurements=(measurement,), motifs=(), optimizer="adam",
                        batch=batch)
        for batch in (1, 2, 3)
    ]  # fmt: skip
    (source,) = of_parameters(target_of_mix(mix_of(*signatures)))
    assert source.time_s == pytest.approx(0.002)
    assert source.share == pytest.approx(0.2)


def test_what_is_left_of_a_motif_behind_its_first_operators() -> None:
    """A compiler runs it in one pass; the batch norm alone, and the relu alone, would be two."""
    shape = (4, 16, 8, 8)
    operands = (tensor(*shape), tensor(16, 16, 3, 3), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    conv = replace(cluster("aten.convolution.default", "forward", operands, *shape), category="convolution")
    norm = cluster("aten.native_batch_norm.default", "forward", (tensor(*shape), *[tensor(16)] * 4), *shape)
    relu = cluster("aten.relu.default", "forward", (tensor(*shape),), *shape)
    of_parts = target(conv, norm, relu)
    motif = TargetMotif(member=of_parts.members[0].name, clusters=(0, 1, 2), count_per_s=100.0)
    kinds = [(s.kind, s.config.get("activation")) for s in sources(replace(of_parts, motifs=(motif,)))]
    assert kinds.count(("conv", "relu")) == 1
    assert kinds.count(("norm", "relu")) == 1
    assert ("norm", "") in kinds
    assert ("pointwise", None) in kinds
    (member,) = of_parts.members
    inferring = replace(member, signature=replace(member.signature, mode="inference"))
    inference = replace(of_parts, motifs=(motif,), members=(inferring,))
    assert "norm" not in [s.kind for s in sources(inference)]  # other runtimes put it into the weights


def test_the_dearest_parameter_stands_for_its_class() -> None:
    """What ATen splits among threads is another class than what it does not."""
    large = [stepped("aten.sqrt.default", 300, 256), stepped("aten.lerp_.Scalar", 300, 256)]
    other = [stepped("aten.sqrt.default", 200, 256), stepped("aten.sqrt.default", 8)]
    shares = {s.config["shape"]: s.share for s in of_parameters(target(*large, *other))}
    assert shares == {(300, 256): pytest.approx(0.3), (8,): pytest.approx(0.1)}


@pytest.mark.parametrize("indices", [100, 400])
def test_of_a_table_as_many_rows_have_a_gradient_as_several_batches_read(indices: int) -> None:
    """Uniform draws: 1 - (1 - 1/n)^k of the rows."""
    (source,) = of_parameters(target(look_up(indices), stepped("aten.sqrt.default", *TABLE)))
    share = 1 - (1 - 1 / TABLE[0]) ** (BATCHES * indices)
    assert source.config["shape"] == TABLE
    assert source.config["rows_read"] == pytest.approx(share * TABLE[0], rel=0.05)


def test_sparse_gradients_and_optimizers_of_ones_own_have_no_such_source() -> None:
    assert of_parameters(target(stepped("aten.add_.Tensor", *TABLE, sparse=100), optimizer="sgd")) == []
    own = target(look_up(100), stepped("aten.sqrt.default", *TABLE), optimizer="custom")
    assert of_parameters(own) == []
    blocks = candidates(target_of(small_signature(mode="training", optimizer="custom")), budget_s=0.02)
    assert {c.optimizer for c in blocks} == {None}


def test_parameters_that_are_stepped_at_once_are_one_source() -> None:
    """As on CUDA, where an optimizer's operators take all parameters as one list."""
    layer = nn.Sequential(nn.Linear(24, 8), nn.Linear(8, 40))
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.Adam(layer.parameters(), foreach=True)
    optimizer.step()
    calls = [c for c in capture_step(optimizer.step, device="cpu") if "_foreach_" in c.op]
    clusters = [replace(stepped(c.op, 1), args=tuple(c.args), outputs=tuple(c.outputs)) for c in calls if c.args]
    shapes = {s.config["shape"] for s in of_parameters(target(*clusters))}
    assert shapes == {(24 * 8 + 8 + 8 * 40 + 40,)}


@pytest.mark.parametrize(("mode", "trains", "frozen"), [("training", False, True), ("training", True, False),
                                                       ("inference", False, False)])  # fmt: skip
def test_batch_norms_that_a_fine_tuned_model_froze_stay_frozen(mode: Mode, trains: bool, frozen: bool) -> None:
    per_channel = (tensor(6),) * 4
    norm = cluster("aten.native_batch_norm.default", "forward", (tensor(4, 6, 5, 5), *per_channel, trains), 4, 6, 5, 5)
    fields = {"clusters": (norm,), "measurements": (measured((0.001,), ("k",)),)}
    motifs = (Motif(clusters=(0,), count=1.0),)
    (source,) = sources(target_of(small_signature(mode=mode, motifs=motifs, **fields)))
    module: Any = KINDS[source.kind].build(source.config).train()
    before = module.norm.running_mean.clone()
    module(torch.randn(4, 6, 5, 5) + 3).sum().backward()
    assert bool(source.config.get("frozen")) == frozen
    assert torch.equal(module.norm.running_mean, before) == (frozen and mode == "training")
    assert module.norm.weight.grad is not None


def test_candidates_are_near_what_the_optimizer_takes() -> None:
    """Half of the time is the optimizer's: among its candidates is one that takes about that of the budget."""
    operators = [stepped(f"aten.{op}", *TABLE) for op in ("sqrt.default", "lerp_.Scalar", "mul_.Tensor")]
    blocks = candidates(target(look_up(100), *operators, operators[0], operators[1]), budget_s=1e-3)
    wanted = [c for c in blocks if c.kind == "parameters"]
    assert any(0.3e-3 < c.time_s < 0.8e-3 for c in wanted)
    shares = [c.config["rows_read"] / c.config["shape"][0] for c in wanted]
    assert shares == pytest.approx([shares[0]] * len(shares), rel=0.2)


def test_a_step_has_room_for_rare_operators() -> None:
    look_ups = target(look_up(100))
    assert budget_of(look_ups, 2) == SHORTEST_STEP_S == 0.02
    assert budget_of(look_ups, 0.1) == pytest.approx(0.1)


def test_an_idle_step_takes_time() -> None:
    """Autograd's way in and out, and each optimizer's call with no gradient."""
    with written(reference_network("training", "float32")) as reference:
        task = MeasureIdleStep(optimizers=("adam", "sgd"), dtype="float32", reference_network=reference)
        idle = task.run(Context())
    assert set(idle.idle_s) == {"block", "adam", "sgd"}
    assert all(0 <= t < 1 for t in idle.idle_s.values()) and any(idle.idle_s.values())
    assert idle.reference_latency_s > 0


def test_of_a_short_budget_a_block_may_take_more() -> None:
    inference = [StepRoom(budget_s=s, mode="inference").largest_share() for s in (1.0, 0.06, 0.02, 0.01, 0.005)]
    assert inference == pytest.approx([LARGEST_SHARE, LARGEST_SHARE, 0.2, 1 / 3, 1 / 3])
    training = StepRoom(budget_s=0.06, mode="training").largest_share()
    assert training == pytest.approx(0.2)  # a block runs three operators for one
    recurrent = StepRoom(budget_s=1.0, mode="inference").largest_share("recurrent")
    assert recurrent == pytest.approx(1 / 3)  # two of half the steps would have twice the weights


def test_where_a_step_is_one_operator_a_block_may_take_half_of_it() -> None:
    """Small ones would read all of its weights for a row or two."""
    changes = {"clusters": (look_up(100),), "measurements": (measured((0.009,), ("k",)),), "motifs": ()}
    room = StepRoom.of(target_of(small_signature(**changes)), 1.0)
    assert room.largest_share() == room.largest_share("recurrent") == pytest.approx(0.45)
    assert room.usual_sizes("linear", 0.9)[:2] == LARGER and room.usual_sizes("linear", 0.1) == SIZES
    assert StepRoom.of(target(stepped("aten.lerp_.Scalar", 64, 256)), 1.0).one_operator == 0.0


@pytest.mark.parametrize("own_sizes", [False, True])
@pytest.mark.parametrize("time_s", [0.0, None])
def test_what_takes_no_time_asks_for_no_block(own_sizes: bool, time_s: float | None) -> None:
    usual = small_signature()
    timed = measured((0.006, time_s), ("gemm|mkl", "relu|aten"))
    chosen = candidates(target_of(replace(usual, measurements=(timed,))), budget_s=0.01, own_sizes=own_sizes)
    assert chosen and all(c.time_s > 0 for c in chosen)
    timed = measured((time_s, time_s), ("gemm|mkl", "relu|aten"))
    assert not candidates(target_of(replace(usual, measurements=(timed,))), budget_s=0.01, own_sizes=own_sizes)


def test_a_parameter_without_elements_is_no_source() -> None:
    assert not of_parameters(target(stepped("aten.lerp_.Scalar", 0, 256)))


def test_a_motif_on_whose_sizes_a_kind_fails_has_no_block(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    assert "linear" in {c.kind for c in candidates(target_of(small_signature()), budget_s=0.01)}
    monkeypatch.setattr(type(KINDS["linear"]), "scaled", fail)
    assert "linear" not in {c.kind for c in candidates(target_of(small_signature()), budget_s=0.01)}


def called_often(layers: int, *others: Cluster, outputs: int = 24) -> list[Source]:
    """Of 32 calls of layers of 16 inputs, with the parameters of so many layers."""
    args = (tensor(outputs), tensor(12, 16), tensor(16, outputs))
    product = replace(cluster("aten.addmm.default", "forward", args, 12, outputs), category="gemm", calls=32.0)
    signature = small_signature(
        mode="training",
        clusters=(product, *others),
        measurements=(measured((0.001,) * (1 + len(others)), ("k",) * (1 + len(others))),),
        motifs=(Motif(clusters=(0,), count=32.0),),
        memory=replace(small_signature().memory, parameter_bytes=layers * 4 * 16 * outputs),
    )
    return sources(target_of(signature))


@pytest.mark.parametrize(("layers", "kinds"), [(1, {"linear", "recurrent"}), (32, {"linear"})])
def test_a_projection_of_queries_keys_and_values_is_no_step_of_a_gru(layers: int, kinds: set[str]) -> None:
    """Both have three times as many outputs as inputs; a GRU's weights are read in each step."""
    assert {s.kind for s in called_often(layers, outputs=48)} == kinds


@pytest.mark.parametrize("stacks", [False, True])
def test_a_loop_stacks_its_results_where_the_model_stacks(stacks: bool) -> None:
    pieces = ({"tensors": [tensor(12, 24)] * 32}, 0)
    others = [cluster("aten.stack.default", "forward", pieces, 32, 12, 24)] if stacks else []
    looped = [s.config for s in called_often(1, *others) if "uses" in s.config]
    assert looped and {bool(config.get("stacked")) for config in looped} == {stacks}


@pytest.mark.parametrize(("mode", "stacks", "unstacked"), [
    ("training", "", True), ("training", "forward", True), ("training", "backward", False), ("inference", "", False),
])  # fmt: skip
def test_three_inputs_of_attention_are_one_where_gradients_are_stacked(
    mode: Mode, stacks: str, unstacked: bool
) -> None:
    heads = tensor(2, 4, 8, 16)
    flash = cluster("aten._scaled_dot_product_flash_attention_for_cpu.default", "forward", (heads,) * 3, 2, 4, 8, 16)
    stack = cluster("aten.stack.default", stacks, ({"tensors": [heads] * 3}, 0), 3, 2, 4, 8, 16)
    (found,) = in_one_motif(mode, flash, *([stack] if stacks else []))
    assert found.config.get("unstacked", False) == unstacked


@pytest.mark.parametrize("operand", [(16,), ()])
@pytest.mark.parametrize(("mode", "summed", "constant"), [
    ("training", "", True), ("training", "for it", False), ("training", "unknown", False), ("inference", "", False),
])  # fmt: skip
def test_what_is_broadcast_is_constant_if_no_gradient_is_summed(
    mode: Mode, summed: str, constant: bool, operand: tuple[int, ...]
) -> None:
    """A recording may not tell of what a sum is."""
    product = cluster("aten.mul.Tensor", "forward", (tensor(8, 4, 16), tensor(*operand)), 8, 4, 16)
    gradient = cluster("aten.sum.dim_IntList", "backward", (tensor(8, 4, 16), [0, 1], True), 1, 1, *operand)
    if summed == "unknown":
        gradient = replace(gradient, args=(), outputs=())
    (found,) = in_one_motif(mode, product, *([gradient] if summed else []))
    assert found.config.get("constant", False) == constant


def in_one_motif(mode: Mode, first: Cluster, *others: Cluster) -> list[Source]:
    """Sources of the first operator."""
    clusters = (first, *others)
    measurements = (measured((0.001,) * len(clusters), ("k",) * len(clusters)),)
    motifs = (Motif(clusters=(0,), count=1.0),)
    return sources(target_of(small_signature(mode=mode, clusters=clusters, measurements=measurements, motifs=motifs)))


@pytest.mark.parametrize(("layers", "uses"), [(1, {32}), (32, set())])
def test_a_layer_that_a_loop_uses_is_also_tried_as_one(layers: int, uses: set[int]) -> None:
    """32 calls with the parameters of one layer, not of 32."""
    found = [s for s in called_often(layers) if s.kind == "linear"]
    assert {s.config["uses"] for s in found if "uses" in s.config} == uses
    assert {round(s.time_s / s.config.get("uses", 1), 9) for s in found} == {round(0.001 / 32, 9)}


@pytest.mark.parametrize(("mode", "uses"), [("inference", {5}), ("training", set())])
def test_bags_that_a_model_reads_one_after_another_are_also_one_block(mode: str, uses: set[int]) -> None:
    """Of two tables, three times and twice."""

    def bag(rows: int, calls: float) -> Cluster:
        args = (tensor(rows, 16), tensor(64, dtype="int64"), tensor(64, dtype="int64"), False, 0, False)
        return replace(cluster("aten._embedding_bag.default", "forward", args, 64, 16), calls=calls)

    signature = small_signature(
        mode=mode,
        clusters=(bag(1000, 3.0), bag(5000, 2.0)),
        measurements=(measured((0.003, 0.001), ("k", "k")),),
        motifs=(Motif(clusters=(0,), count=3.0), Motif(clusters=(1,), count=2.0)),
    )
    found = [s for s in sources(target_of(signature)) if s.kind == "embedding_bag"]
    assert {s.config["uses"] for s in found if "uses" in s.config} == uses
    times = {s.config["rows"]: s.time_s for s in found if "uses" in s.config}
    assert times == (pytest.approx({1000: 0.005, 5000: 0.0025}) if uses else {})


@pytest.mark.parametrize(("mode", "shape", "calls", "boolean"), [
    ("inference", (2, 1, 8, 8), 3.0, True), ("inference", (2, 1, 4, 4), 3.0, False),
    ("training", (2, 1, 8, 8), 3.0, False), ("inference", (2, 1, 8, 8), 1.0, False),
])  # fmt: skip
def test_a_mask_that_torch_makes_of_booleans_is_one_of_booleans(
    mode: str, shape: tuple[int, ...], calls: float, boolean: bool
) -> None:
    """Other runtimes are given the booleans, and run another program than with numbers. Not one that a model makes of
    booleans once, for three layers."""
    heads, mask = tensor(2, 4, 8, 16), tensor(2, 1, 8, 8)
    by = (tensor(*shape, dtype="bool"), tensor(), tensor())
    chosen = replace(cluster("aten.where.self", "forward", by, *shape), calls=calls)
    args = (heads, heads, heads, 0.0, False, mask)
    flash = "aten._scaled_dot_product_flash_attention_for_cpu.default"
    attention = replace(cluster(flash, "forward", args, 2, 4, 8, 16), calls=3.0)
    signature = small_signature(
        mode=mode,
        clusters=(chosen, attention),
        measurements=(measured((0.001, 0.003), ("k", "k")),),
        motifs=(Motif(clusters=(0,), count=1.0), Motif(clusters=(1,), count=1.0)),
    )
    (found,) = [s for s in sources(target_of(signature)) if s.kind == "attention"]
    assert found.config["mask"] == (2, 1, 8, 8)
    assert found.config.get("boolean", False) == boolean


@pytest.mark.parametrize(("mode", "kinds"), [("inference", {"concat", "comparison"}), ("training", {"concat"})])
def test_a_concatenation_is_also_tried_with_what_it_reads(mode: str, kinds: set[str]) -> None:
    """Of one vector, expanded over five others, these five, and two results of both."""
    one, others = tensor(3, 5, 8, strides=[48, 0, 1]), tensor(3, 5, 8, strides=[48, 8, 1])
    pieces = {"tensors": [one, others, tensor(3, 5, 8), tensor(3, 5, 8)]}
    signature = small_signature(
        mode=mode,
        clusters=(cluster("aten.cat.default", "forward", (pieces, -1), 3, 5, 32),),
        measurements=(measured((0.001,), ("k",)),),
        motifs=(Motif(clusters=(0,), count=1.0),),
    )
    assert {s.kind for s in sources(target_of(signature))} == kinds
