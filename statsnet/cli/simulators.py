"""`statsnet synthesize --macs`: a proxy for simulators, of scaled layers, without measuring anything."""

from __future__ import annotations

from pathlib import Path

from statsnet.cli import json_option, layers, options, output
from statsnet.errors import UsageError

MEASURING = ("budget", "compression", "trials", "time_limit", "effort", "within", "resume", "fresh", "device", "dtype",
             "counters")  # fmt: skip
"""Options that say how something is measured."""

SCALING = ("quantum", "signed", "reference")


def check_options(macs: str | None) -> None:
    """Raises UsageError for options that do not go together."""
    if macs is None:
        if option := options.first_given(*SCALING):
            raise UsageError(
                f"{option} was given without --macs",
                cause="it is for proxies for simulators",
                hint="give --macs 50M, too",
            )
        return
    if option := options.first_given(*MEASURING):
        raise UsageError(
            f"{option} and --macs were both given",
            cause="nothing is measured for a proxy of so many multiply-adds",
            hint="give one of them",
        )


def synthesize_for_simulators(
    mix: str, mode: str, macs: str, *, quantum: int | None, signed: bool, reference: str, profiles: str | None,
    seed: int, path: Path, title: str, notes: str, json_path: str | None,
) -> None:  # fmt: skip
    """Make the proxy, write it to `path`, and say what it is."""
    from statsnet.exports.build_manifest import manifest_of_mix
    from statsnet.exports.simulator_proxy import simulator_proxy
    from statsnet.proxy.spec import write_folder
    from statsnet.proxy.whole_folder import check_output
    from statsnet.reporting.proxy import proxy_report
    from statsnet.signatures.conversion import plain
    from statsnet.signatures.database import ProfilesDB
    from statsnet.signatures.mix import resolve_mix
    from statsnet.units import parse_count

    budget, database = parse_count(macs), ProfilesDB(profiles)
    check_output(path)
    json_option.check_not_within(json_path, path)
    resolved = resolve_mix(mix, mode, database)
    device = layers.reference_device(reference, database)
    whole = manifest_of_mix(resolved, reference=device.record, clock=device.clock)
    scaled = layers.scaled_manifest(whole, budget, quantum, signed)
    made = simulator_proxy(resolved, whole, scaled, title=title, notes=notes, seed=seed, environment=device.environment)
    write_folder(made.spec, made.fit, path)
    data = plain({"folder": str(path), "spec": made.spec, "fit": made.fit})
    output.deliver(data, json_path, lambda: proxy_report(made.spec, made.fit), written=path)
