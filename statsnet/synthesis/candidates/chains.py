"""Which convolutions of a mix follow each other. A signature does not tell: shapes do."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from statsnet.blocks import Config, asked, recognise
from statsnet.blocks.conv_chain import Map, chained, map_read, map_written
from statsnet.signatures.model import Cluster
from statsnet.signatures.target import Target

LONGEST_CHAIN = 4
"""More convolutions would take too large a part of a step. Of four, three read what another one wrote."""


@dataclass(slots=True, eq=False)
class Layer:
    """A convolution with what follows it, or several in a row: the time per use, its share of the target's, and how
    often a step calls it. `alone` is the convolution's own share."""

    config: Config
    time_s: float
    share: float = 0.0
    calls: float = 0.0
    alone: float = 0.0


def chains(target: Target) -> list[Layer]:
    """Blocks of convolutions in a row. A chain begins at each convolution that is in no chain before, the most
    expensive first. The most expensive one follows that may read its result and is in the chain less often than a step
    calls it. Those come last that add a map which the chain lacks."""
    made = []
    for layers in _by_member(target).values():
        readers: dict[Map, list[Layer]] = defaultdict(list)
        for layer in layers:
            readers[map_read(layer.config)].append(layer)
        taken: set[Layer] = set()
        for first in layers:
            row = [first] if first in taken else _row_from(first, readers)
            if len(row) > 1 and (config := chained([layer.config for layer in row])) is not None:
                taken.update(row)
                share = sum(layer.share for layer in dict.fromkeys(row))
                made.append(Layer(config, sum(layer.time_s for layer in row), share))
    return made


def chained_shares(target: Target) -> dict[str, float]:
    """By member: the share of the time of its convolutions in those that may read what another one of them writes, or
    a call of their own. Those that are in no chain, as over lines and volumes, are not among them."""
    total: dict[str, float] = defaultdict(float)
    for motif in target.motifs:
        if (first := target.clusters[motif.clusters[0]]).category == "convolution":
            total[first.member] += motif.count_per_s * (first.time_per_call_s or 0.0)
    shares = {}
    for name, layers in _by_member(target).items():
        writers: dict[Map, list[Layer]] = defaultdict(list)
        for layer in layers:
            writers[map_written(layer.config)].append(layer)
        joined = (x.alone for x in layers if any(w is not x or x.calls > 1 for w in writers[map_read(x.config)][:2]))
        shares[name] = sum(joined) / total[name] if total[name] else 0.0
    return shares


def _row_from(first: Layer, readers: Mapping[Map, list[Layer]]) -> list[Layer]:
    row = [first]
    while len(row) < LONGEST_CHAIN:
        following = readers.get(map_written(row[-1].config), [])[: LONGEST_CHAIN + 1]  # the row holds fewer
        free = [layer for layer in following if row.count(layer) < layer.calls]
        if not free:
            break
        row.append(min(free, key=lambda layer: (_lacks_a_branch(layer, row), row.count(layer))))
    return row


def _lacks_a_branch(layer: Layer, row: list[Layer]) -> bool:
    """Whether it adds a map of which a chain that goes on with it has none before. As a ConvChain chooses them: one
    that it does not read and that is not added yet."""
    maps, added, lacks = [map_read(row[0].config)], set[int](), False
    for each in [*row, layer]:
        written = map_written(each.config)
        lacks = False
        if each.config.get("residual"):
            free = [i for i, size in enumerate(maps[:-1]) if size == written and i not in added]
            added.update(free[-1:])
            lacks = not free
        maps.append(written)
    return lacks


def _by_member(target: Target) -> dict[str, list[Layer]]:
    """Each member's convolutions that may be in a chain, the most expensive first."""
    steps_per_s = {member.name: member.steps_per_s for member in target.members}
    found: dict[str, dict[str, Layer]] = defaultdict(dict)
    for motif in target.motifs:
        clusters = [target.clusters[i] for i in motif.clusters]
        config = asked(_link, clusters) if clusters[0].category == "convolution" else None  # type: ignore[arg-type]
        if config is None:
            continue
        per_call_s = sum(c.time_per_call_s or 0.0 for c in clusters)
        layer = found[motif.member].setdefault(json.dumps(config, sort_keys=True), Layer(config, per_call_s))
        layer.share += per_call_s * motif.count_per_s
        layer.alone += (clusters[0].time_per_call_s or 0.0) * motif.count_per_s
        layer.calls += motif.count_per_s / steps_per_s[motif.member]
    return {name: sorted(layers.values(), key=lambda layer: -layer.share) for name, layers in found.items()}


def _link(motif: list[Cluster]) -> Config | None:
    """A convolution that may be in a chain, with what follows it; None for others, and where nothing is written."""
    kind, config = recognise(motif) or ("", {})
    is_link = kind == "conv" and chained([config]) is not None and min(map_written(config)) > 0
    return config if is_link else None
