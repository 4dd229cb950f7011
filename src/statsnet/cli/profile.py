"""`statsnet profile`: a workload's signature."""

from __future__ import annotations

import os

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
    if path == output.STDOUT:
        raise UsageError("'-' is not a file", hint="--json prints the signature to stdout")
    overrides = dict(_assignment(text) for text in settings)
    if ":" not in workload and not workload.endswith(".py"):
        from statsnet.workloads import get

        get(workload)  # a mistyped name is found out before a process is started
    from statsnet.running.child import run_job
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
    }
    with output.progress() as show:
        data = run_job(job, on_progress=show)["signature"]
    if "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK") != "0":
        return
    signature = Signature.from_dict(data)
    if path is not None:
        save_signature(path, signature)
    if as_json:
        assert_clean(signature.to_dict())
        output.print_json(signature.to_dict())
        return
    from statsnet.reporting.signature import signature_report

    output.print_report(signature_report(signature))
    output.print_written(str(path))


def _assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise UsageError(f"'{text}' is not KEY=VALUE", hint="for example --set layers=4")
    return key, value
