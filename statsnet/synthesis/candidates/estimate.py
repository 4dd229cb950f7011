"""A rough time for a block before it is measured: good enough to choose which sizes to measure."""

from __future__ import annotations

import math

from statsnet.blocks import KINDS, Config
from statsnet.blocks.base import is_side_input
from statsnet.blocks.operator_call import encoded_arguments, name_of
from statsnet.blocks.operator_trial import results_without_values
from statsnet.profiling.costs import cost_of
from statsnet.profiling.encode import encode_tensor
from statsnet.signatures.operators import bytes_of

FLOP_RATE = 1e11
BYTE_RATE = 1e10
CALL_S = 5e-6
"""Rates of an ordinary core or two; the measured time of a candidate's source corrects for the machine."""

OPTIMIZER_PASSES = {"sgd": 3, "sgd_momentum": 6, "adagrad": 8, "rmsprop": 10, "adam": 14, "adamw": 15}
"""About how often an optimizer reads or writes each parameter."""


def estimate_s(kind_name: str, config: Config, *, training: bool, optimizer: str | None = None) -> tuple[float, float]:
    """Seconds of the block and of its optimizer's step: products at FLOP_RATE, bytes at BYTE_RATE. Training adds
    the backward pass and the optimizer's passes over the parameters."""
    if kind_name == "operator":
        return CALL_S + _operator_s(config), 0.0
    kind = KINDS[kind_name]
    index_range = kind.index_range(config)
    module = kind.on_meta(config)
    sizes = {name: p.numel() for name, p in module.named_parameters()}
    side_inputs = sum(size for name, size in sizes.items() if is_side_input(name))
    parameters = sum(sizes.values()) - side_inputs
    side_inputs += 2 * sum(b.numel() for b in module.buffers())
    if kind_name == "parameters":
        return 4 * CALL_S, _optimizer_s(optimizer, parameters)
    if index_range is None:
        elements = 2 * math.prod(module.shape) + side_inputs  # type: ignore[arg-type]
        # Each step reads all weights.
        touched = parameters * (config["steps"] if kind_name == "recurrent" else kind.uses(config))
    else:
        elements = touched = index_range[0] * config["width"]
    flops = kind.flops(config)
    if not training:
        return CALL_S + flops / FLOP_RATE + 4 * (elements + touched) / BYTE_RATE, 0.0
    dense = touched if config.get("sparse") else parameters
    used = dense if index_range is None else min(touched, dense)
    zeros = dense - used  # the gradient of a table's rows that are not looked up
    block_s = 4 * CALL_S + 3 * flops / FLOP_RATE + (12 * (elements + used) + 4 * zeros) / BYTE_RATE
    return block_s, _optimizer_s(optimizer, dense)


def _optimizer_s(optimizer: str | None, parameters: int) -> float:
    return 4 * OPTIMIZER_PASSES.get(optimizer or "", 0) * parameters / BYTE_RATE


def _operator_s(config: Config) -> float:
    outputs = [encode_tensor(y) for y in results_without_values(config) or []]
    arguments = encoded_arguments(config)
    cost = cost_of(name_of(config), arguments, outputs)
    return (cost.flops if cost else 0.0) / FLOP_RATE + bytes_of(arguments, outputs) / BYTE_RATE
