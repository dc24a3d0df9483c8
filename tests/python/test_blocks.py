"""Linear layers with blocks of GGUF files. What a block means is computed from ggml's structs, one block at a time."""

import doctest
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import Array, OnEachLevel, Random

import rapt
from rapt import _library

F32 = np.float32
OUTPUTS = 67
HEADER = (Path(__file__).parents[2] / "include/rapt/rapt.h").read_text()


def f16(block: Array, at: int) -> Any:
    return block[at : at + 2].view("<f2")[0].astype(F32)


def halves(qs: Array) -> Any:
    return np.concatenate([qs & 15, qs >> 4]).astype(int)


def bits_of(word: Array) -> Array:
    return np.unpackbits(word, bitorder="little").astype(int)


def scales_and_mins(s: Array) -> tuple[Any, Any]:
    """ggml's get_scale_min_k4: eight pairs of 6 bits in 12 bytes."""
    s = s.astype(int)
    pairs = []
    for j in range(8):
        if j < 4:
            pairs.append((s[j] & 63, s[j + 4] & 63))
        else:
            pairs.append((s[j + 4] & 15 | s[j - 4] >> 6 << 4, s[j + 4] >> 4 | s[j] >> 6 << 4))
    scales, mins = zip(*pairs)
    return np.array(scales), np.array(mins)


def of_64(qs: Array) -> Array:
    """Each 32 bytes have 32 inputs in their low halves, then 32 in their high ones."""
    return np.concatenate([halves(qs[first : first + 32]) for first in range(0, len(qs), 32)])


# Each returns a block's integers, scales and offsets.


def q8_0(b: Array) -> Any:
    return b[2:].view(np.int8).astype(int), [f16(b, 0)], None


def q4_0(b: Array) -> Any:
    return halves(b[2:]) - 8, [f16(b, 0)], None


def q4_1(b: Array) -> Any:
    return halves(b[4:]), [f16(b, 0)], [f16(b, 2)]


def q5_0(b: Array) -> Any:
    return halves(b[6:]) + 16 * bits_of(b[2:6]) - 16, [f16(b, 0)], None


def q5_1(b: Array) -> Any:
    return halves(b[8:]) + 16 * bits_of(b[4:8]), [f16(b, 0)], [f16(b, 2)]


def q4_k(b: Array) -> Any:
    scales, mins = scales_and_mins(b[4:16])
    return of_64(b[16:]), f16(b, 0) * scales.astype(F32), -(f16(b, 2) * mins.astype(F32))


def q5_k(b: Array) -> Any:
    scales, mins = scales_and_mins(b[4:16])
    fifth = np.concatenate([b[16:48] >> group & 1 for group in range(8)]).astype(int)
    return of_64(b[48:]) + 16 * fifth, f16(b, 0) * scales.astype(F32), -(f16(b, 2) * mins.astype(F32))


def q6_k(b: Array) -> Any:
    """As dequantize_row_q6_K: of 128 inputs, byte l has the inputs l, l + 32, l + 64 and l + 96."""
    integers = np.empty(256, int)
    for n in range(2):
        ql, qh = b[64 * n : 64 * n + 64].astype(int), b[128 + 32 * n : 160 + 32 * n].astype(int)
        for quarter, low in enumerate([ql[:32] & 15, ql[32:] & 15, ql[:32] >> 4, ql[32:] >> 4]):
            at = 128 * n + 32 * quarter
            integers[at : at + 32] = low + ((qh >> 2 * quarter & 3) << 4) - 32
    return integers, f16(b, 208) * b[192:208].view(np.int8).astype(F32), None


def of_128(b: Array, bits: int, rows: int) -> Array:
    """Of each so many inputs, the codes of 32 lie in the same bits of 32 bytes."""
    mask = (1 << bits) - 1
    parts = b.reshape(-1, 32).astype(int)
    return np.concatenate([part >> bits * row & mask for part in parts for row in range(rows)])


