"""Turns repeat counts into towers: chains of blocks that each read the output of the block before."""

from __future__ import annotations

import itertools
import json
import math
import random
import string
from collections import Counter
from dataclasses import dataclass
from functools import cache, cached_property

import torch

from statsnet.blocks import KINDS, Config
from statsnet.blocks.base import is_side_input, with_tuples
from statsnet.signatures.documents import TowerPurpose

LONGEST_TOWER = 24
"""Most blocks in one tower, so that activations and gradients stay of sane size."""

SMALLEST_SLICE = 0.5
"""In inference, a block reads at least this share of the output before it; else a new tower begins. The unread end of
an output is computed too, but a compiler may leave it out. In training outputs are read whole: a slice's gradient is
one more pass over all elements, which no model of the mix makes."""

MOST_UNSTEADY = 3
"""Most blocks in one tower that change the size of values or gradients much (see `BlockKind.steady`)."""


GRADIENT_LAYOUTS = frozenset({"output_is_concatenated", "output_last_axis"})
"""Parts of a configuration that ask for a gradient of another layout than the output's."""


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A block in the network; `optimizer` is None where its parameters are not stepped."""

    kind: str
    config: Config
    optimizer: str | None = None

    @cached_property
    def key(self) -> str:
        return json.dumps([self.kind, self.config, self.optimizer], sort_keys=True)

    @cached_property
    def identity(self) -> str:
        """Blocks of equal kind and dimensions run alike, whichever optimizer steps their parameters."""
        return json.dumps([self.kind, self.config], sort_keys=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """Blocks in order: each reads the output of the block before. If it `keeps_dtype`, what it is handed stays in the
    network's dtype under autocast, too. An operator by itself may run `in_backward`: in the backward pass of a training
    step."""

    blocks: tuple[Placed, ...]
    purpose: TowerPurpose | None = None
    keeps_dtype: bool = False
    in_backward: bool = False

    @property
    def is_operator(self) -> bool:
        """Whether it is an operator by itself."""
        return [block.kind for block in self.blocks] == ["operator"]


def parameter_count(block: Placed) -> int:
    """Without side inputs, which stand for activations of another branch."""
    parameters, side_inputs, _ = _sizes(block.kind, json.dumps(block.config, sort_keys=True))
    return parameters - side_inputs


def has_side_input(block: Placed) -> bool:
    """Whether it reads an activation of another branch beside its input."""
    return _has_side_input(block.kind, json.dumps(block.config, sort_keys=True))


@cache
def _has_side_input(kind_name: str, config_json: str) -> bool:
    """A concatenation has several, which are no parameters; what a mask lets through is none."""
    module = KINDS[kind_name].on_meta(_config(config_json))
    names = (name for name, _ in itertools.chain(module.named_parameters(), module.named_buffers()))
    return any(is_side_input(name.rstrip(string.digits)) for name in names)


def elements_read(block: Placed) -> int:
    """Number of elements of the activation that a block reads, or of its indices."""
    return _sizes(block.kind, json.dumps(block.config, sort_keys=True))[2]


@cache
def _sizes(kind_name: str, config_json: str) -> tuple[int, int, int]:
    """(parameters, side inputs among them, elements read)."""
    kind, config = KINDS[kind_name], _config(config_json)
    sizes = {name: p.numel() for name, p in kind.on_meta(config).named_parameters()}
    side_inputs = sum(size for name, size in sizes.items() if is_side_input(name))
    return sum(sizes.values()), side_inputs, kind.elements_read(config)


def _config(config_json: str) -> Config:
    config: Config = with_tuples(json.loads(config_json))
    return config


def shapes(block: Placed) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    """(shape it reads or None if it begins a tower, shape it writes)."""
    return _shapes(block.kind, json.dumps(block.config, sort_keys=True))


@cache
def _shapes(kind_name: str, config_json: str) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
    kind = KINDS[kind_name]
    config = _config(config_json)
    if kind.ends_tower(config):
        return None, ()
    module = kind.on_meta(config)
    with torch.device("meta"), torch.no_grad():
        x = kind.input_of(config, module)
        return None if kind.begins_tower(config) else tuple(x.shape), tuple(module(x).shape)


def follows_itself(block: Placed) -> bool:
    """Whether uses of this block form a tower: each hands on what the next one reads."""
    reads, writes = shapes(block)
    return reads == writes and GRADIENT_LAYOUTS.isdisjoint(block.config)


def build_towers(counted: list[tuple[Placed, int]], *, training: bool = False) -> list[Tower]:
    """Chain the blocks greedily, the largest first. The next block is one that reads exactly the shape written; if
    there is none, the largest that reads no more elements (in training, as many). Blocks that
    read indices can only begin a tower, and in training those that hand a view back."""
    left: Counter[str] = Counter()
    by_key: dict[str, Placed] = {}
    for block, count in counted:
        if count > 0:
            left[block.key] += count
            by_key[block.key] = block
    heads = sorted((k for k in left if _reads(by_key[k]) is None), key=lambda k: (-_writes(by_key[k]), k))
    chained = sorted(set(left) - set(heads), key=lambda k: (-(_reads(by_key[k]) or 0), k))
    towers: list[Tower] = []
    for first in [*heads, *chained]:
        while left[first]:
            chain = [by_key[first]]
            left[first] -= 1
            while len(chain) < LONGEST_TOWER:
                following = _next(chain, [by_key[k] for k in chained if left[k]], training)
                if following is None:
                    break
                chain.append(following)
                left[following.key] -= 1
            towers.append(Tower(blocks=tuple(chain)))
    return towers


def shuffled(towers: list[Tower], seed: int) -> list[Tower]:
    """In another order, or as they are (seed 0)."""
    return random.Random(seed).sample(towers, len(towers)) if seed else towers


def _reads(block: Placed) -> int | None:
    """Elements; None for a block that begins a tower."""
    shape = shapes(block)[0]
    return None if shape is None else math.prod(shape)


def _writes(block: Placed) -> int:
    return math.prod(shapes(block)[1])


def _next(chain: list[Placed], others: list[Placed], training: bool) -> Placed | None:
    if not GRADIENT_LAYOUTS.isdisjoint(chain[-1].config):
        return None  # its special gradient can only be given at a tower's end
    if KINDS[chain[-1].kind].ends_tower(chain[-1].config):
        return None
    written, available = shapes(chain[-1])[1], _writes(chain[-1])
    smallest = available if training else SMALLEST_SLICE * available
    best: tuple[tuple[bool, int], Placed] | None = None
    for block in others:
        elements = _reads(block) or 0
        if training and KINDS[block.kind].hands_back_a_view(block.config):
            continue
        if smallest <= elements <= available and _stays_sane(chain, block):
            rank = (shapes(block)[0] == written, elements)
            if best is None or rank > best[0]:
                best = (rank, block)
    return best[1] if best else None


def _stays_sane(chain: list[Placed], following: Placed) -> bool:
    """Whether values and gradients stay of sane size if a block follows a chain: no relu after the
    logarithm of a softmax, no series of cubes."""
    steady = _is_steady(following)
    if _is_steady(chain[-1]) != steady and not KINDS[(chain[-1] if not steady else following).kind].mixes:
        return False
    return steady or sum(not _is_steady(b) for b in chain) < MOST_UNSTEADY


def _is_steady(block: Placed) -> bool:
    return KINDS[block.kind].steady(block.config)
