"""Does any file that a stranger may send crash a reader, hang it, fill the memory or touch another file?

    python benchmarks/fuzz.py [--readers signature,trace] [--inputs 1000000] [--minutes 10] [--engine atheris]
                              [--add-to FILE]
    python benchmarks/fuzz.py --kept build/fuzz.csv

Every reader (fuzzing/readers.py) is given small files of its kind with some things changed: values of a JSON document
replaced by hostile ones, bytes cut, doubled or turned. It must take the file in or refuse it with an error of StatsNet:
within 2 s of the processor, within 1 GiB more than it had before, and without changing a file elsewhere, starting a
program or opening a connection. What takes too long is read once more, for a system short of memory looks for some in
the time of whoever asks. The reader `command` is the whole program, given hostile words as well as files
(fuzzing/commands.py); it has 20 s. What breaks a rule is kept in the folder -o, once for each place in the code, and
can be read again with --again FILE. With --add-to, the counts are added to those in a table, the inputs are others than
those that it counts, and --inputs is how many it shall count: a reader that has read so many is left out, and fails if
it failed in its last run.

Each reader runs in a process of its own, which an input may kill. The changes follow bytes: random ones by default,
with --engine atheris (pip install 'statsnet[fuzz]') those that libFuzzer finds by looking at the code that they reach.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import csv_tables
from benchmarks.console import markdown_table, parser, start
from benchmarks.fuzzing.limits import TOO_SLOW, Failure, Watch
from statsnet.errors import UsageError

PROGRAMS = {"random": Path(__file__), "atheris": Path(__file__).parent / "fuzzing" / "by_coverage.py"}
"""That of a reader's process, by engine."""

CHOICE_BYTES = 64
"""So many bytes choose the changes of an input."""

FIRST_INPUTS = 64
"""With which libFuzzer begins. From none it makes inputs of few bytes, which choose few changes."""

SAVED_EVERY = 500
IN_MEMORY = Path("/dev/shm")
"""Inputs are written there, where this is faster."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """What happened to a reader's inputs. `failures` are the first of each kind and place."""

    reader: str
    inputs: int = 0
    accepted: int = 0
    slowest_s: float = 0.0
    failures: list[Failure] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class FuzzRow:
    """What was seen of a reader in all runs together; `failures` in the last one."""

    reader: str
    inputs: int
    taken_in: int
    slowest_s: float
    failures: int

    def and_then(self, tally: Tally) -> FuzzRow:
        return FuzzRow(
            reader=self.reader,
            inputs=self.inputs + tally.inputs,
            taken_in=self.taken_in + tally.accepted,
            slowest_s=round(max(self.slowest_s, tally.slowest_s), 3),
            failures=len(tally.failures),
        )


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--readers", default="all", help="names, with commas between them")
    options.add_argument("--inputs", type=int, default=10_000, help="for each reader (default 10000)")
    options.add_argument("--minutes", type=float, default=60.0, help="at most so long for each reader")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--engine", choices=("random", "atheris"), default="random")
    options.add_argument("--again", type=Path, metavar="FILE", help="read this one input, however long it takes")
    options.add_argument("-o", "--output", type=Path, default=Path("build/fuzz"))
    options.add_argument("--add-to", type=Path, metavar="FILE", help="a table of all runs")
    options.add_argument("--kept", type=Path, metavar="FILE", help="print this table, read nothing else")
    options.add_argument("--only", help=argparse.SUPPRESS)
    options.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.only:
        return _fuzz(chosen.only, chosen)
    if chosen.again:
        return _again(chosen.again)
    if chosen.kept:
        _print(csv_tables.read(chosen.kept, FuzzRow))
        return 0
    if chosen.engine == "atheris" and importlib.util.find_spec("atheris") is None:
        options.error("--engine atheris needs the package atheris: pip install 'statsnet[fuzz]'")
    from benchmarks.fuzzing.readers import READERS

    names = list(READERS) if chosen.readers == "all" else chosen.readers.split(",")
    if unknown := [name for name in names if name not in READERS]:
        raise UsageError(f"'{unknown[0]}' is no reader", hint=f"one of {', '.join(READERS)}")
    chosen.output.mkdir(parents=True, exist_ok=True)
    before = csv_tables.read_kept(chosen.add_to, FuzzRow) if chosen.add_to else []
    rows = {row.reader: row for row in before}
    failed = False
    for name in names:
        row = rows.get(name, FuzzRow(reader=name, inputs=0, taken_in=0, slowest_s=0.0, failures=0))
        wanted = chosen.inputs - row.inputs
        if wanted <= 0:
            failed |= row.failures > 0
            print(f"{name} has read {row.inputs} inputs before, {row.failures} failures in its last run", flush=True)
            continue
        tally = _in_a_process(name, chosen, wanted, chosen.seed + row.inputs)
        rows[name] = row.and_then(tally)
        if chosen.add_to:
            csv_tables.write(chosen.add_to, FuzzRow, [*rows.values()], one_machine=False)
        for failure in tally.failures:
            failed = True
            print(f"{tally.reader}: {failure.kind} at {failure.where}: {failure.text!r}", flush=True)
    _print([*rows.values()])
    return int(failed)


def _print(rows: Sequence[FuzzRow]) -> None:
    head = ("reader", "inputs", "taken in", "refused", "slowest", "failures")
    cells = [
        (row.reader, str(row.inputs), str(row.taken_in), str(row.inputs - row.taken_in - row.failures),
         f"{row.slowest_s:.2f} s", str(row.failures))
        for row in rows
    ]  # fmt: skip
    inputs = sum(row.inputs for row in rows)
    print(markdown_table(head, cells) + (f"\n\n{len(rows)} readers, {inputs} inputs" if len(rows) > 1 else ""))


