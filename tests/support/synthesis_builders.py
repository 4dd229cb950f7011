"""Small signatures, blocks and costs for the tests of synthesis, and a simulated machine to run networks on."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from clusters import tensor

from statsnet.deadline import Deadline
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.task import Task
from statsnet.measure.timing_tasks import Model
from statsnet.progress import Stages
from statsnet.proxy.towers import Placed
from statsnet.signatures.measurement import Measurement
from statsnet.signatures.mix import Mix, MixMember
from statsnet.signatures.model import Cluster, Memory, Motif, Signature
from statsnet.signatures.shapes import shape_class, weight_bytes
from statsnet.signatures.target import target_of
from statsnet.synthesis import next_network
from statsnet.synthesis.bench.bench import BenchSetup, MeasuredBlocks
from statsnet.synthesis.bench.block_measurement import BlockMeasurement, BlockPart, MeasuredOperators
from statsnet.synthesis.bench.network_measurement import MachineSpeed, NetworkMeasurement
from statsnet.synthesis.candidates.candidates import Candidate
from statsnet.synthesis.costs.block_costs import BlockCosts
from statsnet.synthesis.problem import Design, Problem
from statsnet.synthesis.program.matched_characteristics import MatchedCharacteristics

STEP_S = BUDGET_S = 0.010
GEMM_S, RELU_S = 0.006, 0.002
TINY = Model(target="recsys/ncf", preset="tiny", batch=8, mode="inference")
"""A workload that is profiled within a second or two."""


def cluster(op: str, category: str, args: tuple[Any, ...], out: dict[str, Any], **more: Any) -> Cluster:
    fields = {"phase": "forward", "calls": 4.0, **more}
    return Cluster(op=op, category=category, args=args, outputs=(out,), **fields)


GEMM = cluster(
    "aten.mm.default", "gemm", (tensor(64, 256), tensor(256, 512, strides=[1, 256])), tensor(64, 512),
    flops=2.0 * 64 * 256 * 512, bytes_read=4.0 * (64 * 256 + 256 * 512), bytes_written=4.0 * 64 * 512,
)  # fmt: skip
RELU = cluster(
    "aten.relu.default", "activation", (tensor(64, 512),), tensor(64, 512),
    flops=64.0 * 512, bytes_read=4.0 * 64 * 512, bytes_written=4.0 * 64 * 512,
)  # fmt: skip


def measured(times_s: Sequence[float | None], classes: Sequence[str | None], **changes: Any) -> Measurement:
    """A step of 10 ms in which the clusters, of these kernel classes, take these times, and the framework the rest."""
    framework_s = max(STEP_S - sum(t or 0.0 for t in times_s), 0.0)
    fields: dict[str, Any] = {
        "environment": {"device": "cpu", "device_name": "Z80"}, "step_latency_s": (STEP_S,),
        "warmup_latency_s": (), "launches": 8.0,
        "profiled_latency_s": (), "cluster_time_s": tuple(times_s), "kernel_class": tuple(classes),
        "kernels": tuple(name and name.split("|")[-1] for name in classes), "framework_time_s": framework_s,
        "idle_time_s": 0.0, "unexplained_share": 0.0, "coefficient_of_variation": 0.0,
    }  # fmt: skip
    return Measurement(**{**fields, **changes})


def small_signature(**changes: Any) -> Signature:
    """10 ms a step: 6 ms of matrix products, 2 ms of relu, 2 ms of framework."""
    fields: dict[str, Any] = {
        "mode": "inference", "dtype": "float32", "clusters": (GEMM, RELU),
        "memory": Memory(parameter_count=0, parameter_bytes=0, buffer_bytes=0, input_bytes=0),
        "motifs": (Motif(clusters=(0, 1), count=4.0),),
        "measurements": (measured((GEMM_S, RELU_S), CLASSES),),
    }  # fmt: skip
    return Signature(**{**fields, **changes})


def moved(signature: Signature) -> Signature:
    """The same signature, as if another machine had measured it."""
    (measurement,) = signature.measurements
    environment = {**measurement.environment, "device_name": "Z80", "cpu_model": "Z80"}
    return replace(signature, measurements=(replace(measurement, environment=environment),))


def mix_of(*signatures: Signature) -> Mix:
    """Members m0, m1 ... of equal weight."""
    members = [
        MixMember(name=f"m{i}", weight=1 / len(signatures), signature=each, source="database", path=Path())
        for i, each in enumerate(signatures)
    ]
    return Mix(mode="inference", members=tuple(members))


def row(kernel_class: str = "k", time_s: float = 1e-3, **changes: Any) -> MeasuredOperators:
    fields: dict[str, Any] = {
        "category": "gemm", "kernel_class": kernel_class, "shape_class": "s", "phase": "forward", "fused": 0.0,
        "joined": 0.0, "time_s": time_s, "flops": 1e6, "bytes": 1e5, "weights": 0, "calls": 1,
    }  # fmt: skip
    return MeasuredOperators(**{**fields, **changes})


def part(kernel_class: str, time_s: float, framework_s: float = 0.0, **changes: Any) -> BlockPart:
    """One operator, and what lies around it."""
    return BlockPart(operators=(row(kernel_class, time_s, **changes),), framework_s=framework_s)


NOTHING = BlockPart(operators=(), framework_s=0.0)


def alone(block: BlockPart, optimizer: BlockPart = NOTHING) -> BlockMeasurement:
    return BlockMeasurement(block=block, optimizer=optimizer)


def candidate(kind: str, optimizer: str | None = None, **config: Any) -> Candidate:
    return Candidate(kind=kind, config=config, optimizer=optimizer, scale=1.0, time_s=1e-3, family=kind, share=1.0)


def bench_setup(cache: MeasurementCache | None = None, **changes: Any) -> BenchSetup:
    """With a cache that keeps nothing, if none is given: its folder cannot be made."""
    fields: dict[str, Any] = {
        "environment": {"device": "cpu", "device_name": "Z80"}, "mode": "inference", "dtype": "float32",
        "device": "cpu", "cache": cache or MeasurementCache(Path(os.devnull)),
    }  # fmt: skip
    return BenchSetup(**{**fields, **changes})


def play(monkeypatch: pytest.MonkeyPatch, module: ModuleType, answer: Callable[[Task[Any]], Any]) -> list[Task[Any]]:
    """From now on `answer` takes the place of the processes that a module runs. Returns the list of their tasks, which
    grows as they are run."""
    tasks: list[Task[Any]] = []

    def run(task: Task[Any], *_: Any, **__: Any) -> Any:
        tasks.append(task)
        return answer(task)

    monkeypatch.setattr(module, "run", run)
    return tasks


def few_jumps(patch: pytest.MonkeyPatch) -> None:
    """For tests of what is done with solutions, not of how good they are: most of a round is local search."""
    for name, few in (("FIRST_JUMPS", 3), ("JUMPS", 10), ("JUMPS_NEARBY", 40)):
        patch.setattr(next_network, name, few)


CLASSES = ("gemm|mkl", "activation|aten")
INPUTS, OUTPUTS = 64, 32
SLOWER_IN_PLACE = {"gemm|mkl": 1.5, "activation|aten": 0.9}
ALONE_S = {"gemm|mkl": 2e-6, "activation|aten": 1e-6}
"""Seconds per row of a block, measured alone; and how much longer it takes in a network."""


def simulated_calls(rows: int, activation: bool) -> list[Cluster]:
    """What a linear block of so many rows calls."""
    gemm = cluster(
        "aten.mm.default", "gemm", (tensor(rows, INPUTS), tensor(INPUTS, OUTPUTS)), tensor(rows, OUTPUTS), calls=1.0,
        flops=2.0 * rows * INPUTS * OUTPUTS, bytes_read=4.0 * rows * INPUTS, bytes_written=4.0 * rows * OUTPUTS,
    )  # fmt: skip
    relu = cluster(
        "aten.relu.default", "activation", (tensor(rows, OUTPUTS),), tensor(rows, OUTPUTS), calls=1.0,
        flops=1.0 * rows * OUTPUTS, bytes_read=4.0 * rows * OUTPUTS, bytes_written=4.0 * rows * OUTPUTS,
    )  # fmt: skip
    return [gemm, relu] if activation else [gemm]


def simulated_part(rows: int, activation: bool, *, in_place: bool) -> BlockPart:
    operators = []
    for call, name in zip(simulated_calls(rows, activation), CLASSES, strict=False):
        operators.append(
            row(
                name,
                rows * ALONE_S[name] * (SLOWER_IN_PLACE[name] if in_place else 1.0),
                category=call.category,
                shape_class=shape_class(call.op, list(call.args), list(call.outputs)),
                flops=call.flops,
                bytes=(call.bytes_read or 0) + (call.bytes_written or 0),
                weights=weight_bytes(call.op, "forward", call.args),
            )
        )
    return BlockPart(operators=tuple(operators), framework_s=1e-6)


@dataclass
class FakeClock:
    """Goes on only where somebody says so."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


