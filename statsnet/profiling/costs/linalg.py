"""Dense linear algebra on [..., m, n]: the leading terms of the textbook counts.

Cholesky n³/3, LU s²(l − s/3) with the shorter side s and the longer l (2n³/3 if square), inverse 2n³, triangular solve
n² and LU solve 2n² per right-hand side, QR 2s²(l − s/3) and as much again for Q, products with Householder reflectors:
LAPACK Working Note 41, appendix C. Eigenvalues and singular values iterate, so their counts are of what is usual: Golub
and Van Loan, Matrix Computations, 4th edition. Symmetric 4n³/3, with vectors 9n³ (section 8.3); general 10n³, with
vectors 25n³ (7.5); singular values as in figure 8.6.1, the smaller of its two columns. Matrix exponential: the five
products of a polynomial of degree 18 (Bader, Blanes, Casas 2019); how often the result is squared depends on the
matrix's norm. Complex numbers: four times as much, as for products.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from statsnet.profiling.costs.call import Cost, MisfitError, OperatorCall
from statsnet.profiling.costs.gemm import multiply_add_flops
from statsnet.profiling.costs.registry import Formula, operator_cost, operator_costs
from statsnet.signatures.operators import TensorSpec


def _matrices(spec: TensorSpec) -> tuple[int, int, int]:
    """Number of matrices, rows, columns."""
    if len(spec.shape) < 2:
        raise MisfitError("a matrix is expected")
    return math.prod(spec.shape[:-2]), spec.shape[-2], spec.shape[-1]


def _sides(spec: TensorSpec) -> tuple[int, int, int]:
    """Number of matrices, shorter and longer side."""
    batch, rows, columns = _matrices(spec)
    return batch, min(rows, columns), max(rows, columns)


def _scaled(call: OperatorCall, flops: float) -> Cost:
    """The cost of this many FLOPs on real numbers, for the numbers that the first matrix holds."""
    return call.cost(flops * multiply_add_flops(call.tensor(0)) / 2)


def _factor_flops(short: int, long: int) -> float:
    return 2 * short * short * (long - short / 3)


@operator_cost("linalg_householder_product")
def _householder_product(call: OperatorCall) -> Cost:
    """m × n matrices whose columns hold k reflectors, and their k factors: the first n columns of Q."""
    batch, m, n = _matrices(call.tensor(0))
    k = call.tensor(1).shape[-1] if call.tensor(1).shape else 0
    return _scaled(call, batch * (4 * m * n * k - 2 * (m + n) * k * k + 4 * k**3 / 3))


@operator_cost("ormqr")
def _times_q(call: OperatorCall) -> Cost:
    """k reflectors, their factors, a matrix, left: the product of Q and the matrix, in this order if `left`."""
    k = call.tensor(1).shape[-1] if call.tensor(1).shape else 0
    batch, m, n = _matrices(call.tensor(2))
    across, along = (m, n) if call.flag(3, True) else (n, m)
    return _scaled(call, batch * (4 * across * along * k - 2 * along * k * k))


@operator_cost("linalg_lstsq")
def _least_squares(call: OperatorCall) -> Cost:
    """Matrices and right-hand sides [..., m, r]: QR, Qᵀ times them, a triangular solve."""
    batch, short, long = _sides(call.tensor(0))
    sides = call.output().numel / max(1, batch * _matrices(call.tensor(0))[2])
    return _scaled(call, batch * (_factor_flops(short, long) + sides * (4 * long * short - short * short)))


@operator_cost("_linalg_eigh")
def _symmetric_eigenvalues(call: OperatorCall) -> Cost:
    """A, triangle, vectors."""
    batch, n, _ = _matrices(call.tensor(0))
    return _scaled(call, batch * (9.0 if call.flag(2, True) else 4 / 3) * n**3)


@operator_cost("_linalg_svd")
def _singular_values(call: OperatorCall) -> Cost:
    """A, all columns of the vectors, vectors."""
    batch, s, m = _sides(call.tensor(0))
    if not call.flag(2, True):
        flops = min(4 * m * s**2 - 4 * s**3 / 3, 2 * m * s**2 + 2 * s**3)
    elif call.flag(1):
        flops = min(4 * m**2 * s + 8 * m * s**2 + 9 * s**3, 4 * m**2 * s + 22 * s**3)
    else:
        flops = _with_vectors_flops(s, m)
    return _scaled(call, batch * flops)


def _with_vectors_flops(short: int, long: int) -> float:
    return min(14 * long * short**2 + 8 * short**3, 6 * long * short**2 + 20 * short**3)


@operator_cost("linalg_pinv")
def _pseudo_inverse(call: OperatorCall) -> Cost:
    """Singular values and their vectors, and a product of these; of Hermitian matrices their eigenvectors."""
    batch, short, long = _sides(call.tensor(0))
    is_hermitian = any(arg is True for arg in call.args)
    parts = 9 * short**3 if is_hermitian else _with_vectors_flops(short, long)
    return _scaled(call, batch * (parts + 2 * long * short**2))


@operator_cost("_linalg_solve_ex")
def _solve(call: OperatorCall) -> Cost:
    batch, n, _ = _matrices(call.tensor(0))
    return _scaled(call, batch * 2 * n**3 / 3 + 2 * n * call.output().numel)


def _of_square(flops: Callable[[int, int], float]) -> Formula:
    """FLOPs of a number of n × n matrices."""
    return lambda call: _scaled(call, flops(*_matrices(call.tensor(0))[:2]))


def _of_any(flops: Callable[[int, int, int], float]) -> Formula:
    """FLOPs of a number of matrices, by their shorter and longer side."""
    return lambda call: _scaled(call, flops(*_sides(call.tensor(0))))


def _solves(triangular: int, factor: int = 0) -> Formula:
    """So many triangular solves of each right-hand side, with the matrix that is an argument's."""
    return lambda call: _scaled(call, triangular * _matrices(call.tensor(factor))[1] * call.output().numel)


operator_costs(
    {
        "cholesky linalg_cholesky_ex linalg_ldl_factor_ex": _of_square(lambda batch, n: batch * n**3 / 3),
        "linalg_inv_ex": _of_square(lambda batch, n: batch * 2 * n**3),
        "cholesky_inverse": _of_square(lambda batch, n: batch * 2 * n**3 / 3),  # of A, from its factor
        "linalg_eig": _of_square(lambda batch, n: batch * 25 * n**3),
        "_linalg_eigvals": _of_square(lambda batch, n: batch * 10 * n**3),
        "linalg_matrix_exp": _of_square(lambda batch, n: batch * 5 * 2 * n**3),
        "linalg_lu_factor_ex linalg_lu _linalg_det _linalg_slogdet": _of_any(
            lambda batch, short, long: batch * short**2 * (long - short / 3)
        ),
        "linalg_qr": _of_any(lambda batch, short, long: 2 * batch * _factor_flops(short, long)),
        "geqrf": _of_any(lambda batch, short, long: batch * _factor_flops(short, long)),  # R and reflectors, without Q
        "linalg_solve_triangular": _solves(1),
        "triangular_solve": _solves(1, factor=1),  # the older order: right-hand sides, A
        "linalg_lu_solve linalg_ldl_solve": _solves(2),
        "cholesky_solve": _solves(2, factor=1),
        "lu_unpack": lambda call: call.cost(),
    }
)
