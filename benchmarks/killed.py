"""Is anything lost, half-written or left running when a command is killed at a random moment?

    python benchmarks/killed.py [--times 50] [--commands profile,synthesize,run,search]

Each command is started in a folder that holds what an earlier run of it wrote, and killed (SIGKILL) after a random part
of the time that it takes. Then: what it writes is what it was before, or new and whole; no process of it lives; nothing
else lies in the folder but what the next run may sweep; and the same command, started once more, succeeds and sweeps
it. Printed for each command: how often it was killed, in how many of these it had ended before, and what was wrong.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
SYNTHESIZE = ("synthesize", "--mix", "own.json:1", "--budget", "2ms", "--effort", "quick", "-o", "proxy")
COMMANDS: dict[str, tuple[str, ...]] = {
    "profile": PROFILE,
    "synthesize": SYNTHESIZE,
    "run": ("run", "proxy", "--processes", "2", "--min-time", "20ms", "--max-time", "100ms", "--json", "result.json"),
    "search": (*SYNTHESIZE[:-1], "searched", "--trials", "3"),
}
LIVES_ON_S = 20.0
"""The server that forks processes sees that its command has ended when it has imported what it is importing."""


@dataclass(slots=True, kw_only=True)
class Found:
    """Of one command: `wrong` says what, in a few words, and after how many seconds it was killed."""

    command: str
    killed: int = 0
    had_ended: int = 0
    wrong: list[str] = field(default_factory=list)


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--times", type=int, default=50)
    options.add_argument("--commands", default=",".join(COMMANDS))
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = _Place(Path(folder))
        for name in COMMANDS:  # in this order: each needs what those before have written
            if place.run(name) != 0:
                raise StatsNetError(f"{name} does not work here", cause=place.said())
        found = [_killed(place, name, chosen.times, random.Random(chosen.seed)) for name in chosen.commands.split(",")]
    head = ("command", "killed", "had ended before", "wrong")
    print(markdown_table(head, ((f.command, str(f.killed), str(f.had_ended), str(len(f.wrong))) for f in found)))
    for each in found:
        for text in each.wrong:
            print(f"{each.command}: {text}")
    return int(any(each.wrong for each in found))


def _killed(place: _Place, name: str, times: int, chance: random.Random) -> Found:
    found = Found(command=name)
    begin_s = time.monotonic()
    place.run(name)
    usual_s = time.monotonic() - begin_s
    for number in range(times):
        before = place.content()
        after_s = chance.uniform(0.0, 1.1 * usual_s)
        print(f"{name}, {number + 1} of {times}: killed after {after_s:.1f} s", file=sys.stderr, flush=True)
        was_killed, living = place.run_and_kill(name, after_s)
        found.killed += was_killed
        found.had_ended += not was_killed
        found.wrong += [f"{text} (killed after {after_s:.2f} s)" for text in (*living, *place.problems(before))]
    time.sleep(SETTLED_S + 1)  # younger leftovers are not swept
    resumed = ("--resume",) if name == "search" else ()  # its journal may end in the middle of a line
    if place.run(name, *resumed) != 0:
        found.wrong.append(f"it does not work any more: {place.said()}")
    found.wrong += [f"'{left}' is not swept" for left in place.leftovers()]
    return found


class _Place:
    """A folder in which commands run, with a folder for their temporary files and a cache of its own."""

    def __init__(self, folder: Path) -> None:
        self.here, self.temporary = folder / "here", folder / "tmp"
        self._output = folder / "output"
        locks = folder / "locks"
        for path in (self.here, self.temporary, locks):
            path.mkdir()
        (self.here / "model.py").write_text(MODEL, encoding="utf-8")
        self.mark = f"statsnet-killed-{os.getpid()}"
        self._variables = {**os.environ, "TMPDIR": str(self.temporary), "STATSNET_CACHE": str(folder / "cache"),
                           "PYTHONPATH": os.pathsep.join(sys.path), "KILLED_MARK": self.mark,
                           "STATSNET_PATIENCE_S": "0", "STATSNET_DEVICE_LOCK": str(locks)}  # fmt: skip

    def start(self, name: str, *more: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "statsnet", *COMMANDS[name], *more]
        with open(self._output, "wb") as output:
            return subprocess.Popen(words, cwd=self.here, env=self._variables, stdout=output, stderr=output)

    def run(self, name: str, *more: str) -> int:
        return self.start(name, *more).wait()

    def said(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace")[-500:]

    def run_and_kill(self, name: str, after_s: float) -> tuple[bool, list[str]]:
        """Whether it was killed before it ended, and which of its processes live on."""
        process = self.start(name)
        try:
            process.wait(after_s)
            return False, self._living()
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        return True, self._living()

    def _living(self) -> list[str]:
        end_s = time.monotonic() + LIVES_ON_S
        while (living := self._marked()) and time.monotonic() < end_s:
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
                and "__pycache__" not in path.parts and not path.name.endswith((".journal", ".lock"))]  # fmt: skip

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
