"""Dot products, scaling, exponentials, activations and their gradients, argmax and conversions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import DTYPES, SUFFIXES, arithmetic_type, as_array, check_output, element_type, empty, refuse_overlap
from ._library import BF16, C, F16, F32, F64, I8

_TYPE_NAMES = {"f16": F16, "bf16": BF16, "f32": F32}


def _vector(x: Any, name: str) -> np.ndarray:
    array = as_array(x, name)
    if array.ndim != 1:
        raise ValueError(f"{name} has {array.ndim} dimensions, not 1")
    return np.ascontiguousarray(array)


def _pair_suffix(a: np.ndarray, b: np.ndarray, names: str) -> str:
    if a.dtype.name == "uint8" and b.dtype.name == "int8":
        return "u8i8"
    if a.dtype != b.dtype:
        raise TypeError(f"{names} have elements of {a.dtype.name} and {b.dtype.name}")
    return SUFFIXES[element_type(a, names)]


def dot(a: Any, b: Any) -> float | int:
    """The sum of a[i] * b[i] of two vectors of one length.

    Both are f32, f64, f16, bf16 or int8, or a is uint8 and b int8. The sum of bytes is an exact int.
    """
    a, b = _vector(a, "a"), _vector(b, "b")
    if len(a) != len(b):
        raise ValueError(f"a has {len(a)} elements and b {len(b)}")
    return getattr(C, f"rapt_dot_{_pair_suffix(a, b, 'a and b')}")(a.ctypes.data, b.ctypes.data, len(a))


def dot_rows(query: Any, rows: Any, scale: float = 1.0, out: Any = None) -> np.ndarray:
    """scale * (query . row) for every row of rows, which is [n][dim] to a query of [dim], with dot's types.

    The result is [n] of the arithmetic type. `out` overlaps neither query nor a row.
    """
    query, rows = _vector(query, "query"), as_array(rows, "rows")
    if rows.ndim != 2 or rows.shape[1] != len(query):
        raise ValueError(f"rows has the shape {rows.shape}, and query {len(query)} elements")
    suffix = _pair_suffix(query, rows, "query and rows")
    if rows.strides[1] != rows.itemsize or rows.strides[0] % rows.itemsize != 0:
        rows = np.ascontiguousarray(rows)
    result_type = F64 if suffix == "f64" else F32
    if out is None:
        result = empty((len(rows),), result_type)
    else:
        result = check_output(as_array(out, "out"), "out", (len(rows),), (result_type,))
        for name, array in (("query", query), ("rows", rows)):
            if np.shares_memory(array, result):
                raise ValueError(f"out overlaps {name}")
    getattr(C, f"rapt_dot_rows_{suffix}")(
        query.ctypes.data,
        rows.ctypes.data,
        rows.strides[0] // rows.itemsize,
        len(rows),
        len(query),
        scale,
        result.ctypes.data,
    )
    return result


def _elementwise(x: Any, out: Any, result_type: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    array = np.asarray(as_array(x, "x"), order="C")
    result_type = result_type or element_type(array, "x")
    if out is None:
        return array, empty(array.shape, result_type, array)
    result = check_output(as_array(out, "out"), "out", array.shape, (result_type,))
    if not result.flags.c_contiguous:
        raise ValueError("out is not contiguous")
    refuse_overlap(array, result, "x")
    return array, result


def scale(x: Any, factor: float, out: Any = None) -> np.ndarray:
    """x * factor, rounded to x's type: f32, f64, f16 or bf16, of any shape. `out` is contiguous, and may be x."""
    array, result = _elementwise(x, out)
    suffix = SUFFIXES[_without_bytes(element_type(array, "x"))]
    getattr(C, f"rapt_scale_{suffix}")(array.ctypes.data, factor, result.ctypes.data, array.size)
    return result


def exp(x: Any, out: Any = None) -> np.ndarray:
    """e to the power of x, below 1 ULP. x is f32 or f64, of any shape. `out` is contiguous, and may be x."""
    array, result = _elementwise(x, out)
    getattr(C, f"rapt_exp_{_wide_suffix(array)}")(array.ctypes.data, result.ctypes.data, array.size)
    return result


def silu(x: Any, out: Any = None) -> np.ndarray:
    """x / (1 + exp(-x)), rounded to x's type: f32, f64, f16 or bf16, of any shape. `out` is contiguous, and may be x."""
    return _activation("silu", x, out)


def gelu(x: Any, out: Any = None) -> np.ndarray:
    """x / 2 * (1 + erf(x / sqrt(2))), with silu's types and `out`."""
    return _activation("gelu", x, out)


