# mypy: no-warn-unused-ignores
"""Dot products, scaling, exponentials, activations and their gradients, argmax and conversions."""

from __future__ import annotations

from typing import Any, Literal, Protocol, Union, overload

import numpy as np
import numpy.typing as npt

from ._arguments import number, type_choice
from ._arrays import (
    SUFFIXES,
    Array,
    TensorLike,
    Torch,
    address,
    as_array,
    as_output,
    check_output,
    element_type,
    empty,
    in_kind_of,
    may_overlap,
    refuse_overlap,
    writable,
)
from ._library import ACTIVATION, BF16, C, F16, F32, F64
from ._pieces import PIECE, in_pieces, run_all

_BLOCK = 1 << 16  # elements of a copy in f32, and at least of a piece
_FLOATING = (F32, F64, F16, BF16)
_NARROW_TYPES = {"f16": F16, "bf16": BF16, "f32": F32}
WIDENED = {F16: C.rapt_convert_f16_to_f32, BF16: C.rapt_convert_bf16_to_f32}
NARROWED = {F16: C.rapt_convert_f32_to_f16, BF16: C.rapt_convert_f32_to_bf16}
_UINT8, _INT8 = np.dtype(np.uint8), np.dtype(np.int8)


class _TorchType(Protocol):
    """torch.dtype."""

    @property
    def is_floating_point(self) -> bool:
        ...


_Type = Union[Literal["f16", "bf16", "f32"], npt.DTypeLike, _TorchType]


def _functions(name: str, types: tuple[int, ...]) -> dict[int, Any]:
    return {rapt_type: getattr(C, f"rapt_{name}_{SUFFIXES[rapt_type]}") for rapt_type in types}


_GRADIENTS = tuple(f"{name}_backward" for name in ACTIVATION)
_FUNCTIONS = {name: _functions(name, _FLOATING) for name in ("scale", *ACTIVATION, *_GRADIENTS, "argmax")} | {
    name: _functions(name, (F32, F64)) for name in ("exp", "exp_sum")
}


def _vector(x: TensorLike, name: str) -> Array:
    array = as_array(x, name)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions, not 1")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _pair_suffix(a: Array, b: Array, of_a: str, of_b: str) -> str:
    if a.dtype == _UINT8 and b.dtype == _INT8:
        return "u8i8"
    rapt_type = element_type(a, of_a)
    if element_type(b, of_b) != rapt_type:
        raise TypeError(f"{of_a} and {of_b} have elements of {a.dtype.name} and {b.dtype.name}")
    return SUFFIXES[rapt_type]


def dot(a: TensorLike, b: TensorLike) -> float | int:
    """The sum of a[i] * b[i] of two vectors of one length.

    Both are f32, f64, f16, bf16 or int8, or a is uint8 and b int8. The sum of bytes is an exact int. A TypeError is another
    type, a ValueError other dimensions or several lengths.
    """
    of_a, of_b = _vector(a, "a"), _vector(b, "b")
    if len(of_a) != len(of_b):
        raise ValueError(f"a has {len(of_a)} elements and b {len(of_b)}")
    function = getattr(C, f"rapt_dot_{_pair_suffix(of_a, of_b, 'a', 'b')}")
    total: float | int = function(address(of_a), address(of_b), len(of_a))
    return total


