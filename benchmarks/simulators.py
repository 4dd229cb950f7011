"""Programs that simulate exported layers, run in environments of their own."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from pathlib import Path

from statsnet.errors import MeasurementError, UsageError
from statsnet.exports.scalesim import CONFIG
from statsnet.exports.systolic import Design

_HINT = "give the Python of an environment with scalesim and numpy below 2.4"


def scalesim_cycles(python: str | Path, folder: Path, kind: str, design: Design) -> list[int]:
    """Total cycles of each row of `folder`/conv.csv or gemm.csv (`kind`), as SCALE-Sim counts them on a design.

    SCALE-Sim may fail with exit code 0, and its own sum is wrong: its report is read. Raises UsageError if there
    is no such Python, MeasurementError if there is no report, or if it lacks rows.
    """
    name = f"{kind}-{design}".replace(" ", "-")
    (folder / f"{name}.cfg").write_text(config_of(design))
    if (program := shutil.which(python)) is None:
        raise UsageError(f"'{python}' is no program", hint=_HINT)
    done = subprocess.run(
        [Path(program).absolute(), "-m", "scalesim.scale", "-t", f"{kind}.csv", "-l", f"{kind}_layout.csv",
         "-c", f"{name}.cfg", "-p", name, "-i", kind],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    reports = list((folder / name).rglob("COMPUTE_REPORT.csv"))
    rows = list(csv.reader(io.StringIO(reports[0].read_text())))[1:] if reports else []
    wanted = len((folder / f"{kind}.csv").read_text().splitlines()) - 1
    if len(rows) != wanted:
        raise MeasurementError(
            f"SCALE-Sim reported {len(rows)} of {wanted} layers",
            cause=(done.stderr or done.stdout)[-300:],
            hint=_HINT,
        )
    return [int(float(row[2])) for row in rows]


def config_of(design: Design) -> str:
    """The sample configuration for another array and dataflow."""
    text = CONFIG
    for key, default, value in (("ArrayHeight: ", "32", str(design.rows)), ("ArrayWidth: ", "32", str(design.columns)),
                                ("Dataflow: ", "ws", design.dataflow)):  # fmt: skip
        assert key + default in text
        text = text.replace(key + default, key + value)
    return text
