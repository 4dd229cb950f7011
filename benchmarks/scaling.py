"""When a setting changes, does a block of another size follow the motif that it stands for?

    python benchmarks/scaling.py --mix cv:1 --settings threads=1,onednn=sse41 [--mode training] [--leaders 12] [-o FILE]
    python benchmarks/scaling.py --kept FILE

For each of a mix's most expensive motifs, the block at its own size and all of its candidates run alone, at the
baseline and under each setting, in fresh processes in turn. A candidate's error is its factor (its operators' time
under the setting over that at the baseline) over the motif's, less one. No proxy is made: the settings only judge
candidates here.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean, median
from typing import Any

from core import report

from statsnet.measure.control import Control, Job
from statsnet.measure.process import measuring_environment
from statsnet.measure.rounds import run_in_rounds
from statsnet.proxy.towers import Placed
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.mix import resolve_mix
from statsnet.signatures.target import target_of_mix
from statsnet.synthesis.candidates import by_source
from statsnet.synthesis.problem import budget_of
from statsnet.synthesis.tasks import MeasureBlocks
from statsnet.workloads.settings import BASELINE, parse_settings

COMPRESSION = 100

TIMES_S = (0.5e-3, 1e-3, 2e-3, 5e-3, math.inf)
"""Blocks of one kind are summed up by how long they take at the baseline: up to so many seconds."""

Family = tuple[float, list[Placed]]
"""A share of the mix's time, and the blocks that may stand for it: the motif at its own size, then its candidates."""

Measured = Mapping[str, Any]
"""The same as it is kept: `share` and `blocks`, each block with its kind, config and `times_s` in the order of the
settings, the baseline first."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mix")
    parser.add_argument("--settings", default="threads=1,onednn=sse41", help="as validate's")
    parser.add_argument("--mode", default="inference")
    parser.add_argument("--leaders", type=int, default=12, help="so many motifs, the most expensive first")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--kept", type=Path, help="a file that -o has written, instead of measuring")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    if options.kept:
        document = json.loads(options.kept.read_text(encoding="utf-8"))
    elif options.mix:
        document = _measured(options)
    else:
        parser.error("give --mix or --kept")
    if options.output:
        options.output.write_text(json.dumps(document), encoding="utf-8")
    for place, name in enumerate(document["settings"][1:], 1):
        print(f"\n{name}")
        print_families(document["families"], place)


def _measured(options: argparse.Namespace) -> dict[str, Any]:
    settings = (BASELINE, *parse_settings(options.settings))
    families = families_of(options.mix, options.mode, options.leaders)
    blocks = tuple(block for _, of_family in families for block in of_family)
    task = MeasureBlocks(blocks=blocks, mode=options.mode, dtype="float32")
    jobs = [Job(task, Control(setting=s, label=s.name)) for s in settings]
    by_setting = [
        [median(block.operator_time_s for block in of_block) for of_block in zip(*runs, strict=True)]
        for runs in run_in_rounds(jobs, options.rounds, report=report)
    ]
    times_s = zip(*by_setting, strict=True)
    return {
        "environment": measuring_environment(),
        "mix": options.mix,
        "mode": options.mode,
        "settings": [s.name for s in settings],
        "families": [
            {"share": share, "blocks": [{**asdict(block), "times_s": next(times_s)} for block in of_family]}
            for share, of_family in families
        ],
    }


def families_of(mix: str, mode: str, leaders: int) -> list[Family]:
    """From the signatures that ship, whichever machine's. Parameters alone are left out: no smaller size stands for
    them."""
    target = target_of_mix(resolve_mix(mix, mode, ProfilesDB()), {})
    families: list[Family] = []
    for source, share, candidates in by_source(target, budget_s=budget_of(target, COMPRESSION, mode)):
        motif = Placed(kind=source.kind, config=source.config, optimizer=source.optimizer)
        others = [c.placed for c in candidates if c.placed != motif]
        if source.kind != "parameters" and others:
            families.append((share, [motif, *others]))
        if len(families) == leaders:
            break
    return families


def print_families(families: Sequence[Measured], place: int) -> None:
    """Every family with its candidates' errors under the setting at `place`. Then, for each kind of block and range of
    times, the number of blocks, their median error and the mean of |ln(1 + error)|."""
    bins: dict[tuple[str, float], list[float]] = defaultdict(list)
    for family in families:
        motif, *others = family["blocks"]
        whole = motif["times_s"][place] / motif["times_s"][0]
        took = f"{1e3 * motif['times_s'][0]:.3g} ms, × {whole:.2f}"
        print(f"{family['share']:6.1%} {motif['kind']} {motif['config']}: {took}")
        for block in others:
            here_s, there_s = block["times_s"][0], block["times_s"][place]
            error = there_s / here_s / whole - 1.0
            bins[motif["kind"], next(t for t in TIMES_S if here_s <= t)].append(error)
            changed = {k: v for k, v in block["config"].items() if motif["config"].get(k) != v}
            print(f"       {error:+7.1%} {1e3 * here_s:8.3f} ms  {changed}")
    print(f"{'kind':16} {'up to':>8} {'blocks':>6} {'median error':>13} {'mean |ln|':>10}")
    for (kind, most_s), errors in sorted(bins.items()):
        limit = "longer" if math.isinf(most_s) else f"{1e3 * most_s:g} ms"
        spread = fmean(abs(math.log1p(e)) for e in errors)
        print(f"{kind:16} {limit:>8} {len(errors):6} {median(errors):+13.1%} {spread:10.3f}")


if __name__ == "__main__":
    main()
