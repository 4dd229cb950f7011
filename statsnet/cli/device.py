"""`statsnet device`: record a device, to make proxies for it on other machines."""

from __future__ import annotations

from pathlib import Path

import click

from statsnet.cli import options, output


@click.group(short_help="Record a device, to make proxies for it elsewhere.")
def device() -> None:
    """Times of single operators on a device, from which `synthesize --device recorded:NAME` makes a proxy on any
    machine."""


@device.command(short_help="Time operators on this machine's device.")
@options.device()
@click.option(
    "--operators", "count", type=click.IntRange(50, 20_000), default=1500, show_default=True, metavar="N",
    help="How many are timed.",
)  # fmt: skip
@options.counters
@options.profiles
@click.option(
    "-o", "--output", "path", metavar="FILE",
    help="Where to write the record (default: device.json in the environment's folder of the database).",
)  # fmt: skip
def record(device: str, count: int, counters: str, profiles: str | None, path: str | None) -> None:
    """Time operators that the database's workloads, and blocks made from them, call, one by one.

    Example: statsnet device record --device cuda -o h200.json
    """
    from statsnet.signatures.database import ProfilesDB

    output.check_file(path)
    options.check_counters(counters, device)
    options.require_device(device)
    from statsnet.devices.record import record_device
    from statsnet.devices.recorded_bench import device_of, record_path
    from statsnet.environment import slug
    from statsnet.measure.process import measuring_environment
    from statsnet.signatures.storage import save_signature

    notes: list[str] = []
    db = ProfilesDB(profiles)
    target = Path(path) if path else record_path(db, slug(measuring_environment(device)))
    output.check_folder(target.parent)
    with output.progress() as show:
        signature = record_device(db, device=device, count=count, counters=counters, note=notes.append, report=show)
    save_signature(target, signature)
    output.print_notes(notes)
    from statsnet.reporting.device import device_report

    output.print_report(device_report(device_of([signature])))
    output.print_written(str(target))


@device.command(short_help="What is known of a recorded device.")
@click.argument("name")
@options.profiles
def show(name: str, profiles: str | None) -> None:
    """What was measured on a device, and how well that predicts operators of other sizes.

    NAME is a part of an environment's name (`statsnet list profiles` shows them), or a file that `device record`
    wrote.

    Example: statsnet device show nvidia-h200
    """
    from statsnet.devices.recorded_bench import PREFIX, recorded_device
    from statsnet.signatures.database import ProfilesDB

    recorded = recorded_device(name.removeprefix(PREFIX), ProfilesDB(profiles))
    from statsnet.reporting.device import device_report

    output.print_report(device_report(recorded))
