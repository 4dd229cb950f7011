"""`statsnet compare`: results of the same proxy or suite, from any number of machines and settings."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from statsnet.cli import json_option, options, output
from statsnet.display import told_path
from statsnet.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from statsnet.reporting.tables import Report

FORMATS = ("table", "markdown", "csv", "html")
_PER_HOUR = {"s": 3600.0, "min": 60.0, "h": 1.0, "day": 1 / 24, "month": 1 / 730}


@json_option.command(short_help="Tell how many times faster one result is than others.")
@click.argument("first", metavar="RESULT")
@click.argument("second", metavar="RESULT")
@click.argument("others", nargs=-1, metavar="[RESULT]...")
@click.option(
    "--baseline", "baselines", multiple=True, metavar="RESULT",
    help="The one that others are compared with (default: the first); once for each proxy, if there are several.",
)  # fmt: skip
@click.option(
    "--price", "prices", multiple=True, metavar="RESULT=PRICE",
    help="What a result's machine costs: here.json=1.20/h, in any currency; may be repeated. Gives cost per step.",
)  # fmt: skip
@click.option(
    "--format", "form", type=options.Choice(FORMATS), default="table", show_default=True, help="What goes to stdout."
)
def compare(
    first: str,
    second: str,
    others: tuple[str, ...],
    baselines: tuple[str, ...],
    prices: tuple[str, ...],
    form: str,
    json_path: str | None,
) -> None:
    """Tell how many times faster or slower each RESULT is than a baseline.

    Each factor comes with its 95 % interval, which tells whether it is more than noise. A result is a file that
    `statsnet run --json FILE` or `statsnet validate --json FILE` wrote. Results of several proxies are each compared
    with their own baseline, the one from the same environment, and their geometric mean is given.

    Example: statsnet compare old-machine.json new-machine.json --price new-machine.json=1.20/h
    """
    files = (first, second, *others)
    json_option.check_no_input(json_path, files)
    if json_path == output.STDOUT and form != "table":
        raise UsageError(f"--json and --format {form} both go to stdout", hint=f"--json=FILE --format {form}")
    json_option.check_replaces_none(json_path, ("statsnet.result", "statsnet.scenario"))
    costs = _prices(prices, files)
    if _are_scenarios(files):
        _compare_scenarios(files, baselines, prices, form, json_path)
        return
    from statsnet.evaluation.standings import NamedResult, standings
    from statsnet.signatures.storage import load_result

    told = _told_names(files, form)
    results = [
        NamedResult(name=told[name], result=load_result(Path(name)), price_per_h=costs.get(name)) for name in files
    ]
    found = standings(results, [told.get(name, name) for name in baselines])
    from statsnet.reporting.standings import standings_csv, standings_report

    shown = _Shown(found.to_dict(), lambda: standings_report(found), lambda: standings_csv(found))
    _show(shown, form, json_path, _words(files, baselines, prices))


def _told_names(files: Sequence[str], form: str) -> dict[str, str]:
    """What the results are called: as they were given; on a page that others may read, without folders of absolute
    paths, and with numbers where that leaves two of them with one name."""
    if form not in ("markdown", "html"):
        return {name: name for name in files}
    told: dict[str, str] = {}
    for name in files:
        same = sum(told_path(other) == told_path(name) for other in told)
        told.setdefault(name, f"{told_path(name)} ({same + 1})" if same else told_path(name))
    return told


@dataclass(frozen=True, slots=True)
class _Shown:
    """What was found, as JSON, tables and CSV."""

    data: dict[str, Any]
    report: Callable[[], Report]
    csv: Callable[[], str]


def _words(files: Sequence[str], baselines: Sequence[str], prices: Sequence[str]) -> list[str]:
    """The command as a page tells it, without its format."""
    words = ["statsnet", "compare", *map(told_path, files)]
    words += [word for each in baselines for word in ("--baseline", told_path(each))]
    told_prices = (f"{told_path(name)}={price}" for name, _, price in (each.rpartition("=") for each in prices))
    return words + [word for each in told_prices for word in ("--price", each)]


def _show(shown: _Shown, form: str, json_path: str | None, words: Sequence[str]) -> None:
    from statsnet.reporting.html import markup, page

    if form == "table":
        output.deliver(shown.data, json_path, shown.report)
        return
    if json_path is not None:
        output.save(json_path, shown.data)
    if form == "csv":
        click.echo(shown.csv(), nl=False)
    elif form == "markdown":
        click.echo(markup.markdown(shown.report()), nl=False)
    else:
        body = page.command(shlex.join([*words, "--format", "html"])) + markup.html(shown.report())
        click.echo(page.page("Results compared", body), nl=False)


def _are_scenarios(files: Sequence[str]) -> bool:
    """Raises UsageError for signatures, and where some are results of scenarios and others are not."""
    kinds = {name: json_option.kind_if_known(Path(name)) for name in files}
    of_scenarios = [name for name, kind in kinds.items() if kind == "statsnet.scenario"]
    others = [name for name, kind in kinds.items() if kind == "statsnet.result"]
    if signatures := [name for name, kind in kinds.items() if kind == "statsnet.signature"]:
        raise UsageError(
            f"'{signatures[0]}' is a signature, not a result",
            cause="compare takes what `statsnet run` and `statsnet validate` write with --json",
            hint="statsnet report ONE OTHER -o page.html shows signatures side by side",
        )
    if of_scenarios and others:
        raise UsageError(
            "the results are not comparable",
            cause=f"'{of_scenarios[0]}' was measured in a scenario, '{others[0]}' holds times of steps",
            hint="compare runs in one scenario, or runs without",
        )
    return bool(of_scenarios)


def _compare_scenarios(
    files: Sequence[str], baselines: Sequence[str], prices: Sequence[str], form: str, json_path: str | None
) -> None:
    from statsnet.evaluation.scenario_compare import NamedScenario, scenario_standings
    from statsnet.reporting.scenarios import scenario_standings_csv, scenario_standings_report
    from statsnet.signatures.storage import load_scenario

    if prices or len(baselines) > 1:
        raise UsageError(
            f"{'--price' if prices else 'a second --baseline'} does not go with results of scenarios",
            hint="leave it out",
        )
    told = _told_names(files, form)
    named = [NamedScenario(name=told[name], result=load_scenario(Path(name))) for name in files]
    found = scenario_standings(named, next((told.get(name, name) for name in baselines), None))
    report, csv = (lambda: scenario_standings_report(found)), (lambda: scenario_standings_csv(found))
    _show(_Shown(found.to_dict(), report, csv), form, json_path, _words(files, baselines, ()))


def _prices(texts: Sequence[str], files: Sequence[str]) -> dict[str, float]:
    """`here.json=1.20/h` -> {"here.json": 1.2}, per hour. Raises UsageError for another text, and for a file that is
    not compared."""
    prices = {}
    for text in texts:
        name, _, price = text.rpartition("=")
        match = re.fullmatch(r"(\d*\.?\d+(?:e[+-]?\d+)?)/([a-z]+)", price)
        if not name or not match or match[2] not in _PER_HOUR or not math.isfinite(float(match[1])):
            raise UsageError(
                f"'{text}' is not a price",
                cause="a result, '=', a number and the time that it pays for are expected",
                hint=f"--price {files[0]}=1.20/h (or /{', /'.join(unit for unit in _PER_HOUR if unit != 'h')})",
            )
        if name not in files:
            raise UsageError(
                f"there is a price for '{name}', which is none of the results",
                hint=did_you_mean(name, files, otherwise=f"name it as on the command line: {', '.join(files)}", most=1),
            )
        prices[name] = float(match[1]) * _PER_HOUR[match[2]]
    return prices
