"""Does a search over designs find a nearer network, or a shorter one that is as near, than the solver alone?

    python benchmarks/search_front.py [--mixes "NAME,..."] [--time-limit 10min] [--compression N] [--storage URL]
        [--cores 0,1] [-o FILE]
    python benchmarks/search_front.py --kept FILE

For each mix: `statsnet synthesize` alone, then a search by one worker and one by two workers, each for the same wall
time. A worker stands for a machine: it has one core, one thread, a cache of its own, and a lock of its own. Everything
that all need of a mix (members, blocks) is measured before, on each core, so that the wall time is spent on designs.
Workers share a journal, or what --storage names. Run nothing else meanwhile.

The error is the fit's objective: that of the nearest measured network within the budget. Of several noisy measurements
the best is also the luckiest, the more so the more there are. So the kernel classes of the finished proxies, which new
processes measured, stand beside it. `as near in` is the shortest step of a network that is as near as the solver's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import csv_tables
from benchmarks.console import left_out_if_it_fails, markdown_table, parser, report, start
from benchmarks.suites import MIXES, mix_text, spelled_out
from statsnet.errors import StatsNetError, UsageError
from statsnet.progress import Progress
from statsnet.reporting.front import load_search
from statsnet.signatures.documents import Fit
from statsnet.signatures.storage import load_fit
from statsnet.synthesis.search.search import IN_BUDGET

MOST = 100_000
"""Designs: more than fit into any time."""

THREE = ("recommendation + vision", "vision", "language + recommendation")
SOLVER, ONE, TWO = "solver alone", "one worker", "two workers"
WORKERS = {SOLVER: 1, ONE: 1, TWO: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontRow:
    """One way to make a proxy for a mix. `networks` are those that count for `error`, the least of those within the
    budget. `kernel_classes` is the least total variation of the workers' finished proxies. `as_near_step_s` is the
    shortest step of a network whose error is at most the solver's; None: there is none."""

    mix: str
    way: str
    wall_s: float
    networks: int
    error: float
    kernel_classes: float | None
    budget_s: float
    as_near_step_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    error: float
    step_latency_s: float


def main() -> int:
    chosen = _options()
    rows = csv_tables.read(chosen.kept, FrontRow) if chosen.kept else []
    named = [] if chosen.kept else chosen.mixes
    failed: list[str] = []
    for comparison in [Comparison(name=name, mix=mix_of(name), chosen=chosen) for name in named]:
        with left_out_if_it_fails(comparison.name, failed):
            rows += comparison.rows()
            csv_tables.write(chosen.output, FrontRow, rows)
    if rows:
        print(markdown(rows))
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--mixes", type=_mixes, default=list(THREE), metavar="NAME,...", help="of suites.py, or mixes")
    options.add_argument("--time-limit", default="10min", metavar="TIME", help="of each search")
    options.add_argument("--compression", metavar="N", help="as of statsnet synthesize; --budget likewise")
    options.add_argument("--budget", metavar="TIME")
    options.add_argument("--effort", metavar="NAME")
    options.add_argument("--profiles", metavar="DIR", help="as of statsnet synthesize")
    options.add_argument("--storage", metavar="URL", help="what workers share; default: a journal under --work")
    options.add_argument("--cores", type=_cores, default=[0, 1], metavar="N,N", help="of the two workers")
    options.add_argument("--work", type=Path, default=Path("build/search_front"), help="caches, journals, proxies")
    options.add_argument("--kept", type=Path, metavar="FILE", help="print this table, measure nothing")
    options.add_argument("-o", "--output", type=Path, default=Path("build/search_front/search_front.csv"))
    chosen = options.parse_args()
    chosen.work = chosen.work.resolve()
    return chosen


def _mixes(text: str) -> list[str]:
    """Names in suites.py, or one mix."""
    return [text] if ":" in text else [name.strip() for name in text.split(",")]


def _cores(text: str) -> list[int]:
    cores = [int(word) for word in text.split(",")]
    if len(set(cores)) != max(WORKERS.values()) or not set(cores) <= os.sched_getaffinity(0):
        raise argparse.ArgumentTypeError(f"two of the cores {sorted(os.sched_getaffinity(0))}")
    return cores


