import doctest
import gc
import re
import sys
import threading
import weakref
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dlpack import Tensor
from kinds import Array, Call, OnEachLevel, Random
from reference import attention as exact

import rapt
from rapt import _arrays, _attention

# For keywords from a dict, of which a type checker knows nothing.
attention: Call = rapt.attention
attention_backward: Call = rapt.attention_backward


def tensors(
    random: Random,
    q_heads: int = 4,
    kv_heads: int = 2,
    q_len: int = 9,
    kv_len: int = 21,
    dim: int = 16,
    v_dim: int | None = None,
    batch: int = 2,
    dtype: npt.DTypeLike = np.float32,
) -> Any:
    q = random.normal(size=(batch, q_heads, q_len, dim)).astype(dtype)
    k = random.normal(size=(batch, kv_heads, kv_len, dim)).astype(dtype)
    v = random.normal(size=(batch, kv_heads, kv_len, v_dim or dim)).astype(dtype)
    return q, k, v


def blocks_of_q8_0(random: Random, *shape: int) -> tuple[Array, Array]:
    """Rows in blocks, and their numbers."""
    *outer, dim = shape
    codes = random.integers(-127, 128, size=(*outer, dim // 32, 32)).astype(np.int8)
    scales = (0.01 + 0.01 * random.random(size=(*outer, dim // 32, 1))).astype(np.float16)
    rows = np.concatenate([scales.view(np.uint8), codes.view(np.uint8)], axis=-1).reshape(*outer, dim // 32 * 34)
    return rows, (codes * scales.astype(np.float32)).reshape(shape)


def tokens_first(x: Array) -> Array:
    """x, in memory [batch][tokens][heads]..."""
    return np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-5), (np.float64, 1e-13), (np.float16, 3e-3)])
@pytest.mark.parametrize("options", [
    {}, {"causal": True}, {"causal": "top_left"}, {"scale": 0.3}, {"causal": True, "window_left": 4},
    {"sinks": [0.5, -1.0, 2.0, 0.0]},
])  # fmt: skip
def test_forward(
    random: Random, on_each_level: OnEachLevel, dtype: npt.DTypeLike, tolerance: float, options: dict[str, Any]
) -> None:
    q, k, v = tensors(random, v_dim=24, dtype=dtype)
    out, lse = on_each_level(lambda: rapt.attention(q, k, v, return_lse=True, **options))
    expected, expected_lse = exact(q, k, v, **options)
    assert out.dtype == dtype
    np.testing.assert_allclose(out, expected, atol=tolerance)
    np.testing.assert_allclose(lse, expected_lse, atol=max(tolerance, 1e-5 if dtype != np.float64 else 0))


def test_bias_and_mask_broadcast(random: Random) -> None:
    q, k, v = tensors(random)
    bias = random.normal(size=(2, 4, 9, 21)).astype(np.float32)
    mask = random.random((2, 1, 9, 21)) < 0.7
    mask[..., 0] = True
    for b in (
        bias,
        bias[0],
        bias[0, 0],
        bias[:, :1],
        bias[:, :, :1],
        bias[0, 0, 0],
        np.broadcast_to(bias[:1], bias.shape),
    ):
        np.testing.assert_allclose(rapt.attention(q, k, v, bias=b), exact(q, k, v, bias=b)[0], atol=1e-5)
    for m in (mask, mask[0], mask[..., ::-1] | (np.arange(21) == 0), mask[:, :, :1], mask[..., :1]):
        np.testing.assert_allclose(rapt.attention(q, k, v, mask=m), exact(q, k, v, mask=m)[0], atol=1e-5)


def test_strides_give_the_same_bits(random: Random) -> None:
    q, k, v = tensors(random)
    expected = rapt.attention(q, k, v, causal=True)

    out = tokens_first(np.zeros_like(q))
    assert rapt.attention(tokens_first(q), tokens_first(k), tokens_first(v), causal=True, out=out) is out
    assert np.array_equal(out, expected)
    copies: list[Call] = [
        np.asfortranarray,
        lambda x: x[::-1].copy()[::-1],
        lambda x: np.repeat(x, 2, axis=2)[:, :, ::2],
    ]
    for copy in copies:
        assert np.array_equal(rapt.attention(copy(q), copy(k), copy(v), causal=True), expected)
    repeated = np.broadcast_to(k[:, :1], k.shape), np.broadcast_to(v[:, :1], v.shape)
    assert np.array_equal(rapt.attention(q, *repeated), rapt.attention(q, k[:, :1], v[:, :1]))
    assert np.array_equal(rapt.attention(q[0], k[0], v[0]), rapt.attention(q, k, v)[0])
    assert np.array_equal(rapt.attention(q[0, 0], k[0, 0], v[0, 0]), rapt.attention(q, k, v)[0, 0])
    turned = np.zeros_like(q[:1])[::-1]  # whose stride of one sequence is negative
    assert rapt.attention(q[:1], k[:1], v[:1], causal=True, out=turned) is turned and np.array_equal(
        turned, expected[:1]
    )
    structs = np.zeros((2, 4, 9), [("row", np.float32, 16), ("byte", np.uint8)])
    structs["row"] = q
    assert np.array_equal(rapt.attention(structs["row"], k, v, causal=True), expected)
    with pytest.raises(ValueError, match="out must be contiguous"):
        rapt.attention(q, k, v, out=structs["row"])
    in_place = q.copy()
    assert np.array_equal(rapt.attention(in_place, k, v, out=in_place), rapt.attention(q, k, v))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("q_len, kv_len", [(1, 2100), (3, 700), (300, 300)])
def test_threads_give_the_same_bits(random: Random, q_len: int, kv_len: int, dtype: npt.DTypeLike) -> None:
    q, k, v = tensors(random, q_len=q_len, kv_len=kv_len, dtype=dtype)
    expected = rapt.attention(q, k, v, causal=True, return_lse=True)
    for threads in (2, 3, 16, None):
        for one, other in zip(rapt.attention(q, k, v, causal=True, return_lse=True, threads=threads), expected):
            assert np.array_equal(one, other)


def test_a_growing_cache_gives_the_bits_of_the_prefill(random: Random) -> None:
    q, k, v = tensors(random, q_len=21)
    whole = rapt.attention(q, k, v, causal=True)
    for token in range(21):
        step = rapt.attention(q[:, :, token : token + 1], k[:, :, : token + 1], v[:, :, : token + 1])
        assert np.array_equal(step[:, :, 0], whole[:, :, token])


def test_sequences_of_different_lengths(random: Random) -> None:
    lengths = [5, 0, 21]
    q, k, v = tensors(random, batch=3)
    padded = rapt.attention(q, k, v, kv_lengths=lengths)
    for b, n in enumerate(lengths):
        assert np.array_equal(padded[b], rapt.attention(q[b], k[b, :, :n], v[b, :, :n]))
    ends = np.cumsum([0, *lengths])
    packed = [np.concatenate([x[b, :, :n] for b, n in enumerate(lengths)], axis=1) for x in (k, v)]
    queries = np.concatenate([q[b, :, : n + 1] for b, n in enumerate(lengths)], axis=1)[:, :]
    q_ends = np.cumsum([0, *(min(n + 1, 9) for n in lengths)])
    together, lse = rapt.attention(queries, *packed, q_offsets=q_ends, kv_offsets=ends, causal=True, return_lse=True)
    four = rapt.attention(queries[None], *(x[None] for x in packed), q_offsets=q_ends, kv_offsets=ends, causal=True)
    assert np.array_equal(four, together[None])
    two = rapt.attention(queries[0], *(x[0] for x in packed), q_offsets=q_ends, kv_offsets=ends, causal=True)
    assert np.array_equal(two, together[0])
    for b, n in enumerate(lengths):
        part = slice(q_ends[b], q_ends[b + 1])
        alone = rapt.attention(queries[:, part], k[b, :, :n], v[b, :, :n], causal=True, return_lse=True)
        assert np.array_equal(together[:, part], alone[0]) and np.array_equal(lse[:, part], alone[1])


@pytest.mark.parametrize("options", [
    {"causal": True}, {"causal": "top_left", "window_left": 7}, {}, {"causal_offset": 0, "alibi_slopes": [1.0, 0.5, 0.3, 0.1]},
    {"causal": True, "window_chunk": 5, "sinks": [0.5, 1.0, -2.0, 0.0]}, {"causal": True, "bias": True}, {"mask": True},
])  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_prompts_with_left_padding(random: Random, dtype: npt.DTypeLike, options: dict[str, Any]) -> None:
    starts, sinks = [4, 0, 70], options.get("sinks", [-np.inf] * 4)
    q, k, v = tensors(random, batch=3, q_len=70, kv_len=70, dtype=dtype)
    options = dict(options)
    if options.get("bias"):
        options["bias"] = random.normal(size=(70, 70))
    if options.get("mask"):
        options["mask"] = random.random((4, 70, 70)) < 0.8
    for b, start in enumerate(starts):  # what nothing may read
        q[b, :, :start] = k[b, :, :start] = v[b, :, :start] = np.nan
    padding: dict[str, Any] = {"kv_starts": starts, "q_starts": None if options.get("causal") else starts}
    out, lse = rapt.attention(q, k, v, return_lse=True, **options, **padding)
    dout = np.ones_like(out)
    gradients = rapt.attention_backward(q, k, v, out, dout, lse, **options, **padding)
    for b, start in enumerate(starts):
        assert not out[b, :, :start].any()
        assert (lse[b, :, :start] == np.reshape(sinks, (4, 1)).astype(lse.dtype)).all()
        assert not any(x[b, :, :start].any() for x in gradients[:3])
        part = {name: x[..., start:, start:] if name in ("bias", "mask") else x for name, x in options.items()}
        tokens = q[b, :, start:], k[b, :, start:], v[b, :, start:]
        alone = rapt.attention(*tokens, return_lse=True, **part)
        assert np.array_equal(out[b, :, start:], alone[0]) and np.array_equal(lse[b, :, start:], alone[1])
        if start < 70:
            of_alone = rapt.attention_backward(*tokens, alone[0], dout[b, :, start:], alone[1], **part)
            assert all(np.array_equal(x[b, :, start:], y) for x, y in zip(gradients[:3], of_alone[:3]))


def test_left_padding_of_pages_and_packed_keys(random: Random) -> None:
    q, k, v = tensors(random, batch=2, q_len=3, kv_len=192)
    starts, pages = [64, 128], [
        np.ascontiguousarray(x.reshape(2, 2, 12, 16, 16).swapaxes(1, 2)).reshape(24, 2, 16, 16) for x in (k, v)
    ]
    expected = [rapt.attention(q[b], k[b, :, n:], v[b, :, n:], causal=True) for b, n in enumerate(starts)]
    packed = rapt.attention(q, rapt.pack_keys(k), v, packed_keys=True, kv_starts=starts, causal=True)
    assert np.array_equal(packed, expected)
    table = np.arange(24).reshape(2, 12)
    table[0, :4] = table[1, :8] = -1  # nothing reads the pages of padding
    assert np.array_equal(rapt.attention(q, *pages, block_table=table, kv_starts=starts, causal=True), expected)
    assert np.array_equal(rapt.attention(q, k, v, kv_starts=starts, causal=True, threads=2), expected)


def test_caches_in_blocks(random: Random, on_each_level: OnEachLevel) -> None:
    q = random.normal(size=(2, 4, 3, 64)).astype(np.float32)
    k, k_numbers = blocks_of_q8_0(random, 2, 2, 600, 64)
    v, v_numbers = blocks_of_q8_0(random, 2, 2, 600, 96)
    halves = v_numbers.astype(np.float16)

    def check() -> None:
        expected = rapt.attention(q, k_numbers, v_numbers, causal=True)
        assert expected.shape == (2, 4, 3, 96)
        assert np.array_equal(rapt.attention(q, k, v, k_type="Q8_0", v_type="Q8_0", causal=True), expected)
        assert np.array_equal(rapt.attention(q, k_numbers, v, v_type="Q8_0", causal=True, threads=2), expected)
        # A view, whose rows are not aligned.
        spread = np.zeros((2, 2, 600, k.shape[-1] + 3), np.uint8)
        spread[..., 1:-2] = k
        lists = np.stack([random.permutation(600), random.permutation(600)])
        listed = rapt.attention(q, spread[..., 1:-2], v, k_type="Q8_0", v_type="Q8_0", key_lists=lists)
        assert np.array_equal(listed, rapt.attention(q, k_numbers, v_numbers, key_lists=lists))
        mixed = rapt.attention(q, k, halves, k_type="Q8_0")
        assert np.array_equal(mixed, rapt.attention(q, k_numbers, halves.astype(np.float32)))

    on_each_level(check)


def test_bias_of_16_bits_and_slopes(random: Random, on_each_level: OnEachLevel) -> None:
    q, k, v = tensors(random, q_len=9, kv_len=40)
    bias = random.normal(size=(2, 1, 9, 40)).astype(np.float16)
    bias[..., 3::5] = -np.inf
    slopes = np.array([1, 0.5, 0.25, 0.7], np.float32)
    products = bias.astype(np.float32) * slopes[:, None, None]
    expected = rapt.attention(q, k, v, bias=products)
    for threads in 1, 2:
        given = {"bias": bias, "bias_slopes": slopes, "threads": threads}
        assert np.array_equal(on_each_level(partial(attention, q, k, v, **given)), expected)
    assert np.array_equal(rapt.attention(q, k, v, bias=bias), rapt.attention(q, k, v, bias=bias.astype(np.float32)))
    with pytest.raises(ValueError, match="bias_slopes is for bias"):
        rapt.attention(q, k, v, bias_slopes=slopes)
    with pytest.raises(ValueError, match="bias_slopes"):
        rapt.attention(q, k, v, bias=bias, bias_slopes=slopes[:3])


def test_caches_in_blocks_that_are_refused(random: Random) -> None:
    q, (k, numbers) = np.ones((2, 3, 64), np.float32), blocks_of_q8_0(random, 2, 5, 64)
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ValueError, "k_type is 'q8_0', not one of Q8_0", {"k_type": "q8_0"}),
        (TypeError, "k_type is 8, not one of Q8_0", {"k_type": 8}),
        (TypeError, "k has elements of float32: blocks of Q8_0 are bytes of uint8", {"k": numbers, "k_type": "Q8_0"}),
        (ValueError, "k has rows of 67 bytes: a block of Q8_0 has 34", {"k": k[..., 1:], "k_type": "Q8_0"}),
        (ValueError, "v has rows of 68 bytes: a block of Q4_0 has 18", {"k_type": "Q8_0", "v_type": "Q4_0"}),
        (ValueError, "k has the shape (2, 5, 34), not (2, 5, 68)", {"k": k[..., :34], "k_type": "Q8_0"}),
        (ValueError, "packed_keys is set with keys in blocks", {"k_type": "Q8_0", "packed_keys": True}),
        (TypeError, "k has elements of uint8, which rapt lacks", {}),
        (TypeError, "k has elements of int8 and v of float32", {"k": k.view(np.int8), "v": numbers}),
        (ValueError, "k_scales is for keys and values of int8", {"k_type": "Q8_0", "k_scales": np.ones((2, 5))}),
    ]
    for error, message, arguments in cases:
        given: Any = {"q": q, "k": k, "v": k, "v_type": "Q8_0", **arguments}
        if given["v"] is numbers:
            given["v_type"] = None
        with pytest.raises(error, match="^" + re.escape(message)):
            attention(**given)
    with pytest.raises(TypeError, match="there is no gradient"):
        halves = numbers.astype(np.float16)
        out, lse = rapt.attention(q, numbers, halves, return_lse=True)
        rapt.attention_backward(q, numbers, halves, out, out, lse)


def rows_of_i4(x: Array, group: int | None) -> tuple[Array, Array, Array]:
    """Integers of 4 bits, their scales, and the numbers that they mean."""
    *outer, dim = x.shape
    q, scales = rapt.quantize_rows(x.reshape(-1, dim), "i4", group=group or 0)
    numbers = rapt.dequantize_rows(q, "i4", scales, group=group or 0)
    return q.reshape(*outer, dim // 2), scales.reshape(*outer, -1), numbers.reshape(x.shape)


@pytest.mark.parametrize("group", [None, 32, 64])
def test_caches_of_4_bits(random: Random, on_each_level: OnEachLevel, group: int | None) -> None:
    q, k, v = tensors(random, q_len=3, kv_len=70, dim=128, v_dim=64)
    (k4, k_scales, k_numbers), (v4, v_scales, v_numbers) = rows_of_i4(k, group), rows_of_i4(v, group)
    scales: dict[str, Any] = {"k_scales": k_scales, "v_scales": v_scales, "scale_group": group}
    expected = rapt.attention(q, k_numbers, v_numbers, causal=True)
    lists = random.integers(-1, 70, size=(2, 30))

    def check() -> None:
        both: dict[str, Any] = {"k_type": "i4", "v_type": "i4", **scales}
        for threads in 1, 2:
            out = rapt.attention(q, k4, v4, causal=True, threads=threads, **both)
            assert np.array_equal(out, expected)
        by_token = {name: tokens_first(x) for name, x in (("k", k4), ("v", v4))}
        assert np.array_equal(rapt.attention(q, **by_token, causal=True, **both), expected)
        listed = rapt.attention(q, k4, v4, key_lists=lists, **both)
        assert np.array_equal(listed, rapt.attention(q, k_numbers, v_numbers, key_lists=lists))
        mixed = rapt.attention(q, k.astype(np.float16), v4, v_type="i4", v_scales=v_scales, scale_group=group)
        assert np.array_equal(mixed, rapt.attention(q, k.astype(np.float16).astype(np.float32), v_numbers))

    on_each_level(check)


def test_caches_of_4_bits_that_are_refused(random: Random) -> None:
    q, (k, scales, numbers) = np.ones((2, 3, 64), np.float32), rows_of_i4(np.ones((2, 5, 64), np.float32), 32)
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (TypeError, "k has elements of float32: rows of i4 are bytes of uint8", {"k": numbers}),
        (ValueError, "k has rows of 31 bytes: those of i4 are multiples of 16", {"k": k[..., 1:]}),
        (ValueError, "keys and values of i4 need k_scales", {"k_scales": None}),
        (ValueError, "keys and values of i4 need v_scales", {"v_scales": None}),
        (ValueError, "k_scales is for keys and values of int8 and i4, not of float32", {"k": numbers, "k_type": None}),
        (ValueError, "scale_group is 128, which does not divide heads of 64 and 64", {"scale_group": 128}),
        (ValueError, "v_scales has the shape (2, 5, 1), not (2, 5, 2)", {"v_scales": scales[..., :1]}),
        (ValueError, "packed_keys is set with keys in blocks", {"packed_keys": True}),
    ]
    for error, message, arguments in cases:
        given: Any = {"q": q, "k": k, "v": k, "k_type": "i4", "v_type": "i4", "scale_group": 32, "k_scales": scales}
        with pytest.raises(error, match="^" + re.escape(message)):
            attention(**{**given, "v_scales": scales, **arguments})


def test_lists_of_keys(random: Random) -> None:
    q, k, v = tensors(random)  # 2 sequences, 4 heads over 2, 9 queries
    batch, kv_heads, tokens, _ = k.shape
    heads, queries = q.shape[1:3]
    lists = random.integers(-1, tokens, (batch, 30))
    gathered = [np.stack([x[b][:, lists[b]] for b in range(batch)]) for x in (k, v)]
    mask = (lists >= 0)[:, None, None]
    expected = rapt.attention(q, *gathered, mask=mask, causal=True)
    assert np.array_equal(rapt.attention(q, k, v, key_lists=lists, causal=True), expected)
    assert np.array_equal(rapt.attention(q, k, v, key_lists=lists, causal=True, threads=2), expected)

    shared = [x[:1] for x in (k, v)]  # one cache for all sequences
    expected = rapt.attention(q, *[np.stack([x[0][:, lists[b]] for b in range(batch)]) for x in shared], mask=mask)
    assert np.array_equal(rapt.attention(q, *shared, key_lists=lists), expected)

    per_query = random.integers(0, tokens, (batch, kv_heads, queries, 20))
    lengths = random.integers(0, 21, (batch, kv_heads, queries))
    result, lse = rapt.attention(q, k, v, key_lists=per_query, key_list_lengths=lengths, return_lse=True)
    group = heads // kv_heads
    for b, h, i in np.ndindex(batch, heads, queries):
        of = per_query[b, h // group, i][: lengths[b, h // group, i]]
        one = rapt.attention(q[b, h, i : i + 1], k[b, h // group, of], v[b, h // group, of], return_lse=True)
        assert np.array_equal(result[b, h, i : i + 1], one[0]) and lse[b, h, i] == one[1]

    blocks = random.integers(0, tokens, (batch, 3, 20))  # lists of 4 queries, for all heads
    result = rapt.attention(q, k, v, key_lists=blocks, queries_per_list=4)
    for at in range(3):
        some = slice(4 * at, 4 * at + 4)
        gathered = [np.stack([x[b][:, blocks[b, at]] for b in range(batch)]) for x in (k, v)]
        assert np.array_equal(result[:, :, some], rapt.attention(q[:, :, some], *gathered))


def test_wrong_lists_of_keys(random: Random) -> None:
    q, k, v = tensors(random)
    lists = np.zeros((2, 30), int)
    per_query = np.zeros((2, 9, 30), int)
    cases: list[tuple[str, dict[str, Any]]] = [
        ("has the shape", {"key_lists": lists[:1]}),
        ("has the shape", {"key_lists": per_query[:, :8]}),
        ("has the shape", {"key_lists": per_query, "queries_per_list": 2}),
        ("dimensions", {"key_lists": lists[0]}),
        ("is 0, but a list has queries", {"key_lists": lists, "queries_per_list": 0}),
        ("is for key_lists", {"queries_per_list": 2}),
        ("is for key_lists", {"key_list_lengths": [2, 2]}),
        ("key_list_lengths has the shape", {"key_lists": lists, "key_list_lengths": [2]}),
        ("key_list_lengths and kv_lengths", {"key_lists": lists, "key_list_lengths": [2, 2], "kv_lengths": [2, 2]}),
        (r"key_list_lengths\[1, 0, 0\] is 31, but lists have 30", {"key_lists": lists, "key_list_lengths": [2, 31]}),
        (r"key_lists\[1, 0, 0, 3\] is 21: k and v have 21 tokens", {"key_lists": lists + 21 * (np.arange(60) == 33).reshape(2, 30)}),
        (r"key_lists\[0, 0, 0, 0\] is -2", {"key_lists": lists - 2}),
        ("count from a query's position", {"key_lists": per_query, "causal": True}),
        ("count from a query's position", {"key_lists": per_query, "window_left": 2}),
        ("count from a query's position", {"key_lists": lists, "key_list_lengths": [2, 2], "alibi_slopes": np.ones(4)}),
        ("key_lists and kv_starts both say", {"key_lists": lists, "kv_starts": [0, 0]}),
        ("packed_keys", {"key_lists": lists, "packed_keys": True, "k": rapt.pack_keys(k)}),
    ]  # fmt: skip
    for message, options in cases:
        with pytest.raises(ValueError, match=message):
            attention(**{"q": q, "k": k, "v": v, **options})
    with pytest.raises(TypeError):
        rapt.attention(q, k, v, key_lists=lists + 0.5)


def test_pages(random: Random) -> None:
    q, k, v = tensors(random, batch=1, kv_len=64)
    order = random.permutation(4)
    pages = [np.empty((4, 2, 16, 16), np.float32) for _ in range(2)]
    for tensor, paged in zip((k, v), pages):
        for page, place in enumerate(order):
            paged[place] = tensor[0, :, 16 * page : 16 * page + 16]
    result = rapt.attention(q, *pages, block_table=[order], kv_lengths=[50])
    assert np.array_equal(result, rapt.attention(q, k[:, :, :50], v[:, :, :50]))
    with pytest.raises(ValueError, match="page 4 of 4"):
        rapt.attention(q, *pages, block_table=[order + 1])
    twice, lengths = np.concatenate([q, q]), [20, 33]  # the table's rows are longer
    result = rapt.attention(twice, *pages, block_table=[order, order[::-1]], kv_lengths=lengths)
    k_turned, v_turned = (np.concatenate([paged[page] for page in order[::-1]], axis=1)[None] for paged in pages)
    assert np.array_equal(result[:1], rapt.attention(q, k[:, :, :20], v[:, :, :20]))
    assert np.array_equal(result[1:], rapt.attention(q, k_turned[:, :, :33], v_turned[:, :, :33]))
    tables: list[Any] = [[order, order], order]
    for table in tables:
        with pytest.raises(ValueError, match="block_table has the shape"):
            rapt.attention(q, *pages, block_table=table)
    assert np.array_equal(rapt.attention(q, *pages, block_table=[order]), rapt.attention(q, k, v))
    mask = random.random((9, 50)) < 0.5  # a column for each key of the longest sequence
    assert np.array_equal(
        rapt.attention(q, *pages, block_table=[order], kv_lengths=[50], mask=mask),
        rapt.attention(q, k[:, :, :50], v[:, :, :50], mask=mask),
    )


def test_packed_keys(random: Random) -> None:
    q, k, v = tensors(random, kv_len=130)
    packed = rapt.pack_keys(k)
    assert packed.shape == (2, 2, 3, 16, 64)
    assert np.array_equal(rapt.pack_keys(k[:, :, :128]), packed[:, :, :2])
    assert np.array_equal(packed[1, 0, 1, :, 5], k[1, 0, 69])
    assert np.array_equal(rapt.attention(q, packed, v, packed_keys=True), rapt.attention(q, k, v))
    assert not packed[:, :, 2, :, 2:].any()
    layouts: list[Call] = [np.asfortranarray, tokens_first, lambda x: np.repeat(x, 2, axis=2)[:, :, ::2]]
    for layout in layouts:
        assert np.array_equal(rapt.pack_keys(layout(k)), packed)
    repeated = np.broadcast_to(k[:, :, :1], k.shape)
    assert np.array_equal(rapt.pack_keys(repeated), rapt.pack_keys(repeated.copy()))
    heads_first = np.ascontiguousarray(packed.swapaxes(0, 1)).swapaxes(0, 1)
    assert np.array_equal(rapt.attention(q, heads_first, v, packed_keys=True), rapt.attention(q, k, v))
    with pytest.raises(ValueError, match="contiguous in each head"):
        rapt.attention(q, np.repeat(packed, 2, axis=2)[:, :, ::2], v, packed_keys=True)
    with pytest.raises(ValueError, match="packed|shape"):
        rapt.attention(q, k, v, packed_keys=True)


@pytest.mark.parametrize("tokens_first", [False, True])
@pytest.mark.parametrize("group", [0, 32])
def test_int8(random: Random, on_each_level: OnEachLevel, group: int, tokens_first: bool) -> None:
    q, k, v = tensors(random, dim=64)

    def quantized(x: Array) -> Any:
        """One scale per token and head, or per group: the largest magnitude is 127."""
        groups = x.reshape(*x.shape[:-1], -1, group or x.shape[-1])
        scales = np.abs(groups).max(axis=-1) / np.float32(127)
        values = np.rint(groups / scales[..., None]).astype(np.int8).reshape(x.shape)
        if tokens_first:
            values, scales = (np.ascontiguousarray(y.swapaxes(1, 2)).swapaxes(1, 2) for y in (values, scales))
        return values, scales if group else scales[..., 0]

    (k8, k_scales), (v8, v_scales) = quantized(k), quantized(v)
    options: dict[str, Any] = {"k_scales": k_scales, "v_scales": v_scales, "scale_group": group}
    result = on_each_level(lambda: rapt.attention(q, k8, v8, causal=True, **options))
    np.testing.assert_allclose(result, exact(q, k, v, causal=True)[0], atol=0.1)
    widened = [
        (x.reshape(*x.shape[:-1], -1, group or 64) * s.reshape(*x.shape[:-1], -1, 1)).reshape(x.shape)
        for x, s in ((k8, k_scales), (v8, v_scales))
    ]
    np.testing.assert_allclose(result, exact(q, *widened, causal=True)[0], atol=2e-3)
    assert np.array_equal(
        result,
        rapt.attention(q, rapt.pack_keys(k8), v8, packed_keys=True, causal=True, **options)
        if not tokens_first
        else result,
    )
    with pytest.raises(ValueError, match="k_scales"):
        rapt.attention(q, k8, v8)
    if not tokens_first:
        wide = np.zeros((2, 2, 21, 80), np.int8)
        wide[..., :64] = k8
        with pytest.raises(ValueError, match="k_scales: a stride"):
            rapt.attention(q, wide[..., :64], v8, **options)


def test_values_that_are_part_of_the_keys(random: Random) -> None:
    """Of a latent: values are the first elements of the keys, with the keys' scales."""
    q = random.normal(size=(1, 4, 9, 64)).astype(np.float32)
    k = random.integers(-128, 128, (1, 1, 21, 64), np.int8)
    scales = random.random((1, 1, 21)).astype(np.float32)
    expected = rapt.attention(q, k, k[..., :32].copy(), k_scales=scales, v_scales=scales)
    assert np.array_equal(rapt.attention(q, k, k[..., :32], k_scales=scales, v_scales=scales), expected)
    floats = k.astype(np.float32)
    expected = rapt.attention(q, floats, floats[..., :32].copy())
    assert np.array_equal(rapt.attention(q, floats, floats[..., :32]), expected)


def test_bf16(random: Random, on_each_level: OnEachLevel) -> None:
    q, k, v = (rapt.convert(x, "bf16") for x in tensors(random))
    wide = [rapt.convert(x, "f32") for x in (q, k, v)]
    out = on_each_level(lambda: rapt.attention(q, k, v, causal=True))
    assert out.dtype == np.uint16
    expected = exact(*wide, causal=True)[0]
    np.testing.assert_allclose(rapt.convert(out, "f32"), expected, atol=3e-2)
    precise = rapt.attention(q, k, v, causal=True, arithmetic="f32", out_type="f32")
    np.testing.assert_allclose(precise, expected, atol=1e-5)
    assert np.array_equal(precise, rapt.attention(*wide, causal=True))


def gradient_by_differences(f: Call, x: Array, dout: Array, step: float = 1e-6) -> Any:
    gradient = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        kept = x[index]
        x[index] = kept + step
        above = (f() * dout).sum()
        x[index] = kept - step
        gradient[index] = (above - (f() * dout).sum()) / (2 * step)
        x[index] = kept
    return gradient


@pytest.mark.parametrize("small", [True, False])
def test_backward(random: Random, monkeypatch: pytest.MonkeyPatch, on_each_level: OnEachLevel, small: bool) -> None:
    if not small:
        monkeypatch.setattr(_attention, "SMALL", 0)  # tasks
    q, k, v = tensors(random, q_heads=2, kv_heads=1, q_len=3, kv_len=5, dim=4, dtype=np.float64)
    bias = random.normal(size=(1, 2, 3, 5))
    sinks = random.normal(size=2)
    options: dict[str, Any] = {"causal": True, "bias": bias, "sinks": sinks, "scale": 0.7}
    out, lse = rapt.attention(q, k, v, return_lse=True, **options)
    dout = random.normal(size=out.shape)
    gradients = on_each_level(lambda: tuple(rapt.attention_backward(q, k, v, out, dout, lse, **options)))
    for x, gradient in zip((q, k, v, bias, sinks), gradients):
        by_differences = gradient_by_differences(lambda: rapt.attention(q, k, v, **options), x, dout)
        assert gradient.shape == x.shape
        np.testing.assert_allclose(gradient, by_differences, atol=1e-7)
    for threads in (2, 16):
        for one, other in zip(rapt.attention_backward(q, k, v, out, dout, lse, threads=threads, **options), gradients):
            assert np.array_equal(one, other)


PER_HEAD = [
    {}, {"kv_heads": 4}, {"causal": True, "window_left": 4, "softcap": 3.0}, {"kv_lengths": [5, 21]},
    {"sinks": [0.1, 0.2, 0.3, 0.4], "alibi_slopes": [1.0, 0.5, 0.25, 0.1]}, {"bias": (2, 4, 9, 21)}, {"bias": (4, 9, 21)},
    {"bias": (4, 1, 21), "mask": (2, 4, 9, 21)}, {"bias": (9, 21), "bias_gradient": False}, {"mask": (4, 1, 21)},
    {"query_scales": (2, 4, 9)}, {"query_scales": (4, 1)}, {"gradient_type": "f32", "dtype": np.float16},
    {"q_offsets": [0, 4, 9], "kv_offsets": [1, 10, 21], "sinks": [0.1, 0.2, 0.3, 0.4]},
]  # fmt: skip


@pytest.mark.parametrize("options", PER_HEAD)
@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_gradients_head_by_head(
    random: Random, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], spread: bool, threads: int
) -> None:
    """Long calls give each head its own tasks: the bits of one call."""
    options = dict(options)
    of_gradient = {name: options.pop(name) for name in ("bias_gradient", "gradient_type") if name in options}
    q, k, v = tensors(random, kv_heads=options.pop("kv_heads", 2), dtype=options.pop("dtype", np.float32))
    if "q_offsets" in options:
        q, k, v = q[0], k[0], v[0]
    for name in ("bias", "mask", "query_scales"):
        if name in options:
            numbers = random.normal(size=options[name])
            options[name] = numbers > -1 if name == "mask" else numbers
    if spread:  # [batch][token][head][dim]
        q, k, v = (x.swapaxes(-2, -3).copy().swapaxes(-2, -3) for x in (q, k, v))
    out, lse = rapt.attention(q, k, v, return_lse=True, **options)
    dout = random.normal(size=out.shape).astype(out.dtype)

    def gradients() -> rapt.Gradients:
        return rapt.attention_backward(q, k, v, out, dout, lse, threads=threads, **of_gradient, **options)

    expected = gradients()
    heads: list[int] = []
    make = _attention._of_head

    def of_head(*arguments: Any) -> Any:
        heads.append(arguments[-1])
        return make(*arguments)

    monkeypatch.setattr(_attention, "SMALL", 0)
    together = gradients()
    assert heads == [] and all(one is other or np.array_equal(one, other) for one, other in zip(together, expected))
    monkeypatch.setattr(_attention, "_LONG_TASK", 0)
    monkeypatch.setattr(_attention, "_of_head", of_head)
    for one, other in zip(gradients(), expected):
        assert one is other or (one.dtype == other.dtype and one.tobytes() == other.tobytes())
    assert heads == list(range(k.shape[-3]))


def test_gradients_of_a_bias_for_all_heads_are_one_call(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = tensors(random)
    bias = random.normal(size=(9, 21))
    out, lse = rapt.attention(q, k, v, return_lse=True, bias=bias)
    expected = rapt.attention_backward(q, k, v, out, out, lse, bias=bias)
    monkeypatch.setattr(_attention, "SMALL", 0)
    monkeypatch.setattr(_attention, "_LONG_TASK", 0)
    for one, other in zip(rapt.attention_backward(q, k, v, out, out, lse, bias=bias), expected):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.uint16])
@pytest.mark.parametrize("q_offsets, kv_offsets", [
    ([2, 5, 7], [3, 3, 15]), ([0, 5, 7], [0, 9, 15]), ([4, 9, 9], [8, 15, 21]), ([0, 4, 9], [0, 10, 21]),
    ([3, 3, 3], [5, 5, 5]),
])  # fmt: skip
def test_tokens_of_no_sequence_are_zero(
    random: Random, q_offsets: list[int], kv_offsets: list[int], dtype: npt.DTypeLike
) -> None:
    tensor_type = np.float32 if dtype == np.uint16 else dtype
    q, k, v = (x[0] for x in tensors(random, v_dim=24, dtype=tensor_type))
    if dtype == np.uint16:
        q, k, v = (rapt.convert(x, "bf16") for x in (q, k, v))
    options: dict[str, Any] = {"q_offsets": q_offsets, "kv_offsets": kv_offsets, "causal": True}
    options["bias"] = random.normal(size=(2, 4, max(np.diff(q_offsets)), max(np.diff(kv_offsets)))).astype(
        np.float64 if dtype == np.float64 else np.float32)  # fmt: skip
    options["sinks"] = np.zeros(4)
    out, lse = rapt.attention(q, k, v, return_lse=True, **options)
    gradients = rapt.attention_backward(q, k, v, out, out, lse, **options)

    def expect(array: Array, axis: int, offsets: Any, name: str) -> None:
        by_token = np.moveaxis(array, axis, 0)
        outside = np.r_[by_token[: offsets[0]], by_token[offsets[-1] :]]
        assert not any(outside.tobytes()), name  # no negative zero either
        if array.dtype != np.uint16:
            assert not np.isnan(array).any(), name

    expect(out, 1, q_offsets, "out")
    expect(lse, 1, q_offsets, "lse")
    expect(gradients.dq, 1, q_offsets, "dq")
    expect(gradients.dk, 1, kv_offsets, "dk")
    expect(gradients.dv, 1, kv_offsets, "dv")
    for name in ("dbias", "dsinks"):
        assert not np.isnan(getattr(gradients, name)).any(), name
    for b in range(2):
        rows, keys = slice(*q_offsets[b : b + 2]), slice(*kv_offsets[b : b + 2])
        bias = options["bias"][b][:, : rows.stop - rows.start, : keys.stop - keys.start]
        alone = rapt.attention(q[:, rows], k[:, keys], v[:, keys], causal=True, bias=bias, sinks=options["sinks"])
        assert np.array_equal(out[:, rows], alone)
    # An `out` of the caller's keeps what it has there.
    mine = np.full_like(out, 7)
    assert rapt.attention(q, k, v, out=mine, **options) is mine
    sequences = slice(q_offsets[0], q_offsets[-1])
    assert np.array_equal(mine[:, sequences], out[:, sequences])
    mine[:, sequences] = 7
    assert (mine == 7).all()


def test_gradients_of_keys_past_a_length_are_zero(random: Random) -> None:
    q, k, v = tensors(random)
    bias = random.normal(size=(2, 1, 9, 21)).astype(np.float32)
    options: dict[str, Any] = {"kv_lengths": [5, 0], "bias": bias}
    out, lse = rapt.attention(q, k, v, return_lse=True, **options)
    gradients = rapt.attention_backward(q, k, v, out, out, lse, **options)
    for b, n in enumerate(options["kv_lengths"]):
        assert not any(x.any() for x in (gradients.dk[b, :, n:], gradients.dv[b, :, n:], gradients.dbias[b, ..., n:]))
    assert not out[1].any() and (lse[1] == -np.inf).all() and not gradients.dq[1].any()


def test_what_has_no_gradient(random: Random) -> None:
    q, k, v = tensors(random, kv_len=64)
    out, lse = rapt.attention(q, k, v, return_lse=True)
    scales = np.ones((2, 2, 64), np.float32)
    for change in (
        {"k": rapt.pack_keys(k), "packed_keys": True},
        {"block_table": [[0], [1]]},
        {"k": k.astype(np.int8), "v": v.astype(np.int8), "k_scales": scales, "v_scales": scales},
        {"k": k.astype(np.int8), "v": v.astype(np.int8)},
    ):
        with pytest.raises(TypeError):
            rapt.attention_backward(**{"q": q, "k": k, "v": v, "out": out, "dout": out, "lse": lse, **change})


def test_types_of_queries_and_keys_may_differ(random: Random) -> None:
    q, k, v = (x.astype(np.float16) for x in tensors(random))
    expected = rapt.attention(*(x.astype(np.float32) for x in (q, k, v)))
    assert np.array_equal(rapt.attention(q.astype(np.float32), k, v), expected)
    types: list[tuple[str | None, Call]] = [
        ("f32", lambda x: x),
        ("f16", lambda x: rapt.convert(x, "f16")),
        ("bf16", lambda x: rapt.convert(x, "bf16")),
        (None, lambda x: rapt.convert(x, "f16")),
    ]
    for out_type, convert in types:
        out = rapt.attention(q, k, v, out_type=out_type)
        assert out.dtype == convert(expected).dtype and np.array_equal(out, convert(expected))
        assert np.array_equal(rapt.attention(q, k, v, out_type=out_type, out=np.zeros_like(out)), out)
    with pytest.raises(TypeError, match="out has elements of float32"):
        rapt.attention(q, k, v, out=np.zeros_like(expected))
    dout = random.normal(size=expected.shape).astype(np.float32)
    out, lse = rapt.attention(q.astype(np.float32), k, v, return_lse=True)
    gradients = rapt.attention_backward(q.astype(np.float32), k, v, out, dout, lse)
    assert [x.dtype for x in gradients[:3]] == [np.float32, np.float16, np.float16]


def test_gradients_of_nothing(random: Random) -> None:
    q, k, v = tensors(random)
    options: dict[str, Any] = {"bias": np.ones((9, 21), np.float32), "sinks": np.zeros(4)}
    out, lse = rapt.attention(q[:0], k[:0], v[:0], return_lse=True, **options)
    gradients = rapt.attention_backward(q[:0], k[:0], v[:0], out, out, lse, **options)
    assert [x.shape for x in gradients] == [(0, 4, 9, 16), (0, 2, 21, 16), (0, 2, 21, 16), (9, 21), (4,)]
    assert not gradients.dbias.any() and not gradients.dsinks.any()


@pytest.mark.parametrize("options", [
    {}, {"bias": np.ones((0, 4, 9, 21))}, {"kv_lengths": []}, {"mask": np.ones((9, 21), bool)}, {"out_type": "f16"},
    {"query_scales": np.ones((0, 4, 9))}, {"causal": True, "threads": None}, {"window_left": 3, "softcap": 2.0},
])  # fmt: skip
def test_a_batch_of_0(random: Random, options: dict[str, Any]) -> None:
    q, k, v = (x[:0] for x in tensors(random))
    out, lse = rapt.attention(q, k, v, return_lse=True, **options)
    assert out.shape == q.shape and lse.shape == (0, 4, 9)
    gradients = rapt.attention_backward(q, k, v, out, out, lse, **options)
    assert [x.shape for x in gradients[:3]] == [q.shape, k.shape, v.shape]
    assert (gradients.dbias is None) == ("bias" not in options)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int8])
