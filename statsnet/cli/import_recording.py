"""`statsnet import`: a signature from a recording that a profiler made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import json_option, output
from statsnet.errors import FileFormatError, UsageError
from statsnet.signatures.database import MODES

if TYPE_CHECKING:
    from statsnet.recordings.imported import Imported


@json_option.command(name="import", short_help="Read a profiler's recording into a signature.")
@click.argument("trace")
@click.option("--step", type=click.IntRange(0), metavar="N", help="ProfilerStep's number (default: the busiest step).")
@click.option(
    "--mode", type=click.Choice(MODES), help="What the step did (default: training if it has a backward pass)."
)
@click.option(
    "--capture", metavar="TRACE", help="The recording in which the CUDA or HIP graphs of TRACE were captured."
)
@click.option("--execution-trace", metavar="ET", help="An execution trace of the same step, which has the shapes.")
@click.option("--ncu", metavar="CSV", help="Nsight Compute's table of the same step's kernels.")
@click.option("-o", "--output", "path", metavar="FILE", help="Where to write the signature.")
def import_(
    trace: str,
    step: int | None,
    mode: str | None,
    capture: str | None,
    execution_trace: str | None,
    ncu: str | None,
    path: str | None,
    json_path: str | None,
) -> None:
    """Read TRACE into a signature, without names or values: the statistics of one recorded step.

    TRACE is a Chrome trace of torch.profiler (.json or .json.gz), of any GPU or CPU; or an execution trace (the format
    of Chakra and PARAM) or an ONNX model, which have shapes and no times.

    Example: statsnet import trace.json.gz -o model.json
    """
    if path is None and json_path is None:
        raise UsageError("no output was given", hint="-o FILE writes the signature, --json prints it")
    if path == output.STDOUT:
        raise UsageError("'-' is not a file", hint="--json prints the signature to stdout")
    output.check_file(path)
    from statsnet.cli.profile import write_signature

    found = _read(
        Path(trace),
        step=step,
        mode=mode,
        capture=_path(capture),
        execution_trace=_path(execution_trace),
        ncu=_path(ncu),
    )
    output.print_notes(found.notes)
    write_signature(found.signature, path, json_path)


def _read(
    trace: Path,
    *,
    step: int | None,
    mode: str | None,
    capture: Path | None,
    execution_trace: Path | None,
    ncu: Path | None,
) -> Imported:
    from statsnet.recordings.imported import Imported
    from statsnet.recordings.kinds import kind_of

    for file in (trace, capture, execution_trace, ncu):
        if file is not None and not file.is_file():
            raise FileFormatError(f"there is no file '{file}'", hint="give the path of a recording")
    kind = kind_of(trace)
    if kind == "chrome_trace":
        from statsnet.recordings.kineto import read_kineto

        return read_kineto(trace, step=step, mode=mode, capture=capture, execution_trace=execution_trace, ncu=ncu)
    options = {"--step": step, "--mode": mode, "--capture": capture, "--execution-trace": execution_trace, "--ncu": ncu}
    if given := [name for name, value in options.items() if value is not None]:
        raise UsageError(
            f"{given[0]} was given for a file that is no profiler's trace",
            cause=f"'{trace}' is {'an ONNX model' if kind == 'onnx' else 'an execution trace'}",
            hint=f"leave out {' and '.join(given)}",
        )
    if kind == "onnx":
        from statsnet.recordings.onnx_model import read_onnx

        return Imported(signature=read_onnx(trace))
    from statsnet.recordings.execution_trace import read_execution_trace

    return Imported(signature=read_execution_trace(trace))


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
