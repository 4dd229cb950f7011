"""The rounds of correction, on a machine that is simulated: what is learnt in place makes the network better."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from test_matched_characteristics import cluster, small_signature, tensor

from statsnet.errors import StatsNetError
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.shapes import shape_class, weight_bytes
from statsnet.signatures.target import target_of
from statsnet.synthesis import integer_program as solve
from statsnet.synthesis.block_costs import BlockCosts
from statsnet.synthesis.candidates import Candidate
from statsnet.synthesis.matched_characteristics import MatchedCharacteristics
from statsnet.synthesis.network_measurement import MachineSpeed, NetworkMeasurement, merge_signatures
from statsnet.synthesis.problem import Design, Problem
from statsnet.synthesis.rounds import ROUNDS, correct


@pytest.fixture(autouse=True)
def short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solve, "JUMPS", 100)


BUDGET_S = 0.01
INPUTS, OUTPUTS = 64, 32
SLOWER_IN_PLACE = {"gemm|mkl": 1.5, "activation|aten": 0.9}
ALONE_S = {"gemm|mkl": 2e-6, "activation|aten": 1e-6}
"""Seconds per row of a block, measured alone; and how much longer it takes in a network."""


def operators(rows: int) -> list[Cluster]:
    gemm = cluster(
        "aten.mm.default", "gemm", (tensor(rows, INPUTS), tensor(INPUTS, OUTPUTS)), tensor(rows, OUTPUTS), calls=1.0,
        flops=2.0 * rows * INPUTS * OUTPUTS, bytes_read=4.0 * rows * INPUTS, bytes_written=4.0 * rows * OUTPUTS,
    )  # fmt: skip
    relu = cluster(
        "aten.relu.default", "activation", (tensor(rows, OUTPUTS),), tensor(rows, OUTPUTS), calls=1.0,
        flops=1.0 * rows * OUTPUTS, bytes_read=4.0 * rows * OUTPUTS, bytes_written=4.0 * rows * OUTPUTS,
    )  # fmt: skip
    return [gemm, relu]


CLASSES = ("gemm|mkl", "activation|aten")


def part(rows: int, seconds: dict[str, float]) -> dict[str, Any]:
    found = []
    for op, name in zip(operators(rows), CLASSES, strict=True):
        if name in seconds:
            nbytes = (op.bytes_read or 0) + (op.bytes_written or 0)
            shape = shape_class(op.op, list(op.args), list(op.outputs))
            found.append({
                "category": op.category, "kernel_class": name, "shape_class": shape, "phase": "forward",
                "time_s": seconds[name], "flops": op.flops, "bytes": nbytes,
                "weights": weight_bytes(op.op, "forward", op.args), "calls": 1, "fused": 0.0,
            })  # fmt: skip
    return {"operators": found, "framework_s": 1e-6}


def seconds(rows: int, *, in_place: bool, activation: bool) -> dict[str, float]:
    names = CLASSES if activation else CLASSES[:1]
    return {n: rows * ALONE_S[n] * (SLOWER_IN_PLACE[n] if in_place else 1.0) for n in names}


class SimulatedBench:
    """Runs a network's source on no device at all: its blocks' rows give the times."""

    mode, dtype = "inference", "float32"

    def __init__(self) -> None:
        self.sources: list[str] = []

    def report(self, *_: object) -> None:
        pass

    def whole(self, source: str, runs: range, pace: MachineSpeed) -> NetworkMeasurement:
        self.sources.append(source)
        namespace: dict[str, Any] = {"__name__": "network"}
        exec(compile(source, "network.py", "exec"), namespace)
        with torch.device("meta"):
            proxy = namespace["Proxy"]()
        clusters: list[Cluster] = []
        times: list[float] = []
        towers = []
        for tower in proxy.towers:
            towers.append([])
            for block in tower:
                rows, activation = block.shape[0], block.activation is not None
                taken = seconds(rows, in_place=True, activation=activation)
                towers[-1].append(part(rows, taken))
                clusters += operators(rows)[: len(taken)]
                times += taken.values()
        measurement = replace(
            small_signature().measurements[0],
            step_latency_s=(1.1 * sum(times),),
            cluster_time_s=tuple(times),
            kernels=("k",) * len(times),
            kernel_class=tuple(CLASSES[c.category == "activation"] for c in clusters),
            launches=float(len(times)),
            framework_time_s=0.1 * sum(times),
        )
        signature = small_signature(clusters=tuple(clusters), motifs=(), measurements=(measurement,))
        return NetworkMeasurement(signature=signature, build_s=0.0, blocks=[towers] * len(runs), drift=1.0)


@pytest.fixture
def rows() -> MatchedCharacteristics:
    return MatchedCharacteristics(target_of(small_signature()))


def columns() -> BlockCosts:
    found = []
    for count in (40, 130, 400, 1300):
        for activation in ("", "relu"):
            config = {"rows": count, "inputs": INPUTS, "outputs": OUTPUTS, "activation": activation}
            column = part(count, seconds(count, in_place=False, activation=bool(activation)))
            found.append(
                (
                    Candidate(kind="linear", config=config, optimizer=None, scale=1.0, time_s=1e-4),
                    {"block": column, "optimizer": {"operators": [], "framework_s": 0.0}},
                )
            )
    return BlockCosts([c for c, _ in found], [m for _, m in found])


def problem(rows: MatchedCharacteristics, bench: Any, design: Design = Design()) -> Problem:  # noqa: B008 - it is frozen
    return Problem(
        mix_text="a mix", target=target_of(small_signature()), budget_s=BUDGET_S, rows=rows, columns=columns(),
        bench=bench, pace=MachineSpeed(source="", latency_s=0.01), replayed=(), not_retimed=(), design=design,
    )  # fmt: skip


def test_learning_in_place_brings_the_network_nearer(rows: MatchedCharacteristics) -> None:
    bench: Any = SimulatedBench()
    best, history = correct(problem(rows, bench))
    errors = [h["measured_error"] for h in history]
    assert 2 <= len(errors) <= ROUNDS
    assert min(errors) < 0.95 * errors[0]
    assert best.error(rows, BUDGET_S) == pytest.approx(min(errors), rel=0.05)
    assert abs(history[-1]["predicted_error"] - errors[-1]) < abs(history[0]["predicted_error"] - errors[0])
    step_s = best.whole.signature.measurements[0].latency_s
    assert step_s == pytest.approx(BUDGET_S, rel=0.2)


def test_no_network_is_measured_twice_before_the_end(rows: MatchedCharacteristics) -> None:
    bench: Any = SimulatedBench()
    best, history = correct(problem(rows, bench))
    *rounds, last = bench.sources
    assert len(set(rounds)) == len(rounds) == len(history)
    assert last == best.source


def test_the_same_measurements_give_the_same_network(rows: MatchedCharacteristics) -> None:
    first, second = (correct(problem(rows, SimulatedBench(), Design(seed=3)))[0] for _ in range(2))
    assert first.source == second.source


def with_times(latency_s: float, *times_s: float) -> Signature:
    signature = small_signature()
    measurement = replace(signature.measurements[0], step_latency_s=(latency_s,), cluster_time_s=times_s)
    return replace(signature, measurements=(measurement,))


def test_several_processes_count_operator_by_operator() -> None:
    runs = [with_times(0.010, 0.004, 0.003), with_times(0.011, 0.006, 0.001), with_times(0.015, 0.005, 0.009)]
    together = merge_signatures(runs, 1).measurements[0]
    assert together.cluster_time_s == (0.005, 0.003)
    assert together.latency_s == 0.011
    assert len(together.step_latency_s) == 3


def test_processes_that_ran_other_operators_are_not_mixed() -> None:
    other = replace(with_times(0.010, 0.004, 0.003), clusters=small_signature().clusters[::-1])
    runs = [other, with_times(0.011, 0.006, 0.001)]
    assert merge_signatures(runs, 1) == runs[1]


def test_a_budget_that_nothing_fits_is_an_error_that_says_so(
    rows: MatchedCharacteristics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a program's relaxation rounds to may be no block at all."""

    def none(program: Any, **_: Any) -> tuple[list[Any], float]:
        return [0 * program.upper], 0.0

    monkeypatch.setattr("statsnet.synthesis.rounds.relaxation_starts", none)
    with pytest.raises(StatsNetError, match="no network fits"):
        correct(problem(rows, SimulatedBench()))
