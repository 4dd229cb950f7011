"""The task that replays a signature's operators, and its measurement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, cast

import torch

from statsnet import environment
from statsnet.errors import MeasurementError
from statsnet.measure.reference_network import ReferenceNetwork
from statsnet.measure.task import Context, CountableTask, Progress
from statsnet.profiling.gpu_activity import Launch
from statsnet.profiling.replay import count_clusters, replay_clusters
from statsnet.signatures.kernel_class import kernel_class
from statsnet.signatures.measurement import Environment, Measurement
from statsnet.signatures.model import Signature
from statsnet.signatures.timing import Timing
from statsnet.workloads.settings import record


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A signature's measurement by replay in this environment. `failures` names operators that could not be run, and
    why; memory that others had taken may be free later (`lacked_memory`). `launches` are the kernels of one call of
    each cluster. `reference_latency_s` is the reference network's median step meanwhile."""

    measurement: Measurement
    failures: tuple[tuple[str, str], ...] = ()
    lacked_memory: bool = False
    launches: tuple[Launch, ...] | None = None
    reference_latency_s: float | None = None

    @property
    def timing(self) -> Timing:
        return self.measurement.timing

    @property
    def environment(self) -> Mapping[str, Any]:
        return self.measurement.environment


@dataclass(frozen=True, kw_only=True)
class ReplayOperators(CountableTask[Replayed]):
    """Runs a signature's operators one by one, without the model; if a reference network's folder is given, that
    network is timed before and after them."""

    signature: Signature
    device: str = "cpu"
    reference_network: str | None = None

    def run(self, context: Context) -> Replayed:
        torch.manual_seed(0)
        signature = self.signature
        reference = ReferenceNetwork(self.reference_network, self.device) if self.reference_network else None
        if reference:
            reference.warm_up()
            reference.look()
        replay = replay_clusters(
            signature.clusters,
            device=environment.select(self.device),
            progress=lambda done: context.report(Progress(stage="replaying operators", done=done)),
        )
        if reference:
            reference.look()
        if replay.failures and all(time_s is None for time_s in replay.times):
            op, why = replay.failures[0]
            raise MeasurementError("no operator of the signature can be replayed here", cause=f"{op}: {why}")
        recorded = signature.measurements[0] if signature.measurements else None
        slower = _slower(signature, replay.times, recorded)
        per_step = _fill_gaps(signature, replay.times, recorded, slower)
        # The time between operators is the model's own and cannot be replayed. It is scaled like the operators' time.
        framework_s = (recorded.framework_time_s or 0.0) * slower if recorded else 0.0
        implementations = tuple(k or "unknown" for k in replay.kernels)
        described = environment.describe(self.device)
        described["settings"] |= record(context.setting)
        measurement = Measurement(
            environment=cast(Environment, described),
            step_latency_s=(sum(t or 0.0 for t in per_step) + framework_s,),
            warmup_latency_s=(),
            profiled_latency_s=(),
            cluster_time_s=tuple(per_step),
            kernels=implementations,
            kernel_class=tuple(
                kernel_class(c.op, list(c.args), list(c.outputs), k)
                for c, k in zip(signature.clusters, implementations, strict=True)
            ),
            launches=recorded.launches if recorded else sum(c.calls for c in signature.clusters),
            framework_time_s=framework_s,
            idle_time_s=0.0,
            unexplained_share=0.0,
            coefficient_of_variation=0.0,
            source="replay",
        )
        on_gpu = measurement.environment["device"] == "cuda"
        return Replayed(
            measurement=measurement,
            failures=tuple((op, why) for op, why in replay.failures),
            lacked_memory=replay.lacked_memory,
            launches=tuple(replay.launches) if on_gpu else None,
            reference_latency_s=median(reference.latency_s) if reference else None,
        )

    def launch(self, context: Context) -> None:
        torch.manual_seed(0)
        count_clusters(self.signature.clusters, device=environment.select(self.device))


def _slower(signature: Signature, times: list[float | None], recorded: Measurement | None) -> float:
    """Operators' time here ÷ their time where they were recorded."""
    if recorded is None:
        return 1.0
    pairs = [
        (t * c.calls, r)
        for t, c, r in zip(times, signature.clusters, recorded.cluster_time_s, strict=True)
        if t is not None and r is not None
    ]
    return sum(t for t, _ in pairs) / max(sum(r for _, r in pairs), 1e-12)


def _fill_gaps(
    signature: Signature, times: list[float | None], recorded: Measurement | None, slower: float
) -> list[float | None]:
    """Seconds per step; a cluster that could not be replayed keeps its recorded time, scaled like the others."""
    per_step = [None if t is None else t * c.calls for t, c in zip(times, signature.clusters, strict=True)]
    if recorded is None:
        return per_step
    return [
        r * slower if t is None and r is not None else t for t, r in zip(per_step, recorded.cluster_time_s, strict=True)
    ]
