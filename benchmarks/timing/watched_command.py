"""Runs a command and notes what it shows on stderr and when, and how much memory it and its children take.

The command sees a terminal, so it shows each change of stage at once; in a pipe it would name each stage only once.
"""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LOOK_S = 0.5
"""How often memory is looked at. A child that lives for less may be missed."""

TERMINAL = {"TERM": "xterm", "COLUMNS": "200", "LINES": "50", "NO_COLOR": "1"}
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What one command did. `shown`: each text on stderr, with the seconds since the command began."""

    code: int
    took_s: float
    shown: tuple[tuple[float, str], ...]
    parent_peak_bytes: int
    child_peak_bytes: int

    @property
    def last_words(self) -> str:
        return "\n".join(text for _, text in self.shown[-5:])


def watch(command: Sequence[str], *, folder: Path, variables: Mapping[str, str]) -> Watched:
    """Run it in this folder, with these environment variables and no others. Its stdout is dropped."""
    ours, theirs = pty.openpty()
    texts, memory = _Texts(), _Memory()
    begin = time.perf_counter()
    try:
        process = subprocess.Popen(
            command, cwd=folder, env={**variables, **TERMINAL}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        try:
            looked_s = 0.0
            while (code := process.poll()) is None:
                _read(ours, texts, begin, LOOK_S)
                if (now_s := time.perf_counter() - begin) > looked_s + LOOK_S:
                    looked_s = now_s
                    memory.look(process.pid)
            while _read(ours, texts, begin, 0.0):
                pass
            took_s = time.perf_counter() - begin
        finally:
            process.kill()
            process.wait()
    finally:
        os.close(ours)
    return Watched(
        code=code,
        took_s=took_s,
        shown=tuple(texts.finished()),
        parent_peak_bytes=memory.parent_bytes,
        child_peak_bytes=memory.child_bytes,
    )


def _read(terminal: int, texts: _Texts, begin: float, wait_s: float) -> bool:
    """Whether something was shown within this time. Nothing more comes once all have closed the terminal."""
    if not select.select([terminal], [], [], wait_s)[0]:
        return False
    try:
        data = os.read(terminal, 65536)
    except OSError:  # all have closed it, and the command is about to end
        time.sleep(0.01)
        return False
    texts.add(data, time.perf_counter() - begin)
    return bool(data)


@dataclass(slots=True)
class _Texts:
    """Splits what comes from a terminal into its lines. A line that is drawn over ends there too."""

    lines: list[tuple[float, str]] = field(default_factory=list)
    begun: bytes = b""
    begun_s: float = 0.0

    def add(self, data: bytes, now_s: float) -> None:
        for number, piece in enumerate(re.split(rb"[\r\n]", data)):
            if number:
                self._end()
            if piece and not self.begun:
                self.begun_s = now_s
            self.begun += piece

    def finished(self) -> list[tuple[float, str]]:
        self._end()
        return self.lines

    def _end(self) -> None:
        text = _CONTROL.sub("", self.begun.decode(errors="replace")).strip()
        if text:
            self.lines.append((self.begun_s, text))
        self.begun = b""


@dataclass(slots=True)
class _Memory:
    """The most memory that a process and the largest of all below it have held at once, shared pages included."""

    parent_bytes: int = 0
    child_bytes: int = 0

    def look(self, pid: int) -> None:
        self.parent_bytes = max(self.parent_bytes, peak_bytes(pid))
        for child in descendants(pid):
            self.child_bytes = max(self.child_bytes, peak_bytes(child))


def peak_bytes(pid: int) -> int:
    """The most that the process has held in memory so far; 0 if it has ended."""
    try:
        found = _PEAK.search(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0
    return 1024 * int(found[1]) if found else 0


def descendants(pid: int) -> list[int]:
    """The processes below this one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        children.setdefault(int(after_name[1]), []).append(int(path.parent.name))
    found, due = [], [pid]
    while due:
        below = children.get(due.pop(), [])
        found += below
        due += below
    return found