def mix_of(name: str) -> str:
    """As `statsnet synthesize` takes it. Raises UsageError for a name that no mix has, and for what is no mix."""
    if name not in MIXES and ":" not in name:
        raise UsageError(f"'{name}' is no mix", hint=f"one of {', '.join(MIXES)}, or NAME:WEIGHT,...")
    return spelled_out(mix_text(name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One mix, made in all ways. Raises StatsNetError if a command fails."""

    name: str
    mix: str
    chosen: argparse.Namespace

    def rows(self) -> list[FrontRow]:
        folder = self.chosen.work / "".join(c if c.isalnum() else "-" for c in self.name)
        shutil.rmtree(folder, ignore_errors=True)
        for core in self.chosen.cores:  # each machine measures members and blocks of its own
            self._run(folder / f"before-{core}", [core], [])
        found = []
        for way, workers in WORKERS.items():
            begin_s = time.monotonic()
            search = [] if way == SOLVER else self._search(folder / f"{workers}.journal")
            self._run(folder / way.replace(" ", "-"), self.chosen.cores[:workers], search)
            found.append((way, time.monotonic() - begin_s, folder / way.replace(" ", "-")))
        solver = networks_of(found[0][2])
        return [self._row(way, wall_s, where, solver) for way, wall_s, where in found]

    def _search(self, journal: Path) -> list[str]:
        storage = self.chosen.storage or str(journal)
        study = f"{self.name[:50]}, {journal.stem}, {time.time_ns()}"
        return ["--time-limit", self.chosen.time_limit, "--trials", str(MOST), "--storage", storage, "--study", study]

    def _run(self, folder: Path, cores: Sequence[int], search: Sequence[str]) -> None:
        """The command on each of the cores, at the same time. What they make lies in the folder."""
        report(Progress(stage=f"{self.name}: {folder.name}"))
        folder.mkdir(parents=True)
        command = [sys.executable, "-m", "statsnet", "synthesize", "--mix", self.mix, *search]
        for option in ("compression", "budget", "effort", "profiles"):
            if (value := getattr(self.chosen, option)) is not None:
                command += [f"--{option}", value]
        begun = []
        for core in cores:
            own = self.chosen.work / f"machine-{core}"
            own.mkdir(parents=True, exist_ok=True)
            variables = {
                **os.environ, "OMP_NUM_THREADS": "1", "STATSNET_CACHE": str(own), "STATSNET_DEVICE_LOCK": str(own),
            }  # fmt: skip
            words = ["taskset", "-c", str(core), *command, "-o", str(folder / str(core))]
            begun.append(subprocess.Popen(words, env=variables, stdout=subprocess.DEVNULL))
        codes = [process.wait() for process in begun]  # of all, also after one has failed
        if any(codes):
            raise StatsNetError(f"no proxy was made for {self.name}", hint="what was said about it stands above")

    def _row(self, way: str, wall_s: float, folder: Path, solver: Sequence[Network]) -> FrontRow:
        fits, networks = fits_of(folder), networks_of(folder)
        budget_s = fits[0].summary.budget_s or 0.0
        classes = [f.summary.kernel_class_total_variation for f in fits]
        known = [value for value in classes if value is not None]
        return FrontRow(
            mix=self.name,
            way=way,
            wall_s=wall_s,
            networks=len(networks),
            error=min(n.error for n in within(networks, budget_s)),
            kernel_classes=min(known, default=None),
            budget_s=budget_s,
            as_near_step_s=as_near_step_s(networks, min(n.error for n in within(solver, budget_s))),
        )


def fits_of(folder: Path) -> list[Fit]:
    return [load_fit(path) for path in sorted(folder.glob("*/fit.json"))]


def networks_of(folder: Path) -> list[Network]:
    """All that were measured for the proxies in the folder. Workers of one study tell of the same designs."""
    rounds = [round for fit in fits_of(folder) for round in fit.rounds]
    searches = [load_search(path).tried for path in folder.glob("*/search.json")]
    tried = max(searches, key=len, default=())  # of the worker that ended last
    known = {t.step_latency_s for t in tried}  # rounds begin with the designs that were tried
    return [Network(error=t.error, step_latency_s=t.step_latency_s) for t in tried] + [
        Network(error=r.measured_error, step_latency_s=r.step_latency_s)
        for r in {r.step_latency_s: r for r in rounds}.values()
        if r.step_latency_s not in known
    ]


def within(networks: Sequence[Network], budget_s: float) -> list[Network]:
    """Those within the budget, as a search chooses; all if there is none."""
    return [n for n in networks if n.step_latency_s <= IN_BUDGET * budget_s] or list(networks)


def as_near_step_s(networks: Sequence[Network], error: float) -> float | None:
    """The shortest step of a network with at most this error."""
    return min((n.step_latency_s for n in networks if n.error <= error), default=None)


def markdown(rows: Sequence[FrontRow]) -> str:
    """Errors and steps as shares of the solver's stand in brackets."""
    solver = {row.mix: row for row in rows if row.way == SOLVER}
    header = ("mix", "way", "wall time", "networks", "error", "kernel classes, points", "as near in")
    return markdown_table(header, [_line(row, solver.get(row.mix)) for row in rows])


def _line(row: FrontRow, solver: FrontRow | None) -> tuple[str, ...]:
    def beside(value: float, other: float | None) -> str:
        return f" ({value / other:.2f})" if other else ""

    step_s, other_s = row.as_near_step_s, solver.as_near_step_s if solver else None
    return (
        row.mix,
        row.way,
        f"{row.wall_s:.0f} s",
        str(row.networks),
        f"{row.error:.4f}{beside(row.error, solver.error if solver else None)}",
        "" if row.kernel_classes is None else f"{100 * row.kernel_classes:.1f}",
        "none" if step_s is None else f"{1e3 * step_s:.2f} ms{beside(step_s, other_s)}",
    )


if __name__ == "__main__":
    start(main)
