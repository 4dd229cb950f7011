"""Does the time of a proxy that was made on another machine change by its suite's factor here?

    python benchmarks/diagnostics/machine_to_machine.py PROXY ... --setting 'f25m1 to f6m207' [--rounds 4] [-o FILE]

Every workload and every proxy runs here in fresh processes, one after the other, with all settings at their defaults.
The times of the other machine are those in the proxies' folders. Nothing of this machine was used to make the proxies,
so this is the hardest setting that there is. Run nothing else meanwhile. Started again, it continues where it stopped.
Other rows that FILE holds stay. `python benchmarks/fidelity.py --kept FILE` prints it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks import csv_tables
from benchmarks.console import parser, report, start
from benchmarks.fidelity_table import FidelityRow, fidelity_row, latest, markdown
from benchmarks.suites import MIXES
from benchmarks.ways.comparisons import LIMITS, PROXY, network_subject
from statsnet.evaluation.factors import moved_row, subjects_of
from statsnet.evaluation.suite import suite_of
from statsnet.measure.rounds_log import RoundsLog, Subject, measure_until_known
from statsnet.proxy.folder import ProxyFolder, open_proxy
from statsnet.signatures.intervals import latency_with_ci
from statsnet.signatures.mix import mix_slug
from statsnet.signatures.storage import load_fit
from statsnet.workloads.settings import BASELINE


def main() -> None:
    options = parser(__doc__)
    options.add_argument("proxies", nargs="+", type=Path, metavar="PROXY")
    options.add_argument("--setting", required=True, help="what the table calls this pair of machines")
    options.add_argument("--rounds", type=int, default=4)
    options.add_argument("--times", type=Path, default=Path("build/machine_to_machine/times.jsonl"))
    options.add_argument("-o", "--output", type=Path, default=Path("build/machine_to_machine/machine_to_machine.csv"))
    chosen = options.parse_args()
    log = RoundsLog(chosen.times)
    proxies = [(proxy, _subjects(proxy)) for proxy in map(open_proxy, chosen.proxies)]
    every = list({s.identity: s for _, subjects in proxies for s in subjects}.values())
    measure_until_known(log, every, [], fewest=chosen.rounds, most=chosen.rounds, uncertain=set, report=report)
    rows = [_row(proxy, log, subjects, chosen.setting) for proxy, subjects in proxies]
    kept = csv_tables.read(chosen.output, FidelityRow) if chosen.output.exists() else []
    csv_tables.write(chosen.output, FidelityRow, latest([kept, rows]), one_machine=False)
    print(markdown(rows))


def _subjects(proxy: ProxyFolder) -> list[Subject]:
    """The workloads, then the proxy."""
    workloads = subjects_of(proxy, suite_of(proxy.spec), "cpu", LIMITS)[:-1]
    return [*workloads, network_subject(proxy.path, proxy.path.name)]


def _row(proxy: ProxyFolder, log: RoundsLog, subjects: Sequence[Subject], setting: str) -> FidelityRow:
    timings = [log.of(subject, BASELINE) for subject in subjects]
    members, fit = suite_of(proxy.spec), load_fit(proxy.path / "fit.json").summary
    if fit.step_latency_s is None or fit.suite_latency_s is None:
        raise SystemExit(f"{proxy.path}/fit.json does not say how long the steps took: make the proxy again")
    factors = moved_row(members, timings, fit.step_latency_s)
    *workloads_s, step_s = (latency_with_ci(timing).value for timing in timings)
    mode, name = proxy.spec.mode, proxy.path.name
    return fidelity_row(
        factors.suite_factor,
        factors.proxy_factor,
        mix=next((mix for mix in MIXES.values() if name.startswith(f"{mix_slug(mix)}.{mode}.")), name),
        mode=mode,
        way=PROXY,
        wanted_compression=fit.suite_latency_s / proxy.spec.budget_s,
        setting=setting,
        step_latency_s=step_s,
        compression=sum(workloads_s) / step_s,
        proxy_rounds=min(map(len, timings)),
    )


if __name__ == "__main__":
    start(main)