def gelu_tanh(x: Any, out: Any = None) -> np.ndarray:
    """gelu by tanh, x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))), with silu's types and `out`."""
    return _activation("gelu_tanh", x, out)


def _activation(name: str, x: Any, out: Any) -> np.ndarray:
    array, result = _elementwise(x, out)
    suffix = SUFFIXES[_without_bytes(element_type(array, "x"))]
    getattr(C, f"rapt_{name}_{suffix}")(array.ctypes.data, result.ctypes.data, array.size)
    return result


def silu_backward(x: Any, dy: Any, out: Any = None) -> np.ndarray:
    """The gradient of x, given that of silu(x): dy * silu'(x), of f32 or f64. `out` is contiguous, and may be x or dy."""
    return _gradient("silu", x, dy, out)


def gelu_backward(x: Any, dy: Any, out: Any = None) -> np.ndarray:
    """The gradient of x, given that of gelu(x), with silu_backward's types and `out`."""
    return _gradient("gelu", x, dy, out)


def gelu_tanh_backward(x: Any, dy: Any, out: Any = None) -> np.ndarray:
    """The gradient of x, given that of gelu_tanh(x), with silu_backward's types and `out`."""
    return _gradient("gelu_tanh", x, dy, out)


def _gradient(name: str, x: Any, dy: Any, out: Any) -> np.ndarray:
    array, result = _elementwise(x, out)
    gradient = np.asarray(as_array(dy, "dy"), order="C")
    if gradient.dtype != array.dtype:
        raise TypeError(f"x and dy have elements of {array.dtype.name} and {gradient.dtype.name}")
    if gradient.shape != array.shape:
        raise ValueError(f"x has the shape {array.shape} and dy {gradient.shape}")
    refuse_overlap(gradient, result, "dy")
    function = getattr(C, f"rapt_{name}_backward_{_wide_suffix(array, name + '_backward')}")
    function(array.ctypes.data, gradient.ctypes.data, result.ctypes.data, array.size)
    return result


def argmax(x: Any) -> np.ndarray | int:
    """The index of the first of the largest elements along the last dimension, or of the first NaN.

    x is f32, f64, f16 or bf16. The result is an int for a vector, and an array for more dimensions.
    """
    array = np.asarray(as_array(x, "x"), order="C")
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"x has the shape {array.shape}: there is no largest element")
    suffix = SUFFIXES[_without_bytes(element_type(array, "x"))]
    function, cols = getattr(C, f"rapt_argmax_{suffix}"), array.shape[-1]
    if array.ndim == 1:
        return function(array.ctypes.data, cols)
    flat = array.reshape(-1, cols)
    return np.array([function(row.ctypes.data, cols) for row in flat], np.intp).reshape(array.shape[:-1])


def exp_sum(x: Any, scale: float = 1.0, shift: float = 0.0, out: Any = None) -> tuple[np.ndarray, float]:
    """A pair of y = exp(scale * x - shift) and the sum of y, with exp's types and `out`."""
    array, result = _elementwise(x, out)
    total = getattr(C, f"rapt_exp_sum_{_wide_suffix(array)}")(
        array.ctypes.data, scale, shift, result.ctypes.data, array.size
    )
    return result, total


def convert(x: Any, to: str) -> np.ndarray:
    """x, of any shape, in the type "f16", "bf16" (as uint16) or "f32": from f32 to 16 bits, or from 16 bits to f32."""
    target = _TYPE_NAMES.get(to)
    if target is None:
        raise ValueError(f"to is {to!r}, not one of {', '.join(_TYPE_NAMES)}")
    array = np.asarray(as_array(x, "x"), order="C")
    source = element_type(array, "x")
    if (source == F32) == (target == F32) or source not in _TYPE_NAMES.values():
        raise TypeError(f"x has elements of {array.dtype.name}: no conversion to {to}")
    result = np.empty(array.shape, DTYPES[target])
    function = getattr(C, f"rapt_convert_{SUFFIXES[source]}_to_{SUFFIXES[target]}")
    function(array.ctypes.data, result.ctypes.data, array.size)
    return result


def _without_bytes(rapt_type: int) -> int:
    if rapt_type == I8:
        raise TypeError("x has elements of int8, which this function does not have")
    return rapt_type


def _wide_suffix(array: np.ndarray, function: str = "exp") -> str:
    rapt_type = element_type(array, "x")
    if rapt_type != arithmetic_type(rapt_type):
        raise TypeError(f"x has elements of {array.dtype.name}: {function} has f32 and f64")
    return SUFFIXES[rapt_type]
