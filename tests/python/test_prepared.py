"""Prepared calls: the bits of a plain call at every run, over arrays that change."""

import doctest
import gc

import numpy as np
import pytest

import rapt
from rapt import _prepared


def f32(random, *shape):
    return random.normal(size=shape).astype(np.float32)


OPTIONS = [
    (rapt.softmax, (3, 8), {}), (rapt.softmax, (3, 8), {"scale": 2.0, "causal": True, "mask": [True] * 7 + [False]}),
    (rapt.softmax, (2, 3, 8), {"axis": 1, "bias": np.ones((3, 1))}), (rapt.log_softmax, (8,), {"sinks": 1.0}),
    (rapt.logsumexp, (3, 8), {"row_lengths": [1, 2, 8]}), (rapt.logsumexp, (3, 8), {"axis": 0}),
    (rapt.rms_norm, (3, 8), {"weight": np.arange(8, dtype=np.float32)}), (rapt.layer_norm, (3, 8), {"eps": 0.1}),
    (rapt.rope, (2, 3, 8), {"frequencies": [1.0, 0.5], "positions": [4, 5, 6]}),
    (rapt.gated, (3, 8), {"up": np.linspace(0, 1, 24, dtype=np.float32).reshape(3, 8), "activation": "gelu"}),
]  # fmt: skip


@pytest.mark.parametrize("function, shape, options", OPTIONS)
def test_runs_read_the_arrays_anew(random, function, shape, options):
    x = f32(random, *shape)
    call = rapt.prepare(function, x, **options)
    first = call()
    assert first.dtype == np.float32
    for _ in range(3):
        x[...] = random.normal(size=shape)
        assert call() is first and np.array_equal(first, function(x, **options))
        x[...] = random.normal(size=shape)
        assert call.run() is first and np.array_equal(first, function(x, **options))
    out = np.empty_like(first)
    assert rapt.prepare(function, x, out=out, **options)() is out and np.array_equal(out, first)


@pytest.mark.parametrize("function", [rapt.logsumexp, rapt.softmax])
def test_16_bits(random, function):
    x = f32(random, 3, 8).astype(np.float16)
    call = rapt.prepare(function, x, axis=-1)
    for _ in range(2):
        x[...] = random.normal(size=x.shape)
        assert np.array_equal(call(), function(x))


def test_arrays_live_as_long_as_the_call(random):
    x = f32(random, 300, 80)
    bias, lengths, sinks = f32(random, 300, 80), random.integers(0, 80, 300), random.normal(size=300)
    expected = rapt.softmax(x, bias=bias, row_lengths=lengths, sinks=sinks)
    call = rapt.prepare(rapt.softmax, x, bias=bias, row_lengths=lengths, sinks=sinks)
    del x, bias, lengths, sinks
    gc.collect()
    noise = [np.full((300, 80), 7, np.float32) for _ in range(20)]
    assert np.array_equal(call(), expected) and len(noise) == 20


def test_what_cannot_be_prepared(random):
    x = f32(random, 8, 6)
    for call in (
        lambda: rapt.prepare(rapt.softmax, x.T),
        lambda: rapt.prepare(rapt.rms_norm, x[::-1]),
        lambda: rapt.prepare(rapt.gated, x, x.reshape(6, 8).T),
        lambda: rapt.prepare(rapt.rope, x[:, ::-1], [1.0]),
        lambda: rapt.prepare(rapt.logsumexp, x.astype(np.float16).T),
    ):
        with pytest.raises(ValueError, match="has strides that need a copy"):
            call()
    for function in (rapt.dot, rapt.softmax_backward, "softmax", None, 3):
        with pytest.raises(TypeError, match="cannot be prepared"):
            rapt.prepare(function, x)
    with pytest.raises(TypeError, match="axes"):
        rapt.prepare(rapt.softmax, x, axes=1)
    with pytest.raises(ValueError, match="scale is 0"):
        rapt.prepare(rapt.softmax, x, scale=0)


def test_errors_of_a_run(random):
    with pytest.raises(ValueError, match="softcap"):
        rapt.prepare(rapt.softmax, f32(random, 2, 3), softcap=-1.0)()


def test_residual_and_long_calls(random, monkeypatch):
    x, residual = f32(random, 4, 8), f32(random, 4, 8)
    call = rapt.prepare(rapt.rms_norm, x, residual=residual)
    for _ in range(2):
        expected = rapt.rms_norm(x + residual)
        assert np.array_equal(call(), expected)
    monkeypatch.setattr(rapt._rows, "PIECE", 1)
    call = rapt.prepare(rapt.softmax, x, causal=True)
    monkeypatch.undo()
    x += 1
    assert np.array_equal(call(), rapt.softmax(x, causal=True))


def test_examples():
    assert doctest.testmod(_prepared, extraglobs={"rapt": rapt, "np": np}).failed == 0
    assert doctest.testmod(rapt._rows, extraglobs={"rapt": rapt, "np": np}).failed == 0
