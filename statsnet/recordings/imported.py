"""What reading a recording gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from statsnet.errors import FileFormatError
from statsnet.signatures.conversion import typed
from statsnet.signatures.model import Signature, SignatureFile
from statsnet.signatures.storage import check_operators


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A signature, and what its reader should know of the recording, a sentence each."""

    signature: Signature
    notes: tuple[str, ...] = ()


def within_limits(build: Callable[[], Signature], name: str) -> Signature:
    """The signature that `build` makes, checked as a file of it would be. Raises FileFormatError, with `name` as the
    recording's, for numbers that no step has: a step of 10^20 s, a tensor of 20 axes."""
    try:
        signature = build()
        check_operators(typed(SignatureFile.of(signature).to_dict(), SignatureFile))
    except (ValueError, OverflowError, FileFormatError) as error:
        raise FileFormatError(
            f"'{name}' holds numbers that cannot be",
            cause=error.cause if isinstance(error, FileFormatError) else str(error)[:200],
            hint="record it anew; the file may have been changed",
        ) from error
    return signature
