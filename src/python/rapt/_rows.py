# mypy: no-warn-unused-ignores
"""Softmax and its relatives over one dimension."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, overload

import numpy as np

from ._arguments import flag, integer, number
from ._arrays import (
    SUFFIXES,
    Array,
    Rows,
    TensorLike,
    Torch,
    address,
    arithmetic_type,
    as_array,
    as_integers,
    as_mask,
    as_numbers,
    as_output,
    broadcast,
    broadcast_rows,
    check_output,
    element_type,
    empty,
    gradient_rows,
    in_kind_of,
    input_rows,
    output_rows,
    row_stride,
    writable,
)
from ._errors import error
from ._library import BF16, C, CAUSAL, F16, F32, F64, REPEAT, SoftmaxOptions, check
from ._pieces import PIECE, in_pieces, refuse_overlaps, run_all
from ._prepared import Prepared, joins
from ._scores import Causal, causal_fields, scale_field
from ._status import Status
from ._vectors import NARROWED, WIDENED


def _matrix(array: Array, rows: Rows, name: str) -> tuple[Array, int]:
    """A matrix of the options, in the shape of x, and its stride. One row may serve all rows."""
    array, strides = broadcast_rows(array, rows.array.shape, name)
    stride = row_stride(rows.array.shape, strides, array.itemsize)
    if stride is None or 0 < stride < rows.cols:
        return np.ascontiguousarray(np.broadcast_to(array, rows.array.shape)), rows.cols
    return array, stride or REPEAT


def _along(array: Array, axis: int, ndim: int, name: str) -> Array:
    """What broadcasts to a tensor of ndim dimensions, with its dimension `axis` last."""
    if axis == ndim - 1:
        return array
    if array.ndim > ndim:
        raise ValueError(f"{name} has the shape {array.shape}, with an x of {ndim} dimensions")
    return np.moveaxis(array[(None,) * (ndim - array.ndim)], axis, -1)


class _Options:
    """The options of one call for the library, and the arrays that they point to."""

    __slots__ = ("kept", "struct")

    def __init__(
        self,
        rows: Rows,
        arithmetic: int,
        axis: int,
        scale: float | None = None,
        softcap: float = 0.0,
        bias: TensorLike | None = None,
        mask: TensorLike | None = None,
        row_lengths: TensorLike | None = None,
        sinks: TensorLike | None = None,
        causal: Causal = False,
        causal_offset: int | None = None,
        empty_rows_are_zero: bool = False,
    ) -> None:
        self.kept: dict[str, Array] = {}
        ndim = rows.array.ndim
        fields: dict[str, Any] = {"softcap": number(softcap, "softcap")}
        if scale is not None:
            fields["scale"] = scale_field(scale)
        causality = causal_fields(causal, causal_offset)
        if causality and axis != ndim - 1:
            raise ValueError(f"causal is of rows along the last dimension, and axis is {axis}")
        if causality and ndim > 2:
            row_lengths = _causal_lengths(rows.array.shape, row_lengths, **causality)
        else:
            fields |= causality
        fields["empty_rows_are_zero"] = int(flag(empty_rows_are_zero, "empty_rows_are_zero"))
        if bias is not None:
            array = _along(as_numbers(bias, "bias", arithmetic), axis, ndim, "bias")
            array, fields["bias_stride"] = _matrix(array, rows, "bias")
            fields["bias"] = self._address(array, "bias")
        if mask is not None:
            array = _along(as_mask(mask, "mask"), axis, ndim, "mask")
            array, fields["mask_stride"] = _matrix(array, rows, "mask")
            fields["mask"] = self._address(array, "mask")
        if row_lengths is not None:
            lengths = _lengths(row_lengths, rows.cols).astype(np.uintp)
            fields["row_lengths"] = self._per_row(lengths, "row_lengths", rows)
        if sinks is not None:
            fields["sinks"] = self._per_row(as_numbers(sinks, "sinks", arithmetic), "sinks", rows)
        self.struct = SoftmaxOptions(**fields)

    def _address(self, array: Array, name: str) -> int:
        self.kept[name] = array
        return address(array)

    def _per_row(self, array: Array, name: str, rows: Rows) -> int:
        return self._address(np.ascontiguousarray(broadcast(array, rows.array.shape[:-1], name)), name)


def _options(rows: Rows, arithmetic: int, axis: int, *given: Any) -> _Options | None:
    """None where all are defaults."""
    scale, softcap, bias, mask, row_lengths, sinks, causal, causal_offset, empty_rows_are_zero = given
    if (
        scale is None and type(softcap) is float and softcap == 0 and bias is None and mask is None
        and row_lengths is None and sinks is None and causal is False and causal_offset is None
        and empty_rows_are_zero is False
    ):  # fmt: skip
        return None
    return _Options(rows, arithmetic, axis, *given)


def _operands(options: _Options | None) -> dict[str, Array]:
    return {} if options is None else options.kept


def _lengths(x: Any, cols: int) -> Array:
    lengths = as_integers(x, "row_lengths")
    if lengths.size > 0 and lengths.min() < 0:
        raise ValueError(f"row_lengths holds {lengths.min()}, a negative length")
    if lengths.size > 0 and lengths.max() > cols:
        raise ValueError(f"row_lengths holds {lengths.max()}, and rows have {cols} elements")
    return lengths


def _causal_lengths(shape: tuple[int, ...], lengths: Any, causal: int, causal_offset: int = 0) -> Array:
    """Causality of each matrix [..., rows, cols], as lengths of rows: the library's begins once, at the first of all rows."""
    *_, rows, cols = shape
    if causal == CAUSAL["bottom_right"]:
        causal_offset = cols - rows
    seen = np.clip(np.arange(rows) + causal_offset + 1, 0, cols)
    if lengths is None:
        return seen
    return np.minimum(broadcast(_lengths(lengths, cols), shape[:-1], "row_lengths"), seen)


