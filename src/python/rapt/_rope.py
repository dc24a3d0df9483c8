# mypy: no-warn-unused-ignores
"""Rotary position embedding."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, overload

import numpy as np

from ._arguments import choice, flag, integer, number
from ._arrays import (
    Array,
    TensorLike,
    Torch,
    address,
    arithmetic_type,
    as_array,
    as_integers,
    as_numbers,
    as_output,
    broadcast,
    check_output,
    element_type,
    empty,
    in_kind_of,
    readable,
    tensor_strides,
)
from ._errors import error
from ._library import BF16, F16, F32, F64, REPEAT, ROPE_TYPES, C, RopeFrequencyOptions, RopeOptions
from ._pieces import PIECE, in_pieces, refuse_overlaps
from ._prepared import Prepared, joins
from ._status import Status

Layout = Literal["halves", "pairs", None]
LAYOUTS = {None: 0, "halves": 0, "pairs": 1}
_FARTHEST = 1 << 24


def _prepare_rope(
    x: Any,
    frequencies: TensorLike,
    positions: TensorLike,
    layout: Layout,
    attention_factor: float,
    backward: bool,
    out: Any,
) -> Prepared[Any]:
    given = as_array(x, "x")
    array = readable(given)
    rapt_type = element_type(array, "x")
    if rapt_type not in (F32, F64, F16, BF16):
        raise TypeError(f"x has elements of {array.dtype.name}, and rope has f32, f64, f16 and bf16")
    if not 2 <= array.ndim <= 4:
        raise ValueError(f"x has {array.ndim} dimensions, not 2 to 4")
    shape = (1, 1, *array.shape)[-4:]
    radians = as_numbers(frequencies, "frequencies", F64)
    if radians.ndim != 1 or not 1 <= len(radians) <= shape[3] // 2:
        raise ValueError(f"frequencies have the shape {radians.shape}, for heads of {shape[3]} elements")
    radians = np.ascontiguousarray(radians)
    if out is None:
        result = empty(array.shape, rapt_type, array)
    else:
        result = check_output(as_output(out), "out", array.shape, (rapt_type,))
    factor = number(attention_factor, "attention_factor")
    if factor == 0:
        raise ValueError("attention_factor is 0")
    options = RopeOptions(
        type=rapt_type,
        layout=choice(LAYOUTS, "layout", layout),
        batch=shape[0],
        heads=shape[1],
        tokens=shape[2],
        head_dim=shape[3],
        rotary_dim=2 * len(radians),
        frequencies=address(radians),
        attention_factor=factor,
        backward=flag(backward, "backward"),
    )
    is_long = array.size > PIECE
    # Of contiguous arrays, the library knows the strides. A piece is not contiguous.
    if is_long or not array.flags.c_contiguous:
        options.x_strides = tensor_strides(array)
    if is_long or not result.flags.c_contiguous:
        options.y_strides = tensor_strides(result)
    rows = _set_positions(options, positions, shape)
    kept = array, result, radians, rows, options
    returned = out if out is not None else in_kind_of(x, result)
    copied = "" if array is given else "x"
    if array.size == 0:
        return Prepared(_nothing, (), returned, kept, copied)
    if is_long:
        _refuse_overlaps(array, result, radians, rows)
        piece = partial(_piece, array, result, options)
        return Prepared(in_pieces, (piece, shape[2]), returned, kept, copied, _failed)
    return Prepared(C.rapt_rope, (address(array), address(result), options), returned, kept, copied, _failed)


def _refuse_overlaps(x: Array, result: Array, frequencies: Array, positions: Array | None) -> None:
    refuse_overlaps(result, {"x": x}, {"frequencies": frequencies, "positions": positions})


def _failed(status: int, kept: tuple[Any, ...]) -> None:
    *arrays, options = kept
    if status == Status.OVERLAP:
        _refuse_overlaps(*arrays)
    if status == Status.FREQUENCIES:
        frequencies = arrays[2]
        i = int(np.argmin(np.abs(frequencies) <= 1024))
        raise ValueError(f"frequencies[{i}] is {frequencies[i]}: its magnitude must be at most 1024")
    raise error(status, options, arithmetic_type(options.type))


def _set_positions(options: RopeOptions, positions: TensorLike, shape: tuple[int, ...]) -> Array | None:
    if type(positions) is not int:
        given = as_integers(positions, "positions")
        if given.ndim == 0:
            positions = int(given)
    if type(positions) is int:
        last = max(shape[2] - 1, 0)
        options.first_position = integer(positions, "positions", -_FARTHEST, _FARTHEST)
        if positions + last > _FARTHEST:
            raise ValueError(f"positions is {positions}, and the last of {shape[2]} tokens is above {_FARTHEST}")
        return None
    if 0 in shape:
        return None
    is_shared = given.ndim == 1 or given.shape[0] == 1
    rows = broadcast(given, (1 if is_shared else shape[0], shape[2]), "positions")
    for position in rows.min(), rows.max():
        if not -_FARTHEST <= position <= _FARTHEST:
            raise ValueError(f"positions hold {position}: their magnitudes are at most {_FARTHEST}")
    rows = np.ascontiguousarray(rows, np.int64)
    options.positions = address(rows)
    options.positions_stride = REPEAT if is_shared else rows.shape[1]
    return rows


def _nothing() -> None:
    pass


def _piece(x: Array, y: Array, options: RopeOptions, first: int, count: int) -> Any:
    """A part of the tokens."""
    part = options.changed(tokens=count)
    if options.positions:
        part.positions = options.positions + 8 * first
    else:
        part.first_position = options.first_position + first
    return C.rapt_rope(address(x) + first * x.strides[-2], address(y) + first * y.strides[-2], part)


# fmt: off
@overload
def rope(  # type: ignore[misc]
    x: Torch, frequencies: TensorLike, positions: TensorLike = 0, *, layout: Layout = None, attention_factor: float = 1.0,
    backward: bool = False, out: Torch | None = None,
) -> Torch: ...
@overload
def rope(
    x: TensorLike, frequencies: TensorLike, positions: TensorLike = 0, *, layout: Layout = None,
    attention_factor: float = 1.0, backward: bool = False, out: Array | None = None,
) -> Array: ...
# fmt: on


def rope(
    x: Any,
    frequencies: TensorLike,
    positions: TensorLike = 0,
    *,
    layout: Layout = None,
    attention_factor: float = 1.0,
    backward: bool = False,
    out: Any = None,
) -> Any:
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

    out                takes the result, and may be x

    A TypeError is another type of elements, or positions that are no integers. A ValueError is another shape, a position or
    a frequency out of range, an attention_factor of 0, or an overlap.

    >>> frequencies, _ = rapt.rope_frequencies(4)
    >>> rapt.rope(np.array([[1, 0, 0, 0]], np.float32), frequencies, 1)
    array([[0.5403023 , 0.        , 0.84147096, 0.        ]], dtype=float32)
    """
    return _prepare_rope(x, frequencies, positions, layout, attention_factor, backward, out)()


