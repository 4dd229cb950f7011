"""Types of the fields of a file, with their limits. Decoding checks them and the JSON Schemas are made from them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

LARGEST_INT = 2**62


def whole(pattern: str) -> Meta:
    """The whole text matches. Python's `$` alone would let a final newline pass."""
    return Meta(pattern=rf"^({pattern})$(?!\n)")


WORD = "[a-z0-9][a-z0-9_.-]{0,59}"

Id = Annotated[str, whole("sha256:[0-9a-f]{64}")]
Word = Annotated[str, whole(WORD)]
Preset = Annotated[str, whole(f"({WORD})?")]
KernelName = Annotated[str, whole("[A-Za-z0-9_.:+|-]+"), Meta(max_length=300)]
ShortText = Annotated[str, Meta(max_length=120)]
Label = Annotated[str, Meta(min_length=1, max_length=300)]

Size = Annotated[int, Meta(ge=0, le=LARGEST_INT)]
Positive = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Finite = Annotated[float, Meta(ge=-1e300, le=1e300)]
Share = Annotated[float, Meta(ge=0, le=1)]
Seconds = Annotated[float, Meta(ge=0, le=1e9)]
PositiveSeconds = Annotated[float, Meta(gt=0, le=1e9)]
Samples = Annotated[tuple[PositiveSeconds, ...], Meta(max_length=100_000)]

# Large integers are written in full, large floats with nine digits, so each stays what it was.
Number = Annotated[int, Meta(ge=-LARGEST_INT, le=LARGEST_INT)] | Finite
Quantity = Annotated[int, Meta(ge=0, le=LARGEST_INT)] | Annotated[float, Meta(ge=0, le=1e30)]
Count = Annotated[int, Meta(gt=0, le=10**12)] | Annotated[float, Meta(gt=0, le=1e12)]
"""How often something happens in a mean step."""

MOST_ROWS = Meta(max_length=10_000)
"""The length of a list whose entries are rows of tables: showing a row takes a hundred times as long as reading it.
Fits of thirty workloads have 200."""

MOST_PROCESSES = 1_000_000
"""Processes that run one step together."""
