"""Profile every reference workload in both modes on this machine: fills profiles_db/<environment>/.

    python benchmarks/make_profiles.py [PATTERN] [--modes inference,training] [--device cpu] [--preset small] [-o DIR]

Each profile is made in a fresh process. Run nothing else meanwhile. Prints one line per profile with the bars it has
to meet: formula coverage by time, unexplained time, and the cost of profiling in steps.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from statsnet import environment
from statsnet.running.child import run_job
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import save_signature
from statsnet.workloads import all_workloads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pattern", nargs="?", default="*")
    parser.add_argument("--modes", default="inference,training")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--preset", default="small")
    parser.add_argument("-o", "--output", type=Path, default=Path("profiles_db"))
    options = parser.parse_args()
    print(
        f"{'workload':28} {'step ms':>9} {'CoV':>6} {'covered':>8} {'unexplained':>11} {'steps':>6} {'KB':>5}"
    )
    for mode in options.modes.split(","):
        for workload in all_workloads(options.pattern):
            begin = time.perf_counter()
            result = run_job(
                {
                    "kind": "profile_workload",
                    "target": workload.full_name,
                    "mode": mode,
                    "device": options.device,
                    "preset": options.preset,
                }
            )
            signature = Signature.from_dict(result["signature"])
            measurement = signature.measurements[0]
            folder = options.output / environment.slug(measurement.environment) / workload.domain
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{workload.name}.{mode}.json"
            save_signature(path, signature)
            steps = (result["measured_s"] - 15) / measurement.latency_s
            print(
                f"{workload.full_name + ' ' + mode:28.28} {1e3 * measurement.latency_s:9.1f} "
                f"{measurement.coefficient_of_variation:6.1%} {signature.coverage():8.2%} "
                f"{measurement.unexplained_share:11.1%} {steps:6.1f} {path.stat().st_size / 1024:5.0f}"
                f"   ({time.perf_counter() - begin:.0f} s in all)",
                flush=True,
            )


if __name__ == "__main__":
    main()
