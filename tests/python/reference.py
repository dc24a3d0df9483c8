"""Attention by NumPy in float64, for comparisons."""

import numpy as np


def attention(q, k, v, *, causal=False, bias=None, mask=None, scale=None, sinks=None, window_left=0):
    """q, k, v of [batch][heads][tokens][dim]; the output and the log-sum-exp."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    shared = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, shared, axis=1), np.repeat(v, shared, axis=1)
    scores = q @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5)
    if bias is not None:
        scores = scores + bias
    rows, cols = np.ogrid[: scores.shape[-2], : scores.shape[-1]]
    position = rows + (0 if causal == "top_left" else cols.size - rows.size)
    if causal:
        scores = np.where(cols <= position, scores, -np.inf)
    if window_left:
        scores = np.where(cols > position - window_left, scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(np.asarray(sinks, np.float64).reshape(1, -1, 1, 1) - largest)
    return weights / total @ v, (largest + np.log(total))[..., 0]