# fmt: off
@overload
def dot_rows(query: Torch, rows: TensorLike, scale: float = 1.0, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def dot_rows(query: TensorLike, rows: TensorLike, scale: float = 1.0, out: Array | None = None) -> Array: ...
# fmt: on


def dot_rows(query: Any, rows: TensorLike, scale: float = 1.0, out: Any = None) -> Any:
    """scale * (query . row) for every row of rows, which is [n][dim] to a query of [dim], with dot's types and errors.

    The result is [n] of the arithmetic type. `out` overlaps neither query nor a row. linear(query, rows) adds the same products
    in another order, and has other bits: use one of the two for queries alone and in batches.
    """
    vector, matrix = _vector(query, "query"), as_array(rows, "rows")
    if matrix.ndim != 2 or matrix.shape[1] != len(vector):
        raise ValueError(f"rows has the shape {matrix.shape}, and query {len(vector)} elements")
    suffix = _pair_suffix(vector, matrix, "query", "rows")
    factor = number(scale, "scale")
    if matrix.strides[1] != matrix.itemsize or matrix.strides[0] % matrix.itemsize != 0:
        matrix = np.ascontiguousarray(matrix)
    result_type = F64 if suffix == "f64" else F32
    if out is None:
        result = empty((len(matrix),), result_type)
    else:
        result = check_output(as_output(out), "out", (len(matrix),), (result_type,))
        for name, array in (("query", vector), ("rows", matrix)):
            if may_overlap(array, result):
                raise ValueError(f"out overlaps {name}")
    function = getattr(C, f"rapt_dot_rows_{suffix}")
    of_query, of_rows, of_result = address(vector), address(matrix), address(result)
    step = matrix.strides[0]

    def run(first: int, count: int) -> None:
        function(
            of_query,
            of_rows + first * step,
            step // matrix.itemsize,
            count,
            len(vector),
            factor,
            of_result + first * result.itemsize,
        )

    run_all(run, len(matrix), matrix.size)
    return out if out is not None else in_kind_of(query, result)


def _contiguous(x: TensorLike, name: str) -> Array:
    array = as_array(x, name)
    return array if array.flags.c_contiguous else np.asarray(array, order="C")


def _elementwise(
    x: Any, out: Any, result_type: int | None = None, like: Array | None = None
) -> tuple[Array, Array, int]:
    """x and the result, contiguous and without a partial overlap, and the type of x."""
    array = _contiguous(x, "x")
    rapt_type = element_type(array, "x")
    if rapt_type not in _FLOATING:
        raise TypeError(f"x has elements of {array.dtype.name}, which this function does not have")
    result_type = result_type or rapt_type
    if out is None:
        return array, empty(array.shape, result_type, array if like is None else like), rapt_type
    result = check_output(as_output(out), "out", array.shape, (result_type,))
    if not result.flags.c_contiguous:
        raise ValueError("out is not contiguous")
    refuse_overlap(array, result, "x")
    return array, result, rapt_type


def _run(function: Any, x: Array, y: Array, *numbers: float) -> None:
    """function(x, *numbers, y, count) for all elements."""
    of_x, of_y, size = address(x), address(y), x.size
    if size <= PIECE:
        function(of_x, *numbers, of_y, size)
        return

    def run(first: int, count: int) -> None:
        function(of_x + first * x.itemsize, *numbers, of_y + first * y.itemsize, count)

    in_pieces(run, size, _BLOCK)


# fmt: off
@overload
def scale(x: Torch, factor: float, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def scale(x: TensorLike, factor: float, out: Array | None = None) -> Array: ...
# fmt: on


def scale(x: Any, factor: float, out: Any = None) -> Any:
    """x * factor, rounded to x's type: f32, f64, f16 or bf16, of any shape.

    `out` takes the result, is contiguous, and may be x. A TypeError is another type, a ValueError another shape of `out`.
    """
    array, result, rapt_type = _elementwise(x, out)
    _run(_FUNCTIONS["scale"][rapt_type], array, result, number(factor, "factor"))
    return out if out is not None else in_kind_of(x, result)


def _exp_of_16_bits(array: Array, result: Array, rapt_type: int) -> None:
    of_x, of_y, function = address(array), address(result), _FUNCTIONS["exp"][F32]
    wide = np.empty(min(array.size, _BLOCK), np.float32)
    of_wide = address(wide)
    for first in range(0, array.size, _BLOCK):
        count = min(array.size - first, _BLOCK)
        WIDENED[rapt_type](of_x + 2 * first, of_wide, count)
        function(of_wide, of_wide, count)
        NARROWED[rapt_type](of_wide, of_y + 2 * first, count)


# fmt: off
@overload
def exp(x: Torch, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def exp(x: TensorLike, out: Array | None = None) -> Array: ...
# fmt: on


def exp(x: Any, out: Any = None) -> Any:
    """e to the power of x, below 1 ULP. x is f32, f64, f16 or bf16, of any shape, and the result has its shape and type.

    f16 and bf16 are widened to f32 exactly, computed in f32, and rounded once. `out` takes the result, is contiguous, and
    may be x. A TypeError is another type, a ValueError another shape of `out`.
    """
    array, result, rapt_type = _elementwise(x, out)
    if rapt_type in WIDENED:
        _exp_of_16_bits(array, result, rapt_type)
    else:
        _run(_FUNCTIONS["exp"][rapt_type], array, result)
    return out if out is not None else in_kind_of(x, result)


# fmt: off
@overload
def silu(x: Torch, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def silu(x: TensorLike, out: Array | None = None) -> Array: ...
# fmt: on


def silu(x: Any, out: Any = None) -> Any:
    """x / (1 + exp(-x)), rounded to x's type: f32, f64, f16 or bf16, of any shape.

    `out` takes the result, is contiguous, and may be x. A TypeError is another type, a ValueError another shape of `out`.
    """
    return _activation("silu", x, out)


# fmt: off
@overload
def gelu(x: Torch, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def gelu(x: TensorLike, out: Array | None = None) -> Array: ...
# fmt: on


def gelu(x: Any, out: Any = None) -> Any:
    """x / 2 * (1 + erf(x / sqrt(2))), with silu's types, `out` and errors."""
    return _activation("gelu", x, out)


# fmt: off
@overload
def gelu_tanh(x: Torch, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def gelu_tanh(x: TensorLike, out: Array | None = None) -> Array: ...
# fmt: on


def gelu_tanh(x: Any, out: Any = None) -> Any:
    """gelu by tanh, x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))), with silu's types, `out` and errors."""
    return _activation("gelu_tanh", x, out)


def _activation(name: str, x: Any, out: Any) -> Any:
    array, result, rapt_type = _elementwise(x, out)
    _run(_FUNCTIONS[name][rapt_type], array, result)
    return out if out is not None else in_kind_of(x, result)


# fmt: off
@overload
def silu_backward(x: Torch, dy: TensorLike, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def silu_backward(x: TensorLike, dy: TensorLike, out: Array | None = None) -> Array: ...
# fmt: on


def silu_backward(x: Any, dy: TensorLike, out: Any = None) -> Any:
    """The gradient of x, given that of silu(x): dy * silu'(x), of f32, f64, f16 or bf16.

    x, dy and the result have one shape and one type. `out` takes the result, is contiguous, and may be x or dy. A TypeError
    is another type, a ValueError another shape.
    """
    return _gradient("silu", x, dy, out)


# fmt: off
@overload
def gelu_backward(x: Torch, dy: TensorLike, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def gelu_backward(x: TensorLike, dy: TensorLike, out: Array | None = None) -> Array: ...
# fmt: on


def gelu_backward(x: Any, dy: TensorLike, out: Any = None) -> Any:
    """The gradient of x, given that of gelu(x), with silu_backward's types, `out` and errors."""
    return _gradient("gelu", x, dy, out)


# fmt: off
@overload
def gelu_tanh_backward(x: Torch, dy: TensorLike, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def gelu_tanh_backward(x: TensorLike, dy: TensorLike, out: Array | None = None) -> Array: ...
# fmt: on


def gelu_tanh_backward(x: Any, dy: TensorLike, out: Any = None) -> Any:
    """The gradient of x, given that of gelu_tanh(x), with silu_backward's types, `out` and errors."""
    return _gradient("gelu_tanh", x, dy, out)


def _gradient(name: str, x: Any, dy: TensorLike, out: Any) -> Any:
    array, result, rapt_type = _elementwise(x, out)
    gradient = _contiguous(dy, "dy")
    if gradient.dtype != array.dtype:
        raise TypeError(f"x and dy have elements of {array.dtype.name} and {gradient.dtype.name}")
    if gradient.shape != array.shape:
        raise ValueError(f"x has the shape {array.shape} and dy {gradient.shape}")
    refuse_overlap(gradient, result, "dy")
    if rapt_type not in _FLOATING:
        raise TypeError(f"x has elements of {array.dtype.name}: {name}_backward has f32, f64, f16 and bf16")
    function = _FUNCTIONS[name + "_backward"][rapt_type]
    of_x, of_dy, of_dx, size = address(array), address(gradient), address(result), array.itemsize

    def run(first: int, count: int) -> None:
        function(of_x + first * size, of_dy + first * size, of_dx + first * size, count)

    run_all(run, array.size, array.size, _BLOCK)
    return out if out is not None else in_kind_of(x, result)


def argmax(x: TensorLike, out: Any = None) -> Any:
    """The index of the first of the largest elements along the last dimension, or of the first NaN.

    x is f32, f64, f16 or bf16. The result is an int for a vector. For more dimensions it is x.shape without the last one, of
    np.intp: `out`, contiguous, or a new array, which is a tensor of PyTorch where x is one. A TypeError is another type, a
    ValueError another shape or a last dimension of 0.
    """
    array = _contiguous(x, "x")
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"x has the shape {array.shape}: there is no largest element")
    rapt_type = element_type(array, "x")
    function, cols = _FUNCTIONS["argmax"].get(rapt_type), array.shape[-1]
    if function is None:
        raise TypeError(f"x has elements of {array.dtype.name}, and argmax has f32, f64, f16 and bf16")
    first, step = address(array), cols * array.itemsize
    if out is None and array.ndim == 1:
        return function(first, cols)
    result = np.empty(array.shape[:-1], np.intp) if out is None else as_output(out)
    if result.dtype != np.intp:
        raise TypeError(f"out has elements of {result.dtype.name}, not {np.dtype(np.intp).name}")
    if result.shape != array.shape[:-1]:
        raise ValueError(f"out has the shape {result.shape}, not {array.shape[:-1]}")
    if not writable(result, "out").flags.c_contiguous:
        raise ValueError("out is not contiguous")
    if may_overlap(result, array):
        raise ValueError("out overlaps x")
    flat = result.reshape(-1)
    for row in range(flat.size):
        flat[row] = function(first + row * step, cols)
    return out if out is not None else in_kind_of(x, result)


# fmt: off
@overload
def exp_sum(x: Torch, scale: float = 1.0, shift: float = 0.0, out: Torch | None = None) -> tuple[Torch, float]: ...  # type: ignore[misc]
@overload
def exp_sum(x: TensorLike, scale: float = 1.0, shift: float = 0.0, out: Array | None = None) -> tuple[Array, float]: ...
# fmt: on


def exp_sum(x: Any, scale: float = 1.0, shift: float = 0.0, out: Any = None) -> tuple[Any, float]:
    """A pair of y = exp(scale * x - shift) and the sum of y, with exp's types, `out` and errors.

    f16 and bf16 are widened to f32 exactly and computed in f32. The sum is of y in f32, and then y is rounded once. It has
    one order, so that Ctrl-C waits for its end.
    """
    array, result, rapt_type = _elementwise(x, out)
    factors = number(scale, "scale"), number(shift, "shift")
    if rapt_type in WIDENED:
        wide = np.empty(array.size, np.float32)
        WIDENED[rapt_type](address(array), address(wide), array.size)
        total: float = _FUNCTIONS["exp_sum"][F32](address(wide), *factors, address(wide), array.size)
        NARROWED[rapt_type](address(wide), address(result), array.size)
    else:
        total = _FUNCTIONS["exp_sum"][rapt_type](address(array), *factors, address(result), array.size)
    return (out if out is not None else in_kind_of(x, result)), total


# fmt: off
@overload
def convert(x: Torch, to: _Type, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def convert(x: TensorLike, to: _Type, out: Array | None = None) -> Array: ...
# fmt: on


def convert(x: Any, to: _Type, out: Any = None) -> Any:
    """x, of any shape, in another type: from f32 to 16 bits, or from 16 bits to f32.

    `to` is "f16", "bf16" or "f32", or a dtype of NumPy or PyTorch, such as np.float16. "bf16" gives NumPy's uint16, and the
    dtype of ml_dtypes gives that dtype. `out` takes the result, is contiguous, and does not overlap x. A TypeError is another
    pair of types, a ValueError another name or another shape of `out`.
    """
    if to is None:
        raise TypeError("to is None, not one of f16, bf16, f32")
    target = type_choice(_NARROW_TYPES, "to", to)
    given = as_array(x, "x")
    source = element_type(given, "x")
    if (source == F32) == (target == F32) or source not in _NARROW_TYPES.values():
        raise TypeError(f"x has elements of {given.dtype.name}: no conversion to {SUFFIXES[target]}")
    like = np.empty(0, to) if target == BF16 and isinstance(to, (type, np.dtype)) else given
    array, result, _ = _elementwise(given, out, target, like)
    if out is not None and may_overlap(array, result):
        raise ValueError("out overlaps x")
    _run(getattr(C, f"rapt_convert_{SUFFIXES[source]}_to_{SUFFIXES[target]}"), array, result)
    return out if out is not None else in_kind_of(x, result)
