"""What a block costs: measured alone first, learnt in place afterwards."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
from networks import operator
from synthesis_builders import BUDGET_S, NOTHING, alone, candidate, linear, part, small_signature

from statsnet.blocks import KINDS
from statsnet.proxy.towers import Placed, Tower
from statsnet.signatures.target import target_of
from statsnet.synthesis.bench.block_measurement import BlockMeasurement, BlockPart
from statsnet.synthesis.costs.block_costs import LEAST_CALL_S, BlockCosts
from statsnet.synthesis.costs.corrections import LARGEST_CORRECTION
from statsnet.synthesis.costs.loads import groups_of
from statsnet.synthesis.failing_blocks import without_operators, without_untried
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics

ROWS = MatchedCharacteristics(target_of(small_signature()))


def costs_of(*measured: tuple[Placed, BlockMeasurement], idle_s: dict[str, float] | None = None) -> BlockCosts:
    candidates = [(candidate(b.kind, b.optimizer, **b.config), m) for b, m in measured]
    return BlockCosts.of(candidates, idle_s=idle_s)


def seconds(costs: BlockCosts, block: Placed, group: str = "total") -> float:
    """What one use of the block is predicted to take."""
    return float(costs.matrix(ROWS, BUDGET_S, [block])[ROWS.index(group), 0]) * BUDGET_S


def between_s(costs: BlockCosts, block: Placed) -> float:
    return seconds(costs, block, group="framework")


def in_place(costs: BlockCosts, *blocks: tuple[Placed, BlockPart]) -> BlockCosts:
    """With these blocks' times in a network of one tower."""
    return costs.learn([Tower(blocks=tuple(b for b, _ in blocks))], [(tuple(p for _, p in blocks),)])


def resized(costs: BlockCosts, block: Placed, rows: int) -> tuple[BlockCosts, Placed]:
    costs, others = costs.resize([block])
    return costs, next(b for b in others if b.config["rows"] == rows)


@pytest.fixture
def costs() -> BlockCosts:
    return costs_of((linear(4), alone(part("k", 0.001))), (linear(16), alone(part("k", 0.002))))


def test_a_block_with_parameters_comes_with_and_without_its_step() -> None:
    costs = costs_of((linear(4, "sgd"), alone(part("k", 0.001), part("o", 0.0005))))
    times = {p.optimizer: seconds(costs, p) for p in costs.placed}
    assert times == {None: pytest.approx(0.001), "sgd": pytest.approx(0.0015)}


def test_a_block_takes_the_time_that_it_took_in_place(costs: BlockCosts) -> None:
    """The other block of its kernel class is corrected by the same factor."""
    costs = in_place(costs, (linear(4), part("k", 0.0014)), (linear(4), part("k", 0.0016)))
    assert seconds(costs, linear(4)) == pytest.approx(0.0015)
    assert seconds(costs, linear(16)) == pytest.approx(0.003)
    assert costs.seen() == [linear(4)]


def test_each_network_teaches_more(costs: BlockCosts) -> None:
    for time_s in (0.0012, 0.0016):
        costs = in_place(costs, (linear(4), part("k", time_s)))
    assert seconds(costs, linear(4)) == pytest.approx(0.0014)
    assert seconds(costs, linear(16)) == pytest.approx(0.0028)


def test_costs_are_a_value(costs: BlockCosts) -> None:
    """What is learnt, resized or left out gives new ones."""
    before = deepcopy(costs)
    larger, others = costs.resize([linear(16)])
    middle = deepcopy(larger)
    taught = in_place(larger, (linear(4), part("k", 0.0014)), (others[0], part("k", 0.1)))
    fewer = taught.leave_out(lambda load: load.time_s > 0.0015)
    assert costs == before
    assert larger == middle
    for one, other in ((costs, larger), (larger, taught), (taught, fewer)):
        assert one != other
    assert costs.seen() == []
    assert seconds(costs, linear(4)) == pytest.approx(0.001)
    assert seconds(fewer, linear(4)) == seconds(taught, linear(4)) == pytest.approx(0.0014)


def test_a_shape_is_corrected_by_its_own_blocks() -> None:
    """Where none of a shape was in a network, by all of its kernel class."""
    shapes = {10: "deep", 20: "deep", 40: "flat", 80: "another"}
    costs = costs_of(*((linear(n), alone(part("k", 0.001, shape_class=s))) for n, s in shapes.items()))
    deep, flat = part("k", 0.0018, shape_class="deep"), part("k", 0.001, shape_class="flat")
    costs = in_place(costs, (linear(10), deep), (linear(40), flat))
    assert seconds(costs, linear(20)) == pytest.approx(0.0018)
    assert seconds(costs, linear(80)) == pytest.approx(0.0014)


