"""`statsnet list`: workloads, profiles and proxies. Nothing here imports torch."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from statsnet.cli import json_option, options, output
from statsnet.errors import FileFormatError, UsageError, did_you_mean

KINDS = ("workloads", "profiles", "proxies")


@json_option.command("list", short_help="Show workloads, profiles or proxies.")
@click.argument("kind", metavar="[workloads|profiles|proxies]", required=False)
@click.argument("pattern", required=False)
@options.profiles
def list_(kind: str | None, pattern: str | None, profiles: str | None, json_path: str | None) -> None:
    """Show the workloads, profiles or proxies there are, all or those whose name matches PATTERN.

    Proxies are looked for in this folder and in ./generated.

    Example: statsnet list 'cv/*'
    """
    if kind is not None and kind not in KINDS:
        if pattern is not None:
            raise UsageError(f"'{kind}' is none of {', '.join(KINDS)}", hint=did_you_mean(kind, KINDS))
        kind, pattern = "workloads", kind
    from statsnet.reporting import listings

    wanted = pattern or "*"
    if kind == "profiles":
        rows, made = _profiles(wanted, profiles), listings.profile_table
    elif kind == "proxies":
        rows, made = list(_proxies(wanted)), listings.proxy_table
    else:
        rows, made = _workloads(wanted), listings.workload_table
    if rows or json_path is not None:
        output.deliver({kind or "workloads": rows}, json_path, lambda: [made(rows)])
    else:
        click.echo(f"no {kind or 'workloads'}{f' match {wanted!r}' if pattern else ''}", err=True)


def _workloads(pattern: str) -> list[dict[str, Any]]:
    from statsnet.reporting.listings import workload_row
    from statsnet.workloads import all_workloads, failed_extensions

    for name, reason in failed_extensions().items():
        click.echo(f"not loaded: {name} ({reason})", err=True)
    return [workload_row(entry) for entry in all_workloads(pattern)]


def _profiles(pattern: str, folder: str | None) -> list[dict[str, Any]]:
    options.check_profiles(folder)
    from statsnet.reporting.listings import profile_row
    from statsnet.signatures.database import ProfilesDB

    return [
        profile_row(entry)
        for entry in ProfilesDB(folder).entries
        if any(fnmatch.fnmatchcase(name, pattern) for name in (entry.name, entry.workload))
    ]


def _proxies(pattern: str) -> Iterator[dict[str, Any]]:
    from statsnet.reporting.listings import damaged_proxy_row, proxy_row
    from statsnet.signatures.saved_proxy import fit_beside
    from statsnet.signatures.storage import load_spec

    specs = [path for root in (Path(), Path("generated")) for path in sorted(root.glob("*/spec.json"))]
    for folder in (path.parent for path in specs):
        if not any(fnmatch.fnmatchcase(name, pattern) for name in (str(folder), folder.name)):
            continue
        try:
            spec = load_spec(folder / "spec.json")
            fit = fit_beside(folder, spec)
        except FileFormatError as error:
            yield damaged_proxy_row(str(folder), error.cause or error.message)
        else:
            yield proxy_row(str(folder), spec, fit)
