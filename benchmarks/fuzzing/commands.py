"""Every command of the program, with words and files that nobody would give it on purpose.

Commands run in this process, in a folder of small files of all kinds, one of which is damaged. Recordings are read in
it, too. Nothing is measured and no program starts: what would do so meets a machine where that fails. A command must
end with an exit code, without an error that calls itself a bug, and without a control character on the terminal.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import patch

import click

import statsnet
from benchmarks.fuzzing import result_seeds, seeds
from benchmarks.fuzzing.mutation import CHANGES, HOSTILE, Choices, changed_bytes
from statsnet.cli import app
from statsnet.errors import MeasurementError, StatsNetError
from statsnet.measure import several_processes
from statsnet.measure.device_lock import SWITCH
from statsnet.measure.network_file import digest
from statsnet.measure.process import MeasuringProcess
from statsnet.measure.task import Context
from statsnet.progress import Report
from statsnet.proxy.spec import source_of, write_folder
from statsnet.recordings import reading
from statsnet.recordings.imported import Imported
from statsnet.signatures import packed
from statsnet.signatures.documents import Fit, ProxySpec
from statsnet.signatures.storage import validate

FILES = {
    "a.json": seeds.signatures, "spec.json": seeds.specs, "fit.json": seeds.fits, "result.json": result_seeds.results,
    "scenario.json": result_seeds.scenarios, "device.json.gz": seeds.devices, "trace.json": seeds.traces,
    "nodes.json": seeds.execution_traces, "kernels.csv": seeds.counters, "model.onnx": seeds.onnx_models,
    "table.csv": seeds.tables, "mix.yaml": seeds.mix_files, "log.jsonl": result_seeds.logs,
}  # fmt: skip
"""The first seed of each kind, which lies in the commands' folder."""

PLACES = (
    *FILES, "b.json", "proxy", "profiles_db", "missing", "missing/out.json", "out.json", "out", "empty", "pipe", "loop",
    "dangling", "model.py:make", "model.py:absent", "model.py", "-", ".", "/dev/null", "/dev/zero",
)  # fmt: skip
NAMES = (
    "recsys", "cv/resnet50", "micro", "cv/*", "a.json:1", "a.json:1,b.json:2", "recsys:0.5,a.json:0.5", "mix.yaml",
    "cpu", "cuda", "cuda:7", "meta", "recorded:nothing", "threads=1", "dtype=bfloat16,threads=1",
    "onednn=sse41+mkl=compatible", "runtime=onnxruntime", "10ms", "1h", "0", "1", "3", "0.5", "NVIDIA-H100",
    "a.json=model.py:make", "batch=4", "x=1/h",
)  # fmt: skip
"""Words that mean something in some place."""

READING = (
    "list recsys/*", "list profiles --profiles profiles_db", "list proxies", "show a.json", "show proxy",
    "show result.json --json",
    "cache", "audit a.json", "audit profiles_db", "coarsen a.json --level coarse -o out.json", "characterize a.json",
    "compare result.json result.json", "report a.json -o out.html",
    "import trace.json -o out.json", "import nodes.json -o out.json",
    "export a.json --format manifest -o out", "device list", "completion bash",
    "doctor --no-noise",
)  # fmt: skip
MEASURING = (
    "aggregate a.json:1 b.json:2 -o out.json", "cover --mode inference a.json:1 b.json",
    "profile model.py:make -o out.json",
    "synthesize --mix a.json:1 -o out", "synthesize --mix a.json:1 --macs 1000 -o out", "run proxy --json out.json",
    "update proxy --add b.json:1 -o out", "validate proxy --settings threads=1 --resume log.jsonl",
    "explain proxy --settings threads=1", "device show device.json.gz", "device import table.csv --device acme -o out",
    "device record -o out", "map a.json b.json",
)  # fmt: skip
"""Lines for each command: those that succeed here, and those that may not."""

_HOSTILE_WORDS = [value for value in HOSTILE if value != "/etc/passwd"]
"""Of the user's own words: a command writes where they tell it to."""

