"""Rotary position embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import (
    as_array,
    as_integers,
    as_numbers,
    broadcast,
    check_output,
    chosen,
    element_type,
    empty,
    readable,
    tensor_strides,
)
from ._library import F64, I8, REPEAT, C, RopeFrequencyOptions, RopeOptions, check

LAYOUTS = {None: 0, "halves": 0, "pairs": 1}
ROPE_TYPES = {None: 0, "default": 0, "linear": 1, "llama3": 2, "yarn": 3}


def rope(
    x: Any,
    frequencies: Any,
    positions: Any = 0,
    *,
    layout: str | None = None,
    attention_factor: float = 1.0,
    backward: bool = False,
    out: Any = None,
) -> np.ndarray:
    """x with the pairs of elements of every head turned by the angles of its token's position.

    x is [batch][heads][tokens][head_dim] of f32, f64, f16 or bf16, where leading dimensions may be missing. For
    [batch][tokens][heads][head_dim] pass x.transpose(0, 2, 1, 3), which is not copied. The result has x's shape and type.
    rapt.h has its bits and its accuracy.

    frequencies        radians for a step of the position, such as the first result of rope_frequencies. The first
                       2 * len(frequencies) elements of a head turn, and the others are copied
    positions          the first token's position, the others count on; or integers that broadcast to [batch][tokens]. Their
                       magnitudes are at most 2**24
    layout             "halves": element i with i + len(frequencies), as Hugging Face's Llama and Qwen; "pairs": element 2i with
                       2i + 1, as GPT-J and llama2.c
    attention_factor   a factor of sines and cosines, such as the second result of rope_frequencies
    backward           turn back: the gradient of x from that of the result

    `out` may be x.

    >>> frequencies, _ = rapt.rope_frequencies(4)
    >>> rapt.rope(np.array([[1, 0, 0, 0]], np.float32), frequencies, 1)
    array([[0.5403023 , 0.        , 0.84147096, 0.        ]], dtype=float32)
    """
    x = readable(as_array(x, "x"))
    rapt_type = element_type(x, "x")
    if rapt_type == I8:
        raise TypeError("x has elements of int8, which rope lacks")
    if not 2 <= x.ndim <= 4:
        raise ValueError(f"x has {x.ndim} dimensions, not 2 to 4")
    shape = (1, 1, *x.shape)[-4:]
    frequencies = np.ascontiguousarray(as_numbers(frequencies, "frequencies", F64))
    if frequencies.ndim != 1 or not 1 <= len(frequencies) <= shape[3] // 2:
        raise ValueError(f"frequencies have the shape {frequencies.shape}, for heads of {shape[3]} elements")
    if out is None:
        result = empty(x.shape, rapt_type, x)
    else:
        result = check_output(as_array(out, "out"), "out", x.shape, (rapt_type,))
    options = RopeOptions(
        type=rapt_type,
        layout=chosen(LAYOUTS, "layout", layout),
        batch=shape[0],
        heads=shape[1],
        tokens=shape[2],
        head_dim=shape[3],
        rotary_dim=2 * len(frequencies),
        x_strides=tensor_strides(x),
        y_strides=tensor_strides(result),
        frequencies=frequencies.ctypes.data,
        attention_factor=attention_factor,
        backward=backward,
    )
    if attention_factor == 0:
        raise ValueError("attention_factor is 0")
    given = as_integers(positions, "positions")
    if given.ndim == 0:
        position = int(given)
        if abs(position) > 1 << 24:
            raise ValueError(f"positions begin with {position}, beyond 2**24")
        options.first_position = position
    elif 0 not in shape:
        if given.dtype == np.uint64 and given.max() > 1 << 24:
            raise ValueError("a position is above 2**24")
        given = given.astype(np.int64, copy=False)
        is_shared = given.ndim == 1 or given.shape[0] == 1
        rows = np.ascontiguousarray(broadcast(given, (1 if is_shared else shape[0], shape[2]), "positions"))
        options.positions = rows.ctypes.data
        options.positions_stride = REPEAT if is_shared else 0
    if 0 not in shape:
        check(C.rapt_rope(x.ctypes.data, result.ctypes.data, options))
    return result


def rope_frequencies(
    rotary_dim: int,
    base: float = 10000.0,
    *,
    rope_type: str | None = None,
    factor: float = 0.0,
    original_max_position_embeddings: int = 0,
    low_freq_factor: float = 0.0,
    high_freq_factor: float = 0.0,
    beta_fast: float = 0.0,
    beta_slow: float = 0.0,
    truncate: bool = True,
    mscale: float = 0.0,
    mscale_all_dim: float = 0.0,
    attention_factor: float | None = None,
) -> tuple[np.ndarray, float]:
    """The frequencies of a model and its attention factor, for rope.

    rotary_dim   partial_rotary_factor * head_dim, even
    base         rope_theta

    factor, original_max_position_embeddings, low_freq_factor, high_freq_factor, beta_fast, beta_slow, truncate, mscale and
    mscale_all_dim are those of rope_scaling in a model's config.json: rope_frequencies(128, 500000, **config["rope_scaling"]).
    rope_type is "default", "linear", "llama3" or "yarn"; a field that it does not use is an error. attention_factor, where it
    is given, is the second result. rapt.h has the formulas, which are the same bits on every CPU and system.

    >>> rapt.rope_frequencies(4)
    (array([1.  , 0.01]), 1.0)
    """
    if rotary_dim < 0 or original_max_position_embeddings < 0:
        raise ValueError("rotary_dim or original_max_position_embeddings is negative")
    options = RopeFrequencyOptions(
        rotary_dim=rotary_dim,
        base=base,
        scaling=chosen(ROPE_TYPES, "rope_type", rope_type),
        factor=factor,
        original_max_position_embeddings=original_max_position_embeddings,
        low_freq_factor=low_freq_factor,
        high_freq_factor=high_freq_factor,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        no_truncate=not truncate,
        mscale=mscale,
        mscale_all_dim=mscale_all_dim,
    )
    frequencies, computed = np.empty(rotary_dim // 2), np.empty(1)
    check(C.rapt_rope_frequencies(frequencies.ctypes.data, computed.ctypes.data, options))
    return frequencies, float(computed[0]) if attention_factor is None else attention_factor
