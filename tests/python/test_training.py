"""Gradients of 16 bits, steps of optimizers and random numbers, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kinds import OnEachLevel, Random

import rapt

f32 = np.float32


@pytest.mark.parametrize("cols", [1, 40, 5000])
def test_gradients_of_rows_of_16_bits(random: Random, on_each_level: OnEachLevel, cols: int) -> None:
    x, dy = random.normal(size=(2, 3, cols)).astype(np.float16)
    weight = x[0].copy()
    calls: list[Callable[..., Any]] = [
        lambda x, dy, _: rapt.softmax_backward(rapt.softmax(x.astype(np.float16)).astype(x.dtype), dy),
        lambda x, dy, _: rapt.log_softmax_backward(rapt.log_softmax(x.astype(np.float16)).astype(x.dtype), dy),
        rapt.rms_norm_backward,
        rapt.layer_norm_backward,
    ]
    for call in calls:
        given, wide = (x, dy, weight), tuple(array.astype(f32) for array in (x, dy, weight))
        results, expected = on_each_level(lambda: call(*given)), call(*wide)
        pairs = [(results, expected)] if isinstance(results, np.ndarray) else list(zip(results, expected))
        assert pairs[0][0].dtype == np.float16 and all(sums.dtype == f32 for sums, _ in pairs[1:])
        assert all(np.array_equal(result, of_f32.astype(result.dtype)) for result, of_f32 in pairs)


def test_gradient_of_log_softmax(random: Random) -> None:
    x, dy = random.normal(size=(2, 4, 33))
    y = rapt.log_softmax(x)
    y[1, 5], dy[1, 5] = -np.inf, np.nan
    dx = rapt.log_softmax_backward(y, dy, 0.5)
    dy[1, 5] = 0
    expected = 0.5 * (dy - np.exp(y) * dy.sum(-1, keepdims=True))
    np.testing.assert_allclose(dx, expected, rtol=0, atol=1e-14)
    assert dx[1, 5] == 0


@pytest.mark.parametrize("in_gradient", [False, True])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_adamw_has_the_operations_of_pytorch(random: Random, in_gradient: bool, amsgrad: bool) -> None:
    lr, beta1, beta2, decay = 3e-3, 0.9, 0.999, 1e-2
    p = random.normal(size=1000).astype(f32)
    m, v, most = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
    own, own_m, own_v, own_most = p.copy(), m.copy(), v.copy(), most.copy()
    for step in range(1, 20):
        g = random.normal(size=1000).astype(f32)
        extra: dict[str, Any] = {"max_exp_avg_sq": own_most} if amsgrad else {}
        rapt.adamw_step(own, g, own_m, own_v, step=step, lr=lr, decay_in_gradient=in_gradient, **extra)
        if in_gradient:
            g = g + f32(decay) * p
        else:
            p = p * f32(1 - lr * decay)
        m = m + f32(1 - beta1) * (g - m)
        v = v * f32(beta2) + (f32(1 - beta2) * g) * g
        most = np.maximum(most, v)
        denominator = np.sqrt(most if amsgrad else v) / f32((1 - beta2**step) ** 0.5) + f32(1e-8)
        p = p + (f32(-(lr / (1 - beta1**step))) * m) / denominator
        assert np.array_equal(own, p) and np.array_equal(own_m, m) and np.array_equal(own_v, v)


@pytest.mark.parametrize("nesterov", [False, True])
def test_sgd_has_the_operations_of_pytorch(random: Random, nesterov: bool) -> None:
    p = random.normal(size=300).astype(f32)
    own, own_b, b = p.copy(), np.full_like(p, np.nan), p
    for step in range(5):
        g = random.normal(size=300).astype(f32)
        rapt.sgd_step(
            own,
            g,
            own_b,
            lr=0.1,
            momentum=0.9,
            dampening=0.25,
            weight_decay=0.01,
            nesterov=nesterov,
            first_step=step == 0,
        )
        g = g + f32(0.01) * p
        b = g if step == 0 else b * f32(0.9) + f32(0.75) * g
        p = p + f32(-0.1) * (g + f32(0.9) * b if nesterov else b)
        assert np.array_equal(own, p) and np.array_equal(own_b, b)


def test_parameters_of_16_bits(random: Random) -> None:
    p, g = random.normal(size=(2, 3000)).astype(np.float16)
    m, v = random.normal(size=(2, 3000)).astype(f32) ** 2
    wide, wide_m, wide_v = p.astype(f32), m.copy(), v.copy()
    rapt.adamw_step(p, g, m, v, step=7)
    rapt.adamw_step(wide, g.astype(f32), wide_m, wide_v, step=7)
    assert np.array_equal(p, wide.astype(np.float16)) and np.array_equal(m, wide_m) and np.array_equal(v, wide_v)


def test_mistakes_of_steps() -> None:
    p, g, m, v = np.zeros((4, 8), f32)
    with pytest.raises(ValueError, match="step"):
        rapt.adamw_step(p, g, m, v, step=0)
    with pytest.raises(ValueError, match="beta"):
        rapt.adamw_step(p, g, m, v, step=1, betas=(1.0, 0.9))
    with pytest.raises(ValueError, match="overlap"):
        rapt.adamw_step(p, g, m, m, step=1)
    with pytest.raises(TypeError, match="exp_avg"):
        rapt.adamw_step(p, g, m.astype(float), v, step=1)
    with pytest.raises(ValueError, match="momentum"):
        rapt.sgd_step(p, g, m)
    assert not p.any()


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox 4x32-10, by the paper."""
    c, k = counter, key
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def test_random_numbers(on_each_level: OnEachLevel) -> None:
    # The known answers of Random123 1.14 (kat_vectors).
    assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    assert philox(pi, [0xA4093822, 0x299F31D0]) == [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]

    seed, stream, offset = 0x299F31D0A4093822, 0x0370734413198A2E, 4 * 0x12345678901
    words = on_each_level(lambda: rapt.random_words((5, 60), seed=seed, stream=stream, offset=offset))
    key = [seed & 0xFFFFFFFF, seed >> 32]
    blocks = (offset // 4 + i for i in range(75))
    expected = [w for b in blocks for w in philox([b & 0xFFFFFFFF, b >> 32, stream & 0xFFFFFFFF, stream >> 32], key)]
    assert words.dtype == np.uint32 and words.ravel().tolist() == expected
    uniform = rapt.random_uniform(300, seed=seed, stream=stream, offset=offset)
    assert uniform.dtype == f32 and np.array_equal(uniform, (words.ravel() >> 8) * f32(2.0**-24))
    wide = rapt.random_uniform(150, seed=seed, stream=stream, offset=offset // 2, dtype=np.float64)
    pairs = words.reshape(-1, 2).astype(np.uint64)
    assert np.array_equal(wide, ((pairs[:, 0] >> 5 << 26) + (pairs[:, 1] >> 6)) * 2.0**-53)
    keep = rapt.random_keep(300, 0.25, seed=seed, stream=stream, offset=offset)
    assert np.array_equal(keep, words.ravel() < 2**30)
    assert np.array_equal(rapt.random_uniform(50, seed=seed, stream=stream, offset=offset + 77), uniform[77:127])
    with pytest.raises(TypeError, match="dtype"):
        rapt.random_uniform(3, seed=1, dtype=np.float16)
    with pytest.raises(ValueError, match="probability"):
        rapt.random_keep(3, 1.5, seed=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_numbers(dtype: Any, on_each_level: OnEachLevel) -> None:
    count, seed, stream = 1 << 18, 7, 3
    z = on_each_level(lambda: rapt.random_normal(count, seed=seed, stream=stream, dtype=dtype))
    u = rapt.random_uniform((count // 2, 2), seed=seed, stream=stream, dtype=dtype).astype(np.float64)
    r, angle = np.sqrt(-2 * np.log(1 - u[:, 0])), (2 * u[:, 1] - 1) * np.pi
    expected = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
    unit = 6 * 2.0**-24 if dtype == np.float32 else 20 * 2.0**-53  # NumPy errs too
    assert z.dtype == dtype and np.all(np.abs(z.reshape(-1, 2) - expected) <= unit * r[:, np.newaxis])
    for offset, length in ((0, 5), (1, 1), (511, 4), (513, 1022), (count - 3, 3)):
        part = rapt.random_normal(length, seed=seed, stream=stream, offset=offset, dtype=dtype)
        assert np.array_equal(part, z[offset : offset + length])
    # The chances of such deviations are below 1e-5: moments, and how many numbers lie between eighths of the
    # distribution.
    z = z.astype(np.float64)
    for power, moment, deviation in ((1, 0, 1), (2, 1, 2**0.5), (3, 0, 15**0.5), (4, 3, 96**0.5)):
        assert abs(np.mean(z**power) - moment) < 4.5 * deviation / count**0.5
    bounds = np.array([-1.150349, -0.674490, -0.318639, 0, 0.318639, 0.674490, 1.150349])
    counts = np.bincount(np.searchsorted(bounds, z), minlength=8)
    assert np.sum((counts - count / 8) ** 2) / (count / 8) < 37  # chi squared of 7 degrees
    assert abs(np.corrcoef(z[::2], z[1::2])[0, 1]) < 4.5 / (count / 2) ** 0.5


def test_bad_normal_numbers() -> None:
    with pytest.raises(TypeError, match="dtype"):
        rapt.random_normal(3, seed=1, dtype=np.float16)
    with pytest.raises(ValueError, match="seed"):
        rapt.random_normal(3, seed=-1)
