"""`statsnet report`: one page with pictures of any files of StatsNet."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from statsnet.cli import options, output
from statsnet.cli.json_option import check_no_input
from statsnet.errors import shown
from statsnet.units import plural


@click.command(short_help="Make one page with pictures of any files.")
@click.argument("files", nargs=-1, required=True, metavar="FILE|FOLDER...")
@click.option("-o", "path", metavar="FILE", default="report.html", show_default=True, help="The page that is written.")
@click.option("--title", metavar="TEXT", default="StatsNet report", show_default=True, help="The page's title.")
def report(files: tuple[str, ...], path: str, title: str) -> None:
    """Make one page with pictures of signatures, mixes, proxies, results, or folders of them.

    A folder is a proxy's, one of profiles, or any that holds such files. The page is one file of 5 to 8 MB that needs
    no network: hovering over a picture gives its figures, and the table behind each is one click away. Two or more
    results are compared as well.

    Example: statsnet report my-proxy here.json there.json -o report.html
    """
    from statsnet.display import told_path
    from statsnet.reporting.html.document import check_library, document
    from statsnet.reporting.html.inputs import read_inputs
    from statsnet.signatures.canonical import write_text_atomically

    check_library()
    output.check_file(path)
    found = read_inputs(files)
    check_no_input(path, found.paths)
    titled = ("--title", title) if options.was_given("title") else ()
    made_by = shlex.join(["statsnet", "report", *map(told_path, files), "-o", told_path(path), *titled])
    text = document(title, found.sections, made_by, notes=found.notes)
    write_text_atomically(Path(path), text)
    click.echo(f"written to {shown(path)}: {plural(len(found.sections), 'section')}, {len(text.encode()) / 1e6:.1f} MB")
