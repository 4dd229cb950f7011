"""Small configurations of every kind of block."""

from __future__ import annotations

from typing import Any

from statsnet.blocks.pointwise import BINARY, FUNCTIONS

CONV = {
    "batch": 8,
    "channels": 4,
    "size": (6, 6),
    "filters": 8,
    "kernel": (3, 3),
    "stride": (1, 1),
    "padding": (1, 1),
}
LINE = {**CONV, "size": (9,), "kernel": (3,), "stride": (2,), "padding": (0,)}
CUBE = {**CONV, "size": (4, 4, 4), "kernel": (2, 2, 2), "stride": (1, 1, 1), "padding": (0, 0, 0)}
CHAIN = {
    "batch": 8,
    "size": (9, 8),
    "channels": (4, 8, 6),
    "kernels": (3, 3),
    "strides": (2, 1),
    "paddings": (1, 1),
    "groups": (2, 1),
    "biases": (False, True),
    "norms": (True, False),
    "residuals": (False, True),
    "activations": ("relu", "gelu"),
}
DECONV = {**CONV, "kernel": (4, 4), "stride": (2, 2)}
MAPS = {"batch": 8, "channels": 3, "size": (6, 6)}
POOL = {
    "kind": "max",
    "batch": 8,
    "channels": 3,
    "size": (9, 9),
    "kernel": (3, 3),
    "stride": (2, 2),
    "padding": (1, 1),
}
ADDING = {
    **CHAIN, "channels": (4, 8, 8), "kernels": (3, 3), "residuals": (True, True), "strides": (1, 1), "paddings": (1, 1),
}  # fmt: skip

ATTENTION = {"batch": 8, "heads": 2, "queries": 6, "keys": 6, "head_size": 4}
BAG = {"rows": 40, "width": 4, "indices": 32, "bags": 8}

