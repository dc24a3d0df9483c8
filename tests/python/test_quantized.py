"""Linear layers with quantized weights against the lines of rapt.h, to the bit."""

import doctest
import pickle
from typing import Any

import numpy as np
import pytest
from kinds import Array, OnEachLevel, Random
from reference import _fma_of_f32 as fma

import rapt
from rapt import _linear

F32 = np.float32


def integers(random: Random, type: str, outputs: int, inputs: int) -> Any:
    """Integers, and the array that stores them."""
    low, high = {"i8": (-128, 128), "i4": (-8, 8), "u4": (0, 16), "u8": (0, 256)}[type]
    q = random.integers(low, high, (outputs, inputs))
    if type == "i8":
        return q, q.astype(np.int8)
    if type == "u8":
        return q, q.astype(np.uint8)
    halves = np.concatenate([q & 15, np.full((outputs, inputs % 2), 9)], 1).astype(np.uint8)
    return q, halves[:, ::2] | halves[:, 1::2] << 4


def rounded(x: Array, group: int) -> Any:
    """The integers and scales of i8 arithmetic."""
    q, scales = np.zeros(x.shape, np.int64), []
    for first in range(0, x.shape[1], group):
        part = x[:, first : first + group]
        m = np.abs(part).max(1, keepdims=True)
        q[:, first : first + group] = np.rint(part * (F32(127) / m))
        scales.append(m / F32(127))
    return q, np.concatenate(scales, 1)


