"""`statsnet characterize`: what workloads are made of. Nothing here imports torch."""

from __future__ import annotations

import click

from statsnet.cli import json_option, options, output


@json_option.command(short_help="Show what profiled workloads are made of.")
@click.argument("signatures", nargs=-1)
@options.mode
@options.profiles
@options.environment
@click.option("-o", "--output", "folder", metavar="DIR", help="Write categories.svg, costs.svg and memory.svg there.")
def characterize(
    signatures: tuple[str, ...],
    mode: str,
    profiles: str | None,
    environment: str | None,
    folder: str | None,
    json_path: str | None,
) -> None:
    """Show costs, time by category and phase, memory, memory against input size, repeatability and hotspots.

    SIGNATURES are patterns of the names of profiled workloads (default: all), or signature files, such as imported
    ones.

    Example: statsnet characterize 'recsys/*' --mode training
    """
    from statsnet.analysis.characteristics import characteristics_of
    from statsnet.analysis.database import select
    from statsnet.analysis.sizes import memory_by_size
    from statsnet.reporting.characteristics import characteristics_report
    from statsnet.signatures.conversion import plain

    json_option.check_no_input(json_path, signatures)
    json_option.check_replaces_none(json_path, ("statsnet.signature",))
    output.check_pictures(folder)
    selected = select(signatures, options.given_mode(mode), profiles=profiles, environment=environment)
    of_workloads = [characteristics_of(named) for named in selected.measured]
    sizes = memory_by_size([*selected.measured, *selected.counted])
    data = {
        "environment": selected.environment,
        "mode": selected.mode,
        "workloads": plain(of_workloads),
        "sizes": plain([size for of_workload in sizes.values() for size in of_workload]),
    }
    output.deliver(
        data,
        json_path,
        lambda: characteristics_report(of_workloads, selected.measured, sizes, selected.environment, selected.mode),
    )
    if folder is not None:
        from statsnet.reporting.pictures import categories_svg, costs_svg, memory_svg

        pictures = {
            "categories.svg": categories_svg(of_workloads),
            "costs.svg": costs_svg(of_workloads),
            "memory.svg": memory_svg(sizes),
        }
        output.write_pictures(folder, pictures, say=json_path != output.STDOUT)