def test_pack_keys_of_every_type(random: Random, dtype: npt.DTypeLike) -> None:
    q, k, v = tensors(random)
    scales: dict[str, Any] = {}
    if dtype == np.int8:
        k, scales = (9 * k).astype(dtype), {name: np.ones((2, 2, 21)) for name in ("k_scales", "v_scales")}
        v = k
    else:
        q, k, v = q.astype(dtype), k.astype(dtype), v.astype(dtype)
    packed = rapt.pack_keys(k)
    assert packed.dtype == dtype and packed.shape == (2, 2, 1, 16, 64) and not packed[..., 21:].any()
    assert np.array_equal(rapt.attention(q, packed, v, packed_keys=True, **scales), rapt.attention(q, k, v, **scales))
    assert rapt.pack_keys(k[:, :, :0]).shape == (2, 2, 0, 16, 64) and rapt.pack_keys(k[:0]).shape == (0, 2, 1, 16, 64)


@pytest.mark.parametrize("layout", [
    tokens_first, lambda x: np.repeat(x, 2, axis=2)[:, :, ::2], lambda x: x[::-1].copy()[::-1], np.asfortranarray,
], ids=["tokens first", "every second token", "reversed batch", "Fortran"])  # fmt: skip
def test_strides_of_the_gradient(random: Random, layout: Call) -> None:
    q, k, v = tensors(random, v_dim=24)
    bias = random.normal(size=(2, 4, 9, 21)).astype(np.float32)
    out, lse = rapt.attention(q, k, v, bias=bias, return_lse=True)
    dout = random.normal(size=out.shape).astype(np.float32)
    names: dict[str, Any] = {"q": q, "k": k, "v": v, "out": out, "dout": dout, "lse": lse, "bias": bias}
    expected = rapt.attention_backward(**names)
    for name in names:
        result = rapt.attention_backward(**{**names, name: layout(names[name])})
        for gradient, one, other in zip(expected._fields[:4], result, expected):
            assert np.array_equal(one, other), (name, gradient)
    for repeated in (np.broadcast_to(dout[:1], out.shape), np.broadcast_to(dout[..., :1], out.shape)):
        result = attention_backward(**{**names, "dout": repeated})
        for one, other in zip(result[:4], attention_backward(**{**names, "dout": repeated.copy()})):
            assert np.array_equal(one, other)


