"""One name for each device, whatever a source calls it.

A name is `vendor-model-form-memory`, with form and memory only where cards of that model differ in them:
`nvidia-h100-sxm`, `nvidia-a100-pcie-40gb`, `amd-mi250x`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

from statsnet.errors import UsageError, did_you_mean
from statsnet.signatures.word_lists import word_lists

_SPELLINGS = word_lists(Path(__file__).with_suffix(".txt"))
_CANONICAL = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in (name, *spellings)}

_VENDORS = ("nvidia", "amd", "intel", "google", "apple", "aws", "huawei", "qualcomm", "cpu")
LONGEST = 80
"""Characters of a canonical name."""

_DECORATION = re.compile(r"^(?:nvidia-|amd-|instinct-|tesla-|radeon-pro-)+")
_VENDOR_OF = (
    ("amd", re.compile(r"^(?:mi\d+|gfx\d+|vega|radeon|rx-?\d|navi|w\d{4}|epyc|ryzen)")),
    ("intel", re.compile(r"^(?:knl|xeon|core-i|arc|max-1\d|gaudi|pvc|ponte)")),
    ("google", re.compile(r"^tpu")),
    (
        "nvidia",
        re.compile(r"^(?:[abghklmptv]b?\d{1,3}s?(?:-|$)|a10g|gtx|rtx|titan|quadro|geforce|jetson|\d0[5-9]0)"),
    ),
)


_CPU = re.compile(
    r"^(?:cpu|apple|raspberry)-|(?:^|-)(?:intel-core|intel-atom|xeon|knl|epyc|ryzen|threadripper|pentium|celeron|graviton"
    r"\d*|altra|neoverse|cortex|grace-cpu|processor|cpu)(?:-|$)"
)
"""Words that only processors' names hold: a GPU may have tensor cores in its own."""


def slug_of(spelling: str) -> str:
    """Lower case letters and digits with single dashes."""
    return re.sub(r"[^a-z0-9]+", "-", spelling.lower()).strip("-")


@lru_cache(1024)
def canonical_name(spelling: str) -> str:
    """The name of a device by any of its spellings; for an unknown device a name made from the spelling.

    Raises UsageError if the spelling has no letter and no digit, or gives a name longer than LONGEST.
    """
    name = _name(slug_of(spelling))
    if not 0 < len(name) <= LONGEST:
        raise UsageError(
            f"'{spelling[:LONGEST]}' names no device",
            cause=f"more than {LONGEST} letters, digits and dashes" if name else "it has no letter and no digit",
            hint="give a name such as nvidia-h100-sxm",
        )
    return name


def _name(slug: str) -> str:
    bare = _DECORATION.sub("", slug) or slug
    for form in (slug, bare):
        if form in _CANONICAL:
            return _CANONICAL[form]
    if slug.startswith(tuple(f"{vendor}-" for vendor in _VENDORS)):
        vendor = slug.split("-", 1)[0]
        return f"{vendor}-{bare}"
    for vendor, pattern in _VENDOR_OF:
        if pattern.match(bare):
            return f"{vendor}-{bare}"
    return bare


def device_named(
    name: str,
    known: Collection[str],
    *,
    noun: str = "recorded device",
    hint: str = "give a name that no other has, or a file that statsnet device record or device import wrote",
) -> str:
    """The one of `known` that `name` stands for: itself, a spelling of it, or a part that no other has.

    Raises UsageError if none or several are meant; the error calls them `noun` and lists them, and ends with `hint`.
    """
    slug = slug_of(name)
    if name in known:
        return name
    if slug in _CANONICAL and (canonical := canonical_name(slug)) in known:
        return canonical
    parts = set(slug.split("-"))
    meant = sorted(k for k in known if slug and (name in k or parts <= set(k.split("-")) or slug in k))
    if len(meant) == 1:
        return meant[0]
    raise UsageError(
        f"'{name}' names {f'several {noun}s' if meant else f'no {noun}'}",
        cause=f"known: {', '.join(meant or sorted(known)) or 'none'}",
        hint=hint if meant else did_you_mean(slug, known, otherwise=hint),
    )


def measured_device(name: str, known: Collection[str]) -> str:
    """As `device_named`, of the devices that some tables or recordings measured."""
    return device_named(name, known, noun="measured device", hint="give one of these names")


def is_cpu(name: str) -> bool:
    """Whether a canonical name is that of a processor; else it is taken for a GPU's."""
    return bool(_CPU.search(name))


def is_known(spelling: str) -> bool:
    """Whether a spelling stands for one device of the list."""
    slug = slug_of(spelling)
    return slug in _CANONICAL or _DECORATION.sub("", slug) in _CANONICAL
