"""Which kernel classes does a proxy's error under a setting come from?

    python benchmarks/diagnostics/error_by_kernel.py PROXY SETTINGS [--rounds 2]

Suite and proxy are profiled at the baseline and under each setting, in turn, in fresh processes. With shares q (suite)
and p (proxy) of the baseline's step and factors g and f of each kernel class, F_P − F_S = Σ (p − q) g + Σ p (f − g).
The first sum is the error of the shares, the second is what the proxy's own operators do differently from the suite's.
Classes are those of the baseline. The time between operators is the class "framework". A second table shows how far
the factors of the proxy's blocks are beyond the suite's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from benchmarks.console import parser, report, start
from statsnet.evaluation.suite import suite_of
from statsnet.measure.control import Control, Job
from statsnet.measure.rounds import run_in_rounds
from statsnet.profiling.replay_task import Replayed
from statsnet.profiling.tasks import Profile
from statsnet.proxy.folder import open_proxy
from statsnet.signatures.documents import SpecTower
from statsnet.signatures.model import Measurement
from statsnet.synthesis.tasks import NetworkTrace, TraceNetwork
from statsnet.workloads.settings import BASELINE, parse_settings

SHOWN = 18

Times = Mapping[str, tuple[float, float]]
"""Kernel class -> its time at the baseline and under the setting, as shares of the baseline's step."""

Outcome = Profile | Replayed | NetworkTrace


def main() -> None:
    options = parser(__doc__)
    options.add_argument("proxy")
    options.add_argument("settings", help="as validate's, for example mkl=compatible,onednn=sse41")
    options.add_argument("--rounds", type=int, default=2)
    chosen = options.parse_args()
    proxy = open_proxy(chosen.proxy)
    members = suite_of(proxy.spec)
    settings = parse_settings(chosen.settings)
    for setting in settings:
        if setting.in_process:
            raise SystemExit(f"{setting.name}: only what is set before a process starts can be explained")
    trace = TraceNetwork(folder=str(proxy.network_folder.resolve()), dtype=proxy.spec.dtype)
    subjects: list[Job[Any]] = [
        *(m.profile_job(proxy.spec, "cpu") for m in members),
        Job(trace, Control(label="the proxy")),
    ]
    jobs = [
        replace(job, control=replace(job.control, setting=e, label=f"{job.label} ({e.name})"))
        for e in (BASELINE, *settings)
        for job in subjects
    ]
    outcomes = run_in_rounds(jobs, chosen.rounds, report=report)
    before, *others = (outcomes[i : i + len(subjects)] for i in range(0, len(outcomes), len(subjects)))
    for setting, after in zip(settings, others, strict=True):
        times = [_times(a, b) for a, b in zip(before, after, strict=True)]
        suite = merge_times(times[:-1], [m.weight for m in members])
        print(f"\n{setting.name}")
        _print(suite, times[-1])
        factor = sum(there for _, there in suite.values())
        _print_blocks(proxy.spec.towers, before[-1], after[-1], factor)


def _times(before: Sequence[Outcome], after: Sequence[Outcome]) -> Times:
    """Of one model, from the profiles of several rounds: their means."""
    rounds = [_classes(_measurement(a), _measurement(b)) for a, b in zip(before, after, strict=True)]
    return merge_times(rounds, [1.0 / len(rounds)] * len(rounds))


def _measurement(outcome: Outcome) -> Measurement:
    return outcome.measurement if isinstance(outcome, Replayed) else outcome.signature.measurements[0]


def _classes(here: Measurement, there: Measurement) -> Times:
    """By the baseline's kernel classes; what lies between operators is one more."""
    times: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name, x, y in zip(here.kernel_class, here.cluster_time_s, there.cluster_time_s, strict=True):
        times[name or "unknown"][0] += (x or 0.0) / here.latency_s
        times[name or "unknown"][1] += (y or 0.0) / here.latency_s
    spent = [sum(x) for x in zip(*times.values(), strict=True)] or [0.0, 0.0]
    rest = (1.0 - spent[0], there.latency_s / here.latency_s - spent[1])
    return {**{name: (x, y) for name, (x, y) in times.items()}, "framework": rest}


def merge_times(parts: Sequence[Times], weights: Sequence[float]) -> Times:
    """The weighted sums of several models' times, or of several rounds'."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for times, weight in zip(parts, weights, strict=True):
        for name, (x, y) in times.items():
            sums[name][0] += weight * x
            sums[name][1] += weight * y
    return {name: (x, y) for name, (x, y) in sums.items()}


def _print(suite: Times, proxy: Times) -> None:
    rows = []
    for name in {*suite, *proxy}:
        (q, q_there), (p, p_there) = suite.get(name, (0.0, 0.0)), proxy.get(name, (0.0, 0.0))
        g = q_there / q if q > 0 else p_there / p if p > 0 else 1.0
        f = p_there / p if p > 0 else g
        rows.append((name, q, p, g, f, (p - q) * g, p * (f - g)))
    rows.sort(key=lambda r: -abs(r[5] + r[6]))
    factors = [sum(there for _, there in side.values()) for side in (suite, proxy)]
    print(f"suite {factors[0]:.3f}, proxy {factors[1]:.3f}, error {factors[1] / factors[0] - 1:+.1%}")
    print(f"{'kernel class':88} {'suite':>6} {'proxy':>6} {'factor':>7} {'proxy':>6} {'share':>7} {'own':>7}")
    for name, q, p, g, f, share, own in rows[:SHOWN]:
        print(f"{name:88} {q:6.1%} {p:6.1%} {g:7.2f} {f:6.2f} {share:+7.3f} {own:+7.3f}")
    print(f"{'sum of all':88} {'':29} {sum(r[5] for r in rows):+7.3f} {sum(r[6] for r in rows):+7.3f}")


def _print_blocks(
    towers: Sequence[SpecTower],
    before: Sequence[NetworkTrace],
    after: Sequence[NetworkTrace],
    suite_factor: float,
) -> None:
    """The blocks whose factors are furthest from the suite's, to both sides."""
    here, there = _block_times(before), _block_times(after)
    total_s = sum(here.values())
    rows = sorted(
        ((t - suite_factor * here[place]) / total_s, here[place] / total_s, t / here[place], place)
        for place, t in there.items()
        if here[place] > 0
    )
    print(f"\n{'tower, block':12} {'share':>6} {'factor':>7} {'beyond':>7}")
    for beyond, share, factor, (i, j) in [*rows[: SHOWN // 3], *rows[-SHOWN // 3 :]][::-1]:
        block = towers[i].blocks[j]
        print(f"{f'{i}, {j}':12} {share:6.1%} {factor:7.2f} {beyond:+7.3f} {block.kind} {block.config}")


def _block_times(traces: Sequence[NetworkTrace]) -> dict[tuple[int, int], float]:
    """(tower, block) -> seconds of its operators, the mean over rounds."""
    return {
        (i, j): fmean(trace.blocks[i][j].operator_time_s for trace in traces)
        for i, tower in enumerate(traces[0].blocks)
        for j in range(len(tower))
    }


if __name__ == "__main__":
    start(main)