def test_dbias_is_summed_over_what_bias_repeats(random: Random) -> None:
    q, k, v = tensors(random, dtype=np.float64)
    whole = random.normal(size=(2, 4, 9, 21))
    out, lse = rapt.attention(q, k, v, bias=whole, return_lse=True)
    assert rapt.attention_backward(q, k, v, out, out, lse, bias=whole).dbias.shape == whole.shape
    shape: tuple[int, ...]
    for shape in ((1, 4, 9, 21), (2, 1, 9, 21), (2, 4, 1, 21), (4, 9, 21), (9, 21), (21,), (1, 1, 1, 21)):
        bias = random.normal(size=shape)
        out, lse = rapt.attention(q, k, v, bias=bias, return_lse=True)
        dbias = rapt.attention_backward(q, k, v, out, out, lse, bias=bias).dbias
        expected = rapt.attention_backward(q, k, v, out, out, lse, bias=np.broadcast_to(bias, whole.shape)).dbias
        padded = (1,) * (4 - len(shape)) + shape
        axes = tuple(axis for axis in range(4) if padded[axis] == 1)
        np.testing.assert_allclose(dbias, expected.sum(axis=axes, keepdims=True).reshape(shape), atol=1e-12)
    for shape in ((9, 1), ()):
        with pytest.raises(ValueError, match="bias has the shape"):
            rapt.attention_backward(q, k, v, out, out, lse, bias=np.zeros(shape))


