"""Writes a proxy's source: one readable file of plain torch, made only from checked data."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from statsnet.blocks import KINDS
from statsnet.blocks.base import SIDE_INPUTS, Block
from statsnet.blocks.zipf import zipf_indices
from statsnet.environment import record
from statsnet.measure import timing as harness
from statsnet.proxy import templates
from statsnet.proxy.towers import Placed, Tower
from statsnet.workloads.optimizers import LEARNING_RATE, SETTINGS

WIDTH = 120


def network_source(towers: list[Tower], *, title: str, spec_id: str, mode: str, dtype: str, seed: int) -> str:
    """Text of network.py. The same arguments give the same bytes.

    Raises ValueError for values that must not become code.
    """
    _check(spec_id, mode, dtype)
    imports, body = _harness_parts()
    placed = [b for t in towers for b in t.blocks]
    source = templates.FRAME.substitute(
        title=_docstring(title),
        imports="$imports",
        spec_id=spec_id,
        mode=mode,
        dtype=dtype,
        seed=int(seed),
        side_inputs=_literal(SIDE_INPUTS),
        constants=_optimizers(placed),
        blocks=_block_sources(placed),
        network=_network_sources(towers, mode),
        steps=_steps(mode, placed),
        harness=body,
    )
    source = re.sub(r"\n{4,}", "\n\n\n", source)
    source = source.replace("$imports", _imports(imports, source), 1)
    compile(source, "network.py", "exec")
    return source


def _check(spec_id: str, mode: str, dtype: str) -> None:
    patterns = {spec_id: r"(sha256:[0-9a-f]+)?", mode: "inference|training", dtype: "[a-z0-9]+"}
    for value, pattern in patterns.items():
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{value!r} cannot stand in a network")


def _docstring(title: str) -> str:
    """A title as the first lines of a docstring, without characters that would end it."""
    return textwrap.fill(re.sub(r'["\\\\]', "'", title), WIDTH - 5)


def _reads_indices(placed: list[Placed]) -> bool:
    return any(KINDS[b.kind].index_range(b.config) is not None for b in placed)


def _has_concatenated_output(placed: list[Placed]) -> bool:
    return any(b.config.get("output_is_concatenated") for b in placed)


def _ends_in_relu(tower: Tower) -> bool:
    config = tower.blocks[-1].config
    return "relu" in (config.get("activation"), (config.get("functions") or ("",))[-1])


def _steps(mode: str, placed: list[Placed]) -> str:
    step, before = templates.INFERENCE_STEP, []
    if mode == "training":
        stepped = any(b.optimizer for b in placed)
        how = templates.WITH_OPTIMIZERS if stepped else templates.WITHOUT_OPTIMIZERS
        sliced = _has_concatenated_output(placed)
        gradients = "gradients_like(proxy(next(rotation)))"
        step = templates.TRAINING_STEP.substitute(
            how, gradients=f"sliced_gradients(proxy, {gradients})" if sliced else gradients
        )
        before = [templates.GRADIENTS, *([templates.SLICED_GRADIENTS] if sliced else [])]
    sample = templates.SAMPLE_WITH_INDICES if _reads_indices(placed) else templates.SAMPLE
    parts = [sample, templates.BATCHES, templates.WORKING_DTYPE, *before, step]
    return "\n\n".join(parts).strip()


def _imports(harness_imports: list[str], source: str) -> str:
    """The imports of the harness and of the network, in the usual order."""
    own = {"import itertools": "itertools.", "import math": "math."}
    lines = {*harness_imports, "from collections.abc import Callable"}
    lines |= {line for line, use in own.items() if use in source}
    standard = sorted(lines - {"import torch"}, key=lambda line: (line.startswith("from"), line))
    functional = ["import torch.nn.functional as F"] if re.search(r"\bF\.|\(F, ", source) else []
    return "\n".join([*standard, "", "import torch", *functional, "from torch import Tensor, nn"])


def _harness_parts() -> tuple[list[str], str]:
    """Import lines and the rest of the sources that measure, without their docstrings."""
    imports: list[str] = []
    bodies = []
    for file in (record.__file__, harness.__file__):
        text = Path(file).read_text(encoding="utf-8")
        statements = [n for n in ast.parse(text).body if isinstance(n, (ast.Import, ast.ImportFrom))]
        lines = [ast.get_source_segment(text, n) or "" for n in statements]
        imports += [line for line in lines if not line.startswith("from statsnet.")]
        last = max(node.end_lineno or 0 for node in statements)
        bodies.append("\n".join(text.splitlines()[last:]).strip().replace("  # fmt: skip", ""))
    # A network imports torch at its top.
    return imports, re.sub(r"\n +import torch .*\n", "", "\n\n\n".join(bodies))


def _optimizers(placed: list[Placed]) -> str:
    used = sorted({b.optimizer for b in placed if b.optimizer})
    if not used:
        return ""
    rows = []
    for name in used:
        kind, settings = SETTINGS[name]
        options = "".join(f", {k}={v!r}" for k, v in settings.items())
        call = f"torch.optim.{kind}(weights, lr={LEARNING_RATE}{options})"
        rows.append(f'    "{name}": lambda weights: {call},\n')
    return "OPTIMIZERS = {\n" + "".join(rows) + "}"


def _block_sources(placed: list[Placed]) -> str:
    kinds = [KINDS[name] for name in KINDS if any(b.kind == name for b in placed)]
    pieces = [_source(Block)]
    if _reads_indices(placed):
        pieces.append(_source(zipf_indices))
    for kind in kinds:
        for helper in kind.helpers:
            if isinstance(helper, dict):
                used = {n for b in placed if b.kind == kind.name for n in _names(list(b.config.values()))}
                pieces.append(_table(kind.module, helper, used))
            else:
                pieces.append(_source(helper))
        pieces.append(_source(kind.module))
    return "\n\n\n".join(dict.fromkeys(p.strip() for p in pieces))


def _source(item: Any) -> str:
    return inspect.getsource(item).replace("  # fmt: skip", "")


def _names(values: Iterable[Any]) -> set[str]:
    """Every string in a configuration."""
    strings: set[str] = set()
    for value in values:
        strings |= {value} if isinstance(value, str) else _names(value) if isinstance(value, tuple) else set()
    return strings


def _table(module: type, table: dict[str, Any], used: set[str]) -> str:
    """Source of a table next to a block's module, with only the entries that this network uses."""
    file = inspect.getmodule(module)
    assert file is not None
    text = inspect.getsource(file)
    name = next(n for n, value in vars(file).items() if value is table)
    node = next(n for n in ast.parse(text).body if isinstance(n, ast.AnnAssign) and _target(n) == name)
    assert isinstance(node.value, ast.Dict)
    rows = [
        f'    "{key.value}": {ast.get_source_segment(text, value)},\n'
        for key, value in zip(node.value.keys, node.value.values, strict=True)
        if isinstance(key, ast.Constant) and key.value in used
    ]
    return f"{name} = {{\n{''.join(rows)}}}\n"


