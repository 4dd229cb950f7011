"""When a setting changes, does a smaller block follow the motif that it stands for?

    python benchmarks/diagnostics/block_size.py --mix cv:1 --settings threads=1,onednn=sse41 [--mode training] [-o FILE]
    python benchmarks/diagnostics/block_size.py --kept FILE

For each of a mix's most expensive motifs, the block at its own size and all of its candidates run alone, at the
baseline and under each setting, in fresh processes in turn. A candidate's error is its factor (its operators' time
under the setting over that at the baseline) over the motif's, less one. No proxy is made: the settings only judge
candidates here.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

from benchmarks import csv_tables
from benchmarks.console import parser, report, start
from statsnet.measure.control import Control, Job
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRow:
    """A block's operators under one setting. The first block of a motif (numbered) is the motif at its own size.
    `config` is JSON."""

    mix: str
    mode: str
    setting: str
    motif: int
    motif_share: float
    kind: str
    config: str
    baseline_s: float
    setting_s: float

    @property
    def factor(self) -> float:
        return self.setting_s / self.baseline_s


def main() -> None:
    options = parser(__doc__)
    source = options.add_mutually_exclusive_group(required=True)
    source.add_argument("--mix")
    source.add_argument("--kept", type=Path, metavar="FILE", help="print this table, measure nothing")
    options.add_argument("--settings", default="threads=1,onednn=sse41", help="as validate's")
    options.add_argument("--mode", default="inference")
    options.add_argument("--leaders", type=int, default=12, help="so many motifs, the most expensive first")
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("-o", "--output", type=Path, default=Path("build/block_size/block_size.csv"))
    chosen = options.parse_args()
    if chosen.kept:
        rows = csv_tables.read(chosen.kept, BlockRow)
    else:
        rows = _measured(chosen)
        csv_tables.write(chosen.output, BlockRow, rows)
    for (mix, mode, setting), of_setting in itertools.groupby(rows, lambda r: (r.mix, r.mode, r.setting)):
        print(f"\n{mix}, {mode}, {setting}")
        print_motifs(list(of_setting))


def _measured(options: argparse.Namespace) -> list[BlockRow]:
    settings = (BASELINE, *parse_settings(options.settings))
    families = families_of(options.mix, options.mode, options.leaders)
    blocks = tuple(block for _, of_family in families for block in of_family)
    task = MeasureBlocks(blocks=blocks, mode=options.mode, dtype="float32")
    jobs = [Job(task, Control(setting=s, label=s.name)) for s in settings]
    baseline_s, *others_s = (
        [median(block.operator_time_s for block in of_block) for of_block in zip(*runs, strict=True)]
        for runs in run_in_rounds(jobs, options.rounds, report=report)
    )
    numbered = [(n, share, block) for n, (share, of_family) in enumerate(families, 1) for block in of_family]
    return [
        BlockRow(
            mix=options.mix,
            mode=options.mode,
            setting=setting.name,
            motif=number,
            motif_share=share,
            kind=block.kind,
            config=json.dumps(block.config, sort_keys=True),
            baseline_s=here_s,
            setting_s=there_s,
        )
        for setting, times_s in zip(settings[1:], others_s, strict=True)
        for (number, share, block), here_s, there_s in zip(numbered, baseline_s, times_s, strict=True)
    ]


def families_of(mix: str, mode: str, leaders: int) -> list[Family]:
    """From the signatures that ship, whichever machine's. Parameters alone are left out: no smaller size stands for
    them."""
    target = target_of_mix(resolve_mix(mix, mode, ProfilesDB()), {})
    families: list[Family] = []
    for source, share, candidates in by_source(target, budget_s=budget_of(target, COMPRESSION)):
        motif = Placed(kind=source.kind, config=source.config, optimizer=source.optimizer)
        others = [c.placed for c in candidates if c.placed != motif]
        if source.kind != "parameters" and others:
            families.append((share, [motif, *others]))
        if len(families) == leaders:
            break
    return families


def print_motifs(rows: Sequence[BlockRow]) -> None:
    """Of one setting: every motif with its candidates' errors. Then, for each kind of block and range of times, the
    number of blocks, their median error and the mean of |ln(1 + error)|."""
    bins: dict[tuple[str, float], list[float]] = defaultdict(list)
    for _, of_motif in itertools.groupby(rows, lambda r: r.motif):
        motif, *others = of_motif
        config = json.loads(motif.config)
        took = f"{1e3 * motif.baseline_s:.3g} ms, × {motif.factor:.2f}"
        print(f"{motif.motif_share:6.1%} {motif.kind} {config}: {took}")
        for block in others:
            error = block.factor / motif.factor - 1.0
            bins[motif.kind, next(t for t in TIMES_S if block.baseline_s <= t)].append(error)
            changed = {k: v for k, v in json.loads(block.config).items() if config.get(k) != v}
            print(f"       {error:+7.1%} {1e3 * block.baseline_s:8.3f} ms  {changed}")
    print(f"{'kind':16} {'up to':>8} {'blocks':>6} {'median error':>13} {'mean |ln|':>10}")
    for (kind, most_s), errors in sorted(bins.items()):
        limit = "longer" if math.isinf(most_s) else f"{1e3 * most_s:g} ms"
        spread = fmean(abs(math.log1p(e)) for e in errors)
        print(f"{kind:16} {limit:>8} {len(errors):6} {median(errors):+13.1%} {spread:10.3f}")


if __name__ == "__main__":
    start(main)
