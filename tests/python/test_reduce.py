"""Reductions, compared with NumPy in f64, and the same bits for every layout."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import rapt

Numbers = np.random.default_rng
NUMPY: dict[str, Any] = {
    "sum": np.sum, "mean": np.mean, "var": np.var, "std": np.std, "prod": np.prod, "min": np.min, "max": np.max,
    "argmin": np.argmin,
    "norm": lambda x, axis, **o: np.sqrt(np.sum(x * x, axis, **o)),
}  # fmt: skip


def axes_of(ndim: int) -> list[Any]:
    every = [axes for n in range(1, ndim) for axes in itertools.combinations(range(ndim), n)]
    return [None, *every, -1, *(range(ndim))]


@pytest.mark.parametrize("name", NUMPY)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_numpy_has_the_same_numbers(name: str, dtype: str) -> None:
    x = (Numbers(1).normal(size=(3, 5, 70)) / 2 + 1).astype(dtype)
    for axis in axes_of(3):
        if name == "argmin" and isinstance(axis, tuple):
            continue
        for keepdims in (False, True):
            got = getattr(rapt, name)(x, axis=axis, keepdims=keepdims)
            expected = NUMPY[name](x.astype(np.float64), axis, keepdims=keepdims)
            assert got.shape == expected.shape
            assert name == "argmin" or got.dtype == x.dtype
            close = {"f2": 2e-3, "f4": 2e-5, "f8": 1e-13}[dtype]
            assert np.allclose(got.astype(np.float64), np.asarray(expected, dtype), close, close)


@pytest.mark.parametrize("name", NUMPY)
def test_bits_do_not_depend_on_the_layout(name: str) -> None:
    function = getattr(rapt, name)
    x = Numbers(2).normal(size=(6, 70, 130)).astype(np.float32)
    layouts = [
        np.asfortranarray(x), np.ascontiguousarray(x.transpose(1, 2, 0)).transpose(2, 0, 1),
        np.repeat(x, 2, axis=2)[:, :, ::2], np.repeat(x, 3, axis=0)[::3], np.ascontiguousarray(x[::-1])[::-1],
    ]  # fmt: skip
    for axis in axes_of(3):
        expected = function(x, axis=axis)
        for layout in layouts:
            assert np.array_equal(layout, x) and np.array_equal(function(layout, axis=axis), expected)


def test_outputs() -> None:
    x = Numbers(3).normal(size=(4, 9, 3)).astype(np.float16)
    out = np.zeros((4, 6, 3), np.float32)[:, ::6]
    assert rapt.sum(x, 1, keepdims=True, dtype="f32", out=out) is out
    assert np.array_equal(out[:, 0], rapt.sum(x, 1, dtype=np.float32))
    assert np.array_equal(out[:, 0].astype(np.float16), rapt.sum(x, 1))
    index = np.empty((4, 3), np.int64)
    assert rapt.argmin(x, 1, out=index) is index and np.array_equal(index, x.argmin(1))


def test_scalars_and_no_elements() -> None:
    assert rapt.sum(np.float32(3)) == 3 and rapt.sum([1.5, 2.5]).dtype == np.float64
    assert np.array_equal(rapt.sum(np.ones((2, 3)), ()), np.ones((2, 3)))
    empty = np.empty((0, 3))
    assert np.array_equal(rapt.sum(empty, 0), [0, 0, 0]) and np.array_equal(rapt.prod(empty, 0), [1, 1, 1])
    assert rapt.max(empty, 1).shape == (0,) and np.isnan(rapt.mean(empty))
    with pytest.raises(ValueError, match="no element for max"):
        rapt.max(empty, 0)


def test_broadcast_dimensions() -> None:
    x = np.broadcast_to(np.arange(5, dtype=np.float32), (7, 5))
    assert rapt.sum(x) == 70 and np.array_equal(rapt.sum(x, 0), np.arange(5) * 7)


def test_norms_and_variances() -> None:
    x = np.array([3e30, -4e30], np.float32)
    assert rapt.norm(x) == np.float32(5e30) and rapt.norm(x * np.float32(1e-60)) == 0
    assert rapt.norm(np.array([3e-30, 4e-30], np.float32)) == np.float32(5e-30)
    assert rapt.norm(x, 1) == np.abs(x).sum() and rapt.norm(x, float("inf")) == np.float32(4e30)
    y = Numbers(4).normal(size=(5, 40))
    assert np.allclose(rapt.var(y, 1, correction=1), np.var(y, 1, ddof=1))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_a_standard_deviation_is_the_root_of_the_variance(dtype: str) -> None:
    """Bit by bit; that of 16 bits is the root in f32, rounded."""
    x = Numbers(6).normal(size=(5, 40, 3)).astype(dtype)
    wide = "f8" if dtype == "f8" else "f4"
    cases: tuple[dict[str, Any], ...] = (
        {},
        {"correction": 1},
        {"axis": (0, 2), "keepdims": True},
        {"axis": -1, "correction": 2.5},
    )
    for options in cases:
        of_type = np.sqrt(rapt.var(x, dtype={"f4": "f32", "f8": "f64"}[wide], **options))
        got = rapt.std(x, **options)
        assert of_type.dtype == wide and got.dtype == dtype and np.array_equal(got, of_type.astype(dtype))
    whole = np.zeros((5, 9), dtype)
    assert rapt.std(x, 1, out=whole[:, 2:5]) is not None and np.array_equal(whole[:, 2:5], rapt.std(x, 1))
    assert not whole[:, :2].any() and not whole[:, 5:].any()
    assert np.isinf(rapt.std(x, correction=1e9)) and np.isnan(rapt.std(x[:0]))


def test_standard_deviations_of_bf16() -> None:
    x = rapt.convert(Numbers(7).normal(size=(6, 50)).astype("f4"), "bf16")
    out = np.zeros(6, np.uint16)
    rapt.std(x, 1, out=out)
    assert np.array_equal(out, rapt.convert(rapt.std(x, 1, dtype="f32"), "bf16"))


@pytest.mark.parametrize("call, error, text", [
    (lambda x: rapt.sum(x.astype(int)), TypeError, "rapt lacks"),
    (lambda x: rapt.sum(x.astype(np.int8)), TypeError, "reductions have f32"),
    (lambda x: rapt.sum(x, 2), ValueError, "axis is 2, above 1"),
    (lambda x: rapt.sum(x, (0, -2)), ValueError, "names a dimension twice"),
    (lambda x: rapt.sum(x, dtype="f16"), TypeError, "neither the type of x"),
    (lambda x: rapt.sum(x, 0, out=x[0]), ValueError, "out overlaps x"),
    (lambda x: rapt.sum(x, 0, out=np.zeros(2, np.float32)), ValueError, "out has the shape"),
    (lambda x: rapt.std(x, correction=float("inf")), ValueError, "correction is inf"),
    (lambda x: rapt.std(x, 0, out=x[0]), ValueError, "out overlaps x"),
    (lambda x: rapt.norm(x, 3), ValueError, "ord is 3, not 1, 2 or infinity"),
    (lambda x: rapt.argmin(x, 0, out=np.zeros(3, np.int32)), TypeError, "int32, not int64"),
])  # fmt: skip
def test_bad_arguments(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(np.ones((2, 3), np.float32))
