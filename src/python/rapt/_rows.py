"""Softmax and its relatives over the last dimension."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import (
    Rows,
    SUFFIXES,
    arithmetic_type,
    as_array,
    as_integers,
    as_mask,
    as_numbers,
    as_rows,
    broadcast,
    broadcast_rows,
    element_type,
    empty,
    input_rows,
    output_rows,
)
from ._library import C, CAUSAL, F32, F64, REPEAT, SoftmaxOptions, check


def causal_fields(causal: bool | str | None, causal_offset: int | None) -> dict[str, int]:
    """Of both structs of options."""
    if causal is None or isinstance(causal, np.bool_):
        causal = bool(causal)
    if causal_offset is not None:
        if abs(causal_offset) > 1 << 60:
            raise ValueError(f"causal_offset is {causal_offset}, beyond 2^60")
        if causal not in (False, "offset"):
            raise ValueError("causal_offset says where causality begins: causal must not say it too")
        return {"causal": CAUSAL["offset"], "causal_offset": causal_offset}
    if causal is False:
        return {}
    mode = CAUSAL.get("bottom_right" if causal is True else causal)
    if mode is None or mode == CAUSAL["offset"]:
        raise ValueError(f"causal is {causal!r}: True or 'bottom_right', 'top_left', or an integer causal_offset")
    return {"causal": mode}


def scale_field(scale: float | None) -> float:
    """The library's 0 is its default, which is None here."""
    if scale is None:
        return 0.0
    if scale == 0:
        raise ValueError("scale is 0")
    return scale


def _matrix(array: np.ndarray, rows: Rows, name: str) -> tuple[np.ndarray, int]:
    """A matrix of the options, in the shape of x, and its stride. One row may serve all rows."""
    whole = broadcast_rows(array, rows.array.shape, name)
    if all(length == 1 or stride == 0 for length, stride in zip(whole.shape[:-1], whole.strides[:-1])):
        return whole, REPEAT
    flat = as_rows(whole) or as_rows(np.ascontiguousarray(whole))
    return flat.array, flat.stride


class _Call:
    """The options of one call, and the arrays that they point to."""

    def __init__(
        self,
        rows: Rows,
        number: int,
        *,
        scale: float | None = None,
        softcap: float = 0.0,
        bias: Any = None,
        mask: Any = None,
        row_lengths: Any = None,
        causal: bool | str | None = False,
        causal_offset: int | None = None,
        sinks: Any = None,
        empty_rows_are_zero: bool = False,
        **unknown: Any,
    ) -> None:
        for name in unknown:
            raise TypeError(f"softmax and its relatives have no argument {name}")
        self.kept: list[np.ndarray] = []
        fields: dict[str, Any] = {"scale": scale_field(scale), "softcap": softcap}
        causality = causal_fields(causal, causal_offset)
        if causality and rows.array.ndim > 2:
            row_lengths = _causal_lengths(rows.array.shape, row_lengths, **causality)
        else:
            fields |= causality
        fields["empty_rows_are_zero"] = int(empty_rows_are_zero)
        if bias is not None:
            array, fields["bias_stride"] = _matrix(as_numbers(bias, "bias", number), rows, "bias")
            fields["bias"] = self._address(array)
        if mask is not None:
            array, fields["mask_stride"] = _matrix(as_mask(mask, "mask"), rows, "mask")
            fields["mask"] = self._address(array)
        if row_lengths is not None:
            fields["row_lengths"] = self._per_row(_lengths(row_lengths).astype(np.uintp), "row_lengths", rows)
        if sinks is not None:
            fields["sinks"] = self._per_row(as_numbers(sinks, "sinks", number), "sinks", rows)
        self.options = SoftmaxOptions(**fields)

    def _address(self, array: np.ndarray) -> int:
        self.kept.append(array)
        return array.ctypes.data

    def _per_row(self, array: np.ndarray, name: str, rows: Rows) -> int:
        return self._address(np.ascontiguousarray(broadcast(array, rows.array.shape[:-1], name)))


def _lengths(x: Any) -> np.ndarray:
    lengths = as_integers(x, "row_lengths")
    if lengths.size > 0 and lengths.min() < 0:
        raise ValueError("row_lengths holds a negative length")
    return lengths