def dimensions(*shapes: tuple[str, int]) -> list[tuple[str, int]]:
    return [(name, axis) for name, rank in shapes for axis in range(rank)]


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("name, axis", dimensions(
    ("q", 4), ("k", 4), ("v", 3), ("out", 4), ("mask", 4), ("bias", 4), ("query_scales", 3), ("sinks", 1),
    ("alibi_slopes", 1), ("kv_lengths", 1), ("kv_starts", 1), ("q_starts", 1)))  # fmt: skip
def test_one_index_more_or_less(random: Random, name: str, axis: int, change: int) -> None:
    q, k, v = tensors(random, batch=3, q_heads=6, kv_heads=3)
    arguments: dict[str, Any] = {
        "q": q,
        "k": k,
        "v": v,
        "out": np.zeros_like(q),
        "mask": np.ones((3, 6, 9, 21), bool),
        "bias": np.ones((3, 6, 9, 21)),
        "query_scales": np.ones((3, 6, 9)),
        "sinks": np.ones(6),
        "alibi_slopes": np.ones(6),
        "kv_lengths": np.full(3, 20),
        "kv_starts": np.full(3, 2),
        "q_starts": np.full(3, 1),
    }
    rapt.attention(**arguments)
    pad = [(0, int(i == axis)) for i in range(arguments[name].ndim)]
    wrong = np.pad(arguments[name], pad) if change == 1 else arguments[name][(slice(None),) * axis + (slice(-1),)]
    with pytest.raises(ValueError):
        attention(**{**arguments, name: np.ascontiguousarray(wrong)})


