"""manifest.json, which every export holds: how it is written and read."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from statsnet.errors import FileFormatError
from statsnet.exports.manifest import Manifest
from statsnet.signatures.canonical import canonical_json, read_json
from statsnet.signatures.conversion import plain, typed

MAX_BYTES = 512 * 1024**2


def manifest_json(manifest: Manifest) -> bytes:
    """Canonical JSON, with the totals for whoever checks a sum."""
    return canonical_json({**plain(manifest), "totals": plain(manifest.totals)}).encode("ascii")


def read_manifest(path: Path) -> Manifest:
    """Inverse of `manifest_json`. Raises FileFormatError for what is none."""
    data = read_json(path, max_bytes=MAX_BYTES)
    try:
        return cast(Manifest, typed({k: v for k, v in data.items() if k != "totals"}, Manifest))
    except ValueError as error:
        raise FileFormatError(
            f"'{path}' is no manifest", cause=str(error), hint="write it again with `statsnet export`"
        ) from error
