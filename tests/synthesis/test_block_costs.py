"""What a block costs: measured alone first, learnt in place afterwards."""

from __future__ import annotations

from typing import Any

import pytest
from test_matched_characteristics import small_signature

from statsnet.proxy.towers import Placed, Tower
from statsnet.signatures.target import target_of
from statsnet.synthesis.block_costs import LARGEST_CORRECTION, LARGEST_FRAMEWORK, LEAST_CALL_S, BlockCosts
from statsnet.synthesis.candidates import Candidate
from statsnet.synthesis.matched_characteristics import MatchedCharacteristics

BUDGET_S = 0.01


def part(kernel_class: str, time_s: float, framework_s: float = 0.0, shape: str = "s") -> dict[str, Any]:
    row = {
        "category": "gemm", "kernel_class": kernel_class, "shape_class": shape, "phase": "forward",
        "time_s": time_s, "flops": 1e6, "bytes": 1e5, "weights": 0, "calls": 1, "fused": 0.0,
    }  # fmt: skip
    return {"operators": [row], "framework_s": framework_s}


NOTHING: dict[str, Any] = {"operators": [], "framework_s": 0.0}


def candidate(rows: int, optimizer: str | None = None) -> Candidate:
    config = {"rows": rows, "inputs": 8, "outputs": 8}
    return Candidate(kind="linear", config=config, optimizer=optimizer, scale=1.0, time_s=1e-3)


def total(columns: BlockCosts, rows: MatchedCharacteristics, index: int) -> float:
    """Seconds that a column is predicted to take."""
    return seconds(columns, rows, columns.placed[index])


def seconds(columns: BlockCosts, rows: MatchedCharacteristics, block: Placed, group: str = "total") -> float:
    return float(columns.matrix(rows, BUDGET_S, [block])[rows.index(group), 0]) * BUDGET_S


def placed(rows: int) -> Placed:
    return Placed(kind="linear", config={"rows": rows, "inputs": 8, "outputs": 8})


@pytest.fixture
def rows() -> MatchedCharacteristics:
    return MatchedCharacteristics(target_of(small_signature()))


@pytest.fixture
def columns() -> BlockCosts:
    measured = [
        {"block": part("k", 0.001), "optimizer": NOTHING},
        {"block": part("k", 0.002), "optimizer": NOTHING},
    ]
    return BlockCosts([candidate(4), candidate(16)], measured)


def test_a_block_with_parameters_comes_with_and_without_its_step(rows: MatchedCharacteristics) -> None:
    measured = [{"block": part("k", 0.001), "optimizer": part("o", 0.0005)}]
    columns = BlockCosts([candidate(4, "sgd")], measured)
    assert sorted(str(p.optimizer) for p in columns.placed) == ["None", "sgd"]
    times = {p.optimizer: total(columns, rows, i) for i, p in enumerate(columns.placed)}
    assert times == {None: pytest.approx(0.001), "sgd": pytest.approx(0.0015)}


def test_a_block_takes_the_time_that_it_took_in_place(
    columns: BlockCosts, rows: MatchedCharacteristics
) -> None:
    """The other block of its kernel class is corrected by the same factor."""
    index = {p.config["rows"]: i for i, p in enumerate(columns.placed)}
    columns.learn([Tower(blocks=(placed(4), placed(4)))], [[part("k", 0.0014), part("k", 0.0016)]])
    assert total(columns, rows, index[4]) == pytest.approx(0.0015)
    assert total(columns, rows, index[16]) == pytest.approx(0.003)
    assert columns.seen() == [placed(4)]


def test_a_shape_is_corrected_by_its_own_blocks(rows: MatchedCharacteristics) -> None:
    """Where none of a shape was in a network, by all of its kernel class."""
    shapes = {10: "deep", 20: "deep", 40: "flat", 80: "another"}
    measured = [{"block": part("k", 0.001, shape=s), "optimizer": NOTHING} for s in shapes.values()]
    columns = BlockCosts([candidate(n) for n in shapes], measured)
    in_place = [part("k", 0.0018, shape="deep"), part("k", 0.001, shape="flat")]
    columns.learn([Tower(blocks=(placed(10), placed(40)))], [in_place])
    assert seconds(columns, rows, placed(20)) == pytest.approx(0.0018)
    assert seconds(columns, rows, placed(80)) == pytest.approx(0.0014)


def test_a_resized_block_in_place_corrects_others(rows: MatchedCharacteristics) -> None:
    """It is held against what its origin's time alone gives."""
    measured = [{"block": part("k", 0.001), "optimizer": NOTHING}] * 2
    columns = BlockCosts([candidate(40), candidate(400)], measured)
    larger = next(p for p in columns.resize([placed(40)]) if p.config["rows"] == 60)
    columns.learn([Tower(blocks=(larger,))], [[part("k", 0.0018)]])
    assert seconds(columns, rows, placed(400)) == pytest.approx(0.0012)


def test_corrections_are_bounded(columns: BlockCosts, rows: MatchedCharacteristics) -> None:
    columns.learn([Tower(blocks=(placed(4),))], [[part("k", 0.1)]])
    index = next(i for i, p in enumerate(columns.placed) if p.config["rows"] == 16)
    assert total(columns, rows, index) == pytest.approx(LARGEST_CORRECTION * 0.002)


