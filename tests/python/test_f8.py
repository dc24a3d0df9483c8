"""Weights of 8 bits, scales that outputs share, and scales of outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import rapt

Array = np.ndarray[Any, Any]
Random = np.random.Generator


def numbers_of(type: str) -> Array:
    """The number of each byte."""
    exponent_bits, bias = (4, 7) if type == "f8_e4m3" else (5, 15)
    bits = 7 - exponent_bits
    made = []
    for code in range(256):
        exponent, mantissa = (code & 127) >> bits, (code & ((1 << bits) - 1)) / (1 << bits)
        number = np.ldexp(mantissa, 1 - bias) if exponent == 0 else np.ldexp(1 + mantissa, exponent - bias)
        if type == "f8_e5m2" and exponent == 31:
            number = np.inf if mantissa == 0 else np.nan
        if type == "f8_e4m3" and code & 127 == 127:
            number = np.nan
        made.append(-number if code & 128 else number)
    return np.array(made, np.float32)


@pytest.mark.parametrize("type", ["f8_e4m3", "f8_e5m2"])
def test_every_number(type: str) -> None:
    """Row k of the identity picks input k."""
    codes, numbers = np.arange(256, dtype=np.uint8)[:, None], numbers_of(type)
    found = rapt.linear(np.ones((1, 1), np.float32), rapt.pack_quantized(codes, type))[0]
    np.testing.assert_array_equal(found, numbers + 0)


@pytest.mark.parametrize("outputs_per_scale, rows", [(1, 300), (64, 5), (128, 3), (256, 2), (-1, 1)])
def test_shared_scales(random: Random, outputs_per_scale: int, rows: int) -> None:
    codes = random.integers(0, 0x7C, (300, 260), np.uint8)
    scales = random.normal(size=(rows, 3)).astype(np.float32)
    packed = rapt.pack_quantized(codes, "f8_e4m3", scales, scale_group=128, outputs_per_scale=outputs_per_scale)
    each = 300 if outputs_per_scale == -1 else outputs_per_scale
    expanded = np.repeat(scales, each, axis=0)[:300]
    x = random.normal(size=(3, 260)).astype(np.float32)
    same = rapt.pack_quantized(codes, "f8_e4m3", expanded, scale_group=128)
    np.testing.assert_array_equal(rapt.linear(x, packed), rapt.linear(x, same))
    parts = rapt.unpack_quantized(packed)
    np.testing.assert_array_equal(parts["q"], codes)
    np.testing.assert_array_equal(parts["scales"], scales)
    assert parts.get("outputs_per_scale", 1) == outputs_per_scale
    again = rapt.pack_quantized(**parts)
    assert again.data.tobytes() == packed.data.tobytes()
    restored = rapt.PackedWeights(packed.shape, packed.type, packed.data.tobytes(), 128)
    np.testing.assert_array_equal(rapt.linear(x, restored), rapt.linear(x, packed))


def test_output_scales_come_before_the_bias(random: Random) -> None:
    x, w = random.normal(size=(2, 5)).astype(np.float32), random.normal(size=(7, 5)).astype(np.float32)
    scales, bias = random.normal(size=7).astype(np.float32), random.normal(size=7).astype(np.float32)
    found = rapt.linear(x, w, bias, output_scales=scales)
    np.testing.assert_array_equal(found, rapt.linear(x, w) * scales + bias)
    np.testing.assert_array_equal(rapt.linear(x, w, output_scales=3), rapt.linear(x, w) * np.float32(3))


def test_what_is_refused() -> None:
    codes = np.zeros((2, 32), np.uint8)
    with pytest.raises(ValueError, match="outputs_per_scale is 96"):
        rapt.pack_quantized(codes, "f8_e4m3", np.ones((1, 1)), outputs_per_scale=96)
    with pytest.raises(ValueError, match="without scales"):
        rapt.pack_quantized(codes, "f8_e4m3", outputs_per_scale=128)
    with pytest.raises(ValueError, match="no arithmetic 'i8'"):
        rapt.linear(np.ones(32, np.float32), rapt.pack_quantized(codes, "f8_e4m3"), arithmetic="i8")
    with pytest.raises(ValueError, match="output_scales has the shape"):
        rapt.linear(np.ones(32, np.float32), np.ones((2, 32), np.float32), output_scales=[1, 2, 3])
    with pytest.raises(ValueError, match="type is"):
        rapt.dequantize_rows(codes, "f8_e4m3")
