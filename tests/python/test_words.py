"""pack_gptq and pack_awq: files written here by their formats' definitions become the bytes of pack_quantized."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest
import rapt

SHAPES = [(8, 8, 8), (72, 40, 16), (24, 96, 32), (16, 256, 128), (8, 264, 256), (64, 48, 48)]
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # the output of each nibble, the lowest first


def words_of(codes: Any, axis: int, order: Any = range(8)) -> Any:
    """Eight codes along the axis are one int32, in which the code order[i] has bits 4 i to 4 i + 3."""
    codes = np.moveaxis(np.asarray(codes, np.uint32), axis, -1)
    codes = codes.reshape(*codes.shape[:-1], -1, 8)
    words = sum(codes[..., which] << np.uint32(4 * i) for i, which in enumerate(order))
    return np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32)


def words_of_bits(codes: Any, axis: int, bits: int) -> Any:
    """Codes along the axis follow each other in the bits of words."""
    codes = np.moveaxis(np.asarray(codes, np.uint8), axis, -1)
    of_codes = np.unpackbits(codes[..., None], -1, bits, "little")
    words = np.packbits(of_codes.reshape(*codes.shape[:-1], -1), -1, "little")
    return np.ascontiguousarray(np.moveaxis(words.view("<i4"), -1, axis))


def bytes_of(q: Any) -> Any:
    return (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8)


def layer(outputs: int, inputs: int, group: int, type: Any) -> tuple[Any, Any, Any]:
    """Codes [outputs][inputs], and zeros and scales [outputs][groups]."""
    random = np.random.default_rng(outputs * inputs + group)
    groups = -(-inputs // group)
    q, zeros = random.integers(0, 16, (outputs, inputs)), random.integers(0, 16, (outputs, groups))
    return q, zeros, random.normal(size=(outputs, groups)).astype(type)


def expected(q: Any, zeros: Any, scales: Any, inputs: int, group: int) -> Any:
    return rapt.pack_quantized(bytes_of(q), "u4", scales, scale_group=0 if group >= inputs else group, zeros=zeros)


def check(found: Any, wanted: Any) -> None:
    assert (found.shape, found.type, found.scale_group) == (wanted.shape, wanted.type, wanted.scale_group)
    assert found.data.tobytes() == wanted.data.tobytes()


@pytest.mark.parametrize("outputs, inputs, group", SHAPES)
@pytest.mark.parametrize("type", [np.float32, np.float16])
def test_gptq(outputs: int, inputs: int, group: int, type: Any) -> None:
    q, zeros, scales = layer(outputs, inputs, group, type)
    qweight = words_of(q.T, 0)
    assert qweight.shape == (inputs // 8, outputs)
    for v2 in (False, True):
        qzeros = words_of(zeros.T, 1)  # without v2, a zero is one more than its code
        wanted = expected(q, zeros + (not v2), scales, inputs, group)
        check(rapt.pack_gptq(qweight, qzeros, scales.T, v2=v2), wanted)
        in_order = np.arange(inputs) // group
        weights, order = rapt.pack_gptq(qweight, qzeros, scales.T, in_order, v2)
        check(weights, wanted)
        assert (order == np.arange(inputs)).all()
        g_idx = np.random.default_rng(3).permutation(in_order)
        weights, order = rapt.pack_gptq(qweight, qzeros, scales.T.copy(), g_idx.astype(np.int32), v2)
        assert (order == np.argsort(g_idx, kind="stable")).all()
        check(weights, expected(q[:, order], zeros + (not v2), scales, inputs, group))


@pytest.mark.parametrize("bits, type", [(2, "u4"), (3, "u4"), (4, "u4"), (8, "u8")])
@pytest.mark.parametrize("outputs, inputs, group", [(32, 32, 32), (64, 96, 32), (96, 288, 128)])
def test_bits_of_gptq(outputs: int, inputs: int, group: int, bits: int, type: str) -> None:
    random = np.random.default_rng(bits)
    shape = outputs, -(-inputs // group)
    q, zeros = random.integers(0, 1 << bits, (outputs, inputs)), random.integers(0, (1 << bits) - 1, shape)
    scales = random.normal(size=shape).astype(np.float16)
    qweight, qzeros = words_of_bits(q.T, 0, bits), words_of_bits(zeros.T, 1, bits)
    assert qweight.shape == (inputs * bits // 32, outputs)
    if bits == 4:
        assert (qweight == words_of(q.T, 0)).all()
    for v2 in (False, True):
        options: dict[str, Any] = {"scale_group": 0 if group >= inputs else group, "zeros": zeros + (not v2)}
        wanted = rapt.pack_quantized(q.astype(np.uint8) if bits == 8 else bytes_of(q), type, scales, **options)
        check(rapt.pack_gptq(qweight, qzeros, scales.T, v2=v2, bits=bits), wanted)
        g_idx = random.permutation(np.arange(inputs) // group)
        weights, order = rapt.pack_gptq(qweight, qzeros, scales.T, g_idx, v2, bits)
        assert (order == np.argsort(g_idx, kind="stable")).all()
        back = rapt.unpack_quantized(weights)["q"]
        sorted_q = q[:, order]
        assert (back == (sorted_q if bits == 8 else bytes_of(sorted_q))).all()


def test_a_zero_of_256() -> None:
    qweight, qzeros, scales = np.zeros((4, 8), np.int32), np.array([[0, 0x00FF0000]], np.int32), np.ones((1, 8))
    with pytest.raises(ValueError, match="qzeros has 255, for a zero of 256"):
        rapt.pack_gptq(qweight, qzeros, scales, bits=8)
    packed = rapt.pack_gptq(qweight, qzeros, scales, v2=True, bits=8)
    assert rapt.unpack_quantized(packed)["zeros"].tolist() == [[0]] * 6 + [[255]] + [[0]]


@pytest.mark.parametrize("outputs, inputs, group", SHAPES)
def test_awq(outputs: int, inputs: int, group: int) -> None:
    q, zeros, scales = layer(outputs, inputs, group, np.float16)
    qweight, qzeros = words_of(q.T, 1, AWQ_ORDER), words_of(zeros.T, 1, AWQ_ORDER)
    assert qweight.shape == (inputs, outputs // 8)
    check(rapt.pack_awq(qweight, qzeros, scales.T), expected(q, zeros, scales, inputs, group))
    check(rapt.pack_awq(qweight.T.copy().T, qzeros, scales.T), expected(q, zeros, scales, inputs, group))


def test_the_layer_of_a_file_with_desc_act() -> None:
    q, zeros, scales = layer(16, 64, 16, np.float32)
    g_idx = np.random.default_rng(4).permutation(np.arange(64) // 16)
    weights, order = rapt.pack_gptq(words_of(q.T, 0), words_of(zeros.T, 1), scales.T, g_idx, True)
    x = np.arange(64, dtype=np.float32)
    w = (q - zeros[:, g_idx]) * scales[:, g_idx].astype(float)
    np.testing.assert_allclose(rapt.linear(x[order], weights), w @ x, rtol=1e-4, atol=1e-2)


WORDS, ZEROS, SCALES = np.zeros((8, 16), np.int32), np.zeros((4, 2), np.int32), np.ones((4, 16), np.float32)
G_IDX = np.arange(64) // 16


@pytest.mark.parametrize("change, error, text", [
    ({"qweight": WORDS.astype(np.int64)}, TypeError, "qweight has elements of int64, not int32"),
    ({"qzeros": ZEROS.astype(float)}, TypeError, "qzeros has elements of float64, not int32"),
    ({"qweight": WORDS[0]}, ValueError, "qweight has 1 dimensions, not 2"),
    ({"qweight": WORDS[:0]}, ValueError,
     r"qweight has the shape \(0, 16\): 16 outputs and 0 inputs, not multiples of 8 above 0"),
    ({"qweight": WORDS[:, 1:]}, ValueError, "15 outputs and 64 inputs, not multiples of 8 above 0"),
    ({"qzeros": ZEROS[:, 1:]}, ValueError, r"qzeros has the shape \(4, 1\), not \(4, 2\)"),
    ({"qzeros": ZEROS[1:]}, ValueError, r"qzeros has the shape \(3, 2\), not \(4, 2\)"),
    ({"scales": SCALES[:, 1:]}, ValueError, r"scales has the shape \(4, 15\), not \(groups, 16\)"),
    ({"scales": SCALES[0]}, ValueError, "scales has 1 dimensions, not 2"),
    ({"scales": SCALES[1:], "qzeros": ZEROS[1:]}, ValueError,
     "scales has 3 groups of 64 inputs, none of which has 16, 32, 64, 128 or 256"),
    ({"scales": SCALES[:0], "qzeros": ZEROS[:0]}, ValueError, "scales has 0 groups of 64 inputs"),
    ({"g_idx": G_IDX[1:]}, ValueError, r"g_idx has the shape \(63,\), not \(64,\)"),
    ({"g_idx": G_IDX + 1}, ValueError, "g_idx has numbers from 1 to 4, not from 0 to 3"),
    ({"g_idx": G_IDX - 1}, ValueError, "g_idx has numbers from -1 to 2, not from 0 to 3"),
    ({"g_idx": G_IDX + 0.0}, TypeError, "g_idx has elements of float64, not integers"),
    ({"g_idx": np.minimum(G_IDX, 2)}, ValueError, "g_idx has 32 inputs of group 2, not 16"),
    ({"v2": "gptq_v2"}, TypeError, "v2 is 'gptq_v2', not True or False"),
    ({"bits": 5}, ValueError, "bits is 5, not one of 2, 3, 4, 8"),
    ({"bits": 3}, ValueError, "16 outputs and 85 inputs, not multiples of 32 above 0"),
    ({"bits": 2}, ValueError, r"qzeros has the shape \(4, 2\), not \(4, 1\)"),
    ({"bits": 8}, ValueError, r"qzeros has the shape \(4, 2\), not \(4, 4\)"),
])  # fmt: skip
def test_misuse(change: Any, error: Any, text: str) -> None:
    arguments: dict[str, Any] = {"qweight": WORDS, "qzeros": ZEROS, "scales": SCALES}
    rapt.pack_gptq(**arguments)
    with pytest.raises(error, match=text):
        rapt.pack_gptq(**{**arguments, **change})


def test_misuse_of_awq() -> None:
    with pytest.raises(ValueError, match="24 outputs and 9 inputs, not multiples of 8 above 0"):
        rapt.pack_awq(np.zeros((9, 3), np.int32), np.zeros((1, 3), np.int32), np.ones((1, 24)))


def test_documentation() -> None:
    for function in (rapt.pack_gptq, rapt.pack_awq):
        runner = doctest.DocTestRunner()
        for example in doctest.DocTestFinder(recurse=False).find(function, globs={"np": np, "rapt": rapt}):
            outcome = runner.run(example)
            assert outcome.attempted > 0 and outcome.failed == 0
