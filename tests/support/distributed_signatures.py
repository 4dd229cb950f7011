"""The signature of a small step that two processes made together."""

from __future__ import annotations

from typing import Any

from synthesis_builders import GEMM, RELU, measured, small_signature, tensor

from statsnet.signatures.collectives import Collectives, CollectiveTime
from statsnet.signatures.model import Cluster, Motif, Signature

ELEMENTS, WAITING_S, RUNNING_S = 1_000_000, 0.002, 0.005


def all_reduce(elements: int = ELEMENTS, calls: float = 20.0) -> Cluster:
    bucket = tensor(elements)
    args = ({"tensors": [bucket]}, 2, None, None, True, None)
    return Cluster(op="c10d.allreduce_.default", phase="backward", category="collective", calls=calls, args=args,
                   outputs=(bucket,), flops=float(elements), bytes_read=4.0 * elements,
                   bytes_written=4.0 * elements)  # fmt: skip


def distributed_signature(**changes: Any) -> Signature:
    """12 ms a step, of which 2 ms are spent waiting for 20 all-reduces of 4 MB; these run for 5 ms."""
    waits = Collectives(
        processes=2, backend="gloo", exposed_time_s=WAITING_S, rank_step_latency_s=(0.012, 0.012),
        rank_waiting_s=(WAITING_S, 0.001),
        calls=(CollectiveTime(cluster=1, time_s=RUNNING_S, exposed_time_s=WAITING_S, start_share=0.7),),
    )  # fmt: skip
    times = measured(
        (0.006, WAITING_S, 0.002), ("gemm|mkl", "collective|gloo", "activation|aten"),
        step_latency_s=(0.012,), framework_time_s=0.002, collectives=waits,
    )  # fmt: skip
    fields = {"mode": "training", "clusters": (GEMM, all_reduce(), RELU), "measurements": (times,),
              "motifs": (Motif(clusters=(0, 2), count=4.0), Motif(clusters=(0, 1), count=4.0))}  # fmt: skip
    return small_signature(**{**fields, **changes})
