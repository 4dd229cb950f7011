"""`statsnet aggregate`: one signature of many."""

from __future__ import annotations

import os
from pathlib import Path

import click

from statsnet.cli import json_option, output

EXAMPLE = "for example a.json:0.3 b.json:0.7"


@json_option.command(short_help="Make one signature of many.")
@click.argument("members", metavar="FILE:WEIGHT...", nargs=-1, required=True)
@click.option("-o", "--output", "path", metavar="FILE", help="Where to write the aggregate.")
def aggregate(members: tuple[str, ...], path: str | None, json_path: str | None) -> None:
    """Write the signature of a mean step of all these signatures, which are of one mode and dtype.

    A weight is a share of device time, as in a mix, in the first environment in which all of them were measured. The
    aggregate has the level of the one that tells least; the others are brought to it first. It can be used wherever a
    signature can, and be aggregated again.

    Example: statsnet aggregate a.json:0.3 b.json:0.7 -o fleet.json
    """
    from statsnet.cli.profile import write_signature
    from statsnet.profiling.costs import cost_of
    from statsnet.signatures.aggregation import Part
    from statsnet.signatures.aggregation import aggregate as sum_up
    from statsnet.signatures.mix_request import parse_members
    from statsnet.signatures.storage import load_signature

    output.check_signature_output(path, json_path)
    output.check_file(path)
    requests = parse_members(members, EXAMPLE)
    files = [Path(os.path.expanduser(r.name)) for r in requests]
    for written in (path, json_path):
        json_option.check_no_input(written, files)
    loaded = zip(requests, map(load_signature, files), strict=True)
    signature = sum_up([Part(name=r.name, weight=r.weight, signature=s) for r, s in loaded], cost_of)
    write_signature(signature, path, json_path, level=signature.level)
