"""What a long piece of work reports while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What is being done, the share of it that is done, and the seconds left (None: not known)."""

    stage: str
    done: float = 0.0
    remaining_s: float | None = None


Report = Callable[[Progress], None]


def silent(_progress: object) -> None:
    """Reports to nobody."""
