"""Convolutions, compared with loops of NumPy in f64."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import rapt

CONV = {1: rapt.conv1d, 2: rapt.conv2d, 3: rapt.conv3d}
CASES: list[dict[str, Any]] = [
    {}, {"stride": 2}, {"padding": 1}, {"padding": 2, "dilation": 2}, {"groups": 2, "padding": 1, "stride": 2},
    {"groups": 4, "padding": "same"}, {"padding": "valid"}, {"stride": 3, "padding": 1, "dilation": 2},
]  # fmt: skip


def loops(x: Any, w: Any, stride: int, before: int, behind: int, dilation: int, groups: int) -> Any:
    """The definition, a tap at a time."""
    dims = x.ndim - 2
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *[(before, behind)] * dims])
    shape = [(n - (k - 1) * dilation - 1) // stride + 1 for n, k in zip(padded.shape[2:], w.shape[2:])]
    y = np.zeros((x.shape[0], w.shape[0], *shape))
    of_group = w.shape[0] // groups
    for n in range(w.shape[0]):
        first = n // of_group * w.shape[1]
        for c in range(w.shape[1]):
            for tap in itertools.product(*map(range, w.shape[2:])):
                window = tuple(
                    slice(t * dilation, t * dilation + (size - 1) * stride + 1, stride) for t, size in zip(tap, shape)
                )
                y[:, n] += padded[(slice(None), first + c, *window)] * float(w[(n, c, *tap)])
    return y


def settings(case: dict[str, Any], taps: int) -> tuple[int, int, int, int, int]:
    stride, dilation, padding = case.get("stride", 1), case.get("dilation", 1), case.get("padding", 0)
    total = (taps - 1) * dilation
    before, behind = (total // 2, total - total // 2) if padding == "same" else (0, 0)
    if not isinstance(padding, str):
        before = behind = padding
    return stride, before, behind, dilation, case.get("groups", 1)


def operands(dims: int, groups: int, dtype: str, taps: int = 3) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(dims)
    size = {1: 40, 2: 11, 3: 7}[dims]
    x = rng.normal(size=(2, 4, *[size] * dims)).astype(dtype)
    w = rng.normal(size=(8, 4 // groups, *[taps] * dims)).astype(dtype)
    return x, w, rng.normal(size=8).astype("f8" if dtype == "f8" else "f4")


@pytest.mark.parametrize("dims", CONV)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_loops_have_the_same_numbers(dims: int, dtype: str, case: dict[str, Any]) -> None:
    x, w, bias = operands(dims, case.get("groups", 1), dtype)
    expected = loops(x, w, *settings(case, 3)) + bias.reshape(-1, *[1] * dims)
    got = CONV[dims](x, w, bias, **case)
    assert got.dtype == x.dtype
    close = {"f2": 4e-3, "f4": 1e-5, "f8": 1e-13}[dtype]
    assert np.allclose(got.astype("f8"), expected, close, 10 * close)
    last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x, 1, -1)), -1, 1)
    assert np.array_equal(CONV[dims](last, w, bias, **case, threads=3), got)


@pytest.mark.parametrize("dims", CONV)
@pytest.mark.parametrize("case", [case for case in CASES if not isinstance(case.get("padding"), str)], ids=str)
def test_gradients_are_adjoint(dims: int, case: dict[str, Any]) -> None:
    """A sum of y * dy is linear in x and in w, and the gradients are its coefficients."""
    x, w, _ = operands(dims, case.get("groups", 1), "f8")
    y = CONV[dims](x, w, **case)
    dy = np.random.default_rng(9).normal(size=y.shape)
    total = float((y * dy).sum())
    dx, dw = rapt.conv_input(x.shape, w, dy, **case), rapt.conv_weight(x, w.shape, dy, **case)
    assert dx.shape == x.shape and dw.shape == w.shape
    assert np.isclose(float((dx * x).sum()), total) and np.isclose(float((dw * w).sum()), total)


def test_transposed_convolutions() -> None:
    rng = np.random.default_rng(5)
    for stride, padding, more, dilation in [(1, 0, 0, 1), (2, 1, 1, 1), (3, 0, 2, 1), (2, 2, 0, 2), (3, 1, 2, 2)]:
        x, w = rng.normal(size=(2, 4, 9)), rng.normal(size=(4, 3, 5))
        whole = np.zeros((2, 3, 8 * stride + 4 * dilation + 1 + more))
        for i, t in itertools.product(range(9), range(5)):
            whole[:, :, i * stride + t * dilation] += np.einsum("bc,co->bo", x[:, :, i], w[:, :, t])
        expected = whole[:, :, padding : whole.shape[2] - padding]
        got = rapt.conv_transpose(x, w, None, stride, padding, more, 1, dilation)
        assert got.shape == expected.shape
        assert np.allclose(got, expected, 1e-12, 1e-12)


def test_pairs_of_padding_and_infinite_weights() -> None:
    x, w = np.ones((1, 1, 3), np.float32), np.array([[[np.inf, 1, 1]]], np.float32)
    assert rapt.conv1d(x, w, padding=[(1, 0)]).tolist() == [[[2, np.inf]]]


def test_packed_weights() -> None:
    x, w, bias = operands(2, 1, "f4")
    taps = w.shape[2:]
    matrix = np.ascontiguousarray(w.reshape(len(w), -1))
    packed = rapt.pack_weights(matrix)
    expected = rapt.conv2d(x, w, bias, padding=1)
    assert np.array_equal(rapt.conv2d(x, packed, bias, padding=1, kernel_size=taps), expected)
    q, scales = rapt.quantize_rows(matrix, "i8")
    integers = rapt.pack_quantized(q, "i8", scales)
    # A convolution whose taps cover x is a row of a linear layer.
    whole = np.ascontiguousarray(x[:, :, : taps[0], : taps[1]])
    for arithmetic, x_group in (("f32", 0), ("i8", 0), ("i8", 512), ("i8", -1)):
        options: dict[str, Any] = {"arithmetic": arithmetic, "x_group": x_group}
        got = rapt.conv2d(whole, integers, bias, kernel_size=taps, **options)
        assert np.array_equal(got[:, :, 0, 0], rapt.linear(whole.reshape(len(whole), -1), integers, bias, **options))
    cases: tuple[tuple[Any, Any, dict[str, Any]], ...] = (
        (ValueError, packed, {}),
        (ValueError, packed, {"kernel_size": (taps[0] + 1, taps[1])}),
        (ValueError, packed, {"kernel_size": taps, "groups": 2}),
        (ValueError, w, {"kernel_size": taps}),
        (ValueError, w, {"arithmetic": "f32"}),
        (ValueError, integers, {"kernel_size": taps, "x_group": 32}),
        (TypeError, rapt.pack_weights(matrix.astype("f2")), {"kernel_size": taps}),
        (ValueError, packed, {"kernel_size": taps, "arithmetic": "i8"}),
    )
    for error, weight, arguments in cases:
        with pytest.raises(error):
            rapt.conv2d(x, weight, **arguments)


@pytest.mark.parametrize(
    "error, arguments",
    [
        (ValueError, {"stride": 0}), (ValueError, {"padding": -1}), (ValueError, {"padding": "full"}),
        (ValueError, {"padding": "same", "stride": 2}), (ValueError, {"groups": 3}), (ValueError, {"stride": (1, 2, 3)}),
        (ValueError, {"bias": np.ones(7, np.float32)}), (TypeError, {"stride": 1.5}), (ValueError, {"padding": [(1, 2, 3), 1]}),
    ],
)  # fmt: skip
def test_arguments(error: type[Exception], arguments: dict[str, Any]) -> None:
    x, w, _ = operands(2, 1, "f4")
    with pytest.raises(error):
        rapt.conv2d(x, w, **arguments)
    with pytest.raises(ValueError):
        rapt.conv1d(x, w)
    with pytest.raises(TypeError):
        rapt.conv2d(x, w.astype("f8"))
