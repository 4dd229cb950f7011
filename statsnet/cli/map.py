"""`statsnet map`: which workloads are alike, and a few that stand for all. Nothing here imports torch."""

from __future__ import annotations

import click

from statsnet.cli import json_option, options, output


@json_option.command("map", short_help="Show which workloads are alike.")
@click.argument("signatures", nargs=-1)
@options.mode
@click.option(
    "--clusters",
    type=options.Whole(min=2),
    metavar="N",
    help="How many groups (default: the best silhouette).",
)
@options.profiles
@options.environment
@options.seed
@click.option("-o", "--output", "folder", metavar="DIR", help="Write map.svg and tree.svg there.")
def map_(
    signatures: tuple[str, ...],
    mode: str,
    clusters: int | None,
    profiles: str | None,
    environment: str | None,
    seed: int,
    folder: str | None,
    json_path: str | None,
) -> None:
    """Group workloads by where their time goes.

    SIGNATURES are patterns of the names of profiled workloads (default: all), or signature files, such as imported
    ones. Of each group the workload nearest to its centre stands for all of it: the classical alternative to a proxy.
    What running these costs, and what they miss, is shown.

    Example: statsnet map 'cv/*' -o pictures
    """
    from statsnet.analysis.database import select
    from statsnet.analysis.similarity import similarity
    from statsnet.reporting.characteristics import similarity_report

    json_option.check_no_input(json_path, signatures)
    json_option.check_replaces_none(json_path, ("statsnet.signature",))
    output.check_pictures(folder)
    selected = select(signatures, options.given_mode(mode), profiles=profiles, environment=environment)
    groups = similarity(selected.measured, clusters=clusters, seed=seed)
    data = {"environment": selected.environment, "mode": selected.mode, **groups.to_dict()}
    output.deliver(data, json_path, lambda: similarity_report(groups, selected.environment, selected.mode))
    if folder is not None:
        from statsnet.reporting.map_picture import map_svg
        from statsnet.reporting.pictures import tree_svg

        pictures = {"map.svg": map_svg(groups), "tree.svg": tree_svg(groups)}
        output.write_pictures(folder, pictures, say=json_path != output.STDOUT)
