"""Every status that attention and linear layers can meet from Python, and what it says: Python's names, and numbers."""

import re
from typing import Any

import numpy as np
import pytest
from kinds import Array, Call
from numpy.lib.stride_tricks import as_strided

import rapt
from rapt import _attention_call, _attention_errors, _errors, _linear, _norms, _rope, _rows
from rapt._status import Status

F = np.float32
Q, K = np.ones((2, 4, 9, 16), F), np.ones((2, 2, 21, 16), F)
X, W = np.ones((6, 64), F), np.ones((64, 64), F)

OF_C = r"->|\b(q|kv)_heads\b|\b(q|kv)_len\b|\b(qk|v|head)_dim\b|RAPT|rapt_|\bnull\b|_features\b|\bw_|\b[xy]_(type|stride)|_t\b|workspace"


def attention(changes: Any = None, q: Array = Q, k: Array = K, v: Array = K, **options: Any) -> Any:
    return rapt.attention(q, k, v, **options, **(changes or {}))


def backward(q: Array = Q, k: Array = K, v: Array = K, **options: Any) -> Any:
    out = np.ones((*q.shape[:-1], v.shape[-1]), q.dtype)
    return rapt.attention_backward(
        q, k, v, out, out, np.ones(q.shape[:-1], float if q.dtype == float else F), **options
    )


def int8(**options: Any) -> Any:
    k, scales = np.ones((2, 2, 21, 64), np.int8), np.ones((2, 2, 21))
    options = {"k_scales": scales, "v_scales": scales, **options}
    return rapt.attention(np.ones((2, 4, 9, 64), F), k, k, **options)


def doubles(function: Call, **options: Any) -> Any:
    return function(q=Q.astype(float), k=K.astype(float), v=K.astype(float), **options)


def ragged(**options: Any) -> Any:
    return rapt.attention(Q[0], K[0], K[0], q_offsets=[0, 4, 9], kv_offsets=[0, 4, 21], **options)


def of_size(tokens: int) -> Any:
    k = np.broadcast_to(F(1), (1, tokens, 1))
    return rapt.attention(np.ones((1, 1, 1), F), k, k)


PAGES = np.ones((4, 2, 16, 16), F)
BETWEEN = "its magnitude must be from 1.175e-38 to 2.359e+38 in float32"
SOFTCAP = "0 (off) or from 1.175e-38 to 3.403e+38 in float32, and so is the magnitude of scale / softcap, which is"
FLOAT64 = "do not go together: float64 goes only with float64"

