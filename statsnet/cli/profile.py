"""`statsnet profile`: a workload's signature."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from statsnet.cli import fleet, json_option, options, output, trace
from statsnet.cli.profile_many import Wanted, are_many, profile_many, profile_mix
from statsnet.environment.launch import launched_together
from statsnet.errors import UsageError
from statsnet.measure import sandbox
from statsnet.measure.at_hand import check_counters, check_together
from statsnet.signatures.limits import MOST_PROCESSES

if TYPE_CHECKING:
    from statsnet.measure.control import Control
    from statsnet.measure.timing_tasks import Model
    from statsnet.profiling.tasks import ProfileWorkload
    from statsnet.signatures.model import Level, Signature


@json_option.command(short_help="Measure a workload and write its signature.")
@click.argument("workloads", metavar="[WORKLOAD]...", nargs=-1)
@click.option("--mix", metavar=options.MIX, help="Profile the members of a mix that are missing in the folder -o DIR.")
@options.mode
@options.device(meta=True)
@click.option("--batch", type=options.Whole(1), metavar="N", help="Samples in a step.")
@click.option(
    "--dtype", metavar="NAME",
    help="Cast the model's main floating dtype to this one, in parameters, buffers and inputs (default: as it is).",
)  # fmt: skip
@click.option("--preset", metavar="NAME", help="A named size of the workload (default: small).")
@click.option("--optimizer", metavar="NAME", help="In training, instead of the workload's own.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="An argument of the factory.")
@click.option(
    "--setting", metavar="S+...",
    help="How the step is to be run, as in run --setting: threads=1, dtype=bfloat16, compile=inductor, "
    "on a GPU graphs=cuda.",
)  # fmt: skip
@click.option(
    "--nproc", "processes", type=options.Whole(2, MOST_PROCESSES), metavar="N",
    help="Start N processes that run the step together, as torchrun does; when the factory runs, they are one group. "
    "With --device meta none is started, and the first one is counted.",
)  # fmt: skip
@click.option(
    "--group-timeout",
    "group_timeout_s",
    type=options.Duration(),
    metavar="TIME",
    help="How long one of several processes waits for another in a collective (default 10min).",
)
@options.counters
@options.level
@options.seed
@options.min_time("2s")
@click.option(
    "--check", is_flag=True,
    help="Compare a step's counts with torch's FlopCounterMode and profiler; exit code 1 if they do not agree.",
)  # fmt: skip
@trace.option
@options.sandbox
@fleet.option
@fleet.environment
@click.option("-o", "--output", "path", metavar="FILE|DIR", help="Where to write the signature, or those of several.")
def profile(
    workloads: tuple[str, ...],
    mix: str | None,
    mode: str,
    device: str,
    batch: int | None,
    dtype: str | None,
    preset: str | None,
    optimizer: str | None,
    assignments: tuple[str, ...],
    setting: str | None,
    processes: int | None,
    group_timeout_s: float | None,
    counters: str,
    level: Level,
    seed: int,
    min_time_s: float | None,
    check: bool,
    trace_path: str | None,
    engine: str,
    environment: str | None,
    path: str | None,
    json_path: str | None,
) -> None:
    """Measure WORKLOAD and write its signature: the statistics of its operators, without names or values.

    WORKLOAD is a name that `statsnet list` shows, or a factory of your own, path/to/file.py:factory, which
    returns (model, args).

    With --mix its members are profiled that have no signature of this machine yet, into a folder that
    `statsnet synthesize --profiles DIR` reads. Each member's sizes stand in the mix's file.

    Several WORKLOADs, or patterns such as 'cv/*', go into a folder, -o DIR, in the same way: what it has is kept. With
    --engine ray the nodes of a cluster measure them, several at once.

    --trace records three steps more, apart from the measuring: Perfetto shows operators, kernels, phases and modules in
    time. Such a file is not for sharing.

    With --nproc, or under torchrun, several processes run the step together. The signature is the first one's, with
    how long each of them waits for the others. With --nproc and --device meta it is counted, and no other is started.

    Example: statsnet profile path/to/model.py:make --mode training -o model.training.json
    """
    _check_arguments(workloads, mix)
    fleet.check(engine, environment)
    many = mix is None and are_many(workloads, engine)
    several = "--mix" if mix is not None else "several workloads or --engine" if many else None
    _check_asked(several, device, check, trace_path)
    _check_files(several, check, path, json_path, trace_path)
    if not several:
        for written in (path, json_path, trace_path):
            json_option.check_no_input(written, [workloads[0].rpartition(":")[0] or None])
    if processes is not None:
        _check_one_workload(several or ("--check" if check else "--trace" if trace_path is not None else None))
    check_counters(counters, device)
    check_together(processes or 1, device, counters, sandboxed=sandbox.is_on())
    if group_timeout_s is not None:
        _check_group(processes, device)
    if several:
        wanted = Wanted(
            mode=mode, folder=path or "", device=device, counters=counters, level=level, seed=seed,
            min_time_s=min_time_s, engine=engine, environment=environment,
        )  # fmt: skip
        if mix is not None:
            profile_mix(mix, wanted)
        else:
            profile_many(workloads, wanted, preset=preset, batch=batch, dtype=dtype)
        return
    (workload,) = workloads
    _check_workload(workload)
    from statsnet.measure.control import Control
    from statsnet.measure.timing_tasks import Model
    from statsnet.profiling.members import setting_of_profile

    model = Model(
        target=workload, mode=mode, preset=preset, batch=batch, dtype=dtype, seed=seed, optimizer=optimizer,
        overrides=dict(_assignment(text) for text in assignments),
    )  # fmt: skip
    if check and not _check_counts(model, device, beside_json=json_path == output.STDOUT):
        raise SystemExit(1)
    control = Control(**options.given(setting=None if setting is None else setting_of_profile(setting, device)))
    if path is not None or json_path is not None:
        from statsnet.profiling.tasks import ProfileWorkload

        given = options.given(min_time_s=min_time_s, group_timeout_s=group_timeout_s)
        task = ProfileWorkload(model=model, device=device, **given)
        signature = _measured(task, control, counters, processes)
        if signature is None:
            return
        write_signature(signature, path, json_path, level=level)
    if trace_path is not None:
        from statsnet.profiling.step_recording import RecordWorkload

        trace.write(trace_path, RecordWorkload(model=model, device=device), control, trace.OF_A_MODEL)


def _check_workload(workload: str) -> None:
    """So that a mistyped name is reported before a process is started."""
    if ":" not in workload and not workload.endswith(".py"):
        from statsnet.workloads import get

        get(workload)
    else:
        from statsnet.workloads.loading import check_file

        check_file(workload)
        sandbox.show(Path(workload.rpartition(":")[0]).parent)  # what lies beside the factory is read with it


def _measured(task: ProfileWorkload, control: Control, counters: str, processes: int | None) -> Signature | None:
    """None in all but the first of several processes."""
    from statsnet.profiling.members import profiled_signature
    from statsnet.synthesis.bench.machine_speed import beside_reference

    # One of several processes cannot make a step alone, which is what counting takes.
    counting = "off" if processes or launched_together() else counters
    with beside_reference(task) as task, output.progress() as show:
        signature, notes = profiled_signature(task, counting, control=control, report=show, processes=processes or 1)
    if launched_together() and os.environ.get("RANK") != "0":
        return None
    output.print_notes(notes)
    return signature


def write_signature(signature: Signature, path: str | None, json_path: str | None, *, level: Level) -> None:
    """The signature at a level into its files, and what there is to read of it onto the terminal."""
    from statsnet.profiling.costs import cost_of
    from statsnet.reporting.signature import signature_report
    from statsnet.signatures.levels import coarsen
    from statsnet.signatures.privacy import assert_clean
    from statsnet.signatures.storage import save_signature

    signature = coarsen(signature, level, cost_of)
    files = dict.fromkeys(name for name in (path, json_path) if name not in (None, output.STDOUT))
    for name in files:
        save_signature(name, signature)
    if json_path == output.STDOUT:
        data = signature.to_dict()
        assert_clean(data)
        output.print_json(data)
        return
    output.print_report(signature_report(signature))
    for name in files:
        output.print_written(name)


def _check_counts(model: Model, device: str, *, beside_json: bool) -> bool:
    """Print a step's counts beside torch's, to stderr where JSON goes to stdout; whether they agree."""
    from statsnet.measure import process
    from statsnet.profiling.check import CheckWorkload
    from statsnet.reporting.check import check_report

    with output.progress() as show:
        found = process.run(CheckWorkload(model=model, device=device), report=show)
    output.print_report(check_report(found), stream=sys.stderr if beside_json else sys.stdout)
    return found.flops_agree and found.calls_agree


def _check_arguments(workloads: tuple[str, ...], mix: str | None) -> None:
    if bool(workloads) == (mix is not None):
        raise UsageError(
            "no workload was given" if mix is None else "a workload and --mix were both given",
            hint="give a workload, which `statsnet list` shows, or --mix FILE",
        )


def _check_asked(several: str | None, device: str, check: bool, trace_path: str | None) -> None:
    if device == "meta" and trace_path is not None:
        raise UsageError(
            "--trace was given for counting",
            cause="nothing runs on fake tensors",
            hint="leave out --trace or --device meta",
        )
    if check and (several or device == "meta"):
        raise UsageError(
            f"--check was given with {several or '--device meta'}",
            cause="it runs one workload's step on a device, beside torch's own counters",
            hint="check one workload at a time, on cpu or cuda",
        )


def _check_files(
    several: str | None, check: bool, path: str | None, json_path: str | None, trace_path: str | None
) -> None:
    if not (check or trace_path or several) or path is not None or json_path is not None:
        output.check_signature_output(path, json_path)
    if not several:  # a missing folder is refused with those of many
        output.check_file(path)
    trace.check(trace_path, path, json_path)


def _check_one_workload(option: str | None) -> None:
    """`option` was given too, and several processes do not go with it."""
    if option is not None:
        raise UsageError(
            f"--nproc and {option} were both given",
            cause="several processes only measure one workload's step together",
            hint="leave out one of them",
        )


def _check_group(processes: int | None, device: str) -> None:
    if device == "meta" or not (processes or launched_together()):
        raise UsageError(
            f"--group-timeout was given for {'counting' if device == 'meta' else 'one process'}",
            cause="it is how long one of several processes waits for another",
            hint="leave it out" + ("" if processes else ", or give --nproc"),
        )


def _assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise UsageError(f"'{text}' is not KEY=VALUE", hint="for example --set layers=4")
    return key, value
