"""Which convolutions of a mix follow each other. A signature does not tell: shapes do."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass

from statsnet.blocks import Config, recognise
from statsnet.blocks.conv_chain import chained, is_followed_by
from statsnet.signatures.target import Target

LONGEST_CHAIN = 4
"""More convolutions would take too large a part of a step. Of four, three read what another one wrote."""


@dataclass(slots=True)
class Layer:
    """A convolution with what follows it, or several in a row: the time per use, and the share of the target's."""

    config: Config
    time_s: float
    share: float


def chains(target: Target) -> list[Layer]:
    """Blocks of convolutions in a row: from every convolution on that is in no chain before, the most expensive first,
    each followed by the most expensive one that may read its result. One that nothing else follows may follow
    itself."""
    made = []
    for layers in _by_member(target).values():
        taken: set[int] = set()
        for first in layers:
            if id(first) in taken:
                continue
            row = _row_from(first, layers)
            config = chained([layer.config for layer in row])
            if config is not None and len(row) > 1:
                taken.update(map(id, row))
                share = sum(layer.share for layer in {id(layer): layer for layer in row}.values())
                made.append(Layer(config, sum(layer.time_s for layer in row), share))
    return made


def _row_from(first: Layer, layers: list[Layer]) -> list[Layer]:
    row = [first]
    while len(row) < LONGEST_CHAIN:
        following = [layer for layer in layers if is_followed_by(row[-1].config, layer.config)]
        unused = [layer for layer in following if layer not in row]
        if not following:
            break
        row.append((unused or following)[0])
    return row


def _by_member(target: Target) -> dict[str, list[Layer]]:
    """Each member's convolutions, the most expensive first."""
    found: dict[str, dict[str, Layer]] = defaultdict(dict)
    for motif in target.motifs:
        clusters = [target.clusters[i] for i in motif.clusters]
        if clusters[0].category != "convolution":
            continue
        kind, config = recognise(clusters) or ("", {})  # type: ignore[arg-type]
        if kind != "conv" or chained([config]) is None:
            continue
        per_call_s = sum(c.time_per_call_s or 0.0 for c in clusters)
        layer = found[motif.member].setdefault(json.dumps(config, sort_keys=True), Layer(config, per_call_s, 0.0))
        layer.share += per_call_s * motif.count_per_s
    return {name: sorted(layers.values(), key=lambda layer: -layer.share) for name, layers in found.items()}
