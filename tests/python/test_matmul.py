"""Products of matrices: the bits of rapt.linear for each, for NumPy's shapes and any strides, and numbers as NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kinds import TYPES, narrowed, widened

import rapt


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).normal(size=shape)


def by_linear(a: Any, b: Any, **options: Any) -> Any:
    """The product of each pair of matrices by rapt.linear."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = np.broadcast_to(a, batch + a.shape[-2:]), np.broadcast_to(b, batch + b.shape[-2:])
    y = np.empty(batch + (a.shape[-2], b.shape[-1]), a.dtype)
    for index in np.ndindex(*batch):
        y[index] = rapt.linear(a[index], b[index].T, **options)
    return y


SHAPES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 3, 4), (4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (5, 4, 6)),
    ((7, 1, 40), (7, 40, 100)),
    ((2, 3, 4), (2, 4, 1)),
    ((1, 1, 1), (1, 1, 1)),
    ((2, 1, 2, 1, 2, 1, 2, 3, 4), (4, 3)),
]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shapes", SHAPES)
def test_bits_of_linear(kind: str, shapes: Any) -> None:
    a, b = (narrowed(numbers(seed, *shape), kind) for seed, shape in enumerate(shapes))
    y = rapt.matmul(a, b)
    assert y.dtype == a.dtype and np.array_equal(y, by_linear(a, b))
    tolerance = {"f32": 1e-5, "f64": 1e-14, "f16": 1e-2, "bf16": 1e-1}[kind]
    assert np.allclose(widened(y), widened(a) @ widened(b), atol=tolerance, rtol=tolerance)


def test_vectors() -> None:
    a, b, v, w = (numbers(seed, *shape).astype("f4") for seed, shape in enumerate([(2, 3, 4), (2, 4, 5), (4,), (4,)]))
    for x, y in ((a, v), (v, b), (v, w), (a[0], v), (v, b[0])):
        got = rapt.matmul(x, y)
        assert got.shape == np.matmul(x, y).shape and np.allclose(got, np.matmul(x, y), atol=1e-5)
    assert np.array_equal(rapt.matmul(v, b[0]), rapt.linear(v, b[0].T))
    assert np.array_equal(rapt.matmul(a[0], v), rapt.linear(a[0], v[np.newaxis])[:, 0])


def test_strides() -> None:
    a, b = numbers(1, 2, 3, 4, 6).astype("f4"), numbers(2, 2, 3, 6, 5).astype("f4")
    expected = by_linear(a, b)
    layouts: list[Callable[[Any], Any]] = [
        lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
        lambda x: np.ascontiguousarray(x.swapaxes(0, 1)).swapaxes(0, 1),
        lambda x: np.ascontiguousarray(x.transpose(0, 2, 1, 3)).transpose(0, 2, 1, 3),
        lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
        lambda x: np.pad(x, [(0, 0), (0, 0), (0, 2), (0, 3)])[..., :-2, :-3],
    ]
    for of_a in layouts:
        for of_b in layouts:
            assert np.array_equal(rapt.matmul(of_a(a), of_b(b)), expected)
        out = of_a(np.full(expected.shape, 7, "f4"))
        assert rapt.matmul(a, b, out=out) is out and np.array_equal(out, expected)


def test_out_writes_nothing_else() -> None:
    a, b = numbers(1, 3, 4, 6).astype("f4"), numbers(2, 3, 6, 5).astype("f4")
    for picked in ((slice(1, 4), slice(1, 5), slice(2, 7)), (slice(0, 6, 2), slice(1, 5), slice(0, 10, 2))):
        memory = np.full((6, 7, 11), 7, "f4")
        rapt.matmul(a, b, out=memory[picked])
        assert np.array_equal(memory[picked], by_linear(a, b))
        memory[picked] = 7
        assert np.all(memory == 7)


@pytest.mark.parametrize("threads", [1, 3, None])
def test_threads(threads: int | None) -> None:
    a, b = numbers(1, 9, 70, 90).astype("f4"), numbers(2, 9, 90, 300).astype("f4")
    assert np.array_equal(rapt.matmul(a, b, threads=threads), by_linear(a, b))
    assert np.array_equal(rapt.bmm(a, b, threads=threads), by_linear(a, b))


