"""600 random shapes that broadcast, and layouts, of attention and linear layers, against NumPy in f64."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kinds import Call, Random
from reference import attention as exact
from test_random_shapes import broadcasting, layout

import rapt
from rapt import _attention, _linear

TOLERANCE: dict[Any, float] = {np.float32: 1e-5, np.float64: 1e-13}


def output(random: Random, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Any:
    """Of an array that is wider: what is around it must stay."""
    wide = np.full((*shape[:-1], shape[-1] + 2), 7, dtype)
    return wide, wide[..., 1:-1]


def check(result: Any, expected: Any, dtype: npt.DTypeLike, seed: int) -> None:
    assert result.dtype == dtype and result.shape == expected.shape, seed
    np.testing.assert_allclose(
        result, expected, rtol=TOLERANCE[dtype], atol=5 * TOLERANCE[dtype], err_msg=f"seed {seed}"
    )


def check_attention(seed: int, random: Random, dtype: npt.DTypeLike, threads: int) -> None:
    batch, kv_heads, shared, q_len, kv_len, dim = random.integers(1, 6, 6)
    causals: list[Any] = [False, True, "top_left"]
    heads = kv_heads * shared
    q, k, v = (
        random.normal(size=(batch, h, n, dim)).astype(dtype)
        for h, n in ((heads, q_len), (kv_heads, kv_len), (kv_heads, kv_len))
    )
    scores = (batch, heads, q_len, kv_len)
    options: dict[str, Any] = {
        "mask": random.random(broadcasting(random, scores)) < 0.7,
        "bias": random.normal(size=broadcasting(random, scores)).astype(dtype),
        "query_scales": random.normal(size=broadcasting(random, scores[:-1])).astype(dtype),
    }
    options = {name: np.asarray(x) for name, x in options.items() if random.random() < 0.7}
    expected, lse = exact(
        q * np.asarray(options.get("query_scales", 1), np.float64)[..., None],
        k,
        v,
        mask=options.get("mask"),
        bias=options.get("bias"),
        causal=(causal := causals[random.integers(3)]),
    )
    given: dict[str, Any] = {name: layout(random, x) if x.ndim else x for name, x in options.items()}
    tensors: Any = [layout(random, x) for x in (q, k, v)]
    if batch == 1 and random.random() < 0.5:
        expected, lse, *tensors = (x[0] for x in (expected, lse, *tensors))
    wide, out = output(random, expected.shape, dtype)
    result = rapt.attention(*tensors, out=out, return_lse=True, causal=causal, threads=threads, **given)
    check(out, expected, dtype, seed)
    check(result[1], lse, dtype, seed)
    assert result[0] is out and (wide[..., [0, -1]] == 7).all(), seed


def check_linear(seed: int, random: Random, dtype: npt.DTypeLike, threads: int) -> None:
    *outer, inputs, outputs = (int(n) for n in random.integers(1, 6, random.integers(2, 6)))
    outputs = outputs if random.random() < 0.8 else 70  # more than a block
    x, w = random.normal(size=(*outer, inputs)).astype(dtype), random.normal(size=(outputs, inputs)).astype(dtype)
    shape = (*outer, outputs)
    options: dict[str, Any] = {
        "bias": random.normal(size=outputs).astype(dtype),  # torch's: it does not broadcast
        "row_scales": random.normal(size=broadcasting(random, tuple(outer))).astype(dtype),
        "add": random.normal(size=broadcasting(random, shape)).astype(dtype),
    }
    options = {name: np.asarray(x) for name, x in options.items() if random.random() < 0.7}
    expected = x.astype(np.float64) @ w.T.astype(np.float64) + options.get("bias", 0)
    expected = expected * np.asarray(options.get("row_scales", 1.0))[..., None] + options.get("add", 0)
    given: dict[str, Any] = {name: layout(random, y) if y.ndim else y for name, y in options.items()}
    weights = layout(random, w) if random.random() < 0.7 else rapt.pack_weights(layout(random, w))
    wide, out = output(random, shape, dtype)
    assert rapt.linear(layout(random, x), weights, out=out, threads=threads, **given) is out
    check(out, expected, dtype, seed)
    assert (wide[..., [0, -1]] == 7).all(), seed


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("check_one, module", [(check_attention, _attention), (check_linear, _linear)])
def test_random_shapes(
    monkeypatch: pytest.MonkeyPatch, check_one: Call, module: Any, dtype: npt.DTypeLike, small: bool
) -> None:
    """75 seeds each, at once and as tasks."""
    if not small:
        monkeypatch.setattr(module, "SMALL", 0)
    for seed in range(75):
        check_one(seed, np.random.default_rng([seed, small, dtype == np.float32]), dtype, 1 if small else 2)
