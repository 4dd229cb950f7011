"""`statsnet import`: a signature from a recording that a profiler made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import json_option, options, output
from statsnet.errors import FileFormatError, UsageError
from statsnet.signatures.database import MODES

if TYPE_CHECKING:
    from statsnet.recordings.reading import ReadRecording
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
@options.sandbox
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
    from statsnet.recordings.reading import ReadRecording, read_recording

    given = {"--step": step, "--mode": mode, "--capture": capture, "--execution-trace": execution_trace, "--ncu": ncu,
             "--dim": dims or None}  # fmt: skip
    asked = ReadRecording(
        trace=trace, step=step, mode=mode, capture=capture, execution_trace=execution_trace, ncu=ncu, dims=_sizes(dims)
    )
    task = _checked(asked, given)
    with output.progress() as show:
        found = read_recording(task, show)
    output.print_notes(found.notes)
    write_signature(found.signature, path, json_path, level=level)


def _checked(task: ReadRecording, given: Mapping[str, object]) -> ReadRecording:
    """With the recording's kind. Raises UsageError for an option that does not fit it, FileFormatError for a file that
    cannot be read."""
    from statsnet.recordings.kinds import kind_of

    for file in task.files:
        _check_readable(file)
    kind = kind_of(Path(task.trace))
    _check_options(task.trace, kind, [name for name, value in given.items() if value is not None])
    return replace(task, kind=kind)


_KINDS = {"onnx": "an ONNX model", "execution_trace": "an execution trace", "chrome_trace": "a profiler's trace"}
_OPTIONS = {
    "onnx": {"--dim"},
    "execution_trace": {"--step", "--mode"},
    "chrome_trace": {"--step", "--mode", "--capture", "--execution-trace", "--ncu"},
}


def _check_options(trace: str, kind: str, given: list[str]) -> None:
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
