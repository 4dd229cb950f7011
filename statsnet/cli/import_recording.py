"""`statsnet import`: a signature from a recording that a profiler made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import json_option, options, output
from statsnet.errors import FileFormatError, UsageError
from statsnet.signatures.database import MODES

if TYPE_CHECKING:
    from statsnet.recordings.imported import Imported
    from statsnet.signatures.model import Level


@json_option.command(name="import", short_help="Read a profiler's recording into a signature.")
@click.argument("trace")
@click.option(
    "--step",
    type=options.Whole(0),
    metavar="N",
    help="ProfilerStep's number (default: the busiest step; of a CPU's, one of middle time).",
)
@click.option(
    "--mode",
    type=options.Choice(MODES),
    help="What the step did (default: training if it has a backward pass or an optimizer's step).",
)
@click.option(
    "--capture", metavar="TRACE", help="The recording in which the CUDA or HIP graphs of TRACE were captured."
)
@click.option("--execution-trace", metavar="ET", help="An execution trace of the same step, which has the shapes.")
@click.option("--ncu", metavar="CSV", help="Nsight Compute's table of the same step's kernels.")
@click.option(
    "--dim", "dims", multiple=True, metavar="NAME=SIZE", help="The size of an ONNX model's symbolic dimension."
)
@options.level
@click.option("-o", "--output", "path", metavar="FILE", help="Where to write the signature.")
def import_(
    trace: str,
    step: int | None,
    mode: str | None,
    capture: str | None,
    execution_trace: str | None,
    ncu: str | None,
    dims: tuple[str, ...],
    level: Level,
    path: str | None,
    json_path: str | None,
) -> None:
    """Read TRACE into a signature, without names or values: the statistics of one recorded step.

    TRACE is a Chrome trace of torch.profiler (.json or .json.gz), of any GPU or CPU; or an execution trace (the format
    of Chakra and PARAM) or an ONNX model, which have shapes and no times.

    Example: statsnet import trace.json.gz -o model.json
    """
    output.check_signature_output(path, json_path)
    output.check_file(path)
    for written in (path, json_path):
        json_option.check_no_input(written, [trace, capture, execution_trace, ncu])
    from statsnet.cli.profile import write_signature

    files = _Files(trace=Path(trace), capture=_path(capture), execution_trace=_path(execution_trace), ncu=_path(ncu))
    found = _read(files, step=step, mode=mode, dims=_sizes(dims))
    output.print_notes(found.notes)
    write_signature(found.signature, path, json_path, level=level)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Files:
    trace: Path
    capture: Path | None
    execution_trace: Path | None
    ncu: Path | None


def _read(files: _Files, *, step: int | None, mode: str | None, dims: dict[str, int]) -> Imported:
    from statsnet.recordings.kinds import kind_of

    for file in (files.trace, files.capture, files.execution_trace, files.ncu):
        if file is not None:
            _check_readable(file)
    kind = kind_of(files.trace)
    given = {"--step": step, "--mode": mode, "--capture": files.capture, "--execution-trace": files.execution_trace,
             "--ncu": files.ncu, "--dim": dims or None}  # fmt: skip
    _check_options(files.trace, kind, [name for name, value in given.items() if value is not None])
    if kind == "onnx":
        from statsnet.recordings.onnx_model import read_onnx

        return read_onnx(files.trace, dims=dims)
    if kind == "execution_trace":
        from statsnet.recordings.execution_trace import read_execution_trace

        return read_execution_trace(files.trace, step=step, mode=mode)
    from statsnet.recordings.kineto import read_kineto

    with output.progress() as show:
        return read_kineto(
            files.trace, step=step, mode=mode, capture=files.capture, execution_trace=files.execution_trace,
            ncu=files.ncu, report=show,
        )  # fmt: skip


_KINDS = {"onnx": "an ONNX model", "execution_trace": "an execution trace", "chrome_trace": "a profiler's trace"}
_OPTIONS = {
    "onnx": {"--dim"},
    "execution_trace": {"--step", "--mode"},
    "chrome_trace": {"--step", "--mode", "--capture", "--execution-trace", "--ncu"},
}


def _check_options(trace: Path, kind: str, given: list[str]) -> None:
    if unfit := [name for name in given if name not in _OPTIONS[kind]]:
        raise UsageError(
            f"{unfit[0]} does not fit the file",
            cause=f"'{trace}' is {_KINDS[kind]}",
            hint=f"leave out {' and '.join(unfit)}",
        )


def _check_readable(file: Path) -> None:
    """Raise FileFormatError for what is no regular file: a pipe or a device may never end."""
    try:
        if file.is_file():
            return
        cause = "it is a folder" if file.is_dir() else "it is a pipe or a device" if file.exists() else ""
    except OSError as error:  # a name that is too long, a folder that may not be entered
        cause = error.strerror or str(error)
    if not cause:
        raise FileFormatError(f"there is no file '{file}'", hint="give the path of a recording")
    raise FileFormatError(f"'{file}' cannot be read", cause=cause, hint="give the path of a file")


def _sizes(dims: tuple[str, ...]) -> dict[str, int]:
    """`batch=4` -> {"batch": 4}. Raises UsageError for what is no such text."""
    sizes: dict[str, int] = {}
    for text in dims:
        name, _, size = text.rpartition("=")
        if not name or not size.isascii() or not size.isdigit() or not 0 < int(size[:12]) < 2**31:
            raise UsageError(
                f"--dim {text!r} is no size", cause="NAME=SIZE with a whole number from 1 is expected",
                hint="for example --dim batch=8",
            )  # fmt: skip
        sizes[name] = int(size)
    return sizes


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