CONFIGS: dict[str, list[dict[str, Any]]] = {
    "parameters": [{"shape": (16, 8)}, {"shape": (64,)}, {"shape": (40, 8), "rows_read": 12}],
    "conv": [
        {**CONV, "bias": True, "activation": "gelu"},
        {**CONV, "norm": True, "residual": True, "activation": "relu"},
        {**CONV, "groups": 4, "dilation": (2, 1)},
        {**LINE, "residual": True},
        {**CUBE, "norm": True},
        {**CONV, "norm": True, "frozen": True},
        {**CONV, "channels_last": True, "residual": True, "activation": "relu"},
        {**LINE, "channels_last": True, "output_last_axis": 1},
    ],
    "conv_chain": [CHAIN, ADDING],
    "deconv": [
        {**DECONV, "bias": True, "activation": "relu"},
        {**DECONV, "longer": (1, 0), "norm": True},
        {**DECONV, "norm": True, "frozen": True},
        {**DECONV, "groups": 2},
        {**DECONV, "size": (9,), "kernel": (3,), "stride": (2,), "padding": (0,)},
        {**DECONV, "size": (3, 3, 3), "kernel": (2, 2, 2), "stride": (2, 2, 2), "padding": (0, 0, 0)},
    ],
    "linear": [
        {"rows": 16, "inputs": 8, "outputs": 12, "activation": "silu"},
        {"rows": 16, "inputs": 8, "outputs": 12, "bias": False},
        {"rows": 16, "inputs": 8, "outputs": 12, "weight_first_axis_in": True},
        {"rows": 16, "inputs": 8, "outputs": 12, "bias": False, "weight_first_axis_in": True},
        {"rows": 4, "inputs": 8, "outputs": 12, "activation": "silu", "uses": 4},
        {"rows": 4, "inputs": 8, "outputs": 12, "uses": 4, "stacked": True},
        {"rows": 16, "inputs": 8, "outputs": 12, "residual": True, "activation": "relu"},
    ],
    "batched_matmul": [
        {"batch": 8, "rows": 3, "depth": 16, "columns": 5},
        {"batch": 8, "rows": 3, "depth": 16, "columns": 5, "transposed": True},
        {"batch": 8, "rows": 3, "depth": 16, "columns": 5, "first_transposed": True},
    ],
    "attention": [
        ATTENTION, {**ATTENTION, "causal": True}, {**ATTENTION, "keys": 9}, {**ATTENTION, "contiguous": True},
        {**ATTENTION, "mask": (8, 1, 6, 6)}, {**ATTENTION, "mask": (8, 1, 6, 6), "boolean": True},
        {**ATTENTION, "packed": True}, {**ATTENTION, "heads": 6, "kv_heads": 2, "causal": True},
        {**ATTENTION, "unstacked": True}, {**ATTENTION, "packed": True, "unstacked": True},
    ],
    "recurrent": [
        {"steps": 8, "batch": 2, "inputs": 6, "hidden": 5},
        {"steps": 8, "batch": 2, "inputs": 6, "hidden": 6, "cell": "GRU"},
        {"steps": 8, "batch": 2, "inputs": 6, "hidden": 6, "cell": "RNN"},
        {"steps": 8, "batch": 2, "inputs": 6, "hidden": 5, "cell": "GRU", "layers": 2, "both": True},
    ],
    "embedding": [
        {"rows": 40, "width": 4, "indices": 16},
        {"rows": 40, "width": 4, "indices": 16, "skew": 1.1, "sparse": True},
    ],
    "embedding_bag": [BAG, {**BAG, "mode": "mean", "sparse": True}, {**BAG, "weighted": True}, {**BAG, "uses": 4}],
    "norm": [
        {"kind": "layer", "shape": (8, 12)},
        {"kind": "layer", "shape": (8, 12), "residual": True},
        {"kind": "layer", "shape": (1, 8, 12), "residual": True},
        {"kind": "batch", "shape": (8, 3, 4, 4), "activation": "relu"},
        {"kind": "batch", "shape": (8, 3)},
        {"kind": "batch", "shape": (8, 3), "frozen": True},
        {"kind": "batch", "shape": (8, 3, 5)},
        {"kind": "group", "shape": (8, 4, 3, 3), "groups": 2},
        {"kind": "instance", "shape": (1, 32, 3, 3)},
        {"kind": "instance", "shape": (1, 32, 3, 3, 3), "affine": True},
    ],
    "softmax": [{"shape": (8, 6), "axis": 1}, {"shape": (8, 5, 6), "axis": 1, "log": True},
                {"shape": (8, 6), "axis": 1, "safe": True}],
    "pool": [
        POOL,
        {**POOL, "kind": "avg", "ceil_mode": True},
        {"kind": "avg", "batch": 8, "channels": 8, "size": (4, 4)},
    ],
    "resize": [
        {**MAPS, "out": (12, 12), "mode": "nearest"},
        {**MAPS, "out": (9, 12), "mode": "bilinear"},
        {**MAPS, "out": (3, 3), "mode": "bicubic", "corners": True},
        {**MAPS, "size": (6, 6, 6), "out": (12, 12, 12), "mode": "trilinear"},
        {**MAPS, "size": (6,), "out": (12,), "mode": "linear"},
    ],
    "sample": [
        {**MAPS, "points": (40, 2)},
        {**MAPS, "size": (4, 4, 4), "points": (5, 5, 5), "corners": True},
    ],
    "pad": [
        {**MAPS, "pads": (0, 1, 0, 1)},
        {**MAPS, "pads": (1, 1, 2, 2), "mode": "reflect"},
        {**MAPS, "size": (6,), "pads": (2, 2), "mode": "replicate"},
    ],
    "scatter_add": [
        {"shape": (64, 7), "rows": 16},
        {"shape": (64, 7), "rows": 16, "expanded": False},
        {"shape": (64,), "rows": 16, "expanded": False},
    ],
    "transpose": [{"shape": (8, 3, 4), "order": (0, 2, 1)}, {"shape": (8, 6), "order": (1, 0)}],
    "concat": [{"shape": (8, 6), "axis": 1, "pieces": 4}, {"shape": (8, 6, 2), "axis": 2, "pieces": 2}],
    "comparison": [{"batch": 8, "items": 3, "width": 4, "functions": ("sub", "mul")}],
    "gather": [
        {"shape": (8, 9), "axis": 1, "count": 4},
        {"shape": (8, 9, 4), "axis": 1, "count": 12, "subscript": True},
        {"shape": (8, 3, 3), "axis": 1, "count": 4, "subscript": True, "indexed_axes": 2},
    ],
    "reduce": [{"function": name, "shape": (8, 4, 3), "axes": (2,)} for name in ("sum", "mean", "amax", "amin")],
    "topk": [{"shape": (8, 12), "count": 3}],
    "pointwise": [
        {"shape": (8, 5), "functions": (name,), **({"operand": (5,)} if name in BINARY else {})} for name in FUNCTIONS
    ]
    + [{"shape": (8, 4, 5), "functions": ("mul", "tanh", "add"), "operand": (8, 1, 5)}]
    + [{"shape": (8, 4, 5), "functions": ("mul",), "operand": (1, 5), "constant": True}],
    "operator": [
        {
            "operator": ("tanh", "default"), "spelling": "torch", "operands": (("own", (8, 4), (8, 1)),),
            "arguments": (("operand", 0),), "output": -1,
        },
        {
            "operator": ("max", "dim"), "spelling": "torch", "operands": (("own", (8, 4, 5), ()),),
            "arguments": (("operand", 0), ("number", 2), ("usual",)), "output": 0,
        },
        {
            "operator": ("mm", "default"), "spelling": "torch",
            "operands": (("own", (16, 8), ()), ("own", (8, 12), (), ("stored", 20, 0, 0))),
            "arguments": (("operand", 0), ("operand", 1)), "output": -1,
        },
        {
            "operator": ("quantized", "linear_dynamic", "default"), "spelling": "aten",
            "operands": (("own", (64, 8), ()), ("qint8", (4, 8), (), ("packed", True, (), (), 1))),
            "arguments": (("operand", 0), ("operand", 1), ("usual",)), "output": -1,
        },
        {
            "operator": ("to_padded_tensor", "default"), "spelling": "aten",
            "operands": (("own", (16, 8, 4), (), ("nested", (8,) * 16)),),
            "arguments": (("operand", 0), ("number", 0.0), ("usual",)), "output": -1,
        },
    ],
}  # fmt: skip
