"""Triangular systems of equations: torch.linalg.solve_triangular."""

from __future__ import annotations

import numpy as np

from ._arguments import flag
from ._arrays import Array, TensorLike, address, as_array, element_type
from ._library import F32, F64, C, TriangularSolveOptions, check


def solve_triangular(a: TensorLike, b: TensorLike, *, upper: bool, unitriangular: bool = False) -> Array:
    """x of a x = b, as a new array: a [..., n, n] is a triangle, b and x are [..., n, cols].

    Leading dimensions are equal. f32 or f64. upper says which triangle: the other is not read, nor the diagonal if unitriangular.
    """
    matrix, right = as_array(a, "a"), as_array(b, "b")
    rapt_type = element_type(matrix, "a")
    if rapt_type not in (F32, F64):
        raise TypeError(f"a has elements of {matrix.dtype.name}, not f32 or f64")
    if right.dtype != matrix.dtype:
        raise TypeError(f"b has elements of {right.dtype.name}, and a of {matrix.dtype.name}")
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ValueError(f"a has the shape {matrix.shape}, not [..., n, n]")
    if right.shape[:-1] != matrix.shape[:-1]:
        raise ValueError(f"b has the shape {right.shape}, and a {matrix.shape}")
    matrix = np.ascontiguousarray(matrix)
    x = np.array(right, order="C")
    options = TriangularSolveOptions(
        type=rapt_type,
        upper=int(flag(upper, "upper")),
        unit_diagonal=int(flag(unitriangular, "unitriangular")),
        batch=int(np.prod(matrix.shape[:-2])),
        n=matrix.shape[-1],
        cols=right.shape[-1],
    )
    check(C.rapt_triangular_solve(address(matrix), address(x), address(x), options))
    return x
