"""How long would a fleet of machines take, what would move, and what breaks first? A simulation.

    python benchmarks/scale.py [--machines 10000] [--workloads 1000] [--environments 72] [--seed 0] [-o FILE]
    python benchmarks/scale.py --kept FILE [--machines N] [--workloads N] [--environments N] [--seed N]

No fleet was measured. The inputs were, on one machine: times and sizes from the tables and signatures of this
repository, and what reading, checking and writing a signature takes from this run (processor time, so that neighbours
matter less). They are written to FILE, each with its source; with --kept they are read from there, and the same
arguments give the same figures. What nobody measured is an assumption, and stands among the options.

In the simulation each machine takes one task of its environment after another, machines fail and tasks are killed, and
one driver takes the results in turn: it reads, checks and writes each.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from benchmarks import csv_tables
from benchmarks.console import markdown_table, parser, start
from benchmarks.fleet_simulation import Fleet, Run, Task, simulate
from benchmarks.timing.table import SynthesisRow
from statsnet.environment.temporary import temporary_folder
from statsnet.evaluation.run_proxy import RunOptions
from statsnet.signatures import packed
from statsnet.signatures.database import ProfilesDB
from statsnet.signatures.model import Signature
from statsnet.signatures.storage import load_signature, save_signature
from statsnet.units import format_bytes, format_duration, format_quantity

ROOT = Path(__file__).resolve().parents[1]
TIMES = ROOT / "benchmarks/results/cpu-amd-epyc-f25m17-2t-torch2.13/synthesis_time.csv"
SAMPLE = 29
"""Signatures that are read and written to see what that takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRow:
    """One input. A row `profile` stands for one workload in one mode: the seconds that profiling it takes, and the
    bytes of its signature."""

    name: str
    seconds: float | None = None
    bytes: float | None = None
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The rows by what they are: seconds of one, or bytes of one."""

    profiles: tuple[Task, ...]
    synthesis_s: float
    start_s: float
    handling_s: float
    listing_s: float
    proxy_bytes: float
    packed_bytes: float
    held_bytes: float

    @classmethod
    def of(cls, rows: Sequence[ScaleRow]) -> Inputs:
        one = {row.name: row for row in rows}
        seconds, sizes = ({n: getattr(r, unit) or 0.0 for n, r in one.items()} for unit in ("seconds", "bytes"))
        return cls(
            profiles=tuple((r.seconds or 0.0, r.bytes or 0.0) for r in rows if r.name == PROFILE),
            synthesis_s=seconds[SYNTHESIS],
            start_s=seconds[START],
            handling_s=seconds[HANDLING],
            listing_s=seconds[LISTING],
            proxy_bytes=sizes[PROXY],
            packed_bytes=sizes[PACKED],
            held_bytes=sizes[HELD],
        )

    @property
    def profile(self) -> Task:
        """A mean one."""
        seconds, sizes = zip(*self.profiles, strict=True)
        return mean(seconds), mean(sizes)


OVERHEAD, SYNTHESIS, START = "profiling, apart from the steps", "a synthesis", "start of a command"
HANDLING, HELD = "a signature read, checked and written", "a signature in memory"
LISTING, PROXY, PACKED, PROFILE = "a file in a listing", "a proxy's folder", "a signature, packed", "profile"


def main() -> None:
    options = _options()
    rows = csv_tables.read(options.kept, ScaleRow) if options.kept else list(measured())
    if not options.kept:
        csv_tables.write(options.output, ScaleRow, rows, one_machine=False)
    print(report(rows, options))


def _options(words: Sequence[str] | None = None) -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--kept", type=Path, metavar="FILE", help="take the inputs from this table")
    options.add_argument("--machines", type=int, default=10_000)
    options.add_argument("--workloads", type=int, default=1_000, help="each in both modes")
    options.add_argument("--environments", type=int, default=72, help="12 kinds, 2 torch versions, 3 drivers")
    options.add_argument("--copies", type=int, default=3, help="profiles of a workload in each environment")
    options.add_argument("--proxies", type=int, default=50, help="that run on every machine")
    options.add_argument("--hours-between-failures", type=float, default=1000.0, help="of one machine")
    options.add_argument("--repair-hours", type=float, default=4.0)
    options.add_argument("--killed", type=float, default=0.001, help="share of tasks whose process is killed")
    options.add_argument("--left-out", type=float, default=0.03, help="share of machines that are off by over 3 %%")
    options.add_argument("--driver-memory-gib", type=float, default=16.0)
    options.add_argument("--object-store-share", type=float, default=0.3, help="of a node's memory: Ray's default")
    options.add_argument("--network-gbit", type=float, default=10.0, help="the driver's, per second")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("-o", "--output", type=Path, default=Path("build/scale.csv"))
    return options.parse_args(words)


def measured() -> Iterator[ScaleRow]:
    """The inputs, from what this repository holds and from reading some of it."""
    demo, _, two, _ = csv_tables.read(TIMES, SynthesisRow)
    table, db = str(TIMES.relative_to(ROOT)), ProfilesDB()
    fullest = max(sorted({e.environment for e in db.entries}), key=[e.environment for e in db.entries].count)
    steps_s = {e: _steps_s(e.load()) for e in db.entries if e.environment == fullest}
    members = [s for e, s in steps_s.items() if f"{e.name}:" in demo.mix and e.mode == demo.mode]
    overhead_s = max(0.0, demo.profiling_s / len(members) - mean(members))
    yield ScaleRow(
        name=OVERHEAD, seconds=overhead_s, source=f"{table}: profiling of the demo per member, less its steps"
    )
    yield ScaleRow(name=SYNTHESIS, seconds=two.total_s, source=f"{table}: two members")
    yield ScaleRow(name=START, seconds=demo.starting_s, source=f"{table}: starting, of the demo")
    folders = [[f.stat().st_size for f in p.rglob("*") if f.is_file()] for p in (ROOT / "generated").glob("*/")]
    yield ScaleRow(name=PROXY, bytes=mean(map(sum, folders)), source=f"generated/: mean of {len(folders)} folders")
    archives = [archive.stat().st_size for archive in (db.path / fullest).glob(f"*{packed.ENDING}")]
    yield ScaleRow(
        name=PACKED, bytes=sum(archives) / len(steps_s), source=f"profiles_db/{fullest}: mean of its archives"
    )
    yield from _handling([e.path for e in list(steps_s)[:: max(1, len(steps_s) // SAMPLE)]])
    for entry, length_s in steps_s.items():
        yield ScaleRow(
            name=PROFILE,
            seconds=overhead_s + length_s,
            bytes=float(len(packed.read(entry.path, 10**9))),
            source=f"profiles_db/{fullest}/{entry.name}.{entry.mode}.json",
        )


def _steps_s(signature: Signature) -> float:
    one = signature.measurements[0]
    return sum((*one.step_latency_s, *one.warmup_latency_s, *one.profiled_latency_s))


def _handling(paths: Sequence[Path]) -> Iterator[ScaleRow]:
    """What a driver does with a signature."""
    source = f"this program: {len(paths)} signatures, processor time"
    with temporary_folder() as folder:
        for turn in range(2):  # the first one also imports what it needs
            begin_s = time.process_time()
            for path in paths[: None if turn else 1]:
                save_signature(folder / "signature.json", load_signature(path))
        handling_s = (time.process_time() - begin_s) / len(paths)
    yield ScaleRow(name=HANDLING, seconds=handling_s, source=source)
    tracemalloc.start()
    kept = [load_signature(path) for path in paths]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    yield ScaleRow(name=HELD, bytes=held / len(kept), source=f"this program: {len(kept)} signatures, tracemalloc")
    begin_s = time.process_time()
    listed = len(ProfilesDB().entries)
    listing_s = (time.process_time() - begin_s) / listed
    yield ScaleRow(name=LISTING, seconds=listing_s, source=f"this program: {listed} files, processor time")


def report(rows: Sequence[ScaleRow], options: argparse.Namespace) -> str:
    """Inputs, outcome, growth, other plans and limits, in Markdown."""
    inputs = Inputs.of(rows)
    fleet = Fleet(
        machines=options.machines, workloads=2 * options.workloads, environments=options.environments,
        copies=options.copies, hours_between_failures=options.hours_between_failures, repair_hours=options.repair_hours,
        killed=options.killed, left_out=options.left_out, driver_s=inputs.handling_s, seed=options.seed,
    )  # fmt: skip
    run = simulate(fleet, inputs.profiles)
    title = (
        f"{options.workloads:,} workloads in both modes, {options.copies} times in each of {options.environments} "
        f"environments, on {options.machines:,} machines"
    )
    parts = {
        "Inputs": _inputs(rows, inputs),
        title: _outcome(run, inputs),
        "More or fewer environments": _growth(fleet, run, inputs),
        "Other plans": _plans(fleet, inputs, options.proxies),
        "What breaks first": _limits(fleet, inputs, run, options),
    }
    return "\n\n".join(f"{name}\n\n{text}" for name, text in parts.items())


def _inputs(rows: Sequence[ScaleRow], inputs: Inputs) -> str:
    lines = [
        [r.name, format_duration(r.seconds) if r.seconds is not None else format_bytes(int(r.bytes or 0)), r.source]
        for r in rows
        if r.name != PROFILE
    ]
    seconds = [s for s, _ in inputs.profiles]
    mean_s, size = inputs.profile
    lines.append(
        [
            PROFILE,
            f"{mean_s:.0f} s ({min(seconds):.0f} to {max(seconds):.0f} s), {format_bytes(int(size))}",
            f"{len(seconds)} signatures in profiles_db/: the time of their steps and the first row; their files",
        ]
    )
    return markdown_table(("input", "value", "source"), lines)


def _outcome(run: Run, inputs: Inputs) -> str:
    lines = [
        ["profiles", f"{run.done:,}"],
        ["machine-hours", f"{run.worked_s / 3600:,.0f}, of which lost {run.lost_s / 3600:.1f}"],
        ["half the environments have all of theirs after", _hours(run.half_s)],
        ["all have all of theirs after", f"{_hours(run.measured_s)} (the last one has {run.last_machines} machines)"],
        ["the driver has written all after", _hours(run.written_s)],
        ["failures", f"{run.failures:,} machines failed, {run.killed:,} tasks were killed; all were measured again"],
        ["moved to the driver", format_bytes(int(run.moved_bytes))],
        ["waiting for the driver, at most", f"{run.waiting:,} results, {format_bytes(int(run.waiting_bytes))}"],
        ["on disk, packed, with all copies", format_bytes(int(run.done * inputs.packed_bytes))],
    ]
    return markdown_table(("", ""), lines)


def _growth(fleet: Fleet, run: Run, inputs: Inputs) -> str:
    here = fleet.environments
    fewer, more = max(1, here // 6), 2 * here
    runs = {n: simulate(replace(fleet, environments=n), inputs.profiles) for n in (fewer, more)} | {here: run}
    lines = []
    for number, run in sorted(runs.items()):
        lines.append(
            [f"{number:,}", f"{run.done:,}", _hours(run.measured_s), f"{run.last_machines}", _hours(run.written_s)]
        )
    return markdown_table(("environments", "profiles", "all measured", "machines of the last", "all written"), lines)


def _plans(fleet: Fleet, inputs: Inputs, proxies: int) -> str:
    """By bounds: the work over the machines, and the results over the driver."""
    running = RunOptions()
    run_s = inputs.start_s + running.processes * (running.limits.min_time_s or 0.0)
    profile_s, profile_bytes = inputs.profile
    plans = (
        ("every workload profiled on every machine", fleet.workloads * fleet.machines, profile_s, profile_bytes),
        (f"{proxies} proxies made", proxies, inputs.synthesis_s, inputs.proxy_bytes),
        (f"{proxies} proxies run on every machine, at least", proxies * fleet.machines, run_s, inputs.proxy_bytes),
    )
    lines = [
        [
            name,
            f"{count:,}",
            f"{count * each_s / 3600:,.0f}",
            _hours(max(each_s, count * each_s / fleet.machines)),
            format_bytes(int(count * size)),
        ]
        for name, count, each_s, size in plans
    ]
    return markdown_table(("plan", "tasks", "machine-hours", "on all machines", "moved"), lines)


def _limits(fleet: Fleet, inputs: Inputs, run: Run, options: argparse.Namespace) -> str:
    """What is full at which size, the first to be so first."""
    profile_s, profile_bytes = inputs.profile
    memory = options.driver_memory_gib * 2**30
    network = options.network_gbit * 1e9 / 8
    limits = (
        ("the driver's processor: results come faster than it writes them", "machines", fleet.machines,
         profile_s / inputs.handling_s),
        ("the driver's network", "machines", fleet.machines, network * profile_s / profile_bytes),
        ("the object store, with what waits for the driver", "results", run.waiting,
         options.object_store_share * memory / profile_bytes),
        ("the driver's memory, if it kept all signatures", "signatures", run.done, memory / inputs.held_bytes),
        ("a packed folder, if all workloads are of one domain", "signatures", fleet.workloads,
         packed.MAX_ARCHIVE_BYTES / inputs.packed_bytes),
    )  # fmt: skip
    ranked = sorted(limits, key=lambda limit: limit[3] / max(limit[2], 1))
    lines = [
        [what, f"{format_quantity(limit)} {unit}", f"{here:,}", f"{here / limit:.2g}"]
        for what, unit, here, limit in ranked
    ]
    files = fleet.workloads * fleet.environments
    text = markdown_table(("what", "is full at", "here", "here ÷ limit"), lines)
    return f"{text}\n\nListing the database of {files:,} files takes {format_duration(files * inputs.listing_s)}."


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.2g} h"


if __name__ == "__main__":
    start(main)
