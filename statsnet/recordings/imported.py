"""What reading a recording gives."""

from __future__ import annotations

from dataclasses import dataclass

from statsnet.signatures.model import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A signature, and what its reader should know of the recording, a sentence each."""

    signature: Signature
    notes: tuple[str, ...] = ()
