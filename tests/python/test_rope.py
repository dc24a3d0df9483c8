"""Rope against formulas in double, and its frequencies against those of Hugging Face."""

import doctest
from typing import Any

import numpy as np
import pytest
from kinds import TYPES, Array, Call, OnEachLevel, Random, narrowed, widened

import rapt
from rapt import _rope


def turned(x: Array, frequencies: Array, positions: Array, pairs: bool = False, factor: float = 1.0) -> Any:
    """x is [batch][heads][tokens][dim], and positions are [batch][tokens]."""
    n = len(frequencies)
    angle = positions[:, None, :, None] * frequencies
    s, c = factor * np.sin(angle), factor * np.cos(angle)
    y = x.astype(np.float64)
    first, second = (slice(0, 2 * n, 2), slice(1, 2 * n, 2)) if pairs else (slice(0, n), slice(n, 2 * n))
    a, b = y[..., first].copy(), y[..., second].copy()
    y[..., first], y[..., second] = a * c - b * s, a * s + b * c
    return y


@pytest.mark.parametrize("layout", ["halves", "pairs"])
@pytest.mark.parametrize("type", TYPES)
def test_values(random: Random, on_each_level: OnEachLevel, type: str, layout: Any) -> None:
    x = narrowed(random.normal(size=(2, 3, 5, 22)), type)
    frequencies = rapt.rope_frequencies(20)[0]
    positions = random.integers(-500, 5000, size=(2, 5))
    result = on_each_level(lambda: rapt.rope(x, frequencies, positions, layout=layout, attention_factor=1.5))
    expected = turned(widened(x), frequencies, positions, layout == "pairs", 1.5)
    tolerance = {"f32": 1e-6, "f64": 1e-12, "f16": 2e-3, "bf16": 2e-2}[type]
    assert result.dtype == x.dtype and np.allclose(widened(result), expected, atol=tolerance, rtol=tolerance)


def test_positions_and_layouts_of_arrays(random: Random) -> None:
    x = random.normal(size=(2, 4, 3, 8)).astype(np.float32)  # batch, token, head, element
    frequencies = rapt.rope_frequencies(8, 500000)[0]
    view = x.transpose(0, 2, 1, 3)
    expected = rapt.rope(np.ascontiguousarray(view), frequencies, np.arange(7, 11))
    assert np.array_equal(rapt.rope(view, frequencies, 7), expected)
    assert np.array_equal(rapt.rope(view, frequencies, [[7, 8, 9, 10]] * 2), expected)
    assert np.array_equal(rapt.rope(view[1], frequencies, 7), expected[1])
    assert np.array_equal(rapt.rope(view[1, 2], frequencies, [7, 8, 9, 10]), expected[1, 2])
    assert rapt.rope(view, frequencies, 7, out=view) is not None and np.array_equal(view, expected)
    assert rapt.rope(x[:0], frequencies).shape == (0, 4, 3, 8)


def test_backward_turns_back(random: Random) -> None:
    x = random.normal(size=(3, 5, 8))
    frequencies = rapt.rope_frequencies(8)[0]
    back = rapt.rope(rapt.rope(x, frequencies, 100), frequencies, 100, backward=True)
    assert np.allclose(back, x, rtol=0, atol=1e-14)


def test_frequencies() -> None:
    plain, factor = rapt.rope_frequencies(128, 500000)
    assert factor == 1 and np.allclose(plain, 500000 ** (-np.arange(64) / 64), rtol=1e-15, atol=0)
    assert np.array_equal(rapt.rope_frequencies(128, 500000, rope_type="linear", factor=4)[0], plain / 4)
    scaling: dict[str, Any] = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    llama = rapt.rope_frequencies(128, 500000, **scaling)[0]
    assert np.array_equal(llama[:29], plain[:29]) and np.array_equal(llama[35:], plain[35:] / 8)
    yarn: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    qwen, factor = rapt.rope_frequencies(128, 1000000, **yarn)
    assert np.isclose(factor, 0.1 * np.log(4) + 1, rtol=1e-15) and qwen[0] == 1
    assert rapt.rope_frequencies(128, 1000000, **yarn, attention_factor=1.0)[1] == 1
    assert not np.array_equal(rapt.rope_frequencies(128, 1000000, **yarn, truncate=False)[0], qwen)


@pytest.mark.parametrize(
    "error, arguments",
    [
        (TypeError, {"x": np.zeros((2, 8), np.int8)}),
        (ValueError, {"x": np.zeros(8, np.float32)}),
        (ValueError, {"frequencies": np.ones(5)}),
        (ValueError, {"frequencies": []}),
        (ValueError, {"frequencies": [np.nan]}),
        (ValueError, {"positions": 1 << 25}),
        (ValueError, {"positions": [0, 1 << 25]}),
        (ValueError, {"positions": [0, 1, 2]}),
        (TypeError, {"positions": [0.5, 1]}),
        (ValueError, {"layout": "neox"}),
        (ValueError, {"attention_factor": 0}),
        (ValueError, {"attention_factor": np.inf}),
        (ValueError, {"out": np.zeros((2, 9), np.float32)}),
    ],
)
def test_errors(error: type[Exception], arguments: dict[str, Any]) -> None:
    rope: Call = rapt.rope
    with pytest.raises(error):
        rope(**{"x": np.zeros((2, 8), np.float32), "frequencies": np.ones(4), **arguments})


def test_errors_of_frequencies() -> None:
    call: Call = rapt.rope_frequencies
    wrong: list[dict[str, Any]] = [
        {"base": 1},
        {"rotary_dim": 7},
        {"rotary_dim": -2},
        {"rope_type": "dynamic"},
        {"factor": 2},
    ]
    for arguments in wrong:
        with pytest.raises(ValueError):
            call(**{"rotary_dim": 8, **arguments})


def test_examples() -> None:
    assert doctest.testmod(_rope, extraglobs={"rapt": rapt, "np": np}).failed == 0
