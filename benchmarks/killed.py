"""Is anything lost, half-written or left running when a command is killed, or meets a full disk?

    python benchmarks/killed.py [--times 50] [--commands profile,synthesize,run,search] [--by KILL,TERM,INT,HUP,full]
                                [-o FILE]
    python benchmarks/killed.py --kept build/killed.csv

Each command is started in a folder that holds what an earlier run of it wrote. Every second time a signal ends it
after a random part of the time that it takes, else at a random one of the changes that it makes to files; `full` is a
disk that is full from such a change on. Then: what it writes is what it was before, or new and whole; no process of it
lives; nothing else lies in the folder but what the next run may sweep, or nothing at all if the command could end by
itself; and the same command, started once more, succeeds and sweeps it. Printed for each command: how often it was
stopped, how often it had ended before, and how often something was wrong. Each is stopped until it was at least so
often in all runs that the table -o counts (build/killed.csv, unless another is named), so a second run stops nothing
but what --times adds; the table is written after every few. What mostly survives is not tried for ever.
"""

from __future__ import annotations

import argparse
import multiprocessing
import multiprocessing.context
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks import csv_tables, interrupted
from benchmarks.console import markdown_table, parser, start
from statsnet.environment.temporary import PREFIX, SETTLED_S
from statsnet.errors import StatsNetError
from statsnet.proxy.folder import open_proxy
from statsnet.signatures.canonical import read_json
from statsnet.signatures.storage import load_result, load_signature

MODEL = """
import torch


def make(batch: int = 4):
    layers = torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 8)
    return torch.nn.Sequential(*layers), (torch.randn(batch, 16),)
"""

PROFILE = ("profile", "model.py:make", "--min-time", "20ms", "-o", "own.json")
SYNTHESIZE = ("synthesize", "--mix", "own.json:1", "--budget", "2ms", "--effort", "quick", "--within", "5s",
              "-o", "proxy")  # fmt: skip
COMMANDS: dict[str, tuple[str, ...]] = {
    "profile": PROFILE,
    "synthesize": SYNTHESIZE,
    "run": ("run", "proxy", "--processes", "2", "--min-time", "20ms", "--max-time", "100ms", "--json", "result.json"),
    "search": (*SYNTHESIZE[:-1], "searched", "--trials", "2", "--within", "1s"),
}
FORK = multiprocessing.get_context("fork")
"""What a command imports first takes long and writes nothing: all of them begin behind it."""

Forked = multiprocessing.context.ForkProcess
AT_ONCE = 25
"""After so many the command must succeed once more, and the counts are written."""

MOST_TRIES = 3
"""For each stop that is wanted: a command may end by itself before, or survive."""

