"""Tables of ai-dynamo/aiconfigurator: kernels of large language models in CUDA graphs.

Its own files (`gemm_perf.txt`) have a row for each operator of one device, with its `latency` in ms. Collected over
devices, they have a column for each, in µs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from statsnet.devices.tables.csv_file import (
    MICRO,
    MILLI,
    Format,
    Record,
    Tally,
    device_of,
    devices_of,
    header_of,
    integers,
    records,
    seconds,
)
from statsnet.devices.tables.row import TableRow
from statsnet.devices.tables.words import dtype_word, named

SOURCE = "aiconfigurator"

GEMM = frozenset({"gemm_dtype", "m", "n", "k"})
CONTEXT = frozenset({"attn_dtype", "kv_cache_dtype", "head_dim", "window_size", "batch_size", "isl", "num_heads",
                     "num_key_value_heads", "step"})  # fmt: skip
ENCODER = frozenset({"attn_dtype", "head_dim", "batch_size", "isl", "num_heads"})
MOE = frozenset({"moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size",
                 "moe_ep_size", "distribution"})  # fmt: skip
GDN = frozenset({"kernel_source", "phase", "batch_size", "seq_len", "num_tokens", "d_model", "num_v_heads"})
MLA = frozenset({"op_name", "bmm_dtype", "num_tokens", "num_heads"})
ALLREDUCE = frozenset({"allreduce_dtype", "num_gpus", "message_size", "backend"})

ONE_DEVICE = frozenset({"device", "latency"})
"""Columns of aiconfigurator's own files."""

MLA_LATENT, MLA_HEAD = 512, 128
"""Rank of the latent vectors and size of a head without its rotary part in DeepSeek's models."""

Described = tuple[str, str, tuple[tuple[str, int], ...], str]
"""Operator, dtype, dims and variant."""


def _gemm(r: Record) -> Described:
    m, n, k = integers((r["m"], r["n"], r["k"]))
    return "gemm", dtype_word(r["gemm_dtype"]), named("gemm", (1, m, n, k)), "NT"


def _attention(r: Record) -> Described:
    batch, new, before, heads, kv_heads, head_dim, window = integers(
        [r[c] for c in ("batch_size", "isl", "step", "num_heads", "num_key_value_heads", "head_dim", "window_size")]
    )
    operator = "attention_decode" if new == 1 and before > 0 else "attention_prefill"
    dims = named(operator, (batch, new, new + before, heads, kv_heads, head_dim, window))
    return operator, dtype_word(r["attn_dtype"]), dims, f"kv {dtype_word(r['kv_cache_dtype'])}"


def _encoder(r: Record) -> Described:
    batch, length, heads, head_dim = integers([r[c] for c in ("batch_size", "isl", "num_heads", "head_dim")])
    dims = named("attention_encoder", (batch, length, length, heads, heads, head_dim, 0))
    return "attention_encoder", dtype_word(r["attn_dtype"]), dims, ""


def _moe(r: Record) -> Described:
    columns = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
    return "moe", dtype_word(r["moe_dtype"]), named("moe", integers([r[c] for c in columns])), r["distribution"]


def _gdn(r: Record) -> Described:
    batch, hidden, heads = integers([r[c] for c in ("batch_size", "d_model", "num_v_heads")])
    tokens = integers([r["num_tokens"]])[0] if r["num_tokens"] else batch * integers([r["seq_len"] or "1"])[0]
    dims = named("gated_delta", (batch, tokens, hidden, heads))
    return "gated_delta", "bfloat16", dims, f"{r['kernel_source']} {r['phase']}"


def _mla(r: Record) -> Described:
    tokens, heads = integers((r["num_tokens"], r["num_heads"]))
    before = r["op_name"] == "mla_gen_pre"
    n, k = (MLA_LATENT, MLA_HEAD) if before else (MLA_HEAD, MLA_LATENT)
    return "mla_bmm", dtype_word(r["bmm_dtype"]), named("mla_bmm", (heads, tokens, n, k)), r["op_name"]


def _allreduce(r: Record) -> Described:
    ranks, elements = integers((r["num_gpus"], r["message_size"]))
    return "allreduce", dtype_word(r["allreduce_dtype"]), named("allreduce", (elements, ranks)), r["backend"]


def _reader(
    own: frozenset[str], describe: Callable[[Record], Described]
) -> Callable[[Path, Tally], Iterator[TableRow]]:
    def read(path: Path, tally: Tally) -> Iterator[TableRow]:
        of_one = ONE_DEVICE.issubset(header_of(path))
        devices = {} if of_one else devices_of(path, own, tally)
        for record in records(path, tally):
            try:
                operator, dtype, dims, variant = describe(record)
            except ValueError:
                tally.drop(path, "a size is no whole number")
                continue
            if of_one:
                times = {device_of(record["device"], path, tally): seconds(record["latency"], MILLI, path, tally)}
            else:
                times = {device: seconds(record[column], MICRO, path, tally) for column, device in devices.items()}
            known = {d: time_s for d, time_s in times.items() if d is not None and time_s is not None}
            if known:
                yield TableRow(source=SOURCE, operator=operator, dtype=dtype, dims=dims, variant=variant, time_s=known)

    return read


_KINDS: tuple[tuple[str, frozenset[str], Callable[[Record], Described]], ...] = (
    ("gemm", GEMM, _gemm), ("attention", CONTEXT, _attention), ("encoder attention", ENCODER, _encoder),
    ("mixture of experts", MOE, _moe), ("gated delta net", GDN, _gdn), ("latent attention products", MLA, _mla),
    ("all-reduce", ALLREDUCE, _allreduce),
)  # fmt: skip

FORMATS = tuple(
    Format(name=f"aiconfigurator, {name}", columns=own, read=_reader(own, describe)) for name, own, describe in _KINDS
)