def test_a_resized_block_in_place_corrects_others() -> None:
    """It is held against what its origin's time alone gives."""
    costs = costs_of((linear(40), alone(part("k", 0.001))), (linear(400), alone(part("k", 0.001))))
    costs, larger = resized(costs, linear(40), 60)
    costs = in_place(costs, (larger, part("k", 0.0018)))
    assert seconds(costs, linear(400)) == pytest.approx(0.0012)


def test_a_resized_block_of_another_shape_corrects_no_shape() -> None:
    """Alone it has its origin's shape, of which it shows nothing."""
    small, other = part("k", 0.001, shape_class="L2"), part("k", 0.001, shape_class="L2")
    costs = costs_of((linear(40), alone(small)), (linear(400), alone(other)))
    costs, larger = resized(costs, linear(40), 60)
    costs = in_place(costs, (linear(40), small), (larger, part("k", 0.003, shape_class="memory")))
    assert seconds(costs, linear(400)) == pytest.approx(0.001)


def test_a_network_that_fails_has_measured_blocks_for_those_that_never_ran() -> None:
    """One with an optimizer with which no block was measured has nothing in its place."""
    origin = linear(40, "sgd")
    costs, larger = resized(costs_of((origin, alone(part("k", 0.001), part("o", 0.0005)))), origin, 60)
    unknown = replace(larger, optimizer="adam")
    costs = replace(costs, known={**costs.known, unknown.key: unknown})
    others, counts = without_untried(costs, {larger.key: 2, origin.key: 1, unknown.key: 5})
    assert counts == {origin.key: 3}
    assert others.unsound == {larger.identity}


def test_an_optimizer_of_resized_parameters_corrects_no_shape() -> None:
    origin, other = linear(40, "sgd"), linear(400, "sgd")
    measured = alone(part("k", 0.001), part("add", 0.004, shape_class="L2"))
    costs, larger = resized(costs_of((origin, measured), (other, measured)), origin, 60)
    there = [*groups_of(part("add", 0.004, shape_class="L2")), *groups_of(part("add", 0.002, shape_class="memory"))]
    costs = costs.learn_optimizers({origin.key: 1, larger.key: 1}, there)
    assert seconds(costs, other) - seconds(costs, linear(400)) == pytest.approx(0.004 * 0.006 / 0.008)


def test_corrections_are_bounded(costs: BlockCosts) -> None:
    costs = in_place(costs, (linear(4), part("k", 0.1)))
    assert seconds(costs, linear(16)) == pytest.approx(LARGEST_CORRECTION * 0.002)


def test_a_resized_block_has_the_framework_time_of_its_origin() -> None:
    """The block's own and its optimizer's."""
    stepped = linear(40, "sgd")
    costs = costs_of((stepped, alone(part("k", 0.001, 1e-4), part("o", 0.0005, 1e-4))))
    costs, larger = resized(costs, stepped, 60)
    assert between_s(costs, stepped) == between_s(costs, larger) == pytest.approx(2e-4)


def test_what_a_step_takes_with_nothing_to_do_is_no_blocks() -> None:
    """It is in each measurement of a block alone, and once in a network; its optimizer's only where that is used."""
    stepped = linear(40, "sgd")
    idle_s = {"block": 2e-4, "sgd": 4.5e-4, "adam": 1e-3}
    costs = costs_of((stepped, alone(part("k", 0.001, 3e-4), part("o", 0.0005, 6e-4))), idle_s=idle_s)
    assert between_s(costs, linear(40)) == pytest.approx(1e-4)
    assert between_s(costs, stepped) == pytest.approx(2.5e-4)
    assert costs.idle([]).time_s == pytest.approx(2e-4)
    assert costs.idle(["sgd"]).framework_s == pytest.approx(6.5e-4)


def test_a_row_of_blocks_holds_the_idle_step_once() -> None:
    """Four in a row, which take 0.1 ms each beyond the idle step's 0.2 ms."""
    idle_s = {"block": 2e-4, "sgd": 4e-4}
    row = alone(part("k", 0.004, 6e-4), part("o", 0.002, 8e-4)).of_one(4)
    costs = costs_of((linear(4, "sgd"), row), idle_s=idle_s)
    assert between_s(costs, linear(4)) == pytest.approx(1e-4)
    assert between_s(costs, linear(4, "sgd")) == pytest.approx(1e-4 + 1e-4)


