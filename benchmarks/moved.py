"""From one machine to another: has a proxy that was made elsewhere changed by its suite's factor?

    python benchmarks/moved.py PROXY [PROXY ...] [--rounds 4] [--times build/moved/times.jsonl] [-o FILE]

Every workload and every proxy runs here in fresh processes, in turn, with everything at its default; the times there
are those in the proxies' folders. Nothing of this machine was used to make them: the hardest setting that there is.
Run nothing else meanwhile; started again, it goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from contests import member_subject, network_subject
from tables import spread
from timings import Timings, run_rounds

from statsnet.evaluation.factors import moved_row
from statsnet.evaluation.suite import suite_of
from statsnet.measure.process import measuring_environment
from statsnet.proxy.folder import open_proxy
from statsnet.signatures.canonical import write_json_atomically
from statsnet.signatures.storage import load_document
from statsnet.workloads.settings import BASELINE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("proxies", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--times", type=Path, default=Path("build/moved/times.jsonl"))
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    timings = Timings(options.times)
    suites = {}
    for folder in options.proxies:
        spec = open_proxy(folder).spec
        members = suite_of(spec)
        suites[folder] = (
            members,
            [member_subject(m, spec) for m in members],
            network_subject(folder, folder.name),
        )
    subjects = {s.identity: s for _, workloads, network in suites.values() for s in (*workloads, network)}
    run_rounds(
        timings,
        list(subjects.values()),
        [],
        fewest=options.rounds,
        most=options.rounds,
        uncertain=set,
        say=lambda text: print(text, file=sys.stderr, flush=True),
    )
    rows = []
    for folder, (members, workloads, network) in suites.items():
        outcomes = [timings.of(subject, BASELINE) for subject in (*workloads, network)]
        there_s = load_document(folder / "fit.json", "statsnet.fit")["summary"]["step_latency_s"]
        rows.append({"proxy": folder.name, **moved_row(members, outcomes, there_s)})
    report = {
        "from": open_proxy(options.proxies[0]).spec["reference_environment"],
        "to": measuring_environment(),
        "rows": rows,
    }
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomically(options.output, report)
    print(table(rows))


def table(rows: list[dict[str, Any]]) -> str:
    """One line a proxy: the suite's factor, the proxy's, the error ± half its 95 % interval, and the factors of the
    single workloads that the suite consists of."""
    lines = ["| proxy | suite | proxy | error | single workloads |", "|---|---|---|---|---|"]
    for row in rows:
        suite, proxy, error = (row[key]["value"] for key in ("suite_factor", "proxy_factor", "error"))
        each = [member["value"] for member in row["members"]]
        lines.append(
            f"| {row['proxy']} | {suite:.2f} | {proxy:.2f} | **{100 * error:+.1f} %**{spread(row['error'])} "
            f"| {min(each):.2f} to {max(each):.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
