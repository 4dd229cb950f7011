"""Random numbers: the bytes written and the parameters read. Drawing a number counts no FLOPs."""

from __future__ import annotations

from statsnet.profiling.costs.call import Cost, OperatorCall
from statsnet.profiling.costs.registry import operator_cost


@operator_cost("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like",
               "normal_", "uniform_", "exponential_", "geometric_", "log_normal_", "cauchy_", "random_",
               "aten.bernoulli_.float")  # fmt: skip
def _fill(call: OperatorCall) -> Cost:
    """A tensor that is only overwritten, or only gives its shape, is not read."""
    return call.cost(read=0)


@operator_cost("bernoulli", "normal", "poisson", "binomial", "_standard_gamma", "_sample_dirichlet")
def _draw(call: OperatorCall) -> Cost:
    """Parameters are read: one draw per element."""
    return call.cost(call.output().numel)


@operator_cost("aten.bernoulli_.Tensor")
def _bernoulli_in_place(call: OperatorCall) -> Cost:
    return call.cost(call.output().numel, read=call.tensor(1).nbytes)
