"""The onnx export in IREE: compiled for this processor and run, and compiled for another one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from clusters import convolution, mm, relu, signature, tensor
from exporting import missing

from statsnet.exports.build_manifest import manifest_of_signature
from statsnet.exports.onnx_model import Onnx
from statsnet.exports.registry import export, write

RISCV = ["--iree-llvmcpu-target-triple=riscv64-unknown-linux-gnu", "--iree-llvmcpu-target-abi=lp64d",
         "--iree-llvmcpu-target-cpu-features=+m,+a,+f,+d,+v"]  # fmt: skip


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of three layers as IREE imports it."""
    try:
        import iree.compiler
        import iree.runtime  # noqa: F401
    except ImportError:
        missing("IREE")
    folder = tmp_path_factory.mktemp("iree")
    layers = signature(mm(8, 16, 4), convolution(tensor(1, 3, 8, 8), tensor(4, 3, 3, 3)), relu(5, 7))
    write(export(Onnx(), manifest_of_signature(layers, "three")), folder)
    command = [sys.executable, "-m", "iree.compiler.tools.import_onnx", folder / "model.onnx", "-o", folder / "g.mlir"]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "g.mlir"


def compiled(graph: Path, *arguments: str) -> bytes:
    from iree.compiler import compile_file

    return bytes(compile_file(str(graph), target_backends=["llvm-cpu"], extra_args=[*arguments]))


def test_it_computes_what_onnxruntime_does(graph: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    from iree import runtime

    session = onnxruntime.InferenceSession(graph.with_name("model.onnx"), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    inputs = {given.name: rng.standard_normal(given.shape).astype(np.float32) for given in session.get_inputs()}
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    module = runtime.VmModule.copy_buffer(context.instance, compiled(graph, "--iree-llvmcpu-target-cpu=host"))
    context.add_vm_module(module)
    (name,) = [name for name in module.function_names if "$" not in name and not name.startswith("__")]
    outputs = context.modules[module.name][name](*inputs.values())
    for found, expected in zip(outputs, session.run(None, inputs), strict=True):
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-4, atol=1e-5)


def test_it_compiles_for_another_processor(graph: Path) -> None:
    binary = compiled(graph, *RISCV)
    assert b"riscv64" in binary and binary != compiled(graph, "--iree-llvmcpu-target-cpu=generic")
