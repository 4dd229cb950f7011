"""What is asked of a synthesis: in the call itself, else in the mix's file, else the usual. No torch is needed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from statsnet.errors import UsageError
from statsnet.signatures.database import MODES
from statsnet.signatures.mix_file import is_mix_file, load_mix_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A mix as text (mix.resolve_mix), and what its proxy is to be like. `name` and `notes` are those of a mix's file;
    of `budget_s` and `compression` one at most is not None."""

    mix: str
    mode: str
    budget_s: float | None = None
    compression: float | None = None
    name: str = ""
    notes: str = ""


def asked_of(
    mix: str, *, mode: str | None = None, budget_s: float | None = None, compression: float | None = None
) -> Asked:
    """What is None comes from the mix's file, if it is one. Raises UsageError if budget and compression are both given,
    or the compression is below 1, and as load_mix_file does."""
    if budget_s is not None and compression is not None:
        raise UsageError(
            "a budget and a compression were both given",
            cause="each says how long a step is to be",
            hint="give one of them",
        )
    if compression is not None and not 1 <= compression < math.inf:
        raise UsageError(f"{compression} is no compression", cause="it must be 1 or more")
    file = load_mix_file(mix) if is_mix_file(mix) else None
    if file is None:
        return Asked(mix=mix, mode=mode or MODES[0], budget_s=budget_s, compression=compression)
    if budget_s is None and compression is None:
        budget_s, compression = file.budget_s, file.compression
    return Asked(
        mix=mix,
        mode=mode or file.mode or MODES[0],
        budget_s=budget_s,
        compression=compression,
        name=file.name or "",
        notes=file.notes,
    )


def check_recorded(is_recorded: bool, *, dtype: str | None, searching: bool = False, fresh: bool) -> None:
    """Raises UsageError for what can only be asked of a device that is here, or only of one that tables recorded."""
    if dtype is not None and not is_recorded:
        raise UsageError(
            "a dtype was given for a device that is here",
            cause="its members have the dtypes in which they were profiled",
            hint="profile the members with it (statsnet profile NAME --dtype DTYPE -o FILE), and mix FILE:WEIGHT,...",
        )
    if is_recorded and (searching or fresh):
        raise UsageError(
            f"a recorded device and {'a search' if searching else 'fresh measurements'} were both asked for",
            cause="nothing can be measured on a device that is not here",
            hint="give one of them",
        )
