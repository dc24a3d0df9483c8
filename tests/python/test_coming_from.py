"""The pages of names from other libraries: their rules, as they state them, compared with rapt's options."""

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


def softmax_attention(
    seen: Array, scale: Any = None, added: Any = 0.0, cap: Any = None, q: Array = Q, k: Array = K, v: Array = V
) -> Any:
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if cap is not None:
        scores = cap * np.tanh(scores / cap)
    weights = np.where(seen, np.exp(scores + added), 0)
    return weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300) @ v


def expect(result: Any, expected: Any) -> None:
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-14)


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
        # ONNX's is_causal with a past of 3, and with windows: p - left_window_size <= j <= p + right_window_size
        (COLUMN <= ROW + 3, {"causal_offset": 3}),
        ((COLUMN <= ROW + 3) & (ROW + 3 - 2 <= COLUMN), {"causal_offset": 3, "window_left": 2 + 1}),
        # ONNX's is_causal with nonpad_kv_seqlen: j <= i + nonpad_kv_seqlen - queries
        ((COLUMN <= ROW + 7 - QUERIES) & (COLUMN < 7), {"causal": True, "kv_lengths": [7]}),
        # transformers' attention_mask of [0, 0, 0, 1, ...], a causal model with a cache: the mask joins causality
        (BOTTOM_RIGHT & (COLUMN >= 3), {"causal": True, "kv_starts": [3]}),
        ((COLUMN >= 3) & (ROW >= 2), {"kv_starts": [3], "q_starts": [2]}),
        # of fewer keys than queries, the first rows see nothing and are 0
        ((COLUMN <= ROW + 3 - QUERIES) & (COLUMN < 3), {"causal": True, "kv_lengths": [3]}),
    ],
)
def test_visible_keys(seen: Array, options: dict[str, Any]) -> None:
    expect(rapt.attention(Q, K, V, **options), softmax_attention(seen))


def test_masks_and_scales() -> None:
    mask, bias = RNG.random(SHAPE) < 0.7, RNG.normal(size=SHAPE)
    mask[:, 0] = True
    expect(rapt.attention(Q, K, V, mask=mask), softmax_attention(mask))
    expect(rapt.attention(Q, K, V, mask=mask, causal=True), softmax_attention(mask & BOTTOM_RIGHT))
    expect(rapt.attention(Q, K, V, bias=bias, scale=0.3), softmax_attention(EVERY, 0.3, bias))
    # ggml: s = logit_softcap * tanh(s * scale / logit_softcap), then s += mask
    expect(rapt.attention(Q, K, V, bias=bias, softcap=2.0), softmax_attention(EVERY, added=bias, cap=2.0))


def test_slopes() -> None:
    """ggml: slope * mask of -distances. FlashInfer: slope * (kv_idx - qo_idx), whose row has another constant."""
    heads, max_bias = len(Q), 8.0
    slopes = [2.0 ** (-max_bias * (h + 1) / heads) for h in range(heads)]
    theirs = np.power(2.0 ** (-max_bias / heads), np.arange(heads) + 1)[:, None, None]  # m0^(h + 1)
    distances = np.abs(COLUMN - (ROW + KEYS - QUERIES))
    for added in (-distances, COLUMN - ROW):
        expected = softmax_attention(BOTTOM_RIGHT, added=theirs * added)
        expect(rapt.attention(Q, K, V, causal=True, alibi_slopes=slopes), expected)


def test_log_sum_exp_has_base_e() -> None:
    _, lse = rapt.attention(Q, K, V, return_lse=True)
    scores = Q @ K.swapaxes(-1, -2) / math.sqrt(DIM)
    base_2 = np.log2(np.exp(scores).sum(-1))  # FlashInfer's
    np.testing.assert_allclose(lse, base_2 * math.log(2), rtol=1e-12)


def test_order_of_shared_heads() -> None:
    """torch's enable_gqa: key.repeat_interleave(heads // kv_heads); ONNX's: np.repeat"""
    q = RNG.normal(size=(4, QUERIES, DIM))
    shared = rapt.attention(q, K, V)
    assert (shared == rapt.attention(q, K.repeat(2, axis=0), V.repeat(2, axis=0))).all()
    # xFormers' [tokens, groups, heads, dim]: head h of group g, where k is one head of each group
    groups = np.ascontiguousarray(q.reshape(2, 2, QUERIES, DIM).transpose(2, 0, 1, 3))
    as_one = groups.reshape(QUERIES, 4, DIM).transpose(1, 0, 2)
    assert (rapt.attention(as_one, K, V) == shared).all()


def test_views_in_the_order_of_tokens() -> None:
    """FlashInfer's and xFormers' [tokens, heads, dim] is a view."""
    q, k, v = (np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2) for x in (Q, K, V))
    assert not q.flags.c_contiguous
    assert (rapt.attention(q, k, v) == rapt.attention(Q, K, V)).all()


