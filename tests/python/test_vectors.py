import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kinds import Call, OnEachLevel, Random

import rapt

TYPES = [np.float32, np.float64, np.float16]


@pytest.mark.parametrize("dtype", TYPES)
def test_dot(random: Random, on_each_level: OnEachLevel, dtype: npt.DTypeLike) -> None:
    a, b = random.normal(size=(2, 1001)).astype(dtype)
    result = on_each_level(lambda: rapt.dot(a, b))
    wide = a.astype(np.float64), b.astype(np.float64)
    assert result == pytest.approx(np.dot(*wide), abs=1e-5 * np.abs(wide[0] * wide[1]).sum())
    assert rapt.dot(a[::2], b[::2]) == rapt.dot(a[::2].copy(), b[::2].copy())


def test_dot_of_bytes(random: Random) -> None:
    a = random.integers(-128, 128, 1000, np.int8)
    b = random.integers(-128, 128, 1000, np.int8)
    exact = int(np.dot(a.astype(np.int64), b.astype(np.int64)))
    assert rapt.dot(a, b) == exact
    unsigned = random.integers(0, 256, 1000, np.uint8)
    assert rapt.dot(unsigned, b) == int(np.dot(unsigned.astype(np.int64), b.astype(np.int64)))


def test_dot_rows(random: Random, on_each_level: OnEachLevel) -> None:
    table = random.normal(size=(50, 2, 40)).astype(np.float32)
    query = table[7, 1]
    rows = table[:, 1]  # every second row of a matrix
    result = on_each_level(lambda: rapt.dot_rows(query, rows, scale=0.5))
    assert result.tolist() == [0.5 * np.float32(rapt.dot(query, row)) for row in rows]
    assert result.argmax() == 7
    backwards = rapt.dot_rows(query, rows[::-1], scale=0.5)
    assert backwards.tolist() == result.tolist()[::-1]
    assert np.array_equal(rapt.dot_rows(query, np.asfortranarray(rows), scale=0.5), result)
    structs = np.zeros(50, [("row", np.float32, 40), ("byte", np.uint8)])
    structs["row"] = rows
    assert np.array_equal(rapt.dot_rows(query, structs["row"], scale=0.5), result)


@pytest.mark.parametrize("pair", ["f64", "f16", "bf16", "i8", "u8i8"])
def test_dot_rows_of_every_type(random: Random, pair: str) -> None:
    query: Any
    rows: Any
    if pair in ("i8", "u8i8"):
        query = random.integers(0, 256, 40, np.uint8) if pair == "u8i8" else random.integers(-128, 128, 40, np.int8)
        rows = random.integers(-128, 128, (5, 40), np.int8)
    else:
        query, rows = random.normal(size=40), random.normal(size=(5, 40))
        if pair != "f64":
            query, rows = (rapt.convert(x.astype(np.float32), pair) for x in (query, rows))
    result = rapt.dot_rows(query, rows, 0.3)
    number: Any = np.float64 if pair == "f64" else np.float32
    assert result.dtype == number
    assert result.tolist() == [number(0.3) * number(rapt.dot(query, row)) for row in rows]


@pytest.mark.parametrize("number, tolerance", [(np.float32, 1.2e-6), (np.float64, 4e-15), (np.float16, 1e-3)])
def test_activations(random: Random, on_each_level: OnEachLevel, number: Any, tolerance: float) -> None:
    x = (2 * random.normal(size=(3, 50))).astype(number)
    wide = x.astype(np.float64)
    erf = np.array([math.erf(value / math.sqrt(2)) for value in wide.flat]).reshape(wide.shape)
    tanh = np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3))
    for activation, expected in (
        (rapt.silu, wide / (1 + np.exp(-wide))),
        (rapt.gelu, wide / 2 * (1 + erf)),
        (rapt.gelu_tanh, wide / 2 * (1 + tanh)),
    ):
        y = on_each_level(lambda: activation(x))
        assert y.dtype == number and y.shape == x.shape
        np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance)  # 1 + erf cancels
        out = x.copy()
        assert activation(out, out=out) is out and np.array_equal(out, y)


ACTIVATIONS = [("silu", rapt.silu, rapt.silu_backward), ("gelu", rapt.gelu, rapt.gelu_backward)]
ACTIVATIONS += [("gelu_tanh", rapt.gelu_tanh, rapt.gelu_tanh_backward)]