def test_between_operators_lies_what_lay_there_in_whole_networks(rows: MatchedCharacteristics) -> None:
    """Two networks took three times as long there as their blocks alone, and one had a busy neighbour; their
    optimizer's part counts."""
    measured = [{"block": part("k", 0.001, 1e-4), "optimizer": part("o", 0.0005, 1e-4)}]
    columns = BlockCosts([candidate(40, "sgd")], measured)
    stepped = next(p for p in columns.placed if p.optimizer)
    larger = next(p for p in columns.resize([stepped]) if p.config["rows"] == 60)
    assert seconds(columns, rows, stepped, group="framework") == pytest.approx(2e-4)
    columns.learn_framework({stepped.key: 2, larger.key: 1}, 18e-4)
    columns.learn_framework({stepped.key: 1}, 6e-4)
    columns.learn_framework({stepped.key: 1}, 40e-4)
    assert seconds(columns, rows, stepped, group="framework") == pytest.approx(6e-4)
    assert seconds(columns, rows, larger, group="framework") == pytest.approx(6e-4)
    columns.learn_framework({stepped.key: 1}, 1.0)
    assert seconds(columns, rows, stepped, group="framework") == pytest.approx(LARGEST_FRAMEWORK * 2e-4)


def test_what_a_step_takes_with_nothing_to_do_is_no_blocks(rows: MatchedCharacteristics) -> None:
    """It is in each measurement of a block alone, and once in a network; its optimizer's only where that is used."""
    measured = [{"block": part("k", 0.001, 3e-4), "optimizer": part("o", 0.0005, 6e-4)}]
    columns = BlockCosts(
        [candidate(40, "sgd")], measured, idle_s={"block": 2e-4, "sgd": 4.5e-4, "adam": 1e-3}
    )
    plain, stepped = sorted(columns.placed, key=lambda p: p.optimizer or "")
    assert seconds(columns, rows, plain, group="framework") == pytest.approx(1e-4)
    assert seconds(columns, rows, stepped, group="framework") == pytest.approx(2.5e-4)
    assert columns.idle([]).time_s == pytest.approx(2e-4)
    assert columns.idle(["sgd"]).framework_s == pytest.approx(6.5e-4)
    columns.learn_framework({stepped.key: 2}, 6.5e-4 + 3 * 2 * 2.5e-4)
    assert seconds(columns, rows, stepped, group="framework") == pytest.approx(7.5e-4)


def test_no_operator_follows_another_at_once(rows: MatchedCharacteristics) -> None:
    """Where a block's measurement was the luckier one."""
    columns = BlockCosts(
        [candidate(40)], [{"block": part("k", 0.001, 1e-4), "optimizer": NOTHING}], idle_s={"block": 2e-4}
    )
    assert seconds(columns, rows, columns.placed[0], group="framework") == pytest.approx(LEAST_CALL_S)


def test_parameters_alone_are_nothing_without_their_step(rows: MatchedCharacteristics) -> None:
    config = {"shape": (40, 8)}
    alone = Candidate(kind="parameters", config=config, optimizer="adam", scale=1.0, time_s=1e-3)
    measured = [{"block": {"operators": [], "framework_s": 1e-4}, "optimizer": part("step", 0.004)}]
    columns = BlockCosts([alone], measured)
    (stepped,) = columns.placed
    assert stepped.optimizer == "adam"
    assert columns.forward_and_backward_s([stepped]) == pytest.approx([1e-4])
    for resized in columns.resize([stepped]):
        ratio = resized.config["shape"][0] / 40
        assert seconds(columns, rows, resized) == pytest.approx(1e-4 + 0.004 * ratio)


def test_a_resized_block_is_predicted_from_the_measured_one_until_it_runs(
    rows: MatchedCharacteristics,
) -> None:
    """Its block's time goes with its rows, its optimizer's step stays; in place it has a time of its own."""
    columns = BlockCosts(
        [candidate(40, "sgd")], [{"block": part("k", 0.001), "optimizer": part("o", 0.0005)}]
    )
    origin = next(p for p in columns.placed if p.optimizer)
    resized = columns.resize([origin])
    larger = next(p for p in resized if p.config["rows"] == 60)
    assert all(p.optimizer == "sgd" for p in resized)
    assert {p.config["inputs"] for p in resized} == {8}
    assert seconds(columns, rows, larger) == pytest.approx(0.0015 + 0.0005)
    columns.learn([Tower(blocks=(origin,))], [[part("k", 0.002)]])
    assert seconds(columns, rows, larger) == pytest.approx(0.003 + 0.0005)
    columns.learn([Tower(blocks=(larger,))], [[part("k", 0.0027)]])
    assert seconds(columns, rows, larger) == pytest.approx(0.0027 + 0.0005)
    assert {p.config["rows"] for p in columns.seen()} == {40, 60}


