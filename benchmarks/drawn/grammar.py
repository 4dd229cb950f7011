"""Random networks: what they take, their stages one after the other, and their source."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from benchmarks.drawn.map_stages import MAP_STAGES, Stage
from benchmarks.drawn.sequence_stages import SEQUENCE_STAGES, VECTOR_STAGES, to_sequence, to_vector
from benchmarks.drawn.writer import NORMAL, Shape, Sizes, Writer

STAGES: dict[str, tuple[Stage, ...]] = {"map": MAP_STAGES, "sequence": SEQUENCE_STAGES, "vector": VECTOR_STAGES}
LONGEST_SEQUENCE = 400
"""Places of a map that may become a sequence."""

_FILE = '''"""A network of the grammar in benchmarks/drawn, from the seed {seed}."""

import torch
import torch.nn.functional as F
from torch import nn


class Network(nn.Module):
    def __init__(self):
        super().__init__()
{layers}

    def forward(self, {taken}):
{steps}
        return x


def factory(batch: int = {batch}):
    return Network(), ({inputs},)
'''


def network_file(seed: str, batch: int, sizes: Sizes = NORMAL) -> str:
    """The source of a file with a factory: a network that depends on the seed and the sizes alone."""
    writer = Writer(Random(seed), sizes)
    kind = writer.choice(tuple(STARTS))
    taken, inputs, shape = STARTS[kind](writer)
    for _ in range(writer.random.randint(*sizes.stages)):
        shape = _next(writer, shape)
    if shape.kind != "vector" and writer.choice((True, True, False)):
        shape = to_vector(writer, shape)
    if shape.kind == "vector":
        writer.step(f"x = {writer.layer(f'nn.Linear({shape.dims[0]}, {writer.random.randint(2, 1000)})')}(x)")
    return _FILE.format(
        seed=seed,
        batch=batch,
        layers="\n".join(f"        {line}" for line in writer.layers),
        steps="\n".join(f"        {line}" for line in writer.steps),
        taken=taken,
        inputs=inputs,
    )


def _next(w: Writer, shape: Shape) -> Shape:
    """One more stage. A tensor that has grown too large, and now and then another, first changes its kind."""
    is_short = shape.kind == "map" and math.prod(shape.dims[1:]) <= LONGEST_SEQUENCE
    if is_short and w.random.random() < 0.12:
        shape = to_sequence(w, shape)
    elif shape.kind != "vector":
        often = 0.06 if shape.kind == "sequence" else 0.0
        if shape.values > w.sizes.most_values or w.random.random() < often:
            shape = to_vector(w, shape)
    return w.choice(STAGES[shape.kind])(w, shape)


Start = tuple[str, str, Shape]
"""What `forward` takes, what the factory gives it, and the shape of `x` behind the first lines."""


def _image(w: Writer) -> Start:
    channels, side = w.choice((1, 3, 3, 4)), w.choice(w.sizes.sides)
    other = w.choice((side, side, w.choice(w.sizes.sides)))
    return "x", f"torch.randn(batch, {channels}, {side}, {other})", Shape((channels, side, other))


def _tokens(w: Writer) -> Start:
    words, length = w.random.randint(*w.sizes.vocabulary), w.choice(w.sizes.lengths)
    width = w.width(values_per_channel=length)
    w.step(f"x = {w.layer(f'nn.Embedding({words}, {width})')}(words)")
    if w.choice((True, False)):
        w.step(f"x = x + {w.layer(f'nn.Parameter(torch.randn({length}, {width}))')}")
    return "words", f"torch.randint({words}, (batch, {length}))", Shape((length, width))


def _series(w: Writer) -> Start:
    length, width = w.choice(w.sizes.lengths), w.width()
    return "x", f"torch.randn(batch, {length}, {width})", Shape((length, width))


def _signal(w: Writer) -> Start:
    """A waveform, framed by a convolution."""
    length, kernel = w.choice(w.sizes.lengths), w.choice((8, 16, 25))
    width = w.width(flops_per_channel=2 * kernel * length, values_per_channel=length)
    layer = w.layer(f"nn.Conv1d(1, {width}, {kernel}, stride={kernel})")
    w.step(f"x = {w.activation(f'{layer}(wave)')}.transpose(1, 2)")
    return "wave", f"torch.randn(batch, 1, {length * kernel})", Shape((length, width))


def _features(w: Writer) -> Start:
    """Rows of a table: numbers, and categories with an embedding each or a bag of them."""
    numbers, rows, columns = w.random.randint(4, 64), w.random.randint(*w.sizes.vocabulary), w.random.randint(2, 12)
    width = w.choice((8, 16, 32))
    given = f"torch.randn(batch, {numbers}), torch.randint({rows}, (batch, {columns}))"
    if w.choice((True, False)):
        w.step(f"x = torch.cat([numbers, {w.layer(f'nn.EmbeddingBag({rows}, {width})')}(categories)], 1)")
        return "numbers, categories", given, Shape((numbers + width,))
    w.step(f"x = torch.cat([numbers, {w.layer(f'nn.Embedding({rows}, {width})')}(categories).flatten(1)], 1)")
    return "numbers, categories", given, Shape((numbers + width * columns,))


STARTS: dict[str, Callable[[Writer], Start]] = {
    "image": _image,
    "tokens": _tokens,
    "series": _series,
    "signal": _signal,
    "features": _features,
}
