"""What are the signatures of the reference workloads on this machine?

    python benchmarks/profile_references.py [PATTERN] [--modes inference,training] [--missing] [-o DIR]
    python benchmarks/profile_references.py --device meta --preset standard

Fills profiles_db/<environment>/, or profiles_db/meta/ with counts. Each profile is made in a fresh process. Run nothing
else meanwhile, unless nothing is timed (--device meta). Prints one line for each profile: how much of its time has a
cost formula, the unexplained time, and how many steps profiling cost. A workload that fails is named at the end, and
the others go on.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

from benchmarks.console import parser, start
from statsnet import environment
from statsnet.errors import StatsNetError
from statsnet.measure.process import measuring_environment, run
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.signatures import packed
from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.database import COUNTS, pack
from statsnet.signatures.storage import save_signature
from statsnet.workloads import all_workloads

IMPORTS_S = 15.0
"""Part of a profile's time: roughly what starting Python, its libraries and the model takes."""

HEADER = f"{'workload':34} {'step ms':>9} {'CoV':>6} {'covered':>8} {'unexplained':>11} {'steps':>6} {'KB':>5}"


def main() -> int:
    options = _options()
    here = COUNTS if options.device == "meta" else environment.slug(measuring_environment(options.device))
    failed: list[str] = []
    print(HEADER)
    for mode, workload in itertools.product(options.modes.split(","), all_workloads(options.pattern)):
        path = options.output / here / workload.domain / f"{workload.name}.{mode}.json"
        if options.missing and packed.is_file(path):
            continue
        begin = time.perf_counter()
        name = f"{workload.full_name} {mode}"
        try:
            model = Model(target=workload.full_name, mode=mode, preset=options.preset)
            profile = run(ProfileWorkload(model=model, device=options.device))
            path.parent.mkdir(parents=True, exist_ok=True)
            save_signature(path, profile.signature)
        except StatsNetError as error:
            failed.append(f"{name}: {error}")
            print(f"{name:34.34} failed", flush=True)
            continue
        print(f"{name:34.34} {_line(profile)}   ({time.perf_counter() - begin:.0f} s in all)", flush=True)
    for folder in sorted((options.output / here).glob("*/")):
        if any(folder.glob("*.json")):
            pack(folder)
    for text in failed:
        print(text, file=sys.stderr)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("pattern", nargs="?", default="*")
    options.add_argument("--modes", default="inference,training")
    options.add_argument("--device", default="cpu")
    options.add_argument("--preset", default="small")
    options.add_argument("--missing", action="store_true", help="only those that are not there yet")
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


if __name__ == "__main__":
    start(main)