# Calls, their statuses, and messages. Both attention and its gradient have the calls that name `function`.
ATTENTION: list[tuple[Call, Status | None, str]] = [
    (lambda f: f(q=np.ones((2, 3, 9, 16), F)), Status.HEADS, "q has 3 heads and k 2: 3 is no multiple of 2"),
    (lambda f: f(scale=1e39), Status.SCALE, f"scale is 1e+39: {BETWEEN}"),
    (lambda f: f(scale=float("nan")), Status.SCALE, f"scale is nan: {BETWEEN}"),
    (lambda f: f(softcap=-1.0), Status.SOFTCAP, f"softcap is -1.0: {SOFTCAP} -0.25"),
    (lambda f: f(softcap=1e38, scale=1e-5), Status.SOFTCAP, f"softcap is 1e+38: {SOFTCAP} 1e-43"),
    (lambda f: f(q=Q.astype(float)), Status.TYPE, f"q of float64 and k and v of float32 {FLOAT64}"),
    (lambda f: f(k=K.astype(float), v=K.astype(float)), Status.TYPE, f"q of float32 and k and v of float64 {FLOAT64}"),
    (lambda f: f(q=Q.astype(np.int8)), Status.TYPE, "q has elements of int8: only k and v may have them"),
    (lambda f: f(arithmetic="bf16"), Status.ARITHMETIC,
     "arithmetic is 'bf16', which needs a q, k and v of bf16, not q of float32 and k and v of float32"),
    (lambda f: f(arithmetic="i8"), Status.ARITHMETIC,
     "arithmetic is 'i8', which only linear has: attention has 'f32' and 'bf16'"),
    (lambda f: f(kv_lengths=[3, -1]), Status.KV_LENGTHS, "kv_lengths[1] is -1, but sequence 1 has 21 keys"),
    (lambda f: f(kv_lengths=[22, 1]), Status.KV_LENGTHS, "kv_lengths[0] is 22, but sequence 0 has 21 keys"),
    (lambda f: f(kv_starts=[0, -1]), Status.KV_STARTS, "kv_starts[1] is -1, but sequence 1 has 21 keys"),
    (lambda f: f(kv_starts=[7, 4], kv_lengths=[6, 9]), Status.KV_STARTS, "kv_starts[0] is 7, but sequence 0 has 6 keys"),
    (lambda f: f(q_starts=[0, 10]), Status.Q_STARTS, "q_starts[1] is 10, but sequence 1 has 9 queries"),
]  # fmt: skip
ONLY_ATTENTION: list[tuple[Call, Status | None, str]] = [
    (lambda: attention(out_type="f64"), Status.TYPE, "out_type is 'f64' with a q of float32: f64 goes only with f64"),
    (lambda: doubles(attention, out_type="f32"), Status.TYPE,
     "out_type is 'f32' with a q of float64: f64 goes only with f64"),
    (lambda: doubles(attention, arithmetic="f32"), Status.ARITHMETIC,
     "arithmetic is 'f32' with a q of float64, whose arithmetic is its own"),
    (lambda: int8(arithmetic="bf16"), Status.ARITHMETIC,
     "arithmetic is 'bf16', which needs a q, k and v of bf16, not q of float32 and k and v of int8"),
    (lambda: attention(q=np.ones((1, 1, 4), F), k=np.ones((1, 1, 4), F), v=np.ones((1, 1, 2**20 + 1), F)), Status.DIM,
     "heads of 4 and 1048577 elements: 1 to 1048576 are possible"),
    (lambda: attention(v=(v := K.repeat(2, 1)), k=K.repeat(2, 1), out=v[:, :, :9]), Status.OVERLAP,
     "out overlaps an input: it may be exactly q, where v has as many elements in a row, and nothing else"),
    (lambda: attention(out=as_strided(np.ones(99, F), Q.shape, (4, 8, 12, 4))), Status.OUT_STRIDES,
     "out has strides of [1, 2, 3] elements from batch, head and token to the next, with which rows overlap"),
    (lambda: attention(out=as_strided(np.ones(999, F), Q.shape, (0, 0, 64, 4))), Status.OUT_STRIDES,
     "out has strides of [0, 0, 16] elements from batch, head and token to the next, with which rows overlap"),
    (lambda: ragged(kv_lengths=[5, 2]), Status.KV_LENGTHS, "kv_lengths[0] is 5, but sequence 0 has 4 keys"),
    (lambda: attention(k=PAGES, v=PAGES, block_table=[[1, 2], [0, -3]]), Status.BLOCK_TABLE,
     "block_table[1, 1] is -3: no page has that number"),
    (lambda: attention(k=PAGES, v=PAGES, block_table=[[-1, -2], [0, 1]], kv_starts=[16, 0]), Status.BLOCK_TABLE,
     "block_table[0, 1] is -2: no page has that number"),
    (lambda: attention(k=PAGES, v=PAGES, block_table=[[1, 2], [0, 3]], kv_starts=[16, 8]), Status.KV_STARTS,
     "kv_starts[1] is 8, no multiple of 16: a sequence in pages begins at one"),
    (lambda: attention(key_lists=[[20, 3], [21, -1]]), Status.KEY_LISTS,
     "key_lists[1, 0, 0, 0] is 21: k and v have 21 tokens"),
    (lambda: attention(key_lists=[[20, 3], [2, -1]], key_list_lengths=[2, 3]), Status.KEY_LIST_LENGTHS,
     "key_list_lengths[1, 0, 0] is 3, but lists have 2 entries"),
    (lambda: attention(key_lists=[[20, 3], [2, -1]], key_list_lengths=[2, 1], causal=True), Status.QUERIES_PER_LIST,
     "key_lists of several lists, or with key_list_lengths, together with causality, a window or alibi_slopes: these count from "
     "a query's position, which needs one list for all queries"),
    (lambda: attention(k=rapt.pack_keys(K), packed_keys=True, kv_starts=[0, 16]), Status.KV_STARTS,
     "kv_starts[1] is 16, no multiple of 64: a sequence in packed keys begins at one"),
    (lambda: ragged(kv_starts=[1, 1]), None,
     "kv_starts and kv_offsets both say where sequences begin: only one of them may be given"),
    (lambda: ragged(q_starts=[1, 1]), None,
     "q_starts and q_offsets both say where queries begin: only one of them may be given"),
    (lambda: rapt.attention(Q[0], rapt.pack_keys(K[0]), K[0], packed_keys=True, q_offsets=[0, 9], kv_offsets=[0, 21]),
     Status.PACKED_KEYS, "packed_keys is True with kv_offsets: packed keys of sequences end to end are not possible"),
    (lambda: of_size(2**60), Status.SIZE,
     f"q of (1, 1, 1), k of (1, {2**60}, 1) and v of (1, {2**60}, 1) are larger than memory can be"),
    # What Python finds itself has no status.
    (lambda: rapt.attention_backward(Q, K, K, Q, Q, Q[..., :1]), None,
     "lse is float32 of the shape (2, 4, 9, 1), not float32 of (2, 4, 9)"),
    (lambda: rapt.attention_backward(Q, K, K, Q, Q[0], Q[..., 0]), None,
     "dout is float32 of the shape (4, 9, 16), not f32 of (2, 4, 9, 16)"),
    (lambda: attention(causal_offset=2**61), None, f"causal_offset is {2**61}, above {2**60}"),
    (lambda: int8(scale_group=16), None, "scale_group is 16, not 32, 64 or 128"),
    (lambda: int8(scale_group=128), None, "scale_group is 128, which does not divide heads of 64 and 64 elements"),
    (lambda: int8(v_scales=None), None, "keys and values of int8 need v_scales"),
    (lambda: attention(k_scales=1.0), None, "k_scales is for keys and values of int8 and i4, not of float32"),
    (lambda: backward(k=K.astype(np.int8), v=K.astype(np.int8)), None, "k and v have elements of int8, which have no gradient"),
    (lambda: attention(q_offsets=[0, 9]), None, "a tensor with q_offsets has no batch dimension, not one of 2"),
    (lambda: attention(k=PAGES, v=PAGES, block_table=[[1, 2], [0, 4]]), None, "block_table names page 4 of 4"),
    (lambda: attention(k=K[:, :, :0], v=K[:, :, :0], block_table=[[0], [1]]), None, "v has pages of 0 keys"),
    (lambda: rapt.pack_keys(np.ones(3, F)), None, "k has 1 dimensions, not 2 to 31"),
    (lambda: rapt.pack_keys(np.ones((3, 0), F)), None, "k has rows of 0 elements, not of 1 to 1048576"),
    (lambda: rapt.pack_keys(np.ones((1, 2**20 + 1), F)), None, "k has rows of 1048577 elements, not of 1 to 1048576"),
    (lambda: rapt.pack_keys(np.ones((3, 4), np.int16)), None,
     "k has elements of int16, which rapt lacks: np.asarray(k, np.float32) has numbers of f32"),
]  # fmt: skip


