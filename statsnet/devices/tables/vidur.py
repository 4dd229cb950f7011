"""Table of microsoft/vidur: layers of language models without attention, fp16, one column a device, µs.

The projections are products whose sizes follow from the model; the others read and write rows of its width.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from statsnet.devices.tables.csv_file import (
    MICRO,
    Format,
    Record,
    Tally,
    devices_of,
    integers,
    records,
    seconds,
)
from statsnet.devices.tables.row import Merged, TableRow
from statsnet.devices.tables.words import named

SOURCE = "vidur"
_SIZES = ("n_embd", "n_head", "n_kv_head", "n_expanded", "tp", "num_tokens")
COLUMNS = frozenset({"model", "vocab", "gated", "op", *_SIZES})

FORMS = {"h100": "nvidia-h100-sxm", "a100": "nvidia-a100-sxm-80gb"}
"""Vidur's H100 and A100 are those of DGX nodes (its configuration of devices: 1000 and 312 TFLOP/s in fp16, 80 GB)."""


def _described(r: Record) -> tuple[str, tuple[int, ...], str]:
    """Operator, sizes and variant of one layer on one of `tp` devices."""
    width, heads, kv_heads, expanded, tp, tokens = integers([r[s] for s in _SIZES])
    head = width // max(heads, 1)
    kv = max(kv_heads // tp, 1)
    gates = 2 if r["gated"] == "True" else 1
    op = r["op"]
    if op == "attn_pre_proj":
        return "gemm", (1, tokens, (heads // tp + 2 * kv) * head, width), "NT"
    if op == "attn_post_proj":
        return "gemm", (1, tokens, width, heads // tp * head), "NT"
    if op == "mlp_up_proj":
        return "gemm", (1, tokens, gates * (expanded // tp), width), "NT"
    if op == "mlp_down_proj":
        return "gemm", (1, tokens, width, expanded // tp), "NT"
    if op == "mlp_act":
        return ("silu_mul" if gates == 2 else "gelu"), (tokens, expanded // tp), ""
    if op == "attn_rope":
        return "rope", (tokens, (heads // tp + kv) * head), ""
    if op == "emb":
        return "embedding", (tokens, width), f"vocabulary {r['vocab']} by {tp}"
    if op == "add":
        return "add", (tokens, width), ""
    if "layernorm" in op:
        return ("rms_norm" if gates == 2 else "layer_norm"), (tokens, width), ""
    raise ValueError(f"unknown layer '{op}'")


def read(path: Path, tally: Tally) -> Iterator[TableRow]:
    """Its layers as operators; those of equal sizes in several models are one."""
    devices = {c: FORMS.get(c.lower(), d) for c, d in devices_of(path, COLUMNS, tally).items()}
    merged = Merged()
    layers = list(records(path, tally))
    twice = _adding_twice(layers)
    for record in layers:
        try:
            operator, sizes, variant = _described(record)
            dims = named(operator, sizes)
        except (ValueError, ZeroDivisionError):
            tally.drop(path, "the layer's sizes are not understood")
            continue
        for column, device in devices.items():
            time_s = seconds(record[column], MICRO, path, tally)
            if time_s is not None:
                if operator == "add" and record["model"] in twice:
                    time_s /= 2
                merged.add_time((SOURCE, operator, "float16", dims, variant, "forward"), device, time_s)
    yield from merged.rows()


def _adding_twice(layers: Iterable[Record]) -> set[str]:
    """Models whose attention and MLP stand side by side (one norm for both): their `add` adds both to the residual."""
    ops: dict[str, set[str]] = {}
    for layer in layers:
        ops.setdefault(layer["model"], set()).add(layer["op"])
    return {m for m, has in ops.items() if "input_layernorm" in has and "post_attention_layernorm" not in has}


FORMATS = (Format(name="Vidur", columns=COLUMNS, read=read),)
