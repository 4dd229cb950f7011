"""What a kernel's time depends on besides its work: tiles and waves, alignment, cache, parallelism along k.

Each operator has a list of features, all logarithms to base 2 or flags. A product is computed in tiles of its output;
the cores take `ceil(tiles ÷ cores)` turns (waves), and the last one may leave most of them idle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from statsnet.devices.hardware import Chip
from statsnet.devices.operator_work import item_bytes, output_size, work_of
from statsnet.devices.tables.words import ATTENTIONS

TILES = ((256, 128), (128, 128), (64, 64), (32, 32), (16, 128))
"""Rows and columns of the tiles that libraries choose from."""

ALIGNED = 128
Dims = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """An operator's work, and its features by name."""

    flops: float
    nbytes: float
    features: dict[str, float]


def described(operator: str, dtype: str, dims: Dims, variant: str, direction: str, chip: Chip) -> Described:
    """Work and features of one call."""
    flops, nbytes = work_of(operator, dtype, dims, variant)
    features = {name: _log(size) for name, size in dims.items()}
    features["flops"], features["bytes"] = _log(flops), _log(nbytes)
    features["intensity"] = _log(flops) - _log(nbytes) if flops else 0.0
    features["in_cache"] = _log(nbytes / chip.cache_bytes)
    if operator in ("gemm", "mla_bmm", "sparse_gemm"):
        b, m, n, k = (dims[name] for name in ("batch", "m", "n", "k"))
        features |= _product(b, m, n, k, chip)
    elif operator == "convolution":
        features |= _convolution(dims, direction, chip)
    elif operator in ATTENTIONS:
        features |= _attention(dims, chip, item_bytes(dtype))
    elif operator == "moe":
        features |= _moe(dims, chip)
    elif operator in ("rnn", "gru", "lstm"):
        features |= _product(1, dims["batch"], dims["hidden"], dims["hidden"], chip)
    elif "bytes_read" not in dims:
        features |= _pointwise(dims, chip)
    return Described(flops=flops, nbytes=nbytes, features=features)


def _log(value: float) -> float:
    return math.log2(max(value, 2.0**-40))


def _alignment(size: int) -> float:
    """Logarithm of the largest power of two, up to ALIGNED, that divides a size."""
    return math.log2(math.gcd(size, ALIGNED)) if size else 0.0


def _waves(tiles: float, chip: Chip) -> tuple[float, float]:
    """Waves, and how much longer they take than if no core were ever idle; as logarithms."""
    waves = tiles / chip.cores
    return _log(math.ceil(waves)), _log(math.ceil(waves) / waves)


def _product(b: int, m: int, n: int, k: int, chip: Chip) -> dict[str, float]:
    features = {"align_m": _alignment(m), "align_n": _alignment(n), "align_k": _alignment(k),
                "m_to_n": _log(m) - _log(n), "k_to_mn": _log(k) - 0.5 * (_log(m) + _log(n)), "mn": _log(b * m * n),
                "mk": _log(b * m * k), "nk": _log(b * n * k)}  # fmt: skip
    for rows, columns in TILES:
        tiles = b * math.ceil(m / rows) * math.ceil(n / columns)
        name = f"{rows}x{columns}"
        waves, tail = _waves(tiles, chip)
        padding = _log(tiles * rows * columns / (b * m * n))
        features[f"waves {name}"] = waves
        features[f"lost {name}"] = tail + padding
        features[f"turns {name}"] = waves + _log(k)  # steps along k that one core makes
        if rows == columns:
            features[f"k of tile {name}"] = _log(k / max(chip.cores / tiles, 1.0))  # left of k after it is split
    return features