def quantized(type: Any = "i8", **options: Any) -> rapt.PackedWeights:
    q, scales = rapt.quantize_rows(W, type, options.get("scale_group", 0))
    return rapt.pack_quantized(q, type, scales, **options)


def with_codebook() -> rapt.PackedWeights:
    return rapt.pack_quantized(np.ones((64, 32), np.uint8), "u4", np.ones((64, 1), F), codebook=np.full(16, 0.5))


def damaged(at: int, change: int) -> rapt.PackedWeights:
    good = quantized()
    data = good.data.copy()
    data[at] ^= change
    return rapt.PackedWeights(good.shape, good.type, data)


def spoilt(at: int, change: int) -> rapt.PackedWeights:
    """Damaged after the check."""
    good = quantized()
    good.data[at] ^= change
    return good


DAMAGED = "the packed weights are damaged, or not those of 64 outputs and 64 inputs of i8"
UNITS = "group of w, or 512)"
LINEAR: list[tuple[Call, Status | None, str]] = [
    (lambda: rapt.linear(x := X.copy(), W, out=x), Status.OVERLAP,
     "out overlaps an input: it may be exactly add, and nothing else"),
    (lambda: rapt.linear(X, W, arithmetic="bf16"), Status.ARITHMETIC, "x of f32 and w of f32 have no arithmetic 'bf16'"),
    (lambda: rapt.linear(X, quantized(), arithmetic="bf16"), Status.ARITHMETIC,
     "x of f32 and w of i8 have no arithmetic 'bf16'"),
    (lambda: rapt.linear(X, rapt.pack_weights(W), arithmetic="i8"), Status.ARITHMETIC,
     "x of f32 and w of f32 have no arithmetic 'i8'"),
    (lambda: rapt.linear(X, with_codebook(), arithmetic="i8"), Status.W_CODEBOOK,
     "arithmetic is 'i8', whose codebooks are integers from -128 to 127"),
    (lambda: rapt.linear(X, W, x_group=32), Status.X_GROUP, "x_group is 32, which has an effect only in arithmetic 'i8'"),
    (lambda: rapt.linear(X, quantized(), x_group=-1), Status.X_GROUP,
     "x_group is -1, which has an effect only in arithmetic 'i8'"),
    (lambda: rapt.linear(X, quantized("i4", scale_group=32), arithmetic="i8", x_group=48), Status.X_GROUP,
     f"x_group is 48, no multiple of 32 (the scale {UNITS}"),
    (lambda: rapt.linear(X, quantized(), arithmetic="i8", x_group=48), Status.X_GROUP,
     f"x_group is 48, no multiple of 512 (the scale {UNITS}"),
    (lambda: rapt.linear(X, damaged(0, 255)), Status.PACKED, DAMAGED),
    (lambda: damaged(36, 255), Status.W_SCALES, DAMAGED),
    (lambda: damaged(41, 255), Status.W_ZEROS, DAMAGED),
    (lambda: damaged(43, 255), Status.W_CODEBOOK, DAMAGED),
    (lambda: rapt.unpack_quantized(spoilt(9, 1)), Status.PACKED, DAMAGED),
    (lambda: rapt.unpack_quantized(spoilt(36, 255)), Status.W_SCALES, DAMAGED),
    (lambda: rapt.unpack_quantized(spoilt(41, 255)), Status.PACKED, DAMAGED),
    (lambda: rapt.unpack_quantized(spoilt(43, 255)), Status.PACKED, DAMAGED),
    (lambda: rapt.unpack_weights(quantized()), None, "w has weights of i8, which unpack_quantized takes"),
    (lambda: rapt.unpack_quantized(rapt.pack_weights(W)), None, "w has weights of f32, which unpack_weights takes"),
    (lambda: rapt.PackedWeights((64, 64), "i4", b"0" * 2368, 48), Status.SCALE_GROUP,
     "scale_group is 48, not 0, 16, 32, 64, 128 or 256"),
    (lambda: rapt.pack_weights(np.broadcast_to(F(1), (2**50, 2**8))), Status.SIZE,
     f"weights of {2**50} outputs and 256 inputs and 0 rows of x are larger than memory can be"),
    (lambda: damaged(42, 255), None, "data has 4416 bytes, not the 4672 of (64, 64) in i8"),
    (lambda: rapt.linear(X, W, out=as_strided(np.ones(999, F), (6, 64), (4, 4))), None,
     "out has no single stride from row to row"),
    (lambda: rapt.linear(X[:, 1:], W), None, "x has the shape (6, 63) and w (64, 64): other inputs"),
    (lambda: rapt.linear(X, W.astype(float)), None, "w has elements of float64 with an x of float32: f64 goes only with f64"),
    (lambda: rapt.pack_weights(np.ones((3, 0))), None, "w has the shape (3, 0): no inputs"),
    (lambda: rapt.pack_weights([W, W[:, 1:]]), None, "w[0] has the shape (64, 64) and w[1] (64, 63): other inputs"),
    (lambda: rapt.pack_weights([W, W.astype(float)]), None, "w[0] has elements of float32 and w[1] float64"),
    (lambda: rapt.pack_weights(W.astype(np.int8)), None, "w has elements of int8, which linear lacks"),
    (lambda: rapt.quantize_rows(X.astype(float)), None, "x has elements of float64, which have no integers"),
    (lambda: rapt.quantize_rows(X[0]), None, "x has 1 dimensions, not 2"),
    (lambda: rapt.quantize_rows(X, "u4"), None, "type is 'u4', not one of i8, i4"),
    (lambda: rapt.quantize_rows(X, group=-1), None, "group is -1, below 0"),
]  # fmt: skip


