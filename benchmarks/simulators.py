"""Programs that simulate exported layers, run in environments of their own."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from statsnet.errors import MeasurementError, UsageError
from statsnet.exports.scalesim import sample_config
from statsnet.exports.systolic import Design
from statsnet.signatures.products import Product

ZIGZAG_HARDWARE = {
    "tpu_like": "tpu_like", "edge_tpu_like": "edge_tpu_like", "ascend_like": "ascend_like",
    "tesla_npu_like": "tesla_npu_like", "meta_prototype": "meta_prototype_like",
}  # fmt: skip
"""Digital accelerators that come with ZigZag -> the mapping for each."""

_ZIGZAG = """
import json, logging, pathlib, sys, tempfile, zigzag
from zigzag.api import get_hardware_performance_zigzag
from zigzag.stages.results import save, visualization

cycles = {}

def keep(self, obj, filename):
    if hasattr(obj, "layer"):
        cycles[obj.layer.name] = float(obj.latency_total2)

save.CompleteSaveStage.save_to_json = save.SimpleSaveStage.save_to_json = keep
visualization.print_mapping = lambda mapping: None  # it fails for a layer that an array runs in one cycle
logging.disable(logging.CRITICAL)
inputs = pathlib.Path(zigzag.__file__).parent / "inputs"
model, hardware, mapping = sys.argv[1:]
with tempfile.TemporaryDirectory() as dump:
    get_hardware_performance_zigzag(
        model, str(inputs / "hardware" / f"{hardware}.yaml"), str(inputs / "mapping" / f"{mapping}.yaml"),
        lpf_limit=4, dump_folder=dump, loma_show_progress_bar=False,
    )
print(json.dumps(cycles))
"""


GENZ_SYSTEMS = ((30.0, 60.0), (50.0, 500.0), (100.0, 1000.0), (100.0, 3000.0), (400.0, 1000.0), (1000.0, 3000.0))
"""TFLOP/s and GiB/s (GenZ's "GB/s") of the systems that GenZ models."""

_GENZ = """
import json, sys
from GenZ.operators import GEMM
from GenZ.system import System
from GenZ.unit import Unit

asked, unit = json.load(sys.stdin), Unit()
systems = [System(unit=unit, flops=flops, offchip_mem_bw=rate, bits="bf16") for flops, rate in asked["systems"]]

def latency(rows, columns, depth, system):
    found = GEMM(dim=["layer", 1, columns, rows, depth, 3], density=(1.0, 1.0, 1.0)).get_roofline(system, unit)
    return float(next(value for name, value in found.items() if name.startswith("Latency")))

print(json.dumps([[latency(*sizes, system) for system in systems] for sizes in asked["products"]]))
"""


def scalesim_cycles(python: str | Path, folder: Path, kind: str, design: Design) -> list[int]:
    """Total cycles of each row of `folder`/conv.csv or gemm.csv (`kind`), as SCALE-Sim counts them on a design.

    SCALE-Sim may fail with exit code 0, and its own sum is wrong: its report is read. Raises UsageError if there
    is no such Python, MeasurementError if there is no report, or if it lacks rows.
    """
    name = f"{kind}-{design}".replace(" ", "-")
    (folder / f"{name}.cfg").write_text(config_of(design))
    program = _program(python, "scalesim and numpy below 2.4")
    done = subprocess.run(
        [program, "-m", "scalesim.scale", "-t", f"{kind}.csv", "-l", f"{kind}_layout.csv",
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
            hint="give the Python of an environment with scalesim and numpy below 2.4",
        )
    return [int(float(row[2])) for row in rows]


def zigzag_cycles(python: str | Path, folder: Path, hardware: str) -> float:
    """Weighted cycles of all products in `folder`, an export as onnx-shapes, on one of ZIGZAG_HARDWARE.

    Raises UsageError if there is no such Python, MeasurementError if ZigZag fails or lacks a product.
    """
    program = _program(python, "zigzag-dse and six")
    model = str((folder / "model.onnx").resolve())
    command = [program, "-c", _ZIGZAG, model, hardware, ZIGZAG_HARDWARE[hardware]]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else {}
    nodes = [row for row in csv.DictReader(io.StringIO((folder / "nodes.csv").read_text())) if row["macs"] != "0"]
    if missing := [row["node"] for row in nodes if row["node"] not in found]:
        raise MeasurementError(
            f"ZigZag counted {len(nodes) - len(missing)} of {len(nodes)} products", cause=done.stderr[-300:],
            hint="zigzag-dse 3.9 is known to work",
        )  # fmt: skip
    return sum(float(row["repeats"]) * found[row["node"]] for row in nodes)


def genz_times(python: str | Path, products: Sequence[Product], systems: Sequence[tuple[float, float]]) -> np.ndarray:
    """Milliseconds [products, systems] of dense products in 16 bits, as GenZ models them on systems of so many TFLOP/s
    and GiB/s. Raises UsageError if there is no such Python, MeasurementError if GenZ fails."""
    program = _program(python, "genz-llm")
    asked = json.dumps({"products": [(p.rows, p.columns, p.depth) for p in products], "systems": list(systems)})
    done = subprocess.run([program, "-c", _GENZ], input=asked, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MeasurementError("GenZ failed", cause=done.stderr[-300:], hint="genz-llm 0.0.16 is known to work")
    return np.array(json.loads(done.stdout.splitlines()[-1]), dtype=float).reshape(len(products), len(systems))


def _program(python: str | Path, libraries: str) -> Path:
    """Raises UsageError if there is no such Python."""
    if (program := shutil.which(python)) is None:
        raise UsageError(f"'{python}' is no program", hint=f"give the Python of an environment with {libraries}")
    return Path(program).absolute()


def config_of(design: Design) -> str:
    """The sample configuration for another array and dataflow."""
    text = sample_config()
    for key, default, value in (("ArrayHeight: ", "32", str(design.rows)), ("ArrayWidth: ", "32", str(design.columns)),
                                ("Dataflow: ", "ws", design.dataflow)):  # fmt: skip
        assert key + default in text
        text = text.replace(key + default, key + value)
    return text