def test_no_operator_follows_another_at_once() -> None:
    """Where a block's measurement was the luckier one."""
    costs = costs_of((linear(40), alone(part("k", 0.001, 1e-4))), idle_s={"block": 2e-4})
    assert between_s(costs, linear(40)) == pytest.approx(LEAST_CALL_S)


def test_parameters_alone_are_nothing_without_their_step() -> None:
    parameters = Placed(kind="parameters", config={"shape": (40, 8)}, optimizer="adam")
    costs = costs_of((parameters, alone(replace(NOTHING, framework_s=1e-4), part("step", 0.004))))
    assert costs.placed == (parameters,)
    assert costs.forward_and_backward_s([parameters]) == pytest.approx([1e-4])
    costs, others = costs.resize([parameters])
    assert others
    for other in others:
        assert seconds(costs, other) == pytest.approx(1e-4 + 0.004 * other.config["shape"][0] / 40)


def test_optimizers_learn_from_optimizers_alone() -> None:
    """An addition that follows its operand's product finds it in the caches; a parameter's does not."""
    stepped, plain = linear(4, optimizer="sgd"), linear(4)
    costs = costs_of((stepped, alone(part("add", 0.002), part("add", 0.004))))
    before_s = seconds(costs, stepped) - seconds(costs, plain)
    assert before_s == pytest.approx(0.004)
    other, beside = linear(16, optimizer="sgd"), linear(16)
    costs = costs.with_others(costs_of((other, alone(part("add", 0.002), part("add", 0.004)))))
    costs = in_place(costs, (plain, part("add", 0.001)))
    assert seconds(costs, other) - seconds(costs, beside) == pytest.approx(0.004)
    there = [replace(g, time_s=0.009) for g in groups_of(part("add", 0.009))]
    costs = costs.learn_optimizers({stepped.key: 1, plain.key: 5}, there)
    assert seconds(costs, other) - seconds(costs, beside) == pytest.approx(0.004 * 2), "no more than twice"
    costs = costs_of((stepped, alone(part("add", 0.002), part("add", 0.004))))
    costs = costs.learn_optimizers({stepped.key: 2}, [replace(g, time_s=0.006) for g in there])
    assert seconds(costs, stepped) - seconds(costs, plain) == pytest.approx(0.003)
    assert seconds(costs, plain) == pytest.approx(0.002), "nor others from optimizers"


def test_a_resized_block_is_predicted_from_the_measured_one_until_it_runs() -> None:
    """Its block's time goes with its rows, its optimizer's step stays; in place it has a time of its own."""
    origin = linear(40, "sgd")
    costs = costs_of((origin, alone(part("k", 0.001), part("o", 0.0005))))
    costs, others = costs.resize([origin])
    assert {(p.optimizer, p.config["inputs"]) for p in others} == {("sgd", 8)}
    larger = next(p for p in others if p.config["rows"] == 60)
    assert seconds(costs, larger) == pytest.approx(0.0015 + 0.0005)
    costs = in_place(costs, (origin, part("k", 0.002)))
    assert seconds(costs, larger) == pytest.approx(0.003 + 0.0005)
    costs = in_place(costs, (larger, part("k", 0.0027)))
    assert seconds(costs, larger) == pytest.approx(0.0027 + 0.0005)
    assert {p.config["rows"] for p in costs.seen()} == {40, 60}


def test_a_resized_block_keeps_its_calls_overhead() -> None:
    """All blocks take 0.2 ms and 1 ns a FLOP."""
    costs = costs_of(
        *((linear(n), alone(part("k", 2e-4 + 1e-9 * 2e4 * n, flops=2e4 * n, bytes=0))) for n in (20, 40, 80, 160))
    )
    assert costs.overheads["k"].call_s == pytest.approx(2e-4)
    costs, larger = resized(costs, linear(40), 60)
    assert seconds(costs, larger) == pytest.approx(2e-4 + 1e-9 * 2e4 * 60)