LLAMA3: dict[str, Any] = {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}
YARN: dict[str, Any] = {**LLAMA3, "rope_type": "yarn"}
NORMAL = "1.175e-38 to 3.403e+38 in float32"
POWERS = "both from 2**-256 to 2**256"
BOTH = np.ones((9, 64), F)
ROWS: list[tuple[Call, Status | None, str]] = [
    (lambda: rapt.softmax(X, scale=1e39), Status.SCALE, f"scale is 1e+39: {BETWEEN}"),
    (lambda: rapt.logsumexp(X.astype(np.float16), scale=1e39), Status.SCALE, f"scale is 1e+39: {BETWEEN}"),
    (lambda: rapt.softmax(X.astype(float), scale=1e-310, axis=0), Status.SCALE,
     "scale is 1e-310: its magnitude must be from 2.225e-308 to 1.246e+308 in float64"),
    (lambda: rapt.log_softmax(X, softcap=-1.0), Status.SOFTCAP, f"softcap is -1.0: {SOFTCAP} -1"),
    (lambda: rapt.softmax_backward(X, X, 1e39), None, "scale is 1e+39, which is not finite in float32"),
    (lambda: rapt.softmax(X, row_lengths=[1, 2, 3, 4, 65, 6]), None, "row_lengths holds 65, and rows have 64 elements"),
    (lambda: rapt.softmax(X, axis=0, mask=np.ones((1, 1, 1), bool)), None,
     "mask has the shape (1, 1, 1), with an x of 2 dimensions"),
    (lambda: rapt.softmax(X, row_lengths=-2), None, "row_lengths holds -2, a negative length"),
    (lambda: rapt.logsumexp(X, empty_rows_are_zero=True), None,
     "empty_rows_are_zero is True, which logsumexp lacks: a row of -inf has -inf"),
    (lambda: rapt.rms_norm(X, eps=-1), Status.EPS, f"eps is -1.0: 0 or from {NORMAL}"),
    (lambda: rapt.layer_norm_backward(X, X, eps=np.nan), Status.EPS, f"eps is nan: 0 or from {NORMAL}"),
    (lambda: rapt.rms_norm(X.astype(np.float16), weight_plus_one=True), Status.WEIGHT,
     "weight_plus_one is True, and there is no weight"),
    (lambda: rapt.rope(X, [np.nan, 1025]), None, "frequencies[0] is nan: its magnitude must be at most 1024"),
    (lambda: rapt.rope(X, [1, -1025]), None, "frequencies[1] is -1025.0: its magnitude must be at most 1024"),
    (lambda: rapt.rope(X, [1], attention_factor=1e39), Status.ATTENTION_FACTOR,
     f"attention_factor is 1e+39: its magnitude must be from {NORMAL}"),
    (lambda: rapt.rope(X, [1], [0, 1, 2, 3, -(2**24) - 1, 5]), None,
     "positions hold -16777217: their magnitudes are at most 16777216"),
    (lambda: rapt.rope(X, [1], 2**24 - 4), None, "positions is 16777212, and the last of 6 tokens is above 16777216"),
    (lambda: rapt.rope(X, [1], out=as_strided(np.ones(999, F), (6, 64), (16, 4))), Status.Y_STRIDES,
     "out has strides of [0, 0, 4] elements from batch, head and token to the next, with which rows overlap"),
    (lambda: rapt.rope_frequencies(7), Status.ROTARY_DIM, "rotary_dim is 7: it must be even, and not 0"),
    (lambda: rapt.rope_frequencies(8, 1), Status.BASE, "base is 1.0: above 1, and at most 2**512"),
    (lambda: rapt.rope_frequencies(8, 0), Status.BASE, "base is 0.0: above 1, and at most 2**512"),
    (lambda: rapt.rope_frequencies(8, factor=2), Status.SCALING_FACTOR,
     "factor is 2.0, which rope_type 'default' does not use"),
    (lambda: rapt.rope_frequencies(8, rope_type="linear", factor=-2), Status.SCALING_FACTOR,
     "factor is -2.0: from 2**-256 to 2**256"),
    (lambda: rapt.rope_frequencies(8, original_max_position_embeddings=7), Status.ORIGINAL_LENGTH,
     "original_max_position_embeddings is 7, which rope_type 'default' does not use"),
    (lambda: rapt.rope_frequencies(8, rope_type="yarn", factor=2), Status.ORIGINAL_LENGTH,
     "original_max_position_embeddings is 0, and rope_type 'yarn' needs it"),
    (lambda: rapt.rope_frequencies(8, **YARN, high_freq_factor=4), Status.FREQ_FACTORS,
     "high_freq_factor is 4.0, which rope_type 'yarn' does not use"),
    (lambda: rapt.rope_frequencies(8, **LLAMA3, low_freq_factor=5), Status.FREQ_FACTORS,
     f"low_freq_factor is 5.0 and high_freq_factor 4.0: {POWERS}, and the second one is larger"),
    (lambda: rapt.rope_frequencies(8, **LLAMA3, beta_slow=1), Status.BETAS,
     "beta_slow is 1.0, which rope_type 'llama3' does not use"),
    (lambda: rapt.rope_frequencies(8, **YARN, beta_slow=33), Status.BETAS,
     f"beta_fast is 32.0 and beta_slow 33.0: {POWERS}, and the first one is larger"),
    (lambda: rapt.rope_frequencies(8, **LLAMA3, truncate=False), Status.TRUNCATE,
     "truncate is False, which rope_type 'llama3' does not use"),
    (lambda: rapt.rope_frequencies(8, mscale=2), Status.MSCALE, "mscale is 2.0, which rope_type 'default' does not use"),
    (lambda: rapt.rope_frequencies(8, **YARN, mscale=2), Status.MSCALE,
     f"mscale is 2.0 and mscale_all_dim 0.0: {POWERS}, or none is given"),
    (lambda: rapt.softmax(BOTH[:6], out=BOTH[3:]), None, "out overlaps x without being exactly x"),
    (lambda: rapt.softmax(X, mask=BOTH.view(np.uint8)[:6, :64], out=BOTH[:6]), None, "out overlaps mask"),
    (lambda: rapt.log_softmax(X, bias=BOTH[0], out=BOTH[:6]), None, "out overlaps bias"),
    (lambda: rapt.logsumexp(X, sinks=BOTH[0, :6], out=BOTH[0, 3:9]), None, "out overlaps sinks"),
    (lambda: rapt.softmax_backward(X, BOTH[:6], out=BOTH[3:]), None, "out overlaps dy without being exactly dy"),
    (lambda: rapt.rms_norm(X, BOTH[5], out=BOTH[:6]), None, "out overlaps weight"),
    (lambda: rapt.layer_norm(X, residual=BOTH[:6], out=BOTH[:6]), None, "out overlaps residual"),
    (lambda: rapt.layer_norm(BOTH[:6], residual=BOTH[:6]), None, "residual overlaps x"),
    (lambda: rapt.layer_norm_backward(X, X, BOTH[5], out=BOTH[:6]), None, "out overlaps weight"),
    (lambda: rapt.gated(X, BOTH[:6], out=BOTH[3:]), None, "out overlaps up without being exactly up"),
    (lambda: rapt.rope(BOTH[:6], [1], out=BOTH[3:]), None, "out overlaps x without being exactly x"),
    (lambda: rapt.rope(X, BOTH.view(float)[5, :4], out=BOTH[:6]), None, "out overlaps frequencies"),
]  # fmt: skip


