"""Optimizers: fused ones by formula, list ones as the sum of their members."""

from __future__ import annotations

import pytest
import torch

from statsnet.profiling.costs import cost_of

SHAPES = [(8, 4), (8,), (2, 8), (2,)]
COUNT = 32 + 8 + 16 + 2
BYTES = 4 * COUNT


def stepped(kind, **options):
    """An optimizer with its state made, and the function that steps it once more."""
    parameters = [torch.nn.Parameter(torch.randn(s)) for s in SHAPES]
    optimizer = kind(parameters, **options)
    for p in parameters:
        p.grad = torch.randn_like(p)
    optimizer.step()
    return optimizer.step


@pytest.mark.parametrize(
    ("kind", "options", "per_parameter"),
    [
        (torch.optim.Adam, {}, 13),
        (torch.optim.Adam, {"weight_decay": 0.1}, 15),
        (torch.optim.AdamW, {"weight_decay": 0.1}, 14),
        (torch.optim.Adam, {"amsgrad": True}, 14),
    ],
)
def test_fused_adam(cost, kind, options, per_parameter):
    step = stepped(kind, lr=0.1, fused=True, **options)
    got = cost(step, "_fused_adamw_" if kind is torch.optim.AdamW else "_fused_adam_")
    states = 4 if options.get("amsgrad") else 3
    assert got.flops == per_parameter * COUNT
    assert got.bytes_written == states * BYTES
    assert got.bytes_read == (states + 1) * BYTES + 4 * len(SHAPES)


@pytest.mark.parametrize(
    ("options", "per_parameter", "momentum"),
    [({}, 2, False), ({"momentum": 0.9}, 4, True), ({"weight_decay": 0.1}, 4, False),
     ({"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, 8, True),
     ({"momentum": 0.9, "dampening": 0.1}, 5, True)],
)  # fmt: skip
def test_fused_sgd(cost, options, per_parameter, momentum):
    got = cost(stepped(torch.optim.SGD, lr=0.1, fused=True, **options), "_fused_sgd_")
    assert got.flops == per_parameter * COUNT
    assert got.bytes_read == (3 if momentum else 2) * BYTES
    assert got.bytes_written == (2 if momentum else 1) * BYTES


def test_fused_adagrad(cost):
    got = cost(stepped(torch.optim.Adagrad, lr=0.1, fused=True), "_fused_adagrad_")
    assert (got.flops, got.bytes_written) == (7 * COUNT, 2 * BYTES)


def total(calls):
    costs = [cost_of(*c) for c in calls]
    assert None not in costs
    return sum(c.flops for c in costs), sum(c.bytes_read + c.bytes_written for c in costs)


@pytest.mark.parametrize(
    ("kind", "options", "more_bytes"),
    [
        (torch.optim.SGD, {"momentum": 0.9}, 0),
        # One number, the step count's increment, is read by the list operator; Adam also asks for each step twice.
        (torch.optim.Adam, {}, 4 + 4 * len(SHAPES) * 2),
        # Adagrad's list form writes and reads the product of gradient and rate, which its loop folds into one operator.
        (torch.optim.Adagrad, {}, 4 + 2 * BYTES),
    ],
)
def test_lists_cost_what_the_loop_costs(calls_of, kind, options, more_bytes):
    """The FLOPs are the same. Bytes differ by what torch's two implementations do differently, and no more."""
    loop = total(calls_of(stepped(kind, lr=0.1, foreach=False, **options)))
    lists = total(calls_of(stepped(kind, lr=0.1, foreach=True, **options)))
    assert lists[0] == loop[0]
    assert lists[1] - loop[1] == more_bytes


def test_list_operators_sum_over_their_members(cost):
    a, b = [torch.randn(s) for s in SHAPES], [torch.randn(s) for s in SHAPES]
    got = cost(lambda: torch._foreach_add_(a, b, alpha=2), "_foreach_add_")
    assert (got.flops, got.bytes_read, got.bytes_written) == (2 * COUNT, 2 * BYTES, BYTES)
    got = cost(lambda: torch._foreach_addcdiv_(a, b, b, [0.1] * len(SHAPES)), "_foreach_addcdiv_")
    assert (got.flops, got.bytes_read, got.bytes_written) == (3 * COUNT, 3 * BYTES, BYTES)
    got = cost(lambda: torch._foreach_norm(a), "_foreach_norm")
    assert (got.flops, got.bytes_written) == (2 * COUNT, 4 * len(SHAPES))


def test_a_factor_shared_by_a_list_is_read_once(cost):
    a = [torch.randn(s) for s in SHAPES]
    got = cost(lambda: torch._foreach_mul_(a, torch.tensor(0.5)), "_foreach_mul_")
    assert (got.flops, got.bytes_read) == (COUNT, BYTES + 4)
