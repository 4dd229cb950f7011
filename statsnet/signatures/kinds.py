"""The kinds of files that StatsNet writes: name, version, size limit, and whether an id pins the content."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileKind:
    """`title` is how messages call it, `schema` a file in signatures/schema/."""

    name: str
    title: str
    schema: str
    version: int
    max_bytes: int
    has_id: bool


# History of the versions
#   signature 1, proxy 1, fit 1, result 1: the first ones
KINDS = {
    kind.name: kind
    for kind in (
        FileKind(
            name="statsnet.signature",
            title="a signature",
            schema="signature.json",
            version=1,
            max_bytes=2 * 1024**2,
            has_id=True,
        ),
        FileKind(
            name="statsnet.proxy",
            title="a proxy's spec",
            schema="proxy.json",
            version=1,
            max_bytes=8 * 1024**2,
            has_id=True,
        ),
        FileKind(
            name="statsnet.fit",
            title="a proxy's fit",
            schema="fit.json",
            version=1,
            max_bytes=8 * 1024**2,
            has_id=False,
        ),
        FileKind(
            name="statsnet.result",
            title="a result",
            schema="result.json",
            version=1,
            max_bytes=64 * 1024**2,
            has_id=False,
        ),
    )
}

SIGNATURE_MAX_WRITTEN_BYTES = 1_500_000
"""Signatures are meant to be mailed and reviewed. Most take under 100,000 bytes; training steps of networks whose every
layer has a shape of its own (DenseNet) 400,000."""