def _from_row(options: SoftmaxOptions | None, first: int, rows: Rows, arithmetic: int) -> SoftmaxOptions | None:
    """The options of the rows from `first` on."""
    if options is None:
        return None
    piece = options.changed()
    size = 8 if arithmetic == F64 else 4
    if options.bias and options.bias_stride != REPEAT:
        piece.bias = options.bias + first * options.bias_stride * size
    if options.mask and options.mask_stride != REPEAT:
        piece.mask = options.mask + first * options.mask_stride
    if options.row_lengths:
        piece.row_lengths = options.row_lengths + first * 8
    if options.sinks:
        piece.sinks = options.sinks + first * size
    if options.causal:
        begin = {CAUSAL["bottom_right"]: rows.cols - rows.rows, CAUSAL["top_left"]: 0}
        piece.causal = CAUSAL["offset"]
        piece.causal_offset = begin.get(options.causal, options.causal_offset) + first
    return piece


def _piece(
    function: Callable[..., int],
    rows: Rows,
    results: Rows,
    options: SoftmaxOptions | None,
    arithmetic: int,
    first: int,
    count: int,
) -> int:
    x, y, part = rows.at(first), results.at(first), _from_row(options, first, rows, arithmetic)
    return function(x, rows.stride, y, results.stride, count, rows.cols, part)


_FUNCTIONS = {
    name: {rapt_type: getattr(C, f"rapt_{name}_{SUFFIXES[rapt_type]}") for rapt_type in (F32, F64, F16, BF16)}
    for name in ("softmax", "log_softmax")
}
_LOGSUMEXP = {rapt_type: getattr(C, f"rapt_logsumexp_{SUFFIXES[rapt_type]}") for rapt_type in (F32, F64)}


def _run_along(
    call: Callable[[], int], copy_in: tuple[Array, Array], copy_out: tuple[Array, Array] | None = None
) -> int:
    """A call on copies whose rows are contiguous."""
    np.copyto(*copy_in)
    status = call()
    if status == 0 and copy_out is not None:
        np.copyto(*copy_out)
    return status