_NOT_FUZZED = {"--engine": "it looks for a cluster", "--storage": "it looks for a database", "--help": "it is all text"}


@cache
def command_lines() -> Sequence[bytes]:
    """As inputs: the words, and no damaged file."""
    return [json.dumps({"words": line.split()}).encode() for line in READING]


def changed_line(data: bytes) -> bytes:
    """A command line with some words changed, left out or added, and mostly one of the files damaged."""
    choices = Choices(data)
    words = choices.one_of(READING + MEASURING).split()
    start, options = _command(words)
    for _ in range(choices.one_of(CHANGES)):
        kind, at = choices.below(6), min(len(words), start + choices.below(max(1, len(words) - start + 1)))
        if kind == 0 and at < len(words):
            del words[at]
        elif kind == 1 and at < len(words):
            words[at] = _word(choices, None)
        elif kind == 2:
            words.insert(at, _word(choices, None))
        else:
            option = choices.one_of(options)
            words += [option.opts[0]] if option.is_flag else [option.opts[0], _word(choices, option)]
    contents = _contents()
    damaged = choices.one_of(sorted(contents)) if choices.below(4) else None
    content = changed_bytes(contents[damaged], choices).decode("latin-1") if damaged else ""
    return json.dumps({"words": words, "damaged": damaged, "content": content}).encode()


def _command(words: Sequence[str]) -> tuple[int, list[click.Option]]:
    """Where a command's own words begin, and its options."""
    found: click.Command = app.statsnet
    start = 0
    while isinstance(found, click.Group):
        found, start = found.commands[words[start]], start + 1
    options = [p for p in found.params if isinstance(p, click.Option) and p.opts[0] not in _NOT_FUZZED]
    return start, options or [click.Option(["--absent"])]


def _word(choices: Choices, option: click.Option | None) -> str:
    kind = choices.below(8)
    if option is not None and isinstance(option.type, click.Choice) and kind < 6:
        return str(choices.one_of(option.type.choices))
    if kind < 4:
        return str(choices.one_of(PLACES))
    if kind < 6:
        return str(choices.one_of(NAMES))
    hostile = str(choices.one_of(_HOSTILE_WORDS))[:10_000].replace("\0", "")  # which no program can be given
    return hostile.encode("utf-8", "surrogatepass").decode("utf-8", "surrogateescape")


def run_line(path: Path) -> None:
    """Raises ValueError for what a command must not say or leave, and the error that it calls a bug."""
    try:
        given = json.loads(path.read_bytes())
        words, damaged = [str(word) for word in given["words"]], given.get("damaged")
    except (ValueError, KeyError, TypeError) as error:
        raise StatsNetError("the input is no command line") from error
    root = path.parent / "here"
    here = _filled(root / "work")
    if damaged:
        _put(here / damaged, given["content"].encode("latin-1"))
    said = io.StringIO()
    try:
        with _machine(root, here), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = app.main(words)
    finally:
        if damaged and (here / damaged).is_file():
            _put(here / damaged, _contents()[damaged])
    if code not in (0, 1, 2):
        raise ValueError(f"it exits with {code}")
    if any(not (c.isprintable() or c == "\n") for c in said.getvalue()):
        raise ValueError("a control character reaches the terminal")
    if code:
        raise StatsNetError(said.getvalue())


@contextlib.contextmanager
def _machine(root: Path, here: Path) -> Iterator[None]:
    """One on which nothing can be measured and no program be started, with folders of its own."""
    variables = {
        "HOME": str(root), "XDG_CACHE_HOME": str(root / "cache"), "STATSNET_CACHE": str(root / "cache"),
        "TMPDIR": str(root / "tmp"), SWITCH: "0",
    }  # fmt: skip
    for name in ("cache", "tmp"):
        (root / name).mkdir(exist_ok=True)
    before = os.getcwd()
    with (
        patch.object(statsnet, "__file__", str(here / "__init__.py")),  # beside it are the profiles that ship
        patch.dict(os.environ, variables), patch.object(tempfile, "tempdir", str(root / "tmp")),
        patch.object(MeasuringProcess, "__enter__", _measures_nothing),
        patch.object(several_processes, "_free_port", lambda: 29_500),  # where nothing listens then
        patch.object(reading, "_in_a_process", _read_here),
        patch.object(subprocess, "Popen", _NoProgram),
        patch.object(app, "_report", _reported), patch("sys.stdin", io.StringIO()),
    ):  # fmt: skip
        os.chdir(here)
        try:
            yield
        finally:
            os.chdir(before)


