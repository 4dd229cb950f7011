"""`statsnet profile`: a workload's signature."""

from __future__ import annotations

import os
from typing import Any

import click

from statsnet.cli import options, output
from statsnet.errors import UsageError


@click.command(short_help="Measure a workload and write its signature.")
@click.argument("workload")
@options.mode
@options.device(meta=True)
@click.option("--batch", type=click.IntRange(1), metavar="N", help="Samples in a step.")
@click.option("--dtype", default="float32", show_default=True, metavar="NAME", help="Of model and inputs.")
@click.option("--preset", metavar="NAME", help="A named size of the workload (default: small).")
@click.option("--optimizer", metavar="NAME", help="In training, instead of the workload's own.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="An argument of the factory.")
@click.option(
    "--setting", metavar="S+...",
    help="How the step is to be run, as in run --setting: threads=1, dtype=bfloat16, compile=inductor, "
    "on a GPU graphs=cuda.",
)  # fmt: skip
@options.counters
@options.seed
@options.min_time("2s")
@click.option("-o", "--output", "path", metavar="FILE", help="Where to write the signature.")
@options.json_flag
def profile(
    workload: str,
    mode: str,
    device: str,
    batch: int | None,
    dtype: str,
    preset: str | None,
    optimizer: str | None,
    settings: tuple[str, ...],
    setting: str | None,
    counters: str,
    seed: int,
    min_time_s: float | None,
    path: str | None,
    as_json: bool,
) -> None:
    """Measure WORKLOAD and write its signature: the statistics of its operators, without names or values.

    WORKLOAD is a name that `statsnet list` shows, or a factory of your own, path/to/file.py:factory, which
    returns (model, args).

    Under torchrun all processes run the step together, and the first one's signature is written.

    Example: statsnet profile path/to/model.py:make --mode training -o model.training.json
    """
    if path is None and not as_json:
        raise UsageError("no output was given", hint="-o FILE writes the signature, --json prints it")
    output.check_file(path)
    if counters == "ncu" and "TORCHELASTIC_RUN_ID" in os.environ:
        raise UsageError(
            "hardware counters were asked for under torchrun",
            cause="counting makes a step in one process alone, and this one's processes wait for each other",
            hint="leave --counters away",
        )
    if path == output.STDOUT:
        raise UsageError("'-' is not a file", hint="--json prints the signature to stdout")
    options.check_counters(counters, device)
    if setting is not None and device == "meta":
        raise UsageError(
            f"the setting '{setting}' was given for counting",
            cause="settings change times alone",
            hint="leave --setting or --device meta away",
        )
    overrides = dict(_assignment(text) for text in settings)
    if ":" not in workload and not workload.endswith(".py"):
        from statsnet.workloads import get

        get(workload)  # a mistyped name is found out before a process is started
    from statsnet.measure.process import run_job
    from statsnet.profiling.hardware_counters import counted_signature
    from statsnet.signatures.model import Signature
    from statsnet.signatures.privacy import assert_clean
    from statsnet.signatures.storage import save_signature

    job = {
        "kind": "profile_workload",
        "target": workload,
        "mode": mode,
        "device": device,
        "batch": batch,
        "dtype": dtype,
        "preset": preset,
        "optimizer": optimizer,
        "overrides": overrides,
        "seed": seed,
        **options.given(min_time_s=min_time_s),
        **({"setting": _setting(setting)} if setting is not None else {}),
    }
    why = ""
    with output.progress() as show:
        found = run_job(job, on_progress=show)
        signature = Signature.from_dict(found["signature"])
        # Under torchrun one process cannot make a step alone, which is what counting takes.
        if "launches" in found and counters != "off" and "TORCHELASTIC_RUN_ID" not in os.environ:
            counting = {**job, "kind": "count_workload"}
            signature, why = counted_signature(
                signature, found["launches"], counting, counters, on_progress=show
            )
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK") != "0":
        return
    output.print_notes([*([why] if why else []), *_throttling(signature)])
    if path is not None:
        save_signature(path, signature)
    if as_json:
        assert_clean(signature.to_dict())
        output.print_json(signature.to_dict())
        return
    from statsnet.reporting.signature import signature_report

    output.print_report(signature_report(signature))
    output.print_written(str(path))


def _throttling(signature: Any) -> list[str]:
    """A GPU that was too hot in every attempt, or held at its power cap."""
    return [
        f"the GPU was throttled ({', '.join(m.gpu.power.throttled)}): cool it, raise its power limit, or lock its "
        "clocks lower, and profile again"
        for m in signature.measurements
        if m.gpu is not None and m.gpu.power.throttled
    ]


def _setting(text: str) -> dict[str, Any]:
    from statsnet.workloads.settings import RUNTIME, parse_setting

    parsed = parse_setting(text)
    if RUNTIME in parsed.in_process:
        raise UsageError(
            f"'{text}' was given for a profile",
            cause="a signature holds torch's operators, and another runtime has its own",
            hint=f"time the model there: statsnet validate PROXY --settings {RUNTIME}=NAME",
        )
    return parsed.to_dict()


def _assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise UsageError(f"'{text}' is not KEY=VALUE", hint="for example --set layers=4")
    return key, value