def _target(node: ast.AnnAssign) -> str | None:
    return node.target.id if isinstance(node.target, ast.Name) else None


def _network_sources(towers: list[Tower], mode: str) -> str:
    placed = [b for t in towers for b in t.blocks]
    parts = []
    if any(len(list(g)) > 1 for t in towers for _, g in groupby(t.blocks, key=lambda b: b.key)):
        parts.append(templates.REPEAT)
    if any(b.optimizer for b in placed):
        parts.append(templates.STEPPED)
    lines = ["def towers() -> list[nn.Sequential]:", "    return ["]
    for tower, equal in groupby(towers, key=lambda t: t):
        runs = [(b, len(list(group))) for b, group in groupby(tower.blocks, key=lambda b: b)]
        call = ("nn.Sequential", [_call(b, n) for b, n in runs])
        lines += _several(call, len(list(equal)), 8)
    parts.append("\n".join([*lines, "    ]"]) + "\n")
    read_on = mode == "training" and any(_ends_in_relu(t) for t in towers)
    parts += [templates.READ_ON] if read_on else []
    parts.append(templates.THROUGH)
    applied = templates.APPLY_READ_ON if read_on else ""
    parts.append(templates.PROXY.substitute(ends=_ends(towers), read_on=applied))
    return "\n\n".join(parts).strip()