def test_arithmetic_of_bf16() -> None:
    a, b = narrowed(numbers(1, 2, 3, 40), "bf16"), narrowed(numbers(2, 2, 40, 5), "bf16")
    assert np.array_equal(rapt.matmul(a, b, arithmetic="f32"), by_linear(a, b, arithmetic="f32"))
    subnormal, one = np.full((2, 1, 1), 3, np.uint16), np.full(
        (2, 1, 1), 0x3F80, np.uint16
    )  # which bf16 arithmetic flushes
    assert np.all(rapt.matmul(subnormal, one) == 0)
    assert np.all(rapt.matmul(subnormal, one, arithmetic="f32") == 3)


def test_types_may_differ() -> None:
    a, b = numbers(1, 2, 3, 4).astype("f2"), numbers(2, 2, 4, 1).astype("f4")
    for x, y in ((a, b), (b.swapaxes(-1, -2), a.swapaxes(-1, -2))):
        got = rapt.matmul(x, y)
        assert got.dtype == x.dtype and np.array_equal(got, by_linear(x, y))


def test_empty() -> None:
    a = np.ones((2, 3, 0), np.float32)
    assert np.array_equal(rapt.matmul(a, np.ones((2, 0, 4), np.float32)), np.zeros((2, 3, 4)))
    assert rapt.matmul(np.ones((0, 3, 4), "f4"), np.ones((4, 5), "f4")).shape == (0, 3, 5)
    assert rapt.matmul(np.ones((2, 0, 4), "f4"), np.ones((4, 5), "f4")).shape == (2, 0, 5)


def test_gradients() -> None:
    a, b, dy = (numbers(s, *shape).astype("f4") for s, shape in enumerate([(2, 3, 4), (2, 4, 5), (2, 3, 5)]))
    da = rapt.matmul(dy, b.swapaxes(-1, -2))
    db = rapt.matmul(a.swapaxes(-1, -2), dy)
    assert np.allclose(da, np.einsum("bmn,bkn->bmk", dy, b), atol=1e-5)
    assert np.allclose(db, np.einsum("bmk,bmn->bkn", a, dy), atol=1e-5)


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.randn(2, 3, 4), torch.randn(2, 5, 4).transpose(1, 2)
    y = rapt.bmm(a, b)
    assert isinstance(y, torch.Tensor) and torch.allclose(y, torch.bmm(a, b), atol=1e-5)


MATRICES = np.ones((2, 3, 4), np.float32)


@pytest.mark.parametrize(
    "kind, text, a, b, options",
    [
        (ValueError, "4 is not 3", MATRICES, MATRICES, {}),
        (ValueError, "do not broadcast", MATRICES, np.ones((3, 4, 5), np.float32), {}),
        (ValueError, "a has no dimensions", np.float32(1), MATRICES, {}),
        (TypeError, "a has elements of int8", MATRICES.astype(np.int8), MATRICES, {}),
        (TypeError, "f64 goes only with f64", MATRICES, np.ones((4, 5)), {}),
        (ValueError, "no arithmetic 'bf16'", MATRICES, np.ones((4, 5), np.float32), {"arithmetic": "bf16"}),
        (ValueError, "out has the shape", MATRICES, np.ones((4, 5), np.float32), {"out": np.empty((3, 5), np.float32)}),
        (TypeError, "out has elements", MATRICES, np.ones((4, 5), np.float32), {"out": np.empty((2, 3, 5))}),
        (ValueError, "out overlaps a", MATRICES, np.eye(4, dtype=np.float32), {"out": MATRICES}),
        (ValueError, "7 dimensions", np.ones((2,) * 9, np.float32), np.ones((2,) * 9, np.float32), {}),
        (ValueError, "threads", MATRICES, np.ones((4, 5), np.float32), {"threads": 0}),
    ],
)
def test_bad_arguments(kind: Any, text: str, a: Any, b: Any, options: Any) -> None:
    with pytest.raises(kind, match=text):
        rapt.matmul(a, b, **options)


def test_bmm_does_not_broadcast() -> None:
    with pytest.raises(ValueError, match="1 is not 2"):
        rapt.bmm(MATRICES[:1], np.ones((2, 4, 5), np.float32))
    with pytest.raises(ValueError, match="not .batch, rows, columns."):
        rapt.bmm(MATRICES, np.ones((4, 5), np.float32))
