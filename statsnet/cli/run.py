"""`statsnet run`: time a proxy."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from statsnet.cli import json_option, options, output, scenario_options

if TYPE_CHECKING:
    from statsnet.evaluation.scenarios import ScenarioOptions
    from statsnet.signatures.scenarios import ScenarioName


@json_option.command(short_help="Time a proxy on this machine.")
@click.argument("proxy")
@options.device()
@click.option("--threads", type=click.IntRange(1, 4096), metavar="N", help="CPU threads (default: torch's).")
@click.option(
    "--processes", type=click.IntRange(1, 1000), default=3, show_default=True, metavar="N",
    help="Fresh processes; each is one sample. Of a scenario the default is 1.",
)  # fmt: skip
@click.option(
    "--setting", metavar="S+...",
    help="What is to be changed, as in validate --settings: compile=inductor, dtype=bfloat16+channels_last, "
    "runtime=onnxruntime, on a GPU graphs=cuda.",
)  # fmt: skip
@options.min_time("1s, of a scenario 60s")
@options.max_time
@scenario_options.scenario
@scenario_options.qps
@click.option(
    "--latency-bound", "latency_bound_s", type=options.Duration(), metavar="TIME",
    help="Server scenario: 99 of 100 queries must be answered within TIME (default: 5 steps).",
)  # fmt: skip
@options.trust
@options.sandbox
def run(
    proxy: str,
    json_path: str | None,
    device: str,
    threads: int | None,
    processes: int,
    setting: str | None,
    min_time_s: float | None,
    max_time_s: float | None,
    scenario: ScenarioName | None,
    qps: float | None,
    latency_bound_s: float | None,
    trust: bool,
    sandbox: bool,
) -> None:
    """Time the network in the folder PROXY, in several processes.

    It runs until the median is known to 1 %, and says where the machine was too noisy for that. Keep the
    results of two devices with --json FILE, and `statsnet compare` tells by which factor they differ.

    With --scenario, MLPerf's load generator asks for steps, and the answers' latencies are the result.

    Example: statsnet run my-proxy --json this-machine.json
    """
    scenario_options.check(scenario, of_scenarios=("qps", "latency_bound_s"), not_of_them=("max_time_s",))
    from statsnet.evaluation.run_proxy import STEP_LIMITS, RunOptions, run_proxy
    from statsnet.proxy.folder import open_proxy
    from statsnet.workloads.settings import BASELINE, parse_setting

    json_option.check_no_input(json_path, [proxy])
    chosen = parse_setting(setting) if setting is not None else BASELINE
    if scenario is not None:
        from statsnet.evaluation.scenarios import ScenarioOptions

        asked = ScenarioOptions(
            scenario=scenario,
            device=device,
            threads=threads,
            processes=processes if options.was_given("processes") else 1,
            setting=chosen,
            trust=trust,
            **options.given(qps=qps, latency_bound_s=latency_bound_s, min_time_s=min_time_s),
        )
        _run_scenario(proxy, asked, json_path, sandbox=sandbox)
        return
    wanted = RunOptions(
        device=device,
        threads=threads,
        processes=processes,
        setting=chosen,
        trust=trust,
        sandbox=sandbox,
        limits=replace(STEP_LIMITS, **options.given(min_time_s=min_time_s, max_time_s=max_time_s)),
    )
    opened = open_proxy(proxy, trust=trust)
    fit = None if trust else opened.fit()
    stands_for = opened.spec if opened.is_generated else None  # who changes network.py has another proxy
    output.print_notes([opened.note] if opened.note else [])
    options.require_device(device)
    with output.progress() as show:
        result = run_proxy(proxy, wanted, report=show)
    from statsnet.reporting.results import result_report
    from statsnet.signatures.conversion import plain

    output.deliver(plain(result), json_path, lambda: result_report(result, stands_for, fit))


def _run_scenario(proxy: str, wanted: ScenarioOptions, json_path: str | None, *, sandbox: bool) -> None:
    from statsnet.evaluation.scenarios import check_inference, run_scenario
    from statsnet.measure.loadgen import check_library
    from statsnet.measure.sandbox import sandboxed
    from statsnet.proxy.folder import open_proxy
    from statsnet.reporting.scenarios import scenario_report
    from statsnet.signatures.conversion import plain

    opened = open_proxy(proxy, trust=wanted.trust)
    check_inference(opened.spec.mode)
    check_library()
    output.print_notes([opened.note] if opened.note else [])
    options.require_device(wanted.device)
    with output.progress() as show, sandboxed(sandbox):
        result = run_scenario(proxy, wanted, report=show)
    output.deliver(plain(result), json_path, lambda: scenario_report(result))