# ---- several sequences

Q_LENGTHS, KV_LENGTHS = (3, 1), (20, 33)
INDPTR = np.cumsum([0, *Q_LENGTHS])


def sequences(causal: Any = "bottom_right") -> Any:
    """Queries and keys end to end, [tokens, heads, dim], and each sequence alone."""
    q, k, v = (RNG.normal(size=(sum(n), 2, DIM)) for n in (Q_LENGTHS, KV_LENGTHS, KV_LENGTHS))
    ends = np.cumsum([0, *KV_LENGTHS])
    alone = [
        rapt.attention(*(x[begin:end].swapaxes(0, 1) for x, begin, end in parts), causal=causal)
        for parts in (
            [(x, e[b], e[b + 1]) for x, e in ((q, INDPTR), (k, ends), (v, ends))] for b in range(len(Q_LENGTHS))
        )
    ]
    return q, k, v, ends, np.concatenate(alone, axis=1)


@pytest.mark.parametrize("causal", [False, "top_left", "bottom_right"])
def test_ragged_sequences(causal: Any) -> None:
    """FlashInfer's qo_indptr and kv_indptr; xFormers' BlockDiagonal masks are causal in each sequence."""
    q, k, v, ends, expected = sequences(causal)
    views = (x.swapaxes(0, 1) for x in (q, k, v))
    assert (rapt.attention(*views, q_offsets=INDPTR, kv_offsets=ends, causal=causal) == expected).all()


def test_padded_keys() -> None:
    """xFormers' padded keys, [1, batch * kv_padding, heads, dim]"""
    q, k, v, ends, expected = sequences()
    padded = np.full((2, 2, 40, 2, DIM), np.nan)
    for b, n in enumerate(KV_LENGTHS):
        padded[:, b, :n] = k[ends[b] : ends[b + 1]], v[ends[b] : ends[b + 1]]
    cache = (x.reshape(2, 40, 2, DIM).swapaxes(1, 2) for x in padded.reshape(2, 1, 80, 2, DIM))
    result = rapt.attention(q.swapaxes(0, 1), *cache, q_offsets=INDPTR, kv_lengths=KV_LENGTHS, causal=True)
    assert (result == expected).all()


