"""Checks what every kind of block must do. Third parties call `check_block_kind` on their own kinds in a test."""

from __future__ import annotations

import inspect
import re
from typing import Any

import torch
from torch import Tensor, nn

from statsnet.blocks.base import PRELUDE, SIDE_INPUTS, Block, BlockKind, Config, numbers
from statsnet.errors import StatsNetError

SANE_SIZE = (1e-4, 1e3)
"""Limits of the root mean square of a block's output for inputs of size one."""

SCALE_TOLERANCE = 1.5
"""A block divided by d reads between 1/(d · tolerance) and tolerance/d of what it read before."""


def check_block_kind(kind: BlockKind, configs: list[Config]) -> None:
    """Check a kind of block on some of its configurations. They should be small, but at least 8 long on the axis
    that `scaled` divides. Raises StatsNetError that says what is wrong."""
    for config in configs:
        for name, value in config.items():
            _require(_is_plain(value), kind, f"{name} is not made of numbers, names and tuples of them")
        _check_words(kind, config)
        _check_forward(kind, config)
        _check_backward(kind, config)
        _check_source(kind, config)
        for divisor in (2, 4):
            _check_scaled(kind, config, divisor)


def block_input(kind: BlockKind, config: Config, module: nn.Module) -> Tensor:
    """An input for a block: its own, indices, or numbers of size one in its shape."""
    if kind.ends_tower(config):
        return kind.input_of(config, module)
    index_range = kind.index_range(config)
    if index_range is not None:
        count, rows = index_range
        return torch.arange(count) * 7 % rows
    shape: Any = module.shape
    return torch.randn(shape)


def _check_words(kind: BlockKind, config: Config) -> None:
    try:
        kind.check(config)
    except ValueError as error:
        raise _unsound(kind, f"its `words` lack one: {error}") from error


def _check_forward(kind: BlockKind, config: Config) -> None:
    torch.manual_seed(0)
    module = kind.build(config).eval()
    x = block_input(kind, config, module)
    with torch.no_grad():
        y = module(x)
        _require(bool(y.isfinite().all()), kind, "its output is not finite")
        low, high = SANE_SIZE
        size = float(y.square().mean().sqrt())
        _require(low < size < high, kind, f"its output is of size {size:.1e}")
        if not kind.begins_tower(config) and "dropout" not in str(config):
            longer = torch.cat([x.reshape(-1), torch.randn(5)])
            _require(torch.equal(module(longer), y), kind, "it does not take the first elements of a larger input")


def _check_backward(kind: BlockKind, config: Config) -> None:
    if kind.ends_tower(config):
        return  # no gradient goes through it
    torch.manual_seed(0)
    module = kind.build(config).train()
    x = block_input(kind, config, module)
    leaves: dict[str, Tensor] = dict(module.named_parameters())
    if kind.index_range(config) is None:
        leaves["its input"] = x.requires_grad_()
    y = module(x)
    y.backward(torch.randn_like(y))
    for name, leaf in leaves.items():
        gradient = leaf.grad
        _require(gradient is not None, kind, f"{name} gets no gradient")
        assert gradient is not None
        values = gradient.coalesce().values() if gradient.is_sparse else gradient
        _require(bool(values.isfinite().all()), kind, f"the gradient of {name} is not finite")
        _require(bool(values.any()), kind, f"the gradient of {name} is zero")


def _check_source(kind: BlockKind, config: Config) -> None:
    """The module's source must run with only torch, `Block` and the kind's helpers, as in a network."""
    namespace: dict[str, Any] = {"SIDE_INPUTS": SIDE_INPUTS}
    exec(PRELUDE, namespace)  # this package's own source and that of the block under test
    for item in (Block, numbers, *kind.helpers, kind.module):
        if callable(item):
            exec(re.sub(r"^from .*", "", inspect.getsource(item)), namespace)
        else:
            namespace |= {n: v for n, v in vars(inspect.getmodule(kind.module)).items() if v is item}
    name, arguments = kind.module.__name__, kind.arguments(config)
    try:
        module = namespace[name](**config) if arguments is None else eval(f"{name}({', '.join(arguments)})", namespace)
        module(block_input(kind, config, module))
    except NameError as error:
        raise _unsound(kind, f"its source needs a helper: {error}") from error


def _check_scaled(kind: BlockKind, config: Config, divisor: int) -> None:
    smaller = kind.scaled(config, divisor)
    if smaller is None:
        return
    share = kind.elements_read(smaller) / kind.elements_read(config) * divisor
    fits = 1 / SCALE_TOLERANCE <= share <= SCALE_TOLERANCE
    _require(fits, kind, f"scaled by {divisor} it reads {share / divisor:.2f} of what it read")
    _check_forward(kind, smaller)
    _check_backward(kind, smaller)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_plain(v) for v in value)
    return isinstance(value, (bool, int, float)) or (isinstance(value, str) and not re.search(r"\W", value))


def _require(holds: bool, kind: BlockKind, cause: str) -> None:
    if not holds:
        raise _unsound(kind, cause)


def _unsound(kind: BlockKind, cause: str) -> StatsNetError:
    return StatsNetError(f"'{kind.name}' is not a sound kind of block", cause=cause)