@pytest.mark.parametrize("change", [-1, 1])
@pytest.mark.parametrize("name, axis", dimensions(
    ("q", 4), ("k", 4), ("v", 4), ("out", 4), ("dout", 4), ("lse", 3), ("bias", 4)))  # fmt: skip
def test_one_index_more_or_less_of_the_gradient(random: Random, name: str, axis: int, change: int) -> None:
    q, k, v = tensors(random, batch=3, q_heads=6, kv_heads=3)
    out, lse = rapt.attention(q, k, v, return_lse=True)
    arguments: dict[str, Any] = {
        "q": q,
        "k": k,
        "v": v,
        "out": out,
        "dout": out,
        "lse": lse,
        "bias": np.ones((3, 6, 9, 21)),
    }
    rapt.attention_backward(**arguments)
    pad = [(0, int(i == axis)) for i in range(arguments[name].ndim)]
    wrong = np.pad(arguments[name], pad) if change == 1 else arguments[name][(slice(None),) * axis + (slice(-1),)]
    with pytest.raises(ValueError):
        attention_backward(**{**arguments, name: np.ascontiguousarray(wrong)})


@pytest.mark.parametrize("axis", range(4))
@pytest.mark.parametrize("name", ["k_scales", "v_scales"])
def test_one_index_more_or_less_of_scales(name: str, axis: int) -> None:
    k = np.ones((3, 2, 5, 64), np.int8)
    scales: dict[str, Any] = {
        "k_scales": np.ones((3, 2, 5, 2), np.float32),
        "v_scales": np.ones((3, 2, 5, 2), np.float32),
    }
    q = np.ones((3, 4, 9, 64), np.float32)
    rapt.attention(q, k, k, scale_group=32, **scales)
    for change in (-1, 1):
        shape = np.array(scales[name].shape)
        shape[axis] += change
        with pytest.raises(ValueError, match=f"{name} has the shape"):
            attention(q, k, k, scale_group=32, **{**scales, name: np.ones(shape, np.float32)})
    with pytest.raises(ValueError, match=f"{name} has the shape"):
        attention(q, k, k, scale_group=32, **{**scales, name: np.ones((3, 2, 5), np.float32)})


