"""`statsnet run`: time a proxy."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from statsnet.cli import fleet, json_option, options, output, scenario_options, trace
from statsnet.errors import UsageError
from statsnet.measure import process
from statsnet.measure.at_hand import require_device
from statsnet.signatures.saved_proxy import check_is_proxy

if TYPE_CHECKING:
    from statsnet.evaluation.run_proxy import RunOptions
    from statsnet.evaluation.scenarios import ScenarioOptions
    from statsnet.proxy.folder import ProxyFolder
    from statsnet.signatures.scenarios import ScenarioName
    from statsnet.workloads.settings import Setting


@json_option.command(short_help="Time a proxy on this machine.")
@click.argument("proxies", metavar="PROXY...", nargs=-1, required=True)
@options.device()
@click.option("--threads", type=options.Whole(1, 4096), metavar="N", help="CPU threads (default: torch's).")
@click.option(
    "--processes", type=options.Whole(1, 1000), default=3, show_default=True, metavar="N",
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
@trace.option
@options.trust
@options.sandbox
@fleet.option
@fleet.environment
@click.option(
    "--everywhere", is_flag=True, help="With --engine ray: on one node of every kind, its GPU or else its CPU."
)
@click.option(
    "-o", "--output", "folder", metavar="DIR",
    help="Keep each result in a file; the same command goes on with those that are there.",
)  # fmt: skip
def run(
    proxies: tuple[str, ...],
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
    trace_path: str | None,
    trust: bool,
    engine: str,
    environment: str | None,
    everywhere: bool,
    folder: str | None,
) -> None:
    """Time the network in the folder PROXY, in several processes.

    It runs until the median is known to 1 %, and says where the machine was too noisy for that. Keep the
    results of two devices with --json FILE, and `statsnet compare` tells by which factor they differ.

    With --scenario, MLPerf's load generator asks for steps, and the answers' latencies are the result.

    --trace records three steps more, apart from the timing: Perfetto shows operators, kernels, phases, towers and
    blocks in time.

    Several PROXYs are timed one after the other, and one table compares them. With --engine ray --everywhere each is
    timed on every kind of node of a cluster at once.

    Example: statsnet run my-proxy --json this-machine.json
    """
    not_of_scenarios = ("max_time_s", "trace_path")
    where = fleet.Where(
        engine=engine,
        device=None if everywhere and not options.was_given("device") else device,
        environment=environment,
        everywhere=everywhere,
        folder=folder,
    )
    where.check()
    proxies = tuple({os.path.realpath(name): name for name in proxies}.values())  # each once
    is_many = len(proxies) > 1 or engine != fleet.LOCAL or folder is not None
    if is_many and (scenario or trace_path):
        raise UsageError(
            f"{'--scenario' if scenario else '--trace'} was given with several proxies, --engine or -o",
            cause="it is for one proxy on this machine",
            hint="run the proxy alone",
        )
    scenario_options.check(scenario, of_scenarios=("qps", "latency_bound_s"), not_of_them=not_of_scenarios)
    for written in (json_path, trace_path):
        json_option.check_no_input(written, proxies)
    trace.check(trace_path, json_path)
    for name in proxies:
        check_is_proxy(name)
    if not is_many and scenario is None and setting is None and threads is None:
        process.prepare_on(device)
    from statsnet.evaluation.run_proxy import STEP_LIMITS, RunOptions
    from statsnet.workloads.settings import BASELINE, parse_setting

    (proxy, *_) = proxies
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
        _run_scenario(proxy, asked, json_path)
        return
    wanted = RunOptions(
        device=device,
        threads=threads,
        processes=processes,
        setting=chosen,
        trust=trust,
        limits=replace(STEP_LIMITS, **options.given(min_time_s=min_time_s, max_time_s=max_time_s)),
    )
    if is_many:
        from statsnet.cli.run_many import run_many

        run_many(proxies, wanted, where, json_path)
    else:
        _run_one(proxy, wanted, json_path, trace_path)


def _run_one(proxy: str, wanted: RunOptions, json_path: str | None, trace_path: str | None) -> None:
    from statsnet.evaluation.run_proxy import OF_SIMULATORS, WITHOUT_COLLECTIVES, run_proxy
    from statsnet.proxy.folder import open_proxy
    from statsnet.reporting.results import result_report
    from statsnet.signatures.conversion import plain

    _check_recordable(wanted.setting, trace_path)
    opened = open_proxy(proxy, trust=wanted.trust)
    fit = None if wanted.trust else opened.fit()
    stands_for = opened.spec if opened.is_generated else None  # who changes network.py has another proxy
    output.print_notes(opened.notes)
    if stands_for and stands_for.simulation is not None:
        output.print_notes([OF_SIMULATORS])
        stands_for = None
    if stands_for and stands_for.collectives:
        output.print_notes([WITHOUT_COLLECTIVES])
    require_device(wanted.device)
    with output.progress() as show:
        result = run_proxy(proxy, wanted, report=show)
    output.deliver(plain(result), json_path, lambda: result_report(result, stands_for, fit))
    if trace_path is not None:
        _record(opened, wanted, trace_path)


def _run_scenario(proxy: str, wanted: ScenarioOptions, json_path: str | None) -> None:
    from statsnet.evaluation.scenarios import check_inference, run_scenario
    from statsnet.measure.loadgen import check_library
    from statsnet.proxy.folder import open_proxy
    from statsnet.reporting.scenarios import scenario_report
    from statsnet.signatures.conversion import plain

    opened = open_proxy(proxy, trust=wanted.trust)
    check_inference(opened.spec.mode)
    check_library()
    output.print_notes(opened.notes)
    require_device(wanted.device)
    with output.progress() as show:
        result = run_scenario(proxy, wanted, report=show)
    output.deliver(plain(result), json_path, lambda: scenario_report(result))


def _record(opened: ProxyFolder, wanted: RunOptions, path: str) -> None:
    """The proxy's steps as a recording, under the same setting."""
    from statsnet.measure.control import Control
    from statsnet.profiling.step_recording import RecordNetwork
    from statsnet.proxy.folder import runnable
    from statsnet.workloads.settings import with_threads

    with runnable(opened) as ready:
        task = RecordNetwork(
            folder=str(ready.network_folder.resolve()), network_sha256=ready.network_sha256, device=wanted.device
        )
        trace.write(path, task, Control(setting=with_threads(wanted.setting, wanted.threads)), trace.OF_A_PROXY)


def _check_recordable(setting: Setting, path: str | None) -> None:
    from statsnet.workloads.settings import RUNTIME

    if path is not None and RUNTIME in setting.in_process:
        raise UsageError(
            f"--trace was given with '{setting.name}'",
            cause="torch's profiler sees nothing of another runtime",
            hint="leave out one of them",
        )
