"""Transformer base (arXiv 1706.03762) for WMT English-German: 6 + 6 layers of 512, 8 heads.

As published: normalisation after the residual sum, sinusoidal positions, attention without biases, and one
table of 37,000 byte pairs for source, target and output. All target positions at once, as in training.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from reference_workloads.nlp.attention import padded
from reference_workloads.synthetic import lengths, tokens

HEAD = 64
DROPOUT = 0.1


def sinusoids(length: int, width: int) -> Tensor:
    frequencies = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(length)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """`mask` is true where a query may look."""
        query = self.heads(self.query(x))
        key, value = self.heads(self.key(memory)), self.heads(self.value(memory))
        out = scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return self.out(out.transpose(1, 2).flatten(2))

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, HEAD)).transpose(1, 2)


class Layer(nn.Module):
    """An encoder layer, or with `cross` a decoder layer."""

    def __init__(self, width: int, cross: bool) -> None:
        super().__init__()
        self.attention = Attention(width)
        self.cross = Attention(width) if cross else None
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.ReLU(inplace=True), nn.Linear(4 * width, width)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None) -> Tensor:
        """`mask` hides the source's padding, so in a decoder layer it is the cross attention's."""
        causal = self.cross is not None
        own = self.attention(x, x, mask=None if causal else mask, causal=causal)
        x = self.norms[0](x + self.dropout(own))
        if self.cross is not None:
            x = self.norms[1](x + self.dropout(self.cross(x, memory, mask=mask)))
        return self.norms[-1](x + self.dropout(self.feed_forward(x)))


class Transformer(nn.Module):
    positions: Tensor

    def __init__(self, layers: int, width: int, vocabulary: int, longest: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        nn.init.normal_(self.embedding.weight, std=width**-0.5)
        self.register_buffer("positions", sinusoids(longest, width), persistent=False)
        self.dropout = nn.Dropout(DROPOUT)
        self.encoder = nn.ModuleList(Layer(width, cross=False) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(width, cross=True) for _ in range(layers))

    def forward(self, source: Tensor, source_length: Tensor, target: Tensor) -> Tensor:
        """source: (batch, time); target: (batch, steps). Returns logits, (batch, steps, vocabulary)."""
        mask = ~padded(source_length, source.shape[1])[:, None, None]
        memory = self.embed(source)
        for layer in self.encoder:
            memory = layer(memory, mask)
        x = self.embed(target)
        for layer in self.decoder:
            x = layer(x, mask, memory)
        return linear(x, self.embedding.weight)

    def embed(self, words: Tensor) -> Tensor:
        scale = self.embedding.embedding_dim**0.5
        return self.dropout(self.embedding(words) * scale + self.positions[: words.shape[1]])


def build(
    batch: int = 4, sequence: int = 50, layers: int = 6, hidden: int = 512, vocabulary: int = 37_000
) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """`sequence` is the length of source and target."""
    source, target = tokens(vocabulary, batch, sequence), tokens(vocabulary, batch, sequence)
    length = lengths(batch, sequence, (sequence + 1) // 2)
    return Transformer(layers, hidden, vocabulary, sequence), (source, length, target)
