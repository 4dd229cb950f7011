"""Small signatures and mixes to export, and the programs that read exports."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from clusters import addmm, attention, cluster, convolution, mm, relu, signature, tensor

from statsnet.exports.build_manifest import manifest_of_signature
from statsnet.exports.manifest import Manifest
from statsnet.signatures.mix import Mix, MixMember
from statsnet.signatures.model import Motif, Signature

ROOT = Path(__file__).parents[2]
REQUIRED, FOLDER = "STATSNET_CONSUMERS", "STATSNET_SIMULATORS"


def small_signature() -> Signature:
    """A few layers of all kinds, each small enough to run."""
    pooled = cluster("aten.max_pool2d_with_indices.default", [tensor(2, 8, 15, 15), [3, 3], [2, 2], [1, 1]],
                     tensor(2, 8, 8, 8), tensor(2, 8, 8, 8, dtype="int64"))  # fmt: skip
    batch_norm = cluster(
        "aten.native_batch_norm.default", [tensor(2, 8, 15, 15), *[tensor(8)] * 4, False, 0.1, 1e-5],
        tensor(2, 8, 15, 15), tensor(0), tensor(0),
    )  # fmt: skip
    indices = tensor(12, dtype="int64", high=50)
    embedding = cluster("aten.embedding.default", [tensor(50, 16), indices, -1, False, False], tensor(12, 16))
    return signature(
        convolution(tensor(2, 3, 29, 30), tensor(8, 3, 3, 3), stride=2, padding=1, bias=True, calls=2),
        batch_norm,
        relu(2, 8, 15, 15, calls=3),
        pooled,
        convolution(tensor(1, 8, 8, 8), tensor(8, 1, 3, 3), padding=1, groups=8),
        convolution(tensor(1, 8, 8, 8), tensor(16, 8, 3, 3), padding=2, dilation=2),
        convolution(tensor(2, 8, 5, 5), tensor(8, 4, 2, 2), stride=2, transposed=True),
        convolution(tensor(1, 4, 20), tensor(6, 4, 5), padding=2),
        addmm(12, 16, 24, calls=4),
        mm(7, 24, 5),
        attention(2, 3, 10, 8, causal=True),
        cluster("aten.add.Tensor", [tensor(4, 6), tensor(6), 1], tensor(4, 6)),
        cluster("aten._softmax.default", [tensor(4, 6), -1, False], tensor(4, 6)),
        cluster("aten.native_layer_norm.default", [tensor(4, 6), [6], tensor(6), tensor(6), 1e-5],
                tensor(4, 6), tensor(4, 1), tensor(4, 1)),
        cluster("aten.mean.dim", [tensor(2, 8, 8, 8), [2, 3], True, None], tensor(2, 8, 1, 1)),
        cluster("aten.cat.default", [{"tensors": [tensor(4, 6, times=2), tensor(4, 3)]}, 1], tensor(4, 15)),
        embedding,
        cluster("aten.topk.default", [tensor(4, 60), 5, -1, True, True], tensor(4, 5), tensor(4, 5, dtype="int64")),
        motifs=(Motif(clusters=(0, 1, 2), count=2),),
    )  # fmt: skip


def small_manifest() -> Manifest:
    return manifest_of_signature(small_signature(), "small")


def mix_of(**members: tuple[float, Signature]) -> Mix:
    total = math.fsum(weight for weight, _ in members.values())
    return Mix(
        members=tuple(
            MixMember(name=f"cv/{name}", weight=weight / total, signature=s, source="file", path=Path(name))
            for name, (weight, s) in sorted(members.items())
        ),
        mode="inference",
        title="a mix",
    )


def missing(what: str) -> None:
    """Skip the test, or fail it where all consumers must be there."""
    if os.environ.get(REQUIRED) == "required":
        pytest.fail(f"{what} is not installed, and {REQUIRED}=required")
    pytest.skip(f"{what} is not installed")


def program(name: str) -> str:
    """The path of a program. The test is skipped where it is not installed."""
    found = shutil.which(name)
    if found is None:
        missing(name)
    assert found is not None
    return found


def simulators_python(module: str) -> str:
    """A Python that can import a simulator, from the environment in STATSNET_SIMULATORS or .venv-simulators."""
    python = Path(os.environ.get(FOLDER) or ROOT / ".venv-simulators", "bin", "python")
    if not python.is_file():
        missing(f"an environment with {module} (folder in {FOLDER}, or .venv-simulators)")
    if subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode:
        missing(module)
    return str(python)
