"""Sums of rows by index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rapt


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_index_add_is_a_loop_of_additions(dtype: type) -> None:
    random = np.random.default_rng(3)
    x: Any = random.normal(size=(50, 33)).astype(dtype)
    indices = random.integers(-1, 5, 50)
    out: Any = random.normal(size=(5, 33)).astype(dtype)
    expected = out.copy()
    for row, index in zip(x, indices):
        if index >= 0:
            expected[index] += row
    rapt.index_add(out, indices, x)
    assert np.array_equal(out, expected)


def test_views_keep_their_strides() -> None:
    whole = np.zeros((4, 10), np.float32)
    rapt.index_add(whole[:, 2:6], np.array([3, 3], np.int32), np.ones((4, 4), np.float32)[::2])
    assert whole.sum() == 8 and np.array_equal(whole[3, 2:6], np.full(4, 2, np.float32))


def test_rows_of_any_strides() -> None:
    out = np.zeros((2, 3), np.float32)
    rapt.index_add(out, np.array([1, 1, 0, 1]), np.broadcast_to(np.array([1, 2, 3], np.float32), (4, 3)))
    assert np.array_equal(out, np.array([[1, 2, 3], [3, 6, 9]], np.float32))
    rapt.index_add(out, np.array([0, 1, 0]), np.ones((3, 6), np.float32)[::-1, ::-2])
    assert np.array_equal(out, np.array([[3, 4, 5], [4, 7, 10]], np.float32))


def test_embedding_backward() -> None:
    grad = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    indices = np.array([[1, 0, 1], [2, 1, 0]])
    expected = np.zeros((4, 4), np.float32)
    np.add.at(expected, indices, grad)
    assert np.array_equal(rapt.embedding_backward(grad, indices, 4), expected)
    expected[1] = 0
    assert np.array_equal(rapt.embedding_backward(grad, indices, 4, padding_idx=1), expected)
    assert rapt.embedding_backward(np.zeros((0, 4), np.float32), np.zeros(0, np.int64), 2).shape == (2, 4)


def test_bad_arguments() -> None:
    out, x = np.zeros((3, 4), np.float32), np.ones((2, 4), np.float32)
    for indices in ([0, 3], [0, -2]):
        with pytest.raises(ValueError, match="ind"):
            rapt.index_add(out, np.array(indices), x)
    with pytest.raises(ValueError, match="indices has the shape"):
        rapt.index_add(out, np.array([0]), x)
    with pytest.raises(TypeError, match="not integers"):
        rapt.index_add(out, np.array([0.0, 1.0], np.float32), x)
    with pytest.raises(ValueError, match="out has the shape"):
        rapt.index_add(out[:, :3], np.array([0, 1]), x)
    with pytest.raises(TypeError, match="out has elements of"):
        rapt.index_add(out.astype(np.float64), np.array([0, 1]), x)
    with pytest.raises(ValueError, match="negative"):
        rapt.embedding_backward(x, np.array([0, -1]), 3)
    assert not out.any()
