"""Source of a proxy's step: inputs, forward and backward pass, optimizers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from statsnet.blocks.base import Config, laid_out
from statsnet.proxy import communication, step_templates
from statsnet.proxy.block_sources import reads_indices
from statsnet.proxy.towers import GRADIENT_LAYOUTS, Placed
from statsnet.workloads.optimizers import LEARNING_RATE, SETTINGS


def step_source(mode: str, placed: list[Placed], collectives: Sequence[Config], *, runs_in_backward: bool) -> str:
    """Of its inputs and of `make_step`."""
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


def optimizers_source(placed: list[Placed]) -> str:
    """Those that some blocks are updated by."""
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


def _has_operators(placed: list[Placed]) -> bool:
    """Whether some blocks are operators by themselves."""
    return any(b.kind == "operator" for b in placed)


def _lays_out_gradients(placed: list[Placed]) -> bool:
    """Whether the gradients of some outputs have a layout of their own."""
    return any(not GRADIENT_LAYOUTS.isdisjoint(b.config) for b in placed)
