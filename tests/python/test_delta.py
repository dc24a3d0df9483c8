"""rapt.delta_rule compared with float64, in chunks, and its refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rapt


def numbers(*shape: int, seed: int = 1, size: float = 1.0) -> Any:
    return (size * np.random.default_rng(seed).uniform(-1, 1, shape)).astype(np.float32)


def truth(q: Any, k: Any, v: Any, g: Any, beta: Any, state: Any, scale: float) -> Any:
    """The rule in float64, for as many heads of q and k as of v."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s, out = state.astype(np.float64), np.zeros(v.shape)
    for t in range(q.shape[2]):
        if g is not None:
            decay = np.exp(g[:, :, t].astype(np.float64))
            s = s * (decay[..., None] if g.ndim == 4 else decay[..., None, None])
        u = v[:, :, t]
        if beta is not None:
            u = beta[:, :, t, None] * (u - np.einsum("bhi,bhij->bhj", k[:, :, t], s))
        s = s + k[:, :, t, :, None] * u[:, :, None]
        out[:, :, t] = scale * np.einsum("bhi,bhij->bhj", q[:, :, t], s)
    return out, s


@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("has_g", [False, True])
@pytest.mark.parametrize("has_beta", [False, True])
def test_next_to_float64(has_g: bool, has_beta: bool, per_key: bool) -> None:
    q, k = numbers(2, 2, 7, 20, size=0.3), numbers(2, 2, 7, 20, seed=2, size=0.3)
    v, state = numbers(2, 4, 7, 33, seed=3), numbers(2, 4, 20, 33, seed=4)
    g = -np.abs(numbers(2, 4, 7, *([20] if per_key else []), seed=5)) if has_g else None
    beta = np.abs(numbers(2, 4, 7, seed=6)) if has_beta else None
    kept = state.copy()
    out = rapt.delta_rule(q, k, v, g, beta, state=kept)
    wanted, after = truth(np.repeat(q, 2, 1), np.repeat(k, 2, 1), v, g, beta, state, 20**-0.5)
    assert np.abs(out - wanted).max() < 1e-5
    assert np.abs(kept - after).max() < 1e-5
    interleaved = rapt.delta_rule(q, k, v, g, beta, state=state.copy(), interleaved_heads=True)
    wanted, _ = truth(np.tile(q, (1, 2, 1, 1)), np.tile(k, (1, 2, 1, 1)), v, g, beta, state, 20**-0.5)
    assert np.abs(interleaved - wanted).max() < 1e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_chunks_have_the_same_bits(dtype: Any) -> None:
    q, k, v = (numbers(1, 2, 9, 16, seed=s).astype(dtype) for s in (1, 2, 3))
    g, beta = -np.abs(numbers(1, 2, 9, seed=4)), np.abs(numbers(1, 2, 9, seed=5))
    state = np.zeros((1, 2, 16, 16), np.float32)
    whole = rapt.delta_rule(q, k, v, g, beta, state=state, l2_norm="add_eps")
    assert whole.dtype == dtype
    again = np.zeros_like(state)
    for t in range(0, 9, 2):
        part = slice(t, t + 2)
        got = rapt.delta_rule(*(x[:, :, part] for x in (q, k, v, g, beta)), state=again, l2_norm="add_eps")
        assert np.array_equal(got, whole[:, :, part])
    assert np.array_equal(state, again)
    assert np.array_equal(rapt.delta_rule(q, k, v, g, beta, l2_norm="add_eps"), whole)


def test_norms() -> None:
    q, k, v = numbers(1, 1, 3, 8), numbers(1, 1, 3, 8, seed=2), numbers(1, 1, 3, 4, seed=3)
    divided = [x / np.sqrt((x.astype(np.float64) ** 2).sum(-1, keepdims=True) + 1e-6) for x in (q, k)]
    wanted, _ = truth(divided[0], divided[1], v, None, None, np.zeros((1, 1, 8, 4)), 1.0)
    for norm in ("add_eps", "max_eps"):
        assert np.abs(rapt.delta_rule(q, k, v, l2_norm=norm, scale=1.0) - wanted).max() < 1e-5