def test_a_resized_block_keeps_its_calls_overhead(rows: MatchedCharacteristics) -> None:
    """All blocks take 0.2 ms and 1 ns a FLOP."""
    sizes = (20, 40, 80, 160)
    measured = [{"block": part("k", 2e-4 + 1e-9 * 2e4 * n), "optimizer": NOTHING} for n in sizes]
    for n, column in zip(sizes, measured, strict=True):
        column["block"]["operators"][0] |= {"flops": 2e4 * n, "bytes": 0}
    columns = BlockCosts([candidate(n) for n in sizes], measured)
    assert columns.overheads["k"].call_s == pytest.approx(2e-4)
    larger = next(p for p in columns.resize([placed(40)]) if p.config["rows"] == 60)
    assert seconds(columns, rows, larger) == pytest.approx(2e-4 + 1e-9 * 2e4 * 60)


def test_a_resized_block_keeps_what_its_weights_take(rows: MatchedCharacteristics) -> None:
    """All blocks take 0.2 ms, 4 ns a FLOP and 2 ns a byte of their weights, of which every other has more. They
    have few FLOPs a byte; what weights take is not counted once more for that."""
    sizes = range(20, 180, 20)
    measured = [{"block": part("k", 0.0), "optimizer": NOTHING} for _ in sizes]
    for n, column in zip(sizes, measured, strict=True):
        flops, weights = 5e3 * n, 1e5 * (1 + n % 40 // 20)
        time_s = 2e-4 + 4e-9 * flops + 2e-9 * weights
        column["block"]["operators"][0] |= {
            "time_s": time_s, "flops": flops, "bytes": weights, "weights": weights,
        }  # fmt: skip
    columns = BlockCosts([candidate(n) for n in sizes], measured)
    assert columns.overheads["k"].weight_byte_s == pytest.approx(2e-9)
    larger = next(p for p in columns.resize([placed(40)]) if p.config["rows"] == 46)
    assert seconds(columns, rows, larger) == pytest.approx(2e-4 + 4e-9 * 5e3 * 46 + 2e-4)


def test_the_steps_of_a_recurrent_layer_share_its_weights() -> None:
    """Alone, in place and resized: 8 steps read the weights of a GRU of 4 four times over."""
    config = {"steps": 8, "batch": 2, "inputs": 4, "hidden": 4, "cell": "GRU"}
    layer = Placed(kind="recurrent", config=config)
    parameter_bytes = 4 * 2 * (3 * 4 * 4 + 3 * 4)
    measured = part("k", 0.001)
    measured["operators"][0]["weights"] = 4 * parameter_bytes
    recurrent = Candidate(kind="recurrent", config=config, optimizer=None, scale=1.0, time_s=1e-3)
    columns = BlockCosts([recurrent], [{"block": measured, "optimizer": NOTHING}])

    def distinct(block: Placed) -> list[float]:
        return [w.distinct for w in columns._load(block, {}).works]

    assert distinct(layer) == pytest.approx([0.25])
    resized = columns.resize([layer])
    assert resized
    assert {w for block in resized for w in distinct(block)} == {0.25}
    columns.learn([Tower(blocks=(layer,))], [[measured]])
    assert distinct(layer) == pytest.approx([0.25])


def test_resizing_twice_adds_nothing(columns: BlockCosts) -> None:
    first = columns.resize([placed(16)])
    assert columns.resize([placed(16)]) == first
    assert columns.named({first[0].key: 2}) == first[:1]


def test_the_optimizers_step_grows_with_a_table() -> None:
    config = {"rows": 400, "width": 8, "indices": 40}
    table = Candidate(kind="embedding", config=config, optimizer="adam", scale=1.0, time_s=1e-3)
    columns = BlockCosts([table], [{"block": part("k", 0.001), "optimizer": part("step", 0.004)}])
    rows = MatchedCharacteristics(target_of(small_signature()))
    stepped = Placed(kind="embedding", config=config, optimizer="adam")
    for resized in columns.resize([stepped]):
        ratio = resized.config["rows"] / config["rows"]
        assert resized.config["indices"] == round(40 * ratio)
        assert seconds(columns, rows, resized) == pytest.approx(0.005 * ratio, rel=0.02)


def test_a_product_of_few_rows_takes_as_long_for_its_weights() -> None:
    """Three in four of its bytes are weights, and there are few FLOPs for each."""
    weights_bytes = 4 * (8 * 8 + 8)
    slow = part("k", 0.001)
    slow["operators"][0] |= {"flops": 512.0, "bytes": weights_bytes / 0.75}
    columns = BlockCosts([candidate(40)], [{"block": slow, "optimizer": NOTHING}])
    rows = MatchedCharacteristics(target_of(small_signature()))
    for resized in columns.resize([placed(40)]):
        ratio = resized.config["rows"] / 40
        assert seconds(columns, rows, resized) == pytest.approx(0.001 * (0.75 + 0.25 * ratio))


def test_candidates_are_left_out_unless_none_would_be_left(columns: BlockCosts) -> None:
    columns.leave_out(lambda load: load.time_s > 0.0015)
    assert columns.placed == [placed(4)]
    columns.leave_out(lambda load: True)
    assert columns.placed == [placed(4)]
