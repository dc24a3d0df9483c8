"""Typical code, which type checkers read and which test_types.py runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import rapt

Floats = npt.NDArray[np.float32]


def decoder_layer(x: Floats, weights: dict[str, Floats], heads: int) -> npt.NDArray[Any]:
    """The attention of a decoder, from normalisation to projection."""
    tokens, width = x.shape
    dim = width // heads
    normal = rapt.rms_norm(x, weights["norm"], eps=1e-6)
    q, k, v = (rapt.linear(normal, weights[name]).reshape(tokens, heads, dim).swapaxes(0, 1) for name in "qkv")
    frequencies, factor = rapt.rope_frequencies(dim, 10000.0, rope_type="default")
    q, k = (rapt.rope(y, frequencies, 0, layout="halves", attention_factor=factor) for y in (q, k))
    y = rapt.attention(q, k, v, causal=True, threads=None)
    return rapt.linear(y.swapaxes(0, 1).reshape(tokens, width), weights["o"], add=x)


def feed_forward(x: Floats, gate: Floats, up: Floats, down: Floats) -> npt.NDArray[Any]:
    return rapt.linear(rapt.gated(rapt.linear(x, gate), rapt.linear(x, up), "silu"), down)


def probabilities(logits: npt.NDArray[np.float16] | list[list[float]], allowed: npt.NDArray[np.bool_]) -> list[int]:
    p = rapt.softmax(logits, scale=0.7, mask=allowed, axis=-1, empty_rows_are_zero=True)
    out: npt.NDArray[Any] = np.empty_like(p)
    rapt.log_softmax(logits, causal="top_left", out=out)
    chosen: list[int] = rapt.argmax(p).tolist()
    return chosen


def many_times(x: Floats) -> float:
    call = rapt.prepare(rapt.softmax, x, scale=2.0)
    total = 0.0
    for _ in range(3):
        x += 1
        total += float(call().sum())
    return total


def lengths(x: Floats) -> tuple[float, float]:
    y, total = rapt.exp_sum(x, shift=float(x.max()))
    return total, float(rapt.logsumexp(x, axis=0, row_lengths=[1] * x.shape[1]).max() + rapt.dot(y[0], y[0]))


def narrow(x: Floats) -> npt.NDArray[Any]:
    return rapt.convert(rapt.silu(rapt.convert(x, np.float16)), "f32")


def gradients(x: Floats, dy: Floats) -> tuple[npt.NDArray[Any], ...]:
    y, lse = rapt.attention(x, x, x, bias=[0.0] * len(x), sinks=[1.0], return_lse=True)
    assert rapt.attention_backward(x, x, x, y, y, lse, bias=[0.0] * len(x), sinks=[1.0]).dsinks.shape == (1,)
    dx, dweight, dbias = rapt.layer_norm_backward(x, dy)
    return dx, dweight, dbias, rapt.softmax_backward(rapt.softmax(x), dy), *rapt.gated_backward(x, x, dy)


def elementwise(x: Floats, y: Floats) -> tuple[npt.NDArray[Any], ...]:
    out: npt.NDArray[Any] = np.empty_like(x)
    rapt.add(x, y[0], alpha=0.5, out=out)
    z = rapt.fma(rapt.tanh(x), 2.0, rapt.clamp(rapt.pow(2, y), max=9))
    return out, z, rapt.tanh_backward(rapt.tanh(x), z), rapt.lerp(x, y, 0.25), rapt.elu(rapt.sqrt(abs(x)), 0.5)


def hashes(x: Floats) -> set[int]:
    return {rapt.hash(x), rapt.hash([1.0, 2.0])}


def level() -> str:
    return f"{rapt.version()} on {rapt.isa()}, {[name for name, usable in rapt.isas().items() if usable]}"
