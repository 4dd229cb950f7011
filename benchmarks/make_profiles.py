"""Profile every reference workload in both modes: fills profiles_db/<environment>/, or profiles_db/meta/ with counts.

    python benchmarks/make_profiles.py [PATTERN] [--modes inference,training] [--device cpu] [--preset small]
                                       [--missing | --again] [-o DIR]
    python benchmarks/make_profiles.py --device meta --preset standard
    python benchmarks/make_profiles.py --kept benchmarks/results/<environment>/profiled_again_inference.json

Each profile is made in a fresh process. Run nothing else meanwhile, unless nothing is timed (--device meta). Prints one
line for each profile: how much of its time has a cost formula, the unexplained time, and how many steps profiling cost.
A workload that fails is named at the end, and the others go on.

With --again the profiles that are there are measured once more, and stay as they are. The last column then shows by how
much the time by operator category has moved (total variation; 5 points are allowed on a quiet machine). All of these
are kept in benchmarks/results/<environment>/profiled_again.json. What that file holds is not measured again, so that
the comparison goes on where it was stopped; delete the file to begin anew. --kept sums such a file up.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from core import results_file

from statsnet import environment
from statsnet.errors import StatsNetError
from statsnet.measure.process import measuring_environment, run
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.tasks import Profile, ProfileWorkload
from statsnet.signatures.canonical import canonical_json, write_json_atomically
from statsnet.signatures.database import COUNTS
from statsnet.signatures.model import Signature
from statsnet.signatures.statistics import total_variation
from statsnet.signatures.storage import load_signature, save_signature
from statsnet.signatures.target import target_of
from statsnet.workloads import all_workloads

IMPORTS_S = 15.0
"""Part of a profile's time: roughly what starting Python, its libraries and the model takes."""

MOVED = {
    "category_total_variation": "{:.1%}",
    "kernel_class_total_variation": "{:.1%}",
    "latency_ratio": "{:.2f}",
}

HEADER = (
    f"{'workload':34} {'step ms':>9} {'CoV':>6} {'covered':>8} {'unexplained':>11} {'steps':>6} {'KB':>5} {'moved':>6}"
)


def main() -> int:
    options = _options()
    if options.kept:
        print(summed_up(_compared(options.kept)))
        return 0
    here = COUNTS if options.device == "meta" else environment.slug(measuring_environment(options.device))
    failed: list[str] = []
    compared = results_file("profiled_again.json")
    again = _compared(compared) if options.again else {}
    print(HEADER)
    for mode, workload in itertools.product(options.modes.split(","), all_workloads(options.pattern)):
        path = options.output / here / workload.domain / f"{workload.name}.{mode}.json"
        if (options.missing and path.exists()) or (options.again and not path.exists()):
            continue
        begin = time.perf_counter()
        name = f"{workload.full_name} {mode}"
        try:
            kept = load_signature(path) if options.again else None
            if kept is not None and again.get(name, {}).get("id") == kept.id:
                continue
            model = Model(target=workload.full_name, mode=mode, preset=options.preset)
            profile = run(ProfileWorkload(model=model, device=options.device))
            line = _line(profile)
            if kept is not None:
                again[name] = {"id": kept.id, **_moved(kept, profile.signature)}
                line += f" {again[name]['category_total_variation']:6.1%}"
                compared.parent.mkdir(parents=True, exist_ok=True)
                write_json_atomically(compared, {"environment": measuring_environment(), "rows": again})
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                save_signature(path, profile.signature)
        except StatsNetError as error:
            failed.append(f"{name}: {error}")
            print(f"{name:34.34} failed", flush=True)
            continue
        print(f"{name:34.34} {line}   ({time.perf_counter() - begin:.0f} s in all)", flush=True)
    for text in failed:
        print(text, file=sys.stderr)
    return 1 if failed else 0


def _compared(path: Path) -> dict[str, dict[str, Any]]:
    """Workload and mode -> how far a second profile was from the one with this id."""
    return json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else {}


def summed_up(rows: dict[str, dict[str, Any]]) -> str:
    """How far second profiles are from the first, a line for each measure: median and range."""
    lines = [f"{len(rows)} signatures, profiled twice"]
    for name, form in MOVED.items():
        values = sorted(row[name] for row in rows.values())
        low, middle, high = (form.format(v) for v in (values[0], median(values), values[-1]))
        lines.append(f"{name}: {middle} in the median, {low} to {high}")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pattern", nargs="?", default="*")
    parser.add_argument("--modes", default="inference,training")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--preset", default="small")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--missing", action="store_true", help="only those that are not there yet")
    which.add_argument("--again", action="store_true", help="compare with those that are there, change nothing")
    which.add_argument("--kept", type=Path, metavar="FILE", help="sum up what was compared, run nothing")
    parser.add_argument("-o", "--output", type=Path, default=Path("profiles_db"))
    return parser.parse_args()


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


def _moved(kept: Signature, again: Signature) -> dict[str, float]:
    """How far a second profile is from the first."""
    before, after = target_of(kept), target_of(again)
    return {
        "category_total_variation": total_variation(before.category_shares, after.category_shares),
        "kernel_class_total_variation": total_variation(before.kernel_class_shares, after.kernel_class_shares),
        "latency_ratio": again.measurements[0].latency_s / kept.measurements[0].latency_s,
    }


if __name__ == "__main__":
    sys.exit(main())