def test_a_resized_block_keeps_what_its_weights_take() -> None:
    """All blocks take 0.2 ms, 4 ns a FLOP and 2 ns a byte of their weights, of which every other has more. They
    have few FLOPs a byte; what weights take is not counted once more for that."""
    measured = []
    for n in range(20, 180, 20):
        flops, weights = 5e3 * n, 1e5 * (1 + n % 40 // 20)
        time_s = 2e-4 + 4e-9 * flops + 2e-9 * weights
        measured.append((linear(n), alone(part("k", time_s, flops=flops, bytes=weights, weights=weights))))
    costs = costs_of(*measured)
    assert costs.overheads["k"].weight_byte_s == pytest.approx(2e-9)
    costs, larger = resized(costs, linear(40), 26)
    assert seconds(costs, larger) == pytest.approx(2e-4 + 4e-9 * 5e3 * 26 + 2e-4)


def test_the_steps_of_a_recurrent_layer_share_its_weights() -> None:
    """Alone, in place and resized: 8 steps read the weights of a GRU of 4 four times over."""
    config = {"steps": 8, "batch": 2, "inputs": 4, "hidden": 4, "cell": "GRU"}
    layer = Placed(kind="recurrent", config=config)
    parameter_bytes = 4 * 2 * (3 * 4 * 4 + 3 * 4)
    measured = part("k", 0.001, weights=4 * parameter_bytes)
    costs = costs_of((layer, alone(measured)))

    def distinct(costs: BlockCosts, block: Placed) -> list[float]:
        return [w.distinct for w in costs._load(block, {}).groups]

    assert distinct(costs, layer) == pytest.approx([0.25])
    costs, others = costs.resize([layer])
    assert others
    assert {w for block in others for w in distinct(costs, block)} == {0.25}
    assert distinct(in_place(costs, (layer, measured)), layer) == pytest.approx([0.25])


def test_resizing_twice_adds_nothing(costs: BlockCosts) -> None:
    once, others = costs.resize([linear(16)])
    assert once.resize([linear(16)]) == (once, others)
    assert once.named({others[0].key: 2}) == others[:1]


def test_the_optimizers_step_grows_with_a_table() -> None:
    table = Placed(kind="embedding", config={"rows": 400, "width": 8, "indices": 40}, optimizer="adam")
    costs = costs_of((table, alone(part("k", 0.001), part("step", 0.004))))
    costs, others = costs.resize([table])
    assert others
    for other in others:
        ratio = other.config["rows"] / 400
        assert other.config["indices"] == round(40 * ratio)
        assert seconds(costs, other) == pytest.approx(0.005 * ratio, rel=0.02)


def test_a_product_of_few_rows_takes_as_long_for_its_weights() -> None:
    """Three in four of its bytes are weights, and there are few FLOPs for each."""
    weights_bytes = 4 * (8 * 8 + 8)
    costs = costs_of((linear(40), alone(part("k", 0.001, flops=512.0, bytes=weights_bytes / 0.75))))
    costs, others = costs.resize([linear(40)])
    assert others
    for other in others:
        assert seconds(costs, other) == pytest.approx(0.001 * (0.75 + 0.25 * other.config["rows"] / 40))


def test_candidates_are_left_out_unless_none_would_be_left(costs: BlockCosts) -> None:
    fewer = costs.leave_out(lambda load: load.time_s > 0.0015)
    assert fewer.placed == (linear(4),)
    assert fewer.leave_out(lambda load: True) == fewer


def test_a_block_is_launch_bound_where_a_gpu_waits_longer_than_it_works() -> None:
    long, short, even = linear(64), linear(4), linear(16)
    costs = costs_of(
        (long, alone(part("k", 0.010))),
        (short, alone(part("k", 0.001, framework_s=0.009))),
        (even, alone(part("k", 0.010, framework_s=0.010))),
    )
    assert [costs.is_launch_bound(b) for b in (long, short, even)] == [False, True, False]


def test_without_operators_by_themselves_the_other_blocks_stay() -> None:
    logit = Placed(kind="operator", config={
        "operator": ("logit", "default"), "spelling": "torch", "operands": (("own", (8, 64), ()),),
        "arguments": (("operand", 0), ("usual",)), "output": -1,
    })  # fmt: skip
    costs = costs_of((linear(4), alone(part("k", 0.001))), (logit, alone(part("logit", 0.001))))
    costs, others = costs.resize([logit])
    kept, counts = without_operators(costs, {linear(4).key: 2, logit.key: 1, others[0].key: 3})
    assert counts == {linear(4).key: 2} and kept.placed == (linear(4),)
    assert kept.resize([logit])[1] == []
    assert kept.with_others(costs).placed == (linear(4),), "what does not run comes back by no way"
    assert costs.with_others(kept) == costs


def test_a_kind_that_fails_on_a_size_offers_no_other_size(monkeypatch: pytest.MonkeyPatch, costs: BlockCosts) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(type(KINDS["linear"]), "resized", fail)
    assert costs.resize([linear(4)]) == (costs, [])


def test_a_size_in_which_a_block_does_not_run_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    more_than_there_are = {"shape": (4, 8), "count": 9}
    monkeypatch.setattr(type(KINDS["topk"]), "resized", lambda *_: more_than_there_are)
    largest = Placed(kind="topk", config={"shape": (5, 8), "count": 3})
    costs = costs_of((largest, alone(part("k", 0.001))))
    assert costs.resize([largest]) == (costs, [])


def test_an_operator_in_another_size_has_the_flops_and_bytes_of_its_formula() -> None:
    """With half the rows a product has half the FLOPs, and still reads the same weight."""
    product = Placed(kind="operator", config=operator("mm.default", ((64, 1024), ()), ((1024, 1024), ())))
    costs = costs_of((product, alone(part("k", 0.001, flops=100.0, bytes=100.0))))
    costs, others = costs.resize([product])
    fewer = next(b for b in others if b.config["operands"][0][1] == (42, 1024))
    (group,) = costs._groups_alone(fewer.identity)
    assert group.flops == pytest.approx(100.0 * 42 / 64)
    assert group.bytes == pytest.approx(100.0 * (2 * 42 + 1024) / (2 * 64 + 1024))


def test_no_other_size_has_a_single_row(costs: BlockCosts) -> None:
    """A product of one row is another kernel than the one that was measured; that of a block of one row is not."""
    small = costs_of((linear(2), alone(part("k", 0.001))))
    assert {block.config["rows"] for block in small.resize([linear(2)])[1]} == {3}
    assert 1 not in {block.config["rows"] for block in costs.resize([linear(4), linear(16)])[1]}


def test_other_sizes_stay_near_a_measured_one(costs: BlockCosts) -> None:
    """Sizes of sizes, too: farther away, another cache holds the operands."""
    reached = [linear(16)]
    for _ in range(4):
        costs, reached = costs.resize(reached)
    assert {b.config["rows"] for b in reached} <= set(range(8, 32))
    assert all(costs.resized[b.identity].origin in costs.block_loads for b in reached if b.config["rows"] != 16)


def test_a_correction_is_for_all_of_another_size() -> None:
    """Not for what is left after its fixed costs."""
    loads = [(linear(n), alone(part("k", 1e-3 + n * 1e-5, flops=n))) for n in (10, 20, 40, 80)]
    costs = in_place(costs_of(*loads), (linear(80), part("k", 0.9e-3)))
    costs, other = resized(costs, linear(20), 26)
    assert seconds(costs, other) == pytest.approx(0.5 * 1.26e-3, rel=1e-3)


def test_the_pace_is_that_of_most_of_the_first_blocks_time() -> None:
    """Blocks that read what another has just written are no measure of the machine, nor is a single odd one."""
    small, large = (Placed(kind="linear", config={"rows": n, "inputs": 8, "outputs": 4}) for n in (4, 16))
    costs = costs_of((small, alone(part("k", 0.001))), (large, alone(part("k", 0.004))))
    towers = [Tower(blocks=(large, small)), Tower(blocks=(small,))]
    assert costs.pace(towers, ((part("k", 0.0048), part("k", 0.0005)), (part("k", 0.002),))) == pytest.approx(1.2)
    assert costs.pace(towers, ((part("k", 0.4), part("k", 0.1)), (part("k", 0.1),))) == pytest.approx(1.5)
    square = costs_of((linear(4), alone(part("k", 0.001))))
    assert square.pace([Tower(blocks=(linear(4),))], ((part("k", 0.002),),)) == 1.0


def test_a_layer_in_a_loop_in_another_size_repeats_its_calls() -> None:
    """Its operators and the time between them grow with its uses; its optimizer steps one weight."""
    looped = replace(linear(40, "sgd"), config={**linear(40).config, "uses": 4})
    costs = costs_of((looped, alone(part("k", 0.001, 1e-4), part("o", 0.0005, 1e-4))))
    costs, blocks = costs.resize([looped])
    longer = next(b for b in blocks if b.config["uses"] == 6)
    (operators,) = costs._groups_alone(longer.identity)
    (before,) = costs._groups_alone(looped.identity)
    assert operators.time_s == pytest.approx(1.5 * before.time_s)
    assert operators.calls == pytest.approx(1.5 * before.calls)
    assert between_s(costs, longer) == pytest.approx(2.5e-4)
