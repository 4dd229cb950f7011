"""Attention as ONNX Runtime fuses it: projections, heads and caches in one operator."""

from __future__ import annotations

from dataclasses import dataclass

from statsnet.recordings.onnx_call import Tensor
from statsnet.recordings.onnx_parts import Fused, FusedNode, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heads:
    """Sizes of attention: `past` tokens are in a cache."""

    batch: int
    queries: int
    keys: int
    past: int
    heads: int
    of_keys: int
    width: int
    value_width: int


def _attended(node: FusedNode, dtype: str, sizes: _Heads, *, causal: bool) -> Fused:
    """Attention alone, with [batch, heads, tokens, width] for its operands. With a cache no pair is left out but among
    the new tokens, so causal attention is taken to be whole."""

    def tensor(heads: int, tokens: int, width: int) -> Tensor:
        return {"shape": [sizes.batch, heads, tokens, width], "dtype": dtype}

    kv = sizes.keys + sizes.past
    names = tuple(node.between(what) for what in ("query", "key", "value"))
    known: dict[str, Tensor] = {
        names[0]: tensor(sizes.heads, sizes.queries, sizes.width),
        names[1]: tensor(sizes.of_keys, kv, sizes.width),
        names[2]: tensor(sizes.of_keys, kv, sizes.value_width),
        node.results[0]: {"shape": [sizes.batch, sizes.queries, sizes.heads * sizes.value_width], "dtype": dtype},
        node.result(1): tensor(sizes.of_keys, kv, sizes.width),
        node.result(2): tensor(sizes.of_keys, kv, sizes.value_width),
    }
    attributes = {"is_causal": int(causal and not sizes.past)}
    return Fused(
        parts=(Part(op="Attention", inputs=names, outputs=node.results[:1], attributes=attributes),), known=known
    )


def attention(node: FusedNode) -> Fused | None:
    """With its projections: input [B, S, K], weights [K, queries + keys + values], bias; a cache [2, B, H, P, D]."""
    first, weights, heads = node.call.input(0), node.call.input(1), node.number("num_heads")
    if first is None or weights is None or len(first["shape"]) != 3 or len(weights["shape"]) != 2 or heads < 1:
        return None
    batch, tokens, _ = first["shape"]
    given = node.call.attributes.get("qkv_hidden_sizes") or [weights["shape"][1] // 3] * 3
    if not isinstance(given, list) or len(given) != 3 or given[0] != given[1]:
        return None
    if any(not isinstance(size, int) or size < 1 for size in given):
        return None
    past = node.call.input(4)
    sizes = _Heads(
        batch=batch, queries=tokens, keys=tokens, past=past["shape"][3] if past and len(past["shape"]) == 5 else 0,
        heads=heads, of_keys=heads, width=given[0] // heads, value_width=given[2] // heads,
    )  # fmt: skip
    inner = _attended(node, first["dtype"], sizes, causal=bool(node.number("unidirectional")))
    projected = node.between("projected")
    parts = [Part(op="MatMul", inputs=node.names[:2], outputs=(projected,))]
    if node.name(2):
        parts.append(Part(op="Add", inputs=(projected, node.name(2)), outputs=(node.between("biased"),)))
    known = {k: v for k, v in inner.known.items() if k not in (node.result(1), node.result(2))}
    cache = {"shape": [2, batch, heads, tokens + sizes.past, sizes.width], "dtype": first["dtype"]}
    return Fused(parts=(*parts, *inner.parts), known=known | {node.result(1): cache})


def multi_head(node: FusedNode) -> Fused | None:
    """Query, key and value [B, S, H · D], each projected before; or packed ones [B, S, H, 3, D]; or keys and values of
    another model's part [B, H, S, D]; a cache [B, H, P, D] at 6 or, of grouped queries, at 3."""
    grouped = node.call.op == "GroupQueryAttention"
    query, key, value = (node.call.input(i) for i in range(3))
    heads = node.number("num_heads")
    if query is None or heads < 1 or len(query["shape"]) not in (3, 5):
        return None
    batch, queries = query["shape"][:2]
    of_keys = node.number("kv_num_heads", heads) if grouped else heads
    if of_keys < 1:
        return None
    packed = of_keys * 2 + heads if grouped else 3 * heads
    if key is None:
        width = value_width = query["shape"][-1] if len(query["shape"]) == 5 else query["shape"][2] // packed
        keys = queries
    else:
        width = query["shape"][-1] // heads
        apart = len(key["shape"]) == 4
        keys = key["shape"][2 if apart else 1]
        value_width = width if value is None else value["shape"][-1] // (1 if apart else of_keys)
    past = node.call.input(3 if grouped else 6)
    cached = past["shape"][2] if past and len(past["shape"]) == 4 else 0
    sizes = _Heads(batch=batch, queries=queries, keys=keys, past=cached, heads=heads, of_keys=of_keys, width=width,
                   value_width=value_width)  # fmt: skip
    return _attended(node, query["dtype"], sizes, causal=grouped or bool(node.number("unidirectional")))
