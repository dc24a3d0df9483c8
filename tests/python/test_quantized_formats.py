"""The page on linear layers has a table of quantized formats: how their integers become rapt's rows.

Each format is blocks of random bytes. What they stand for is computed by the format's definition (ggml's structs and
dequantize_row functions, the packing of GPTQ, AWQ, bitsandbytes and torchao), number by number. rapt's numbers, through
the options and the order of the table, are the same bits. test_blocks.py has the formats that are a w_type.
"""

from __future__ import annotations

import contextlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rapt
from rapt import _library

OUTPUTS, INPUTS = 6, 512
OUTPUTS_OF_WORDS = 16  # eight outputs share a word of 32 bits
EYE = np.eye(INPUTS, dtype=np.float32)
RNG = np.random.default_rng(8)
FP4 = [0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]  # e2m1 of the OCP
IQ4_NL = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113]
NF4 = [
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
]


def random_of(dtype: Any, *shape: int) -> Any:
    """Random bytes. A number of f16 is made finite, so that no block is NaN whole."""
    made = np.frombuffer(RNG.bytes(np.dtype(dtype).itemsize * math.prod(shape)), dtype).reshape(shape).copy()
    for name in made.dtype.names or ():
        if made.dtype[name] == np.float16:
            bits = made[name].view(np.uint16)
            made[name] = np.where(bits >> 10 & 31 == 31, bits & 0x83FF, bits).view(np.float16)
    return made


