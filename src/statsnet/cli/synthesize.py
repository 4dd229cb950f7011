"""`statsnet synthesize`: a proxy for a mix."""

from __future__ import annotations

import re
from pathlib import Path

import click

from statsnet.cli import options, output


@click.command(short_help="Make a proxy network for a mix of workloads.")
@click.option(
    "--mix", required=True, metavar="NAME:WEIGHT,...", help="Domains, workloads or signature files."
)
@options.mode
@click.option(
    "--budget",
    type=options.Duration(),
    metavar="TIME",
    help="Step time of the proxy (default: that of the suite / 53, but at least 5 ms).",
)
@options.device()
@options.profiles
@options.seed
@click.option(
    "-o", "--output", "folder", metavar="DIR", help="Folder of the proxy (default: proxy-<the mix>)."
)
@options.json_flag
def synthesize(
    mix: str,
    mode: str,
    budget: float | None,
    device: str,
    profiles: str | None,
    seed: int,
    folder: str | None,
    as_json: bool,
) -> None:
    """Make a small network that behaves like a weighted mix of workloads, and write it to a folder.

    A weight is a share of device time. A domain stands for its workloads in equal shares;
    `statsnet list profiles` shows what can be mixed.

    Example: statsnet synthesize --mix recsys:0.5,cv:0.5 --budget 10ms -o my-proxy
    """
    from statsnet.signatures.database import ProfilesDB
    from statsnet.signatures.mix import parse_mix, resolve_mix

    parse_mix(mix)
    resolve_mix(mix, mode, ProfilesDB(profiles))  # wrong names are found out before torch is imported
    options.require_device(device)
    path = Path(folder or f"proxy-{mix_slug(mix)}{'-training' if mode == 'training' else ''}")
    output.check_folder(path.parent)
    from statsnet.synthesis.spec import check_output, write_proxy
    from statsnet.synthesis.synthesize import synthesize as make

    check_output(path)
    with output.progress() as show:
        proxy = make(
            mix,
            mode=mode,
            budget_s=budget,
            device=device,
            profiles=Path(profiles) if profiles else None,
            seed=seed,
            report=lambda stage, done: show({"stage": stage, "done": done}),
        )
    fit = proxy.fit()
    write_proxy(proxy, path, mix_text=mix)
    if as_json:
        output.print_json({"folder": str(path), "spec": proxy.spec, "fit": fit})
        return
    from statsnet.reporting.proxy import proxy_report

    output.print_report(proxy_report(proxy.spec, fit))
    output.print_written(path)


def mix_slug(mix: str) -> str:
    """`recsys:0.5,cv:0.5` -> `recsys-0.5-cv-0.5`, a folder's name; of paths only the last part is kept."""
    parts = [part.strip().rpartition("/")[2] for part in mix.split(",")]
    return re.sub(r"[^a-z0-9._]+", "-", "-".join(parts).lower()).strip("-.")[:80]
