"""What all workers of one search have in common: the mix, what is asked for, the machine's environment, the program."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statsnet.environment import differences
from statsnet.signatures.conversion import plain
from statsnet.signatures.measurement import Environment
from statsnet.signatures.mix import Mix
from statsnet.synthesis.bench.bench import BenchSetup
from statsnet.synthesis.problem import ProxyRequest
from statsnet.units import format_duration

_WORDS = {
    "mix": "its mix is another",
    "program": "another version of StatsNet began it",
    "designs": "another version of StatsNet began it",
}
"""What is said of digests, which say nothing by themselves."""

_NO_TIME_S = 1e12
_LONGEST = 100
"""A stranger's file may hold any number of seconds, and a text of any number of characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchIdentity:
    """`mix` is a digest of the members' signatures and weights, `designs` and `program` are of what designs are chosen
    from and of how errors are computed. Times in seconds."""

    mix: str
    mode: str
    dtype: str
    budget_s: float | None
    compression: float | None
    effort: str
    counters: str
    seed: int
    designs: str
    program: str
    environment: Environment

    @classmethod
    def of(cls, mix: Mix, setup: BenchSetup, request: ProxyRequest, designs: object) -> SearchIdentity:
        """Before anything is measured. `designs` is plain data."""
        return cls(
            mix=_digest(sorted([m.signature.id, m.weight] for m in mix.members)),
            mode=setup.mode,
            dtype=setup.dtype,
            budget_s=request.budget_s,
            compression=request.compression,
            effort=setup.effort.name,
            counters=setup.counters,
            seed=request.seed,
            designs=_digest(designs),
            program=setup.cache.key(),
            environment=json.loads(json.dumps(setup.environment)),  # as it comes back from a storage
        )

    @property
    def study(self) -> str:
        """The name of the study of this mix, where many are in one storage."""
        return f"statsnet-{_digest([self.mix, self.mode])[:12]}"

    def to_dict(self) -> dict[str, Any]:
        return plain(self)  # type: ignore[no-any-return]

    def differences(self, begun: object) -> list[str]:
        """How the search that began a study differs from this one, a phrase each; empty if both are one search."""
        environment = begun.get("environment") if isinstance(begun, Mapping) else None
        if not isinstance(begun, Mapping) or not isinstance(environment, Mapping):
            return ["another version of StatsNet began it"]
        own, found = self.to_dict(), []
        for key in own.keys() - {"environment"}:
            if own[key] != begun.get(key):
                theirs, ours = _shown(key, begun.get(key)), _shown(key, own[key])
                found.append(_WORDS.get(key, f"its {key.removesuffix('_s')} is {theirs}, here {ours}"))
        if others := differences(environment, self.environment):
            found.append(f"its machine is another ({'; '.join(others[:3])})")
        return sorted(set(found))


def _shown(key: str, value: object) -> str:
    if value is None:
        return "not given"
    is_time = key.endswith("_s") and isinstance(value, (int, float)) and abs(value) < _NO_TIME_S
    return format_duration(value) if is_time else str(value)[:_LONGEST]  # type: ignore[arg-type]


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()
