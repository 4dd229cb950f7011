"""`statsnet cover`: how well a mix or a proxy stands for a workload that is not in it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from statsnet.cli import json_option, options, output


@json_option.command(short_help="Say how well a mix or proxy stands for a new workload.")
@click.argument("subject", metavar="PROXY|MIX")
@click.argument("new", metavar="NEW.json")
@options.profiles
def cover(subject: str, new: str, profiles: str | None, json_path: str | None) -> None:
    """Say how well a proxy's folder or a mix stands for the workload in the signature NEW.json.

    Distances are halves of the summed differences between shares of operator time, in points. Of a mix, the nearest
    members are listed too; name a domain, such as cv, to compare with all of its workloads.

    Example: statsnet cover recsys:0.5,cv:0.5 new.json
    """
    json_option.check_no_input(json_path, [new, subject])
    from statsnet.errors import UsageError
    from statsnet.evaluation.cover import coverage, coverage_by_mix, profile_of_fit
    from statsnet.reporting.cover import coverage_report
    from statsnet.signatures.computing import computing
    from statsnet.signatures.database import ProfilesDB
    from statsnet.signatures.mix import resolve_mix
    from statsnet.signatures.mix_file import is_mix_file
    from statsnet.signatures.saved_proxy import load_proxy
    from statsnet.signatures.storage import load_signature
    from statsnet.signatures.target import target_of

    signature = load_signature(Path(new))
    target = target_of(signature, name=new)
    if Path(subject, "spec.json").is_file():
        fit = load_proxy(subject).fit
        if fit is None:
            raise UsageError(
                f"'{subject}' has no fit.json", hint="synthesize the proxy again: that file holds its shares of time"
            )
        found = coverage(profile_of_fit(subject, fit), computing(target))
    elif Path(subject).is_dir():
        raise UsageError(f"'{subject}' is not a proxy's folder", cause="it has no spec.json")
    else:
        text = subject if ":" in subject or is_mix_file(subject) else f"{subject}:1"
        here = target.members[0].measurement.fingerprint
        mix = resolve_mix(text, signature.mode, ProfilesDB(profiles), environment=here)
        found = coverage_by_mix(subject, mix, target)
    data = asdict(found) | {"missing_share": found.missing_share, "verdict": found.verdict}
    output.deliver(data, json_path, lambda: coverage_report(found, new))
