"""How long does synthesis take, and where does the time go?

    python benchmarks/synthesis_time.py [--cases demo,suite] [--effort NAME] [--mode MODE] [--repeats N] [-o FILE]
    python benchmarks/synthesis_time.py --kept FILE ...

Each run is `statsnet synthesize` in a process of its own. The cases (timing/cases.py):

    demo        two members with the signatures that ship: with nothing kept of earlier runs, then with everything
    suite       recsys:0.5,cv:0.5 with signatures of this environment, then the same members in another mix
    elsewhere   the suite with signatures of another environment
    all         every workload, in equal shares, with signatures of this environment
    neighbour   the demo, with nothing kept, beside a program that keeps one core half busy
    two, ten    that many members, with signatures of this environment
    growth      two, ten, suite and all

Signatures of this environment that are missing are profiled first, which is not timed. Stages are those that the
command tells of itself. Run nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import csv_tables
from benchmarks.console import left_out_if_it_fails, parser, report, start
from benchmarks.timing.cases import CASES, Profiles, Run, cases, neighbour, profile_arguments, synthesize_arguments
from benchmarks.timing.table import SynthesisRow, markdown, synthesis_row
from statsnet.environment import slug
from statsnet.errors import StatsNetError
from statsnet.measure.process import measuring_environment
from statsnet.progress import Progress
from statsnet.signatures.database import MODES, default_profiles_dir

ROOT = Path(__file__).resolve().parents[1]
STATSNET = (sys.executable, "-m", "statsnet")


def main() -> int:
    chosen = _options()
    if chosen.kept:
        print(markdown([row for path in chosen.kept for row in csv_tables.read(path, SynthesisRow)]))
        return 0
    profiles = profiles_of(chosen.cases, chosen.mode, chosen.work)
    timer = Timer(mode=chosen.mode, effort=chosen.effort, work=chosen.work, profiles=profiles)
    rows: list[SynthesisRow] = []
    failed: list[str] = []
    for case in chosen.cases:
        for repeat in range(1, chosen.repeats + 1):
            with left_out_if_it_fails(case, failed):
                for row in timer.rows(case, repeat):
                    rows.append(row)
                    csv_tables.write(chosen.output, SynthesisRow, rows)
    if rows:
        print(markdown(rows))
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--kept", nargs="+", type=Path, metavar="FILE", help="print these tables, time nothing")
    options.add_argument("--cases", type=_cases, default=["demo", "suite"], metavar="NAME,...")
    options.add_argument("--effort", metavar="NAME", help="as of statsnet synthesize")
    options.add_argument("--mode", choices=MODES, default="inference")
    options.add_argument("--repeats", type=int, default=1)
    options.add_argument("--work", type=Path, default=Path("build/synthesis_time"), help="signatures, caches, proxies")
    options.add_argument("-o", "--output", type=Path, default=Path("build/synthesis_time/synthesis_time.csv"))
    chosen = options.parse_args()
    chosen.work = chosen.work.resolve()  # the commands run in another folder
    return chosen


def _cases(text: str) -> list[str]:
    try:
        return cases(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def profiles_of(names: list[str], mode: str, work: Path) -> dict[Profiles, Path | None]:
    """Where a run's signatures are; None for those that ship. What is missing is made."""
    runs = [run for name in names for run in CASES[name]]
    folders: dict[Profiles, Path | None] = {"shipped": None, "here": work / "profiles"}
    for mix in dict.fromkeys(run.mix for run in runs if run.profiles == "here"):
        report(Progress(stage=f"profiling {mix}"))
        command = [*STATSNET, *profile_arguments(mix, mode=mode, profiles=work / "profiles")]
        variables = _variables(work / "cache" / "profiling")
        if subprocess.run(command, cwd=ROOT, env=variables, stdout=sys.stderr, check=False).returncode:
            raise StatsNetError(f"not all of '{mix}' could be profiled", hint="what was said about it stands above")
    if any(run.profiles == "elsewhere" for run in runs):
        folders["elsewhere"] = of_another_environment(default_profiles_dir(), work / "elsewhere")
    return folders


def _variables(cache: Path) -> dict[str, str]:
    """A command's environment: it runs this code and keeps its measurements in this folder."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "STATSNET_CACHE": str(cache)}


def of_another_environment(database: Path, folder: Path) -> Path:
    """A folder of profiles with those of one environment alone: the database's first that is not this one."""
    present = slug(measuring_environment())
    other = next(path for path in sorted(database.glob("cpu-*")) if path.name != present)
    link = folder / other.name
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(other)
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Times a case's runs. What they make lies in `work`."""

    mode: str
    effort: str | None
    work: Path
    profiles: dict[Profiles, Path | None]

    def rows(self, case: str, repeat: int) -> Iterator[SynthesisRow]:
        """One for each run of the case. Raises StatsNetError if one fails: those after it would miss what it keeps."""
        cache = self.work / "cache" / "timed"
        shutil.rmtree(cache, ignore_errors=True)
        for run in CASES[case]:
            report(Progress(stage=f"{run.name}, {repeat}"))
            yield self._row(run, repeat, cache)

    def _row(self, run: Run, repeat: int, cache: Path) -> SynthesisRow:
        proxy = self.work / "proxies" / run.name.replace(" ", "-")
        shutil.rmtree(proxy, ignore_errors=True)
        proxy.parent.mkdir(parents=True, exist_ok=True)
        arguments = synthesize_arguments(
            run, mode=self.mode, effort=self.effort, profiles=self.profiles[run.profiles], output=proxy
        )
        told = self.work / "told.json"
        with neighbour(run.beside_neighbour):
            took_s, peak_bytes = _timed([*STATSNET, *arguments, f"--json={told}"], _variables(cache), run.name)
        return synthesis_row(
            took_s, json.loads(told.read_text(encoding="utf-8")), run=run.name, mix=run.mix, mode=self.mode,
            effort=self.effort, repeat=repeat, peak_bytes=peak_bytes,
        )  # fmt: skip


def _timed(command: Sequence[str], variables: Mapping[str, str], name: str) -> tuple[float, int]:
    """Seconds of a command, and what the largest of its processes took. Raises StatsNetError if it fails."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=subprocess.DEVNULL, stderr=said)
        _, status, used = os.wait4(process.pid, 0)
        took_s, process.returncode = time.perf_counter() - begin, os.waitstatus_to_exitcode(status)
        if process.returncode:
            said.seek(0)
            last_words = said.read().decode(errors="replace").strip().splitlines()[-5:]
            raise StatsNetError(f"{name} failed", cause="\n".join(last_words))
    return took_s, 1024 * used.ru_maxrss


if __name__ == "__main__":
    start(main)