def _measures_nothing(_process: object) -> NoReturn:
    raise MeasurementError("a measuring process failed", cause="nothing is measured here")


def _read_here(task: reading.ReadRecording, report: Report) -> Imported:
    return task.run(Context(say=lambda event: None if event.progress is None else report(event.progress)))


class _NoProgram(subprocess.Popen[Any]):
    def __init__(self, words: Any, *_: Any, **__: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory", str(words[0]))

    def __del__(self) -> None:
        """There is no process."""


_report = app._report


def _reported(error: Exception) -> int:
    """As the program does, but for what it would call a bug of its own."""
    is_told = isinstance(error, StatsNetError | click.ClickException)
    if is_told or (isinstance(error, OSError) and error.errno in app._NOT_OURS):
        return _report(error)
    raise error


def _filled(here: Path) -> Path:
    """The folder with its files as they are at first. What is still so stays: filling all of it takes longer than many
    commands."""
    first = _FIRST.get(here)
    if (seen := frozenset(_seen(here))) != first:
        for path, *_ in seen - (first or frozenset()):
            _remove(Path(path))
        for folder in ("profiles_db/machine", "proxy", "empty"):
            (here / folder).mkdir(parents=True, exist_ok=True)
        for name, content in _contents().items():
            if not (here / name).exists():
                _put(here / name, content)
        if not (here / "pipe").exists():
            os.mkfifo(here / "pipe")
        for name, target in (("loop", "loop"), ("dangling", "nowhere")):
            if not (here / name).is_symlink():
                (here / name).symlink_to(target)
        _FIRST[here] = frozenset(_seen(here))
    return here


_FIRST: dict[Path, frozenset[tuple[str, int, int, int]]] = {}
"""What `_seen` said of each folder once it was filled."""


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)  # it may have gone with its folder


def _put(path: Path, content: bytes) -> None:
    """Changed once more by anybody, the file has another time."""
    path.write_bytes(content)
    os.utime(path, ns=(0, 0))


def _seen(folder: Path | str) -> list[tuple[str, int, int, int]]:
    """All that is in a folder, and in the folders there."""
    found = []
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            known = entry.stat(follow_symlinks=False)
            is_folder = entry.is_dir(follow_symlinks=False)
            found.append((entry.path, known.st_ino, known.st_mode, 0 if is_folder else known.st_mtime_ns))
            found += _seen(entry.path) if is_folder else ()
    return found


@cache
def _contents() -> dict[str, bytes]:
    """Of the files, by name. Empty where a package is missing that makes one."""
    first, *others = seeds.signatures()
    mode = json.loads(first)["mode"]
    second = next(each for each in others if json.loads(each)["mode"] == mode)
    return {
        **{name: (made() or [b""])[0] for name, made in FILES.items()},
        **{f"proxy/{name}": content for name, content in _proxy().items()},
        "b.json": second,
        "a.json.key": b"ab" * 32 + b"\n",
        "profiles_db/machine/cv.zip": packed.archive_bytes({"x.inference.json": first}),
        "model.py": b"def make(batch=1):\n    raise RuntimeError('nothing is built here')\n",
    }


def _proxy() -> dict[str, bytes]:
    """The files of a proxy with few blocks."""
    spec: ProxySpec = validate(json.loads(seeds.specs()[0]), "statsnet.proxy")
    fit: Fit = validate(json.loads(seeds.fits()[0]), "statsnet.fit")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "proxy")
        write_folder(spec, replace(fit, spec=spec.id, network_sha256=digest(source_of(spec))), folder)
        return {file.name: file.read_bytes() for file in folder.iterdir()}
