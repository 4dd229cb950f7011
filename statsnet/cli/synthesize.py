"""`statsnet synthesize`: a proxy for a mix."""

from __future__ import annotations

import re
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from statsnet.cli import options, output
from statsnet.errors import StatsNetError, UsageError


@click.command(short_help="Make a proxy network for a mix of workloads.")
@click.option(
    "--mix", required=True, metavar="NAME:WEIGHT,...", help="Domains, workloads or signature files."
)
@options.mode
@click.option(
    "--budget",
    type=options.Duration(),
    metavar="TIME",
    help="Step time of the proxy (default: that of the suite ÷ the compression, but at least 5 ms, in training 20).",
)
@click.option(
    "--compression",
    type=click.FloatRange(min=1.0),
    metavar="N",
    help="How many times shorter than one step of every workload it is to be (default 53).",
)
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    metavar="N",
    help="Search over N designs: sizes of blocks, their number, order, shorter steps.",
)
@click.option(
    "--time-limit", type=options.Duration(), metavar="TIME", help="Search over designs for so long."
)
@click.option("--resume", is_flag=True, help="Go on with the search that was begun for this folder.")
@click.option(
    "--fresh",
    is_flag=True,
    help="Profile members whose models are at hand, and time blocks, again, not their steps alone.",
)
@options.device(recorded=True)
@options.counters
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
    compression: float | None,
    trials: int | None,
    time_limit: float | None,
    resume: bool,
    fresh: bool,
    device: str,
    counters: str,
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

    searching = trials is not None or time_limit is not None
    _check_together(budget, compression, searching, resume, fresh)
    parse_mix(mix)
    resolve_mix(mix, mode, ProfilesDB(profiles))  # wrong names are found out before torch is imported
    recorded = device.startswith("recorded:")
    _check_recorded(recorded, searching, fresh)
    options.check_counters(counters, device)
    if not recorded:
        options.require_device(device)
    path = Path(folder or f"proxy-{mix_slug(mix)}{'-training' if mode == 'training' else ''}")
    output.check_folder(path.parent)
    from statsnet.measure.cache import MeasurementCache
    from statsnet.proxy.spec import check_output, write_proxy
    from statsnet.synthesis.synthesize import synthesize as make

    check_output(path)
    notes: list[str] = []
    wanted: dict[str, Any] = {
        "mode": mode,
        "device": device,
        "profiles": Path(profiles) if profiles else None,
        "seed": seed,
        "counters": counters,
        "note": notes.append,
        "cache": MeasurementCache(fresh_since_ns=time.time_ns() if fresh else None),
        **options.given(budget_s=budget, compression=compression),
    }
    files: dict[str, str] = {}
    with output.progress() as show:
        wanted["report"] = lambda stage, done: show({"stage": stage, "done": done})
        if searching:
            proxy, files = _search(mix, path, trials, time_limit, resume, wanted)
        else:
            proxy = make(mix, **wanted)
    fit = proxy.fit()
    write_proxy(proxy, path, mix_text=mix, search=files)
    output.print_notes(notes)
    if as_json:
        output.print_json({"folder": str(path), "spec": proxy.spec, "fit": fit})
        return
    from statsnet.reporting.proxy import proxy_report

    output.print_report(proxy_report(proxy.spec, fit))
    output.print_written(path)


def _check_together(
    budget: float | None, compression: float | None, searching: bool, resume: bool, fresh: bool
) -> None:
    if budget is not None and compression is not None:
        raise UsageError(
            "--budget and --compression were both given",
            cause="each says how long a step is to be",
            hint="give one of them",
        )
    if resume and not searching:
        raise UsageError("--resume goes on with a search", hint="say how far: --trials, --time-limit or both")
    if searching and fresh:
        raise UsageError(
            "--fresh and a search were both given",
            cause="a search must be able to go on with what it has measured",
            hint="profile the members first (statsnet profile NAME -o FILE) and search with --mix FILE:WEIGHT,...",
        )


def _check_recorded(recorded: bool, searching: bool, fresh: bool) -> None:
    if recorded and (searching or fresh):
        raise UsageError(
            f"a recorded device and {'a search' if searching else '--fresh'} were both given",
            cause="nothing can be measured on a device that is not here",
            hint="leave one of them away",
        )


def _search(
    mix: str, path: Path, trials: int | None, time_limit_s: float | None, resume: bool, wanted: dict[str, Any]
) -> tuple[Any, dict[str, str]]:
    """The proxy, and the texts of search.json and front.svg."""
    for name in ("optuna", "matplotlib"):
        if find_spec(name) is None:
            raise StatsNetError(
                f"a search needs {name}", cause="it is not installed", hint="pip install 'statsnet[search]'"
            )
    from statsnet.reporting.front import front_svg
    from statsnet.signatures.canonical import canonical_json
    from statsnet.synthesis.search import search

    journal = path.with_name(f"{path.name}.journal")
    try:
        found = search(
            mix, journal=journal, trials=trials, time_limit_s=time_limit_s, resume=resume, **wanted
        )
    except KeyboardInterrupt:
        if journal.exists():
            click.echo(
                f"statsnet: what was tried so far is in '{journal}': --resume goes on with it", err=True
            )
        raise
    record = found.to_dict()
    return found.proxy, {"search.json": canonical_json(record), "front.svg": front_svg(record)}


def mix_slug(mix: str) -> str:
    """`recsys:0.5,cv:0.5` -> `recsys-0.5-cv-0.5`, a folder's name; of paths only the last part is kept."""
    parts = [part.strip().rpartition("/")[2] for part in mix.split(",")]
    return re.sub(r"[^a-z0-9._]+", "-", "-".join(parts).lower()).strip("-.")[:80]
