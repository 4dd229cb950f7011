"""One name for each device, whatever a source calls it.

A name is `vendor-model-form-memory`, with form and memory only where cards of that model differ in them:
`nvidia-h100-sxm`, `nvidia-a100-pcie-40gb`, `amd-mi250x`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from statsnet.errors import UsageError, did_you_mean

_SPELLINGS = {
    "nvidia-h100-sxm": "h100-sxm h100-sxm5 h100-sxm-80gb h100-sxm5-80gb h100-80gb-hbm3 gh100-sxm",
    "nvidia-h100-pcie": "h100-pcie h100-pcie-80gb",
    "nvidia-h100-nvl": "h100-nvl h100-nvl-94gb",
    "nvidia-h200-sxm": "h200-sxm h200 h200-sxm-141gb",
    "nvidia-gh200": "gh200 gh200-480gb",
    "nvidia-b200-sxm": "b200-sxm b200",
    "nvidia-b300-sxm": "b300-sxm b300",
    "nvidia-gb200": "gb200 gb200-sxm gb200-nvl72",
    "nvidia-gb300": "gb300 gb300-sxm gb300-nvl72",
    "nvidia-a100-sxm-40gb": "a100-sxm-40gb a100-sxm4-40gb",
    "nvidia-a100-sxm-80gb": "a100-sxm-80gb a100-sxm4-80gb",
    "nvidia-a100-sxm": "a100-sxm a100-sxm4",
    "nvidia-a100-pcie-40gb": "a100-pcie-40gb a100-40gb-pcie",
    "nvidia-a100-pcie-80gb": "a100-pcie-80gb a100-80gb-pcie",
    "nvidia-a40": "a40 a40-pcie a40-pcie-48gb",
    "nvidia-a10": "a10 a10-24gb",
    "nvidia-a10g": "a10g",
    "nvidia-a30": "a30",
    "nvidia-l4": "l4 l4-24gb",
    "nvidia-l40": "l40 l40-48gb",
    "nvidia-l40s": "l40s l40s-48gb",
    "nvidia-t4": "t4 t4-16gb",
    "nvidia-p4": "p4 p4-8gb",
    "nvidia-p100-pcie-16gb": "p100-pcie-16gb p100-16gb-pcie",
    "nvidia-v100-pcie-16gb": "v100-pcie-16gb",
    "nvidia-v100-pcie-32gb": "v100-pcie-32gb",
    "nvidia-v100-sxm-16gb": "v100-sxm-16gb v100-sxm2-16gb v100-sxm2",
    "nvidia-v100-sxm-32gb": "v100-sxm-32gb v100-sxm2-32gb v100-sxm3-32gb",
    "nvidia-m40": "m40",
    "nvidia-titan-x-maxwell": "titanx-maxwell titan-x-maxwell",
    "nvidia-titan-x-pascal": "titanx-pascal titan-x-pascal",
    "nvidia-titan-xp": "titanxp titan-xp",
    "nvidia-titan-v": "titanv titan-v",
    "nvidia-gtx-1080-ti": "1080ti 1080-ti gtx-1080ti gtx1080ti gtx-1080-ti geforce-gtx-1080-ti",
    "nvidia-rtx-2080-ti": "2080ti 2080-ti rtx2080ti rtx-2080ti rtx-2080-ti geforce-rtx-2080-ti",
    "nvidia-rtx-3090": "3090 rtx3090 rtx-3090 geforce-rtx-3090",
    "nvidia-rtx-4090": "4090 rtx4090 rtx-4090 geforce-rtx-4090",
    "nvidia-rtx-5090": "5090 rtx5090 rtx-5090 geforce-rtx-5090",
    "nvidia-rtx-a6000": "a6000 rtx-a6000 rtxa6000",
    "nvidia-rtx-6000-ada": "rtx-6000-ada rtx6000ada rtx-6000-ada-generation",
    "nvidia-rtx-pro-6000-blackwell": "rtxpro6000 rtx-pro-6000 rtxpro-6000 rtx-pro-6000-blackwell",
    "nvidia-rtx-pro-6000-blackwell-server": (
        "rtx-pro-6000-server rtx-pro-6000-blackwell-server rtx-pro-6000-blackwell-server-edition"
    ),
    "amd-vega-56": "gfx900-56cu vega56 vega-56 radeon-rx-vega-56",
    "amd-vega-64": "gfx900-64cu vega64 vega-64 radeon-rx-vega-64",
    "amd-vega-fe": "vegafe vega-fe vega-frontier-edition",
    "amd-mi25": "mi25",
    "amd-mi50": "gfx906-60cu mi50",
    "amd-mi60": "gfx906-64cu mi60",
    "amd-mi100": "gfx908-120cu mi100",
    "amd-mi210": "gfx90a-104cu mi210",
    "amd-mi250": "mi250",
    "amd-mi250x": "gfx90a-110cu mi250x",
    "amd-mi300x": "gfx942-304cu mi300x mi300x-vf",
    "amd-mi325x": "mi325x",
    "amd-mi355x": "gfx950-256cu mi355x",
    "amd-navi-21-72cu": "gfx1030-36 gfx1030-72cu",
    "amd-navi-21-60cu": "gfx1030-30 gfx1030-60cu",
    "intel-xeon-phi-7250": "knl7250 knl-7250 xeon-phi-7250",
    "google-tpu-v6e": "tpu-v6e tpu-v6e-1",
    "raspberry-pi-3": "raspberry-pi-3 raspberrypi3",
    "apple-iphone-6": "iphone-6 iphone6",
    "apple-iphone-7": "iphone-7 iphone7",
}

_CANONICAL = {spelling: name for name, spellings in _SPELLINGS.items() for spelling in (name, *spellings.split())}

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


def is_known(spelling: str) -> bool:
    """Whether a spelling stands for one device of the list."""
    slug = slug_of(spelling)
    return slug in _CANONICAL or _DECORATION.sub("", slug) in _CANONICAL
