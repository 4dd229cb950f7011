"""The kinds of files that StatsNet writes: type, size limit, and whether an id pins the content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from statsnet.signatures.documents import Fit, ProxySpec
from statsnet.signatures.model import SignatureFile
from statsnet.signatures.results import Result
from statsnet.signatures.scenarios import ScenarioResult


@dataclass(frozen=True, slots=True)
class FileKind:
    """`title` is how messages call it, `anew` how to make a file that this StatsNet cannot read."""

    type: type[SignatureFile | ProxySpec | Fit | Result | ScenarioResult]
    title: str
    anew: str
    max_bytes: int
    has_id: bool

    def json_schema(self) -> dict[str, Any]:
        """JSON Schema (draft 2020-12) of files of this kind, made from their type."""
        return msgspec.json.schema(self.type)


KINDS: dict[str, FileKind] = {
    kind.type.kind: kind
    for kind in (
        FileKind(SignatureFile, "a signature", "profile the workload again", max_bytes=2 * 1024**2, has_id=True),
        FileKind(ProxySpec, "a proxy's spec", "synthesize the proxy again", max_bytes=8 * 1024**2, has_id=True),
        FileKind(Fit, "a proxy's fit", "synthesize the proxy again", max_bytes=8 * 1024**2, has_id=False),
        FileKind(Result, "a result", "run or validate the proxy again", max_bytes=32 * 1024**2, has_id=False),
        FileKind(
            ScenarioResult,
            "a scenario's result",
            "run or validate the proxy again",
            max_bytes=64 * 1024**2,
            has_id=False,
        ),
    )
}  # fmt: skip

MAX_BYTES = max(kind.max_bytes for kind in KINDS.values())
"""Of a file whose kind is not known yet."""

SIGNATURE_MAX_WRITTEN_BYTES = 1_500_000
"""Signatures are meant to be mailed and reviewed. Most take under 100,000 bytes. Training steps of networks whose every
layer has a shape of its own (DenseNet) take 400,000."""

FILES = ("network.py", "run.py", "spec.json", "fit.json", "fit.svg", "README.md")
"""Of a proxy's folder."""

SEARCH_FILES = ("search.json", "front.svg")
"""There, too, where designs were searched over: all that was tried, and a picture of it."""
