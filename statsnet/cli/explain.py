"""`statsnet explain`: where a proxy's error under a setting comes from."""

from __future__ import annotations

import click

from statsnet.cli import json_option, options, output
from statsnet.measure.at_hand import require_device


@json_option.command(short_help="Say where a proxy's error comes from, and what to do.")
@click.argument("proxy")
@click.option(
    "--settings",
    required=True,
    metavar="S,...",
    help="As those of validate, a comma between two and a + within one: threads=1, onednn=sse41, mkl=compatible, "
    "aten=default, mkldnn=off, dtype=bfloat16, channels_last, precision=medium.",
)
@click.option(
    "--rounds", type=options.Whole(1, 1000), metavar="N", default=2, show_default=True,
    help="How often everything is measured, in turn: two or more show the noise.",
)  # fmt: skip
@options.models
@options.profiles
@options.device()
@options.min_time("2s, for the proxy 1s")
@options.trust
@options.sandbox
def explain(
    proxy: str,
    settings: str,
    rounds: int,
    models: tuple[str, ...],
    profiles: str | None,
    device: str,
    min_time_s: float | None,
    trust: bool,
    json_path: str | None,
) -> None:
    """Take the error of PROXY under settings apart: by kernel class, by block and by workload.

    The workloads and the proxy are profiled without and with each setting. A kernel class adds to the error
    if it has another share of the proxy's step than of the workloads', or if it follows the setting by another
    factor. Each large part comes with its likely cause, and with what to do. A member whose model is not at
    hand is replayed from its signature; --model names the file of a model of your own.

    Example: statsnet explain my-proxy --settings threads=1,dtype=bfloat16
    """
    from statsnet.evaluation.explain import ExplainOptions, explain_proxy
    from statsnet.evaluation.own_models import parse_model
    from statsnet.measure.process import measuring_environment
    from statsnet.proxy.folder import open_proxy
    from statsnet.workloads.settings import parse_settings, unchanging

    json_option.check_no_input(json_path, [proxy])
    wanted = ExplainOptions(
        settings=parse_settings(settings),
        rounds=rounds,
        profiles=profiles,
        device=device,
        trust=trust,
        min_time_s=min_time_s,
        models=tuple(map(parse_model, models)),
    )
    output.print_notes(open_proxy(proxy, trust=trust).notes)
    require_device(device)
    output.print_notes(unchanging(wanted.settings, measuring_environment(device)["threads"]))
    with output.progress() as show:
        found = explain_proxy(proxy, wanted, report=show)
    from statsnet.reporting.explain import explained_report

    output.deliver(found.to_dict(), json_path, lambda: explained_report(found))
