"""softmax and attention by NumPy in float64, for comparisons."""

import numpy as np


def weights(scores, sinks=None):
    """softmax and log-sum-exp of scores of which -inf is excluded; a row of nothing else has no weights."""
    largest = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    if sinks is not None:
        sinks = np.broadcast_to(np.asarray(sinks, np.float64), scores.shape[:-1])[..., None]
        largest = np.maximum(largest, sinks)
    finite = np.where(largest == -np.inf, 0, largest)
    powers = np.exp(scores - finite)
    total = powers.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + np.exp(sinks - finite)
    with np.errstate(divide="ignore"):
        return powers / np.where(total == 0, 1, total), (finite + np.log(total))[..., 0]


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
    shares, lse = weights(scores, None if sinks is None else np.reshape(sinks, (-1, 1)))
    return shares @ v, lse
