"""Where published tables come from, and what of them is not to be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass

from statsnet.devices.tables.row import TableRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """A source of tables. `commit` and `licence` are empty for a table of one's own."""

    source: str
    title: str
    repository: str = ""
    commit: str = ""
    licence: str = ""


_GITHUB = "https://github.com/"

PUBLISHED = {
    p.source: p
    for p in (
        Provenance(
            source="neusight", title="NeuSight (ASPLOS 2025)", repository=_GITHUB + "sitar-lab/NeuSight",
            commit="6945927d9afcca2b9daf021f8395e53edc5b4eef", licence="MIT",
        ),
        Provenance(
            source="aiconfigurator", title="aiconfigurator", repository=_GITHUB + "ai-dynamo/aiconfigurator",
            commit="095f58a51c4ca8e61b66ec108d86f223f8d559ce", licence="Apache-2.0",
        ),
        Provenance(
            source="deepbench", title="DeepBench", repository=_GITHUB + "baidu-research/DeepBench",
            commit="da81ba7820739e2e506dc27f382d15be5479f98f", licence="Apache-2.0",
        ),
        Provenance(
            source="miopen", title="MIOpen's find database", repository=_GITHUB + "ROCm/MIOpen",
            commit="2d1fd997a6fcf801ac4ca7a63e0656ef1cb9f488", licence="MIT",
        ),
        Provenance(
            source="vidur", title="Vidur", repository=_GITHUB + "microsoft/vidur",
            commit="7d47513363ec447a741ac5e47241580b47724fbf", licence="MIT",
        ),
        Provenance(
            source="llmservingsim", title="LLMServingSim", repository=_GITHUB + "casys-kaist/LLMServingSim",
            commit="5daddb21a545658d5150b535712d0494584b5278", licence="MIT",
        ),
    )
}  # fmt: skip
"""Published sources by the first part of their rows' `source`."""

RECORDING = "recording"
"""Source of the rows that come from imported recordings."""

OWN = {RECORDING: "recordings of one's own"}

SMALL_CARDS = frozenset({"nvidia-p4", "nvidia-t4", "nvidia-l4"})
UNEVEN = frozenset({"amd-vega-56", "amd-vega-64", "amd-navi-21-72cu"})

SLOWED = 2.0
"""A Vega 56 has seven eighths of a Vega 64's cores. In MIOpen's table the same kernels take 1.2 or 2.7 times as long on
it, and hardly ever between: two runs, at two clocks, are joined."""


def provenance_of(source: str) -> Provenance:
    """What is known of a row's source."""
    known = PUBLISHED.get(source) or PUBLISHED.get(source.partition("-")[0])
    return known or Provenance(source=source, title=OWN.get(source, "a table of one's own"))


def doubt_of(row: TableRow, device: str) -> str:
    """Why a row's time on a device should not go into a record; empty if nothing is known against it."""
    if row.source == "neusight" and device in SMALL_CARDS:
        return "cards of 70 W throttle: single operators are 0.6 to 3 times what they are within models"
    if row.source == "miopen" and device in UNEVEN and row.dtype in ("float16", "bfloat16"):
        return "not tuned in 16 bit: gaps of ten times between equal convolutions"
    if row.source == "miopen" and device == "amd-vega-56" and _is_slowed(row):
        return "more than twice a Vega 64's time: its table joins runs at two clocks"
    if row.source.startswith("llmservingsim"):
        return "layers of models without their sizes: nothing follows for other sizes"
    return ""


def _is_slowed(row: TableRow) -> bool:
    return row.time_s["amd-vega-56"] > SLOWED * row.time_s.get("amd-vega-64", math.inf)
