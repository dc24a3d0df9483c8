"""softmax and attention by NumPy in float64, for comparisons, and linear layers to the bit."""

from fractions import Fraction
from typing import Any

import numpy as np
from kinds import Array, Call


def weights(scores: Array, sinks: Any = None) -> tuple[Array, Array]:
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


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool | str = False,
    bias: Any = None,
    mask: Any = None,
    scale: Any = None,
    sinks: Any = None,
    window_left: int = 0,
) -> tuple[Array, Array]:
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


# ---- linear layers: the bits of rapt.h, by exact arithmetic


def _fma_of_f32(x: Array, w: Array, p: Array) -> Array:
    """Rounded once: the sum in f64 is rounded to odd, after which rounding to f32 is as of the exact sum."""
    product = x.astype(np.float64) * w.astype(np.float64)  # exact
    p = p.astype(np.float64)
    total = product + p
    part = total - product
    error = (product - (total - part)) + (p - part)
    neighbor = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    even = total.view(np.int64) % 2 == 0
    return np.where((error != 0) & even, neighbor, total).astype(np.float32)


def _fma_of_f64(x: float, w: float, p: float) -> float:
    return float(Fraction(x) * Fraction(w) + Fraction(p))


def linear(x: Array, w: Array, bias: Any = None, row_scales: Any = None, add: Any = None, bf16: bool = False) -> Any:
    """x of [rows][inputs] and w of [outputs][inputs], both f32 or both f64, before the result is rounded to its type."""
    fma: Call = _fma_of_f32
    if x.dtype == np.float64:
        fma = np.vectorize(_fma_of_f64)
    group, chains = (32, 2) if bf16 else (512, 1)
    t = np.zeros((len(x), len(w)), x.dtype)
    for first in range(0, x.shape[1], group):
        p = [np.zeros_like(t) for _ in range(chains)]
        for k in range(first, min(first + group, x.shape[1])):
            p[k % chains] = fma(x[:, k, None], w[None, :, k], p[k % chains])
        t = t + (p[0] + p[1] if bf16 else p[0])
    t = t + x.dtype.type(0)
    if bias is not None:
        t = t + bias
    if row_scales is not None:
        t = t * row_scales[:, None]
    return t if add is None else t + add
