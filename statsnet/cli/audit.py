"""`statsnet audit` and `statsnet coarsen`: look at what a file tells, and make it tell less."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from statsnet.cli import json_option, output
from statsnet.errors import FileFormatError, UsageError
from statsnet.signatures.levels import LEVELS

if TYPE_CHECKING:
    from statsnet.analysis.audit import Arguments, AuditedFile
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

    Exit code 1: something is not allowed at the file's level.

    Example: statsnet audit my.json --html review.html
    """
    for written in (html_path, markdown_path):
        output.check_file(written)
        json_option.check_no_input(written, [path])
    json_option.check_no_input(json_path, [path])
    files = _audited(Path(path))
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


def _audited(path: Path) -> list[AuditedFile]:
    if not path.is_dir():
        return [_audited_file(path, str(path))]
    if (path / "spec.json").is_file():
        return _audited_proxy(path)
    found = sorted(p for p in path.rglob("*.json") if p.is_file())
    if not found:
        raise UsageError(f"'{path}' holds no files of StatsNet", hint="name a signature, a result or a proxy's folder")
    return [_audited_file(p, str(p.relative_to(path))) for p in found]


def _audited_file(path: Path, name: str) -> AuditedFile:
    from statsnet.analysis.audit import audited, problems_of_signature, problems_of_texts
    from statsnet.signatures.kinds import KINDS
    from statsnet.signatures.model import KIND
    from statsnet.signatures.storage import load_document, load_signature

    data = _read(path)
    kind = str(data.get("kind"))
    if kind == KIND:
        signature = load_signature(path)
        return audited(name, data, problems_of_signature(signature, _coarse_arguments()))
    if kind in KINDS:
        load_document(path, kind)
    elif not kind.startswith("statsnet."):
        raise FileFormatError(f"'{path}' is no file of StatsNet", hint="name a signature, a result or a proxy's folder")
    return audited(name, data, problems_of_texts(data))


def _read(path: Path) -> dict[str, Any]:
    from statsnet.signatures.canonical import read_json
    from statsnet.signatures.kinds import KINDS

    return read_json(path, max_bytes=max(kind.max_bytes for kind in KINDS.values()))


def _coarse_arguments() -> Arguments | None:
    """How arguments ought to look, which torch's schemas tell; None without torch."""
    try:
        from statsnet.profiling.coarse_scalars import coarse_arguments
    except ImportError:
        return None
    return coarse_arguments


def _audited_proxy(folder: Path) -> list[AuditedFile]:
    """The spec and what else is in the folder: every other file must follow from it."""
    from dataclasses import replace

    from statsnet.signatures.kinds import FILES, SEARCH_FILES

    files = [_audited_file(folder / name, name) for name in ("spec.json", "fit.json") if (folder / name).is_file()]
    strangers = [
        f"'{p.name}' is no file of a proxy" for p in sorted(folder.iterdir()) if p.name not in (*FILES, *SEARCH_FILES)
    ]
    spec = files[0]
    return [replace(spec, problems=(*spec.problems, *strangers, *_changed(folder))), *files[1:]]


def _changed(folder: Path) -> list[str]:
    """Files that are not what this version makes of spec.json and fit.json."""
    from statsnet.proxy.spec import texts_of
    from statsnet.signatures.storage import load_fit, load_spec

    if not (folder / "fit.json").is_file():
        return []
    try:
        texts = texts_of(load_spec(folder / "spec.json"), load_fit(folder / "fit.json"))
    except FileFormatError as error:
        return [str(error.message)]
    found = {name: folder / name for name in texts if (folder / name).is_file()}
    return [
        f"'{name}' is not what spec.json and fit.json make"
        for name, file in found.items()
        if file.stat().st_size != len(text := texts[name].encode()) or file.read_bytes() != text
    ]


@json_option.command(short_help="Make a signature tell less.")
@click.argument("file")
@click.option("--level", type=click.Choice(LEVELS[1:]), required=True, help="How much the new file tells.")
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
