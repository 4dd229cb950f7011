"""`statsnet characterize`: what workloads are made of. Nothing here imports torch."""

from __future__ import annotations

from pathlib import Path

import click

from statsnet.cli import options, output


@click.command(short_help="Show what profiled workloads are made of.")
@click.argument("pattern", default="*")
@options.mode
@options.profiles
@options.environment
@click.option("-o", "--output", "folder", metavar="DIR", help="Write categories.svg and costs.svg there.")
@options.json_flag
def characterize(
    pattern: str,
    mode: str,
    profiles: str | None,
    environment: str | None,
    folder: str | None,
    as_json: bool,
) -> None:
    """Show costs, time by category and phase, memory, repeatability and hotspots of the profiled workloads that match
    PATTERN.

    Example: statsnet characterize 'recsys/*' --mode training
    """
    from statsnet.analysis.characteristics import characteristics_of
    from statsnet.analysis.database import measured_signatures
    from statsnet.reporting.characteristics import characteristics_report

    output.check_pictures(folder)
    name, signatures = measured_signatures(pattern, mode, profiles=profiles, environment=environment)
    found = [characteristics_of(s) for s in signatures]
    if as_json:
        output.print_json({"environment": name, "mode": mode, "workloads": [c.to_dict() for c in found]})
    else:
        output.print_report(characteristics_report(found, signatures, name, mode))
    if folder is not None:
        from statsnet.reporting.pictures import categories_svg, costs_svg
        from statsnet.signatures.canonical import write_text_atomically

        for file, text in (("categories.svg", categories_svg(found)), ("costs.svg", costs_svg(found))):
            write_text_atomically(Path(folder, file), text)
        if not as_json:
            output.print_written(folder)
