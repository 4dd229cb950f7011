"""`statsnet compare`: two results of the same proxy or suite."""

from __future__ import annotations

import click

from statsnet.cli import options, output


@click.command(short_help="Tell how many times faster one result is than another.")
@click.argument("first")
@click.argument("second")
@options.json_file
def compare(first: str, second: str, json_path: str | None) -> None:
    """Tell how many times faster or slower the result SECOND is than FIRST.

    The factor comes with its 95 % interval, which tells whether it is more than noise. Both are files that
    `statsnet run --json` or `statsnet validate --json` wrote, for the same proxy.

    Example: statsnet compare old-machine.json new-machine.json
    """
    from statsnet.evaluation.compare import compare as compare_results
    from statsnet.reporting.results import comparison_report
    from statsnet.signatures.canonical import write_json_atomically
    from statsnet.signatures.storage import load_result

    output.check_file(json_path)
    a, b = load_result(first), load_result(second)
    comparison = compare_results(a, b)
    if json_path == output.STDOUT:
        output.print_json(comparison.to_dict())
        return
    if json_path:
        write_json_atomically(json_path, comparison.to_dict())
    output.print_report(comparison_report(comparison, a, b))
    if json_path:
        output.print_written(json_path)