def _ends(towers: list[Tower]) -> str:
    """Code that runs each tower on its part of a batch."""
    if not any(b.kind == "recurrent" for t in towers for b in t.blocks):
        return templates.LOOP
    lines = (f"            through(towers[{i}], batch[{i}]),\n" for i in range(len(towers)))
    return templates.UNROLLED.substitute(lines="".join(lines))


Call = tuple[str, list[Any]]
"""A function's name and its arguments: each is text or another call."""


def _call(placed: Placed, count: int) -> Call:
    module = KINDS[placed.kind].module
    defaults = {n: p.default for n, p in inspect.signature(module).parameters.items()}
    in_order = sorted(placed.config, key=list(defaults).index)  # the block's order, not that of a spec file
    changed = [name for name in in_order if defaults[name] != placed.config[name]]
    arguments: list[Any] = [f"{name}={_literal(placed.config[name])}" for name in changed]
    call = (module.__name__, arguments)
    if count > 1:
        call = ("*repeat", [str(count), module.__name__, *arguments])
    if placed.optimizer in SETTINGS:
        call = ("*stepped", [f'"{placed.optimizer}"', call])
    return call


def _literal(value: Any) -> str:
    """Source of a configuration's value. Raises ValueError for any other value."""
    if isinstance(value, (tuple, list)):
        items = [_literal(v) for v in value]
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    if isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, str) and re.fullmatch(r"\w*", value, re.ASCII):
        return f'"{value}"'
    raise ValueError(f"{value!r} cannot stand in a network")


def _flat(node: str | Call) -> str:
    return node if isinstance(node, str) else f"{node[0]}({', '.join(_flat(n) for n in node[1])})"


def _lines(node: str | Call, indent: int) -> list[str]:
    """A call laid out within WIDTH, on one line if it fits, else with its arguments on lines of their own."""
    pad = " " * indent
    if isinstance(node, str) or _fits(node, indent):
        return [f"{pad}{_flat(node)},"]
    name, arguments = node
    if all(isinstance(a, str) for a in arguments):
        inner = _filled(arguments, indent + 4)
    else:
        inner = [line for a in arguments for line in _lines(a, indent + 4)]
    return [f"{pad}{name}(", *inner, f"{pad}),"]


def _fits(node: Call, indent: int) -> bool:
    """Whether a call goes on one line; a tower of several blocks never does."""
    long_tower = node[0] == "nn.Sequential" and len(node[1]) > 1
    return len(_flat(node)) + indent < WIDTH and not long_tower


def _several(tower: Call, count: int, indent: int) -> list[str]:
    """Lines of `count` equal towers."""
    if count == 1:
        return _lines(tower, indent)
    pad = " " * indent
    if _fits(("*(", [tower, f" for _ in range({count})"]), indent) and len(tower[1]) == 1:
        return [f"{pad}*({_flat(tower)} for _ in range({count})),"]
    *first, last = _lines(tower, indent + 4)
    return [f"{pad}*(", *first, last.rstrip(","), f"{pad}    for _ in range({count})", f"{pad}),"]


def _filled(items: list[str], indent: int) -> list[str]:
    lines = [""]
    for item in items:
        if lines[-1] and len(lines[-1]) + len(item) + 3 + indent > WIDTH:
            lines.append("")
        lines[-1] += f" {item}," if lines[-1] else f"{item},"
    return [" " * indent + line for line in lines]