def expected(
    x: Array, numbers: Any, scales: Any, offsets: Any, group: int, in_i8: bool = False, x_group: int = 0
) -> Any:
    fold = group or 512
    t = np.zeros((len(x), len(numbers)), F32)
    if in_i8:
        q, steps = rounded(x, x_group or x.shape[1])
    for first in range(0, x.shape[1], fold):
        end = min(first + fold, x.shape[1])
        g = first // group if group else 0
        if in_i8:
            step = steps[:, first // (x_group or x.shape[1]), None]
            p = (q[:, first:end] @ numbers[:, first:end].T.astype(np.int64)).astype(F32) * step
            x_sum = q[:, first:end].sum(1, keepdims=True).astype(F32) * step
        else:
            p, x_sum = np.zeros_like(t), np.zeros((len(x), 1), F32)
            for k in range(first, end):
                p = fma(x[:, k, None], numbers[None, :, k].astype(F32), p)
                x_sum = x_sum + x[:, k, None]
        t = fma(np.broadcast_to(scales[:, g], t.shape), p, t)
        if offsets is not None:
            t = fma(np.broadcast_to(x_sum, t.shape), np.broadcast_to(offsets[:, g], t.shape), t)
    return t + F32(0)


@pytest.mark.parametrize("in_i8", [False, True])
@pytest.mark.parametrize("group", [0, 16, 32])
@pytest.mark.parametrize("type", ["i8", "i4", "u4", "u8"])
def test_bits(random: Random, on_each_level: OnEachLevel, type: str, group: int, in_i8: bool) -> None:
    x = random.normal(size=(3, 75)).astype(F32)
    q, stored = integers(random, type, 9, 75)
    shape = 9, -(-75 // group) if group else 1
    scales, offsets = random.normal(size=(2, *shape)).astype(F32)
    zeros = random.integers(0, 20 if type == "u4" else 256, shape) if type in ("u4", "u8") else None
    numbers = q
    if zeros is not None:
        numbers = q - (np.repeat(zeros, group, 1)[:, :75] if group else zeros)
    packed = rapt.pack_quantized(stored, type, scales, in_features=75, scale_group=group, zeros=zeros, offsets=offsets)
    arithmetic: Any = "i8" if in_i8 else None
    result = on_each_level(lambda: rapt.linear(x, packed, arithmetic=arithmetic))
    assert result.tobytes() == expected(x, numbers, scales, offsets, group, in_i8, group).tobytes()
    again = pickle.loads(pickle.dumps(packed))
    assert rapt.linear(x, again, arithmetic=arithmetic).tobytes() == result.tobytes()


def test_a_group_of_x_is_a_row(random: Random) -> None:
    x = random.normal(size=(3, 96)).astype(F32)
    q, stored = integers(random, "i8", 9, 96)
    packed = rapt.pack_quantized(stored, "i8", np.ones((9, 3), F32), scale_group=32)
    row = rapt.linear(x, packed, arithmetic="i8", x_group=-1)
    assert row.tobytes() == expected(x, q, np.ones((9, 3), F32), None, 32, True, 0).tobytes()
    assert row.tobytes() != rapt.linear(x, packed, arithmetic="i8").tobytes()


def test_rows_go_to_integers_and_back(random: Random) -> None:
    x = random.normal(size=(4, 65)).astype(F32)
    for group in (0, 7, 32):
        q, scales = rapt.quantize_rows(x, group=group)
        integers_of_x, steps = rounded(x, group or 65)
        assert np.array_equal(q, integers_of_x) and np.array_equal(scales, steps)
        back = rapt.dequantize_rows(q, "i8", scales, group=group)
        assert np.array_equal(back, q * np.repeat(scales, group or 65, 1)[:, :65])
        q4, scales4 = rapt.quantize_rows(x, "i4", group)
        assert q4.shape == (4, 33) and q4.dtype == np.uint8
        error = rapt.dequantize_rows(q4, "i4", scales4, in_features=65, group=group) - x
        assert np.abs(error).max() <= 0.501 * scales4.max()


def test_scales_of_dequantized_rows_have_any_type(random: Random) -> None:
    _, stored = integers(random, "u4", 5, 32)
    scales, offsets = (random.normal(size=(5, 2)).astype(np.float16) for _ in range(2))
    expected = rapt.dequantize_rows(stored, "u4", scales.astype(F32), group=16, offsets=offsets.astype(F32))
    assert np.array_equal(rapt.dequantize_rows(stored, "u4", scales, group=16, offsets=offsets), expected)
    bits = [rapt.convert(x.astype(F32), "bf16") for x in (scales, offsets)]
    wide = [rapt.convert(x, "f32") for x in bits]
    expected = rapt.dequantize_rows(stored, "u4", wide[0], group=16, offsets=wide[1])
    assert np.array_equal(rapt.dequantize_rows(stored, "u4", bits[0], group=16, offsets=bits[1]), expected)
    with pytest.raises(TypeError, match="scales and offsets have elements of different types"):
        rapt.dequantize_rows(stored, "u4", scales, group=16, offsets=wide[1])


def test_a_codebook(random: Random) -> None:
    q, stored = integers(random, "u4", 5, 32)
    book = random.normal(size=16).astype(F32)
    packed = rapt.pack_quantized(stored, "u4", codebook=book)
    y = rapt.linear(np.eye(32, dtype=F32), packed)
    assert np.array_equal(y, book[q].T)
    assert np.array_equal(rapt.dequantize_rows(stored, "u4", codebook=book), book[q])


def test_scales_of_16_bits(random: Random) -> None:
    _, stored = integers(random, "i8", 5, 32)
    scales = random.normal(size=(5, 1)).astype(np.float16)
    x = random.normal(size=(2, 32)).astype(F32)
    small = rapt.linear(x, rapt.pack_quantized(stored, "i8", scales))
    assert np.array_equal(small, rapt.linear(x, rapt.pack_quantized(stored, "i8", scales.astype(F32))))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint16])
