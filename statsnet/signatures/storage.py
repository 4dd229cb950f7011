"""Loading and saving the files of StatsNet: every one is checked, in both directions."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from statsnet.errors import FileFormatError, StatsNetError
from statsnet.signatures.canonical import canonical_json, content_id, read_json, write_json_atomically
from statsnet.signatures.kinds import KINDS, SIGNATURE_MAX_WRITTEN_BYTES
from statsnet.signatures.migrations import migrate
from statsnet.signatures.model import KIND, Signature
from statsnet.signatures.privacy import assert_clean
from statsnet.signatures.validation import validate

Path = str | os.PathLike[str]


def load_document(path: Path, kind: str) -> dict[str, Any]:
    """A file of one of KINDS as plain data, brought up to date and checked.

    Raises FileFormatError if it can not be read, is of another kind, made by a newer StatsNet, does not fit
    the schema, or was changed after it was written.
    """
    data = read_json(path, max_bytes=KINDS[kind].max_bytes)
    _check_kind(data, kind, path)
    # The id belongs to the content as it was written, so it is looked at before a migration changes that.
    written = content_id(data)
    migrated = migrate(data, path)
    if migrated is data:
        validate(data, kind, path)
    if KINDS[kind].has_id and data.get("id") != written:
        raise FileFormatError(
            f"'{path}' was changed after it was written",
            cause="its id does not match its content",
            hint="take the file again from where it came, or make it again",
        )
    if migrated is not data:
        data = _with_id(migrated, kind)
        validate(data, kind, path)
    return data


def save_document(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """Check plain data of one of KINDS, set its id if the kind has one, write it, return it as written.

    Raises FileFormatError if it does not fit the schema, StatsNetError if it can not be written.
    """
    kind = str(data.get("kind"))
    if kind not in KINDS:
        raise FileFormatError(f"'{kind}' is not a kind of file", cause=f"known: {', '.join(KINDS)}")
    # What is checked is what a reader will find: rounded numbers, lists for tuples, no numpy types.
    document: dict[str, Any] = json.loads(canonical_json(_with_id(dict(data), kind)))
    validate(document, kind, path)
    write_json_atomically(path, document)
    return document


def load_signature(path: Path) -> Signature:
    """A signature from a file.

    Raises FileFormatError as `load_document` does, and if its parts contradict each other.
    """
    data = load_document(path, KIND)
    try:
        return Signature.from_dict(data)
    except ValueError as error:
        raise FileFormatError(f"'{path}' is not a valid {KIND} file", cause=str(error)) from error


def save_signature(path: Path, signature: Signature) -> str:
    """Write a signature and return its id.

    Raises StatsNetError if it holds a string that no signature may hold (privacy.py), or is too large.
    """
    data = signature.to_dict()
    assert_clean(data)
    size = len(canonical_json(data))
    if size > SIGNATURE_MAX_WRITTEN_BYTES:
        raise StatsNetError(
            f"the signature is too large to be written: {size} bytes",
            cause=f"the limit is {SIGNATURE_MAX_WRITTEN_BYTES}; it has {len(signature.clusters)} clusters",
            hint="profile with fewer distinct input shapes",
        )
    document = save_document(path, data)
    return str(document["id"])


def _with_id(data: dict[str, Any], kind: str) -> dict[str, Any]:
    return {**data, "id": content_id(data)} if KINDS[kind].has_id else data


def _check_kind(data: Mapping[str, Any], kind: str, path: Path) -> None:
    found = data.get("kind")
    if found == kind:
        return
    known = KINDS.get(found) if isinstance(found, str) else None
    is_what = known.title if known else "no file of StatsNet"
    raise FileFormatError(
        f"'{path}' is {is_what}, not {KINDS[kind].title}",
        cause=f"its kind is '{str(found)[:40]}', '{kind}' is expected" if found else "it has no kind",
    )
