"""Counts of workloads in another dtype than the database's, made when they are asked for.

The database counts the `standard` sizes in float32. Tables of language models are in 16 bit. A workload that ships is
counted on fake tensors in seconds, and kept in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import statsnet
from statsnet.errors import UsageError
from statsnet.measure.cache import MeasurementCache
from statsnet.measure.process import run
from statsnet.measure.timing_tasks import Model
from statsnet.profiling.tasks import ProfileWorkload
from statsnet.progress import Progress, Report, silent
from statsnet.signatures.database import CountsDB, ProfileEntry
from statsnet.signatures.mix_request import mix_requests
from statsnet.signatures.model import Signature

USUAL = "float32"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedEntry(ProfileEntry):
    """A counted profile that is counted anew by `count`, from the one that the database holds."""

    count: Callable[[Signature], Signature]

    def load(self, *, unnamed_too: bool = False) -> Signature:
        return self.count(ProfileEntry.load(self, unnamed_too=unnamed_too))


class CountsInDtype(CountsDB):
    """The counted profiles of a folder, in another dtype."""

    def __init__(self, path: Path, dtype: str, cache: MeasurementCache, report: Report = silent) -> None:
        super().__init__(path)
        self.dtype, self.cache, self.report = dtype, cache, report
        self._counted: dict[tuple[str | None, str], Signature] = {}

    @cached_property
    def entries(self) -> tuple[ProfileEntry, ...]:  # type: ignore[override]
        fields = ("environment", "domain", "workload", "mode", "path")
        return tuple(CountedEntry(**{f: getattr(e, f) for f in fields}, count=self._count) for e in self.counts)

    def _count(self, known: Signature) -> Signature:
        """The same workload in the same size. Raises MeasurementError if the model cannot compute in this dtype."""
        if known.dtype == self.dtype or known.workload is None:
            return known
        place = (known.name, known.mode)
        if place not in self._counted:
            preset = known.workload.preset
            key = self.cache.key(
                counts_of=known.name, mode=known.mode, preset=preset, dtype=self.dtype,
                versions=[statsnet.__version__, version("torch")],
            )  # fmt: skip
            data = self.cache.remember(key, dict[str, Any], lambda: self._counts(known, preset).to_dict())
            self._counted[place] = Signature.from_dict(data)
        return self._counted[place]

    def _counts(self, known: Signature, preset: str | None) -> Signature:
        self.report(Progress(stage=f"counting {known.name} in {self.dtype}"))
        model = Model(target=str(known.name), mode=known.mode, preset=preset, dtype=self.dtype)
        return run(ProfileWorkload(model=model, device="meta")).signature


def dtype_asked(mix_text: str, dtype: str | None) -> str | None:
    """`dtype`, or else the one that the members of a mix's file ask for; None if nothing was asked.

    Raises UsageError if they ask for several.
    """
    asked = {r.selection.dtype for r in mix_requests(mix_text) if r.selection.dtype is not None}
    asked |= {dtype} if dtype is not None else set()
    if len(asked) > 1:
        raise UsageError(
            f"the mix is asked for in {' and '.join(sorted(asked))}",
            cause="one proxy computes in one dtype", hint="name one dtype, in the file or with --dtype",
        )  # fmt: skip
    return next(iter(asked), None)
