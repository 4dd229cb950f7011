"""Writes a proxy's source: one readable file of plain torch, made only from checked data."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby

from statsnet.blocks.base import SIDE_INPUTS, Config
from statsnet.proxy import communication, templates
from statsnet.proxy.block_sources import block_sources, reads_indices
from statsnet.proxy.code_layout import WIDTH, literal
from statsnet.proxy.step_source import optimizers_source, step_source
from statsnet.proxy.tower_source import towers_source
from statsnet.proxy.towers import Tower


def network_source(
    towers: list[Tower], *, title: str, spec_id: str, mode: str, dtype: str, seed: int,
    repeats: Sequence[float] | None = None, collectives: Sequence[Config] = (),
) -> str:  # fmt: skip
    """Text of network.py; of a proxy for simulators, `repeats` says how often each tower counts. `collectives` are
    those of processes that run it together. The same arguments give the same bytes.

    Raises ValueError for values that must not become code.
    """
    _check(spec_id, mode, dtype)
    _check_passes(towers, mode)
    placed = [b for t in towers for b in t.blocks]
    shares_tables = mode == "inference" and reads_indices(placed)
    source = templates.FRAME.substitute(
        title=_docstring(title),
        purpose=templates.PURPOSE if repeats is None else templates.PURPOSE_OF_LAYERS,
        imports="$imports",
        together=communication.USAGE if collectives else "",
        spec_id=spec_id,
        mode=mode,
        dtype=dtype,
        seed=int(seed),
        side_inputs=literal(SIDE_INPUTS),
        kept=_places(t.keeps_dtype for t in towers),
        in_backward=_in_backward(towers),
        constants="\n".join(filter(None, (optimizers_source(placed), _repeats(repeats)))),
        without_gradients=", torch.no_grad()" if shares_tables else "",
        tables_let_go="    shared_table.cache_clear()  # from now on the blocks hold their tables\n"
        if shares_tables
        else "",
        blocks=block_sources(placed, collectives),
        network=_network_sources(towers, mode, collectives),
        steps=step_source(mode, placed, collectives, runs_in_backward=_some_in_backward(towers)),
        collectives=communication.told_to_main(collectives),
    )
    source = re.sub(r"\n{4,}", "\n\n\n", source)
    source = source.replace("$imports", _imports(source), 1)
    compile(source, "network.py", "exec")
    return source


def _check(spec_id: str, mode: str, dtype: str) -> None:
    patterns = {spec_id: r"(sha256:[0-9a-f]+)?", mode: "inference|training", dtype: "[a-z]+[0-9]+"}
    for value, pattern in patterns.items():
        if not re.fullmatch(pattern, value):
            raise ValueError(f"{value!r} cannot stand in a network")


def _check_passes(towers: Sequence[Tower], mode: str) -> None:
    if any(tower.in_backward and not (tower.is_operator and mode == "training") for tower in towers):
        raise ValueError("in the backward pass run only operators by themselves, of a training step")


def _docstring(title: str) -> str:
    """A title as the first lines of a docstring, without characters that would end it."""
    return textwrap.fill(re.sub(r'["\\\\]', "'", title), WIDTH - 5)


def _some_in_backward(towers: Sequence[Tower]) -> bool:
    """Whether some operators run in the backward pass."""
    return any(tower.in_backward for tower in towers)


def _in_backward(towers: Sequence[Tower]) -> str:
    """The places of those that do, as source."""
    if not _some_in_backward(towers):
        return ""
    return (
        f"IN_BACKWARD = {_places(t.in_backward for t in towers)}  # places of operators that run in the backward pass\n"
    )


def _places(wanted: Iterable[bool]) -> str:
    """The places of wanted towers, as source."""
    text = ", ".join(str(place) for place, is_wanted in enumerate(wanted) if is_wanted)
    if not text:
        return "frozenset()"
    rows = textwrap.fill(text, WIDTH, initial_indent="        ", subsequent_indent="        ")
    return f"frozenset(\n    {{\n{rows}\n    }}\n)"


def _repeats(repeats: Sequence[float] | None) -> str:
    """How often each tower counts, as source."""
    if repeats is None:
        return ""
    rows = "".join(f"    {float(n)!r},\n" for n in repeats)
    return f"REPEATS = (  # how often each tower counts\n{rows})"


def _ends_in_relu(tower: Tower) -> bool:
    config = tower.blocks[-1].config
    return "relu" in (config.get("activation"), (config.get("functions") or ("",))[-1])


def _imports(source: str) -> str:
    """The imports that a network needs, in the usual order."""
    abstract = ", ".join(["Callable", *(n for n in ("Iterable", "Iterator") if re.search(rf"\b{n}\b", source))])
    lines = [
        "import runpy",
        "import sys",
        f"from collections.abc import {abstract}",
        "from pathlib import Path",
    ]
    own = {
        "import itertools": r"\bitertools\.",
        "import math": r"\bmath\.",
        "import time": r"\btime\.",
        "import warnings": r"\bwarnings\.",
        "from contextlib import contextmanager": r"@contextmanager\b",
        "from functools import cache": r"\n@cache\n",
        "from functools import partial": r"\bpartial\(",
        "from typing import Any": r"\bAny\b",
    }
    lines += [line for line, use in own.items() if re.search(use, source)]
    standard = sorted(lines, key=lambda line: (line.startswith("from"), line))
    functional = ["import torch.nn.functional as F"] if re.search(r"\bF\.|\(F, ", source) else []
    return "\n".join([*standard, "", "import torch", *functional, "from torch import Tensor, nn"])


def _network_sources(towers: list[Tower], mode: str, collectives: Sequence[Config]) -> str:
    placed = [b for t in towers for b in t.blocks]
    read_on = mode == "training" and any(_ends_in_relu(t) for t in towers)
    applied = templates.APPLY_READ_ON if read_on else ""
    beside = communication.HELD if collectives else ""
    forward = (communication if collectives else templates).FORWARD_OR_BACKWARD
    proxy = templates.PROXY.substitute(
        forward=forward if _some_in_backward(towers) else templates.FORWARD,
        ends=_ends(towers, collectives),
        read_on=applied,
        beside=beside,
    )
    parts = [towers_source(towers, mode), *([communication.collectives_source(collectives)] if collectives else [])]
    parts += [proxy, templates.THROUGH]
    repeated = any(len(list(g)) > 1 for t in towers for _, g in groupby(t.blocks, key=lambda b: b.key))
    if repeated or communication.repeats_some(collectives):
        parts.append(templates.REPEAT)
    if any(b.optimizer for b in placed):
        parts.append(templates.STEPPED)
    parts += [templates.READ_ON] if read_on else []
    return "\n\n".join(parts).strip()


def _ends(towers: list[Tower], collectives: Sequence[Config]) -> str:
    """Code that runs each tower on its part of a batch, but for those in the backward pass."""
    some_later = _some_in_backward(towers)
    if not any(b.kind == "recurrent" for t in towers for b in t.blocks):
        if collectives:
            end = "x if i in IN_BACKWARD else through(tower, x)" if some_later else "through(tower, x)"
            return communication.LOOP.substitute(end=end)
        return templates.LOOP_IN_FORWARD if some_later else templates.LOOP
    ends = [f"batch[{i}]" if t.in_backward else f"through(towers[{i}], batch[{i}])" for i, t in enumerate(towers)]
    lines = [f"            {end}," for end in ends]
    if collectives:
        return templates.UNROLLED.substitute(ends=communication.segments(lines, collectives))
    return templates.UNROLLED.substitute(ends="\n".join(["        ends = [", *lines, "        ]\n"]))
