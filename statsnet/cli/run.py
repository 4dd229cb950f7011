"""`statsnet run`: time a proxy."""

from __future__ import annotations

from dataclasses import replace

import click

from statsnet.cli import json_option, options, output


@json_option.command(short_help="Time a proxy on this machine.")
@click.argument("proxy")
@options.device()
@click.option("--threads", type=click.IntRange(1, 4096), metavar="N", help="CPU threads (default: torch's).")
@click.option(
    "--processes", type=click.IntRange(1, 1000), default=3, show_default=True, metavar="N",
    help="Fresh processes; each is one sample.",
)  # fmt: skip
@click.option(
    "--setting", metavar="S+...",
    help="What is to be changed, as in validate --settings: compile=inductor, dtype=bfloat16+channels_last, "
    "runtime=onnxruntime, on a GPU graphs=cuda.",
)  # fmt: skip
@options.min_time("1s")
@options.max_time
@options.trust
def run(
    proxy: str,
    json_path: str | None,
    device: str,
    threads: int | None,
    processes: int,
    setting: str | None,
    min_time_s: float | None,
    max_time_s: float | None,
    trust: bool,
) -> None:
    """Time the network in the folder PROXY, in several processes.

    It runs until the median is known to 1 %, and says where the machine was too noisy for that. Keep the
    results of two devices with --json FILE, and `statsnet compare` tells by which factor they differ.

    Example: statsnet run my-proxy --json this-machine.json
    """
    from statsnet.evaluation.run_proxy import STEP_LIMITS, RunOptions, run_proxy
    from statsnet.proxy.folder import open_proxy
    from statsnet.workloads.settings import BASELINE, parse_setting

    json_option.check_no_input(json_path, [proxy])
    wanted = RunOptions(
        device=device,
        threads=threads,
        processes=processes,
        setting=parse_setting(setting) if setting is not None else BASELINE,
        trust=trust,
        limits=replace(STEP_LIMITS, **options.given(min_time_s=min_time_s, max_time_s=max_time_s)),
    )
    opened = open_proxy(proxy, trust=trust)
    fit = None if trust else opened.fit()
    stands_for = opened.spec if opened.is_generated else None  # who changes network.py has another proxy
    output.print_notes([opened.note] if opened.note else [])
    options.require_device(device)
    with output.progress() as show:
        result = run_proxy(proxy, wanted, report=show)
    from statsnet.reporting.results import result_report
    from statsnet.signatures.conversion import plain

    output.deliver(plain(result), json_path, lambda: result_report(result, stands_for, fit))
