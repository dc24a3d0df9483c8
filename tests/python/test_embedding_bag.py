"""Embedding bags and their gradients, compared with loops over the rows of each bag, and with PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kinds import TYPES, OnEachLevel, narrowed, widened

import rapt

Numbers = np.random.default_rng
COUNTS = [3, 0, 1, 7, 2, 0]
INDICES = Numbers(1).integers(0, 11, sum(COUNTS))
OFFSETS = np.cumsum([0, *COUNTS[:-1]])


def table(kind: str, dim: int = 37) -> Any:
    return narrowed(Numbers(2).normal(size=(11, dim)), kind)


def bags(indices: Any = INDICES) -> list[Any]:
    return [indices[first : first + count] for first, count in zip(OFFSETS, COUNTS)]


def expected_sums(w: Any, mode: str, weights: Any = None, padding: int = -1) -> Any:
    wide, sums = widened(w), []
    for first, bag in zip(OFFSETS, bags()):
        t, n = np.zeros(w.shape[1], wide.dtype), 0
        for i, index in enumerate(bag):
            if index == padding:
                continue
            x = wide[index]
            t, n = t + (x if weights is None else wide.dtype.type(weights[first + i]) * x), n + 1
        sums.append(t / wide.dtype.type(max(n, 1)) if mode == "mean" else t)
    return np.array(sums)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("dim", [1, 37, 1500])
def test_sums_and_means(kind: str, mode: Any, dim: int, on_each_level: OnEachLevel) -> None:
    w = table(kind, dim)
    for padding in (None, int(INDICES[4])):
        got = on_each_level(lambda: rapt.embedding_bag(INDICES, w, OFFSETS, mode=mode, padding_idx=padding))
        wanted = expected_sums(w, mode, padding=-1 if padding is None else padding)
        assert got.dtype == w.dtype and np.array_equal(got, narrowed(wanted, kind))


@pytest.mark.parametrize("kind", TYPES)
def test_weights(kind: str) -> None:
    w, weights = table(kind), Numbers(3).normal(size=len(INDICES))
    got = rapt.embedding_bag(INDICES, w, OFFSETS, mode="sum", per_sample_weights=weights)
    assert np.array_equal(got, narrowed(expected_sums(w, "sum", weights), kind))


@pytest.mark.parametrize("kind", TYPES)
def test_maxima(kind: str, on_each_level: OnEachLevel) -> None:
    w = table(kind)
    w[5] = w[INDICES[0]]  # equal rows: the first of a bag counts
    got, rows = on_each_level(lambda: rapt.embedding_bag(INDICES, w, OFFSETS, mode="max", return_rows=True))
    for b, bag in enumerate(bags()):
        if len(bag) == 0:
            assert np.all(rows[b] == -1) and not np.any(widened(got[b]))
            continue
        first = bag[np.argmax(widened(w)[bag], axis=0)]
        assert np.array_equal(rows[b], first) and np.array_equal(got[b], w[first, np.arange(w.shape[1])])
    assert np.array_equal(rapt.embedding_bag(INDICES, w, OFFSETS, mode="max"), got)


def test_maxima_of_nan() -> None:
    w = np.array([[1, np.nan], [np.nan, 2], [3, np.nan]], np.float32)
    got, rows = rapt.embedding_bag([[0, 1, 2], [2, 1, 0]], w, mode="max", return_rows=True)
    assert np.all(np.isnan(got)) and rows.tolist() == [[1, 0], [1, 2]]


def test_layouts_and_offsets() -> None:
    w = table("f32")
    expected = rapt.embedding_bag(INDICES, w, OFFSETS)
    wide = np.zeros((22, 50), np.float32)
    wide[::2, 3:40] = w
    for view in (wide[::2, 3:40], np.asfortranarray(w), np.ascontiguousarray(w[::-1])[::-1]):
        assert np.array_equal(rapt.embedding_bag(INDICES, view, OFFSETS), expected)
    last = np.append(OFFSETS, len(INDICES))
    assert np.array_equal(rapt.embedding_bag(INDICES, w, last, include_last_offset=True), expected)
    square = INDICES[:12].reshape(4, 3)
    assert np.array_equal(rapt.embedding_bag(square, w), rapt.embedding_bag(square.ravel(), w, [0, 3, 6, 9]))
    repeated = np.broadcast_to(w[3], (11, 37))
    assert np.array_equal(rapt.embedding_bag(INDICES, repeated, OFFSETS, mode="max")[0], w[3])
    assert rapt.embedding_bag(np.zeros(0, int), w, np.zeros(0, int)).shape == (0, 37)
    assert rapt.embedding_bag(np.zeros((2, 0), int), w).tolist() == np.zeros((2, 37)).tolist()


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_as_pytorch(kind: str, mode: Any, is_weighted: bool) -> None:
    torch = pytest.importorskip("torch")
    if is_weighted and mode != "sum":
        return
    w, dy = table(kind), narrowed(Numbers(4).normal(size=(len(COUNTS), 37)), kind)
    weights = Numbers(5).normal(size=len(INDICES)).astype(w.dtype) if is_weighted else None
    padding = int(INDICES[4])
    of_w = torch.from_numpy(w.copy()).requires_grad_()
    y = torch.nn.functional.embedding_bag(
        torch.from_numpy(INDICES), of_w, torch.from_numpy(OFFSETS), mode=mode, padding_idx=padding,
        per_sample_weights=None if weights is None else torch.from_numpy(weights),
    )  # fmt: skip
    y.backward(torch.from_numpy(dy))
    options: Any = {"mode": mode, "padding_idx": padding, "per_sample_weights": weights}
    got = rapt.embedding_bag(INDICES, w, OFFSETS, return_rows=mode == "max", **options)
    if mode == "max":
        got, options["max_rows"] = got
    dw = rapt.embedding_bag_backward(dy, INDICES, 11, OFFSETS, **options)
    tolerance = 1e-5 if kind == "f32" else 1e-14
    assert np.allclose(got, y.detach().numpy(), atol=tolerance)
    assert np.allclose(dw, of_w.grad.numpy(), atol=tolerance)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("mode", ["sum", "mean", "max", "weighted"])
def test_gradient(kind: str, mode: str) -> None:
    dy = narrowed(Numbers(6).normal(size=(len(COUNTS), 37)), kind)
    weights = Numbers(7).normal(size=len(INDICES)) if mode == "weighted" else None
    options: Any = {"mode": "sum" if mode == "weighted" else mode, "per_sample_weights": weights}
    expected = np.zeros((11, 37), widened(dy).dtype)

    def add(row: int, cols: Any, terms: Any) -> None:  # each sum is rounded to the type
        expected[row, cols] = widened(narrowed(expected[row, cols] + widened(narrowed(terms, kind)), kind))

    if mode == "max":
        _, rows = rapt.embedding_bag(INDICES, table(kind), OFFSETS, mode="max", return_rows=True)
        options["max_rows"] = rows
    for b, (first, bag) in enumerate(zip(OFFSETS, bags())):
        g = widened(dy[b])
        for i, index in enumerate(bag):
            if mode == "max":
                break
            number = g.dtype.type(1 if weights is None else weights[first + i])
            add(int(index), slice(None), g / g.dtype.type(len(bag)) if mode == "mean" else g * number)
        for col in range(37) if mode == "max" and len(bag) else ():
            add(int(rows[b, col]), slice(col, col + 1), g[col : col + 1])
    dw = rapt.embedding_bag_backward(dy, INDICES, 11, OFFSETS, **options)
    assert dw.dtype == dy.dtype and np.array_equal(widened(dw), expected)


W = np.ones((3, 2), np.float32)


@pytest.mark.parametrize(
    "kind, text, call",
    [
        (ValueError, "from 0 to 3, not from 0 to 2", lambda: rapt.embedding_bag([[0, 3]], W)),
        (ValueError, "from -1 to 0", lambda: rapt.embedding_bag([[0, -1]], W)),
        (ValueError, "needs offsets", lambda: rapt.embedding_bag([0, 1], W)),
        (ValueError, "3 dimensions", lambda: rapt.embedding_bag(np.zeros((1, 1, 1), int), W)),
        (ValueError, "2 dimensions with offsets", lambda: rapt.embedding_bag([[0, 1]], W, [0])),
        (ValueError, "do not ascend", lambda: rapt.embedding_bag([0, 1], W, [0, 2, 1])),
        (ValueError, "do not ascend", lambda: rapt.embedding_bag([0, 1], W, [1])),
        (ValueError, "do not ascend", lambda: rapt.embedding_bag([0, 1], W, [0, 1], include_last_offset=True)),
        (ValueError, "offsets has the shape", lambda: rapt.embedding_bag([0, 1], W, [[0]])),
        (ValueError, "mode", lambda: rapt.embedding_bag([[0]], W, mode="min")),  # type: ignore[arg-type]
        (ValueError, "mode 'sum'", lambda: rapt.embedding_bag([[0]], W, per_sample_weights=[[1.0]])),
        (
            ValueError,
            "per_sample_weights has",
            lambda: rapt.embedding_bag([[0]], W, mode="sum", per_sample_weights=[1.0]),
        ),
        (ValueError, "return_rows", lambda: rapt.embedding_bag([[0]], W, return_rows=True)),
        (ValueError, "padding_idx", lambda: rapt.embedding_bag([[0]], W, padding_idx=3)),
        (ValueError, "weight has the shape", lambda: rapt.embedding_bag([[0]], W[0])),
        (TypeError, "int8", lambda: rapt.embedding_bag([[0]], W.astype(np.int8))),
        (ValueError, "1 bags", lambda: rapt.embedding_bag_backward(W, [[0]], 3)),
        (ValueError, "max_rows", lambda: rapt.embedding_bag_backward(W[:1], [[0]], 3, mode="max")),
        (ValueError, "max_rows", lambda: rapt.embedding_bag_backward(W[:1], [[0]], 3, max_rows=[[0, 0]])),
        (
            ValueError,
            "from 0 to 3",
            lambda: rapt.embedding_bag_backward(W[:1], [[0]], 3, mode="max", max_rows=[[0, 3]]),
        ),
    ],
)
def test_bad_arguments(kind: Any, text: str, call: Any) -> None:
    with pytest.raises(kind, match=text):
        call()