def test_gradients_of_16_bits(random: Random) -> None:
    q, k, v = tensors(random, dtype=np.float16)
    out, lse = rapt.attention(q, k, v, return_lse=True)
    dout = random.normal(size=out.shape).astype(np.float16)
    narrow = rapt.attention_backward(q, k, v, out, dout, lse)
    wide = rapt.attention_backward(q, k, v, out, dout, lse, gradient_type="f32")
    for one, other in zip(narrow[:3], wide[:3]):
        assert one.dtype == np.float16 and other.dtype == np.float32
        assert np.array_equal(one, rapt.convert(other, "f16"))
    assert narrow.dbias is None and narrow.dsinks is None
    with pytest.raises(ValueError, match="gradient_type"):
        rapt.attention_backward(q, k, v, out, dout, lse, gradient_type="f16")


def test_steps_from_dot_product_to_score(random: Random) -> None:
    q, k, v = tensors(random)
    queries, keys = np.arange(9)[:, None] + 12, np.arange(21)  # positions
    scales = random.random((2, 4, 9))
    np.testing.assert_allclose(
        rapt.attention(q, k, v, query_scales=scales), exact(q * scales[..., None], k, v)[0], atol=1e-5
    )
    np.testing.assert_allclose(
        rapt.attention(q, k, v, query_scales=scales[0, :, :1]), exact(q * scales[0, :, :1, None], k, v)[0], atol=1e-5
    )
    slopes = random.random(4)
    bias = slopes[:, None, None] * (keys - queries)
    np.testing.assert_allclose(rapt.attention(q, k, v, alibi_slopes=slopes), exact(q, k, v, bias=bias)[0], atol=1e-5)
    scores = q @ np.repeat(k, 2, axis=1).swapaxes(-1, -2) / 4
    np.testing.assert_allclose(
        rapt.attention(q, k, v, softcap=0.5), exact(q, k, v, bias=0.5 * np.tanh(scores / 0.5) - scores)[0], atol=1e-5
    )