@pytest.fixture
def statuses(monkeypatch: pytest.MonkeyPatch) -> list[Status]:
    """Those that the library has returned."""
    seen: list[Status] = []
    for module in (_attention_call, _linear, _rows, _norms, _rope):
        make: Call = module.error

        def error(status: Status, *call: Any, make: Call = make) -> Any:
            seen.append(status)
            return make(status, *call)

        monkeypatch.setattr(module, "error", error)
    return seen


def refused(call: Call, status: Status | None, message: str, statuses: list[Status]) -> None:
    statuses.clear()
    with pytest.raises((ValueError, TypeError)) as error:
        call()
    assert str(error.value) == message and not re.search(OF_C, message)
    assert (statuses[-1] if statuses else None) == status


@pytest.mark.parametrize("function", [attention, backward])
def test_attention_and_its_gradient(statuses: list[Status], function: Call) -> None:
    for call, status, message in ATTENTION:
        refused(lambda: call(function), status, message, statuses)


def test_attention(statuses: list[Status]) -> None:
    for case in ONLY_ATTENTION:
        refused(*case, statuses)


def test_linear(statuses: list[Status]) -> None:
    for case in LINEAR:
        refused(*case, statuses)


def test_rows(statuses: list[Status]) -> None:
    for case in ROWS:
        refused(*case, statuses)