@pytest.mark.parametrize("name, activation, backward", ACTIVATIONS)
def test_gradients_of_activations(
    random: Random, on_each_level: OnEachLevel, name: Any, activation: Call, backward: Call
) -> None:
    x, dy, up = random.normal(size=(3, 4, 25))
    step = 1e-5
    slope = (activation(x + step) - activation(x - step)) / (2 * step)
    dx = on_each_level(lambda: backward(x, dy))
    np.testing.assert_allclose(dx, dy * slope, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(backward(x.astype("f"), dy.astype("f")), dx, rtol=1e-4, atol=1e-6)
    for out in (x.copy(), dy.copy()):
        a, b = (out, dy) if np.array_equal(out, x) else (x, out)
        assert backward(a, b, out=out) is out and np.array_equal(out, dx)
    dgate, dup = on_each_level(lambda: rapt.gated_backward(x, up, dy, name))
    assert np.array_equal(dgate, backward(x, dy * up)) and np.array_equal(dup, activation(x) * dy)
    for wrong in (dy[:2], dy.astype("f"), dy.astype(np.float16)):
        with pytest.raises((ValueError, TypeError), match="dy"):
            backward(x, wrong)
        with pytest.raises((ValueError, TypeError), match="dy"):
            rapt.gated_backward(x, up, wrong, name)
    half_x, half_dy, half_up = (array.astype(np.float16) for array in (x, dy, up))
    wide = [array.astype("f") for array in (half_x, half_dy, half_up)]
    half_dx = on_each_level(lambda: backward(half_x, half_dy))
    assert half_dx.dtype == np.float16 and np.array_equal(half_dx, backward(wide[0], wide[1]).astype(np.float16))
    gradients = rapt.gated_backward(half_x, half_up, half_dy, name)
    for half, of_f32 in zip(gradients, rapt.gated_backward(wide[0], wide[2], wide[1], name)):
        assert np.array_equal(half, of_f32.astype(np.float16))


@pytest.mark.parametrize("name, activation, backward", ACTIVATIONS)
@pytest.mark.parametrize("dtype", TYPES)
def test_gated(
    random: Random, on_each_level: OnEachLevel, name: Any, activation: Call, backward: Call, dtype: npt.DTypeLike
) -> None:
    both = (2 * random.normal(size=(3, 5, 2 * 37))).astype(dtype)
    gate, up = both[..., :37], both[..., 37:]
    y = on_each_level(lambda: rapt.gated(gate, up, name))
    number = np.float32 if dtype == np.float16 else dtype
    assert y.dtype == dtype and np.array_equal(y, (activation(gate.astype(number)) * up.astype(number)).astype(dtype))
    assert np.array_equal(rapt.gated(gate[::2, ::-1], up[::2, ::-1], name), y[::2, ::-1])
    assert rapt.gated(gate, up, name, out=gate) is gate and np.array_equal(gate, y)
    with pytest.raises(ValueError, match="activation"):
        rapt.gated(gate, up, "relu")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="shape"):
        rapt.gated(gate, up[:2], name)
    with pytest.raises(TypeError, match="elements"):
        rapt.gated(gate, up.astype(np.uint8), name)


@pytest.mark.parametrize("dtype", TYPES)
def test_argmax(random: Random, on_each_level: OnEachLevel, dtype: npt.DTypeLike) -> None:
    x = random.integers(-9, 9, size=(3, 4, 50)).astype(dtype)
    assert np.array_equal(on_each_level(lambda: rapt.argmax(x)), x.argmax(-1))
    row = x[0, 0]
    assert rapt.argmax(row) == row.argmax() and isinstance(rapt.argmax(row), int)
    row[[20, 30]] = np.nan
    assert rapt.argmax(row) == 20
    assert rapt.argmax(np.array([-0.0, 0.0], dtype)) == 0
    for shape in ((), (0,), (3, 0)):
        with pytest.raises(ValueError, match="no largest"):
            rapt.argmax(np.zeros(shape, dtype))
    assert rapt.argmax(np.zeros((0, 3), dtype)).shape == (0,)


@pytest.mark.parametrize("number, tolerance", [(np.float32, 1.2e-7), (np.float64, 2.3e-16)])
def test_exponentials(random: Random, on_each_level: OnEachLevel, number: Any, tolerance: float) -> None:
    x = random.normal(size=(3, 50)).astype(number)
    y = on_each_level(lambda: rapt.exp(x))
    assert y.dtype == number
    np.testing.assert_allclose(y, np.exp(x.astype(np.float64)), rtol=2 * tolerance)
    y, total = on_each_level(lambda: rapt.exp_sum(x, 2.0, 1.0))
    assert np.array_equal(y, rapt.exp(2 * x - 1)) and y.shape == x.shape
    assert total == pytest.approx(y.sum(dtype=np.float64), rel=8 * tolerance, abs=0)
    assert rapt.exp_sum(x)[1] == pytest.approx(rapt.exp(x).sum(dtype=np.float64), rel=8 * tolerance, abs=0)
    shifted = rapt.exp_sum(x, shift=1 / 3)[0]
    np.testing.assert_allclose(shifted, np.exp(x.astype(np.float64) - 1 / 3), rtol=8 * tolerance)
    out = x.copy()
    same, total = rapt.exp_sum(out, 2.0, 1.0, out=out)
    assert same is out and np.array_equal(out, y) and total == rapt.exp_sum(x, 2.0, 1.0)[1]
    out = x.copy()
    assert rapt.exp(out, out=out) is out and np.array_equal(out, rapt.exp(x))


