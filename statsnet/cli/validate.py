"""`statsnet validate`: a proxy against the workloads it stands for."""

from __future__ import annotations

from pathlib import Path

import click

from statsnet.cli import json_option, options, output
from statsnet.errors import UsageError


@json_option.command(short_help="Compare a proxy with the workloads it stands for.")
@click.argument("proxy")
@click.option(
    "--rounds", type=click.IntRange(1, 1000), metavar="N",
    help="How often everything is measured, in turn (default: 2; with --settings up to 8, until every factor is known "
    "to 1.5 %).",
)  # fmt: skip
@click.option(
    "--settings",
    metavar="S,...",
    help="Compare time factors under these, a comma between two and a + within one: threads=1, onednn=sse41, "
    "mkl=compatible, aten=default, mkldnn=off, dtype=bfloat16, channels_last, precision=medium, compile=inductor, "
    "runtime=onnxruntime, runtime=openvino; on a GPU also graphs=cuda.",
)
@click.option(
    "--resume", "log_path", metavar="FILE",
    help="Keep the times under settings in FILE, round by round; what it holds already is not measured again.",
)  # fmt: skip
@click.option("--fit", is_flag=True, help="Measure the fit too, where --settings is given.")
@options.profiles
@options.device()
@options.min_time("1s, under settings 5s")
@options.max_time
@options.trust
def validate(
    proxy: str,
    json_path: str | None,
    rounds: int | None,
    settings: str | None,
    log_path: str | None,
    fit: bool,
    profiles: str | None,
    device: str,
    min_time_s: float | None,
    max_time_s: float | None,
    trust: bool,
) -> None:
    """Measure the workloads that PROXY stands for and the proxy itself, in turn, and compare them.

    Without --settings every characteristic is measured again: what was asked for, what the proxy does, and
    how much two rounds of the suite differ among themselves. With --settings only times are taken: the
    suite's factor under each setting against the proxy's. A member whose model is not at hand is replayed
    from its signature.

    Example: statsnet validate my-proxy --settings threads=1,onednn=sse41
    """
    from statsnet.evaluation.validate import ValidateOptions, validate_proxy
    from statsnet.measure.timing_tasks import Limits
    from statsnet.proxy.folder import open_proxy
    from statsnet.workloads.settings import parse_settings

    json_option.check_no_input(json_path, [proxy])
    if log_path == output.STDOUT:
        raise UsageError("'-' was given for --resume", hint="name a file: it is made if there is none")
    output.check_file(log_path)
    if log_path is not None and settings is None:
        raise UsageError(
            "--resume keeps times under settings, and none are given",
            hint="give --settings, or leave out --resume",
        )
    wanted = ValidateOptions(
        rounds=rounds,
        settings=parse_settings(settings) if settings is not None else (),
        fit=fit,
        profiles=profiles,
        device=device,
        trust=trust,
        limits=Limits(min_time_s=min_time_s, max_time_s=max_time_s),
        log_path=Path(log_path) if log_path is not None else None,
    )
    note = open_proxy(proxy, trust=trust).note
    output.print_notes([note] if note else [])
    options.require_device(device)
    try:
        with output.progress() as show:
            result = validate_proxy(proxy, wanted, report=show)
    except KeyboardInterrupt:
        if log_path is not None and Path(log_path).exists():
            click.echo(f"statsnet: the same command goes on with the rounds in '{log_path}'", err=True)
        raise
    from statsnet.reporting.validation import validation_report
    from statsnet.signatures.conversion import plain

    output.deliver(plain(result), json_path, lambda: validation_report(result))