def test_every_text_is_here() -> None:
    texts = set(_attention_errors._TEXTS) | {Status.TYPE}
    assert texts == {status for _, status, _ in ATTENTION + ONLY_ATTENTION if status is not None}
    assert set(_errors._TEXTS) == {status for _, status, _ in ROWS if status is not None}
    provoked = {status for *_, status, _ in ATTENTION + ONLY_ATTENTION + LINEAR + ROWS if status is not None}
    # The first is mended without a message. rope and the levels have texts of their own for the others.
    assert set(Status) - provoked == {Status.WORKSPACE, Status.FREQUENCIES, Status.ISA_NAME}


def test_ways_out() -> None:
    """A common mistake is told what to write in its place."""
    q, scales = rapt.quantize_rows(W)
    dequantize_rows: Call = rapt.dequantize_rows
    pack_quantized: Call = rapt.pack_quantized
    wrong: list[tuple[Call, str]] = [
        (lambda: rapt.softmax([1, 2, 3]), "x has elements of int64, which rapt lacks: np.asarray(x, np.float32) has "),
        (
            lambda: rapt.dot(np.ones(3, int), np.ones(3, int)),
            "a has elements of int64, which rapt lacks: np.asarray(a, ",
        ),
        (lambda: rapt.linear(W, np.ones((3, 32), bool)), "w has elements of bool, which rapt lacks: np.asarray(w, "),
        (lambda: dequantize_rows(q, scales), "not one of i8, i4, u4, u8: it comes after q and before scales"),
        (
            lambda: pack_quantized(q, scales),
            "not one of i8, i4, u4, u8, f8_e4m3, f8_e5m2: it comes after q and before scales",
        ),
    ]
    for call, words in wrong:
        with pytest.raises(TypeError, match=re.escape(words)):
            call()
    with pytest.raises(TypeError, match="x has elements of complex64, which rapt lacks$"):
        rapt.softmax(np.ones(3, np.complex64))


def test_levels() -> None:
    levels = ", ".join(rapt.isas())
    for name in ("avx1024", "scalar\0", "\ud800", ""):
        with pytest.raises(ValueError) as error:
            rapt.force_isa(name)
        assert (
            str(error.value) == f"name is {name!r}: no instruction set of that name is compiled in: there are {levels}"
        )
        assert rapt.kernel_isa(f"softmax_f32{name}\0") is None
    wrong: list[tuple[Call, Any, str]] = [
        (rapt.force_isa, 3, "name is 3, not the name of a level"),
        (rapt.kernel_isa, 3, "kernel is 3, not the name of a kernel"),
        (rapt.kernel_isa, b"softmax_f32", "kernel is b'softmax_f32', not the name of a kernel"),
    ]
    for call, argument, words in wrong:
        with pytest.raises(TypeError) as refusal:
            call(argument)
        assert str(refusal.value) == words
