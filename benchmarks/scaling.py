"""Whether blocks of other sizes follow the motif that they stand for, where a setting changes.

    python benchmarks/scaling.py --mix cv:1 --settings threads=1,onednn=sse41 [--mode training] [--leaders 12]

Of each of a mix's dearest motifs the block at its own size and all of its candidates run alone, at the baseline and
under each setting, in fresh processes in turn. A candidate's error is its factor (operators' time under the setting
over that at the baseline) over the motif's, less one. The settings judge candidates here; no proxy is made from this.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from statsnet.cli.output import progress
from statsnet.running.interleave import interleave
from statsnet.running.settings import BASELINE, parse_settings
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.target import target_of_mix
from statsnet.synthesis.candidates import Candidate, by_source
from statsnet.synthesis.problem import budget_of

COMPRESSION = 100

Family = tuple[Candidate, float, list[Candidate]]
"""A motif at its own size, its share of the mix's time, and its candidates of other sizes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mix", required=True)
    parser.add_argument("--settings", required=True, help="as validate's, for example threads=1,onednn=sse41")
    parser.add_argument("--mode", default="inference")
    parser.add_argument("--leaders", type=int, default=12, help="motifs, the dearest first")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, help="the times, as JSON")
    options = parser.parse_args()
    families = families_of(options.mix, options.mode, options.leaders)
    wanted = [c for full, _, others in families for c in (full, *others)]
    settings = (BASELINE, *parse_settings(options.settings))
    rows = [c.to_dict() for c in wanted]
    job = {
        "kind": "measure_candidates",
        "candidates": rows,
        "mode": options.mode,
        "dtype": "float32",
        "device": "cpu",
    }
    with progress() as show:
        outcomes = interleave(
            [{**job, "setting": s.to_dict()} for s in settings], options.rounds, on_progress=show
        )
    times = [[median(t) for t in zip(*map(_times, results), strict=True)] for results in outcomes]
    if options.output:
        options.output.write_text(
            json.dumps({"candidates": rows, "settings": [s.name for s in settings], "times_s": times})
        )
    for setting, there in zip(settings[1:], times[1:], strict=True):
        print(f"\n{setting.name}")
        report(families, [b / a for a, b in zip(times[0], there, strict=True)], times[0])


def families_of(mix: str, mode: str, leaders: int) -> list[Family]:
    """From the profiles that ship, whichever machine's. Parameters alone have no smaller sizes that stand for them."""
    target = target_of_mix(resolve_mix(mix, mode, ProfilesDB()), {})
    found = []
    for source, share, candidates in by_source(target, budget_s=budget_of(target, COMPRESSION, mode)):
        full = Candidate(
            kind=source.kind, config=source.config, optimizer=source.optimizer, scale=1.0, time_s=0.0
        )
        others = [c for c in candidates if c.key != full.key]
        if source.kind != "parameters" and others:
            found.append((full, share, others))
        if len(found) == leaders:
            break
    return found


def _times(outcome: Mapping[str, Any]) -> list[float]:
    return [
        sum(r["time_s"] for p in ("block", "optimizer") for r in column[p]["operators"])
        for column in outcome["columns"]
    ]


def report(families: Sequence[Family], factors: Sequence[float], times_s: Sequence[float]) -> None:
    """Every family with its candidates' errors; and by kind of block what they are on average."""
    position, kinds = 0, defaultdict(list)
    for full, share, others in families:
        place, position = position, position + 1 + len(others)
        print(
            f"{share:6.1%} {full.kind} {full.config}: {1e3 * times_s[place]:.3g} ms, factor {factors[place]:.2f}"
        )
        for i, candidate in enumerate(others, place + 1):
            error = factors[i] / factors[place] - 1
            kinds[full.kind].append((share / len(others), error))
            changed = {k: v for k, v in candidate.config.items() if full.config.get(k) != v}
            print(f"       {error:+7.1%} {1e3 * times_s[i]:8.3f} ms  {changed}")
    print(f"{'kind':12} {'share':>6} {'mean error':>11} {'mean |ln|':>10}")
    for kind, found in sorted(kinds.items(), key=lambda k: -_sum(w for w, _ in k[1])):
        weight = _sum(w for w, _ in found)
        mean, spread = (
            _sum(w * f(e) for w, e in found) / weight for f in (float, lambda e: abs(math.log1p(e)))
        )
        print(f"{kind:12} {weight:6.1%} {mean:+11.1%} {spread:10.3f}")


def _sum(values: Iterable[float]) -> float:
    return math.fsum(values)


if __name__ == "__main__":
    main()