def _causal_lengths(shape: tuple[int, ...], lengths: Any, causal: int, causal_offset: int = 0) -> np.ndarray:
    """Causality of each matrix [..., rows, cols], as lengths of rows: the library's begins once, at the first of all rows."""
    *_, rows, cols = shape
    if causal == CAUSAL["bottom_right"]:
        causal_offset = cols - rows
    seen = np.clip(np.arange(rows) + causal_offset + 1, 0, cols)
    if lengths is None:
        return seen
    lengths = broadcast(_lengths(lengths), shape[:-1], "row_lengths")
    return np.where(lengths > cols, lengths, np.minimum(lengths, seen))  # the library refuses too long a row


def _row_function(name: str, x: Any, out: Any, options: dict[str, Any]) -> np.ndarray:
    rows = input_rows(x, "x")
    rapt_type = element_type(rows.array, "x")
    if rapt_type not in SUFFIXES or not hasattr(C, f"rapt_{name}_{SUFFIXES[rapt_type]}"):
        raise TypeError(f"x has elements of {rows.array.dtype.name}: {name} lacks them")
    call = _Call(rows, arithmetic_type(rapt_type), **options)
    result, flat = output_rows(out, rows.array.shape, rapt_type, rows.array)
    function = getattr(C, f"rapt_{name}_{SUFFIXES[rapt_type]}")
    check(function(rows.address, rows.stride, flat.address, flat.stride, rows.rows, rows.cols, call.options))
    return result


def softmax(x: Any, *, out: Any = None, **options: Any) -> np.ndarray:
    """exp(s) / sum of exp(s) over the last dimension of x, where the options make s of x.

    x has at least one dimension, of f32, f64, f16 or bf16. The result has its shape and type. `out` may be x. A single
    stride leads from row to row of `out`.

    scale           s = scale * x; 1 by default
    softcap         then s = softcap * tanh(s / softcap); 0, the default, is off
    bias            numbers that are added to s, and broadcast to x.shape; -inf excludes
    mask            of bool or uint8, which broadcasts to x.shape; False excludes
    row_lengths     integers that broadcast to x.shape[:-1]: the columns of each row
    sinks           numbers that broadcast to x.shape[:-1]: a logit per row that only joins the sum
    causal          True or "bottom_right": in each matrix of the last two dimensions, the last row sees the last column;
                    "top_left": the first row sees only the first column
    causal_offset   row r sees the columns up to r + causal_offset
    empty_rows_are_zero   True: a row of -inf gives 0, not NaN
    """
    return _row_function("softmax", x, out, options)


def log_softmax(x: Any, *, out: Any = None, **options: Any) -> np.ndarray:
    """The logarithm of softmax, with its types, options and `out`."""
    return _row_function("log_softmax", x, out, options)


def logsumexp(x: Any, **options: Any) -> np.ndarray:
    """log of the sum of exp(s) of each row. x is f32 or f64; the result is x.shape[:-1].

    The options are softmax's, except empty_rows_are_zero: a row of -inf has -inf.
    """
    rows = input_rows(x, "x")
    rapt_type = element_type(rows.array, "x")
    if rapt_type not in (F32, F64):
        raise TypeError(f"x has elements of {rows.array.dtype.name}: logsumexp has f32 and f64")
    call = _Call(rows, rapt_type, **options)
    result = empty(rows.array.shape[:-1], rapt_type)
    function = getattr(C, f"rapt_logsumexp_{SUFFIXES[rapt_type]}")
    check(function(rows.address, rows.stride, result.ctypes.data, rows.rows, rows.cols, call.options))
    return result


def softmax_backward(y: Any, dy: Any, scale: float = 1.0, *, out: Any = None) -> np.ndarray:
    """The gradient of softmax(scale * x) from its output y and that output's gradient dy.

    y, dy and the result have one shape and one type, f32 or f64. `out` may be y or dy.
    """
    y_rows, dy_rows = input_rows(y, "y"), input_rows(dy, "dy")
    rapt_type = element_type(y_rows.array, "y")
    if rapt_type not in (F32, F64) or dy_rows.array.dtype != y_rows.array.dtype:
        raise TypeError("y and dy must both be f32, or both f64")
    if dy_rows.array.shape != y_rows.array.shape:
        raise ValueError(f"y has the shape {y_rows.array.shape} and dy {dy_rows.array.shape}")
    result, flat = output_rows(out, y_rows.array.shape, rapt_type, y_rows.array)
    function = getattr(C, f"rapt_softmax_backward_{SUFFIXES[rapt_type]}")
    check(
        function(
            y_rows.address,
            y_rows.stride,
            dy_rows.address,
            dy_rows.stride,
            flat.address,
            flat.stride,
            y_rows.rows,
            y_rows.cols,
            scale,
        )
    )
    return result
