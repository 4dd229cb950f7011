"""Source of a proxy's towers: a call for each block, and a comment on what each tower stands for."""

from __future__ import annotations

import inspect
import textwrap
from itertools import groupby
from typing import Any

from statsnet.blocks import KINDS
from statsnet.errors import printable
from statsnet.proxy import templates
from statsnet.proxy.code_layout import WIDTH, Call, literal, repeated_call_lines
from statsnet.proxy.towers import Placed, Tower
from statsnet.workloads.optimizers import SETTINGS


def towers_source(towers: list[Tower], mode: str) -> str:
    """Source of the function that makes all towers."""
    lines = ["def towers() -> list[nn.Sequential]:"]
    if any(t.purpose for t in towers):
        lines.append(templates.SHARES.substitute(optimizers="in optimizers and " if mode == "training" else ""))
    lines.append("    return [")
    for blocks, equal in groupby(towers, key=lambda t: t.blocks):
        same = list(equal)
        runs = [(b, len(list(group))) for b, group in groupby(blocks, key=lambda b: b)]
        call = ("nn.Sequential", [_call(b, n) for b, n in runs])
        lines += [*_purpose(same, 8), *repeated_call_lines(call, len(same), 8)]
    return "\n".join([*lines, "    ]"]) + "\n"


def _purpose(equal: list[Tower], indent: int) -> list[str]:
    """A comment on towers of equal blocks: their share of the step, how many run in the backward pass, and what they
    stand for. None if unknown."""
    purposes = [t.purpose for t in equal if t.purpose is not None]
    if len(purposes) < len(equal):
        return []
    first = purposes[0]
    if not first.categories:
        text = "only updated by an optimizer, in the rest of the step"
    else:
        share = 100 * sum(p.step_share for p in purposes)
        what = ", ".join(name.replace("_", " ") for name in first.categories)
        text = f"{share:.1f} % of the step: {what}"
    if later := sum(t.in_backward for t in equal):
        some = f"{later} of {len(equal)} " if later < len(equal) else ""
        text += f", {some}in the backward pass"
    if first.members:
        text += f", as in {', '.join(first.members)}"
    pad = " " * indent + "# "
    return textwrap.wrap(printable(text), WIDTH, initial_indent=pad, subsequent_indent=pad)  # a line break would end it


def _call(placed: Placed, count: int) -> Call:
    kind = KINDS[placed.kind]
    module = kind.module
    written = kind.arguments(placed.config)
    if written is not None:
        return _with_count_and_optimizer((module.__name__, [*written]), placed, count)
    kind.check(placed.config)
    defaults = {n: p.default for n, p in inspect.signature(module).parameters.items()}
    in_order = sorted(placed.config, key=list(defaults).index)  # the block's order, not that of a spec file
    changed = [name for name in in_order if defaults[name] != placed.config[name]]
    arguments: list[Any] = [f"{name}={literal(placed.config[name])}" for name in changed]
    return _with_count_and_optimizer((module.__name__, arguments), placed, count)


def _with_count_and_optimizer(call: Call, placed: Placed, count: int) -> Call:
    name, arguments = call
    if count > 1:
        call = ("*repeat", [str(count), name, *arguments])
    if placed.optimizer in SETTINGS:
        call = ("*stepped", [f'"{placed.optimizer}"', call])
    return call
