"""Odd arguments to attention and linear layers: a ValueError or a TypeError that has the user's words, and nothing else."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kinds import Call
from test_misuse import ODD

import rapt
from rapt import _library

# Words of the C interface, which a caller of Python never wrote.
WORDS_OF_C = ("->", "RAPT_", "rapt_", " null", "q_heads", "qk_dim", "v_dim", "kv_len ", "w_strides", "enum", "span")


def ones(*shape: int, dtype: npt.DTypeLike = np.float32) -> Any:
    return np.ones(shape, dtype)


def attention(**change: Any) -> Any:
    return rapt.attention(**{"q": ones(2, 4, 3, 8), "k": ones(2, 2, 5, 8), "v": ones(2, 2, 5, 8), **change})


def packed_attention(**change: Any) -> Any:
    k = ones(2, 2, 64, 8)
    return rapt.attention(**{"q": ones(2, 4, 3, 8), "k": rapt.pack_keys(k), "v": k, "packed_keys": True, **change})


def int8_attention(**change: Any) -> Any:
    k, scales = ones(2, 2, 5, 32, dtype=np.int8), ones(2, 2, 5)
    return rapt.attention(**{"q": ones(2, 4, 3, 32), "k": k, "v": k, "k_scales": scales, "v_scales": scales, **change})


def sequences(**change: Any) -> Any:
    tensors: dict[str, Any] = {"q": ones(4, 6, 8), "k": ones(2, 9, 8), "v": ones(2, 9, 8)}
    tensors |= {"q_offsets": [0, 2, 6], "kv_offsets": [0, 4, 9]}
    return rapt.attention(**{**tensors, **change})


def pages(**change: Any) -> Any:
    k = ones(3, 2, 16, 8)
    return rapt.attention(**{"q": ones(2, 4, 3, 8), "k": k, "v": k, "block_table": [[0, 1], [2, 0]], **change})


def backward(**change: Any) -> Any:
    out = ones(2, 4, 3, 8)
    tensors: dict[str, Any] = {
        "q": out,
        "k": ones(2, 2, 5, 8),
        "v": ones(2, 2, 5, 8),
        "out": out,
        "dout": out,
        "lse": ones(2, 4, 3),
    }
    return rapt.attention_backward(**{**tensors, **change})


def linear(**change: Any) -> Any:
    return rapt.linear(**{"x": ones(2, 4), "w": ones(3, 4), **change})


def quantized(**change: Any) -> Any:
    return rapt.linear(**{"x": ones(2, 4), "w": rapt.pack_quantized(ones(3, 4, dtype=np.int8), "i8"), **change})


def blocks(**change: Any) -> Any:
    w = rapt.pack_blocks(np.zeros((3, 144), np.uint8), "Q4_K")
    return rapt.linear(**{"x": ones(2, 256), "w": w, **change})


def pack_quantized(**change: Any) -> Any:
    return rapt.pack_quantized(**{"q": ones(3, 4, dtype=np.uint8), "type": "u4", **change})


WORDS: dict[str, Any] = {"qzeros": np.zeros((1, 1), np.int32), "scales": ones(1, 8)}


def pack_gptq(**change: Any) -> Any:
    function: Call = rapt.pack_gptq
    return function(**{"qweight": np.zeros((1, 8), np.int32), **WORDS, **change})


def pack_awq(**change: Any) -> Any:
    return rapt.pack_awq(**{"qweight": np.zeros((8, 1), np.int32), **WORDS, **change})


def dequantize(**change: Any) -> Any:
    return rapt.dequantize_rows(**{"q": ones(3, 4, dtype=np.uint8), "type": "u4", **change})


SCORES = ["scale", "softcap", "query_scales", "alibi_slopes", "sinks", "bias", "mask", "causal", "causal_offset",
          "window_left", "window_right", "window_chunk", "kv_lengths", "kv_starts", "q_starts"]  # fmt: skip
CALLS: dict[str, tuple[Call, list[str]]] = {
    "attention": (attention, ["q", "k", "v", *SCORES, "packed_keys", "return_lse", "out", "threads", "arithmetic", "out_type",
                              "k_scales", "scale_group"]),
    "packed keys": (packed_attention, ["q", "k", "v", "packed_keys", "kv_lengths"]),
    "int8": (int8_attention, ["q", "k", "v", "k_scales", "v_scales", "scale_group", "arithmetic", "out_type"]),
    "sequences": (sequences, ["q", "k", "v", "q_offsets", "kv_offsets", "kv_lengths", "bias", "mask", "block_table"]),
    "pages": (pages, ["q", "k", "v", "block_table", "kv_lengths", "mask", "kv_offsets"]),
    "backward": (backward, ["q", "k", "v", "out", "dout", "lse", *SCORES, "gradient_type", "threads", "arithmetic", "out_type",
                            "q_offsets", "kv_offsets"]),
    "pack_keys": (rapt.pack_keys, ["k"]),
    "linear": (linear, ["x", "w", "bias", "row_scales", "add", "x_rows", "y_rows", "arithmetic", "x_group", "out_type", "out",
                        "threads"]),
    "quantized": (quantized, ["x", "arithmetic", "x_group", "out_type"]),
    "pack_weights": (rapt.pack_weights, ["w"]),
    "unpack_weights": (lambda w=rapt.pack_weights(ones(3, 4)): rapt.unpack_weights(w), ["w"]),
    "unpack_quantized": (lambda w=rapt.pack_quantized(ones(3, 4, dtype=np.int8), "i8"): rapt.unpack_quantized(w), ["w"]),
    "pack_quantized": (pack_quantized, ["q", "type", "scales", "in_features", "scale_group", "zeros", "offsets", "codebook"]),
    "pack_gptq": (pack_gptq, ["qweight", "qzeros", "scales", "g_idx", "v2", "bits"]),
    "pack_awq": (pack_awq, ["qweight", "qzeros", "scales"]),
    "blocks": (blocks, ["x", "arithmetic", "x_group", "out_type"]),
    "pack_blocks": (lambda blocks=ones(3, 34, dtype=np.uint8), type="Q8_0": rapt.pack_blocks(blocks, type), ["blocks", "type"]),
    "unpack_blocks": (lambda w=rapt.pack_blocks(ones(3, 34, dtype=np.uint8), "Q8_0"): rapt.unpack_blocks(w), ["w"]),
    "packed_rows": (lambda w=rapt.pack_weights(ones(3, 4)), rows=(0, 2), **change: rapt.packed_rows(w, rows, **change),
                    ["w", "rows", "out_type"]),
    "dequantize_rows": (dequantize, ["q", "type", "scales", "in_features", "group", "zeros", "offsets", "codebook", "out_type"]),
    "quantize_rows": (lambda x=ones(2, 4), **change: rapt.quantize_rows(x, **change), ["x", "type", "group"]),
    "PackedWeights": (lambda shape=(3, 4), type="f32", data=bytes(64 + 64 * 16), scale_group=0:
                      rapt.PackedWeights(shape, type, data, scale_group), ["shape", "type", "data", "scale_group"]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, arguments = CALLS[name]
    monkeypatch.setattr(_library.C, "rapt_status_text", lambda status: pytest.fail(f"status {status} has C's words"))
    if not name.startswith("pack_"):
        function()
    wrong: list[tuple[str, Any, Exception]] = []
    for argument in arguments:
        for odd in [*ODD, np.ma.masked_array(ones(2, 4)), np.nan, -1, [-1], [10**30], [None], ["a"], [[]]]:
            try:
                function(**{argument: odd})
            except (TypeError, ValueError) as error:
                if type(error) not in (TypeError, ValueError) or any(
                    word in str(error) for word in (*WORDS_OF_C, "expected ")
                ):
                    wrong.append((argument, odd, error))
            except Exception as error:
                wrong.append((argument, odd, error))
    assert not wrong, "\n".join(f"{a}={odd!r:.60}: {type(e).__name__} {e}" for a, odd, e in wrong)


@pytest.mark.parametrize("call, names", [
    (attention, ["q", "k", "v", "bias", "mask", "query_scales", "sinks", "alibi_slopes", "kv_lengths", "out"]),
    (int8_attention, ["k_scales", "v_scales"]), (sequences, ["q_offsets", "kv_offsets"]), (pages, ["block_table"]),
    (backward, ["q", "k", "v", "out", "dout", "lse", "bias"]), (rapt.pack_keys, ["k"]), (rapt.pack_weights, ["w"]),
    (linear, ["x", "w", "bias", "row_scales", "add", "x_rows", "y_rows", "out"]), (rapt.quantize_rows, ["x"]),
    (pack_quantized, ["q", "scales", "zeros", "offsets", "codebook"]),
    (dequantize, ["q", "scales", "zeros", "offsets", "codebook"]),
    (pack_gptq, ["qweight", "qzeros", "scales", "g_idx"]), (pack_awq, ["qweight", "qzeros", "scales"]),
])  # fmt: skip
def test_masked_arrays_are_refused(call: Call, names: list[str]) -> None:
    masked: Call = np.ma.masked_array
    for name in names:
        more = {"out": ones(2, 3)} if name == "y_rows" else {}
        with pytest.raises(TypeError, match=f"{name} is a masked array"):
            call(**{**more, name: masked([[1, 1]])})
    with pytest.raises(TypeError, match="data is a masked array"):
        rapt.PackedWeights((3, 4), "f32", masked(np.zeros(1024, np.uint8)))
