"""Options of scenarios, which `run` and `validate` share, and what they do not go with."""

from __future__ import annotations

import click

from statsnet.cli import options
from statsnet.errors import UsageError
from statsnet.signatures.scenarios import SCENARIOS

scenario = click.option(
    "--scenario",
    type=options.Choice(SCENARIOS),
    help="Have MLPerf's load generator ask for steps, as this scenario does.",
)
qps = click.option(
    "--qps", type=float, metavar="N",
    help="Rate of the server scenario, queries per second (default of run: look for the highest VALID one; of "
    "validate: 30 % of what the step allows).",
)  # fmt: skip


def check(scenario: str | None, *, of_scenarios: tuple[str, ...], not_of_them: tuple[str, ...]) -> None:
    """Raises UsageError for an option of scenarios without one, and for an option that scenarios do not have. Both name
    the command's parameters."""
    option = options.first_given(*(not_of_them if scenario else of_scenarios))
    if option is None:
        return
    if scenario:
        raise UsageError(
            f"{option} does not go with --scenario",
            cause="the load generator decides by --min-time alone how long it asks" if option == "--max-time" else "",
            hint=f"leave out {option}",
        )
    raise UsageError(f"{option} belongs to a scenario, and none was given", hint="--scenario server")