joins(rope, _prepare_rope)


def rope_frequencies(
    rotary_dim: int,
    base: float = 10000.0,
    *,
    rope_type: Literal["default", "linear", "llama3", "yarn", None] = None,
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
) -> tuple[Array, float]:
    """The frequencies of a model and its attention factor, for rope.

    rotary_dim   partial_rotary_factor * head_dim, even
    base         rope_theta

    factor, original_max_position_embeddings, low_freq_factor, high_freq_factor, beta_fast, beta_slow, truncate, mscale and
    mscale_all_dim are those of rope_scaling in a model's config.json: rope_frequencies(128, 500000, **config["rope_scaling"]).
    rope_type is "default", "linear", "llama3" or "yarn"; a field that it does not use is an error. attention_factor, where it
    is given, is the second result. rapt.h has the formulas, which are the same bits on every CPU and system. The frequencies
    are f64 [rotary_dim / 2], in radians for a step of the position.

    A TypeError is no number, or no integer where one is needed. A ValueError is a number out of range, or one that rope_type
    does not use.

    >>> rapt.rope_frequencies(4)
    (array([1.  , 0.01]), 1.0)
    """
    options = RopeFrequencyOptions(
        rotary_dim=integer(rotary_dim, "rotary_dim", 0, 1 << 24),
        base=number(base, "base"),
        scaling=choice(ROPE_TYPES, "rope_type", rope_type),
        factor=number(factor, "factor"),
        original_max_position_embeddings=integer(original_max_position_embeddings, "original_max_position_embeddings"),
        low_freq_factor=number(low_freq_factor, "low_freq_factor"),
        high_freq_factor=number(high_freq_factor, "high_freq_factor"),
        beta_fast=number(beta_fast, "beta_fast"),
        beta_slow=number(beta_slow, "beta_slow"),
        no_truncate=not flag(truncate, "truncate"),
        mscale=number(mscale, "mscale"),
        mscale_all_dim=number(mscale_all_dim, "mscale_all_dim"),
    )
    frequencies, computed = np.empty(options.rotary_dim // 2), np.empty(1)
    status = C.rapt_rope_frequencies(address(frequencies), address(computed), options)
    if status or options.base == 0:  # which is the library's default
        raise error(status or Status.BASE, options, F64)
    factor = float(computed[0]) if attention_factor is None else number(attention_factor, "attention_factor")
    return frequencies, factor
