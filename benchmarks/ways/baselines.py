"""Other ways to make something small that stands for a suite, each at the same step time, to compare a proxy with.

They get the same signatures, blocks and budget. They differ in how they choose blocks or workloads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from statsnet.analysis.similarity import representatives as nearest_to_centres
from statsnet.blocks import recognise
from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import Placed, build_towers, parameter_count
from statsnet.signatures.model import Signature
from statsnet.signatures.target import target_of
from statsnet.synthesis.candidates.estimate import estimate_s
from statsnet.synthesis.measured_candidates import LARGEST_COUNT
from statsnet.synthesis.problem import Problem
from statsnet.synthesis.program.integer_program import Program
from statsnet.synthesis.program.local_search import solve

MOST_TRIES = 10_000


def expensive_operators(problem: Problem) -> list[tuple[Placed, int]]:
    """DeepBench's way: the most expensive operators at full size, each alone, as many as fit the budget."""
    target, left_s = problem.target, problem.budget_s
    chosen: dict[str, Placed] = {}
    forward = [c for c in target.clusters if c.phase == "forward" and c.timed]
    optimizers = {m.name: m.signature.optimizer for m in target.members}
    for cluster in sorted(forward, key=lambda c: (-c.time_share, c.op, str(c.args))):
        recognised = recognise([cluster])  # type: ignore[list-item]
        if recognised is None:
            continue
        kind, config = recognised
        block = Placed(kind=kind, config=config, optimizer=optimizers[cluster.member])
        time_s = cluster.time_per_call_s or 0.0
        if problem.bench.setup.mode == "training":
            forward_s, step_s = (
                sum(estimate_s(kind, config, training=training, optimizer=block.optimizer))
                for training in (False, True)
            )
            time_s *= step_s / forward_s
        if block.key not in chosen and time_s <= left_s:
            chosen[block.key] = block
            left_s -= time_s
    return [(block, 1) for block in chosen.values()]


def layer_histogram(problem: Problem) -> list[tuple[Placed, int]]:
    """The 2018 StatsNet's way: match the number of layers of each kind, total multiply-accumulates and parameters."""
    costs, target = problem.costs, problem.target
    blocks = costs.placed
    layers: Counter[str] = Counter()
    for motif in target.motifs:
        recognised = recognise([target.clusters[i] for i in motif.clusters])  # type: ignore[misc]
        if recognised is not None:
            layers[recognised[0]] += motif.count_per_s * problem.budget_s  # type: ignore[assignment]
    kinds = sorted(layers)
    total = sum(layers.values())
    matrix = costs.matrix(problem.rows, problem.budget_s)
    parameters = np.array([parameter_count(b) for b in blocks], dtype=float)
    wanted_parameters = sum(m.weight * (m.signature.memory.parameter_count or 0) for m in target.members)
    share = problem.budget_s / sum(m.weight * m.latency_s for m in target.members)
    rows = [np.array([b.kind == kind for b in blocks]) / total for kind in kinds]
    rows.append(matrix[problem.rows.index("flops")])
    if wanted_parameters:
        rows.append(parameters / (wanted_parameters * share))
    program = Program(
        matrix=np.stack(rows),
        target=np.array([layers[kind] / total for kind in kinds] + [1.0] * (len(rows) - len(kinds))),
        weight=np.ones(len(rows)),
        upper=np.full(len(blocks), LARGEST_COUNT),
    )
    counts = solve(program, max_distinct=problem.design.max_distinct).counts
    return [(b, int(n)) for b, n in zip(blocks, counts, strict=True) if n]


def random_blocks(problem: Problem) -> list[tuple[Placed, int]]:
    """Blocks of the mix, drawn at random until the budget is full."""
    generator = np.random.default_rng(0)
    blocks = problem.costs.placed
    times = problem.costs.matrix(problem.rows, problem.budget_s)[problem.rows.index("total")]
    counts: Counter[int] = Counter()
    left = 1.0
    for _ in range(MOST_TRIES):
        drawn = int(generator.integers(len(blocks)))
        if times[drawn] <= left:
            counts[drawn] += 1
            left -= times[drawn]
    return [(blocks[i], n) for i, n in sorted(counts.items())]


NETWORKS: dict[str, Callable[[Problem], list[tuple[Placed, int]]]] = {
    "operators": expensive_operators,
    "histogram": layer_histogram,
    "random": random_blocks,
}


def baseline_source(problem: Problem, choose: Callable[[Problem], list[tuple[Placed, int]]]) -> str:
    """The network that one of NETWORKS chooses."""
    setup = problem.bench.setup
    towers = build_towers(choose(problem), training=setup.mode == "training")
    title = f"{choose.__name__} for {problem.title}"
    return network_source(towers, title=title, spec_id="", mode=setup.mode, dtype=setup.dtype, seed=0)


def representatives(signatures: Sequence[Signature], weights: Sequence[float], count: int) -> dict[int, float]:
    """AIBench's way: cluster workloads by their shares of time over kernel classes, and take from each cluster the one
    nearest to its centre, with the whole cluster's weight."""
    shares = [target_of(s).kernel_class_shares for s in signatures]
    names = sorted({name for s in shares for name in s})
    points = np.array([[s.get(name, 0.0) for name in names] for s in shares])
    labels = fcluster(linkage(points, "ward"), count, "maxclust") if len(points) > 1 else np.ones(1)
    return nearest_to_centres(points, labels, weights)
