"""`statsnet compare`: two results of the same proxy or suite."""

from __future__ import annotations

import click

from statsnet.cli import json_option, output


@json_option.command(short_help="Tell how many times faster one result is than another.")
@click.argument("first")
@click.argument("second")
def compare(first: str, second: str, json_path: str | None) -> None:
    """Tell how many times faster or slower the result SECOND is than FIRST.

    The factor comes with its 95 % interval, which tells whether it is more than noise. Both are files that
    `statsnet run --json FILE` or `statsnet validate --json FILE` wrote, for the same proxy.

    Example: statsnet compare old-machine.json new-machine.json
    """
    from statsnet.evaluation.compare import compare as compare_results
    from statsnet.reporting.results import comparison_report
    from statsnet.signatures.storage import load_result

    json_option.check_no_input(json_path, [first, second])
    a, b = load_result(first), load_result(second)
    comparison = compare_results(a, b)
    output.deliver(comparison.to_dict(), json_path, lambda: comparison_report(comparison, a, b))