PROCESS_S = 10.0


class SimulatedBench:
    """Runs a network's source on no device at all: its blocks' rows give the times. A process takes PROCESS_S of the
    clock, and finds a step longer or shorter than it is by one of the `noise` shares."""

    can_time_members = True

    def __init__(self, *, within_s: float | None = None, noise: tuple[float, ...] = (), **changes: Any) -> None:
        self.clock = FakeClock()
        self.notes: list[str] = []
        self.noise = noise
        self.setup = bench_setup(
            environment={},
            deadline=Deadline.after(within_s, self.clock),
            stages=Stages(clock=self.clock),
            note=self.notes.append,
            **changes,
        )
        self.sources: list[str] = []
        self.runs: list[range] = []

    def kept(self, wanted: Sequence[Candidate], *_: Any) -> list[Candidate]:
        return []

    def measure_blocks(self, *_: Any, **__: Any) -> MeasuredBlocks:
        return []  # its networks are of linear blocks alone

    def measure_network(self, source: str, runs: range, speed: MachineSpeed) -> NetworkMeasurement:
        self.sources.append(source)
        self.runs.append(runs)
        self.clock.now_s += PROCESS_S * len(runs)
        namespace: dict[str, Any] = {"__name__": "network"}
        exec(compile(source, "network.py", "exec"), namespace)
        with torch.device("meta"):
            proxy = namespace["Proxy"]()
        sizes = [[(block.shape[0], block.activation is not None) for block in tower] for tower in proxy.towers]
        towers = tuple(tuple(simulated_part(*size, in_place=True) for size in tower) for tower in sizes)
        clusters = [call for tower in sizes for size in tower for call in simulated_calls(*size)]
        rows = [each for tower in towers for block in tower for each in block.operators]
        spent_s = sum(each.time_s for each in rows)
        measurement = measured(
            [each.time_s for each in rows],
            [each.kernel_class for each in rows],
            step_latency_s=(1.1 * spent_s,),
            launches=float(len(rows)),
            framework_time_s=0.1 * spent_s,
        )
        signature = small_signature(clusters=tuple(clusters), motifs=(), measurements=(measurement,))
        processes = tuple(
            replace(signature, measurements=(replace(measurement, step_latency_s=(1.1 * spent_s * (1 + share),)),))
            for share in self.noise
        )
        return NetworkMeasurement(
            signature=signature, build_s=0.0, blocks=(towers,) * len(runs), drift=1.0, processes=processes
        )


def small_costs() -> BlockCosts:
    """Of linear blocks in four sizes, with and without an activation, measured alone on the simulated machine."""
    return BlockCosts.of(
        [
            (
                candidate("linear", rows=rows, inputs=INPUTS, outputs=OUTPUTS, activation=activation),
                alone(simulated_part(rows, bool(activation), in_place=False)),
            )
            for rows in (40, 130, 400, 1300)
            for activation in ("", "relu")
        ]
    )


def small_problem(bench: Any = None, design: Design = Design()) -> Problem:  # noqa: B008 - it is frozen
    """To stand for the small signature, on the simulated machine."""
    target, bench = target_of(small_signature()), bench or SimulatedBench()
    return Problem(
        title="a mix", notes="", target=target, budget_s=BUDGET_S,
        asked_budget_s=None, rows=MatchedCharacteristics(target),
        costs=small_costs(), bench=bench, speed=MachineSpeed(reference_network="", reference_latency_s=0.01),
        replayed=(), not_retimed=(), design=design,
    )  # fmt: skip


def linear(rows: int, optimizer: str | None = None) -> Placed:
    return Placed(kind="linear", config={"rows": rows, "inputs": 8, "outputs": 8}, optimizer=optimizer)