@pytest.mark.parametrize("options, sees", [
    ({"window_left": 3}, lambda query, key: key > query - 3),
    ({"window_right": 3}, lambda query, key: key < query + 3),
    ({"window_chunk": 8}, lambda query, key: key // 8 == query // 8),
    ({"causal_offset": 2}, lambda query, key: key <= query - 12 + 2),
])  # fmt: skip
def test_what_a_query_sees(random: Random, options: dict[str, Any], sees: Call) -> None:
    q, k, v = tensors(random)
    mask = sees(np.arange(9)[:, None] + 12, np.arange(21))
    assert np.array_equal(rapt.attention(q, k, v, **options), rapt.attention(q, k, v, mask=mask))
    # Bytes other than 0 include a key.
    assert np.array_equal(rapt.attention(q, k, v, **options), rapt.attention(q, k, v, mask=255 * mask.astype(np.uint8)))


@pytest.mark.parametrize("name, words", [
    ("window_left", "the w keys that end at a query's position, its own included (FlashInfer's window_left of w - 1)"),
    ("window_right", "the w keys that begin at a query's position, its own included"),
    ("window_chunk", "the keys of the chunk of w keys that has a query's position"),
])  # fmt: skip
def test_minus_1_is_no_window(random: Random, name: str, words: str) -> None:
    q, k, v = tensors(random)
    for off in (-1, np.int64(-1), -5):
        with pytest.raises(ValueError) as error:
            attention(q, k, v, **{name: off})
        assert str(error.value) == f"{name} is {off}, but it is off as None or 0, not as -1: w are {words}"
        with pytest.raises(ValueError, match="is off as None or 0"):
            attention_backward(q, k, v, q, q, q[..., 0], **{name: off})
    for no_number in (1.0, "1", np.array([-1, -1])):
        with pytest.raises(TypeError, match=name):
            attention(q, k, v, **{name: no_number})


def test_window_left_counts_the_keys_that_a_query_sees(random: Random) -> None:
    """FlashInfer's window_left of w shows w + 1 keys: its 0 is rapt's 1, the query's own position."""
    q, k, v = tensors(random, q_len=21)
    assert np.array_equal(rapt.attention(q, k, v, causal=True, window_left=1), np.repeat(v, 2, axis=1))
    for w in (1, 2, 5):
        weights = rapt.attention(
            q, k, np.broadcast_to(np.eye(21, dtype=np.float32), (2, 2, 21, 21)), window_left=w, window_right=1
        )
        assert ((weights > 0).sum(-1) == np.minimum(np.arange(21) + 1, w)).all()


def test_what_is_off(random: Random) -> None:
    q, k, v = tensors(random)
    for name in ("scale", "softcap", "window_left", "window_right", "window_chunk", "causal", "causal_offset"):
        assert np.array_equal(attention(q, k, v, **{name: None}), attention(q, k, v)), name
    assert np.array_equal(rapt.attention(q, k, v, causal=np.False_), rapt.attention(q, k, v))
    assert np.array_equal(rapt.attention(q, k, v, causal=np.True_), rapt.attention(q, k, v, causal=True))


def test_few_queries_split_the_keys(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = tensors(random, q_len=1, kv_len=1100)
    splits: list[Any] = []
    split_keys = _attention._split_keys
    monkeypatch.setattr(_attention, "SMALL", 0)  # which runs at once, without tasks
    monkeypatch.setattr(_attention, "_split_keys", lambda *arguments: splits.append(split_keys(*arguments)))
    for threads in (4, 5):
        rapt.attention(q, k, v, threads=threads)
    assert len(splits) == 1  # there are 4 tasks
    rapt.attention(q, k[:, :, :512], v[:, :, :512], threads=5)
    assert len(splits) == 1


def test_tasks_on_threads(random: Random, monkeypatch: pytest.MonkeyPatch, workers: list[int]) -> None:
    monkeypatch.setattr(_attention, "SMALL", 0)
    q, k, v = tensors(random)
    out, lse = rapt.attention(q, k, v, return_lse=True, threads=3)
    rapt.attention_backward(q, k, v, out, out, lse, threads=2)
    assert workers == [2, 1]  # and the caller


def test_errors_of_threads(random: Random) -> None:
    q, k, v = tensors(random)
    both = np.zeros(2 * q.size, np.float32)
    with pytest.raises(ValueError, match="overlaps"):
        rapt.attention(both[: q.size].reshape(q.shape), k, v, out=both[16 : 16 + q.size].reshape(q.shape), threads=3)


# The library takes 0 for its default, and would read or write past an array without elements.
def test_empty_dimensions(random: Random) -> None:
    q, k, v = tensors(random)
    with pytest.raises(ValueError, match="no heads"):
        rapt.attention(q, k[:, :0], v[:, :0])
    with pytest.raises(ValueError, match="no elements in a row"):
        rapt.attention(q[0, 0, :1], k[0, 0], v[0, 0, :, :0])
    pages = np.zeros((2, 2, 16, 16), np.float32)
    tables: list[Any] = [(np.zeros((2, 0), np.int32), [16, 0]), ([[0], [1]], [17, 0])]
    for table, lengths in tables:
        with pytest.raises(ValueError, match="pages of 16"):
            rapt.attention(q, pages, pages, block_table=table, kv_lengths=lengths)
    out, lse = rapt.attention(q[:0], k[:0], v[:0], return_lse=True, kv_lengths=[])
    assert out.shape == (0, 4, 9, 16) and lse.shape == (0, 4, 9)


def test_nothing_to_do(random: Random) -> None:
    q, k, v = tensors(random)
    assert rapt.attention(q[:, :, :0], k, v).shape == (2, 4, 0, 16)
    assert not rapt.attention(q, k[:, :, :0], v[:, :, :0]).any()


def test_the_gil_is_free(random: Random) -> None:
    """Another thread runs while this one is inside rapt.

    With such a switch interval, nothing but rapt's own release of the GIL lets the other thread run.
    One call may end before the system starts that thread, so that the calls repeat.
    """
    q, k, v = tensors(random, batch=1, q_heads=8, kv_heads=8, q_len=256, kv_len=256, dim=64)
    ran, called = threading.Event(), threading.Event()

    def run() -> None:
        called.wait()
        ran.set()

    thread = threading.Thread(target=run, daemon=True)
    interval = sys.getswitchinterval()
    thread.start()
    sys.setswitchinterval(1000)  # a thread that holds the GIL keeps it
    try:
        called.set()
        for _ in range(1000):
            rapt.attention(q, k, v)
            if ran.is_set():
                break
        else:
            pytest.fail("no call of 1000 let another thread run")
    finally:
        sys.setswitchinterval(interval)
        called.set()
        thread.join()


@pytest.mark.parametrize("change, words", [
    ({"q": np.zeros((2, 3, 9, 16), np.float32)}, "q has 3 heads and k 2: 3 is no multiple of 2"),
    ({"q": np.zeros(16, np.float32)}, "q has 1 dimensions"),
    ({"k": np.zeros((2, 2, 20, 16), np.float32)}, "k has the shape"),
    ({"k": np.zeros((2, 2, 16, 21), np.float32)}, "k has the shape"),
    ({"window_left": 2**63}, "window_left"),
    ({"q": np.zeros((3, 4, 9, 16), np.float32)}, "q has 3 sequences"),
    ({"scale": float("inf")}, "scale"),
    ({"softcap": -1.0}, "softcap"),
    ({"causal": "left"}, "causal"),
    ({"window_left": -1}, "window_left"),
    ({"kv_lengths": [30, 1]}, "kv_lengths"),
    ({"kv_lengths": [1]}, "kv_lengths"),
    ({"arithmetic": "bf16"}, "arithmetic"),
    ({"arithmetic": "exact"}, "arithmetic"),
    ({"out_type": "i8"}, "out_type"),
    ({"out": np.zeros((2, 4, 9, 15), np.float32)}, "out has the shape"),
    ({"mask": np.ones((9, 20), bool)}, "mask has the shape"),
    ({"sinks": [1.0]}, "sinks"),
    ({"threads": 0}, "threads"),
    ({"q_offsets": [0, 9]}, "q_offsets"),
    ({"kv_lengths": [2**32 + 5, 1]}, "beyond int32"),
    ({"window_left": 2**64}, "window_left"),
    ({"causal_offset": 2**64}, "causal_offset"),
    ({"causal_offset": 1, "causal": True}, "causal"),
    ({"scale": 0}, "scale"),
    ({"query_scales": np.ones(7)}, "query_scales has the shape"),
    ({"out": np.zeros((2, 4, 9, 32), np.float32)[..., ::2]}, "contiguous"),
    ({"out": np.zeros((2, 4, 9, 16), np.float32)[:, ::-1]}, "negative stride"),
    ({"q": np.float32(1)}, "q has 0 dimensions"),
    ({"scale_group": 32}, "scale"),
])  # fmt: skip
def test_bad_arguments(random: Random, change: dict[str, Any], words: str) -> None:
    q, k, v = tensors(random)
    arguments: dict[str, Any] = {"q": q, "k": k, "v": v, **change}
    with pytest.raises(ValueError, match=words):
        rapt.attention(**arguments)


def test_offsets_lead_nowhere_else(random: Random) -> None:
    q, k, v = (x[0] for x in tensors(random))
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"q_offsets": [0, 10], "kv_offsets": [0, 21]}, "q_offsets leads out of the 9 tokens"),
        ({"q_offsets": [0, 9], "kv_offsets": [0, 22]}, "kv_offsets leads out of the 21 tokens"),
        ({"q_offsets": [-1, 9], "kv_offsets": [0, 21]}, "q_offsets leads out"),
        ({"q_offsets": [4, 2], "kv_offsets": [0, 21]}, "offsets"),
        ({"q_offsets": [[0, 4], [4, 9]], "kv_offsets": [0, 10, 21]}, "q_offsets must have"),
        ({"q_offsets": [0], "kv_offsets": [0]}, "q_offsets must have"),
    ]
    for options, words in wrong:
        with pytest.raises(ValueError, match=words):
            rapt.attention(q, k, v, **options)


