"""Elementwise functions compared with NumPy's in f64, with the header's bounds, and their shapes, strides and errors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import TYPES, Array, Call, OnEachLevel, Random, narrowed, widened

import rapt
from rapt import _library

ERF = np.vectorize(math.erf)
Bound = tuple[Callable[[Any], Any], float, float, float, float]


def log_sigmoid(x: Any) -> Any:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Any) -> Any:
    return np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))


def softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def slope(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: (f(x + 1e-5) - f(x - 1e-5)) / 2e-5


# The reference, the range of x, and the bounds in f32 and f64, in ULP.
UNARY: dict[str, Bound] = {
    "sqrt": (np.sqrt, 0, 1e9, 0.5, 0.5), "rsqrt": (lambda x: 1 / np.sqrt(x), 1e-9, 1e9, 1.5, 1.5),
    "reciprocal": (lambda x: 1 / x, -9, 9, 0.5, 0.5), "exp2": (np.exp2, -99, 99, 1, 1),
    "expm1": (np.expm1, -9, 9, 0.51, 1.5), "log": (np.log, 1e-9, 1e3, 0.51, 1), "log2": (np.log2, 1e-9, 1e3, 0.51, 1.5),
    "log1p": (np.log1p, -0.9, 9, 0.51, 1), "sin": (np.sin, -99, 99, 0.51, 1.5), "cos": (np.cos, -99, 99, 0.51, 1.5),
    "tan": (np.tan, -99, 99, 0.51, 4), "tanh": (np.tanh, -9, 9, 0.51, 3), "erf": (ERF, -5, 5, 0.51, 4),
    "sigmoid": (sigmoid, -50, 50, 0.51, 2), "log_sigmoid": (log_sigmoid, -50, 50, 0.51, 2),
    "softplus": (softplus, -9, 9, 0.51, 9), "mish": (lambda x: x * np.tanh(softplus(x)), -20, 20, 0.51, 4),
    "elu": (lambda x: np.where(x > 0, x, np.expm1(x)), -9, 9, 0.51, 3),
    "celu": (lambda x: np.where(x > 0, x, np.expm1(x)), -9, 9, 0.51, 3),
    "selu": (lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)), -9, 9, 2, 3),
    "hardsigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, -5, 5, 4, 4),
    "hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, -2, 5, 4, 4), "relu": (lambda x: np.maximum(x, 0), -5, 5, 0, 0),
    "relu6": (lambda x: np.clip(x, 0, 6), -5, 9, 0, 0), "hardtanh": (lambda x: np.clip(x, -1, 1), -5, 5, 0, 0),
}  # fmt: skip
OF_RESULT: dict[str, Call] = {"sigmoid": sigmoid, "tanh": np.tanh}
GRADIENTS = "erf log_sigmoid softplus mish elu celu selu hardsigmoid hardswish relu relu6 hardtanh sigmoid tanh".split()


def ulps(y: Array, exact: Array) -> Any:
    spacing = np.spacing(np.abs(exact).astype(y.dtype))
    return np.max(np.abs(y - exact) / spacing)


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("type", ["f32", "f64"])
def test_functions_of_one_tensor(random: Random, on_each_level: OnEachLevel, name: str, type: str) -> None:
    reference, low, high, in_f32, in_f64 = UNARY[name]
    function: Call = getattr(rapt, name)
    x = narrowed(random.uniform(low, high, (3, 70)), type)
    y = on_each_level(lambda: function(x))
    assert y.dtype == x.dtype and y.shape == x.shape
    # NumPy's own functions have an error too, which is nothing in f32.
    allowed = in_f32 * (1 + 1e-6) if type == "f32" else in_f64 + (2.5 if in_f64 > 0.5 else 0)
    assert ulps(y, reference(x.astype(np.float64))) <= allowed
    for small in ("f16", "bf16"):
        of_small = narrowed(x, small)
        expected = narrowed(function(widened(of_small)), small)
        assert np.array_equal(function(of_small).view(np.uint16), expected.view(np.uint16))


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(random: Random, on_each_level: OnEachLevel, name: str) -> None:
    x, dy = random.uniform(-4, 4, (2, 5, 50))
    x += 1e-3 * (np.abs(x[..., None] - [-3, -1, 0, 1, 3, 6]).min(-1) < 1e-4)  # not at a corner
    given = OF_RESULT[name](x) if name in OF_RESULT else x
    backward: Call = getattr(rapt, f"{name}_backward")
    dx = on_each_level(lambda: backward(given, dy))
    np.testing.assert_allclose(dx, dy * slope(UNARY[name][0])(x), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(backward(given.astype("f"), dy.astype("f")), dx, rtol=1e-4, atol=1e-5)
    assert np.array_equal(backward(given, 2.0), backward(given, np.full_like(x, 2)))
    half = backward(given.astype(np.float16), dy.astype(np.float16))
    assert half.dtype == np.float16


def test_bounds_of_gradients() -> None:
    """At its corners, clamp has a gradient and the others have none, as in PyTorch."""
    for dtype in (np.float32, np.float64, np.float16):
        x = np.array([-np.inf, -2, -1, 0, 1, 6, 7, np.inf], dtype)
        for result, expected in (
            (rapt.relu_backward(x, 1), [0, 0, 0, 0, 1, 1, 1, 1]),
            (rapt.relu6_backward(x, 1), [0, 0, 0, 0, 1, 0, 0, 0]),
            (rapt.hardtanh_backward(x, 1), [0, 0, 0, 1, 0, 0, 0, 0]),
            (rapt.hardtanh_backward(x, 1, -2, 6), [0, 0, 1, 1, 1, 0, 0, 0]),
            (rapt.clamp_backward(x, 1, -2, 6), [0, 1, 1, 1, 1, 1, 0, 0]),
            (rapt.clamp_backward(x, 1, max=0), [1, 1, 1, 1, 0, 0, 0, 0]),
            (rapt.elu_backward(x, 1, 0), [0, 0, 0, 0, 1, 1, 1, 1]),
        ):
            assert result.dtype == dtype and result.tolist() == expected


PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "atan2": np.arctan2, "pow": np.power,
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("type", ["f32", "f64"])
def test_functions_of_two_tensors(random: Random, on_each_level: OnEachLevel, name: str, type: str) -> None:
    x, y = (narrowed(random.uniform(0.1, 4, shape), type) for shape in ((3, 1, 25), (4, 1)))
    function: Call = getattr(rapt, name)
    result = on_each_level(lambda: function(x, y))
    exact = PAIRS[name](x.astype(np.float64), y.astype(np.float64))
    assert result.shape == (3, 4, 25) and result.dtype == x.dtype
    assert ulps(result, exact) <= (0.51 if type == "f32" else 3)
    assert np.array_equal(function(x, 3), function(x, np.full_like(x, 3)))
    assert np.array_equal(function(3.0, x), function(np.full_like(x, 3), x))


def test_functions_of_three_tensors(random: Random, on_each_level: OnEachLevel) -> None:
    x, y, z = random.normal(size=(3, 4, 30))
    close: Call = np.testing.assert_allclose
    assert np.array_equal(on_each_level(lambda: rapt.addcmul(x, y, z, value=0.3)), x + (0.3 * y) * z)
    assert np.array_equal(on_each_level(lambda: rapt.addcdiv(x, y, z, value=0.3)), x + (0.3 * y) / z)
    assert np.array_equal(rapt.add(x, y, alpha=0.3), x + 0.3 * y)
    assert np.array_equal(rapt.subtract(x, y, alpha=0.3), x - 0.3 * y)
    assert np.array_equal(rapt.add(x, y, alpha=0), x)
    near, far = rapt.lerp(x, y, 0.3), rapt.lerp(x, y, 0.7)
    assert np.array_equal(near, x + 0.3 * (y - x)) and np.array_equal(far, y - (y - x) * (1 - 0.7))
    assert np.array_equal(near, rapt.lerp(x, y, np.full_like(x, 0.3))) and np.array_equal(rapt.lerp(x, 2, 0.0), x)
    f = x.astype("f"), y.astype("f"), z.astype("f")
    exact = f[0].astype(float) * f[1] + f[2]
    close(rapt.fma(*f), exact, rtol=6e-8, atol=0)
    close(on_each_level(lambda: rapt.fma(x, y, z)), x * y + z, rtol=1e-12, atol=1e-15)


def test_parameters(random: Random) -> None:
    x = random.normal(size=50) * 3
    close: Call = np.testing.assert_allclose
    close(rapt.softplus(x, 2, 3), np.where(2 * x > 3, x, np.log1p(np.exp(2 * x)) / 2), rtol=1e-14)
    close(rapt.elu(x, 0.3), np.where(x > 0, x, 0.3 * np.expm1(x)), rtol=1e-14)
    close(rapt.celu(x, 2), np.where(x > 0, x, 2 * np.expm1(x / 2)), rtol=1e-14)
    assert np.array_equal(rapt.elu(x, 0), np.maximum(x, 0))
    for low, high in ((None, 1.0), (-1, None), (-1, 1), (2, 1), (None, None)):
        expected = np.minimum(np.maximum(x, -np.inf if low is None else low), np.inf if high is None else high)
        assert np.array_equal(rapt.clamp(x, low, high), expected)
    assert rapt.clip is rapt.clamp
    f = x.astype("f")
    assert np.array_equal(rapt.clamp(f, max=0.1), np.minimum(f, np.float32(0.1)))


def test_pow_of_one_half_is_a_root() -> None:
    x = np.array([-np.inf, -0.0, 0.0, 2, np.inf])
    assert rapt.pow(x, 0.5)[[1, 3]].tolist() == [0, math.sqrt(2)] and np.isnan(rapt.pow(x, 0.5)[0])
    assert np.signbit(rapt.pow(x, 0.5)[1]) and rapt.pow(x, -0.5)[1] == -np.inf
    assert rapt.pow(x, np.full(5, 0.5))[0] == np.inf and not np.signbit(rapt.pow(x, np.full(5, 0.5))[1])


def views(x: Array) -> list[Array]:
    """Of an array of three dimensions."""
    return [
        x, x.T, x[::-1], x[:, ::2], x[..., 1:5:3], x.transpose(1, 0, 2)[:, None], x[:, :1], x[0, 0, 0], x[..., 1::-1],
        np.broadcast_to(x, (2, *x.shape)), x[:0], x[None, None, None, None, None, None], np.broadcast_to(x[:, :1], x.shape),
    ]  # fmt: skip


@pytest.mark.parametrize("type", TYPES)
def test_strides(random: Random, type: str) -> None:
    x = narrowed(random.normal(size=(4, 5, 80)), type)
    for view in views(x):
        expected = rapt.tanh(view.copy())
        assert np.array_equal(rapt.tanh(view), expected) and expected.shape == view.shape
        space = np.zeros((*view.shape, 2), x.dtype).T
        out = space[0, ...].T  # every second element
        assert rapt.tanh(view, out) is out and np.array_equal(out, expected)
        assert not space[1, ...].any()
        column = view[..., :1] if view.ndim else view
        assert np.array_equal(rapt.multiply(view, column), rapt.multiply(view.copy(), column.copy()))


def test_an_output_in_another_order(random: Random) -> None:
    x, y = random.normal(size=(5, 1, 7)), random.normal(size=(6, 1))
    out = np.zeros((7, 5, 6)).transpose(1, 2, 0)
    assert rapt.multiply(x, y, out) is out and np.array_equal(out, x * y)


def test_in_place(random: Random) -> None:
    x, y = random.normal(size=(2, 6, 8))
    total, a = x + y, x.copy()
    assert rapt.add(a, y, out=a) is a and np.array_equal(a, total)
    b = y.copy().T
    assert rapt.add(x.T, b, out=b) is b and np.array_equal(b, total.T)
    line = x.reshape(-1).copy()
    rapt.multiply(line[::2], 2, out=line[1::2])  # between its elements
    assert np.array_equal(line[1::2], 2 * x.reshape(-1)[::2])


def test_many_dimensions(random: Random) -> None:
    x = random.normal(size=(2,) * 10)
    assert np.array_equal(rapt.multiply(x, x), x * x)
    assert np.array_equal(rapt.multiply(x, x[:, :1]), x * x[:, :1])
    with pytest.raises(ValueError, match="multiply has 8 dimensions that no single stride joins, and these are 10"):
        rapt.multiply(x, x.T)


@pytest.mark.parametrize("type", TYPES)
def test_numbers_take_the_type_of_tensors(type: str) -> None:
    x = narrowed(np.array([1.0, 2, 3]), type)
    wide = np.float64 if type == "f64" else np.float32
    third = widened(narrowed(np.array([1 / 3]), type)).astype(wide)
    for result, expected in (
        (rapt.multiply(x, 1 / 3), widened(x) * third),
        (rapt.subtract(1, x), 1 - widened(x)),
        (rapt.add(x, np.float64(1 / 3)), widened(x) + third),
        (rapt.fma(x, 2, 1 / 3), widened(x) * wide(2) + third),
    ):
        assert result.dtype == x.dtype and np.array_equal(result, narrowed(expected, type))
    assert np.isinf(widened(rapt.multiply(x, math.inf))).all()
    numbers: Any = rapt.add(1.5, 2.0)
    assert numbers.shape == () and numbers.dtype == np.float64 and numbers == 3.5


X, F = np.ones((2, 3), np.float32), np.ones(3)
B = np.ones((4, 6), np.float32)
ERRORS: list[tuple[Call, type[Exception], str]] = [
    (lambda: rapt.sqrt(np.ones(3, int)), TypeError, "x has elements of int64, which rapt lacks: np.asarray(x, np.float32)"),
    (lambda: rapt.sqrt(np.ones(3, np.int8)), TypeError, "x has elements of int8, and sqrt has f32, f64, f16 and bf16"),
    (lambda: rapt.add(X, F), TypeError, "x and y have elements of float32 and float64"),
    (lambda: rapt.add(X, np.float32(2), out=F), ValueError, "out has the shape (3,), not (2, 3)"),
    (lambda: rapt.addcmul(X, F, 1), TypeError, "x and tensor1 have elements of float32 and float64"),
    (lambda: rapt.erf_backward(X, F), TypeError, "x and dy have elements of float32 and float64"),
    (lambda: rapt.add(1, 2), TypeError, "x has elements of int64"),
    (lambda: rapt.add(X, True), TypeError, "y has elements of bool"),
    (lambda: rapt.add(X, X[:, :2]), ValueError, "these shapes do not broadcast to one: x (2, 3), y (2, 2)"),
    (lambda: rapt.sqrt(F, X[0]), TypeError, "out has elements of float32, not float64"),
    (lambda: rapt.sqrt(X, B[1::-1, :3]), ValueError, "out has a stride of -24 bytes: it must be a positive multiple of 4"),
    (lambda: rapt.sqrt(X, np.lib.stride_tricks.as_strided(B, (2, 3), (4, 4))), ValueError,
     "out has strides of [1, 1] elements, with which its elements may coincide"),
    (lambda: rapt.sqrt(B[:3], B[1:]), ValueError, "out overlaps x without being exactly x"),
    (lambda: rapt.add(B, B[0], out=B), ValueError, "out overlaps y without being exactly y"),
    (lambda: rapt.clamp(X, math.nan), ValueError, "min is nan"),
    (lambda: rapt.hardtanh(X, 2, 1), ValueError, "min_val is 2.0, above max_val, which is 1.0"),
    (lambda: rapt.hardtanh_backward(X, X, 0, math.nan), ValueError, "max_val is nan"),
    (lambda: rapt.softplus(X, 0), ValueError, "beta is 0, which softplus lacks"),
    (lambda: rapt.softplus_backward(X, X, threshold=0), ValueError, "threshold is 0, which softplus_backward lacks"),
    (lambda: rapt.celu(X, 0), ValueError, "alpha is 0.0, and celu divides by it: it must be finite, and not 0"),
    (lambda: rapt.celu(X, 2**-130), ValueError, "1 / alpha is 1.361129467683754e+39, which is not finite in float32"),
    (lambda: rapt.add(X, X, alpha=1e39), ValueError, "alpha is 1e+39, which is not finite in float32"),
    (lambda: rapt.lerp(X, X, math.nan), ValueError, "weight is nan"),
    (lambda: rapt.add(X, 10**400), ValueError, "y is 1000"),
]  # fmt: skip


def test_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_library.C, "rapt_status_text", lambda status: pytest.fail(f"status {status} has C's words"))
    for call, error, words in ERRORS:
        with pytest.raises(error, match="^" + re.escape(words)):
            call()


def test_table_is_that_of_the_library() -> None:
    text = (Path(__file__).resolve().parents[2] / "src/contract/maps.def").read_text()
    rows = re.findall(
        r"^MAP\(\w+, \w+, RAPT_MAP_(\w+), (\d), (\d)\)|^MAP_OF_KERNEL\(\w+, RAPT_MAP_(\w+), (\d)\)", text, re.M
    )
    table = {(a or b).lower(): (int(inputs or of_kernel), int(n or 0)) for a, inputs, n, b, of_kernel in rows}
    assert len(rows) == 50 and {name: map[1:] for name, map in _library.MAP.items()} == table
    assert [map.number for map in _library.MAP.values()] == list(range(1, 51)) and list(_library.MAP) == list(table)


def test_tensors_of_torch(random: Random) -> None:
    torch = pytest.importorskip("torch")
    array = np.abs(random.normal(size=(6, 8)))
    x = torch.from_numpy(array).t()[1:]
    assert torch.equal(rapt.sqrt(x), x.sqrt()) and torch.equal(rapt.add(x, x[:1], alpha=2), x + 2 * x[:1])
    assert torch.equal(rapt.multiply(2, x), 2 * x) and torch.equal(rapt.lerp(x, x + 1, 0.25), x.lerp(x + 1, 0.25))
    assert isinstance(rapt.add(array, x.t()[:, :1]), np.ndarray)
    out = torch.zeros(8, 6, dtype=torch.float64)[1:]
    assert rapt.mish(x, out) is out
    functional: Any = torch.nn.functional
    names = {"sigmoid": torch.sigmoid, "log_sigmoid": functional.logsigmoid, "hardsigmoid": functional.hardsigmoid}
    for name in "softplus mish elu selu celu hardswish hardtanh relu relu6 tanh".split():
        names[name] = getattr(torch, name, None) or getattr(functional, name)
    for name, expected in names.items():
        leaf = (4 * x - 3).clone().requires_grad_()
        y = expected(leaf)
        torch.testing.assert_close(getattr(rapt, name)(leaf.detach()), y.detach(), rtol=1e-13, atol=1e-13)
        y.sum().backward()
        of = y.detach() if name in OF_RESULT else leaf.detach()
        torch.testing.assert_close(
            getattr(rapt, f"{name}_backward")(of, 1), leaf.grad, rtol=1e-7, atol=1e-12
        )  # some constants of theirs are floats
    small = x.bfloat16()
    assert rapt.sigmoid(small).dtype == torch.bfloat16 and torch.equal(rapt.add(small, 1), small + 1)
    with pytest.raises(ValueError, match="x requires a gradient"):
        rapt.tanh(x.clone().requires_grad_())


def plain_hash(x: Array, name: str, bits: list[int]) -> int:
    total, most = 0, 2**64
    for i, word in enumerate([int.from_bytes(name.encode(), "little"), x.ndim, *x.shape, *bits]):
        z = (word + (i + 1) * 0x9E3779B97F4A7C15) % most
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % most
        z = (z ^ z >> 27) * 0x94D049BB133111EB % most
        total += z ^ z >> 31
    return total % most


def test_hash(random: Random) -> None:
    names = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
    for type, name in names.items():
        x = narrowed(random.normal(size=(3, 5, 7)), type)
        bits = x.reshape(-1).view(f"u{x.itemsize}").tolist()
        assert rapt.hash(x) == plain_hash(x, name, bits)
        assert rapt.hash(x.T) == rapt.hash(x.T.copy()) and rapt.hash(x[:, ::-2]) == rapt.hash(x[:, ::-2].copy())
        assert (
            len({rapt.hash(y) for y in (x, x.T, x.reshape(-1), x[::-1], x[:2], x[:0], x[0, 0, 0], -x.view("i1"))}) == 8
        )
        number = x.view(f"u{x.itemsize}").copy()
        number[0, 0] = 2 ** (8 * x.itemsize - 1)
        assert rapt.hash(number.view(x.dtype)) != rapt.hash((number * 0).view(x.dtype))
    for type, (nan, number_of_nan) in {"f32": (-math.nan, 0x7FC00000), "f64": (math.nan, 0x7FF8 << 48)}.items():
        assert rapt.hash(narrowed(np.array([nan]), type)) == plain_hash(np.ones(1), names[type], [number_of_nan])
    for type, found, canonical in (("float16", 0xFC01, 0x7E00), ("uint16", 0xFF81, 0x7FC0)):
        x = np.array([found], np.uint16).view(type)
        assert rapt.hash(x) == plain_hash(x, type.replace("uint16", "bfloat16"), [canonical])
    nans = np.array([0x7FC00000, 0xFFC00001, 0x7F800001], np.uint32).view(np.float32)
    assert rapt.hash(nans) == rapt.hash(np.full(3, np.nan, np.float32)) != rapt.hash(np.full(3, np.inf, np.float32))
    assert rapt.hash(np.arange(70000)) == plain_hash(np.arange(70000), "int64", list(range(70000)))
    assert rapt.hash(np.ones(3, bool)) == plain_hash(np.ones(3), "bool", [1] * 3)
    assert rapt.hash(np.zeros((0, 4), np.float32)) != rapt.hash(np.zeros((0, 5), np.float32))
    with pytest.raises(TypeError, match="x has elements of complex128, not"):
        rapt.hash(np.ones(3, complex))