def q2_k(b: Array) -> Any:
    low, high = (b[:16] & 15).astype(F32), (b[:16] >> 4).astype(F32)
    return of_128(b[16:80], 2, 4), f16(b, 80) * low, -(f16(b, 82) * high)


def q3_k(b: Array) -> Any:
    low = np.concatenate([b[96:104] & 15, b[96:104] >> 4]).astype(int)
    high = np.concatenate([b[104:108] >> 2 * j & 3 for j in range(4)]).astype(int)
    scales = (low + 16 * high - 32).astype(F32)
    return of_128(b[32:96], 2, 4) + 4 * of_128(b[:32], 1, 8) - 4, f16(b, 108) * scales, None


IQ4 = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])
E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12])


def halves_of(b: Array, count: int) -> Array:
    """Low halves of so many bytes, then their high halves, then those of the next ones."""
    parts = b.reshape(-1, count).astype(int)
    return np.concatenate([half for part in parts for half in (part & 15, part >> 4)])


def iq4_nl(b: Array) -> Any:
    return IQ4[halves_of(b[2:], 16)], [f16(b, 0)], None


def iq4_xs(b: Array) -> Any:
    low, high = halves_of(b[4:8, None], 1), int(b[2]) | int(b[3]) << 8
    scales = np.array([low[g] + 16 * (high >> 2 * g & 3) - 32 for g in range(8)], F32)
    return IQ4[halves_of(b[8:], 16)], f16(b, 0) * scales, None


def mxfp4(b: Array) -> Any:
    return E2M1[halves_of(b[1:], 16)], np.ldexp(np.ones(1, F32), int(b[0]) - 128), None


def nvfp4(b: Array) -> Any:
    exponent, mantissa = b[:4].astype(int) >> 3 & 15, b[:4] & 7
    scales = np.ldexp(np.where(exponent > 0, 8 + mantissa, mantissa).astype(F32), np.maximum(exponent, 1) - 11)
    return E2M1[halves_of(b[4:], 8)], np.where(b[:4] == 127, F32(0), scales), None


# What a block means, and where it has numbers of f16. MXFP4 has a byte in place of the upper one.
DECODERS: dict[str, tuple[Callable[[Array], Any], list[int]]] = {
    "Q8_0": (q8_0, [0]),
    "Q4_0": (q4_0, [0]),
    "Q4_1": (q4_1, [0, 2]),
    "Q5_0": (q5_0, [0]),
    "Q5_1": (q5_1, [0, 2]),
    "Q4_K": (q4_k, [0, 2]),
    "Q5_K": (q5_k, [0, 2]),
    "Q6_K": (q6_k, [208]),
    "Q2_K": (q2_k, [80, 82]),
    "Q3_K": (q3_k, [108]),
    "IQ4_NL": (iq4_nl, [0]),
    "IQ4_XS": (iq4_xs, [0]),
    "MXFP4": (mxfp4, [-1]),
    "NVFP4": (nvfp4, []),
}


