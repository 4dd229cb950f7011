"""Scaled dot-product attention: two products for each pair of tokens that is needed.

Forward 2 · pairs · (D + Dv) FLOPs. Backward 2 · pairs · (3 D + 2 Dv), because the scores are computed again: 2.5 times
the forward pass if D = Dv. Softmax inside a fused kernel is not counted (FlashAttention's own convention). Causal
attention counts the pairs up to the diagonal, aligned to the first query. Where a window or a cache in pages is given,
the last query belongs to the last key, as in FlashAttention.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from statsnet.profiling.costs.call import Cost, MisfitError, OperatorCall, dimensions, last_dimension
from statsnet.profiling.costs.registry import operator_cost
from statsnet.signatures.categories import base_name
from statsnet.signatures.model import Cluster
from statsnet.signatures.operators import TensorSpec, is_tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class _Schema:
    """The places of the query and of the causal flag among an operator's arguments, and the layout of its tensors. If
    it `writes`, its first argument takes the result."""

    query: int
    causal: int
    heads_first: bool = True  # [..., H, S, D]; else [B, S, H, D], or [T, H, D] of packed sequences
    offsets: int | None = None  # cumulative lengths of packed queries; those of the keys and both longest follow
    window: int | None = None  # tokens to the left that a query sees; those to the right follow
    pages: int | None = None  # the pages of each sequence's keys, which lie in a pool [pages, tokens of a page, H, D]
    writes: bool = False

    @property
    def backward(self) -> bool:
        return self.query == 1 and not self.writes


_SCHEMAS = {
    "scaled_dot_product_attention": _Schema(query=0, causal=5),
    "_scaled_dot_product_attention_math": _Schema(query=0, causal=5),
    "_scaled_dot_product_attention_math_for_mps": _Schema(query=0, causal=5),
    "_scaled_dot_product_flash_attention_for_cpu": _Schema(query=0, causal=4),
    "_scaled_dot_product_flash_attention.default": _Schema(query=0, causal=4),
    "_scaled_dot_product_flash_attention.quantized": _Schema(query=0, causal=7),
    "_scaled_dot_product_efficient_attention": _Schema(query=0, causal=6),
    "_scaled_dot_product_cudnn_attention": _Schema(query=0, causal=6),
    "_scaled_dot_product_fused_attention_overrideable": _Schema(query=0, causal=5),
    "_scaled_dot_product_flash_attention_for_cpu_backward": _Schema(query=1, causal=7),
    "_scaled_dot_product_flash_attention_backward": _Schema(query=1, causal=11),
    "_scaled_dot_product_efficient_attention_backward": _Schema(query=1, causal=11),
    "_scaled_dot_product_cudnn_attention_backward": _Schema(query=1, causal=14),
    "_scaled_dot_product_fused_attention_overrideable_backward": _Schema(query=1, causal=13),
    "_flash_attention_forward": _Schema(query=0, causal=8, heads_first=False, offsets=3, window=11, pages=15),
    "_flash_attention_forward.quantized": _Schema(query=0, causal=8, heads_first=False, offsets=3, window=14),
    "_flash_attention_forward_no_dropout_inplace": _Schema(
        query=1, causal=9, heads_first=False, offsets=4, window=12, pages=16, writes=True
    ),
    "_flash_attention_backward": _Schema(query=1, causal=11, heads_first=False, offsets=6, window=15),
    "_efficient_attention_forward": _Schema(query=0, causal=9, heads_first=False, offsets=4),
    "_efficient_attention_backward": _Schema(query=1, causal=14, heads_first=False, offsets=6),
    "_cudnn_attention_forward": _Schema(query=0, causal=10, offsets=4),
}


def as_on(device: str, cluster: Cluster) -> Cluster:
    """A fused attention that another kind of device ran, as the model's call that it was: each kind has operators of
    its own. Any other cluster as it is."""
    schema = _schema_of(cluster.op)
    fused = base_name(cluster.op).startswith("_scaled_dot_product") and "quantized" not in cluster.op
    if schema is None or schema.backward or not fused or ("for_cpu" in cluster.op) == (device == "cpu"):
        return cluster
    mask = next((arg for arg in cluster.args[3:] if is_tensor(arg)), None)
    causal = schema.causal < len(cluster.args) and cluster.args[schema.causal] is True
    query, key = cluster.args[0]["shape"], cluster.args[1]["shape"]
    shares_heads = len(query) > 2 and query[-3] != key[-3]
    args = (*cluster.args[:3], mask, 0.0, causal, *((None, True) if shares_heads else ()))  # scale, enable_gqa
    return replace(cluster, op="aten.scaled_dot_product_attention.default", args=args)


def _schema_of(op: str) -> _Schema | None:
    return _SCHEMAS.get(".".join(op.split(".")[1:])) or _SCHEMAS.get(base_name(op))


def is_causal(call: OperatorCall) -> bool:
    """Whether a call of fused attention is. Raises MisfitError for any other operator."""
    schema = _schema_of(call.op)
    if schema is None:
        raise MisfitError(f"{call.op} is no fused attention")
    return call.flag(schema.causal)


def needed_pairs(queries: int, keys: int, *, causal: bool) -> int:
    """Pairs (i, j) of query and key, with j <= i where causal (`tril`, as torch's `is_causal`)."""
    if not causal:
        return queries * keys
    square = min(queries, keys)
    return square * (square + 1) // 2 + max(0, queries - keys) * keys


def windowed_pairs(queries: int, keys: int, left: int | None, right: int | None) -> int:
    """Pairs whose key is at most `left` tokens before the query's place and `right` behind it (None: any number); the
    last query's place is that of the last key."""
    first = keys - queries
    until = queries * keys if right is None else _ramp(first + right + 1, queries, keys)
    return until - (0 if left is None else min(until, _ramp(first - left, queries, keys)))


def _ramp(begin: int, steps: int, most: int) -> int:
    """The sum of so many successive numbers from `begin`, each at least 0 and at most `most`."""

    def below(end: int) -> int:
        rising = max(0, min(end, most + 1))
        return rising * (rising - 1) // 2 + most * max(0, end - most - 1)

    return below(begin + steps) - below(begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attended:
    """Sizes of one call: `batch` sequences times heads, each of `queries` times `keys`, of which `pairs` in all are
    needed; the widths D and Dv."""

    batch: int
    queries: int
    keys: int
    pairs: float
    width: int
    value_width: int
    backward: bool


def attended(call: OperatorCall) -> Attended:
    """Sizes of a call of fused attention. Raises MisfitError for any other operator. Of packed sequences, `queries` and
    `keys` are all tokens; of nested ones, the longest row's."""
    schema = _schema_of(call.op)
    if schema is None:
        raise MisfitError(f"{call.op} is no fused attention")
    return _attended(call, schema)


def _attended(call: OperatorCall, schema: _Schema) -> Attended:
    query, key, value = (call.tensor(schema.query + i) for i in range(3))
    causal = call.flag(schema.causal)
    if (some := _of_some(call, schema, query, key)) is not None:
        batch, queries, keys = query.shape[-2], some.queries, some.keys
        pairs = float(batch * some.pairs)
        if not some.packed:
            batch, queries, keys = batch * some.sequences, queries // some.sequences, keys // some.sequences
    elif _is_packed(call, schema, query):
        queries, batch, _ = _at_least(query, 3)[-3:]
        keys, pairs = _at_least(key, 3)[-3], _packed_pairs(call, schema, query, key, causal)
    elif schema.heads_first:
        *batch_and_heads, queries, _ = _at_least(query, 2)
        batch, keys = math.prod(batch_and_heads), _at_least(key, 2)[-2]
        pairs = float(batch * needed_pairs(queries, keys, causal=causal))
        if query.squares is not None and len(query.shape) == 4:
            pairs = _nested_pairs(query, causal=causal)
    else:
        sequences, queries, heads, _ = dimensions(query, 4)
        batch, keys = sequences * heads, dimensions(key, 4)[1]
        pairs = float(batch * needed_pairs(queries, keys, causal=causal))
    return Attended(batch=batch, queries=queries, keys=keys, pairs=pairs, width=last_dimension(query),
                    value_width=last_dimension(value), backward=schema.backward)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfSome:
    """Attention to some of the keys that are there: tokens of all sequences, and how many before and behind a query it
    sees (None: all)."""

    sequences: int
    queries: int
    keys: int
    window: tuple[int | None, int | None]
    packed: bool

    @property
    def pairs(self) -> int:
        return sum(count * windowed_pairs(queries, keys, *self.window) for count, queries, keys in self._sizes())

    @property
    def keys_read(self) -> int:
        left, right = self.window
        if left is None or right is None:
            return self.keys
        return sum(count * min(keys, queries + left + right) for count, queries, keys in self._sizes())

    def _sizes(self) -> Iterator[tuple[int, int, int]]:
        """How many sequences have so many queries and keys: as equal as they can be."""
        (queries, more_queries), (keys, more_keys) = (divmod(n, self.sequences) for n in (self.queries, self.keys))
        for first, last in pairwise(sorted({0, more_queries, more_keys, self.sequences})):
            yield last - first, queries + (first < more_queries), keys + (first < more_keys)


def _of_some(call: OperatorCall, schema: _Schema, query: TensorSpec, key: TensorSpec) -> _OfSome | None:
    """None without a window and pages. Packed sequences are taken as equally long, those in pages as the longest."""
    table = None if schema.pages is None else call.maybe_tensor(schema.pages)
    sides = [int(call.number(schema.window + i, -1)) for i in range(2)] if schema.window is not None else []
    if schema.offsets is None or (table is None and all(side < 0 for side in sides)):
        return None
    left, right = (None if side < 0 else side for side in sides)
    packed = _is_packed(call, schema, query)
    offsets = call.maybe_tensor(schema.offsets)
    sequences = max(1, dimensions(query, 4)[0]) if not packed else max(1, offsets.numel - 1) if offsets else 1
    keys = math.prod(_at_least(key, 3)[:-2])
    if table is not None:
        reserved = dimensions(table, 2)[1] * dimensions(key, 4)[1]
        keys = sequences * min(int(call.number(schema.offsets + 3, reserved)) or reserved, reserved)
    queries = math.prod(_at_least(query, 3)[:-2])
    if call.flag(schema.causal):
        right = 0
    return _OfSome(sequences=sequences, queries=queries, keys=keys, window=(left, right), packed=packed)


def _is_packed(call: OperatorCall, schema: _Schema, query: TensorSpec) -> bool:
    if schema.offsets is None:
        return False
    return len(query.shape) == 3 or call.maybe_tensor(schema.offsets) is not None


def _at_least(spec: TensorSpec, rank: int) -> tuple[int, ...]:
    if len(spec.shape) < rank:
        raise MisfitError(f"a tensor of {rank} or more dimensions is expected, not {len(spec.shape)}")
    return spec.shape


def _packed_pairs(call: OperatorCall, schema: _Schema, query: TensorSpec, key: TensorSpec, causal: bool) -> float:
    """Packed sequences [T, H, D] of unknown lengths: equal lengths are assumed, which is the least possible work. Some
    operators have an axis of one before them."""
    offsets = call.tensor(schema.offsets) if schema.offsets is not None else query
    sequences = max(1, offsets.numel - 1)
    tokens, heads, _ = _at_least(query, 3)[-3:]
    pairs = tokens * _at_least(key, 3)[-3] / sequences
    return heads * (pairs / 2 if causal else pairs)


def _nested_pairs(query: TensorSpec, *, causal: bool) -> float:
    """Rows [H, n, D] of their own lengths n: squares has the sum of n², elements that of H · n · D."""
    _, heads, _, width = query.shape
    tokens = query.numel / max(1, heads * width)
    squares = query.squares or 0
    return heads * ((squares + tokens) / 2 if causal else squares)


def _attention(call: OperatorCall, schema: _Schema) -> Cost:
    sizes = _attended(call, schema)
    forward, backward = sizes.width + sizes.value_width, 3 * sizes.width + 2 * sizes.value_width
    query, key, value = (call.tensor(schema.query + i) for i in range(3))
    read, written = float(call.bytes_in), float(call.bytes_out)
    if (some := _of_some(call, schema, query, key)) is not None:
        there = max(1, math.prod(key.shape[:-2]))
        read -= (key.nbytes + value.nbytes) * (1 - min(1.0, some.keys_read / there))
    if schema.writes:
        read, written = read - call.tensor(0).nbytes, written + call.tensor(0).nbytes
    return call.cost(2 * sizes.pairs * (backward if schema.backward else forward), read=read, written=written)


for _name, _schema in _SCHEMAS.items():
    operator_cost(f"aten.{_name}")(partial(_attention, schema=_schema))


@operator_cost("_native_multi_head_attention")
def _multi_head(call: OperatorCall) -> Cost:
    """torch.nn's fused inference path: packed projections of [B, S, E], attention, output projection."""
    query, key = call.tensor(0), call.tensor(1)
    batch, queries, width = dimensions(query, 3)
    keys = dimensions(key, 3)[1]
    projections = 2 * width * (2 * query.numel + 2 * key.numel)
    pairs = batch * queries * keys if query.squares is None else query.squares
    return call.cost(projections + 4 * pairs * width)
