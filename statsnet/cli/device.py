"""`statsnet device`: record a device, to make proxies for it on other machines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import json_option, options, output
from statsnet.environment import outputs
from statsnet.errors import UsageError
from statsnet.measure.at_hand import PREFIX, check_counters, require_device

if TYPE_CHECKING:
    from statsnet.devices.tables.reading import Tables


@click.group(short_help="Record a device, to make proxies for it elsewhere.")
def device() -> None:
    """Times of single operators on a device, measured there or published, from which `synthesize --device
    recorded:NAME` makes a proxy on any machine."""


@device.command(short_help="Time operators on this machine's device.")
@options.device()
@click.option(
    "--operators", "count", type=options.Whole(50, 20_000), default=1500, show_default=True, metavar="N",
    help="How many are timed.",
)  # fmt: skip
@options.counters
@options.profiles
@options.sandbox
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
    check_counters(counters, device)
    require_device(device)
    from statsnet.devices.record import record_device
    from statsnet.devices.recorded_bench import device_of, record_path
    from statsnet.environment import slug
    from statsnet.measure.process import measuring_environment
    from statsnet.signatures.storage import save_signature

    notes: list[str] = []
    db = ProfilesDB(profiles)
    target = Path(path) if path else record_path(db, slug(measuring_environment(device)))
    outputs.check_folder(target.parent)
    with output.progress() as show:
        signature = record_device(db, device=device, count=count, counters=counters, note=notes.append, report=show)
    save_signature(target, signature)
    output.print_notes(notes)
    from statsnet.reporting.device import device_report

    output.print_report(device_report(device_of([signature])))
    output.print_written(str(target))


@device.command("import", short_help="Make a record from published tables and recordings.")
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option("--device", "name", required=True, metavar="NAME", help="Which of the sources' devices.")
@click.option(
    "--keep-doubtful", is_flag=True, help="Also use what is known to be measured badly, or seems to be in another unit."
)
@click.option("-o", "--output", "path", metavar="FILE", help="Where to write the record (default: NAME.json.gz).")
@options.sandbox
def import_(sources: tuple[str, ...], name: str, keep_doubtful: bool, path: str | None) -> None:
    """Fit models of a device's operators to tables and recordings, and write them as one record.

    A SOURCE is a table, a folder of tables, a trace of torch.profiler, or a signature that was measured. Tables of
    NeuSight, aiconfigurator, DeepBench, MIOpen and Vidur are recognised by their columns; so is a plain table of your
    own: operator,dtype,device,time_us and dims.

    Example: statsnet device import tables/ trace.json.gz --device nvidia-h100-sxm -o h100.json.gz
    """
    output.check_file(path)
    from statsnet.devices.device_record import build_record, save_record
    from statsnet.devices.names import measured_device
    from statsnet.progress import Progress

    with output.progress() as show:
        show(Progress(stage="reading"))
        found = _read([Path(source) for source in sources], name)
        there = {d for row in found.rows for d in row.time_s}
        device = measured_device(name, there)
        if not keep_doubtful:
            found.check([device])
        target = Path(path or f"{device}.json.gz")
        json_option.check_no_input(str(target), sources)
        outputs.check_folder(target.parent)
        record = build_record(found.rows, device, keep_doubtful=keep_doubtful, report=show)
    save_record(target, record)
    output.print_notes(found.notes)
    from statsnet.reporting.device import record_report

    output.print_report(record_report(record))
    output.print_written(str(target))


def _read(sources: list[Path], name: str) -> Tables:
    """Rows of all sources, and what was left out of them. Raises UsageError if there are none."""
    from statsnet.devices.recording_rows import is_recording, read_recordings
    from statsnet.devices.tables.reading import Tables, read_all

    recordings = [source for source in sources if is_recording(source)]
    tables = [source for source in sources if not is_recording(source)]
    found = read_all(tables) if tables else Tables(rows=(), notes=())
    if recordings:
        recorded = read_recordings(recordings, name)
        found = replace(found, rows=(*found.rows, *recorded.rows), notes=(*found.notes, *recorded.notes))
    if not found.rows:
        found.check(found.wrong)
        raise UsageError(
            "the sources hold no operator with a time",
            cause="; ".join(found.notes) or "they are empty, or of whole models",
            hint="docs/how-to/absent-device.md says what a table and a recording must hold",
        )
    return found


@device.command("list", cls=json_option.JsonCommand, short_help="Recorded devices.")
@options.profiles
def list_(profiles: str | None, json_path: str | None) -> None:
    """Devices of the database: recorded there, or made from tables.

    Example: statsnet device list
    """
    options.check_profiles(profiles)
    from statsnet.devices.record_folder import listed_records, recorded_folders
    from statsnet.reporting.listings import device_row, devices_report
    from statsnet.signatures.database import ProfilesDB

    db = ProfilesDB(profiles)
    rows, folders = [device_row(record) for record in listed_records(db.path)], recorded_folders(db)
    output.deliver({"records": rows, "environments": folders}, json_path, lambda: devices_report(rows, folders))


@device.command(short_help="What is known of a recorded device.")
@click.argument("name")
@options.profiles
def show(name: str, profiles: str | None) -> None:
    """What was measured on a device, and how well that predicts operators of other sizes.

    NAME is a part of a device's name (`statsnet device list` shows them), or a file that `device record` or
    `device import` wrote.

    Example: statsnet device show nvidia-h100-sxm
    """
    from statsnet.devices.recorded_bench import recorded_device
    from statsnet.reporting.device import device_report
    from statsnet.signatures.database import ProfilesDB

    output.print_report(device_report(recorded_device(name.removeprefix(PREFIX), ProfilesDB(profiles))))