def _convolution(d: Dims, direction: str, chip: Chip) -> dict[str, float]:
    out_h = output_size(d["in_h"], d["kernel_h"], d["pad_h"], d["stride_h"], d["dilation_h"])
    out_w = output_size(d["in_w"], d["kernel_w"], d["pad_w"], d["stride_w"], d["dilation_w"])
    groups, window = max(d["groups"], 1), d["kernel_h"] * d["kernel_w"]
    inner, outer = max(d["in_channels"] // groups, 1), max(d["out_channels"] // groups, 1)
    pixels, read = d["batch"] * out_h * out_w, d["batch"] * d["in_h"] * d["in_w"]
    m, n, k = {  # the product that this convolution is
        "backward_data": (read, inner, outer * window),
        "backward_weight": (outer, inner * window, pixels),
    }.get(direction, (pixels, outer, inner * window))
    square3 = d["kernel_h"] == d["kernel_w"] == 3
    unit = d["stride_h"] == d["stride_w"] == d["dilation_h"] == d["dilation_w"] == 1
    return _product(groups, m, n, k, chip) | {
        "window": _log(window), "winograd": float(square3 and unit and groups == 1), "1x1": float(window == 1),
        "1x1 plain": float(window == 1 and unit and d["pad_h"] == 0), "depthwise": float(groups == d["in_channels"]),
        "fft": float(unit and window >= 25), "pixels": _log(out_h * out_w), "in_pixels": _log(d["in_h"] * d["in_w"]),
        "align_in": _alignment(d["in_channels"]), "align_out": _alignment(d["out_channels"]),
        "align_batch": _alignment(d["batch"]), "align_width": _alignment(out_w),
        "stride": _log(d["stride_h"] * d["stride_w"]), "aspect": _log(d["kernel_h"]) - _log(d["kernel_w"]),
        "gemm_m": _log(m), "gemm_n": _log(n), "gemm_k": _log(k),
        "read": _log(read * d["in_channels"]), "written": _log(pixels * d["out_channels"]),
        "weights": _log(inner * outer * groups * window),
    }  # fmt: skip


def _attention(d: Dims, chip: Chip, item: float) -> dict[str, float]:
    rows = d["batch"] * d["heads"]
    features = {"group": _log(d["heads"] / d["kv_heads"]), "sequences": _log(rows),
                "kv_bytes": _log(2 * d["batch"] * d["kv_len"] * d["kv_heads"] * d["head_dim"] * item),
                "kv_rows": _log(d["batch"] * d["kv_heads"]), "tokens": _log(d["batch"] * d["q_len"]),
                "q_bytes": _log(rows * d["q_len"] * d["head_dim"] * item),
                "align_q": _alignment(d["q_len"]),
                "group_align": _alignment(max(d["heads"] // d["kv_heads"], 1))}  # fmt: skip
    for block in (64, 128):
        tiles = rows * math.ceil(d["q_len"] / block)
        features[f"waves {block}"], features[f"tail {block}"] = _waves(tiles, chip)
        features[f"turns {block}"] = features[f"waves {block}"] + _log(d["kv_len"])
    kv_tiles = d["batch"] * d["kv_heads"]
    features["waves kv"], features["tail kv"] = _waves(kv_tiles, chip)
    features["turns kv"] = features["waves kv"] + _log(d["kv_len"])
    features["kv split"] = _log(d["kv_len"] / max(chip.cores / kv_tiles, 1.0))
    return features


def _moe(d: Dims, chip: Chip) -> dict[str, float]:
    pairs = d["tokens"] * d["top_k"] / d["expert_parallel"]
    experts = max(d["experts"] / d["expert_parallel"], 1.0)
    each, width = pairs / experts, d["intermediate"] / d["tensor_parallel"]
    features = {"pairs": _log(pairs), "experts_here": _log(experts), "tokens_each": _log(each), "width": _log(width),
                "used": _log(min(experts, pairs)), "align_width": _alignment(int(width))}  # fmt: skip
    for rows in (16, 64, 128):
        tiles = min(experts, pairs) * math.ceil(max(each, 1.0) / rows) * math.ceil(2 * width / 128)
        features[f"waves {rows}"], features[f"tail {rows}"] = _waves(tiles, chip)
    return features


def _pointwise(dims: Dims, chip: Chip) -> dict[str, float]:
    sizes = list(dims.values()) or [1]
    features = {"numbers": _log(math.prod(sizes)), "align_last": _alignment(sizes[-1]),
                "align_all": _alignment(math.prod(sizes))}  # fmt: skip
    features["waves"], features["tail"] = _waves(math.prod(sizes) / 1024, chip)
    features["row waves"], features["row tail"] = _waves(sizes[0], chip)
    return features