def _in_a_process(name: str, chosen: argparse.Namespace, inputs: int, seed: int) -> Tally:
    """The tally of a reader. If its process ends by a signal, the input that it had is a failure, too."""
    kept = chosen.output / f"{name}.tally.json"
    work = Path(tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
    kept.unlink(missing_ok=True)
    words = [sys.executable, str(PROGRAMS[chosen.engine]), "--only", name, "--work", str(work), "--inputs", str(inputs),
             "--minutes", str(chosen.minutes), "--seed", str(seed), "--engine", chosen.engine,
             "-o", str(chosen.output)]  # fmt: skip
    print(f"{name} ...", file=sys.stderr, flush=True)
    code = subprocess.run(words, check=False, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}).returncode
    data = json.loads(kept.read_text(encoding="utf-8")) if kept.exists() else {"reader": name}
    tally = Tally(**{**data, "failures": [Failure(**f) for f in data.get("failures", ())]})
    if code not in (0, 1) or not kept.exists():
        for file in filter(Path.is_file, work.iterdir()):
            shutil.copy(file, chosen.output / f"{name}.last.{file.name}")
        tally.failures.append(Failure(kind=f"ended with {code}", where="-", text=f"see {chosen.output / name}.last.*"))
    shutil.rmtree(work)
    return tally


def _fuzz(name: str, chosen: argparse.Namespace) -> int:
    from benchmarks.fuzzing.readers import READERS, look_once

    fuzzer = _Fuzzer(name, chosen)
    if not READERS[name].inputs:
        print(f"{name}: a package is missing, nothing was read", file=sys.stderr)
    else:
        fuzzer.warm_up()
        look_once()
        generator = random.Random(chosen.seed)
        if chosen.engine == "atheris":
            fuzzer.by_coverage(generator)  # ends the process
        else:
            while fuzzer.goes_on:
                fuzzer.one(generator.randbytes(CHOICE_BYTES))
    fuzzer.save()
    return int(bool(fuzzer.tally.failures))


class _Fuzzer:
    def __init__(self, name: str, chosen: argparse.Namespace) -> None:
        from benchmarks.fuzzing.readers import READERS

        self.reader, self.chosen = READERS[name], chosen
        self.tally = Tally(reader=name)
        self._path = chosen.work / self.reader.name
        self._watch = Watch(chosen.work, self.reader.time_s)
        self._end_s = 0.0

    @property
    def goes_on(self) -> bool:
        return self.tally.inputs < self.chosen.inputs and time.monotonic() < self._end_s

    def warm_up(self) -> None:
        """Read the seeds, so that what is imported at first use counts for no input; from then on the time is counted.
        Raises what a seed raises."""
        for seed in self.reader.inputs:
            self._path.write_bytes(seed)
            self.reader.read(self._path)
        gc.freeze()  # what was imported stays: looking through it again and again takes half of the time
        gc.disable()  # `save` collects
        self._end_s = time.monotonic() + 60 * self.chosen.minutes

    def one(self, data: bytes) -> None:
        content, tally = self.reader.content(data), self.tally
        if tally.inputs % SAVED_EVERY == 0:
            self.save()
        accepted, failure = self._read(content)
        if failure is not None and failure.kind.startswith(TOO_SLOW):
            accepted, failure = self._read(content)
        tally.inputs += 1
        tally.accepted += accepted
        tally.slowest_s = max(tally.slowest_s, self._watch.took_s)
        if failure is not None and (failure.kind, failure.where) not in {(f.kind, f.where) for f in tally.failures}:
            tally.failures.append(failure)
            number = len(tally.failures)
            (self.chosen.output / f"{tally.reader}.{number}.{self.reader.name}").write_bytes(content)

    def _read(self, content: bytes) -> tuple[bool, Failure | None]:
        self._path.write_bytes(content)
        return self._watch.run(lambda: self.reader.read(self._path))

    def by_coverage(self, generator: random.Random) -> None:
        """libFuzzer chooses the bytes, beginning with some random ones. It ends the process itself, so what is known
        then is written before."""
        import atheris

        def one(data: bytes) -> None:
            if not self.goes_on:
                self.save()
                os._exit(int(bool(self.tally.failures)))
            self.one(data)

        corpus = self.chosen.output / f"{self.tally.reader}.corpus"
        corpus.mkdir(exist_ok=True)
        for number in range(FIRST_INPUTS):
            (corpus / f"first-{number}").write_bytes(generator.randbytes(CHOICE_BYTES))
        options = [f"-max_len={4 * CHOICE_BYTES}", "-len_control=0", "-reduce_inputs=0", "-rss_limit_mb=4096",
                   f"-artifact_prefix={self.chosen.output}{os.sep}"]  # fmt: skip
        atheris.Setup([str(PROGRAMS["atheris"]), str(corpus), *options, f"-seed={self.chosen.seed + 1}"], one)
        atheris.Fuzz()

    def save(self) -> None:
        gc.collect()
        data: dict[str, Any] = asdict(self.tally)
        path = self.chosen.output / f"{self.tally.reader}.tally.json"
        path.write_text(json.dumps(data), encoding="utf-8")


def _again(file: Path) -> int:
    """Read an input once more, as a traceback tells most. It may change no other file now either."""
    from benchmarks.fuzzing.readers import READERS

    name = file.name.partition(".")[0]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, READERS[name].name)
        for seed in READERS[name].inputs:  # what is imported at first use may write
            path.write_bytes(seed)
            READERS[name].read(path)
        path.write_bytes(file.read_bytes())
        with Watch(Path(folder)).forbidding():
            READERS[name].read(path)
    return 0


if __name__ == "__main__":
    start(main)
