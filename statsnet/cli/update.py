"""`statsnet update`: a proxy made anew, with members added or removed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import json_option, options, output
from statsnet.deadline import Deadline
from statsnet.errors import UsageError
from statsnet.measure.at_hand import PREFIX, check_counters, is_recorded, require_device
from statsnet.measure.device_lock import LOCKS
from statsnet.progress import Stages
from statsnet.synthesis.effort import EFFORTS, NORMAL

if TYPE_CHECKING:
    from statsnet.devices.make_proxy import MakeOptions, TargetDevice
    from statsnet.signatures.documents import Fit, ProxySpec


@json_option.command(short_help="Make a proxy anew with workloads added or removed.")
@click.argument("proxy")
@click.option(
    "--add", "added", multiple=True, metavar="NAME:SHARE",
    help="A signature file, workload or domain, and its share of the new mix: new.json:0.1; may be repeated.",
)  # fmt: skip
@click.option("--remove", "removed", multiple=True, metavar="NAME", help="A member to leave out; may be repeated.")
@click.option("--budget", type=options.Duration(), metavar="TIME", help="Step time of the new one (as before).")
@click.option(
    "--effort",
    type=options.Choice(tuple(EFFORTS)),
    default=NORMAL.name,
    show_default=True,
    help="How much is measured, as in synthesize.",
)
@click.option("--within", type=options.Duration(), metavar="TIME", help="End after about this time.")
@click.option(
    "--device", metavar="NAME", help="cpu, cuda, cuda:N or recorded:NAME (default: the kind that it was made for)."
)
@options.counters
@options.profiles
@options.sandbox
@click.option("-o", "--output", "folder", metavar="DIR", help="Folder of the new one (default: PROXY is replaced).")
def update(
    proxy: str,
    added: tuple[str, ...],
    removed: tuple[str, ...],
    budget: float | None,
    effort: str,
    within: float | None,
    device: str | None,
    counters: str,
    profiles: str | None,
    folder: str | None,
    json_path: str | None,
) -> None:
    """Make PROXY anew from the signatures of its members, with some added or removed.

    The members are found by the ids in spec.json, among --profiles and the signatures that come with StatsNet.
    Those that stay keep the proportions of their weights. What was measured before is not measured again.
    Without --add and --remove the same mix is used, as after an upgrade or on another machine.

    Example: statsnet update my-proxy --add new.json:0.1 -o my-new-proxy
    """
    from statsnet.signatures.mix_change import MixChange, parse_addition

    deadline = Deadline.after(within, LOCKS.clock)
    change = MixChange(added=tuple(parse_addition(text) for text in added), removed=removed)
    from statsnet.devices.counted_dtypes import USUAL
    from statsnet.devices.make_proxy import MakeOptions
    from statsnet.devices.update_proxy import update_proxy
    from statsnet.evaluation.updated import updated
    from statsnet.measure.patience import PATIENCE
    from statsnet.proxy.folder import open_proxy
    from statsnet.proxy.spec import write_proxy
    from statsnet.proxy.whole_folder import check_output

    json_option.check_no_input(json_path, [proxy, *(a.name for a in change.added)])
    old = open_proxy(proxy)
    if old.note and folder is None:
        raise UsageError(
            f"'{proxy}' would be replaced, but its network.py was changed by hand",
            hint="-o DIR writes the new proxy elsewhere",
        )
    change.staying(old.spec.mix)  # wrong names are reported before the device is looked at
    options.check_profiles(profiles)
    if old.spec.simulation is not None:
        raise UsageError(
            f"'{proxy}' is a proxy for simulators",
            cause="it was made without measuring, in seconds",
            hint="make it anew from the other mix: statsnet synthesize --mix MIX --macs N",
        )
    before = old.fit()
    is_guessed = device is None
    device = device or _made_for(old.spec, before)
    recorded = is_recorded(device)
    if not recorded:
        require_device(device)
    check_counters(counters, device)
    path = Path(folder or proxy)
    check_output(path)
    json_option.check_not_within(json_path, path)
    notes: list[str] = []
    with output.told_if_it_fails(notes), output.progress() as show:
        stages = Stages(show, deadline)
        wanted = MakeOptions(
            mode=old.spec.mode,
            device=device,
            dtype=old.spec.dtype if recorded and old.spec.dtype != USUAL else None,
            profiles=Path(profiles) if profiles else None,
            counters=counters,
            note=notes.append,
            effort=EFFORTS[effort],
            deadline=deadline,
            stages=stages,
        )
        made = update_proxy(old.spec, change, _opened(wanted, is_guessed), budget)
    write_proxy(made, path)
    output.print_notes(notes)
    from statsnet.reporting.tables import stages_table
    from statsnet.reporting.updated import updated_report

    found = updated(str(path), old.spec, before, made)
    times = stages_table(stages.spent_s, stages.total_s, PATIENCE.spent_s)
    output.deliver(found.to_dict(), json_path, lambda: [*updated_report(found), times], written=path)


def _opened(wanted: MakeOptions, is_guessed: bool) -> TargetDevice:
    """The device. A proxy's folder names a recorded one, but not which record of it was used."""
    from statsnet.devices.make_proxy import TargetDevice

    again = "--device recorded:NAME or recorded:FILE names the record (statsnet device list)"
    guessed = is_guessed and is_recorded(wanted.device)
    if guessed:
        output.print_notes(
            [f"the record of {wanted.device.partition(':')[2]} is taken; if it was another one: {again}"]
        )
    try:
        return TargetDevice.open(wanted)
    except UsageError as error:
        if not guessed:
            raise
        message = f"which record the proxy was made with is not known: {error.message}"
        raise UsageError(message, cause=error.cause, hint=again) from error


def _made_for(spec: ProxySpec, fit: Fit | None) -> str:
    """The device that a proxy was made for: of this kind here, or a recorded one."""
    environment = spec.reference_environment
    if fit is not None and fit.recorded is not None:
        return f"{PREFIX}{environment.get('device_name')}"
    return str(environment.get("device") or "cpu")
