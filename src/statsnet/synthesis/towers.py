"""From repeat counts to a network: chains of blocks in which each reads what the one before it wrote."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from functools import cache

import torch

from statsnet.blocks import KINDS, Config

LONGEST_TOWER = 24
"""Blocks in one tower at most: activations and gradients stay of sane size."""

SMALLEST_SLICE = 0.25
"""A block reads at least this share of what the one before it wrote; else a new tower begins."""

MOST_UNSTEADY = 3
"""Blocks in one tower at most that change the size of values or gradients much (see `BlockKind.steady`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A block in the network; `optimizer` is None where its parameters are not stepped."""

    kind: str
    config: Config
    optimizer: str | None = None

    @property
    def key(self) -> str:
        return json.dumps([self.kind, self.config, self.optimizer], sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """Blocks in order, and the number of elements that the last one writes."""

    blocks: tuple[Placed, ...]
    outputs: int


def shapes(block: Placed) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """(shape it reads or None for indices, shape it writes)."""
    return _shapes(block.kind, json.dumps(block.config, sort_keys=True))


@cache
def _shapes(kind_name: str, config_json: str) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    kind = KINDS[kind_name]
    loaded = json.loads(config_json)
    config = {k: tuple(v) if isinstance(v, list) else v for k, v in loaded.items()}
    index_range = kind.index_range(config)
    with torch.device("meta"), torch.no_grad():
        module = kind.build(config)
        if index_range is not None:
            return None, tuple(module(torch.empty(index_range[0], dtype=torch.long)).shape)
        shape = tuple(module.shape)  # type: ignore[arg-type]
        return shape, tuple(module(torch.empty(shape)).shape)


def build_towers(counted: list[tuple[Placed, int]]) -> list[Tower]:
    """Chain the blocks greedily, largest first: next comes the block that reads exactly what was written,
    else the largest one that fits into it. Blocks that read indices stand alone, beside the chains."""
    left: Counter[str] = Counter()
    by_key: dict[str, Placed] = {}
    for block, count in counted:
        if count > 0:
            left[block.key] += count
            by_key[block.key] = block
    towers: list[Tower] = []
    heads = sorted(k for k in left if shapes(by_key[k])[0] is None)
    chained = sorted((k for k in left if k not in set(heads)), key=lambda k: (-_reads(by_key[k]), k))
    while any(left[k] for k in chained):
        first = next(k for k in chained if left[k])
        chain = [first]
        left[first] -= 1
        while len(chain) < LONGEST_TOWER:
            following = _next([by_key[k] for k in chain], [k for k in chained if left[k]], by_key)
            if following is None:
                break
            chain.append(following)
            left[following] -= 1
        towers.append(_tower([by_key[k] for k in chain]))
    for key in heads:
        towers.extend(_tower([by_key[key]]) for _ in range(left[key]))
    return towers


def _tower(blocks: list[Placed]) -> Tower:
    return Tower(blocks=tuple(blocks), outputs=math.prod(shapes(blocks[-1])[1]))


def _reads(block: Placed) -> int:
    return math.prod(shapes(block)[0] or ())


def _next(chain: list[Placed], keys: list[str], by_key: dict[str, Placed]) -> str | None:
    written = shapes(chain[-1])[1]
    available = math.prod(written)
    best: tuple[tuple[bool, bool, int], str] | None = None
    for key in keys:
        read = shapes(by_key[key])[0]
        elements = math.prod(read or ())
        too_small = elements < SMALLEST_SLICE * available
        if elements > available or too_small or not _stays_sane(chain, by_key[key]):
            continue
        rank = (read == written, elements == available, elements)
        if best is None or rank > best[0]:
            best = (rank, key)
    return best[1] if best else None


def _stays_sane(chain: list[Placed], following: Placed) -> bool:
    """Whether values and gradients stay of sane size when a block follows a chain: no relu behind the
    logarithm of a softmax, no row of cubes."""
    steady = _is_steady(following)
    if _is_steady(chain[-1]) != steady and not KINDS[(chain[-1] if not steady else following).kind].mixes:
        return False
    return steady or sum(not _is_steady(b) for b in chain) < MOST_UNSTEADY


def _is_steady(block: Placed) -> bool:
    return KINDS[block.kind].steady(block.config)