def test_scale(random: Random) -> None:
    x = random.normal(size=(3, 5))
    assert np.array_equal(rapt.scale(x, 1 / 3), x * (1 / 3))
    narrow = x.astype(np.float32)
    assert np.array_equal(rapt.scale(narrow, 1 / 3), narrow * np.float32(1 / 3))
    half = x.astype(np.float16)
    assert np.array_equal(rapt.scale(half, 0.3), (half.astype(np.float32) * np.float32(0.3)).astype(np.float16))
    bits = rapt.convert(narrow, "bf16")
    assert np.array_equal(rapt.scale(bits, 0.3), rapt.convert(rapt.convert(bits, "f32") * np.float32(0.3), "bf16"))
    assert np.array_equal(rapt.scale(np.asfortranarray(x), 0.5), 0.5 * x)
    out = np.zeros_like(x)
    assert rapt.scale(x, 0.5, out=out) is out and np.array_equal(out, 0.5 * x)
    with pytest.raises(ValueError, match="not contiguous"):
        rapt.scale(x, 0.5, out=np.zeros((3, 6))[:, :5])


def test_shapes_are_kept() -> None:
    for shape in ((), (0,), (3, 0), (1, 1)):
        x = np.ones(shape, np.float32)
        for result in (rapt.scale(x, 2.0), rapt.exp(x), rapt.exp_sum(x)[0], rapt.convert(x, "f16")):
            assert result.shape == shape
    assert rapt.dot_rows(np.ones(3), np.ones((0, 3))).shape == (0,)


def test_overlap(random: Random) -> None:
    x = random.normal(size=60).astype(np.float32)
    calls: list[Call] = [
        lambda: rapt.exp(x[:40], out=x[1:41]),
        lambda: rapt.scale(x[1:41], 2.0, out=x[:40]),
        lambda: rapt.dot_rows(x[:4], x[4:20].reshape(4, 4), out=x[:4]),
        lambda: rapt.dot_rows(x[:4], x[4:20].reshape(4, 4), out=x[8:12]),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="overlaps"):
            call()
    table = x.reshape(4, 15)
    expected = rapt.dot_rows(x[:4].copy(), table[:, 4:8].copy())
    assert np.array_equal(rapt.dot_rows(x[:4], table[:, 4:8], out=table[2, 8:12]), expected)  # between rows


def test_conversions(random: Random) -> None:
    x = random.normal(size=1000).astype(np.float32)
    assert np.array_equal(rapt.convert(x, "f16"), x.astype(np.float16))
    bits = rapt.convert(x, "bf16")
    assert bits.dtype == np.uint16
    assert np.array_equal(rapt.convert(bits, "f32"), (bits.astype(np.uint32) << 16).view(np.float32))
    np.testing.assert_allclose(rapt.convert(bits, "f32"), x, rtol=2**-8)
    matrix = x.reshape(20, 50)
    for view in (matrix.T, matrix[::2, ::3], matrix[::-1]):
        assert np.array_equal(rapt.convert(view, "f16"), view.astype(np.float16))


@pytest.mark.parametrize("call", [
    lambda: rapt.dot(np.zeros(3), np.zeros(4)),
    lambda: rapt.dot(np.zeros((2, 3)), np.zeros((2, 3))),
    lambda: rapt.dot(np.float64(1), np.float64(1)),
    lambda: rapt.dot_rows(np.zeros(3), np.zeros((2, 4))),
    lambda: rapt.dot_rows(np.zeros(3), np.zeros((2, 3)), out=np.zeros(3)),
    lambda: rapt.scale(np.zeros(3), 2.0, out=np.zeros(4)),
    lambda: rapt.convert(np.zeros(3, np.float32), "f8"),
])  # fmt: skip
def test_bad_values(call: Call) -> None:
    with pytest.raises(ValueError):
        call()


@pytest.mark.parametrize("call", [
    lambda: rapt.dot(np.zeros(3), np.zeros(3, np.float32)),
    lambda: rapt.dot(np.zeros(3, np.int64), np.zeros(3, np.int64)),
    lambda: rapt.dot(np.zeros(3, ">f4"), np.zeros(3, ">f4")),
    lambda: rapt.exp(np.zeros(3, np.int8)),
    lambda: rapt.scale(np.zeros(3, np.int8), 2.0),
    lambda: rapt.scale(np.zeros(3), 2.0, out=np.zeros(3, np.float32)),
    lambda: rapt.convert(np.zeros(3), "f16"),
    lambda: rapt.convert(np.zeros(3, np.float32), "f32"),
    lambda: rapt.convert(np.zeros(3, np.float16), "bf16"),
])  # fmt: skip
def test_bad_types(call: Call) -> None:
    with pytest.raises(TypeError):
        call()
