"""Cumulative sums and products."""

from __future__ import annotations

from ctypes import byref
from typing import Any

import numpy as np

from ._arguments import integer
from ._arrays import (
    TensorLike,
    address,
    as_array,
    as_output,
    check_output,
    element_type,
    empty,
    in_kind_of,
    refuse_overlap,
)
from ._library import BF16, F16, F32, F64, REDUCTION, C, ScanOptions, check
from ._reduce import _MOST_DIMS, _readable, _strides_of


def _scan(name: str, x: TensorLike, axis: int | None, out: Any) -> Any:
    array = as_array(x, "x")
    rapt_type = element_type(array, "x")
    if rapt_type not in (F32, F64, F16, BF16):
        raise TypeError(f"x has elements of {array.dtype.name}, and scans have f32, f64, f16 and bf16")
    if array.ndim > _MOST_DIMS:
        raise ValueError(f"x has {array.ndim} dimensions, more than {_MOST_DIMS}")
    if axis is None:
        array, along = array.reshape(-1), 0
    else:
        along = integer(axis, "axis", -array.ndim, array.ndim - 1) % array.ndim
    if out is None:
        result = empty(array.shape, rapt_type, array)
    else:
        result = check_output(as_output(out), "out", array.shape, (rapt_type,))
        refuse_overlap(array, result, "x")
    array = _readable(array)
    options = ScanOptions(operation=REDUCTION[name], type=rapt_type, axis=along, dims=array.ndim)
    options.shape[: array.ndim] = array.shape
    options.x_strides[: array.ndim] = _strides_of(array)
    options.out_strides[: array.ndim] = _strides_of(result)
    check(C.rapt_scan(address(array), address(result), byref(options)))
    return out if out is not None else in_kind_of(x, result)


def cumsum(x: TensorLike, axis: int | None = None, *, out: Any = None) -> Any:
    """The sums of the elements up to each one along axis, or of all elements in their order as one row.

    x is f32, f64, f16 or bf16, of any strides and up to 8 dimensions. Elements of 16 bits are summed in f32, and each result
    is rounded once. `out` takes the result; it may be x. The bits do not depend on how x lies in memory: rapt.h says in which
    order elements are added. The last sum need not be that of rapt.sum.

    A TypeError is another type, a ValueError another dimension, or a shape or overlap of `out`.

    >>> rapt.cumsum(np.array([[1, 2, 3], [4, 5, 6]], np.float32), axis=1)
    array([[ 1.,  3.,  6.],
           [ 4.,  9., 15.]], dtype=float32)
    """
    return _scan("sum", x, axis, out)


def cumprod(x: TensorLike, axis: int | None = None, *, out: Any = None) -> Any:
    """The products of the elements up to each one along axis, as cumsum, which has the same x and `out`."""
    return _scan("prod", x, axis, out)


# The names of the array API and of NumPy 2.1.
cumulative_sum = cumsum
cumulative_prod = cumprod