def _prepare_rows(
    name: str,
    x: Any,
    out: Any,
    axis: int,
    scale: float | None,
    softcap: float,
    bias: TensorLike | None,
    mask: TensorLike | None,
    row_lengths: TensorLike | None,
    sinks: TensorLike | None,
    causal: Causal,
    causal_offset: int | None,
    empty_rows_are_zero: bool,
) -> Prepared[Any]:
    """The options are positional because names cost more to pass."""
    if type(axis) is not int or axis != -1:
        given = as_array(x, "x")
        axis = _axis(axis, given.ndim)
        if axis != given.ndim - 1:
            rows = input_rows(np.empty(np.moveaxis(given, axis, -1).shape, given.dtype), "x")
        else:
            rows = input_rows(given, "x")
    else:
        rows = input_rows(x, "x")
        axis = rows.array.ndim - 1
    array = rows.array
    rapt_type = element_type(array, "x")
    function = _FUNCTIONS[name].get(rapt_type)
    if function is None:
        raise TypeError(f"x has elements of {array.dtype.name}, and {name} has f32, f64, f16 and bf16")
    arithmetic = arithmetic_type(rapt_type)
    options = _options(
        rows, arithmetic, axis, scale, softcap, bias, mask, row_lengths, sinks, causal, causal_offset,
        empty_rows_are_zero,
    )  # fmt: skip
    is_last = axis == array.ndim - 1
    if is_last:
        flat = output_rows(out, rows, rapt_type)
        result = flat.array
    else:
        flat = Rows(empty(array.shape, rapt_type), rows.rows, rows.cols, rows.cols)
        shape = list(array.shape[:-1])
        shape.insert(axis, array.shape[-1])
        result = _any_output(out, tuple(shape), rapt_type, array)
    returned = out if out is not None else in_kind_of(x, result)
    struct = None if options is None else options.struct
    kept = (rows, flat, options)
    call: Prepared[Any]
    if array.size > PIECE:
        refuse_overlaps(flat.array, {"x": array}, _operands(options))
        piece = partial(_piece, function, rows, flat, struct, arithmetic)
        call = Prepared(in_pieces, (piece, rows.rows), returned, kept, "x" if rows.copied else "", _failed)
    else:
        arguments = (rows.address, rows.stride, flat.address, flat.stride, rows.rows, rows.cols, struct)
        call = Prepared(function, arguments, returned, kept, "x" if rows.copied else "", _failed)
    if is_last:
        return call
    copy_in = (array, np.moveaxis(as_array(x, "x"), axis, -1))
    copy_out = (np.moveaxis(result.view(flat.array.dtype), axis, -1), flat.array)
    return Prepared(_run_along, (call.status, copy_in, copy_out), returned, kept, failed=_failed)


def _failed(status: int, kept: tuple[Any, ...]) -> None:
    rows, result, options = kept[:3]
    if status == Status.OVERLAP:
        refuse_overlaps(result.array, {"x": rows.array}, _operands(options))
    raise error(status, options and options.struct, arithmetic_type(element_type(rows.array, "x")))


def _axis(axis: int, ndim: int) -> int:
    if ndim == 0:
        raise ValueError("x has no dimension")
    axis = integer(axis, "axis", -ndim, ndim - 1)
    return axis + ndim if axis < 0 else axis


def _any_output(out: Any, shape: tuple[int, ...], rapt_type: int, like: Array) -> Array:
    """Of any strides: results are copied to it."""
    if out is None:
        return empty(shape, rapt_type, like)
    result = as_output(out)
    if result.shape != shape:
        raise ValueError(f"out has the shape {result.shape}, not {shape}")
    if element_type(result, "out") != rapt_type:
        raise TypeError(f"out has elements of {result.dtype.name}, and x of {like.dtype.name}")
    return writable(result, "out")


# fmt: off
@overload
def softmax(  # type: ignore[misc]
    x: Torch, *, axis: int = -1, scale: float | None = None, softcap: float = 0.0, bias: TensorLike | None = None,
    mask: TensorLike | None = None, row_lengths: TensorLike | None = None, sinks: TensorLike | None = None,
    causal: Causal = False, causal_offset: int | None = None, empty_rows_are_zero: bool = False, out: Torch | None = None,
) -> Torch: ...
@overload
def softmax(
    x: TensorLike, *, axis: int = -1, scale: float | None = None, softcap: float = 0.0, bias: TensorLike | None = None,
    mask: TensorLike | None = None, row_lengths: TensorLike | None = None, sinks: TensorLike | None = None,
    causal: Causal = False, causal_offset: int | None = None, empty_rows_are_zero: bool = False, out: Array | None = None,
) -> Array: ...
# fmt: on