LIVES_ON_S, PATIENCE_S = 20.0, 600.0
"""The server that forks processes sees that its command has ended when it has imported what it is importing: so much of
the processor may that take. A machine on which others work may give it little, and one that waits for nothing, none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KilledRow:
    """How often one command was stopped in one way, and how often something was wrong then."""

    command: str
    by: str
    killed: int = 0
    had_ended: int = 0
    wrong: int = 0

    @property
    def tries(self) -> int:
        return self.killed + self.had_ended

    def and_then(self, later: KilledRow) -> KilledRow:
        return replace(
            self,
            killed=self.killed + later.killed,
            had_ended=self.had_ended + later.had_ended,
            wrong=self.wrong + later.wrong,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stopped:
    """How an interrupted command ended; `by_itself`: it could clean up."""

    code: int
    by_itself: bool
    living: list[str]


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--times", type=int, default=50)
    options.add_argument("--commands", default=",".join(COMMANDS))
    options.add_argument("--by", default="KILL", help="signals, or full: the disk")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("-o", "--output", type=Path, default=Path("build/killed.csv"))
    options.add_argument("--kept", type=Path, metavar="FILE", help="print this table, kill nothing")
    chosen = options.parse_args()
    rows = csv_tables.read(chosen.kept, KilledRow) if chosen.kept else _stopped(chosen)
    head = ("command", "by", "killed", "had ended before", "wrong")
    print(markdown_table(head, ((r.command, r.by, str(r.killed), str(r.had_ended), str(r.wrong)) for r in rows)))
    return int(any(row.wrong for row in rows))


def _stopped(chosen: argparse.Namespace) -> list[KilledRow]:
    rows = {(row.command, row.by): row for row in csv_tables.read_kept(chosen.output, KilledRow)}
    with tempfile.TemporaryDirectory() as folder:
        place = _Place(Path(folder))
        wanted, order = chosen.commands.split(","), [*COMMANDS]
        for name in order[: 1 + max(map(order.index, wanted))]:  # each needs what those before have written
            if place.run(name) != 0:
                raise StatsNetError(f"{name} does not work here", cause=place.said())
        for name in wanted:
            for by in chosen.by.split(","):
                row = rows.get((name, by), KilledRow(command=name, by=by))
                before, last = row.killed, row.tries + MOST_TRIES * (chosen.times - row.killed)
                while row.killed < chosen.times and row.tries < last:
                    chance = random.Random(f"{chosen.seed} {row.tries}")
                    row = row.and_then(_killed(place, name, by, min(AT_ONCE, chosen.times), chance))
                    rows[name, by] = row
                    csv_tables.write(chosen.output, KilledRow, [*rows.values()], one_machine=False)
                said = f"{row.killed} of {chosen.times}, {before} of them in earlier runs"
                print(f"{name}, {by}: {said}", file=sys.stderr)
    return [*rows.values()]


def _killed(place: _Place, name: str, by: str, times: int, chance: random.Random) -> KilledRow:
    begin_s = time.monotonic()
    place.run(name)
    usual_s, changes = time.monotonic() - begin_s, place.changes()
    killed, wrong = 0, 0

    def tell(texts: Sequence[str], when: str) -> None:
        nonlocal wrong
        wrong += bool(texts)
        for text in texts:
            print(f"{name}, {by}, {when}: {text}", flush=True)

    for number in range(times):
        before, left_before = place.content(), place.leftovers()
        resumed = ("--resume",) if name == "search" and number % 4 > 1 else ()
        if number % 2 or by == interrupted.FULL:
            at = chance.randint(1, changes)
            when = f"at change {at} of {changes}"
            stopped = place.run_and_stop(name, by, *resumed, at=at)
        else:
            after_s = chance.uniform(0.0, 1.1 * usual_s)
            when, begin_s = f"after {after_s:.1f} of {usual_s:.1f} s", time.monotonic()
            stopped = place.run_and_stop(name, by, *resumed, after_s=after_s)
            if stopped.code == 0:  # it was faster than the run before, which others may have disturbed
                usual_s = min(usual_s, time.monotonic() - begin_s)
        killed += stopped.code != 0
        print(f"{name}, {by}, {number + 1} of {times}: {when}, exit {stopped.code}", file=sys.stderr, flush=True)
        new = [each for each in place.leftovers() if each not in left_before]
        left = [f"'{each}' is left" for each in new] if stopped.by_itself else []
        said = [place.said()] if "this is a bug" in place.said() else []
        tell([*stopped.living, *place.problems(before), *left, *said], when)
    time.sleep(SETTLED_S + 1)  # younger leftovers are not swept
    resumed = ("--resume",) if name == "search" else ()  # its journal may end in the middle of a line
    failed = [f"it does not work any more: {place.said()}"] if place.run(name, *resumed) != 0 else []
    tell([*failed, *(f"'{each}' is not swept" for each in place.leftovers())], "at the end")
    return KilledRow(command=name, by=by, killed=killed, had_ended=times - killed, wrong=wrong)


class _Place:
    """A folder in which commands run, with a folder for their temporary files and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self._work, self._output, locks = folder / "work", folder / "output", folder / "locks"
        self.here, self.temporary = self._work / "here", self._work / "tmp"
        for path in (self.here, self.temporary, locks):
            path.mkdir(parents=True)
        (self.here / "model.py").write_text(MODEL, encoding="utf-8")
        self.mark = f"statsnet-killed-{os.getpid()}"
        self._variables = {**os.environ, "TMPDIR": str(self.temporary), "STATSNET_CACHE": str(self._work / "cache"),
                           "PYTHONPATH": os.pathsep.join(sys.path), "KILLED_MARK": self.mark,
                           "STATSNET_PATIENCE_S": "0", "STATSNET_DEVICE_LOCK": str(locks)}  # fmt: skip

    def start(self, name: str, *more: str, how: str = interrupted.NEVER, at: int = 0) -> Forked:
        interruption = interrupted.Interruption(folder=self._work, how=how, at=at)
        words = [*COMMANDS[name], *more]
        process = FORK.Process(
            target=interrupted.run, args=(words, self.here, self._variables, self._output, interruption)
        )
        process.start()
        return process

    def run(self, name: str, *more: str) -> int:
        process = self.start(name, *more)
        process.join()
        return int(process.exitcode or 0)

    def said(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")[-500:]

    def changes(self) -> int:
        """That the command has made which has just ended."""
        return int(self.said().rpartition(interrupted.SAYS)[2])

    def run_and_stop(self, name: str, by: str, *more: str, at: int = 0, after_s: float | None = None) -> _Stopped:
        process = self.start(name, *more, how=by if at else interrupted.NEVER, at=at)
        process.join(after_s)
        if process.exitcode is None and process.pid is not None:
            os.kill(process.pid, signal.Signals[f"SIG{by}"])
        process.join()
        code = int(process.exitcode or 0)
        return _Stopped(code=code, by_itself=code >= 0, living=self._living())

    def _living(self) -> list[str]:
        end_s, before_s = time.monotonic() + PATIENCE_S, {pid: _used_s(pid) for pid, _ in self._marked()}
        while (living := self._marked()) and time.monotonic() < end_s:
            if any(_used_s(pid) - before_s.get(pid, 0.0) > LIVES_ON_S for pid, _ in living):
                break
            time.sleep(0.1)
        return [f"process {pid} lives on: {words}" for pid, words in living]

    def _marked(self) -> list[tuple[int, str]]:
        """Processes that have inherited our variable."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"KILLED_MARK={self.mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                    words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found.append((int(path.name), words[:100]))
            except OSError:  # it has ended, or is another user's
                continue
        return found

    def content(self) -> dict[str, bytes]:
        """All files but temporary ones and journals, which grow by whole lines."""
        return {str(path.relative_to(self.here)): path.read_bytes() for path in self._files()}

    def _files(self) -> list[Path]:
        return [path for path in sorted(self.here.rglob("*")) if path.is_file() and not self._is_leftover(path)
                and "__pycache__" not in path.parts and not path.name.endswith(".journal")]  # fmt: skip

    def _is_leftover(self, path: Path) -> bool:
        return any(part.startswith(".") for part in path.relative_to(self.here).parts)

    def problems(self, before: dict[str, bytes]) -> list[str]:
        """What is missing, and what is new and not whole."""
        now = self.content()
        lost = [f"'{name}' is lost" for name in before if name not in now]
        return [
            *lost,
            *(f"'{name}' is not whole: {why}" for name, check in CHECKS.items() if (why := self._why(name, check))),
        ]

    def _why(self, name: str, check: Callable[[Path], object]) -> str:
        if not (self.here / name).exists():
            return ""
        try:
            check(self.here / name)
        except StatsNetError as error:
            return f"{error.message} {error.cause}"
        return ""

    def leftovers(self) -> Sequence[str]:
        left = [path for path in self.here.iterdir() if self._is_leftover(path)]
        return [path.name for path in (*left, *self.temporary.glob(f"{PREFIX}*"))]  # what torch keeps there is not ours


def _used_s(pid: int) -> float:
    """Of the processor, since it began; 0 when it has ended."""
    try:
        user, system = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def _whole_proxy(folder: Path) -> None:
    """Raises StatsNetError if its files do not belong together."""
    opened = open_proxy(folder)
    opened.fit()
    if opened.note:
        raise StatsNetError(opened.note)
    if (folder / "search.json").exists() and read_json(folder / "search.json")["spec"] != opened.spec.id:
        raise StatsNetError("search.json is of another proxy")


CHECKS: dict[str, Callable[[Path], object]] = {
    "own.json": load_signature, "result.json": load_result, "proxy": _whole_proxy, "searched": _whole_proxy,
}  # fmt: skip


if __name__ == "__main__":
    start(main)