def blocks_of(inputs: int, *fields: Any) -> Any:
    """Rows of a file: blocks of that many inputs, without padding."""
    return random_of(np.dtype(list(fields)), OUTPUTS, INPUTS // inputs)


def f32(x: Any) -> Any:
    return np.float32(x)


def decoded(blocks: Any, numbers_of: Any) -> Any:
    return np.array([[number for block in row for number in numbers_of(block)] for row in blocks], np.float32)


def halves(qs: Any) -> list[int]:
    """GGUF's order: 16 bytes have 16 numbers in their low halves, then 16 in their high ones."""
    return [int(q) & 15 for q in qs] + [int(q) >> 4 for q in qs]


def neighbours(qs: Any) -> list[int]:
    return [half for q in qs for half in (int(q) & 15, int(q) >> 4)]


def from_halves(qs: Any) -> Any:
    """GGUF: the first half of the inputs is in low halves of bytes. rapt: neighbours share a byte."""
    q = np.concatenate([qs & 15, qs >> 4], axis=-1)
    return (q[..., ::2] | q[..., 1::2] << 4).reshape(OUTPUTS, INPUTS // 2)


def swapped(data: Any) -> Any:
    return data >> 4 | data << 4


# Each returns rapt's bytes, type, group and options, and what the file's bytes stand for.


def iq4_nl() -> Any:
    file = blocks_of(32, ("d", "<f2"), ("qs", "u1", 16))
    expected = decoded(file, lambda b: [f32(b["d"]) * f32(IQ4_NL[q]) for q in halves(b["qs"])])
    return from_halves(file["qs"]), "u4", 32, {"scales": file["d"], "codebook": IQ4_NL}, expected


def mxfp4(in_gguf: bool) -> Any:
    """A scale is 2^(e - 127). 6 times that overflows above 252, and e = 255 is NaN in the format."""
    file = blocks_of(32, ("e", "u1"), ("qs", "u1", 16))
    file["e"] = np.minimum(file["e"], 252)
    file["e"][0, :2] = 0, 252

    def numbers_of(block: Any) -> Any:
        q4 = halves(block["qs"]) if in_gguf else neighbours(block["qs"])
        return [f32(FP4[q]) * f32(2.0 ** (int(block["e"]) - 127)) for q in q4]

    scales = rapt.convert((2.0 ** (file["e"].astype(float) - 127)).astype(np.float32), "bf16")
    rows = from_halves(file["qs"]) if in_gguf else file["qs"].reshape(OUTPUTS, INPUTS // 2)
    return rows, "u4", 32, {"scales": scales, "codebook": FP4}, decoded(file, numbers_of)


def nf4() -> Any:
    data = random_of("u1", OUTPUTS, INPUTS // 2)
    absmax = RNG.uniform(0.01, 2, (OUTPUTS, INPUTS // 64)).astype(np.float32)
    expected = np.empty((OUTPUTS, INPUTS), np.float32)
    for n, k in np.ndindex(OUTPUTS, INPUTS):
        byte = int(data[n, k // 2])
        expected[n, k] = f32(NF4[byte & 15 if k % 2 else byte >> 4]) * absmax[n, k // 64]
    return swapped(data), "u4", 64, {"scales": absmax, "codebook": NF4}, expected


def f16_scales(groups: int) -> Any:
    return RNG.uniform(-2, 2, (groups, OUTPUTS_OF_WORDS)).astype(np.float16)


def rows_of(q: Any) -> Any:
    return (q[:, ::2] | q[:, 1::2] << 4).astype(np.uint8)


def nibbles_of(words: Any) -> Any:
    """The eight numbers of each word, the first in the lowest bits."""
    return words[..., None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15


def gptq(is_v2: bool) -> Any:
    qweight, qzeros = random_of("<u4", INPUTS // 8, OUTPUTS_OF_WORDS), random_of("<u4", 4, OUTPUTS_OF_WORDS // 8)
    scales, shape = f16_scales(4), (OUTPUTS_OF_WORDS, INPUTS)
    expected = np.empty(shape, np.float32)
    for n, k in np.ndindex(*shape):
        q = int(qweight[k // 8, n]) >> 4 * (k % 8) & 15
        zero = (int(qzeros[k // 128, n // 8]) >> 4 * (n % 8) & 15) + (0 if is_v2 else 1)
        expected[n, k] = f32(scales[k // 128, n]) * f32(q - zero)
    q = nibbles_of(qweight.T).reshape(shape)
    zeros = (nibbles_of(qzeros).reshape(4, -1).T + (0 if is_v2 else 1)).astype(np.uint8)
    return rows_of(q), "u4", 128, {"scales": np.ascontiguousarray(scales.T), "zeros": zeros}, expected


def gptq_of_bits(bits: int) -> Any:
    """32 inputs are `bits` words, and integer i has the bits from `bits` i on of all these."""
    outputs = 32
    qweight, qzeros = random_of("<u4", INPUTS * bits // 32, outputs), random_of("<u4", 4, outputs * bits // 32)
    if bits == 8:
        qzeros &= 0x7F7F7F7F  # else some zeros are 256
    scales = np.abs(RNG.normal(size=(4, outputs))).astype(np.float32)

    def integer_of(words: Any, i: int) -> int:
        together = sum(int(word) << 32 * at for at, word in enumerate(words))
        return together >> bits * i & (1 << bits) - 1

    q = np.array([[integer_of(qweight[:, n], k) for k in range(INPUTS)] for n in range(outputs)])
    zeros = np.array([[integer_of(qzeros[g], n) + 1 for g in range(4)] for n in range(outputs)])
    expected = np.empty(q.shape, np.float32)
    for n, k in np.ndindex(*q.shape):
        expected[n, k] = scales[k // 128, n] * f32(q[n, k] - zeros[n, k // 128])
    packed = rapt.pack_gptq(qweight, qzeros, scales, bits=bits)
    np.testing.assert_array_equal(rapt.linear(EYE, packed).T, expected)
    rows, type = (q.astype(np.uint8), "u8") if bits == 8 else (rows_of(q), "u4")
    return rows, type, 128, {"scales": np.ascontiguousarray(scales.T), "zeros": zeros.astype(np.uint8)}, expected


def awq() -> Any:
    order = [0, 2, 4, 6, 1, 3, 5, 7]  # of the outputs in a word
    qweight, qzeros = random_of("<u4", INPUTS, OUTPUTS_OF_WORDS // 8), random_of("<u4", 4, OUTPUTS_OF_WORDS // 8)
    scales, shape = f16_scales(4), (OUTPUTS_OF_WORDS, INPUTS)
    expected = np.empty(shape, np.float32)
    for word, k, i in np.ndindex(OUTPUTS_OF_WORDS // 8, INPUTS, 8):
        n = 8 * word + order[i]
        q, zero = int(qweight[k, word]) >> 4 * i & 15, int(qzeros[k // 128, word]) >> 4 * i & 15
        expected[n, k] = f32(scales[k // 128, n]) * f32(q - zero)
    back = np.argsort(order)
    q, zeros = (nibbles_of(words)[..., back].reshape(len(words), -1).T for words in (qweight, qzeros))
    options = {"scales": np.ascontiguousarray(scales.T), "zeros": np.ascontiguousarray(zeros.astype(np.uint8))}
    return rows_of(q), "u4", 128, options, expected


def matmul_nbits() -> Any:
    """B [outputs][blocks][16] has input 2j of a block in the low half of byte j; zero points are two to a byte."""
    outputs, blocks = OUTPUTS_OF_WORDS, INPUTS // 32
    b, zero_points = random_of("u1", outputs, blocks, 16), random_of("u1", outputs, (blocks + 1) // 2)
    scales = np.ascontiguousarray(f16_scales(blocks).T)
    expected = np.empty((outputs, INPUTS), np.float32)
    for n, k in np.ndindex(outputs, INPUTS):
        block = k // 32
        q, zero = (
            int(b[n, block, k % 32 // 2]) >> 4 * (k % 2) & 15,
            int(zero_points[n, block // 2]) >> 4 * (block % 2) & 15,
        )
        expected[n, k] = f32(scales[n, block]) * f32(q - zero)
    zeros = np.stack([zero_points & 15, zero_points >> 4], -1).reshape(outputs, -1)[:, :blocks]
    return b.reshape(outputs, -1), "u4", 32, {"scales": scales, "zeros": zeros}, expected


def matmul_8bits() -> Any:
    """B [outputs][blocks][32] and zero points [outputs][blocks] are bytes."""
    outputs, blocks = OUTPUTS_OF_WORDS, INPUTS // 32
    b, zero_points = random_of("u1", outputs, blocks, 32), random_of("u1", outputs, blocks)
    scales = np.ascontiguousarray(f16_scales(blocks).T)
    expected = np.empty((outputs, INPUTS), np.float32)
    for n, k in np.ndindex(outputs, INPUTS):
        q, zero = int(b[n, k // 32, k % 32]), int(zero_points[n, k // 32])
        expected[n, k] = f32(scales[n, k // 32]) * f32(q - zero)
    return b.reshape(outputs, -1), "u8", 32, {"scales": scales, "zeros": zero_points}, expected


def torchao() -> Any:
    """(q - 8) * scale + zero, in f32 over numbers of bf16."""
    data = random_of("u1", OUTPUTS, INPUTS // 2)
    scales, zeros = (rapt.convert(RNG.normal(size=(OUTPUTS, 4)).astype(np.float32), "bf16") for _ in range(2))
    wide_scales, wide_zeros = (rapt.convert(x, "f32") for x in (scales, zeros))
    expected = np.empty((OUTPUTS, INPUTS), np.float32)
    for n, k in np.ndindex(OUTPUTS, INPUTS):
        byte = int(data[n, k // 2])
        q = byte & 15 if k % 2 else byte >> 4
        expected[n, k] = f32(q - 8) * wide_scales[n, k // 128] + wide_zeros[n, k // 128]
    return swapped(data), "u4", 128, {"scales": scales, "offsets": zeros}, expected


def f8(type: str, group: int, outputs_per_scale: int) -> Any:
    """scale * number, where some outputs and inputs share a scale."""
    specials = 1 if type == "f8_e4m3" else 4
    data = RNG.integers(0, 128 - specials, (200, INPUTS), np.uint8) | RNG.choice(
        np.array([0, 128], np.uint8), (200, INPUTS)
    )
    rows = 200 if outputs_per_scale == 1 else 1 if outputs_per_scale == -1 else -(-200 // outputs_per_scale)
    scales = RNG.normal(size=(rows, INPUTS // group if group else 1)).astype(np.float32)
    exponent_bits = 4 if type == "f8_e4m3" else 5
    expected = np.empty((200, INPUTS), np.float32)
    for n, k in np.ndindex(200, INPUTS):
        exponent, mantissa = divmod(int(data[n, k] & 127), 1 << (7 - exponent_bits))
        part = mantissa / (1 << (7 - exponent_bits)) + (exponent > 0)
        number = math.ldexp(part, max(exponent, 1) + 1 - (1 << (exponent_bits - 1)))
        row = 0 if outputs_per_scale == -1 else n // outputs_per_scale
        expected[n, k] = (-1 if data[n, k] & 128 else 1) * np.float32(number) * scales[row, k // group if group else 0]
    return data, type, group, {"scales": scales, "outputs_per_scale": outputs_per_scale}, expected


FORMATS = {
    "GGUF IQ4_NL, in arrays": iq4_nl,
    "FP8 of DeepSeek and Qwen3": lambda: f8("f8_e4m3", 128, 128),
    "FP8 of compressed-tensors": lambda: f8("f8_e4m3", 0, 1),
    "FP8 of compressed-tensors, per tensor": lambda: f8("f8_e4m3", 0, -1),
    "FP8 E5M2": lambda: f8("f8_e5m2", 0, 1),
    "GPTQ": lambda: gptq(False),
    "GPTQ, gptq_v2": lambda: gptq(True),
    "GPTQ, 2 bits": lambda: gptq_of_bits(2),
    "GPTQ, 3 bits": lambda: gptq_of_bits(3),
    "GPTQ, 8 bits": lambda: gptq_of_bits(8),
    "AWQ": awq,
    "ONNX MatMulNBits": matmul_nbits,
    "ONNX MatMulNBits, 8 bits": matmul_8bits,
    "bitsandbytes NF4": nf4,
    "MXFP4": lambda: mxfp4(False),
    "MXFP4, GGUF": lambda: mxfp4(True),
    "torchao int4": torchao,
}


@pytest.mark.parametrize("name", FORMATS)
def test_formats_have_the_numbers_of_their_definition(name: str) -> None:
    """Row k of the identity picks input k, and the sum adds nothing to a product."""
    rows, type, group, options, expected = FORMATS[name]()
    assert len(np.unique(expected)) > 250 and expected.dtype == np.float32 and np.isfinite(expected).all()
    found = rapt.linear(EYE, rapt.pack_quantized(rows, type, scale_group=group, **options)).T
    np.testing.assert_array_equal(found, expected)


def rows_of_the_table() -> dict[str, tuple[str, str]]:
    """How each format is given, and its arithmetics."""
    page = (Path(__file__).parents[2] / "src/manual/linear_layers.md").read_text()
    table = page[page.index("| format | how to give it") :].split("\n\n")[0].splitlines()[2:]
    columns = [[column.strip() for column in row.strip("|").split("|")] for row in table]
    return {name: (how, arithmetic) for name, how, arithmetic in columns}


def test_every_format_of_the_table_is_decoded() -> None:
    rows = rows_of_the_table()
    of_blocks = {name: how for name, (how, _) in rows.items() if how.startswith("`")}
    assert of_blocks == {f"GGUF {name}": f"`RAPT_{name}`" for name in _library.BLOCKS}
    assert [name for name in rows if name not in of_blocks] == [name for name in FORMATS if "," not in name]


def test_the_table_has_the_arithmetics_of_every_format() -> None:
    for name, (how, arithmetics) in rows_of_the_table().items():
        if how.startswith("`"):
            type = name.removeprefix("GGUF ")
            packed = rapt.pack_blocks(np.zeros((2, _library.BLOCKS[type].bytes), np.uint8), type)
        else:
            rows, type, group, options, _ = FORMATS[name]()
            packed = rapt.pack_quantized(rows, type, scale_group=group, **options)
        found = ["F32"]
        with contextlib.suppress(ValueError):
            rapt.linear(np.ones(packed.shape[1], np.float32), packed, arithmetic="i8")
            found.append("I8")
        assert arithmetics.split(";")[0] == ", ".join(found), name


def test_mxfp4_in_i8() -> None:
    """As its row says: with the doubled numbers and half the scales."""
    assert rows_of_the_table()["MXFP4"][1] == "F32; I8 with the doubled numbers and half the scales"
    rows, type, group, options, expected = mxfp4(False)
    scales = rapt.convert(rapt.convert(options["scales"], "f32") / 2, "bf16")
    packed = rapt.pack_quantized(rows, type, scales, scale_group=group, codebook=2 * np.array(FP4))
    np.testing.assert_array_equal(rapt.linear(EYE, packed).T, expected)
    assert rapt.linear(EYE, packed, arithmetic="i8").shape == (INPUTS, OUTPUTS)


@pytest.mark.parametrize("is_v2", [False, True])
def test_gptq_with_groups_out_of_order(is_v2: bool) -> None:
    """desc_act: input k has the scale and zero of group g_idx[k]. The inputs of gptq() are those sorted by their groups."""
    rows, type, group, options, sorted_by_group = gptq(is_v2)
    order = RNG.permutation(INPUTS)
    of_file, g_idx = sorted_by_group[:, order], order // group
    by_group = np.argsort(g_idx, kind="stable")
    q_of_file = np.stack([rows & 15, rows >> 4], -1).reshape(len(rows), -1)[:, order]
    weights = rapt.pack_quantized(rows_of(q_of_file[:, by_group]), type, scale_group=group, **options)
    np.testing.assert_array_equal(rapt.linear(EYE[:, by_group], weights).T, of_file)
