"""Comparing vectors, exact search, mean pooling and rows of length 1, beside NumPy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import rapt

Numbers = np.random.default_rng


def exact(metric: str, q: Any, x: Any) -> Any:
    q, x = q.astype(np.float64), x.astype(np.float64)
    dot = q @ x.T
    if metric == "l2_squared":
        return ((q[:, None] - x[None]) ** 2).sum(-1)
    if metric.startswith("cosine"):
        dot = dot / (np.linalg.norm(q, axis=1)[:, None] * np.linalg.norm(x, axis=1))
    return 1 - dot if metric.endswith("distance") else dot


METRICS = "dot", "cosine", "l2_squared", "dot_distance", "cosine_distance"


def drawn(dtype: str, seed: int, *shape: int) -> Any:
    numbers = Numbers(seed).normal(size=shape)
    return (numbers * 40).astype(np.int8) if dtype == "int8" else numbers.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8"])
@pytest.mark.parametrize("metric", METRICS)
def test_scores(metric: str, dtype: str) -> None:
    q, x = drawn(dtype, 1, 19, 70), drawn(dtype, 2, 33, 70)
    scores = rapt.similarity(q, x, metric=metric)
    assert scores.dtype == (np.float64 if dtype == "float64" else np.float32)
    np.testing.assert_allclose(scores, exact(metric, q, x), rtol=2e-5, atol=2e-5)
    assert np.array_equal(rapt.similarity(q[3], x, metric=metric), scores[3])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("metric", METRICS)
def test_top_k_is_a_sort_of_scores(metric: str, dtype: str) -> None:
    q, x = drawn(dtype, 3, 21, 24), drawn(dtype, 4, 5000, 24)
    scores = rapt.similarity(q, x, metric=metric)
    smallest = metric in ("l2_squared", "dot_distance", "cosine_distance")
    order = np.argsort(scores if smallest else -scores, axis=1, kind="stable")[:, :7]
    for threads in (1, 3, None):
        found = rapt.top_k(q, x, 7, metric=metric, threads=threads)
        assert np.array_equal(found.indices, order)
        assert np.array_equal(found.scores, np.take_along_axis(scores, order, 1))
    one = rapt.top_k(q[5], x, 7, metric=metric)
    assert np.array_equal(one.indices, order[5]) and one.scores.shape == (7,)


def test_fewer_rows_than_k() -> None:
    found = rapt.top_k(np.ones(3, np.float32), np.ones((2, 3), np.float32), 4, metric="l2_squared")
    assert found.indices.tolist() == [0, 1, -1, -1] and found.scores.tolist() == [0, 0, np.inf, np.inf]


def test_pointer_is_a_function_of_c() -> None:
    a, b = drawn("float32", 5, 100), drawn("float32", 6, 100)
    pair = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    function = pair(rapt.metric_pointer("dot", "f32"))
    assert function(a.ctypes.data, b.ctypes.data, 100) == rapt.dot(a, b)
    assert rapt.metric_pointer("cosine", np.float64) != rapt.metric_pointer("cosine", np.float32)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_mean_pool(dtype: str) -> None:
    x = drawn(dtype, 7, 3, 6, 50)
    mask = np.array([[1, 1, 1, 0, 0, 0], [0, 1, 0, 1, 1, 1], [0] * 6])
    weights = mask[..., None].astype(np.float64)
    expected = (x.astype(np.float64) * weights).sum(1) / np.maximum(weights.sum(1), 1e-9)
    x[mask == 0] = np.nan
    pooled = rapt.mean_pool(x, mask)
    assert pooled.dtype == dtype
    np.testing.assert_allclose(pooled, expected, atol=1e-6 if dtype == "float32" else 2e-3)
    assert np.array_equal(pooled, rapt.mean_pool(x, mask.astype(bool)))
    assert np.array_equal(pooled[:1], rapt.mean_pool(x[:1], lengths=[3]))
    assert np.array_equal(pooled[:1], rapt.mean_pool(x[:1, :3]))


def test_normalize() -> None:
    x = drawn("float32", 8, 4, 5, 384)
    y = rapt.normalize(x)
    np.testing.assert_allclose(y, x / np.linalg.norm(x.astype(np.float64), axis=-1, keepdims=True), rtol=1e-6)
    assert rapt.normalize(x, out=x) is x and np.array_equal(x, y)
    assert not rapt.normalize(np.zeros(5, np.float32)).any()


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: rapt.top_k(x, x, 0), ValueError, "k is 0"),
        (lambda x: rapt.top_k(x, x, 1, metric="l1"), ValueError, "metric is 'l1'"),
        (lambda x: rapt.top_k(x.astype(np.float64), x.astype(np.float64), 1), TypeError, "float64"),
        (lambda x: rapt.top_k(x, x[:, :2], 1), ValueError, "queries have 3 elements and rows 2"),
        (lambda x: rapt.top_k(x, x.astype(np.float16), 1), TypeError, "float32 and float16"),
        (lambda x: rapt.similarity(x[None], x), ValueError, "3 dimensions"),
        (lambda x: rapt.mean_pool(x), ValueError, "not \\(batch, tokens, dim\\)"),
        (lambda x: rapt.mean_pool(x[None], [[1]]), ValueError, "mask has the shape"),
        (lambda x: rapt.mean_pool(x[None], lengths=[5]), ValueError, "between 0 and 4"),
        (lambda x: rapt.normalize(x, 0), ValueError, "eps is 0"),
        (lambda x: rapt.normalize(x, out=x[:, ::-1]), ValueError, "."),
    ],
)
def test_wrong_arguments(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(Numbers(9).normal(size=(4, 3)).astype(np.float32))
