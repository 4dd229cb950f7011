"""Small blocks of every kind, and networks made of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from statsnet.proxy.emit import network_source
from statsnet.proxy.towers import Placed, Tower, build_towers
from statsnet.workloads.torch_operators import overload

CONV = {
    "batch": 1,
    "channels": 4,
    "size": (8, 8),
    "filters": 4,
    "kernel": (3, 3),
    "stride": (1, 1),
    "padding": (1, 1),
}
CHAIN = {
    "batch": 1,
    "size": (8, 8),
    "channels": (4, 6, 4),
    "kernels": (3, 3),
    "strides": (1, 1),
    "paddings": (1, 1),
    "groups": (1, 1),
    "biases": (False, True),
    "norms": (True, False),
    "residuals": (False, False),
    "activations": ("relu", "gelu"),
}
MAPS = {"batch": 1, "channels": 4, "size": (8, 8)}


def operator(
    name: str, *operands: tuple[tuple[int, ...], tuple[int, ...]], more: tuple[Any, ...] = (), spelling: str = "aten"
) -> dict[str, Any]:
    """Configuration of an operator by itself, on operands of these shapes and strides."""
    count = len(overload(f"aten.{name}")._schema.arguments)
    given = (*(("operand", i) for i in range(len(operands))), *more)
    return {
        "operator": tuple(name.split(".")),
        "spelling": spelling,
        "operands": tuple(("own", shape, strides) for shape, strides in operands),
        "arguments": (*given, *(("usual",) for _ in range(count - len(given)))),
        "output": -1,
    }


BY_MASK = {
    "operator": ("index", "Tensor"), "spelling": "aten", "operands": (("own", (8, 16), ()), ("bool", (8,), (), 3)),
    "arguments": (("operand", 0), ("operands", (1,))), "output": -1,
}  # fmt: skip
"""Three rows of eight."""

SMALL: list[tuple[str, dict[str, Any], int]] = [
    ("parameters", {"shape": (24, 4), "rows_read": 10}, 2),
    ("conv", {**CONV, "norm": True, "residual": True, "activation": "relu", "groups": 1}, 3),
    ("conv_chain", CHAIN, 1),
    ("deconv", {**CONV, "stride": (2, 2), "norm": True, "activation": "relu"}, 1),
    ("linear", {"rows": 8, "inputs": 16, "outputs": 16, "activation": "gelu"}, 2),
    ("batched_matmul", {"batch": 2, "rows": 4, "depth": 8, "columns": 8, "transposed": True}, 2),
    ("attention", {"batch": 1, "heads": 2, "queries": 8, "keys": 8, "head_size": 4, "causal": True}, 1),
    ("recurrent", {"steps": 4, "batch": 2, "inputs": 8, "hidden": 8}, 2),
    ("recurrent", {"steps": 4, "batch": 2, "inputs": 8, "hidden": 8, "cell": "GRU"}, 1),
    ("embedding", {"rows": 50, "width": 4, "indices": 16, "skew": 1.05}, 1),
    ("embedding_bag", {"rows": 50, "width": 4, "indices": 16, "bags": 4, "mode": "mean"}, 2),
    ("norm", {"kind": "layer", "shape": (8, 16)}, 2),
    ("softmax", {"shape": (8, 16), "axis": 1}, 2),
    (
        "pool",
        {"kind": "max", "batch": 1, "channels": 4, "size": (8, 8), "kernel": (2, 2), "stride": (2, 2)},
        1,
    ),
    ("resize", {**MAPS, "out": (12, 12), "mode": "bilinear"}, 1),
    ("sample", {**MAPS, "points": (9, 3)}, 1),
    ("pad", {**MAPS, "pads": (1, 1, 0, 2)}, 1),
    ("transpose", {"shape": (8, 16), "order": (1, 0)}, 1),
    ("concat", {"shape": (8, 16), "axis": 1, "pieces": 3}, 1),
    ("comparison", {"batch": 4, "items": 7, "width": 4, "functions": ("sub", "mul")}, 1),
    ("gather", {"shape": (8, 16), "axis": 1, "count": 8}, 1),
    ("scatter_add", {"shape": (8, 16), "rows": 4}, 1),
    ("reduce", {"function": "sum", "shape": (8, 16), "axes": (1,)}, 1),
    ("topk", {"shape": (8, 16), "count": 4}, 1),
    ("pointwise", {"shape": (8, 16), "functions": ("mul", "scale", "tanh"), "operand": (1, 16)}, 2),
    ("operator", operator("tanh.default", ((8, 16), (32, 1)), spelling="torch"), 2),
    ("operator", operator("bmm.default", ((2, 8, 16), ()), ((2, 16, 4), (64, 1, 16)), spelling="torch"), 1),
    ("operator", operator("tanh_backward.default", ((8, 16), (0, 1)), ((8, 16), ())), 1),
    ("operator", operator("argmax.default", ((8, 16), ()), more=(("number", 1),), spelling="torch"), 1),
    ("operator", BY_MASK, 1),
]
"""Kind, configuration and how often; every kind of block is there."""

STEPPED = {"parameters": "adamw", "conv": "adamw", "linear": "sgd", "embedding": "adamw"}
_NUMBER = count()


def counted(mode: str, blocks: list[tuple[str, dict[str, Any], int]] | None = None) -> list[tuple[Placed, int]]:
    rows = SMALL if blocks is None else blocks
    training = mode == "training"
    return [(Placed(kind=k, config=c, optimizer=STEPPED.get(k) if training else None), n) for k, c, n in rows]


def source(mode: str, towers: list[Tower] | None = None, **changes: Any) -> str:
    return _of_all_kinds(mode) if towers is None and not changes else _source(mode, towers, **changes)


@cache
def _of_all_kinds(mode: str) -> str:
    return _source(mode, None)


def _source(mode: str, towers: list[Tower] | None, **changes: Any) -> str:
    towers = build_towers(counted(mode)) if towers is None else towers
    options = {"title": "A test", "spec_id": "sha256:0", "mode": mode, "dtype": "float32", "seed": 0}
    return network_source(towers, **{**options, **changes})


@pytest.fixture(scope="session")
def small_blocks() -> list[tuple[str, dict[str, Any], int]]:
    return SMALL


@pytest.fixture
def count_blocks() -> Callable[..., list[tuple[Placed, int]]]:
    return counted


@pytest.fixture(scope="session")
def write_source() -> Callable[..., str]:
    return source


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Any]:
    """Import a network's source as a module."""

    def imported(text: str) -> Any:
        path = tmp_path / f"network_{next(_NUMBER)}.py"
        path.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return imported
