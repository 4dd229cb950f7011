"""`statsnet validate`: a proxy against the workloads it stands for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import fleet, json_option, options, output, scenario_options
from statsnet.errors import UsageError
from statsnet.measure import process
from statsnet.measure.at_hand import require_device
from statsnet.signatures.saved_proxy import check_is_proxy

if TYPE_CHECKING:
    from statsnet.evaluation.scenario_suite import SuiteScenarioOptions
    from statsnet.evaluation.validate import ValidateOptions
    from statsnet.signatures.scenarios import ScenarioName


@json_option.command(short_help="Compare a proxy with the workloads it stands for.")
@click.argument("proxy")
@click.option(
    "--rounds", type=options.Whole(1, 1000), metavar="N",
    help="How often everything is measured, in turn (default: 2; with --settings up to 8, until every factor is known "
    "to 1.5 %).",
)  # fmt: skip
@click.option(
    "--settings",
    metavar="S,...",
    help="Compare time factors under these, a comma between two and a + within one: threads=1, onednn=sse41, "
    "mkl=compatible, aten=default, mkldnn=off, dtype=bfloat16, channels_last, precision=medium, compile=inductor, "
    "runtime=onnxruntime, runtime=openvino, runtime=iree; on a GPU also graphs=cuda.",
)
@click.option(
    "--resume", "log_path", metavar="FILE",
    help="Keep the times under settings in FILE, round by round; what it holds already is not measured again.",
)  # fmt: skip
@click.option("--fit", is_flag=True, help="Measure the fit too, where --settings is given.")
@options.models
@options.profiles
@options.device()
@options.min_time("2s, of the proxy 1s; under settings 5s, of a scenario 60s")
@options.max_time
@scenario_options.scenario
@scenario_options.qps
@options.trust
@options.sandbox
@fleet.option
@fleet.environment
def validate(
    proxy: str,
    json_path: str | None,
    rounds: int | None,
    settings: str | None,
    log_path: str | None,
    fit: bool,
    models: tuple[str, ...],
    profiles: str | None,
    device: str,
    min_time_s: float | None,
    max_time_s: float | None,
    scenario: ScenarioName | None,
    qps: float | None,
    trust: bool,
    engine: str,
    environment: str | None,
) -> None:
    """Measure the workloads that PROXY stands for and the proxy itself, in turn, and compare them.

    Without --settings every characteristic is measured again: what was asked for, what the proxy does, and
    how much two rounds of the suite differ among themselves. With --settings only times are taken: the
    suite's factor under each setting against the proxy's. A member whose model is not at hand is replayed
    from its signature; --model names the file of a model of your own.

    With --scenario, MLPerf's load generator asks the workloads, each its share of the queries, and the proxy: does
    its p99 change by the suite's factor?

    With --engine ray the nodes of a cluster measure: each a round, or one workload under all settings.

    Example: statsnet validate my-proxy --settings threads=1,onednn=sse41
    """
    fleet.check(engine, environment)
    _check_on_fleet(engine)
    scenario_options.check(scenario, of_scenarios=("qps",), not_of_them=("max_time_s", "log_path", "fit"))
    check_is_proxy(proxy)
    from statsnet.workloads.settings import parse_settings

    json_option.check_no_input(json_path, [proxy, log_path])
    if log_path == output.STDOUT:
        raise UsageError("'-' was given for --resume", hint="name a file: it is made if there is none")
    output.check_file(log_path)
    if log_path is not None and settings is None:
        raise UsageError(
            "--resume keeps times under settings, and none are given",
            hint="give --settings, or leave out --resume",
        )
    if max_time_s is not None and settings is None:
        raise UsageError(
            "--max-time ends the timing of steps under settings, and none are given",
            hint="give --settings, or leave out --max-time",
        )
    changed = parse_settings(settings) if settings is not None else ()
    if engine == fleet.LOCAL and scenario is None:
        process.prepare_on(device)
    from statsnet.evaluation.own_models import parse_model
    from statsnet.evaluation.validate import ValidateOptions
    from statsnet.measure.timing_tasks import Limits

    if scenario is not None:
        from statsnet.evaluation.scenario_suite import SuiteScenarioOptions

        asked = SuiteScenarioOptions(
            scenario=scenario,
            settings=changed,
            profiles=profiles,
            device=device,
            trust=trust,
            models=tuple(map(parse_model, models)),
            **options.given(qps=qps, min_time_s=min_time_s, rounds=rounds),
        )
        _validate_scenario(proxy, asked, json_path)
        return
    wanted = ValidateOptions(
        rounds=rounds,
        settings=changed,
        fit=fit,
        profiles=profiles,
        device=device,
        trust=trust,
        limits=Limits(min_time_s=min_time_s, max_time_s=max_time_s),
        log_path=Path(log_path) if log_path is not None else None,
        models=tuple(map(parse_model, models)),
        tell=lambda text: output.print_notes([text]),
    )
    _validate(proxy, wanted, engine, environment, json_path)


def _validate(proxy: str, wanted: ValidateOptions, engine: str, environment: str | None, json_path: str | None) -> None:
    from statsnet.evaluation.validate import validate_proxy
    from statsnet.measure.process import measuring_environment
    from statsnet.proxy.folder import open_proxy
    from statsnet.reporting.validation import validation_report
    from statsnet.signatures.conversion import plain
    from statsnet.workloads.settings import unchanging

    opened = open_proxy(proxy, trust=wanted.trust)
    output.print_notes(opened.notes)
    if engine == fleet.LOCAL:
        require_device(wanted.device)
        output.print_notes(unchanging(wanted.settings, measuring_environment(wanted.device)["threads"]))
    try:
        with fleet.pooled(engine, wanted.device, environment, opened.spec.mode) as pool, output.progress() as show:
            result = validate_proxy(proxy, replace(wanted, pool=pool), report=show)
    except KeyboardInterrupt:
        if wanted.log_path is not None and wanted.log_path.exists():
            click.echo(f"statsnet: the same command goes on with the rounds in '{wanted.log_path}'", err=True)
        raise
    output.deliver(plain(result), json_path, lambda: validation_report(result))


def _check_on_fleet(engine: str) -> None:
    if engine != fleet.LOCAL and (option := options.first_given("models", "scenario")):
        raise UsageError(
            f"{option} and --engine were both given",
            cause="a model of your own is a file of this machine"
            if option == "--model"
            else "load is generated on one machine",
            hint="validate on this machine: leave out --engine",
        )


def _validate_scenario(proxy: str, wanted: SuiteScenarioOptions, json_path: str | None) -> None:
    from statsnet.evaluation.scenario_suite import validate_scenario
    from statsnet.reporting.scenarios import scenario_report
    from statsnet.signatures.conversion import plain

    require_device(wanted.device)
    with output.progress() as show:
        result = validate_scenario(proxy, wanted, report=show)
    output.deliver(plain(result), json_path, lambda: scenario_report(result))