def test_queries_that_share_a_state() -> None:
    q, k, v = numbers(1, 4, 5, 8), numbers(1, 2, 5, 8, seed=2), numbers(1, 2, 5, 6, seed=3)
    out = rapt.delta_rule(q, k, v)
    assert out.shape == (1, 4, 5, 6)
    for head in range(4):
        shared = slice(head // 2, head // 2 + 1)
        alone = rapt.delta_rule(q[:, head : head + 1], k[:, shared], v[:, shared])
        assert np.array_equal(out[:, head : head + 1], alone)


def test_what_is_refused() -> None:
    q, v = numbers(1, 2, 3, 8), numbers(1, 2, 3, 6)
    with pytest.raises(TypeError):
        rapt.delta_rule(q.astype(np.float64), q, v)
    with pytest.raises(TypeError):
        rapt.delta_rule(q, q.astype(np.float16), v)
    with pytest.raises(ValueError):
        rapt.delta_rule(q, q[:, :, :2], v)
    with pytest.raises(ValueError):
        rapt.delta_rule(q, q, v, l2_norm="l1")
    with pytest.raises(ValueError):
        rapt.delta_rule(q, q, v, eps=1.0)
    with pytest.raises(ValueError):
        rapt.delta_rule(q, q, v, beta=numbers(1, 2, 4))
    with pytest.raises(ValueError):
        rapt.delta_rule(q, q, v, state=np.zeros((1, 2, 6, 8), np.float32))
    with pytest.raises(ValueError):
        rapt.delta_rule(numbers(1, 3, 3, 8), q, v)


def test_packed_sequences_and_windows() -> None:
    """Sequences end to end have the bits of each alone, and a state of the window those of the call without its tokens."""
    q, k, v = (numbers(1, 2, 12, 16, seed=s) for s in (1, 2, 3))
    g, beta = -np.abs(numbers(1, 2, 12, seed=4)), np.abs(numbers(1, 2, 12, seed=5))
    offsets = [1, 6, 6, 11]
    before = numbers(3, 2, 16, 16, seed=6)
    state = before.copy()
    out, states = rapt.delta_rule(q, k, v, g, beta, state=state, offsets=offsets, state_window=2)
    assert np.array_equal(state, before) and states.shape == (2, 3, 2, 16, 16)
    assert not out[:, :, 0].any() and not out[:, :, 11:].any()
    after = before.copy()
    assert np.array_equal(rapt.delta_rule(q, k, v, g, beta, state=after, offsets=offsets, threads=3), out)
    for b, (first, last) in enumerate(zip(offsets, offsets[1:])):
        alone = before[b : b + 1].copy()
        part = (slice(None), slice(None), slice(first, last))
        assert np.array_equal(rapt.delta_rule(q[part], k[part], v[part], g[part], beta[part], state=alone), out[part])
        assert np.array_equal(after[b : b + 1], alone)
        if first == last:
            continue
        assert np.array_equal(states[0, b : b + 1], alone)
        shorter, part = before[b : b + 1].copy(), (slice(None), slice(None), slice(first, last - 1))
        rapt.delta_rule(q[part], k[part], v[part], g[part], beta[part], state=shorter)
        assert np.array_equal(states[1, b : b + 1], shorter)


@pytest.mark.parametrize("offsets", [[0], [0, 13], [-1, 3], [3, 2], [[0, 3]]])
def test_wrong_offsets(offsets: Any) -> None:
    q = numbers(1, 2, 12, 16)
    with pytest.raises(ValueError, match="offsets"):
        rapt.delta_rule(q, q, q, offsets=offsets)
    with pytest.raises(ValueError, match="no batch dimension"):
        rapt.delta_rule(np.repeat(q, 2, 0), np.repeat(q, 2, 0), np.repeat(q, 2, 0), offsets=[0, 3])
    with pytest.raises(ValueError, match="state_window is 0"):
        rapt.delta_rule(q, q, q, state_window=0)


def loss(arrays: dict[str, Any], dout: Any, dfinal: Any) -> float:
    """Whose gradients dout and dfinal are, in float64, of two states for each head of q and k."""
    out, after = truth(
        *(np.repeat(arrays[name], 2, 1) for name in ("q", "k")),
        *(arrays.get(name) for name in ("v", "g", "beta", "state")),
        0.5,
    )
    return float((out * dout).sum() + (after * dfinal).sum())


@pytest.mark.parametrize("per_key", [False, True])
@pytest.mark.parametrize("has_g", [False, True])
@pytest.mark.parametrize("has_beta", [False, True])
def test_gradients_next_to_differences(has_g: bool, has_beta: bool, per_key: bool) -> None:
    arrays = {"q": numbers(2, 2, 19, 20, size=0.3), "k": numbers(2, 2, 19, 20, seed=2, size=0.3)}
    arrays |= {"v": numbers(2, 4, 19, 33, seed=3), "state": numbers(2, 4, 20, 33, seed=4)}
    if has_g:
        arrays["g"] = -np.abs(numbers(2, 4, 19, *([20] if per_key else []), seed=5))
    if has_beta:
        arrays["beta"] = np.abs(numbers(2, 4, 19, seed=6))
    dout, dfinal = numbers(2, 4, 19, 33, seed=7), numbers(2, 4, 20, 33, seed=8)
    q, k, v, state = (arrays[name] for name in ("q", "k", "v", "state"))
    given = q, k, v, dout, arrays.get("g"), arrays.get("beta")
    got = rapt.delta_rule_backward(*given, state=state, dfinal=dfinal, scale=0.5)
    assert (got.dg is None, got.dbeta is None) == (not has_g, not has_beta)
    for name, array in arrays.items():
        gradient, way = getattr(got, f"d{name}"), np.sign(numbers(*array.shape, seed=9)).astype(np.float64)
        assert gradient.shape == array.shape and gradient.dtype == np.float32
        ends = [loss(arrays | {name: array + step * way}, dout, dfinal) for step in (1e-4, -1e-4)]
        assert abs((ends[0] - ends[1]) / 2e-4 - (gradient * way).sum()) < 1e-4 * np.abs(gradient).sum(), name
    threads = rapt.delta_rule_backward(*given, state=state, dfinal=dfinal, scale=0.5, threads=3)
    assert all(x is y is None or np.array_equal(x, y) for x, y in zip(threads, got))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_gradients_of_packed_sequences(dtype: Any) -> None:
    q, k, v, dout = (numbers(1, 2, 30, 16, seed=s).astype(dtype) for s in (1, 2, 3, 4))
    g, beta = -np.abs(numbers(1, 2, 30, 16, seed=5)), np.abs(numbers(1, 2, 30, seed=6))
    state, dfinal = numbers(3, 2, 16, 16, seed=7), numbers(3, 2, 16, 16, seed=8)
    offsets = [2, 19, 19, 27]
    got = rapt.delta_rule_backward(
        q, k, v, dout, g, beta, state=state, dfinal=dfinal, offsets=offsets, l2_norm="add_eps"
    )
    assert got.dq.dtype == dtype
    for x in got[:5]:
        assert not x[:, :, :2].any() and not x[:, :, 27:].any()
    assert np.array_equal(got.dstate[1], dfinal[1])  # a sequence without tokens
    for b in (0, 2):
        part = np.s_[:, :, offsets[b] : offsets[b + 1]]
        alone = rapt.delta_rule_backward(
            *(np.ascontiguousarray(x[part]) for x in (q, k, v, dout, g, beta)),
            state=state[b : b + 1], dfinal=dfinal[b : b + 1], l2_norm="add_eps",
        )  # fmt: skip
        for x, y in zip(got[:5], alone):
            assert np.array_equal(x[part], y)
        assert np.array_equal(got.dstate[b], alone.dstate[0])
    if dtype == np.float16:
        wide = rapt.delta_rule_backward(
            *(x.astype(np.float32) for x in (q, k, v, dout)), g, beta,
            state=state, dfinal=dfinal, offsets=offsets, l2_norm="add_eps",
        )  # fmt: skip
        assert all(np.array_equal(x.astype(dtype), y) for x, y in zip(wide[:3], got))
        assert all(np.array_equal(x, y) for x, y in zip(wide[3:], got[3:]))


def test_refusals_of_gradients() -> None:
    q, v = numbers(1, 2, 3, 8), numbers(1, 2, 3, 6)
    with pytest.raises(ValueError, match=r"dout has the shape \(1, 2, 3, 8\), not \(1, 2, 3, 6\)"):
        rapt.delta_rule_backward(q, q, v, q)
    with pytest.raises(TypeError, match="dout has elements of float16"):
        rapt.delta_rule_backward(q, q, v, v.astype(np.float16))
    with pytest.raises(ValueError, match="state has the shape"):
        rapt.delta_rule_backward(q, q, v, v, state=numbers(1, 2, 8, 8))
    with pytest.raises(ValueError, match="dfinal has the shape"):
        rapt.delta_rule_backward(q, q, v, v, dfinal=numbers(1, 2, 8, 8))
