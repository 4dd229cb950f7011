"""Dense linear algebra on [..., n, n]: the leading term of the textbook count.

Cholesky n³/3, LU 2n³/3, inverse 2n³, triangular solve n² and LU solve 2n² per right-hand side,
QR of m × n 2n²(m − n/3) and the same again for Q. Eigenvalues and singular values iterate: no formula.
"""

from __future__ import annotations

import math

from statsnet.profiling.costs.call import Cost, MisfitError, OperatorCall
from statsnet.profiling.costs.registry import operator_cost
from statsnet.signatures.operators import TensorSpec


def _matrices(spec: TensorSpec) -> tuple[int, int, int]:
    """Number of matrices, rows, columns."""
    if len(spec.shape) < 2:
        raise MisfitError("a matrix is expected")
    return math.prod(spec.shape[:-2]), spec.shape[-2], spec.shape[-1]


@operator_cost("linalg_cholesky_ex")
def _cholesky(call: OperatorCall) -> Cost:
    batch, n, _ = _matrices(call.tensor(0))
    return call.cost(batch * n**3 / 3)


@operator_cost("linalg_lu_factor_ex", "_linalg_det", "_linalg_slogdet")
def _lu(call: OperatorCall) -> Cost:
    batch, n, _ = _matrices(call.tensor(0))
    return call.cost(batch * 2 * n**3 / 3)


@operator_cost("linalg_inv_ex")
def _inverse(call: OperatorCall) -> Cost:
    batch, n, _ = _matrices(call.tensor(0))
    return call.cost(batch * 2 * n**3)


@operator_cost("linalg_qr")
def _qr(call: OperatorCall) -> Cost:
    batch, rows, columns = _matrices(call.tensor(0))
    short, long = min(rows, columns), max(rows, columns)
    return call.cost(2 * batch * 2 * short * short * (long - short / 3))


@operator_cost("linalg_solve_triangular")
def _triangular(call: OperatorCall) -> Cost:
    _, n, _ = _matrices(call.tensor(0))
    return call.cost(n * call.output().numel)


@operator_cost("linalg_lu_solve")
def _lu_solve(call: OperatorCall) -> Cost:
    _, n, _ = _matrices(call.tensor(0))
    return call.cost(2 * n * call.output().numel)


@operator_cost("cholesky_solve")
def _cholesky_solve(call: OperatorCall) -> Cost:
    """Right-hand sides [..., n, k] and a factor [..., n, n]: two triangular solves."""
    _, n, _ = _matrices(call.tensor(1))
    return call.cost(2 * n * call.output().numel)


@operator_cost("_linalg_solve_ex")
def _solve(call: OperatorCall) -> Cost:
    batch, n, _ = _matrices(call.tensor(0))
    return call.cost(batch * 2 * n**3 / 3 + 2 * n * call.output().numel)
