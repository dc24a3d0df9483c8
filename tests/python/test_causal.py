"""The causal convolution with state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rapt


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_chunks_have_the_bits_of_the_whole(dtype: type) -> None:
    random = np.random.default_rng(2)
    x: Any = random.normal(size=(2, 11, 7)).astype(dtype)
    weight: Any = random.normal(size=(7, 4)).astype(dtype)
    bias = random.normal(size=7).astype(np.float64 if dtype == np.float64 else np.float32)
    whole = rapt.causal_conv1d(x, weight, bias, activation="silu")
    padded = np.concatenate([np.zeros((2, 3, 7)), x], 1)
    sums = sum(padded[:, k : k + 11] * weight[:, k].astype(np.float64) for k in range(4)) + bias
    assert np.allclose(whole, sums / (1 + np.exp(-sums)), atol=2e-2 if dtype == np.float16 else 1e-5)
    state: Any = np.zeros((2, 3, 7), dtype)
    parts = [
        rapt.causal_conv1d(x[:, first:last], weight, bias, state=state, activation="silu")
        for first, last in ((0, 1), (1, 3), (3, 10), (10, 11))
    ]
    assert np.array_equal(np.concatenate(parts, 1), whole) and np.array_equal(state, x[:, -3:])


def test_bad_arguments() -> None:
    x, weight = np.ones((1, 2, 3), np.float32), np.ones((3, 4), np.float32)
    with pytest.raises(ValueError, match="batch, tokens, channels"):
        rapt.causal_conv1d(x[0], weight)
    with pytest.raises(ValueError, match="weight has the shape"):
        rapt.causal_conv1d(x, weight.T)
    with pytest.raises(ValueError, match="state has the shape"):
        rapt.causal_conv1d(x, weight, state=np.zeros((1, 4, 3), np.float32))
    with pytest.raises(ValueError, match="17 taps"):
        rapt.causal_conv1d(x, np.ones((3, 17), np.float32))
    with pytest.raises(ValueError, match="state overlaps x"):
        rapt.causal_conv1d(x, weight[:, :3], state=x)
    with pytest.raises(ValueError, match="activation"):
        rapt.causal_conv1d(x, weight, activation="relu")
    with pytest.raises(TypeError, match="weight has elements"):
        rapt.causal_conv1d(x, weight.astype(np.float64))