def softmax(
    x: Any,
    *,
    axis: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    bias: TensorLike | None = None,
    mask: TensorLike | None = None,
    row_lengths: TensorLike | None = None,
    sinks: TensorLike | None = None,
    causal: Causal = False,
    causal_offset: int | None = None,
    empty_rows_are_zero: bool = False,
    out: Any = None,
) -> Any:
    """exp(s) / sum of exp(s) over one dimension of x, where the options make s of x.

    x has at least one dimension, of f32, f64, f16 or bf16. The result has its shape and type, and is a tensor of PyTorch
    where x is one. `out` takes the result, and may be x. Along the last dimension, a single stride leads from row to row of
    `out`.

    axis            the dimension of a row; another one than the last costs copies
    scale           s = scale * x; 1 by default
    softcap         then s = softcap * tanh(s / softcap); 0, the default, is off
    bias            numbers that are added to s, and broadcast to x.shape; -inf excludes
    mask            of bool or uint8, which broadcasts to x.shape; False excludes
    row_lengths     integers that broadcast to x.shape without axis: how many elements of a row count
    sinks           numbers that broadcast to x.shape without axis: a logit per row that only joins the sum
    causal          True or "bottom_right": in each matrix of the last two dimensions, the last row sees the last column;
                    "top_left": the first row sees only the first column. The axis is the last one
    causal_offset   row r sees the columns up to r + causal_offset
    empty_rows_are_zero   True: a row of -inf gives 0, not NaN

    A TypeError is another type of elements. A ValueError is a shape that does not fit, a length beyond the row, a scale of
    0, an `out` that overlaps x without being x, or a tensor of PyTorch that requires a gradient.

    >>> rapt.softmax(np.zeros((2, 4), np.float32), causal="top_left")
    array([[1. , 0. , 0. , 0. ],
           [0.5, 0.5, 0. , 0. ]], dtype=float32)
    """
    return _prepare_rows(
        "softmax", x, out, axis, scale, softcap, bias, mask, row_lengths, sinks, causal, causal_offset,
        empty_rows_are_zero,
    )()  # fmt: skip


# fmt: off
@overload
def log_softmax(  # type: ignore[misc]
    x: Torch, *, axis: int = -1, scale: float | None = None, softcap: float = 0.0, bias: TensorLike | None = None,
    mask: TensorLike | None = None, row_lengths: TensorLike | None = None, sinks: TensorLike | None = None,
    causal: Causal = False, causal_offset: int | None = None, empty_rows_are_zero: bool = False, out: Torch | None = None,
) -> Torch: ...
@overload
def log_softmax(
    x: TensorLike, *, axis: int = -1, scale: float | None = None, softcap: float = 0.0, bias: TensorLike | None = None,
    mask: TensorLike | None = None, row_lengths: TensorLike | None = None, sinks: TensorLike | None = None,
    causal: Causal = False, causal_offset: int | None = None, empty_rows_are_zero: bool = False, out: Array | None = None,
) -> Array: ...
# fmt: on


def log_softmax(
    x: Any,
    *,
    axis: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    bias: TensorLike | None = None,
    mask: TensorLike | None = None,
    row_lengths: TensorLike | None = None,
    sinks: TensorLike | None = None,
    causal: Causal = False,
    causal_offset: int | None = None,
    empty_rows_are_zero: bool = False,
    out: Any = None,
) -> Any:
    """The logarithm of softmax, with its types, options, `out` and errors.

    With empty_rows_are_zero, a row of -inf gives -inf.
    """
    return _prepare_rows(
        "log_softmax", x, out, axis, scale, softcap, bias, mask, row_lengths, sinks, causal, causal_offset,
        empty_rows_are_zero,
    )()  # fmt: skip


joins(softmax, partial(_prepare_rows, "softmax"))
joins(log_softmax, partial(_prepare_rows, "log_softmax"))


def _logsumexp_piece(
    rows: Rows, totals: Rows, options: SoftmaxOptions | None, arithmetic: int, first: int, count: int
) -> Any:
    part = _from_row(options, first, rows, arithmetic)
    return _LOGSUMEXP[arithmetic](rows.at(first), rows.stride, totals.at(first), count, rows.cols, part)


