"""`statsnet show`: any file of StatsNet as tables. Nothing here imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import json_option, output
from statsnet.errors import UsageError

if TYPE_CHECKING:
    from statsnet.reporting.tables import Report


@json_option.command(short_help="Show any file of StatsNet as tables.")
@click.argument("file")
def show(file: str, json_path: str | None) -> None:
    """Show FILE: a signature, a proxy's folder, its spec.json or fit.json, or a result.

    The file is checked first; JSON is in canonical form.

    Example: statsnet show my-proxy
    """
    path = Path(file)
    if path.is_dir():
        if not (path / "spec.json").is_file():
            raise UsageError(f"'{file}' is not a proxy's folder", cause="it has no spec.json", hint="name a file in it")
        path = path / "spec.json"
    json_option.check_no_input(json_path, [path])
    from statsnet.signatures.storage import kind_of, load_document

    kind = kind_of(path)
    data = load_document(path, kind) if json_path is not None else {}
    output.deliver(data, json_path, lambda: report_of(path, kind))


def report_of(path: Path, kind: str) -> Report:
    """The tables of a file, which is checked; beside a spec, fit.json is shown with it."""
    from statsnet.signatures import storage

    if kind == "statsnet.signature":
        from statsnet.reporting.signature import signature_report

        return signature_report(storage.load_signature(path))
    if kind == "statsnet.result":
        from statsnet.reporting.validation import validation_report

        return validation_report(storage.load_result(path))
    if kind == "statsnet.scenario":
        from statsnet.reporting.scenarios import scenario_report

        return scenario_report(storage.load_scenario(path))
    from statsnet.reporting.proxy import fit_report, proxy_report

    if kind == "statsnet.fit":
        return fit_report(storage.load_fit(path))
    from statsnet.signatures.saved_proxy import fit_beside

    spec = storage.load_spec(path)
    return proxy_report(spec, fit_beside(path.parent, spec))
