"""`statsnet characterize`: what workloads are made of. Nothing here imports torch."""

from __future__ import annotations

import click

from statsnet.cli import json_option, options, output


@json_option.command(short_help="Show what profiled workloads are made of.")
@click.argument("pattern", default="*")
@options.mode
@options.profiles
@options.environment
@click.option("-o", "--output", "folder", metavar="DIR", help="Write categories.svg, costs.svg and memory.svg there.")
def characterize(
    pattern: str,
    mode: str,
    profiles: str | None,
    environment: str | None,
    folder: str | None,
    json_path: str | None,
) -> None:
    """Show costs, time by category and phase, memory, memory against input size, repeatability and hotspots of the
    profiled workloads that match PATTERN.

    Example: statsnet characterize 'recsys/*' --mode training
    """
    from statsnet.analysis.characteristics import characteristics_of
    from statsnet.analysis.database import counted_signatures, measured_signatures
    from statsnet.analysis.sizes import memory_by_size
    from statsnet.reporting.characteristics import characteristics_report

    output.check_pictures(folder)
    name, signatures = measured_signatures(pattern, mode, profiles=profiles, environment=environment)
    of_workloads = [characteristics_of(s) for s in signatures]
    sizes = memory_by_size([*signatures, *counted_signatures(pattern, mode, profiles=profiles)])
    data = {
        "environment": name,
        "mode": mode,
        "workloads": [c.to_dict() for c in of_workloads],
        "sizes": [size.to_dict() for of_workload in sizes.values() for size in of_workload],
    }
    output.deliver(data, json_path, lambda: characteristics_report(of_workloads, signatures, sizes, name, mode))
    if folder is not None:
        from statsnet.reporting.pictures import categories_svg, costs_svg, memory_svg

        pictures = {
            "categories.svg": categories_svg(of_workloads),
            "costs.svg": costs_svg(of_workloads),
            "memory.svg": memory_svg(sizes),
        }
        output.write_pictures(folder, pictures, say=json_path != output.STDOUT)
