"""The page of names from other libraries: their rules of visibility, as they state them, next to rapt's options."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from kinds import Array

import rapt

QUERIES, KEYS, DIM = 5, 9, 8
SHAPE = (QUERIES, KEYS)
RNG = np.random.default_rng(3)
Q, K, V = (RNG.normal(size=(2, tokens, DIM)) for tokens in (QUERIES, KEYS, KEYS))

ROW, COLUMN = np.indices(SHAPE)
EVERY = np.ones(SHAPE, bool)
BOTTOM_RIGHT = np.tril(EVERY, KEYS - QUERIES)


def softmax_attention(seen: Array, scale: float | None = None, added: Array | float = 0.0) -> Any:
    scores = Q @ K.swapaxes(-1, -2) * (1 / math.sqrt(DIM) if scale is None else scale) + added
    weights = np.where(seen, np.exp(scores), 0)
    return weights / weights.sum(-1, keepdims=True) @ V


@pytest.mark.parametrize(
    "seen, options",
    [
        # torch's is_causal: ones(L, S).tril(diagonal=0); causal_lower_right
        (np.tril(EVERY), {"causal": "top_left"}),
        (BOTTOM_RIGHT, {"causal": True}),
        # FlashInfer: kv_idx + qo_len + window_left >= kv_len + qo_idx
        (COLUMN + QUERIES + 2 >= KEYS + ROW, {"window_left": 2 + 1}),
        (BOTTOM_RIGHT & (COLUMN + QUERIES + 2 >= KEYS + ROW), {"causal": True, "window_left": 2 + 1}),
        # xFormers' LocalAttentionFromBottomRightMask(2, 1)
        (
            np.tril(np.triu(EVERY, KEYS - QUERIES - 2), KEYS - QUERIES + 1),
            {"window_left": 2 + 1, "window_right": 1 + 1},
        ),
        # xFormers' LowerTriangularFromBottomRightLocalAttentionMask(3): not a distance of X + window_size or more
        (BOTTOM_RIGHT & (COLUMN > ROW + KEYS - QUERIES - 3), {"causal": True, "window_left": 3}),
        # ONNX's is_causal with a past of 3
        (COLUMN <= ROW + 3, {"causal_offset": 3}),
    ],
)
def test_visible_keys(seen: Array, options: dict[str, Any]) -> None:
    np.testing.assert_allclose(rapt.attention(Q, K, V, **options), softmax_attention(seen), rtol=1e-12)


def test_masks_and_scales() -> None:
    mask, bias = RNG.random(SHAPE) < 0.7, RNG.normal(size=SHAPE)
    mask[:, 0] = True
    np.testing.assert_allclose(rapt.attention(Q, K, V, mask=mask), softmax_attention(mask), rtol=1e-12)
    expected = softmax_attention(EVERY, 0.3, bias)  # the bias is added after the scale
    np.testing.assert_allclose(rapt.attention(Q, K, V, bias=bias, scale=0.3), expected, rtol=1e-12)


def test_log_sum_exp_has_base_e() -> None:
    _, lse = rapt.attention(Q, K, V, return_lse=True)
    scores = Q @ K.swapaxes(-1, -2) / math.sqrt(DIM)
    base_2 = np.log2(np.exp(scores).sum(-1))  # FlashInfer's
    np.testing.assert_allclose(lse, base_2 * math.log(2), rtol=1e-12)


def test_order_of_shared_heads() -> None:
    """torch's enable_gqa: key.repeat_interleave(heads // kv_heads)"""
    q = RNG.normal(size=(4, QUERIES, DIM))
    shared = rapt.attention(q, K, V)
    assert (shared == rapt.attention(q, K.repeat(2, axis=0), V.repeat(2, axis=0))).all()


def test_views_in_the_order_of_tokens() -> None:
    """FlashInfer's and xFormers' [tokens, heads, dim] is a view."""
    q, k, v = (np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2) for x in (Q, K, V))
    assert not q.flags.c_contiguous
    assert (rapt.attention(q, k, v) == rapt.attention(Q, K, V)).all()
