"""Writes a proxy's source: one readable file of plain torch, made only from checked data."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from statsnet.blocks import KINDS
from statsnet.blocks.base import SIDE_INPUTS, Config, laid_out
from statsnet.errors import printable
from statsnet.proxy import communication, step_templates, templates
from statsnet.proxy.block_sources import block_sources, reads_indices
from statsnet.proxy.code_layout import WIDTH, Call, literal, repeated_call_lines
from statsnet.proxy.towers import GRADIENT_LAYOUTS, Placed, Tower
from statsnet.workloads.optimizers import LEARNING_RATE, SETTINGS


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
        constants="\n".join(filter(None, (_optimizers(placed), _repeats(repeats)))),
        without_gradients=", torch.no_grad()" if shares_tables else "",
        tables_let_go="    shared_table.cache_clear()  # from now on the blocks hold their tables\n"
        if shares_tables
        else "",
        blocks=block_sources(placed, collectives),
        network=_network_sources(towers, mode, collectives),
        steps=_steps(mode, placed, collectives, runs_in_backward=_some_in_backward(towers)),
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


def _has_operators(placed: list[Placed]) -> bool:
    """Whether some blocks are operators by themselves."""
    return any(b.kind == "operator" for b in placed)


def _lays_out_gradients(placed: list[Placed]) -> bool:
    """Whether the gradients of some outputs have a layout of their own."""
    return any(not GRADIENT_LAYOUTS.isdisjoint(b.config) for b in placed)


def _ends_in_relu(tower: Tower) -> bool:
    config = tower.blocks[-1].config
    return "relu" in (config.get("activation"), (config.get("functions") or ("",))[-1])


def _steps(mode: str, placed: list[Placed], collectives: Sequence[Config], *, runs_in_backward: bool) -> str:
    alone = _has_operators(placed)
    operators = step_templates.HANDED_TO_OPERATORS if alone else ""
    parts = [_sample(placed), step_templates.BATCHES, step_templates.WORKING_DTYPE.substitute(operators=operators)]
    if collectives:
        parts.append(communication.COMMUNICATION)
    if mode == "training":
        parts += _training_step(placed, communicates=bool(collectives), runs_in_backward=runs_in_backward)
    else:
        parts.append(step_templates.INFERENCE_STEP)
    return "\n\n".join(parts).strip()


def _sample(placed: list[Placed]) -> str:
    indices, alone = reads_indices(placed), _has_operators(placed)
    cases = (step_templates.SAMPLE_OF_OPERATOR if alone else "") + (step_templates.SAMPLE_OF_INDICES if indices else "")
    others = ("; or its own" if alone else "") + ("; or `count` tensors of indices" if indices else "")
    return step_templates.SAMPLE.substitute(
        head="nn.Module" if cases else "Block",
        others=others,
        cases=cases,
        of_operators=step_templates.READ_BY_OPERATORS if alone else "",
    )


def _training_step(placed: list[Placed], *, communicates: bool, runs_in_backward: bool) -> list[str]:
    alone, in_layouts = _has_operators(placed), _lays_out_gradients(placed)
    how = step_templates.WITH_OPTIMIZERS if any(b.optimizer for b in placed) else step_templates.WITHOUT_OPTIMIZERS
    outputs = "without_operators(differentiated, proxy(next(rotation)))" if alone else "proxy(next(rotation))"
    gradients = f"gradients_like({outputs})"
    batch = step_templates.BATCH_WITHOUT_OPERATORS if alone else step_templates.BATCH
    backward = step_templates.BACKWARD
    if alone:
        backward = step_templates.BACKWARD_WITHOUT_OPERATORS
    if runs_in_backward:
        backward = step_templates.BACKWARD_WITH_OPERATORS.substitute(exchange=", exchange" if communicates else "")
    if communicates:
        ends = "without_operators(differentiated, outputs)" if alone else "outputs"
        backward = communication.communicating(backward, ends)
    step = step_templates.TRAINING_STEP.substitute(
        how,
        differentiated="    differentiated = have_backward(proxy)\n" if alone else "",
        gradients=f"laid_out_gradients(proxy, {gradients})" if in_layouts else gradients,
        begin=step_templates.BEGIN if runs_in_backward else "",
        backward=batch + step_templates.FORWARD + backward,
    )
    towers = "without_operators(have_backward(proxy), proxy.towers)" if alone else "proxy.towers"
    parts = [step_templates.WITHOUT_OPERATORS] if alone else []
    if runs_in_backward:
        parts.append(_run_in_backward(communicates))
    if communicates:
        parts.append(communication.backward_exchange(runs_in_backward))
    parts.append(step_templates.GRADIENTS)
    if in_layouts:
        source = inspect.getsource(laid_out)
        parts.append(step_templates.LAID_OUT_GRADIENTS.substitute(laid_out=source, towers=towers))
    return [*parts, step]


def _run_in_backward(communicates: bool) -> str:
    parameter, given = (", exchange: Exchange", "exchange") if communicates else ("", "True")
    return step_templates.RUN_IN_BACKWARD.substitute(parameter=parameter, given=given)


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
        "from contextlib import contextmanager": r"@contextmanager\b",
        "from functools import cache": r"\n@cache\n",
        "from functools import partial": r"\bpartial\(",
        "from typing import Any": r"\bAny\b",
    }
    lines += [line for line, use in own.items() if re.search(use, source)]
    standard = sorted(lines, key=lambda line: (line.startswith("from"), line))
    functional = ["import torch.nn.functional as F"] if re.search(r"\bF\.|\(F, ", source) else []
    return "\n".join([*standard, "", "import torch", *functional, "from torch import Tensor, nn"])


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
    parts = [_towers(towers, mode), *([communication.collectives_source(collectives)] if collectives else [])]
    parts += [proxy, templates.THROUGH]
    repeated = any(len(list(g)) > 1 for t in towers for _, g in groupby(t.blocks, key=lambda b: b.key))
    if repeated or communication.repeats_some(collectives):
        parts.append(templates.REPEAT)
    if any(b.optimizer for b in placed):
        parts.append(templates.STEPPED)
    parts += [templates.READ_ON] if read_on else []
    return "\n\n".join(parts).strip()


def _towers(towers: list[Tower], mode: str) -> str:
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
