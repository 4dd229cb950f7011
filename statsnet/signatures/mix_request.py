"""What a mix asks for, from text such as `recsys:0.5,cv:0.5` or from a file (mix_file.py)."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from statsnet.errors import UsageError
from statsnet.signatures.mix_file import FileMember, is_mix_file, load_mix_file
from statsnet.signatures.model import Signature

_EXAMPLE = "for example recsys:0.5,cv:0.5"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which of a workload's signatures is meant; None: whatever value there is."""

    preset: str | None = None
    batch: int | None = None
    dtype: str | None = None

    def fits(self, signature: Signature) -> bool:
        selection = Selection.of(signature)
        return all(asked in (None, getattr(selection, key)) for key, asked in dataclasses.asdict(self).items())

    @classmethod
    def of(cls, signature: Signature) -> Selection:
        preset = signature.workload.preset if signature.workload else None
        return cls(preset=preset or None, batch=signature.batch, dtype=signature.dtype)

    def __str__(self) -> str:
        """`preset small, batch 4`"""
        return ", ".join(f"{k} {v}" for k, v in dataclasses.asdict(self).items() if v is not None)

    @property
    def options(self) -> str:
        """Of `statsnet profile`, each with a blank before it."""
        return "".join(f" --{k} {v}" for k, v in dataclasses.asdict(self).items() if v is not None)


ANY = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class MixRequest:
    """A member as it was asked for. The short form does not say of what kind a name is: `kind` is None. `place` says
    where in a file it stands."""

    name: str
    weight: float
    kind: Literal["workload", "domain", "file"] | None = None
    selection: Selection = ANY
    place: str = ""


def mix_requests(text: str) -> list[MixRequest]:
    """What a mix asks for, in either form; the weights sum to 1.

    Raises UsageError for a bad mix, FileFormatError for a file that is none.
    """
    if not is_mix_file(text):
        return parse_mix(text)
    return _normalised([_of_file(member) for member in load_mix_file(text).members])


def parse_mix(text: str) -> list[MixRequest]:
    """`"recsys:1,cv:3"` -> recsys with weight 0.25, cv with 0.75: names as given, weights normalised.

    Raises UsageError for an empty mix, a name given twice, a weight that is missing or not a positive number.
    """
    if not text.strip(" ,"):
        raise UsageError("the mix is empty", hint=_EXAMPLE)
    return parse_members(text.split(","))


def parse_members(parts: Iterable[str], example: str = _EXAMPLE) -> list[MixRequest]:
    """Each `NAME:WEIGHT` of a mix; errors quote the `example`. Raises as `parse_mix` does."""
    parsed: list[MixRequest] = []
    for part in parts:
        name, colon, weight = (piece.strip() for piece in part.rpartition(":"))
        if not part.strip():
            raise UsageError("the mix has an empty part", hint=example)
        if not colon or not name:
            missing = "weight" if not colon else "name"
            raise UsageError(f"'{part.strip()}' has no {missing}", cause="NAME:WEIGHT is expected", hint=example)
        if name in (known.name for known in parsed):
            raise UsageError(f"'{name}' stands twice in the mix", hint="give it once, with the sum of its weights")
        parsed.append(MixRequest(name=name, weight=_weight(name, weight, example)))
    return _normalised(parsed)


def _of_file(member: FileMember) -> MixRequest:
    selection = Selection(preset=member.preset, batch=member.batch, dtype=member.dtype)
    kind: Literal["workload", "domain", "file"]
    if member.workload is not None:
        kind, name = "workload", member.workload
    elif member.domain is not None:
        kind, name = "domain", member.domain
    else:
        assert member.file is not None
        kind, name = "file", member.file
    return MixRequest(name=name, weight=member.weight, kind=kind, selection=selection, place=member.place)


def _normalised(requests: Sequence[MixRequest]) -> list[MixRequest]:
    largest = max(r.weight for r in requests)
    total = math.fsum(r.weight / largest for r in requests)  # the plain sum may overflow
    normalised = [dataclasses.replace(r, weight=r.weight / largest / total) for r in requests]
    if not all(r.weight > 0 for r in normalised):
        raise UsageError("the weights are too far apart", hint=_EXAMPLE)
    return normalised


def mix_slug(mix: str) -> str:
    """`recsys:0.5,cv:0.5` -> `recsys-0.5-cv-0.5`, a folder's name; of paths only the last part is kept."""
    parts = [part.strip().rpartition("/")[2] for part in mix.split(",")]
    return re.sub(r"[^a-z0-9._]+", "-", "-".join(parts).lower()).strip("-.")[:80]


def _weight(name: str, text: str, example: str) -> float:
    try:
        value = float(text) if "_" not in text else math.nan
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise UsageError(f"'{text}' is not a weight for '{name}'", cause="a positive number is expected", hint=example)
    return value
