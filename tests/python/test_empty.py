"""Attention and linear layers without elements: every shape that a call takes, `out=` and the gradient take, too."""

import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from kinds import Array, Call

import rapt


def zeros(*shape: int) -> Array:
    return np.zeros(shape, np.float32)


def tokens_first(batch: int, tokens: int, dim: int = 8) -> Array:
    return zeros(batch, tokens, 2, dim).swapaxes(1, 2)


def heads_first(batch: int, tokens: int, dim: int = 8) -> Array:
    return zeros(batch, 2, tokens, dim)


SHAPES = [shape for shape in itertools.product((0, 2), (0, 3), (0, 5)) if 0 in shape]


@pytest.mark.parametrize("layout", [heads_first, tokens_first])
@pytest.mark.parametrize("batch, q_len, kv_len", SHAPES)
def test_attention(batch: int, q_len: int, kv_len: int, layout: Call) -> None:
    q, k, v = layout(batch, q_len), layout(batch, kv_len), layout(batch, kv_len)
    every: list[dict[str, Any]] = [
        {},
        {"bias": zeros(q_len, kv_len), "sinks": [0.0, 0.0]},
        {"mask": np.ones((q_len, kv_len), bool), "kv_lengths": [kv_len] * batch},
    ]
    for options in every:
        out = layout(batch, q_len) + 1
        again, lse = rapt.attention(q, k, v, out=out, return_lse=True, **options)
        assert again is out and not out.any() and lse.shape == (batch, 2, q_len)
        gradients = rapt.attention_backward(q, k, v, out, out, lse, **options)
        assert [x.shape for x in gradients[:3]] == [q.shape, k.shape, v.shape]
        assert not any(x.any() for x in gradients if x is not None)
    packed = rapt.attention(q, rapt.pack_keys(k), v, packed_keys=True)
    assert packed.shape == q.shape and not packed.any()


def test_pages_and_sequences() -> None:
    pages = zeros(0, 2, 16, 8)
    for batch in (0, 2):
        out = rapt.attention(zeros(batch, 2, 3, 8), pages, pages, block_table=np.zeros((batch, 0), np.int32))
        assert out.shape == (batch, 2, 3, 8) and not out.any()
    x = zeros(2, 0, 8)
    assert rapt.attention(x, x, x, q_offsets=[0, 0, 0], kv_offsets=[0, 0, 0]).shape == x.shape
    with pytest.raises(ValueError, match="threads"):
        rapt.attention(x[:, None], x[:, None], x[:, None], threads=0)


@pytest.mark.parametrize("rows, outputs", [(0, 0), (0, 3), (2, 0)])
def test_linear(rows: int, outputs: int) -> None:
    x, w = zeros(rows, 4), zeros(outputs, 4)
    for out in (zeros(rows, outputs), zeros(rows, outputs + 2)[:, :outputs]):
        packed = [rapt.pack_weights(w), rapt.pack_quantized(w.astype(np.int8), "i8")]
        every: list[Array | rapt.PackedWeights] = [w, zeros(4, outputs).T, *packed]
        for weights in every:
            options: dict[str, Any] = {"add": out, "row_scales": np.ones(rows)}
            assert rapt.linear(x, weights, zeros(outputs), out=out, **options) is out
            assert rapt.linear(zeros(4, rows).T, weights).shape == (rows, outputs)
    for type in ("i8", "i4"):
        q, scales = rapt.quantize_rows(x, type)
        assert scales.shape == (rows, 1) and rapt.dequantize_rows(q, type, scales).shape == x.shape
    assert rapt.quantize_rows(x[:, :0])[1].shape == (rows, 0)


def test_packed_weights_without_outputs() -> None:
    packed = rapt.pack_weights(zeros(0, 4))
    every: list[dict[str, Any]] = [{}, {"codebook": range(16), "offsets": [[1]]}, {"zeros": 8, "scales": zeros(0, 1)}]
    for parts in every:
        quantized = rapt.pack_quantized(np.zeros((0, 4), np.uint8), "u4", **parts)
        assert rapt.linear(zeros(3, 8), quantized).shape == (3, 0)
        back = rapt.unpack_quantized(quantized)
        assert back["q"].shape == (0, 4) and back.keys() - {"q", "type", "in_features", "scale_group"} == parts.keys()
        assert quantized.data.tobytes().startswith(b"\0raptlw1") and len(quantized.data) == (
            128 if "codebook" in parts else 64
        )
    words = np.zeros((2, 0), np.int32), np.zeros((1, 0), np.int32), zeros(1, 0)
    assert rapt.pack_gptq(*words).shape == (0, 16)
    assert rapt.pack_awq(np.zeros((8, 0), np.int32), *words[1:]).shape == (0, 8)
    assert rapt.unpack_weights(packed).shape == rapt.packed_rows(packed, []).shape == (0, 4)
    for again in (pickle.loads(pickle.dumps(packed)), rapt.PackedWeights((0, 4), "f32", packed.data.tobytes())):
        assert again.shape == (0, 4) and rapt.linear(zeros(3, 4), again).shape == (3, 0)
