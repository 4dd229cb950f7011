"""`statsnet cache`: measurements that are kept for later runs."""

from __future__ import annotations

import click

from statsnet.cli import json_option, output


@json_option.command(short_help="Show or clear measurements that are kept.")
@click.option("--clear", is_flag=True, help="Delete all of them: the next synthesis measures everything anew.")
def cache(clear: bool, json_path: str | None) -> None:
    """Show how many measurements are kept for later runs, where, and how old they are; or delete them.

    `synthesize` keeps what it has measured of blocks, networks and models, so that another mix of the same models takes
    less time. STATSNET_CACHE names another folder.

    Example: statsnet cache --clear
    """
    from statsnet.measure.cache import MeasurementCache
    from statsnet.reporting.listings import cache_table
    from statsnet.signatures.conversion import plain

    kept = MeasurementCache()
    if clear:
        kept.clear()
    contents = kept.contents()
    output.deliver(plain(contents), json_path, lambda: [cache_table(contents)])
