"""The errand of profiling: a workload's signature, measured on whichever machine it is sent to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from statsnet.measure.errand import Errand
from statsnet.measure.network_file import written
from statsnet.profiling.members import profiled_signature
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.progress import Report, silent
from statsnet.signatures.model import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledSignature:
    """A signature, and sentences for the user."""

    signature: Signature
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ProfileErrand(Errand[ProfiledSignature]):
    """Profiles as the task says, beside the reference network with this source (None: beside none); `counters` as in
    profiled_signature."""

    task: ProfileWorkload
    counters: str
    reference_source: str | None = None

    def run(self, report: Report = silent) -> ProfiledSignature:
        with written(self.reference_source) if self.reference_source else nullcontext() as folder:
            task = replace(self.task, reference_network=folder)
            signature, notes = profiled_signature(task, self.counters, report=report)
        return ProfiledSignature(signature=signature, notes=notes)

    def environments(self, result: ProfiledSignature) -> Sequence[Mapping[str, Any]]:
        return [measurement.environment for measurement in result.signature.measurements]
