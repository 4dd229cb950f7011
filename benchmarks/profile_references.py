"""What are the signatures of the reference workloads on this machine? And does a second profile show the same?

    python benchmarks/profile_references.py [PATTERN] [--modes inference,training] [--missing | --again FILE] [-o DIR]
    python benchmarks/profile_references.py --device meta --preset standard
    python benchmarks/profile_references.py --kept FILE

Fills profiles_db/<environment>/, or profiles_db/meta/ with counts. Each profile is made in a fresh process. Run nothing
else meanwhile, unless nothing is timed (--device meta). Prints one line for each profile: how much of its time has a
cost formula, the unexplained time, and how many steps profiling cost. A workload that fails is named at the end, and
the others go on.

With --again, signatures that are there are measured once more and stay as they are. FILE, a CSV table, then holds how
far each second profile is from the first (total variation of the time by category; 5 points are allowed on a quiet
machine). What FILE holds is not measured again, so that an interrupted comparison continues. --kept prints such a file.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks import csv_tables
from benchmarks.console import parser, start
from statsnet import environment
from statsnet.errors import StatsNetError
from statsnet.measure.process import measuring_environment, run
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.signatures import packed
from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.database import COUNTS, pack
from statsnet.signatures.model import Signature
from statsnet.signatures.statistics import total_variation
from statsnet.signatures.storage import load_signature, save_signature
from statsnet.signatures.target import target_of
from statsnet.workloads import all_workloads

IMPORTS_S = 15.0
"""Part of a profile's time: roughly what starting Python, its libraries and the model takes."""

HEADER = (
    f"{'workload':34} {'step ms':>9} {'CoV':>6} {'covered':>8} {'unexplained':>11} {'steps':>6} {'KB':>5} {'moved':>6}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondProfile:
    """How far a second profile of a workload is from the first, whose signature is named."""

    workload: str
    mode: str
    signature: str
    category_total_variation: float
    kernel_class_total_variation: float
    latency_ratio: float


FORMS = {"category_total_variation": "{:.1%}", "kernel_class_total_variation": "{:.1%}", "latency_ratio": "{:.2f}"}
"""Measure of a SecondProfile -> how it is printed."""


def main() -> int:
    options = _options()
    if options.kept:
        print(summed_up(csv_tables.read(options.kept, SecondProfile)))
        return 0
    here = COUNTS if options.device == "meta" else environment.slug(measuring_environment(options.device))
    failed: list[str] = []
    compared = csv_tables.read(options.again, SecondProfile) if options.again and options.again.exists() else []
    print(HEADER)
    for mode, workload in itertools.product(options.modes.split(","), all_workloads(options.pattern)):
        path = options.output / here / workload.domain / f"{workload.name}.{mode}.json"
        there = packed.is_file(path)
        if (options.missing and there) or (options.again and not there):
            continue
        begin = time.perf_counter()
        name = f"{workload.full_name} {mode}"
        try:
            first = load_signature(path) if options.again else None
            if first is not None and first.id in {row.signature for row in compared}:
                continue
            model = Model(target=workload.full_name, mode=mode, preset=options.preset)
            profile = run(ProfileWorkload(model=model, device=options.device))
            line = _line(profile)
            if first is not None:
                compared.append(_second_profile(workload.full_name, mode, first, profile.signature))
                line += f" {compared[-1].category_total_variation:6.1%}"
                csv_tables.write(options.again, SecondProfile, compared)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                save_signature(path, profile.signature)
        except StatsNetError as error:
            failed.append(f"{name}: {error}")
            print(f"{name:34.34} failed", flush=True)
            continue
        print(f"{name:34.34} {line}   ({time.perf_counter() - begin:.0f} s in all)", flush=True)
    for folder in sorted((options.output / here).glob("*/")):
        if not options.again and any(folder.glob("*.json")):
            pack(folder)
    for text in failed:
        print(text, file=sys.stderr)
    return 1 if failed else 0


def summed_up(rows: Sequence[SecondProfile]) -> str:
    """For each mode and measure, a line with the median and the range."""
    lines = []
    for mode in dict.fromkeys(row.mode for row in rows):
        of_mode = [row for row in rows if row.mode == mode]
        lines.append(f"{mode}: {len(of_mode)} signatures, profiled twice")
        for name, form in FORMS.items():
            values = [getattr(row, name) for row in of_mode]
            middle, low, high = (form.format(of(values)) for of in (median, min, max))
            lines.append(f"  {name}: {middle} in the median, {low} to {high}")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("pattern", nargs="?", default="*")
    options.add_argument("--modes", default="inference,training")
    options.add_argument("--device", default="cpu")
    options.add_argument("--preset", default="small")
    which = options.add_mutually_exclusive_group()
    which.add_argument("--missing", action="store_true", help="only those that are not there yet")
    which.add_argument("--again", type=Path, metavar="FILE", help="compare with those that are there, change nothing")
    which.add_argument("--kept", type=Path, metavar="FILE", help="print what was compared, run nothing")
    options.add_argument("-o", "--output", type=Path, default=Path("profiles_db"))
    return options.parse_args()


def _line(profile: Profile) -> str:
    signature = profile.signature
    kilobytes = len(canonical_json(signature.to_dict())) / 1000
    if not signature.measurements:
        return f"{'–':>9} {'–':>6} {'–':>8} {'–':>11} {'–':>6} {kilobytes:5.0f}"
    measurement = signature.measurements[0]
    steps = (profile.measured_s - IMPORTS_S) / measurement.latency_s
    return (
        f"{1e3 * measurement.latency_s:9.1f} {measurement.coefficient_of_variation or 0.0:6.1%} "
        f"{signature.coverage() or 0.0:8.2%} {measurement.unexplained_share:11.1%} {steps:6.1f} {kilobytes:5.0f}"
    )


def _second_profile(workload: str, mode: str, first: Signature, second: Signature) -> SecondProfile:
    before, after = target_of(first), target_of(second)
    return SecondProfile(
        workload=workload,
        mode=mode,
        signature=first.id,
        category_total_variation=total_variation(before.category_shares, after.category_shares),
        kernel_class_total_variation=total_variation(before.kernel_class_shares, after.kernel_class_shares),
        latency_ratio=second.measurements[0].latency_s / first.measurements[0].latency_s,
    )


if __name__ == "__main__":
    start(main)
