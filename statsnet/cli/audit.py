"""`statsnet audit` and `statsnet coarsen`: look at what a file tells, and make it tell less."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from statsnet.cli import json_option, options, output
from statsnet.signatures.levels import LEVELS

if TYPE_CHECKING:
    from statsnet.signatures.model import Level


@json_option.command(short_help="Show what a file tells, and whether its level allows it.")
@click.argument("path", metavar="FILE|FOLDER")
@click.option("--html", "html_path", metavar="FILE", help="Write the tables as a page for a browser.")
@click.option("--markdown", "markdown_path", metavar="FILE", help="Write the tables as Markdown.")
@click.pass_context
def audit(
    context: click.Context, path: str, html_path: str | None, markdown_path: str | None, json_path: str | None
) -> None:
    """Show every field of a signature, a proxy's folder, a result or any other file of StatsNet, grouped by what it
    reveals, with its size and an example.

    In a folder, a JSON file that is damaged or another program's is named, and the others are audited.

    Exit code 1: something is not allowed at the file's level, or could not be audited.

    Example: statsnet audit my.json --html review.html
    """
    for written in (html_path, markdown_path):
        output.check_file(written)
        json_option.check_no_input(written, [path])
    json_option.check_no_input(json_path, [path])
    from statsnet.analysis.audit_files import audit_path

    files = audit_path(Path(path))
    from statsnet.reporting.audit import audit_html, audit_markdown, audit_report
    from statsnet.signatures.canonical import write_text_atomically
    from statsnet.signatures.conversion import plain

    if html_path is not None:
        write_text_atomically(html_path, audit_html(files))
    if markdown_path is not None:
        write_text_atomically(markdown_path, audit_markdown(files))
    output.deliver({"files": plain(files)}, json_path, lambda: audit_report(files))
    if any(file.problems for file in files):
        context.exit(1)


@json_option.command(short_help="Make a signature tell less.")
@click.argument("file")
@click.option("--level", type=options.Choice(LEVELS[1:]), required=True, help="How much the new file tells.")
@click.option("-o", "--output", "path", metavar="FILE", required=True, help="Where to write the new signature.")
def coarsen(file: str, level: str, path: str, json_path: str | None) -> None:
    """Write the signature in FILE at a level that tells less. There is no way back.

    Example: statsnet coarsen my.json --level coarse -o to-share.json
    """
    output.check_signature_output(path, json_path)
    output.check_file(path)
    json_option.check_no_input(path, [file])
    json_option.check_no_input(json_path, [file])
    from statsnet.cli.profile import write_signature
    from statsnet.signatures.storage import load_signature

    wanted = cast("Level", level)
    write_signature(load_signature(file), path, json_path, level=wanted)