def _logsumexp_of_16_bits(
    source: Rows,
    wide: Rows,
    totals: Rows,
    results: Rows,
    options: SoftmaxOptions | None,
    rapt_type: int,
    first: int,
    count: int,
) -> Any:
    WIDENED[rapt_type](source.at(first), wide.at(first), count * wide.cols)
    status = _logsumexp_piece(wide, totals, options, F32, first, count)
    if not status:
        NARROWED[rapt_type](totals.at(first), results.at(first), count)
    return status


def _prepare_logsumexp(
    x: Any,
    axis: int,
    scale: float | None,
    softcap: float,
    bias: TensorLike | None,
    mask: TensorLike | None,
    row_lengths: TensorLike | None,
    sinks: TensorLike | None,
    causal: Causal,
    causal_offset: int | None,
    empty_rows_are_zero: bool,
    out: Any,
) -> Prepared[Any]:
    if flag(empty_rows_are_zero, "empty_rows_are_zero"):
        raise ValueError("empty_rows_are_zero is True, which logsumexp lacks: a row of -inf has -inf")
    given = as_array(x, "x")
    axis = _axis(axis, given.ndim)
    is_last = axis == given.ndim - 1
    moved = given if is_last else np.empty(np.moveaxis(given, axis, -1).shape, given.dtype)
    rapt_type = element_type(given, "x")
    if rapt_type not in _FUNCTIONS["softmax"]:
        raise TypeError(f"x has elements of {given.dtype.name}, and logsumexp has f32, f64, f16 and bf16")
    arithmetic = arithmetic_type(rapt_type)
    is_wide = rapt_type == arithmetic
    source = moved if is_wide or moved.flags.c_contiguous else np.ascontiguousarray(moved)
    rows = input_rows(moved if is_wide else empty(moved.shape, F32), "x")
    options = _options(
        rows, arithmetic, axis, scale, softcap, bias, mask, row_lengths, sinks, causal, causal_offset,
        empty_rows_are_zero,
    )  # fmt: skip
    struct = None if options is None else options.struct
    shape = moved.shape[:-1]
    if out is None:
        result = empty(shape, rapt_type, given)
    else:
        result = check_output(as_output(out), "out", shape, (rapt_type,))
        if not result.flags.c_contiguous:
            raise ValueError("out is not contiguous")
        refuse_overlaps(result, {}, {"x": given, **_operands(options)})
    returned = out if out is not None else in_kind_of(x, result)
    total = result if is_wide else empty(shape, F32)
    totals = Rows(total.reshape(-1), total.size, 1, 1)
    kept = (rows, totals, options, source, result)
    copied = "x" if rows.copied or source is not moved else ""
    if is_wide:
        piece = partial(_logsumexp_piece, rows, totals, struct, arithmetic)
    else:
        of_source, results = Rows(source, rows.rows, rows.cols, rows.cols), Rows(result, rows.rows, 1, 1)
        piece = partial(_logsumexp_of_16_bits, of_source, rows, totals, results, struct, rapt_type)
    call: Prepared[Any]
    if rows.array.size > PIECE:
        call = Prepared(in_pieces, (piece, rows.rows), returned, kept, copied, _failed)
    elif is_wide:
        arguments = (rows.address, rows.stride, totals.address, rows.rows, rows.cols, struct)
        call = Prepared(_LOGSUMEXP[arithmetic], arguments, returned, kept, copied, _failed)
    else:
        call = Prepared(piece, (0, rows.rows), returned, kept, copied, _failed)
    if is_last:
        return call
    return Prepared(_run_along, (call.status, (moved, np.moveaxis(given, axis, -1))), returned, kept, failed=_failed)


# fmt: off
@overload
def logsumexp(  # type: ignore[misc]
    x: Torch, *, axis: int = -1, scale: float | None = None, softcap: float = 0.0, bias: TensorLike | None = None,
    mask: TensorLike | None = None, row_lengths: TensorLike | None = None, sinks: TensorLike | None = None,
    causal: Causal = False, causal_offset: int | None = None, empty_rows_are_zero: bool = False, out: Torch | None = None,
) -> Torch: ...
@overload
def logsumexp(
    x: TensorLike, *, axis: int = -1, scale: float | None = None, softcap: float = 0.0, bias: TensorLike | None = None,
    mask: TensorLike | None = None, row_lengths: TensorLike | None = None, sinks: TensorLike | None = None,
    causal: Causal = False, causal_offset: int | None = None, empty_rows_are_zero: bool = False, out: Array | None = None,
) -> Array: ...
# fmt: on