def test_the_gradient_refuses_other_results(random: Random) -> None:
    q, k, v = tensors(random)
    out, lse = rapt.attention(q, k, v, return_lse=True)
    for change in (
        {"lse": lse.astype(np.float64)},
        {"lse": lse[:1]},
        {"out": out.astype(np.float64)},
        {"dout": out[:1]},
    ):
        with pytest.raises(ValueError, match=next(iter(change))):
            rapt.attention_backward(q, k, v, **{"out": out, "dout": out, "lse": lse, **change})


@pytest.mark.parametrize("change", [
    {"v": np.zeros((2, 2, 21, 16))}, {"q": np.zeros((2, 4, 9, 16), np.complex64)}, 
    {"kv_lengths": [1.5, 2.5]}, {"dropout": 0.1}, {"out": np.zeros((2, 4, 9, 16)).tolist()}, {"q": None}, {"v": np.zeros((2, 2, 21, 16), ">f4")},
])  # fmt: skip
def test_bad_types(random: Random, change: dict[str, Any]) -> None:
    q, k, v = tensors(random)
    with pytest.raises(TypeError):
        rapt.attention(**{"q": q, "k": k, "v": v, **change})


def test_dlpack(random: Random) -> None:
    q, k, v = tensors(random)
    expected = rapt.attention(q, k, v)
    views = [np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (q, k, v)]
    out = np.zeros_like(q)
    attention(*map(Tensor, views), out=Tensor(out))
    assert np.array_equal(out, expected)
    assert np.array_equal(rapt.softmax(Tensor(q)), rapt.softmax(q))


def test_dlpack_without_elements() -> None:
    empty = Tensor(np.zeros((0, 4), np.float32), data=None)
    assert rapt.softmax(empty).shape == (0, 4)
    q = Tensor(np.zeros((1, 0, 8), np.float32), data=None)
    assert rapt.attention(q, *np.ones((2, 1, 3, 8), np.float32)).shape == (1, 0, 8)


def test_memory_of_dlpack_is_kept(random: Random) -> None:
    owner = random.normal(size=(4, 16)).astype(np.float32)
    alive = weakref.ref(owner)
    array = _arrays.as_array(Tensor(owner), "x")
    del owner
    gc.collect()
    assert alive() is not None
    del array
    gc.collect()
    assert alive() is None


def test_fields_of_dlpack(random: Random) -> None:
    x = random.normal(size=(4, 16)).astype(np.float32)
    whole = np.concatenate([x, x[::-1]])
    assert np.array_equal(rapt.softmax(Tensor(whole[:4], byte_offset=4 * 64)), rapt.softmax(x[::-1]))
    with pytest.raises(ValueError, match="memory of the CPU"):
        rapt.softmax(Tensor(x, device_type=2))
    for fields in ({"lanes": 2}, {"code": 5}, {"bits": 4}):
        with pytest.raises(TypeError, match="element type"):
            rapt.softmax(Tensor(x, **fields))


def test_memory_of_dlpack_is_freed(random: Random) -> None:
    q = random.normal(size=(4, 16)).astype(np.float32)
    before = sys.getrefcount(q)
    for _ in range(100):
        rapt.softmax(Tensor(q))
    assert sys.getrefcount(q) == before


def test_examples() -> None:
    outcome = doctest.testmod(_attention, extraglobs={"rapt": rapt, "np": np})
    assert outcome.failed == 0 and outcome.attempted > 4
