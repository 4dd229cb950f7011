"""The dtype that a mix is computed in."""

from __future__ import annotations

from collections import Counter

from statsnet.errors import UsageError
from statsnet.signatures.mix import Mix
from statsnet.signatures.model import Cluster, Signature
from statsnet.signatures.operators import REAL, bytes_of, tensors_of
from statsnet.workloads.building import DTYPES
from statsnet.workloads.dtypes import MIXED


def common_dtype(mix: Mix) -> str:
    """The dtype that a proxy of these members computes in: theirs; of a member of mixed dtypes, the one in which it
    spends most time. Raises UsageError if they have several."""
    dtypes = sorted({_main_dtype(m.signature) for m in mix.members})
    if len(dtypes) > 1:
        raise UsageError(
            f"the mix holds signatures of {' and '.join(dtypes)}",
            cause="one proxy computes in one dtype",
            hint="profile all members with the same --dtype",
        )
    return dtypes[0]


def _main_dtype(signature: Signature) -> str:
    """The signature's dtype, or if that is mixed, the floating dtype of the operators that take the most time; where no
    times are known, of those that move the most bytes."""
    if signature.dtype != MIXED:
        return signature.dtype
    times = signature.measurements[0].cluster_time_s if signature.measurements else (None,) * len(signature.clusters)
    timed = any(times)
    spent: Counter[str] = Counter()
    for cluster, time_s in zip(signature.clusters, times, strict=True):
        if (dtype := _computed_in(cluster)) is not None:
            spent[dtype] += (time_s or 0.0) if timed else cluster.calls * bytes_of(cluster.args, cluster.outputs)  # type: ignore[assignment]
    return min(spent, key=lambda name: (-spent[name], name)) if spent else "float32"


def _computed_in(cluster: Cluster) -> str | None:
    """The first floating dtype that an operator reads, of a complex one that of its real parts; None without one,
    and for dtypes that no proxy has."""
    read = (REAL.get(t.dtype, t.dtype) for t in tensors_of([*cluster.args, *cluster.outputs]))
    return next((dtype for dtype in read if dtype in DTYPES), None)
