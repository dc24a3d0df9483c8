"""Cumulative sums and products, compared with NumPy and with their order in rapt.h."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rapt

RNG = np.random.default_rng(4)


def by_groups(x: Any, join: Any) -> Any:
    """Of one row, as rapt.h has it."""
    y = np.empty_like(x)
    for first in range(0, len(x), 16):
        p = x[first : first + 16].copy()
        for s in (1, 2, 4, 8):
            p[s:] = join(p[:-s], p[s:])
        y[first : first + 16] = join(y[first - 1], p) if first else p
    return y


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_order_is_that_of_rapt_h(dtype: type) -> None:
    for n in (1, 15, 16, 17, 130, 1000):
        x: Any = RNG.normal(size=n).astype(dtype)
        assert np.array_equal(rapt.cumsum(x), by_groups(x, np.add))
        near_1 = np.exp(x / 30)
        assert np.array_equal(rapt.cumprod(near_1), by_groups(near_1, np.multiply))


@pytest.mark.parametrize("columns", [3, 300, 512])
def test_columns_have_the_order_of_rows(columns: int) -> None:
    """Also where rows are so far apart that they are copied, and in 16 bits, whose carry is not rounded."""
    x = RNG.normal(size=(50, columns)).astype(np.float16)
    for dtype in (np.float32, np.float64):
        wide = x.astype(dtype)
        expected = np.stack([by_groups(wide[:, c], np.add) for c in range(columns)], 1)
        assert np.array_equal(rapt.cumsum(wide, 0), expected)
        assert np.array_equal(rapt.cumsum(wide.T, 1), expected.T)
    assert np.array_equal(rapt.cumsum(x, 0), rapt.cumsum(x.astype(np.float32), 0).astype(np.float16))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_numpy_has_the_same_numbers(dtype: str) -> None:
    x = (RNG.normal(size=(3, 40, 5)) / 30 + 1).astype(dtype)
    for axis in (None, 0, 1, -1):
        for name in ("cumsum", "cumprod"):
            expected = getattr(np, name)(x.astype(np.float64), axis)
            got = getattr(rapt, name)(x, axis)
            assert got.dtype == x.dtype and np.allclose(got, expected, {"f2": 2e-3, "f4": 1e-5, "f8": 1e-13}[dtype])


def test_bits_do_not_depend_on_the_layout() -> None:
    x = RNG.normal(size=(6, 70, 33)).astype(np.float32)
    layouts = [
        np.asfortranarray(x), np.repeat(x, 2, axis=2)[:, :, ::2], np.ascontiguousarray(x[::-1])[::-1],
        np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1),
    ]  # fmt: skip
    for axis in (None, 0, 1, 2):
        expected = rapt.cumsum(x, axis)
        for layout in layouts:
            assert np.array_equal(rapt.cumsum(layout, axis), expected)
        for row in (0, 5):
            if axis == 1:
                assert np.array_equal(rapt.cumsum(x[row], 0), expected[row])
    repeated = np.broadcast_to(np.float32(0.1), (40, 3))
    assert np.array_equal(rapt.cumsum(repeated, 0), rapt.cumsum(repeated.copy(), 0))


def test_outputs() -> None:
    x = RNG.normal(size=(4, 50)).astype(np.float16)
    expected = rapt.cumsum(x, 1)
    out = np.zeros((4, 60), np.float16)[:, 5:55]
    assert rapt.cumsum(x, axis=1, out=out) is out and np.array_equal(out, expected)
    assert rapt.cumsum(x, 1, out=x) is x and np.array_equal(x, expected)
    assert np.array_equal(rapt.cumsum(np.float32(3)), np.array([3], np.float32))
    assert rapt.cumprod(np.ones((0, 3), np.float32), 0).shape == (0, 3)
    assert np.signbit(rapt.cumsum(np.full(20, -0.0, np.float32))).all()


def test_bad_arguments() -> None:
    x = np.ones((3, 4), np.float32)
    with pytest.raises(TypeError, match="x has elements"):
        rapt.cumsum(x.astype(np.int32))
    with pytest.raises(ValueError, match="axis"):
        rapt.cumsum(x, 2)
    with pytest.raises(ValueError, match="out has the shape"):
        rapt.cumsum(x, 0, out=np.ones((3, 3), np.float32))
    with pytest.raises(ValueError, match="overlap"):
        rapt.cumsum(x[:2], 0, out=x[1:])
    with pytest.raises(ValueError, match="dimensions"):
        rapt.cumsum(np.ones((1,) * 9, np.float32), 0)


def test_the_names_of_the_array_api() -> None:
    assert rapt.cumulative_sum is rapt.cumsum and rapt.cumulative_prod is rapt.cumprod
