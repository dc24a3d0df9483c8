"""Cross entropy and its gradient, compared with NumPy in f64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rapt

RNG = np.random.default_rng(8)


def expected(x: Any, target: Any, weight: Any, ignored: int, smoothing: float) -> Any:
    """Losses, and the gradient of their sum."""
    x = x.astype(np.float64)
    w = np.ones(x.shape[1]) if weight is None else weight
    log_p = x - np.log(np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)) - x.max(1, keepdims=True)
    wanted = np.full(x.shape, smoothing / x.shape[1]) * w
    kept = target != ignored
    rows = np.flatnonzero(kept)
    wanted[rows, target[rows]] += (1 - smoothing) * w[target[rows]]
    wanted[~kept] = 0
    return -(wanted * log_p).sum(1), np.exp(log_p) * wanted.sum(1, keepdims=True) - wanted


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_numpy_has_the_same_numbers(dtype: str, smoothing: float, is_weighted: bool) -> None:
    x = RNG.normal(size=(9, 1300)).astype(dtype)
    target = RNG.integers(0, 1300, 9)
    target[4] = 7
    weight = RNG.uniform(size=1300) if is_weighted else None
    options: dict[str, Any] = {"weight": weight, "ignore_index": 7, "label_smoothing": smoothing}
    losses, gradient = expected(x, target, weight, 7, smoothing)
    close = {"f2": 2e-3, "f4": 1e-5, "f8": 1e-12}[dtype]
    got, lse = rapt.cross_entropy(x, target, reduction="none", return_lse=True, **options)
    assert got.dtype == (np.float64 if dtype == "f8" else np.float32) and np.allclose(got, losses, close)
    assert got[4] == 0
    assert np.isclose(rapt.cross_entropy(x, target, reduction="sum", **options), losses.sum(), close)
    divisor = 8 if weight is None else np.delete(weight[target], 4).sum()
    assert np.isclose(rapt.cross_entropy(x, target, **options), losses.sum() / divisor, close)
    assert np.allclose(rapt.cross_entropy_backward(x, target, lse, 3.0, **options), 3 * gradient / divisor, atol=close)
    grad = RNG.normal(size=9)
    dx = rapt.cross_entropy_backward(x, target, lse, grad, reduction="none", **options)
    assert dx.dtype == x.dtype and np.allclose(dx, gradient * grad[:, None], close, close)
    assert rapt.cross_entropy_backward(x, target, lse, grad, reduction="none", out=x, **options) is x
    assert np.array_equal(x, dx)


def test_layouts_and_small_calls() -> None:
    x, target = RNG.normal(size=(6, 40)).astype(np.float32), np.arange(6, dtype=np.int32)
    loss = rapt.cross_entropy(x, target, reduction="none")
    assert np.array_equal(rapt.cross_entropy(np.asfortranarray(x), target, reduction="none"), loss)
    assert np.array_equal(rapt.cross_entropy(np.repeat(x, 2, 0)[::2], target, reduction="none"), loss)
    assert rapt.cross_entropy(x[2], 2) == loss[2]
    assert np.isnan(rapt.cross_entropy(x, np.full(6, -100)))
    _, lse = rapt.cross_entropy(x, target, return_lse=True)
    assert not rapt.cross_entropy_backward(x, target, lse, 0.0).any()
    assert rapt.cross_entropy(np.ones((0, 3), np.float32), [], reduction="none").shape == (0,)


def test_bad_arguments() -> None:
    x, target = np.ones((3, 4), np.float32), np.array([0, 1, 3])
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"target": np.array([0, 1, 4])}, "none of the 4 classes"),
        ({"target": np.array([0, -1, 3])}, "none of the 4 classes"),
        ({"target": np.array([0, 1])}, "target has the shape"),
        ({"weight": np.ones(3)}, "weight has the shape"),
        ({"reduction": "max"}, "reduction is"),
        ({"label_smoothing": 1.5}, "label_smoothing is"),
        ({"input": np.ones((1, 3, 4), np.float32)}, "input has the shape"),
    )
    for options, text in cases:
        given: dict[str, Any] = {"input": x, "target": target, **options}
        with pytest.raises(ValueError, match=text):
            rapt.cross_entropy(**given)
    with pytest.raises(TypeError, match="input has elements"):
        rapt.cross_entropy(x.astype(np.int32), target)
    lse = np.zeros(3, np.float32)
    with pytest.raises(ValueError, match="lse has the shape"):
        rapt.cross_entropy_backward(x, target, lse[:2])
    with pytest.raises(ValueError, match="out overlaps input"):
        rapt.cross_entropy_backward(x[:2], target[:2], lse[:2], out=x[1:])
