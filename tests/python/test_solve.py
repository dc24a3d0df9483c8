"""Triangular systems."""

from __future__ import annotations

import numpy as np
import pytest

import rapt


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unitriangular", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_solve_triangular(upper: bool, unitriangular: bool, dtype: type) -> None:
    random = np.random.default_rng(5)
    a = random.uniform(-0.5, 0.5, (2, 3, 8, 8)) + 2 * np.eye(8)
    triangle = np.triu(a) if upper else np.tril(a)
    used = triangle.copy()
    if unitriangular:
        np.einsum("...ii->...i", used)[...] = 1
    b = random.normal(size=(2, 3, 8, 5))
    x = rapt.solve_triangular(a.astype(dtype), b.astype(dtype), upper=upper, unitriangular=unitriangular)
    assert x.dtype == dtype and np.allclose(used @ x, b, atol=1e-4)


def test_bad_arguments() -> None:
    a, b = np.eye(3, dtype=np.float32), np.ones((3, 2), np.float32)
    with pytest.raises(ValueError, match="n, n"):
        rapt.solve_triangular(a[:2], b[:2], upper=True)
    with pytest.raises(ValueError, match="b has the shape"):
        rapt.solve_triangular(a, b[:2], upper=True)
    with pytest.raises(TypeError, match="b has elements"):
        rapt.solve_triangular(a, b.astype(np.float64), upper=True)
    with pytest.raises(TypeError, match="not f32 or f64"):
        rapt.solve_triangular(a.astype(np.float16), b.astype(np.float16), upper=True)
