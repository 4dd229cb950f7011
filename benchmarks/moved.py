"""From one machine to another: does the time of a proxy made elsewhere change by its suite's factor?

    python benchmarks/moved.py PROXY [PROXY ...] [--rounds 4] [--times build/moved/times.jsonl] [-o FILE]

Every workload and every proxy runs here in fresh processes, one after the other, with all settings at their defaults.
The times of the other machine are those in the proxies' folders. Nothing of this machine was used to make the proxies,
so this is the hardest setting that there is. Run nothing else meanwhile. Started again, it goes on where it was
stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from contests import LIMITS, network_subject
from core import report
from tables import spread

from statsnet.evaluation.factors import moved_row, subjects_of
from statsnet.evaluation.suite import suite_of
from statsnet.measure.process import measuring_environment
from statsnet.measure.rounds_log import RoundsLog, measure_until_known
from statsnet.proxy.folder import open_proxy
from statsnet.signatures.canonical import write_json_atomically
from statsnet.signatures.conversion import plain
from statsnet.signatures.storage import load_document
from statsnet.workloads.settings import BASELINE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("proxies", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--times", type=Path, default=Path("build/moved/times.jsonl"))
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    log = RoundsLog(options.times)
    suites = {}
    for folder in options.proxies:
        proxy = open_proxy(folder)
        members = suite_of(proxy.spec)
        workloads = subjects_of(proxy, members, "cpu", LIMITS)[:-1]
        suites[folder] = (members, [*workloads, network_subject(folder, folder.name)])
    subjects = list({s.identity: s for _, of_suite in suites.values() for s in of_suite}.values())
    measure_until_known(log, subjects, [], fewest=options.rounds, most=options.rounds, uncertain=set, report=report)
    rows = []
    for folder, (members, of_suite) in suites.items():
        timings = [log.of(subject, BASELINE) for subject in of_suite]
        there_s = load_document(folder / "fit.json", "statsnet.fit")["summary"]["step_latency_s"]
        rows.append({"proxy": folder.name, **plain(moved_row(members, timings, there_s))})
    document = {
        "from": open_proxy(options.proxies[0]).spec.reference_environment,
        "to": measuring_environment(),
        "rows": rows,
    }
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        write_json_atomically(options.output, document)
    print(table(rows))


def table(rows: list[dict[str, Any]]) -> str:
    """One line for each proxy: the suite's factor, the proxy's, the error ± half its 95 % interval, and the range
    of the single workloads' factors."""
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