def logsumexp(
    x: Any,
    *,
    axis: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    bias: TensorLike | None = None,
    mask: TensorLike | None = None,
    row_lengths: TensorLike | None = None,
    sinks: TensorLike | None = None,
    causal: Causal = False,
    causal_offset: int | None = None,
    empty_rows_are_zero: bool = False,
    out: Any = None,
) -> Any:
    """log of the sum of exp(s) of each row, of the shape of x without axis and of x's type.

    The types, options and errors are softmax's, except empty_rows_are_zero, which is a ValueError: a row of -inf has -inf.
    f16 and bf16 are widened to f32 exactly, computed in f32, and rounded once. `out` is contiguous and does not overlap x.

    >>> rapt.logsumexp(np.zeros((2, 4), np.float32), axis=0)
    array([0.6931472, 0.6931472, 0.6931472, 0.6931472], dtype=float32)
    """
    return _prepare_logsumexp(
        x, axis, scale, softcap, bias, mask, row_lengths, sinks, causal, causal_offset, empty_rows_are_zero, out,
    )()  # fmt: skip


joins(logsumexp, _prepare_logsumexp)


# fmt: off
@overload
def softmax_backward(y: Torch, dy: TensorLike, scale: float = 1.0, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def softmax_backward(y: TensorLike, dy: TensorLike, scale: float = 1.0, *, out: Array | None = None) -> Array: ...
# fmt: on


def softmax_backward(y: Any, dy: Any, scale: float = 1.0, *, out: Any = None) -> Any:
    """The gradient of softmax(scale * x) from its output y and that output's gradient dy, along the last dimension.

    y, dy and the result have one shape and one type, f32, f64, f16 or bf16. `out` may be y or dy. A TypeError is another
    type, a ValueError another shape.
    """
    return _gradient("softmax_backward", y, dy, scale, out)


# fmt: off
@overload
def log_softmax_backward(y: Torch, dy: TensorLike, scale: float = 1.0, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def log_softmax_backward(y: TensorLike, dy: TensorLike, scale: float = 1.0, *, out: Array | None = None) -> Array: ...
# fmt: on


def log_softmax_backward(y: Any, dy: Any, scale: float = 1.0, *, out: Any = None) -> Any:
    """The gradient of log_softmax(scale * x) from its output y, with softmax_backward's arguments and errors.

    Where y is -inf, dy is not looked at, and the gradient is 0.
    """
    return _gradient("log_softmax_backward", y, dy, scale, out)


def _gradient(name: str, y: Any, dy: Any, scale: float, out: Any) -> Any:
    y_rows, dy_rows, rapt_type = gradient_rows(y, "y", dy)
    scale = number(scale, "scale")
    flat = output_rows(out, y_rows, rapt_type)
    function = getattr(C, f"rapt_{name}_{SUFFIXES[rapt_type]}")

    def run(first: int, count: int) -> Any:
        of_y, of_dy, of_dx = y_rows.at(first), dy_rows.at(first), flat.at(first)
        return function(of_y, y_rows.stride, of_dy, dy_rows.stride, of_dx, flat.stride, count, y_rows.cols, scale)

    if y_rows.array.size > PIECE:
        _refuse_overlap(flat, y_rows, dy_rows)
    status = run_all(run, y_rows.rows, y_rows.array.size)
    if status == Status.SCALE:
        raise ValueError(f"scale is {scale!r}, which is not finite in {y_rows.array.dtype.name}")
    if status:
        _refuse_overlap(flat, y_rows, dy_rows)
        check(status)
    return out if out is not None else in_kind_of(y, flat.array)


def _refuse_overlap(dx: Rows, y: Rows, dy: Rows) -> None:
    refuse_overlaps(dx.array, {"y": y.array, "dy": dy.array}, {})
