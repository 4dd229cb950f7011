"""Where a proxy's error under a setting comes from, kernel class by kernel class.

    python benchmarks/explain.py PROXY SETTINGS [--rounds 2]

Suite and proxy are profiled at the baseline and under each setting, in turn, in fresh processes. With shares q (suite)
and p (proxy) of the baseline's step and factors g and f of each kernel class, F_P − F_S = Σ (p − q) g + Σ p (f − g):
the first sum is what the shares are off by, the second what the proxy's own operators do otherwise than the suite's.
Classes are those of the baseline. What lies between operators is the class "framework". Then the proxy's blocks, by
how much of the factor is theirs beyond the suite's.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from statsnet.cli.output import progress
from statsnet.evaluation.suite import suite_of
from statsnet.measure.rounds import interleave
from statsnet.proxy.folder import open_proxy
from statsnet.signatures.model import Measurement, Signature
from statsnet.workloads.settings import BASELINE, parse_settings

SHOWN = 18

Times = Mapping[str, tuple[float, float]]
"""Kernel class -> its time at the baseline and under the setting, as shares of the baseline's step."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("proxy")
    parser.add_argument("settings", help="as validate's, for example mkl=compatible,onednn=sse41")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    proxy = open_proxy(options.proxy)
    members = suite_of(proxy.spec)
    settings = parse_settings(options.settings)
    for setting in settings:
        if setting.in_process:
            raise SystemExit(f"{setting.name}: only what is set before a process starts can be explained")
    traced = {
        "kind": "trace_proxy",
        "folder": str(proxy.path.resolve()),
        "dtype": proxy.spec["dtype"],
        "device": "cpu",
    }
    subjects = (*(m.profile_job(proxy.spec, "cpu") for m in members), traced)
    jobs = [{**job, "setting": e.to_dict()} for e in (BASELINE, *settings) for job in subjects]
    with progress() as show:
        outcomes = interleave(jobs, options.rounds, on_progress=show)
    before, *others = (outcomes[i : i + len(subjects)] for i in range(0, len(outcomes), len(subjects)))
    for setting, after in zip(settings, others, strict=True):
        times = [_times(a, b) for a, b in zip(before, after, strict=True)]
        suite = _together(times[:-1], [m.weight for m in members])
        print(f"\n{setting.name}")
        _print(suite, times[-1])
        factor = sum(there for _, there in suite.values())
        _print_blocks(proxy.spec["towers"], before[-1], after[-1], factor)


def _times(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Times:
    """Of one model, from the profiles of several rounds: their means."""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for a, b in zip(before, after, strict=True):
        here, there = (Signature.from_dict(outcome["signature"]).measurements[0] for outcome in (a, b))
        for name, x, y in _classes(here, there):
            found[name][0] += x / here.latency_s / len(before)
            found[name][1] += y / here.latency_s / len(before)
    return {name: (x, y) for name, (x, y) in found.items()}


def _classes(here: Measurement, there: Measurement) -> list[tuple[str, float, float]]:
    """(baseline's kernel class, seconds at the baseline, seconds under the setting) of every cluster, and the rest."""
    rows = [
        (name or "unknown", x or 0.0, y or 0.0)
        for name, x, y in zip(here.kernel_class, here.cluster_time_s, there.cluster_time_s, strict=True)
    ]
    rest = [m.latency_s - sum(t or 0.0 for t in m.cluster_time_s) for m in (here, there)]
    return [*rows, ("framework", *rest)]


def _together(parts: Sequence[Times], weights: Sequence[float]) -> Times:
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for times, weight in zip(parts, weights, strict=True):
        for name, (x, y) in times.items():
            found[name][0] += weight * x
            found[name][1] += weight * y
    return {name: (x, y) for name, (x, y) in found.items()}


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
    towers: Sequence[Mapping[str, Any]],
    before: Sequence[Mapping[str, Any]],
    after: Sequence[Mapping[str, Any]],
    suite_factor: float,
) -> None:
    """Blocks of which a copy has a factor far from the suite's."""
    here, there = _block_times(before), _block_times(after)
    total_s = sum(here.values())
    rows = sorted(
        ((t - suite_factor * here[place]) / total_s, here[place] / total_s, t / here[place], place)
        for place, t in there.items()
        if here[place] > 0
    )
    print(f"\n{'tower, block':12} {'share':>6} {'factor':>7} {'beyond':>7}")
    for beyond, share, factor, (i, j) in [*rows[: SHOWN // 3], *rows[-SHOWN // 3 :]][::-1]:
        block = towers[i]["blocks"][j]
        print(f"{f'{i}, {j}':12} {share:6.1%} {factor:7.2f} {beyond:+7.3f} {block['kind']} {block['config']}")


def _block_times(outcomes: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], float]:
    """(tower, block) -> seconds of its operators, the mean over rounds."""
    found: dict[tuple[int, int], float] = defaultdict(float)
    for outcome in outcomes:
        for i, tower in enumerate(outcome["blocks"]):
            for j, part in enumerate(tower):
                found[i, j] += sum(row["time_s"] for row in part["operators"]) / len(outcomes)
    return found


if __name__ == "__main__":
    main()
