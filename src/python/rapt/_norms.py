"""rms_norm, layer_norm and their gradients, over the last dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import Rows, SUFFIXES, as_array, element_type, input_rows, output_rows
from ._library import C, F32, F64, I8, NormBackwardOptions, NormOptions, check


def _parameter(values: Any, name: str, rows: Rows) -> np.ndarray | None:
    """A weight or bias: contiguous, of the type of x, one number per column."""
    if values is None:
        return None
    array = as_array(values, name)
    if element_type(array, name) != element_type(rows.array, "x"):
        raise TypeError(f"x has elements of {rows.array.dtype.name} and {name} {array.dtype.name}")
    if array.shape != (rows.cols,):
        raise ValueError(f"{name} has the shape {array.shape}, not ({rows.cols},)")
    return np.ascontiguousarray(array)


def _address(array: np.ndarray | None) -> int | None:
    return None if array is None else array.ctypes.data


def _norm(name: str, x: Any, weight: Any, bias: Any, eps: float, plus_one: bool, residual: Any, out: Any) -> np.ndarray:
    rows = input_rows(x, "x")
    rapt_type = element_type(rows.array, "x")
    if rapt_type == I8 or rapt_type not in SUFFIXES:
        raise TypeError(f"x has elements of {rows.array.dtype.name}: {name} lacks them")
    kept = [_parameter(weight, "weight", rows), _parameter(bias, "bias", rows)]
    options = NormOptions(
        type=rapt_type,
        weight_plus_one=int(plus_one),
        rows=rows.rows,
        cols=rows.cols,
        x_stride=rows.stride,
        eps=eps,
        weight=_address(kept[0]),
        bias=_address(kept[1]),
    )
    if residual is not None:
        if as_array(residual, "residual").dtype != rows.array.dtype:
            raise TypeError("x and residual must have one type")
        _, sums = output_rows(residual, rows.array.shape, rapt_type, rows.array)
        options.residual, options.residual_stride = sums.address, sums.stride
    result, flat = output_rows(out, rows.array.shape, rapt_type, rows.array)
    options.y_stride = flat.stride
    check(getattr(C, f"rapt_{name}")(rows.address, flat.address, options))
    return result


def rms_norm(
    x: Any,
    weight: Any = None,
    *,
    eps: float = 1e-6,
    weight_plus_one: bool = False,
    residual: Any = None,
    out: Any = None,
) -> np.ndarray:
    """x / sqrt(mean(x^2) + eps) * weight for each row, in f32, f64, f16 or bf16.

    weight            [cols] in x's type; 1 by default
    weight_plus_one   weight + 1 takes the place of weight, as in Gemma
    residual          an array like x: x + residual is written to it, and normalised in place of x
    `out` may be x.
    """
    return _norm("rms_norm", x, weight, None, eps, weight_plus_one, residual, out)


def layer_norm(
    x: Any, weight: Any = None, bias: Any = None, *, eps: float = 1e-5, residual: Any = None, out: Any = None
) -> np.ndarray:
    """(x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias for each row, with rms_norm's types and `residual`."""
    return _norm("layer_norm", x, weight, bias, eps, False, residual, out)


def _backward(name: str, x: Any, dy: Any, weight: Any, eps: float, plus_one: bool, out: Any) -> tuple:
    x_rows, dy_rows = input_rows(x, "x"), input_rows(dy, "dy")
    rapt_type = element_type(x_rows.array, "x")
    if rapt_type not in (F32, F64) or dy_rows.array.dtype != x_rows.array.dtype:
        raise TypeError("x and dy must both be f32, or both f64")
    if dy_rows.array.shape != x_rows.array.shape:
        raise ValueError(f"x has the shape {x_rows.array.shape} and dy {dy_rows.array.shape}")
    factors = _parameter(weight, "weight", x_rows)
    dweight = np.zeros(x_rows.cols, x_rows.array.dtype)
    dbias = np.zeros(x_rows.cols, x_rows.array.dtype) if name == "layer_norm" else None
    result, flat = output_rows(out, x_rows.array.shape, rapt_type, x_rows.array)
    options = NormBackwardOptions(
        type=rapt_type,
        weight_plus_one=int(plus_one),
        rows=x_rows.rows,
        cols=x_rows.cols,
        x_stride=x_rows.stride,
        dy_stride=dy_rows.stride,
        dx_stride=flat.stride,
        eps=eps,
        weight=_address(factors),
        dweight=_address(dweight),
        dbias=_address(dbias),
    )
    check(getattr(C, f"rapt_{name}_backward")(x_rows.address, dy_rows.address, flat.address, options))
    return (result, dweight) if dbias is None else (result, dweight, dbias)


def rms_norm_backward(
    x: Any, dy: Any, weight: Any = None, *, eps: float = 1e-6, weight_plus_one: bool = False, out: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """dx and dweight of rms_norm, from x and the gradient dy of its output, in f32 or f64. `out` may be x or dy."""
    return _backward("rms_norm", x, dy, weight, eps, weight_plus_one, out)


def layer_norm_backward(
    x: Any, dy: Any, weight: Any = None, *, eps: float = 1e-5, out: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """dx, dweight and dbias of layer_norm, with rms_norm_backward's arguments."""
    return _backward("layer_norm", x, dy, weight, eps, False, out)
