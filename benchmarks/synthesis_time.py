"""How long does synthesis take, and where does the time go?

    python benchmarks/synthesis_time.py [--cases demo,suite] [--effort NAME] [--mode MODE] [--repeats N] [-o FILE]
    python benchmarks/synthesis_time.py --against COMMIT [--cases NAME,...]
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
command names on a terminal: work that it does not name belongs to the stage before, a stage that is not known here is
`other`. With --against, the files here and those of a commit take turns, each with a cache of its own that begins
empty; --effort is given to those that know it. Run nothing else meanwhile.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks import csv_tables
from benchmarks.console import parser, report, start
from benchmarks.timing.cases import CASES, Profiles, Run, cases, neighbour, profile_arguments, synthesize_arguments
from benchmarks.timing.sides import HERE, STATSNET, Side, sides
from benchmarks.timing.table import SynthesisRow, markdown, synthesis_row
from benchmarks.timing.watched_command import watch
from statsnet.environment import slug
from statsnet.errors import StatsNetError, UsageError
from statsnet.measure.process import measuring_environment
from statsnet.progress import Progress
from statsnet.signatures.database import MODES, default_profiles_dir

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    chosen = _options()
    if chosen.kept:
        print(markdown([row for path in chosen.kept for row in csv_tables.read(path, SynthesisRow)]))
        return 0
    timer = Timer(
        mode=chosen.mode,
        effort=chosen.effort,
        work=chosen.work,
        profiles=profiles_of(chosen.cases, chosen.mode, chosen.work, chosen.elsewhere),
    )
    rows: list[SynthesisRow] = []
    failed: list[str] = []
    with sides(ROOT, chosen.against, chosen.work) as both:
        for case in chosen.cases:
            for repeat in range(1, chosen.repeats + 1):
                for side in both:
                    try:
                        for row in timer.rows(case, side, repeat):
                            rows.append(row)
                            csv_tables.write(chosen.output, SynthesisRow, rows)
                    except StatsNetError as error:
                        failed.append(str(error))
                        print(error, file=sys.stderr)
    print("\n\n".join([*([markdown(rows)] if rows else []), *failed]))
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    options = parser(__doc__)
    options.add_argument("--kept", nargs="+", type=Path, metavar="FILE", help="print these tables, time nothing")
    options.add_argument("--cases", type=_cases, default=["demo", "suite"], metavar="NAME,...")
    options.add_argument("--effort", metavar="NAME", help="as of statsnet synthesize")
    options.add_argument("--mode", choices=MODES, default="inference")
    options.add_argument("--repeats", type=int, default=1)
    options.add_argument("--against", metavar="COMMIT", help="time this commit's code in turn")
    options.add_argument("--elsewhere", metavar="NAME", help="folder in profiles_db; default: the first of another")
    options.add_argument("--work", type=Path, default=Path("build/synthesis_time"), help="signatures, caches, proxies")
    options.add_argument("-o", "--output", type=Path, default=Path("build/synthesis_time/synthesis_time.csv"))
    chosen = options.parse_args()
    chosen.work = chosen.work.resolve()  # the commands run in other folders
    return chosen


def _cases(text: str) -> list[str]:
    try:
        return cases(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def profiles_of(names: list[str], mode: str, work: Path, elsewhere: str | None) -> dict[Profiles, Path | None]:
    """Where a run's signatures are; None for those that ship. What is missing is made."""
    here = Side(code=HERE, root=ROOT)
    runs = [run for name in names for run in CASES[name]]
    folders: dict[Profiles, Path | None] = {"shipped": None, "here": work / "profiles"}
    for mix in dict.fromkeys(run.mix for run in runs if run.profiles == "here"):
        report(Progress(stage=f"profiling {mix}"))
        command = [*STATSNET, *profile_arguments(mix, mode=mode, profiles=work / "profiles")]
        variables = here.variables(work / "cache" / "profiling")
        if subprocess.run(command, cwd=ROOT, env=variables, stdout=sys.stderr, check=False).returncode:
            raise StatsNetError(f"not all of '{mix}' could be profiled", hint="what was said about it stands above")
    if any(run.profiles == "elsewhere" for run in runs):
        folders["elsewhere"] = _only(default_profiles_dir(), elsewhere, work / "elsewhere")
    return folders


def _only(database: Path, environment: str | None, folder: Path) -> Path:
    """A folder of profiles that has those of one environment alone, which is not this one."""
    present = slug(measuring_environment())
    others = sorted(path.name for path in database.glob("cpu-*") if path.name != present)
    wanted = environment or (others[0] if others else "")
    if wanted not in others:
        raise UsageError(
            f"'{wanted}' is not the folder of another environment", hint=f"{database} has {', '.join(others) or 'none'}"
        )
    link = folder / wanted
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(database / wanted)
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Times a case's runs. What they make lies in `work`."""

    mode: str
    effort: str | None
    work: Path
    profiles: dict[Profiles, Path | None]

    def rows(self, case: str, side: Side, repeat: int) -> Iterator[SynthesisRow]:
        """One for each run of the case. Raises StatsNetError if one fails: those after it would miss what it keeps."""
        cache = self.work / "cache" / side.code
        shutil.rmtree(cache, ignore_errors=True)
        effort = self.effort if self.effort and side.knows("--effort") else None
        for run in CASES[case]:
            report(Progress(stage=f"{run.name}, {side.code}, {repeat}"))
            yield self._row(run, side, repeat, effort, cache)

    def _row(self, run: Run, side: Side, repeat: int, effort: str | None, cache: Path) -> SynthesisRow:
        proxy = self.work / "proxies" / side.code / run.name.replace(" ", "-")
        shutil.rmtree(proxy, ignore_errors=True)
        proxy.parent.mkdir(parents=True, exist_ok=True)
        arguments = synthesize_arguments(
            run, mode=self.mode, effort=effort, profiles=self.profiles[run.profiles], output=proxy
        )
        with neighbour(run.beside_neighbour):
            watched = watch([*STATSNET, *arguments], folder=side.root, variables=side.variables(cache))
        if watched.code:
            raise StatsNetError(f"{run.name} failed with {side.code}", cause=watched.last_words)
        # Not read as a fit of today's format: an older commit may write another.
        summary = json.loads((proxy / "fit.json").read_text(encoding="utf-8"))["summary"]
        return synthesis_row(
            watched,
            summary,
            run=run.name,
            mix=run.mix,
            mode=self.mode,
            effort=self.effort,
            code=side.code,
            repeat=repeat,
        )


if __name__ == "__main__":
    start(main)
