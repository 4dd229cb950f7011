"""The two halves of serving a language model: reading a prompt, and one token more with the cache filled."""

from __future__ import annotations

import inspect

from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicLayer


class Prefill(nn.Module):
    """Reads a prompt: fills a new key-value cache, and scores the token after the prompt."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor) -> Tensor:
        """(batch, time) -> logits, (batch, 1, vocabulary)."""
        return self.model(input_ids=input_ids, use_cache=True, logits_to_keep=1).logits


class Decode(nn.Module):
    """One token more for each sequence.

    The library's cache grows by making longer copies, so a new one around the given tensors leaves them as
    they are and every step does the same.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        # Its name from transformers 5.24 on; older ones know the other alone.
        taken = inspect.signature(model.forward).parameters
        self.keyword = "cache" if "cache" in taken else "past_key_values"

    def forward(self, input_ids: Tensor, cache: Tensor) -> Tensor:
        """input_ids: (batch, 1); cache: (layers, 2, batch, heads, history, head), keys and values.

        Returns logits, (batch, 1, vocabulary).
        """
        past = Cache(layers=[filled(keys, values) for keys, values in cache])
        return self.model(input_ids=input_ids, use_cache=True, **{self.keyword: past}).logits


def filled(keys: Tensor, values: Tensor) -> DynamicLayer:
    layer = DynamicLayer()
    layer.keys, layer.values, layer.is_initialized = keys, values, True
    return layer