def test_pages() -> None:
    """FlashInfer's pages, [pages, page_size, heads, dim], with a list of pages and the length of the last one"""
    q, k, v, ends, expected = sequences()
    size, indices, indptr, last_page_len = 16, [4, 0, 3, 1, 2], [0, 2, 5], [4, 1]
    pages = np.full((2, 5, size, 2, DIM), np.nan)
    for b, n in enumerate(KV_LENGTHS):
        for t in range(n):
            pages[:, indices[indptr[b] + t // size], t % size] = k[ends[b] + t], v[ends[b] + t]
    table = np.zeros((2, 3), np.int32)
    for b in range(2):
        own = indices[indptr[b] : indptr[b + 1]]
        table[b, : len(own)] = own
    lengths = size * (np.diff(indptr) - 1) + last_page_len
    assert tuple(lengths) == KV_LENGTHS
    k_view, v_view = (x.transpose(0, 2, 1, 3) for x in pages)
    options: dict[str, Any] = {"block_table": table, "kv_lengths": lengths, "q_offsets": INDPTR, "causal": True}
    assert (rapt.attention(q.swapaxes(0, 1), k_view, v_view, **options) == expected).all()


# ---- other functions

X = RNG.normal(size=(6, 4, 16)).astype(np.float32)  # [tokens, heads, dim], as FlashInfer, xFormers and ggml


def rotated(x: Any, angles: Any, layout: Any) -> Any:
    """Of halves, x * cos + rotate_half(x) * sin; of pairs, the numbers x[2i] + j x[2i + 1] turned."""
    pairs = np.stack(np.split(x, 2, axis=-1), -1) if layout == "halves" else x.reshape(*x.shape[:-1], -1, 2)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * np.exp(1j * angles[:, None, :])
    parts = np.stack([turned.real, turned.imag], -1)
    return np.concatenate(np.moveaxis(parts, -1, 0), -1) if layout == "halves" else parts.reshape(x.shape)


@pytest.mark.parametrize("layout", ["halves", "pairs"])
@pytest.mark.parametrize("factor, c", [(1.0, 1.0), (4.0, np.linspace(1, 8, 8))])
def test_rotary_positions(layout: Any, factor: float, c: Any) -> None:
    """ggml: theta = position * freq_base^(-2i / n_dims) / c * freq_scale. FlashInfer divides by rope_scale."""
    positions, base = np.array([3, 4, 5, 90, 91, 92]), 5e5
    theta = positions[:, None] * base ** (-2.0 * np.arange(8) / 16) / c / factor
    frequencies, _ = rapt.rope_frequencies(16, base, rope_type="linear", factor=factor)
    result = rapt.rope(X.transpose(1, 0, 2), frequencies / c, positions, layout=layout)
    np.testing.assert_allclose(result.transpose(1, 0, 2), rotated(X, theta, layout), rtol=1e-5, atol=1e-6)


def test_halves_are_the_default() -> None:
    frequencies, _ = rapt.rope_frequencies(16)
    assert (rapt.rope(X, frequencies, 7) == rapt.rope(X, frequencies, 7, layout="halves")).all()


def test_llama_3_frequencies() -> None:
    """FlashInfer's apply_llama31_rope, with its defaults: a clamped line between two frequencies"""
    f = 5e5 ** (-2.0 * np.arange(64) / 128)
    smooth = np.clip((8192 * f / (2 * np.pi) - 1) / (4 - 1), 0, 1)
    options: dict[str, Any] = {"low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}
    result, _ = rapt.rope_frequencies(128, 5e5, rope_type="llama3", factor=8, **options)
    np.testing.assert_allclose(result, (1 - smooth) * f / 8 + smooth * f, rtol=1e-12)


def test_weights_of_linear_layers() -> None:
    x, w = (RNG.normal(size=shape) for shape in ((3, 16), (7, 16)))
    expect(rapt.linear(x, w), x @ w.T)  # torch, ggml_mul_mat(w, x), Gemm with transB=1
    stored = np.ascontiguousarray(w.T)  # GPT-2's Conv1D, Gemm with transB=0, MatMul
    assert (rapt.linear(x, stored.T) == rapt.linear(x, w)).all()


def test_norms() -> None:
    x, weight = RNG.normal(size=(3, 16)), RNG.normal(size=16)
    residual, added = RNG.normal(size=(3, 16)), x.copy()
    total = x + residual
    rms = np.sqrt((total**2).mean(-1, keepdims=True) + 1e-6)
    # FlashInfer's fused_add_rmsnorm(input, residual, weight): residual += input, then input = norm(residual)
    assert rapt.rms_norm(added, weight, residual=residual, out=added) is added
    expect(residual, total)
    expect(added, total / rms * weight)
    expect(rapt.rms_norm(total, weight, weight_plus_one=True), total / rms * (weight + 1))  # gemma_rmsnorm
    deviation = x - x.mean(-1, keepdims=True)
    expect(rapt.layer_norm(x), deviation / np.sqrt((deviation**2).mean(-1, keepdims=True) + 1e-5))


def test_activations() -> None:
    x = np.linspace(-4, 4, 32).reshape(2, 16)
    silu = x / (1 + np.exp(-x))
    erf = np.vectorize(math.erf)
    expect(rapt.silu(x), silu)
    expect(rapt.gelu(x), x / 2 * (1 + erf(x / math.sqrt(2))))
    # ggml_gelu
    tanh = np.tanh(0.79788456080286535587989211986876 * x * (1 + 0.044715 * x * x))
    np.testing.assert_allclose(rapt.gelu_tanh(x), 0.5 * x * (1 + tanh), rtol=1e-9)
    # FlashInfer's silu_and_mul and ggml_swiglu: the first half is the gate
    expect(rapt.gated(x[:, :8], x[:, 8:]), silu[:, :8] * x[:, 8:])
    assert np.isnan(rapt.silu(np.array([-np.inf]))).all() and np.isnan(rapt.gelu(np.array([-np.inf]))).all()


def test_elementwise_functions() -> None:
    x, y, z = RNG.normal(size=(3, 4, 8))
    assert np.array_equal(rapt.add(x, y, alpha=0.3), x + 0.3 * y)
    assert np.array_equal(rapt.addcmul(x, y, z, value=0.3), x + 0.3 * y * z)
    expect(rapt.celu(x, 0.7), np.maximum(x, 0) + np.minimum(0, 0.7 * np.expm1(x / 0.7)))
    expect(rapt.softplus(x, 2.0, 1.0), np.where(2 * x > 1, x, np.log1p(np.exp(2 * x)) / 2))
    expect(rapt.hardswish(x), x * np.clip(x + 3, 0, 6) / 6)
    result = rapt.sigmoid(x)
    expect(rapt.sigmoid_backward(result, y), y * (1 - result) * result)
    assert rapt.relu_backward(np.zeros(1), 1.0)[0] == 0 and rapt.clamp_backward(np.zeros(1), 1.0, 0)[0] == 1


def test_argmax_of_equal_elements_is_the_first() -> None:
    assert rapt.argmax(np.array([1.0, 3.0, 3.0])) == 1
