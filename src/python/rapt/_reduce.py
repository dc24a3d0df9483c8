"""Sums, means, norms and extremes over any dimensions of a tensor."""

from __future__ import annotations

import functools
import math
import operator
from ctypes import byref
from typing import Any, Union

import numpy as np

from ._arguments import flag, integer, number, shown, type_choice
from ._arrays import (
    DTYPES,
    OUT_TYPES,
    SUFFIXES,
    Array,
    TensorLike,
    address,
    arithmetic_type,
    as_array,
    as_output,
    check_output,
    element_type,
    empty,
    in_kind_of,
    may_overlap,
    writable,
)
from ._library import BF16, F16, F32, F64, REDUCTION, REPEAT, C, ReduceOptions, check
from ._map import sqrt
from ._vectors import convert

_Axis = Union[int, tuple[int, ...], None]
_MOST_DIMS = 8


def _axes(axis: _Axis, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    named = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = tuple(integer(one, "axis", -ndim, ndim - 1) % ndim for one in named)
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis is {shown(axis)}, which names a dimension twice")
    return axes


def _readable(array: Array) -> Array:
    """`array`, or a copy where the library cannot take its strides."""
    steps = [stride for length, stride in zip(array.shape, array.strides) if length > 1]
    fits = all(stride >= 0 and stride % array.itemsize == 0 for stride in steps)
    return array if fits else np.ascontiguousarray(array)


def _strides_of(array: Array) -> list[int]:
    """In elements. A dimension of one index may have any stride, so that of all 0 only scalars are contiguous."""
    return [
        (stride // array.itemsize or REPEAT) if length > 1 else 1 for length, stride in zip(array.shape, array.strides)
    ]


def _output(out: Any, shape: tuple[int, ...], rapt_type: int, like: Array, is_index: bool) -> Array:
    if not is_index:
        if out is None:
            return empty(shape, rapt_type, like)
        return check_output(as_output(out), "out", shape, (rapt_type,))
    result = np.empty(shape, np.int64) if out is None else as_output(out)
    if result.dtype != np.int64:
        raise TypeError(f"out has elements of {result.dtype.name}, not int64")
    if result.shape != shape:
        raise ValueError(f"out has the shape {result.shape}, not {shape}")
    if not writable(result, "out").flags.c_contiguous:
        raise ValueError("out is not contiguous")
    return result


def _reduce(
    name: str, x: Any, axis: _Axis, keepdims: bool, dtype: Any = None, out: Any = None, correction: float = 0.0
) -> Any:
    array = as_array(x, "x")
    rapt_type = element_type(array, "x")
    if rapt_type not in (F32, F64, F16, BF16):
        raise TypeError(f"x has elements of {array.dtype.name}, and reductions have f32, f64, f16 and bf16")
    if array.ndim > _MOST_DIMS:
        raise ValueError(f"x has {array.ndim} dimensions, more than {_MOST_DIMS}")
    axes, ndim = _axes(axis, array.ndim), array.ndim
    is_index = name in ("argmin", "argmax")
    out_type = type_choice(OUT_TYPES, "dtype", dtype) or rapt_type
    if out_type not in (rapt_type, arithmetic_type(rapt_type)):
        raise TypeError(f"dtype is {shown(dtype)}, neither the type of x nor the one that it is computed in")
    kept = [d for d in range(ndim) if d not in axes]
    keeps = flag(keepdims, "keepdims")
    shape = tuple(1 if d in axes else n for d, n in enumerate(array.shape) if keeps or d not in axes)
    result = _output(out, shape, out_type, array, is_index)
    if may_overlap(array, result):
        raise ValueError("out overlaps x")
    if name in ("min", "max", "argmin", "argmax") and result.size > 0 and math.prod(array.shape[d] for d in axes) == 0:
        raise ValueError(f"x has the shape {array.shape}: there is no element for {name}")
    if not axes:  # of a scalar, or of each element: a dimension of 1 is reduced
        if ndim == _MOST_DIMS:
            raise ValueError(f"axis is (), and x has {ndim} dimensions")
        array, axes = array.reshape(*array.shape, 1), (ndim,)
    array = _readable(array)
    # A root is taken of the variance before that is rounded to 16 bits.
    is_root, wide_type = name == "std", arithmetic_type(rapt_type)
    written = np.empty(shape, DTYPES[wide_type]) if is_root and out_type != wide_type else result
    operation = REDUCTION["var" if is_root else name]
    options = ReduceOptions(operation=operation, type=rapt_type, correction=correction, dims=array.ndim)
    options.out_type = 0 if is_index else wide_type if is_root else out_type
    options.reduced = functools.reduce(operator.or_, (1 << d for d in axes))
    options.shape[: array.ndim] = array.shape
    options.x_strides[: array.ndim] = _strides_of(array)
    steps = _strides_of(written)
    options.out_strides[: len(kept)] = [steps[d] for d in kept] if keeps else steps
    check(C.rapt_reduce(address(array), address(written), byref(options)))
    if is_root:
        sqrt(written, out=written)
    if written is not result:
        narrow = convert(written, SUFFIXES[out_type])
        result.view(narrow.dtype)[...] = narrow
    if out is not None:
        return out
    made = in_kind_of(x, result)
    return made[()] if isinstance(made, np.ndarray) else made


def sum(x: TensorLike, axis: _Axis = None, *, keepdims: bool = False, dtype: Any = None, out: Any = None) -> Any:
    """The sum over the dimensions that axis names, or over all.

    x is f32, f64, f16 or bf16, of any strides and up to 8 dimensions. Elements of 16 bits are summed in f32, and the sum is
    rounded once. dtype is that of the result: x's, or "f32" for x of 16 bits. keepdims keeps each reduced dimension with a
    length of 1. `out` takes the result, and does not overlap x. Without it, the result is a scalar of NumPy if nothing is
    left of the shape.

    The bits do not depend on how x lies in memory: the elements of a result are numbered in the order of its dimensions, and
    rapt.h says which of 64 partial sums has which. A sum without elements is 0.

    A TypeError is another type, a ValueError another dimension, or a shape or overlap of `out`.

    >>> rapt.sum(np.array([[1, 2, 3], [4, 5, 6]], np.float32), axis=1)
    array([ 6., 15.], dtype=float32)
    """
    return _reduce("sum", x, axis, keepdims, dtype, out)


def mean(x: TensorLike, axis: _Axis = None, *, keepdims: bool = False, dtype: Any = None, out: Any = None) -> Any:
    """The sum over the dimensions divided by the number of elements, as sum. Without elements, it is NaN."""
    return _reduce("mean", x, axis, keepdims, dtype, out)


def _correction(correction: float) -> float:
    factor = number(correction, "correction")
    if not math.isfinite(factor):
        raise ValueError(f"correction is {shown(correction)}")
    return factor


def var(
    x: TensorLike,
    axis: _Axis = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """The sum of (x - mean)^2 divided by n - correction, as sum. A correction of 1 is PyTorch's default, 0 NumPy's."""
    return _reduce("var", x, axis, keepdims, dtype, out, _correction(correction))


def std(
    x: TensorLike,
    axis: _Axis = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
    dtype: Any = None,
    out: Any = None,
) -> Any:
    """The square root of var in the type that it is computed in, rounded as IEEE 754 says, and to 16 bits once more.

    The arguments are those of sum, and the correction of var.
    """
    return _reduce("std", x, axis, keepdims, dtype, out, _correction(correction))


def prod(x: TensorLike, axis: _Axis = None, *, keepdims: bool = False, dtype: Any = None, out: Any = None) -> Any:
    """The product over the dimensions, as sum. Without elements, it is 1."""
    return _reduce("prod", x, axis, keepdims, dtype, out)


def norm(
    x: TensorLike, ord: float = 2, axis: _Axis = None, *, keepdims: bool = False, dtype: Any = None, out: Any = None
) -> Any:
    """The vector norm over the dimensions, as sum: ord is 2, 1 or infinity. Squares that overflow do no harm."""
    name = {2.0: "norm_2", 1.0: "norm_1", math.inf: "norm_inf"}.get(number(ord, "ord"))
    if name is None:
        raise ValueError(f"ord is {shown(ord)}, not 1, 2 or infinity")
    return _reduce(name, x, axis, keepdims, dtype, out)


def min(x: TensorLike, axis: _Axis = None, *, keepdims: bool = False, dtype: Any = None, out: Any = None) -> Any:
    """The smallest element over the dimensions, as sum, or NaN if one is NaN. A result of -0 becomes +0.

    A ValueError is a result without elements.
    """
    return _reduce("min", x, axis, keepdims, dtype, out)


def max(x: TensorLike, axis: _Axis = None, *, keepdims: bool = False, dtype: Any = None, out: Any = None) -> Any:
    """The largest element over the dimensions, as min, or NaN if one is NaN. The arguments are those of sum."""
    return _reduce("max", x, axis, keepdims, dtype, out)


def argmin(x: TensorLike, axis: _Axis = None, *, keepdims: bool = False, out: Any = None) -> Any:
    """The index of the first of the smallest elements over the dimensions, or of the first NaN, as int64.

    It counts the elements in the order of the dimensions, as np.argmin. The arguments are those of sum. A ValueError is a
    result without elements.
    """
    return _reduce("argmin", x, axis, keepdims, None, out)