@pytest.mark.parametrize("type", ["i8", "i4", "u4", "u8"])
def test_weights_come_back(random: Random, type: str, dtype: Any) -> None:
    for outputs, inputs, group in [(70, 75, 0), (9, 64, 32), (130, 33, 16), (1, 1, 256)]:
        _, stored = integers(random, type, outputs, inputs)
        if type in ("i4", "u4") and inputs % 2 != 0:
            stored[:, -1] &= 15  # the other half belongs to no input
        shape = outputs, -(-inputs // group) if group else 1
        bits = random.integers(0, 1 << 16, (2, *shape)).astype(np.uint16)
        scales, offsets = bits if dtype == np.uint16 else bits.astype(dtype)
        every: list[dict[str, Any]] = [
            {},
            {"scales": scales},
            {"scales": scales, "offsets": offsets},
            {"offsets": offsets},
        ]
        if type in ("u4", "u8"):
            every += [{"scales": scales, "zeros": random.integers(0, 256, shape).astype(np.uint8)}]
        if type == "u4":
            every += [{"offsets": offsets, "codebook": random.normal(size=16).astype(F32)}]
        for parts in every:
            parts |= {"q": stored, "type": type, "in_features": inputs, "scale_group": group}
            packed = rapt.pack_quantized(**parts)
            back = rapt.unpack_quantized(packed)
            assert back.keys() == parts.keys()
            assert (back["type"], back["in_features"], back["scale_group"]) == (type, inputs, group)
            for name in parts.keys() - {"type", "in_features", "scale_group"}:
                assert back[name].dtype == parts[name].dtype and back[name].tobytes() == parts[name].tobytes(), name
            assert rapt.pack_quantized(**back).data.tobytes() == packed.data.tobytes()


def test_bytes_without_zeros_have_the_zero_128() -> None:
    q = np.array([[0, 127, 128, 255]], np.uint8)
    wanted = [[-128, -1, 0, 127]]
    assert np.array_equal(rapt.dequantize_rows(q, "u8"), wanted)
    assert np.array_equal(rapt.dequantize_rows(q, "u8", zeros=[[0]]), q)
    assert np.array_equal(rapt.packed_rows(rapt.pack_quantized(q, "u8"), [0]), wanted)
    assert np.array_equal(rapt.linear(np.eye(4, dtype=F32), rapt.pack_quantized(q, "u8"))[:, 0], wanted[0])


def test_errors(random: Random) -> None:
    _, stored = integers(random, "i4", 5, 33)
    with pytest.raises(ValueError, match="33 inputs|34 inputs"):
        rapt.pack_quantized(stored[:, :-1], "i4", in_features=33)
    with pytest.raises(TypeError, match="int8"):
        rapt.pack_quantized(stored, "i8")
    with pytest.raises(ValueError, match="type"):
        rapt.pack_quantized(stored, "i5")
    with pytest.raises(ValueError, match="scale_group"):
        rapt.pack_quantized(stored, "i4", in_features=33, scale_group=48)
    with pytest.raises(ValueError, match="zeros"):
        rapt.pack_quantized(stored, "u4", in_features=33, zeros=300)
    with pytest.raises(ValueError, match="codebook"):
        rapt.pack_quantized(stored, "u4", in_features=33, codebook=[1, 2])
    packed = rapt.pack_quantized(stored, "i4", in_features=33)
    with pytest.raises(TypeError, match="float64"):
        rapt.linear(np.ones(33), packed)
    with pytest.raises(ValueError):
        rapt.linear(np.ones(33, F32), packed, arithmetic="bf16")
    with pytest.raises(ValueError):
        rapt.linear(np.ones(33, F32), packed, x_group=32)
    with pytest.raises(ValueError, match="header"):
        rapt.PackedWeights((5, 33), "i4", b"short")
    with pytest.raises(ValueError, match="bytes"):
        rapt.PackedWeights((70, 33), "i4", packed.data)
    with pytest.raises(TypeError, match="float64"):
        rapt.quantize_rows(np.ones((2, 3)))
    with pytest.raises(ValueError, match="type"):
        rapt.quantize_rows(np.ones((2, 3), F32), "u4")


def test_documentation() -> None:
    for function in (
        rapt.quantize_rows,
        rapt.dequantize_rows,
        rapt.pack_quantized,
        rapt.unpack_quantized,
        rapt.unpack_weights,
    ):
        runner = doctest.DocTestRunner()
        for example in doctest.DocTestFinder(recurse=False).find(function, globs={"np": np, "rapt": rapt}):
            assert runner.run(example).failed == 0
    assert all(f'"{type}"' in (rapt.pack_quantized.__doc__ or "") for type in _linear.QUANTIZED)
