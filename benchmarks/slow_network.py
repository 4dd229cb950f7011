"""Does a proxy's time change by its model's factor when the network between the processes gets slower?

    python benchmarks/slow_network.py [--subjects NAME,...] [--rounds 3] [--limit 2h] [-o FILE]
    python benchmarks/slow_network.py --kept FILE ...

Each subject is a training step that two processes make together (together/models.py). It is profiled here, and its
proxy made, unless --proxies holds them; then both run in two network namespaces, joined by a veth pair with a token
bucket at each end: first without a bucket, then at each of --rates, in fresh processes for each. A round is all of
this once. Nothing that was measured with a bucket has a part in making the proxy.

Suite factor F_S = T_S(rate) / T_S(unlimited), proxy factor F_P likewise, error F_P / F_S - 1, of a step's time in the
slowest process. Every group of processes is logged beside the proxies at once, so that an interrupted run goes on.
Needs root on Linux, and leaves nothing behind. Run nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from benchmarks import csv_tables
from benchmarks.console import duration, left_out_if_it_fails, markdown_table, parser, report, start
from benchmarks.fidelity_table import columns
from benchmarks.together.linked_namespaces import LinkedNamespaces, linked_namespaces
from benchmarks.together.subjects import PROCESSES, SUBJECTS, SharedStep, chosen_subjects, proxy_of, threads
from statsnet.deadline import Deadline
from statsnet.errors import MeasurementError
from statsnet.measure.device_lock import LOCKS
from statsnet.measure.rounds_log import Logged, RoundsLog
from statsnet.progress import Progress
from statsnet.signatures.intervals import paired_ratio, relative_error
from statsnet.signatures.timing import Timing

RATES = (10.0, 1.0, 0.2)
"""Gbit/s."""

MEDIAN, WORST = 0.05, 0.15
"""Goals of the absolute errors."""

MODEL, PROXY = "model", "proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRow:
    """One subject at one rate. Bounds are those of 95 % intervals. The steps' times are without a bucket."""

    subject: str
    processes: int
    rate_gbit_per_s: float
    suite_step_s: float
    step_latency_s: float
    suite_factor: float
    suite_factor_low: float | None = None
    suite_factor_high: float | None = None
    proxy_factor: float
    proxy_factor_low: float | None = None
    proxy_factor_high: float | None = None
    error: float
    error_low: float | None = None
    error_high: float | None = None
    rounds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A program that both processes run. `identity` is of its source and of how long it is timed."""

    label: str
    command: tuple[str, ...]
    identity: str


def limit_name(rate: float | None) -> str:
    """Without a rate, the network is as fast as the kernel."""
    return "unlimited" if rate is None else f"{rate:g} Gbit/s"


def times(log: RoundsLog, run: Run, rate: float | None) -> list[Timing]:
    """Of all groups of processes so far in this environment."""
    name = limit_name(rate)
    return [timing for group in log.groups[run.identity] if name in group and (timing := group[name].timing)]


def main() -> int:
    options = _options()
    if options.kept:
        print(markdown([row for path in options.kept for row in csv_tables.read(path, NetworkRow)]))
        return 0
    deadline, log = Deadline.after(options.limit), RoundsLog(options.proxies / "slow_network.rounds.jsonl")
    rows: list[NetworkRow] = []
    failed: list[str] = []
    with linked_namespaces() as linked:  # where there can be none, that is said before all else
        for subject in options.subjects:
            if deadline.passed:
                break
            with left_out_if_it_fails(subject.name, failed):
                proxy = proxy_of(subject, options.proxies)
                runs = _model(subject, options), _proxy(subject, proxy, options)
                with LOCKS.command():  # not around commands that make a proxy: they would wait for its end
                    for _ in measured(linked, log, runs, options.rates, options.rounds, options.timeout):
                        if deadline.passed:
                            break
                rows += rows_of(subject.name, log, runs, options.rates)
                csv_tables.write(options.output, NetworkRow, rows)
    if rows:
        print(markdown(rows))
    elif not failed:
        print("nothing was measured at two rates before --limit: the same command goes on", file=sys.stderr)
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--kept", nargs="+", type=Path, metavar="FILE", help="print these tables, measure nothing")
    names = ", ".join(subject.factory for subject in SUBJECTS)
    options.add_argument("--subjects", type=chosen_subjects, default=SUBJECTS, metavar="NAME,...", help=f"of {names}")
    options.add_argument("--rates", type=_rates, default=RATES, metavar="GBIT/S,...", help="default: 10,1,0.2")
    options.add_argument("--rounds", type=int, default=3, help="groups of processes of each, at each rate")
    options.add_argument("--min-time", type=float, default=1.0, metavar="S", help="that a group is timed for, at least")
    options.add_argument("--max-time", type=float, default=20.0, metavar="S", help="and at most, but for three steps")
    options.add_argument("--timeout", type=duration, default=900.0, metavar="TIME", help="of a group (default 15min)")
    options.add_argument("--limit", type=duration, metavar="TIME", help="begin nothing after this time")
    options.add_argument("--proxies", type=Path, default=Path("build/together"), help="what is made and measured")
    options.add_argument("-o", "--output", type=Path, default=Path("build/together/slow_network.csv"))
    chosen = options.parse_args()
    if chosen.rounds < 1 or not 0 < chosen.min_time <= chosen.max_time:
        options.error("--rounds is 1 or more, and --min-time above 0 and no more than --max-time")
    return chosen


def _rates(text: str) -> list[float]:
    """Raises ValueError, which argparse words, for what is no number."""
    rates = [float(number) for number in text.split(",")]
    if not all(1e-3 <= rate <= 1e3 for rate in rates):
        raise argparse.ArgumentTypeError("a rate is from 0.001 to 1000 Gbit/s")
    return rates


def _model(subject: SharedStep, options: argparse.Namespace) -> Run:
    command = (sys.executable, "-m", "benchmarks.together.rank", subject.target, *_times(options))
    return Run(label=subject.name, command=command, identity=_identity(subject.identity.encode(), options))


def _proxy(subject: SharedStep, folder: Path, options: argparse.Namespace) -> Run:
    network = folder / "network.py"
    source = network.read_bytes() + network.with_name("run.py").read_bytes()
    command = (sys.executable, str(network.resolve()), *_times(options))
    return Run(label=f"{subject.name}'s proxy", command=command, identity=_identity(source, options))


def _identity(source: bytes, options: argparse.Namespace) -> str:
    return hashlib.sha256(source + " ".join(_times(options)).encode()).hexdigest()


def _times(options: argparse.Namespace) -> tuple[str, ...]:
    return "--min-time", str(options.min_time), "--max-time", str(options.max_time)


def measured(
    linked: LinkedNamespaces, log: RoundsLog, runs: Sequence[Run], rates: Sequence[float], rounds: int, timeout_s: float
) -> Iterator[None]:
    """Measure what the log lacks, round by round. Yields after each group of processes."""
    for number in range(rounds):
        for run in runs:
            for rate in (None, *rates):
                if len(times(log, run, rate)) > number:
                    continue
                report(Progress(stage=f"{run.label}, {limit_name(rate)}, round {number + 1} of {rounds}"))
                linked.limit(rate)
                began = round(time.time())
                log.keep(run.identity, {limit_name(rate): Logged(timing=_timed(linked, run, timeout_s))}, began)
                yield


def _timed(linked: LinkedNamespaces, run: Run, timeout_s: float) -> Timing:
    with tempfile.TemporaryDirectory() as folder, LOCKS.measuring_on("cpu"):
        result = Path(folder) / "result.json"
        own = {**threads(PROCESSES), "PYTHONPATH": ":".join(filter(None, sys.path))}
        linked.run_ranks([*run.command, "--json", str(result)], own, run.label, timeout_s)
        try:
            return msgspec.json.decode(result.read_bytes(), type=_Result).processes[0]
        except (OSError, msgspec.DecodeError) as error:
            raise MeasurementError(f"{run.label} wrote no result", cause=str(error), hint="run it alone") from error


class _Result(msgspec.Struct):
    """What a proxy writes with --json, of which the rest is not needed here."""

    processes: tuple[Timing, ...]


def rows_of(subject: str, log: RoundsLog, runs: Sequence[Run], rates: Sequence[float]) -> list[NetworkRow]:
    """Of the rates at which both the model and the proxy were measured. Rounds count that have all of them."""
    rows = []
    for rate in rates:
        pairs = [(times(log, run, None), times(log, run, rate)) for run in runs]
        rounds = min(len(side) for pair in pairs for side in pair)
        if not rounds:
            continue
        suite, proxy = (paired_ratio(before[:rounds], after[:rounds]) for before, after in pairs)
        suite_s, proxy_s = (median(median(t.latency_s) for t in before[:rounds]) for before, _ in pairs)
        rows.append(
            NetworkRow(
                subject=subject,
                processes=PROCESSES,
                rate_gbit_per_s=rate,
                suite_step_s=suite_s,
                step_latency_s=proxy_s,
                **columns("suite_factor", suite),
                **columns("proxy_factor", proxy),
                **columns("error", relative_error(suite, proxy)),
                rounds=rounds,
            )
        )
    return rows


def markdown(rows: Sequence[NetworkRow]) -> str:
    """A line for each subject and rate, then the summary beside its goals."""
    header = ["step of", "model's step", "proxy's step", "Gbit/s", "model's factor", "proxy's", "error"]
    lines = []
    for r in rows:
        half = "" if r.error_low is None or r.error_high is None else f" ± {50 * (r.error_high - r.error_low):.1f}"
        steps = [f"{1e3 * s:.0f} ms" for s in (r.suite_step_s, r.step_latency_s)]
        figures = [f"{r.rate_gbit_per_s:g}", f"{r.suite_factor:.3f}", f"{r.proxy_factor:.3f}"]
        lines.append([r.subject, *steps, *figures, f"**{100 * r.error:+.1f}**{half} %".replace("-", "−")])
    errors = [abs(r.error) for r in rows]
    return markdown_table(header, lines) + (
        f"\n\n{len(rows)} factors: median error {100 * median(errors):.1f} % (goal {100 * MEDIAN:.0f}), "
        f"worst {100 * max(errors):.1f} % (goal {100 * WORST:.0f})"
    )


if __name__ == "__main__":
    start(main)