def file_of(random: Random, type: str, outputs: int = OUTPUTS, inputs: int = 512) -> Array:
    """Random blocks, whose numbers of f16 are finite."""
    of = _library.BLOCKS[type]
    blocks = random.integers(0, 256, (outputs, inputs // of.inputs, of.bytes)).astype(np.uint8)
    for at in DECODERS[type][1]:
        blocks[..., at + 1] &= 0xBB  # no exponent of 31
    return blocks.reshape(outputs, -1)


def parts_of(type: str, blocks: Array) -> tuple[Any, Any, Any]:
    """The integers, scales and offsets of the rows."""
    decode, size = DECODERS[type][0], _library.BLOCKS[type].bytes
    rows: list[list[Any]] = [[], [], []]
    for row in blocks:
        for to, part in zip(rows, zip(*(decode(block) for block in row.reshape(-1, size)))):
            to.append(None if part[0] is None else np.concatenate(part))
    integers, scales, offsets = (None if of[0] is None else np.array(of) for of in rows)
    return integers, scales, offsets


def test_every_type_of_the_header_is_here() -> None:
    """The enumerators of rapt.h after RAPT_U4, with the sizes in their comments."""
    enumerators = re.findall(r"^  RAPT_(\w+)(?: = \d+)?,? +/\*\*< (\d+) inputs in (\d+) bytes \*/", HEADER, re.M)
    assert [(name, of.inputs, of.bytes) for name, of in _library.BLOCKS.items()] == [
        (name, int(inputs), int(size)) for name, inputs, size in enumerators
    ]
    assert _library.BLOCKS.keys() == DECODERS.keys()
    for name in DECODERS:
        assert f'"{name}"' in (rapt.pack_blocks.__doc__ or ""), name


@pytest.mark.parametrize("type", DECODERS)
def test_numbers(random: Random, type: str) -> None:
    """Row k of the identity picks input k."""
    blocks = file_of(random, type, 9)
    found = rapt.linear(np.eye(512, dtype=F32), rapt.pack_blocks(blocks, type)).T
    integers, scales, offsets = parts_of(type, blocks)
    group = _library.BLOCKS[type].group
    expected = integers.astype(F32) * np.repeat(scales, group, 1)
    if offsets is not None:
        expected += np.repeat(offsets, group, 1)
    assert len(np.unique(expected)) > 300 and np.isfinite(expected).all()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("type", DECODERS)
def test_numbers_of_the_gguf_package(random: Random, type: str) -> None:
    gguf = pytest.importorskip("gguf")
    blocks = file_of(random, type, 9)
    found = rapt.linear(np.eye(512, dtype=F32), rapt.pack_blocks(blocks, type)).T
    np.testing.assert_array_equal(found, gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[type]))


@pytest.mark.parametrize("out_type", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("type", DECODERS)
def test_numbers_of_rows(random: Random, on_each_level: OnEachLevel, type: str, out_type: str) -> None:
    """Those of packed blocks."""
    blocks = file_of(random, type, 5)
    expected = rapt.packed_rows(rapt.pack_blocks(blocks, type), range(5), out_type=out_type)
    found = on_each_level(lambda: rapt.dequantize_rows(blocks, type, out_type=out_type))
    assert found.tobytes() == expected.tobytes() and len(np.unique(found)) > 30
    of = _library.BLOCKS[type]
    again = rapt.dequantize_rows(blocks[::-1], type, in_features=512, group=of.group, out_type=out_type)
    assert again.tobytes() == np.ascontiguousarray(expected[::-1]).tobytes()
    assert rapt.dequantize_rows(blocks[:0], type).shape == (0, 512)


def test_rows_that_are_none() -> None:
    blocks = np.zeros((2, 34), np.uint8)
    for change, error in {
        "scales=np.ones((2, 1), F32)": "scales is for integers: blocks of Q8_0 have their scales in them",
        "zeros=np.ones((2, 1), int)": "zeros is for integers",
        "offsets=np.ones((2, 1), F32)": "offsets is for integers",
        "codebook=np.ones(16, F32)": "codebook is for integers",
        "in_features=31": "not that of 31 inputs",
        "group=16": "group is 16: 32 inputs share a scale in blocks of Q8_0",
        "q=blocks[:, 1:]": "q has the shape (2, 33): a block of Q8_0 has 34 bytes",
    }.items():
        name, value = change.split("=", 1)
        arguments = {"q": blocks, "type": "Q8_0", name: eval(value, {"np": np, "F32": F32, "blocks": blocks})}
        with pytest.raises(ValueError, match=re.escape(error)):
            rapt.dequantize_rows(**arguments)
    with pytest.raises(TypeError, match="q has elements of int8, not uint8"):
        rapt.dequantize_rows(blocks.view(np.int8), "Q8_0")


@pytest.mark.parametrize("in_i8", [False, True])
@pytest.mark.parametrize("type", DECODERS)
def test_bits(random: Random, on_each_level: OnEachLevel, type: str, in_i8: bool) -> None:
    """They are those of the same integers, scales and offsets in arrays."""
    x, blocks = random.normal(size=(5, 512)).astype(F32), file_of(random, type)
    integers, scales, offsets = parts_of(type, blocks)
    group = _library.BLOCKS[type].group
    in_arrays = rapt.pack_quantized(integers.astype(np.int8), "i8", scales, scale_group=group, offsets=offsets)
    packed = rapt.pack_blocks(blocks, type)
    arithmetic: Any = "i8" if in_i8 else None
    expected = rapt.linear(x, in_arrays, arithmetic=arithmetic, x_group=32 if in_i8 else 0)
    result = on_each_level(lambda: rapt.linear(x, packed, arithmetic=arithmetic))
    assert result.tobytes() == expected.tobytes()
    if in_i8:
        row = rapt.linear(x, packed, arithmetic="i8", x_group=-1)
        assert row.tobytes() == rapt.linear(x, in_arrays, arithmetic="i8", x_group=-1).tobytes() != expected.tobytes()


@pytest.mark.parametrize("type", DECODERS)
def test_blocks_come_back(random: Random, type: str) -> None:
    """All bytes do, also those of NaN."""
    of = _library.BLOCKS[type]
    for outputs, count in [(1, 1), (64, 2), (130, 3)]:
        blocks = random.integers(0, 256, (outputs, count * of.bytes)).astype(np.uint8)
        packed = rapt.pack_blocks(blocks, type)
        assert (packed.shape, packed.type, packed.scale_group) == ((outputs, count * of.inputs), type, 0)
        assert rapt.unpack_blocks(packed).tobytes() == blocks.tobytes()
        for again in (pickle.loads(pickle.dumps(packed)), rapt.PackedWeights(packed.shape, type, bytes(packed.data))):
            assert rapt.unpack_blocks(again).tobytes() == blocks.tobytes()


def test_where_blocks_may_lie(random: Random, tmp_path: Path) -> None:
    blocks = file_of(random, "Q4_K", 70)
    expected = rapt.pack_blocks(blocks, "Q4_K").data.tobytes()
    wide = np.full((70, blocks.shape[1] + 5), 7, np.uint8)
    wide[:, 2:-3] = blocks
    (tmp_path / "file").write_bytes(b"head" + blocks.tobytes())
    mapped = np.memmap(tmp_path / "file", np.uint8, "r", 4, blocks.shape)
    places = {
        "a file": mapped,
        "with gaps": wide[:, 2:-3],
        "in columns": np.asfortranarray(blocks),
        "backwards": np.ascontiguousarray(blocks[::-1])[::-1],
        "in two parts": [blocks[:64], blocks[64:]],
        "in parts of no whole blocks of outputs": (blocks[:9], mapped[9:33], blocks[33:]),
    }
    for name, place in places.items():
        assert rapt.pack_blocks(place, "Q4_K").data.tobytes() == expected, name
    assert mapped.tobytes() == blocks.tobytes()
    none = rapt.pack_blocks(blocks[:0], "Q4_K")
    assert rapt.unpack_blocks(none).shape == (0, 288)
    assert rapt.linear(np.ones((3, 512), F32), none).shape == (3, 0)


def test_threads_and_types_of_x(random: Random) -> None:
    blocks = file_of(random, "Q5_K", 200, 1024)
    packed = rapt.pack_blocks(blocks, "Q5_K")
    x = random.normal(size=(40, 1024)).astype(np.float16)
    result = rapt.linear(x, packed, np.ones(200), out_type="f32")
    assert result.tobytes() == rapt.linear(x, packed, np.ones(200), out_type="f32", threads=3).tobytes()
    assert result.tobytes() == rapt.linear(x.astype(F32), packed, np.ones(200)).tobytes()
    call = rapt.prepare(rapt.linear, x, packed, np.ones(200), out_type="f32")
    assert call().tobytes() == result.tobytes()


def test_errors(random: Random) -> None:
    blocks = file_of(random, "Q6_K", 5, 256)
    with pytest.raises(TypeError, match="blocks has elements of int8, not uint8"):
        rapt.pack_blocks(blocks.view(np.int8), "Q6_K")
    with pytest.raises(ValueError, match=r"blocks has the shape \(5, 209\): a block of Q6_K has 210 bytes"):
        rapt.pack_blocks(blocks[:, 1:], "Q6_K")
    with pytest.raises(ValueError, match=r"blocks has the shape \(5, 0\)"):
        rapt.pack_blocks(blocks[:, :0], "Q6_K")
    with pytest.raises(ValueError, match="1 dimensions"):
        rapt.pack_blocks(blocks[0], "Q6_K")
    with pytest.raises(ValueError, match="blocks has no matrices"):
        rapt.pack_blocks([], "Q6_K")
    with pytest.raises(ValueError, match=r"blocks\[1\] \(5, 420\): other inputs"):
        rapt.pack_blocks([blocks, np.concatenate([blocks, blocks], 1)], "Q6_K")
    with pytest.raises(ValueError, match="type is 'Q6_k', not one of Q8_0, .*, Q6_K"):
        rapt.pack_blocks(blocks, "Q6_k")
    with pytest.raises(TypeError, match="type is None, not one of Q8_0, .*: it comes after blocks"):
        rapt.pack_blocks(blocks, None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="type is 'Q6_K', which pack_blocks takes"):
        rapt.pack_quantized(blocks, "Q6_K")
    packed = rapt.pack_blocks(blocks, "Q6_K")
    for function in (rapt.unpack_weights, rapt.unpack_quantized):
        with pytest.raises(TypeError, match="w has weights of Q6_K, which unpack_blocks takes"):
            function(packed)
    with pytest.raises(TypeError, match="w has weights of f32, which unpack_weights takes"):
        rapt.unpack_blocks(rapt.pack_weights(np.ones((2, 3), F32)))
    with pytest.raises(TypeError, match="w has weights of i8, which unpack_quantized takes"):
        rapt.unpack_blocks(rapt.pack_quantized(np.ones((2, 3), np.int8), "i8"))
    x = np.ones(256, F32)
    with pytest.raises(TypeError, match="float64 with Q6_K weights"):
        rapt.linear(x.astype(float), packed)
    with pytest.raises(ValueError, match="x of f32 and w of Q6_K have no arithmetic 'bf16'"):
        rapt.linear(x, packed, arithmetic="bf16")
    with pytest.raises(ValueError, match="x_group is 24, no multiple of 16"):
        rapt.linear(x, packed, arithmetic="i8", x_group=24)
    with pytest.raises(ValueError, match="other inputs"):
        rapt.linear(np.ones(255, F32), packed)
    with pytest.raises(ValueError, match="scale_group is 16, but weights of Q6_K say it themselves"):
        rapt.PackedWeights((5, 256), "Q6_K", packed.data, 16)
    with pytest.raises(ValueError, match=r"w has the shape \(5, 250\): a block of Q6_K has 256 inputs"):
        rapt.PackedWeights((5, 250), "Q6_K", packed.data)
    with pytest.raises(ValueError, match="bytes, not the"):
        rapt.PackedWeights((70, 256), "Q6_K", packed.data)
    other = rapt.pack_blocks(file_of(random, "Q4_K", 5, 256), "Q4_K")
    with pytest.raises(ValueError, match="bytes, not the"):
        rapt.PackedWeights(other.shape, "Q6_K", other.data)
    damaged = packed.data.copy()
    damaged[8] ^= 1
    with pytest.raises(ValueError, match="the packed weights are damaged, or not those of 5 outputs .* of Q6_K"):
        rapt.linear(x, rapt.PackedWeights((5, 256), "Q6_K", damaged))


def test_documentation() -> None:
    for function in (rapt.pack_blocks, rapt.unpack_blocks):
        runner = doctest.DocTestRunner()
        for example in doctest.DocTestFinder(recurse=False).find(function, globs={"np": np, "rapt": rapt}):
            assert runner.run(example).failed == 0
