"""Two tiny synthetic signatures whose every characteristic can be computed by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clusters import tensor

from statsnet.signatures.measurement import Measurement
from statsnet.signatures.model import Cluster, Memory, Motif, Signature, Skew, WorkloadName
from statsnet.signatures.storage import save_signature

ENVIRONMENT: dict[str, Any] = {
    "device": "cpu",
    "device_name": "AMD EPYC 7B13",
    "cpu_model": "AMD EPYC 7B13 family 25 model 1 stepping 0",
    "cpu_capability": "AVX2",
    "isa": ["avx2", "fma"],
    "threads": 2,
    "interop_threads": 2,
    "cores": 2,
    "memory_bytes": 8 * 1024**3,
    "torch": "2.13.0+cpu",
    "python": "3.11.7",
    "os": "Linux x86_64",
    "mkl": "2024.2",
    "onednn": "3.12.0",
    "cuda": None,
    "driver": None,
    "allocator": {"MALLOC_TOP_PAD_": "67108864"},
    "settings": {},
}

GEMM = Cluster(
    op="aten.mm.default", phase="forward", category="gemm", calls=4.0,
    args=(tensor(8, 16), tensor(16, 32, strides=(1, 16))), outputs=(tensor(8, 32),),
    flops=8192.0, bytes_read=2560.0, bytes_written=1024.0,
)  # fmt: skip
RELU = Cluster(
    op="aten.relu.default", phase="forward", category="activation", calls=2.0,
    args=(tensor(8, 32),), outputs=(tensor(8, 32),), flops=256.0, bytes_read=1024.0, bytes_written=1024.0,
)  # fmt: skip
EMBEDDING = Cluster(
    op="aten.embedding.default", phase="forward", category="embedding", calls=10.0,
    args=(tensor(1000, 8), tensor(64, dtype="int64", high=1000), -1, False, False), outputs=(tensor(64, 8),),
    flops=0.0, bytes_read=2560.0, bytes_written=2048.0,
    skew=Skew(distinct_share=0.5, top1pct_share=0.25, zipf=1.05),
)  # fmt: skip
OPAQUE = Cluster(
    op="custom.opaque.default", phase="forward", category="other", calls=1.0,
    args=({"tensors": [tensor(8, times=3), None]}, None, "mean", [1, 1], 0.5), outputs=(None, tensor(8)),
)  # fmt: skip


def measure(clusters: tuple[Cluster, ...], times: tuple[float | None, ...], **changes: Any) -> Measurement:
    kernels = {"gemm": "mkl:sgemm", "other": "opaque"}
    fields: dict[str, Any] = {
        "environment": ENVIRONMENT,
        "step_latency_s": (0.010, 0.011, 0.009),
        "warmup_latency_s": (0.02,),
        "profiled_latency_s": (0.0105,),
        "cluster_time_s": times,
        "kernels": tuple(kernels.get(c.category, "aten") for c in clusters),
        "kernel_class": tuple(f"{c.category}|{kernels.get(c.category, 'aten')}|float32|n" for c in clusters),
        "launches": sum(c.calls for c in clusters),
        "framework_time_s": 0.002,
        "idle_time_s": 0.0,
        "unexplained_share": 0.0,
        "coefficient_of_variation": 0.1,
        "source": "profile",
    }
    return Measurement(**(fields | changes))


def dense(**changes: Any) -> Signature:
    """10 ms a step: 6 ms of matrix products (FLOP/byte 2.29), 2 ms of relu (0.125), 2 ms of framework."""
    clusters = (GEMM, RELU)
    fields: dict[str, Any] = {
        "mode": "inference",
        "dtype": "float32",
        "batch": 8,
        "workload": WorkloadName(domain="cv", name="dense", preset="small"),
        "clusters": clusters,
        "motifs": (Motif(clusters=(0, 1), count=2.0),),
        "memory": Memory(parameter_count=512, parameter_bytes=2048, buffer_bytes=0, input_bytes=512,
                         activation_bytes=1024, peak_bytes=5000),
        "measurements": (measure(clusters, (0.006, 0.002)),),
    }  # fmt: skip
    return Signature(**(fields | changes))


def sparse(**changes: Any) -> Signature:
    """2 ms a step: 1 ms of embedding, 0.5 ms of an operator without formula, 0.5 ms of framework."""
    clusters = (EMBEDDING, OPAQUE, RELU)
    fields: dict[str, Any] = {
        "mode": "inference",
        "dtype": "float32",
        "workload": WorkloadName(domain="recsys", name="sparse", preset="small"),
        "clusters": clusters,
        "memory": Memory(parameter_count=8000, parameter_bytes=32000, buffer_bytes=0, input_bytes=512,
                         activation_bytes=2048),
        "measurements": (measure(clusters, (0.001, 0.0005, None), step_latency_s=(0.002,), framework_time_s=0.0005),),
    }  # fmt: skip
    return Signature(**(fields | changes))


@pytest.fixture
def dense_signature() -> Signature:
    return dense()


@pytest.fixture
def sparse_signature() -> Signature:
    return sparse()


@pytest.fixture
def make_dense() -> Callable[..., Signature]:
    return dense


@pytest.fixture
def make_measurement() -> Callable[..., Measurement]:
    return measure


@pytest.fixture
def record() -> dict[str, Any]:
    """An environment record."""
    return dict(ENVIRONMENT)


@pytest.fixture
def profiles(tmp_path: Path) -> Path:
    """A database: cv/dense and recsys/sparse on machine-a, cv/dense (both modes) and cv/wide on machine-b."""
    root = tmp_path / "profiles_db"
    faster = measure((GEMM, RELU), (0.003, 0.001), environment=ENVIRONMENT | {"threads": 8})
    named = {n: WorkloadName(domain="cv", name=n, preset="small") for n in ("dense", "wide")}
    files = {
        "machine-a/cv/dense.inference": dense(),
        "machine-a/recsys/sparse.inference": sparse(),
        "machine-b/cv/dense.inference": dense(measurements=(faster,)),
        "machine-b/cv/dense.training": dense(measurements=(faster,), mode="training", optimizer="sgd"),
        "machine-b/cv/wide.inference": dense(workload=named["wide"], measurements=(faster,), batch=64),
    }
    for name, signature in files.items():
        save_signature(root / f"{name}.json", signature)
    return root
