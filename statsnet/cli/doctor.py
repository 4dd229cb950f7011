"""`statsnet doctor`: what this machine can do, and what to change before it is measured."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from statsnet.cli import json_option, options, output


@json_option.command(short_help="Say what this machine can do, and what to change.")
@click.option(
    "--noise-time", "noise_time_s", type=options.Duration(), default="2s", show_default=True, metavar="TIME",
    help="How long noise is measured.",
)  # fmt: skip
@click.option("--no-noise", is_flag=True, help="Measure nothing.")
def doctor(noise_time_s: float, no_noise: bool, json_path: str | None) -> None:
    """Look at this machine before it is measured: torch, threads, cores and quota, clock speeds, GPUs with their power
    and counters, extras; and how noisy it is right now.

    Each line says what was found and, where that harms measurements or something is missing, what to change.

    Example: statsnet doctor --json
    """
    from statsnet.errors import StatsNetError
    from statsnet.evaluation.machine import Finding, findings
    from statsnet.reporting.machine import idle_memory_finding, machine_report, noise_finding

    found = list(findings())
    data: dict[str, Any] = {"noise": None}
    if not no_noise and found[0].state == "ok":
        from statsnet.evaluation.noise import noise_now

        try:
            with output.progress() as show:
                noise = noise_now(noise_time_s, report=show)
            data["noise"] = asdict(noise) | {"warnings": list(noise.warnings)}
            found += [noise_finding(noise), idle_memory_finding(noise)]
        except StatsNetError as error:
            found.append(Finding(name="noise now", state="unknown", value=error.message, advice=error.hint))
    data["findings"] = [asdict(each) for each in found]
    output.deliver(data, json_path, lambda: machine_report(found))
