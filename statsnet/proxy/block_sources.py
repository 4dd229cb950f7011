"""The source of the blocks that a network is made of."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType
from typing import Any

from statsnet.blocks import KINDS
from statsnet.blocks.base import Block, Config, numbers
from statsnet.blocks.collective import SOURCES
from statsnet.blocks.zipf import zipf_indices
from statsnet.proxy.towers import Placed
from statsnet.signatures.documents import texts_in


def reads_indices(placed: list[Placed]) -> bool:
    """Whether some blocks read indices."""
    return any(KINDS[b.kind].index_range(b.config) is not None for b in placed)


def block_sources(placed: list[Placed], collectives: Sequence[Config]) -> str:
    """The modules of all blocks, each after what it needs; and those of collectives, if there are some."""
    kinds = [KINDS[name] for name in KINDS if any(b.kind == name for b in placed)]
    pieces = [_source(Block), _source(numbers)]
    if reads_indices(placed):
        pieces.append(_source(zipf_indices))
    for kind in kinds:
        for helper in kind.helpers_of([b.config for b in placed if b.kind == kind.name]):
            if isinstance(helper, dict):
                used = {t for b in placed if b.kind == kind.name for t in texts_in(b.config.values())}
                pieces.append(_table(kind.module, helper, used))
            else:
                pieces.append(_source(helper))
        pieces.append(_source(kind.module))
    if collectives:
        pieces += map(_source, SOURCES)
    return "\n\n\n".join(dict.fromkeys(p.strip() for p in pieces))


def _find_source(item: Any) -> str:
    return inspect.getsource(item).replace("  # fmt: skip", "")


_source: Callable[[Any], str] = cache(_find_source)
"""Found once: finding it parses the whole file."""


def _table(module: type, table: dict[str, Any], used: set[str]) -> str:
    """Source of a table next to a block's module, with only the entries that this network uses."""
    file = inspect.getmodule(module)
    assert file is not None
    name = next(n for n, value in vars(file).items() if value is table)
    rows = [f'    "{key}": {value},\n' for key, value in _entries(file, name).items() if key in used]
    return f"{name} = {{\n{''.join(rows)}}}\n"


@cache
def _entries(file: ModuleType, name: str) -> dict[str, str]:
    """Of a table in a file: keys that are texts, and the source of their values."""
    text = inspect.getsource(file)
    node = next(n for n in ast.parse(text).body if isinstance(n, ast.AnnAssign) and _target(n) == name)
    assert isinstance(node.value, ast.Dict)
    return {
        str(key.value): ast.get_source_segment(text, value) or ""
        for key, value in zip(node.value.keys, node.value.values, strict=True)
        if isinstance(key, ast.Constant)
    }


def _target(node: ast.AnnAssign) -> str | None:
    return node.target.id if isinstance(node.target, ast.Name) else None
