"""Norms and their gradients against formulas in double."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kinds import Array, Call, OnEachLevel, Random, narrowed, widened

import rapt

TOLERANCE = {"f32": 1e-5, "f64": 1e-13, "f16": 4e-3, "bf16": 3e-2}


def wrong(x: Any) -> Any:
    """What a type checker would not let through."""
    return x


def in_double(x: Array) -> Any:
    return widened(x).astype(np.float64)


def normal(x: Array, is_layer: bool, eps: float) -> Any:
    """The elements without weight and bias, and the factor of a row."""
    centred = x - x.mean(-1, keepdims=True) if is_layer else x
    root = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + eps)
    return centred * root, root


@pytest.mark.parametrize("type", TOLERANCE)
def test_values(random: Random, on_each_level: OnEachLevel, type: str) -> None:
    x, residual = (narrowed(random.normal(size=(2, 3, 75)), type) for _ in range(2))
    w, b = (narrowed(random.normal(size=75), type) for _ in range(2))
    near: dict[str, Any] = {"rtol": TOLERANCE[type], "atol": TOLERANCE[type]}
    rms = normal(in_double(x), False, 1e-6)[0]
    assert np.allclose(in_double(on_each_level(lambda: rapt.rms_norm(x))), rms, **near)
    assert np.allclose(in_double(on_each_level(lambda: rapt.rms_norm(x, w))), rms * in_double(w), **near)
    plus_one = on_each_level(lambda: rapt.rms_norm(x, w, weight_plus_one=True, eps=0.25))
    assert np.allclose(in_double(plus_one), normal(in_double(x), False, 0.25)[0] * (in_double(w) + 1), **near)
    layer = normal(in_double(x), True, 1e-5)[0]
    result = on_each_level(lambda: rapt.layer_norm(x, w, b))
    assert result.dtype == x.dtype and np.allclose(in_double(result), layer * in_double(w) + in_double(b), **near)
    assert np.allclose(in_double(rapt.layer_norm(x, bias=b)), layer + in_double(b), **near)

    total = narrowed(in_double(x).astype(np.float32) + in_double(residual).astype(np.float32), type)
    if type == "f64":
        total = x + residual
    expected = rapt.rms_norm(total, w)
    assert np.array_equal(rapt.rms_norm(x, w, residual=residual), expected) and np.array_equal(residual, total)


def test_strides_and_in_place(random: Random) -> None:
    wide = random.normal(size=(4, 20))
    expected = rapt.layer_norm(wide[:, :13].copy())
    assert np.array_equal(rapt.layer_norm(wide[:, :13]), expected)
    assert rapt.layer_norm(wide[:, :13], out=wide[:, :13]) is not None and np.array_equal(wide[:, :13], expected)
    assert rapt.rms_norm(np.ones((0, 5))).shape == (0, 5) and rapt.rms_norm(np.ones((5, 0))).shape == (5, 0)


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float64, 1e-13)])
def test_gradients(random: Random, on_each_level: OnEachLevel, dtype: npt.DTypeLike, tolerance: float) -> None:
    x, dy = (random.normal(size=(2, 3, 40)).astype(dtype) for _ in range(2))
    w = random.normal(size=40).astype(dtype)
    near: dict[str, Any] = {"rtol": tolerance, "atol": tolerance}

    def expected(is_layer: bool, weight: Any) -> Any:
        t, root = normal(x.astype(np.float64), is_layer, 1e-5)
        g = dy * weight
        mean = g.mean(-1, keepdims=True) if is_layer else 0
        dx = root * (g - mean - t * (g * t).mean(-1, keepdims=True))
        return dx, (dy * t).sum((0, 1)), dy.sum((0, 1))

    dx, dweight, dbias = on_each_level(lambda: rapt.layer_norm_backward(x, dy, w))
    for got, true in zip((dx, dweight, dbias), expected(True, w)):
        assert got.dtype == dtype and np.allclose(got, true, **near)
    result = on_each_level(lambda: rapt.rms_norm_backward(x, dy, w, eps=1e-5, weight_plus_one=True))
    for got, true in zip(result, expected(False, w.astype(np.float64) + 1)):
        assert np.allclose(got, true, **near)
    in_place = dy.copy()
    assert np.array_equal(rapt.layer_norm_backward(x, in_place, w, out=in_place)[0], dx)
    assert np.array_equal(in_place, dx)


@pytest.mark.parametrize("type", TOLERANCE)
@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_gradients_of_statistics_have_the_same_bits(
    random: Random, on_each_level: OnEachLevel, type: str, name: str
) -> None:
    x, dy, residual = (narrowed(random.normal(2, 3, size=(2, 3, 75)), type) for _ in range(3))
    w = narrowed(random.normal(size=75), type)
    forward, backward = getattr(rapt, name), getattr(rapt, f"{name}_backward")
    y, statistics = forward(x, w, return_statistics=True)
    assert np.array_equal(y, forward(x, w)) and isinstance(statistics, rapt.NormStatistics)
    wide = in_double(x)
    centred = wide - wide.mean(-1, keepdims=True) if name == "layer_norm" else wide
    sums_type = np.float64 if type == "f64" else np.float32
    near: dict[str, Any] = {"rtol": 1e-5 if type != "f64" else 1e-13}
    eps = 1e-5 if name == "layer_norm" else 1e-6
    assert statistics.rstd.dtype == sums_type and statistics.rstd.shape == (2, 3)
    assert np.allclose(statistics.rstd, 1 / np.sqrt((centred**2).mean(-1) + eps), **near)
    if name == "layer_norm":
        assert np.allclose(statistics.mean, wide.mean(-1), **near)
        assert np.all(np.abs(statistics.mean_rest) <= 4 * np.spacing(np.abs(statistics.mean)))
        assert np.any(statistics.mean_rest != 0)
    else:
        assert statistics[1:] == (None, None)
    expected = backward(x, dy, w, eps=eps)
    for got, true in zip(backward(x, dy, w, statistics=statistics), expected):
        assert np.array_equal(got, true)
    for got, true in zip(backward(x, dy, w, eps=0.5, statistics=tuple(statistics)), expected):
        assert np.array_equal(got, true), "eps has no effect with statistics"
    others = statistics._replace(rstd=statistics.rstd * 2)
    assert not np.array_equal(backward(x, dy, w, statistics=others)[0], expected[0])
    of_sum = forward(x, w, residual=residual, return_statistics=True)[1]
    assert np.array_equal(of_sum.rstd, forward(residual, w, return_statistics=True)[1].rstd)
    prepared = rapt.prepare(forward, x, w, return_statistics=True)
    assert np.array_equal(prepared()[1].rstd, statistics.rstd)
    on_each_level(lambda: forward(x, w, return_statistics=True)[1].rstd)


def test_statistics_of_another_library_and_of_nothing(random: Random) -> None:
    x, dy = (random.normal(size=(4, 40)) for _ in range(2))
    mean = x.mean(-1)
    given = rapt.NormStatistics(1 / np.sqrt(((x - mean[:, None]) ** 2).mean(-1) + 1e-5), mean)
    for got, true in zip(rapt.layer_norm_backward(x, dy, statistics=given), rapt.layer_norm_backward(x, dy)):
        assert np.allclose(got, true, rtol=1e-12, atol=1e-12)
    assert np.isnan(rapt.layer_norm(np.ones((3, 0)), return_statistics=True)[1].mean).all()
    assert rapt.rms_norm(np.ones(5), return_statistics=True)[1].rstd.shape == ()


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])
def test_statistics_of_long_calls(name: str) -> None:
    """These are made in pieces, each with its part of the statistics."""
    x = np.ones((1 << 19, 17), np.float32) + np.arange(1 << 19, dtype=np.float32)[:, None] % 7
    x[:, 3] += 1
    _, statistics = getattr(rapt, name)(x, return_statistics=True)
    _, of_last = getattr(rapt, name)(x[-5:], return_statistics=True)
    for whole, last in zip(statistics, of_last):
        assert np.array_equal(whole[-5:], last) if last is not None else whole is None
    backward = getattr(rapt, f"{name}_backward")
    dx = backward(x, x, statistics=statistics)[0]
    assert np.array_equal(dx[-5:], backward(x[-5:], x[-5:])[0])


@pytest.mark.parametrize(
    "error, text, call",
    [
        (ValueError, "mean", lambda x, s: rapt.rms_norm_backward(x, x, statistics=s)),
        (ValueError, "mean", lambda x, s: rapt.layer_norm_backward(x, x, statistics=rapt.NormStatistics(s.rstd))),
        (ValueError, "rstd", lambda x, s: rapt.layer_norm_backward(x, x, statistics=wrong((s.rstd[:1], s.mean)))),
        (ValueError, "rstd", lambda x, s: rapt.layer_norm_backward(x, x, statistics=wrong((None, s.mean)))),
        (TypeError, "statistics", lambda x, s: rapt.layer_norm_backward(x, x, statistics=s.rstd)),
        (TypeError, "return_statistics", lambda x, s: rapt.layer_norm(x, return_statistics=wrong(1))),
        (
            ValueError,
            "rstd",
            lambda x, s: rapt.rms_norm_backward(x[:, :1], x[:, :1], statistics=s[:1], out=s.rstd[:, None]),
        ),
    ],
)
def test_errors_of_statistics(error: type[Exception], text: str, call: Any) -> None:
    x = np.ones((2, 8), np.float32)
    with pytest.raises(error, match=text):
        call(x, rapt.layer_norm(x, return_statistics=True)[1])


@pytest.mark.parametrize(
    "error, call",
    [
        (TypeError, lambda x: rapt.rms_norm(x.astype(np.int8))),
        (TypeError, lambda x: rapt.rms_norm(x, np.ones(8))),
        (ValueError, lambda x: rapt.rms_norm(x, np.ones(7, np.float32))),
        (ValueError, lambda x: rapt.rms_norm(x, weight_plus_one=True)),
        (ValueError, lambda x: rapt.layer_norm(x, eps=-1)),
        (ValueError, lambda x: rapt.layer_norm(x, out=np.zeros((2, 7), np.float32))),
        (ValueError, lambda x: rapt.layer_norm(x, residual=np.zeros((2, 7), np.float32))),
        (ValueError, lambda x: rapt.layer_norm(x, residual=x)),
        (TypeError, lambda x: rapt.layer_norm(x, residual=np.zeros((2, 8)))),
        (TypeError, lambda x: rapt.rms_norm_backward(x, x.astype(np.float64))),
        (TypeError, lambda x: rapt.rms_norm_backward(x.astype(np.int8), x.astype(np.int8))),
        (ValueError, lambda x: rapt.layer_norm_backward(x, x[:1])),
    ],
)
def test_errors(error: type[Exception], call: Call) -> None:
    with pytest.raises(error):
        call(np.zeros((2, 8), np.float32))
