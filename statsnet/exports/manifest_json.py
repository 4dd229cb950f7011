"""manifest.json, which every export holds: how it is written."""

from __future__ import annotations

from statsnet.exports.manifest import Manifest
from statsnet.signatures.canonical import canonical_json
from statsnet.signatures.conversion import plain


def manifest_json(manifest: Manifest) -> bytes:
    """Canonical JSON, with the totals for whoever checks a sum."""
    return canonical_json({**plain(manifest), "totals": plain(manifest.totals)}).encode("ascii")
