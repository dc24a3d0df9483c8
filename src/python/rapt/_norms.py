# mypy: no-warn-unused-ignores
"""rms_norm, layer_norm and their gradients, over the last dimension."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from ._arguments import flag, number
from ._arrays import (
    DTYPES,
    Array,
    Rows,
    TensorLike,
    Torch,
    address,
    arithmetic_type,
    as_array,
    as_numbers,
    as_output,
    element_type,
    given_rows,
    gradient_rows,
    in_kind_of,
    input_rows,
    output_rows,
)
from ._errors import error
from ._library import BF16, C, F16, F32, F64, NormBackwardOptions, NormOptions, count
from ._pieces import PIECE, refuse_overlaps, rows_in_pieces
from ._prepared import Prepared, joins
from ._status import Status

_TYPES = (F32, F64, F16, BF16)


class NormStatistics(NamedTuple):
    """What a norm multiplies its rows by and subtracts from them, for the gradient: f32, or f64 of x in f64, of x.shape[:-1].

    rstd        1 / sqrt(mean(x^2) + eps), or of layer_norm 1 / sqrt(mean((x - mean)^2) + eps)
    mean        of layer_norm, rounded
    mean_rest   what the mean has beyond `mean`; of other libraries' statistics None, which is 0

    Without columns, they are NaN.
    """

    rstd: Any
    mean: Any = None
    mean_rest: Any = None


def _new_statistics(name: str, shape: tuple[int, ...], rapt_type: int) -> NormStatistics:
    count = 1 if name == "rms_norm" else 3
    return NormStatistics(*(np.full(shape, np.nan, DTYPES[arithmetic_type(rapt_type)]) for _ in range(count)))


def _given_statistics(statistics: Any, rows: Rows, rapt_type: int) -> NormStatistics:
    """Without gaps, in the type that the library reads."""
    if not isinstance(statistics, (tuple, list)) or not 1 <= len(statistics) <= 3:
        raise TypeError("statistics are no NormStatistics, which has rstd, mean and mean_rest")
    made = []
    for name, values in zip(NormStatistics._fields, statistics):
        array = None if values is None else as_numbers(values, name, arithmetic_type(rapt_type))
        if array is not None and array.shape != rows.array.shape[:-1]:
            raise ValueError(f"{name} has the shape {array.shape}, not {rows.array.shape[:-1]}")
        made.append(None if array is None else np.ascontiguousarray(array))
    return NormStatistics(*made)


def _from_row(statistics: NormStatistics | None, first: int) -> dict[str, object]:
    """The addresses of the numbers of the rows from `first` on, as fields of options."""
    if statistics is None:
        return {}
    fields = statistics._asdict().items()
    return {name: address(array) + first * array.itemsize for name, array in fields if array is not None}


def _parameter(values: TensorLike | None, name: str, rows: Rows) -> Array | None:
    """A weight or bias: contiguous, of the type of x, one number per column."""
    if values is None:
        return None
    array = as_array(values, name)
    if element_type(array, name) != element_type(rows.array, "x"):
        raise TypeError(f"x has elements of {rows.array.dtype.name} and {name} {array.dtype.name}")
    if array.shape != (rows.cols,):
        raise ValueError(f"{name} has the shape {array.shape}, not ({rows.cols},)")
    return np.ascontiguousarray(array)


def _address(array: Array | None) -> int | None:
    return None if array is None else address(array)


def _prepare(
    name: str,
    x: Any,
    weight: TensorLike | None,
    eps: float,
    residual: Any,
    out: Any,
    *,
    return_statistics: bool,
    bias: TensorLike | None = None,
    weight_plus_one: bool = False,
) -> Prepared[Any]:
    rows = input_rows(x, "x")
    rapt_type = element_type(rows.array, "x")
    if rapt_type not in _TYPES:
        raise TypeError(f"x has elements of {rows.array.dtype.name}, and {name} has f32, f64, f16 and bf16")
    parameters = _parameter(weight, "weight", rows), _parameter(bias, "bias", rows)
    flat = output_rows(out, rows, rapt_type)
    options = NormOptions(
        type=rapt_type,
        weight_plus_one=int(flag(weight_plus_one, "weight_plus_one")),
        rows=rows.rows,
        cols=rows.cols,
        x_stride=rows.stride,
        y_stride=flat.stride,
        eps=number(eps, "eps"),
        weight=_address(parameters[0]),
        bias=_address(parameters[1]),
    )
    sums = None
    if residual is not None:
        given = as_output(residual, "residual")
        if element_type(given, "residual") != rapt_type:
            raise TypeError(f"x has elements of {rows.array.dtype.name} and residual {given.dtype.name}")
        sums = given_rows(given, "residual", rows.array.shape, rapt_type)
        options.residual, options.residual_stride = sums.address, sums.stride
    returned = out if out is not None else in_kind_of(x, flat.array)
    statistics = None
    if flag(return_statistics, "return_statistics"):
        statistics = _new_statistics(name, rows.array.shape[:-1], rapt_type)
        returned = returned, NormStatistics(*(in_kind_of(x, array) for array in statistics if array is not None))
        options = options.changed(**_from_row(statistics, 0))
    function = getattr(C, f"rapt_{name}")
    kept = rows, flat, sums, parameters, statistics, options
    copied = "x" if rows.copied else ""
    if rows.array.size > PIECE:
        _refuse_overlaps(rows, flat, sums, parameters)
        arguments = function, (rows, flat), options, partial(_of_rows, sums, statistics)
        return Prepared(rows_in_pieces, arguments, returned, kept, copied, _failed)
    return Prepared(function, (rows.address, flat.address, options), returned, kept, copied, _failed)


def _refuse_overlaps(rows: Rows, flat: Rows, sums: Rows | None, parameters: tuple[Array | None, Array | None]) -> None:
    others = {"weight": parameters[0], "bias": parameters[1]}
    refuse_overlaps(flat.array, {"x": rows.array}, {**others, "residual": None if sums is None else sums.array})
    if sums is not None:
        refuse_overlaps(sums.array, {}, {**others, "x": rows.array}, "residual")


def _failed(status: int, kept: tuple[Any, ...]) -> None:
    *arrays, _, options = kept
    if status == Status.OVERLAP:
        _refuse_overlaps(*arrays)
    raise error(status, options, arithmetic_type(options.type))


def _of_rows(sums: Rows | None, statistics: NormStatistics | None, first: int) -> dict[str, object]:
    residual = {} if sums is None else {"residual": sums.at(first)}
    return {**residual, **_from_row(statistics, first)}


# fmt: off
@overload
def rms_norm(  # type: ignore[misc]
    x: Torch, weight: TensorLike | None = None, *, eps: float = 1e-6, weight_plus_one: bool = False,
    residual: Torch | None = None, out: Torch | None = None, return_statistics: Literal[False] = False,
) -> Torch: ...
@overload
def rms_norm(  # type: ignore[misc]
    x: Torch, weight: TensorLike | None = None, *, eps: float = 1e-6, weight_plus_one: bool = False,
    residual: Torch | None = None, out: Torch | None = None, return_statistics: Literal[True],
) -> tuple[Torch, NormStatistics]: ...
@overload
def rms_norm(
    x: TensorLike, weight: TensorLike | None = None, *, eps: float = 1e-6, weight_plus_one: bool = False,
    residual: Array | None = None, out: Array | None = None, return_statistics: Literal[False] = False,
) -> Array: ...
@overload
def rms_norm(
    x: TensorLike, weight: TensorLike | None = None, *, eps: float = 1e-6, weight_plus_one: bool = False,
    residual: Array | None = None, out: Array | None = None, return_statistics: Literal[True],
) -> tuple[Array, NormStatistics]: ...
# fmt: on


def rms_norm(
    x: Any,
    weight: TensorLike | None = None,
    *,
    eps: float = 1e-6,
    weight_plus_one: bool = False,
    residual: Any = None,
    out: Any = None,
    return_statistics: bool = False,
) -> Any:
    """x / sqrt(mean(x^2) + eps) * weight for each row, in f32, f64, f16 or bf16.

    x is [...][cols]. The result has its shape and type, and is a tensor of PyTorch where x is one.

    weight              [cols] in x's type; 1 by default
    weight_plus_one     weight + 1 takes the place of weight, as in Gemma
    residual            an array like x: x + residual is written to it, and normalised in place of x
    out                 takes the result, and may be x
    return_statistics   True: a pair of the result and NormStatistics, with which the gradient is faster and has the same bits

    A TypeError is another type of elements, or several types. A ValueError is another shape, an eps below 0, or an overlap.
    """
    return _prepare(
        "rms_norm", x, weight, eps, residual, out, return_statistics=return_statistics, weight_plus_one=weight_plus_one
    )()


# fmt: off
@overload
def layer_norm(  # type: ignore[misc]
    x: Torch, weight: TensorLike | None = None, bias: TensorLike | None = None, *, eps: float = 1e-5,
    residual: Torch | None = None, out: Torch | None = None, return_statistics: Literal[False] = False,
) -> Torch: ...
@overload
def layer_norm(  # type: ignore[misc]
    x: Torch, weight: TensorLike | None = None, bias: TensorLike | None = None, *, eps: float = 1e-5,
    residual: Torch | None = None, out: Torch | None = None, return_statistics: Literal[True],
) -> tuple[Torch, NormStatistics]: ...
@overload
def layer_norm(
    x: TensorLike, weight: TensorLike | None = None, bias: TensorLike | None = None, *, eps: float = 1e-5,
    residual: Array | None = None, out: Array | None = None, return_statistics: Literal[False] = False,
) -> Array: ...
@overload
def layer_norm(
    x: TensorLike, weight: TensorLike | None = None, bias: TensorLike | None = None, *, eps: float = 1e-5,
    residual: Array | None = None, out: Array | None = None, return_statistics: Literal[True],
) -> tuple[Array, NormStatistics]: ...
# fmt: on


def layer_norm(
    x: Any,
    weight: TensorLike | None = None,
    bias: TensorLike | None = None,
    *,
    eps: float = 1e-5,
    residual: Any = None,
    out: Any = None,
    return_statistics: bool = False,
) -> Any:
    """(x - mean) / sqrt(mean((x - mean)^2) + eps) * weight + bias for each row, with rms_norm's types and arguments."""
    return _prepare("layer_norm", x, weight, eps, residual, out, return_statistics=return_statistics, bias=bias)()


joins(rms_norm, partial(_prepare, "rms_norm"))
joins(layer_norm, partial(_prepare, "layer_norm"))


def _accumulate(statistics: NormStatistics | None, first: int) -> dict[str, object]:
    """dweight and dbias are sums over the rows, which go on from one piece to the next."""
    return {"accumulate": int(first > 0), **_from_row(statistics, first)}


def _backward(
    name: str, x: Any, dy: TensorLike, weight: TensorLike | None, eps: float, plus_one: bool, statistics: Any, out: Any
) -> tuple[Any, ...]:
    x_rows, dy_rows, rapt_type = gradient_rows(x, "x", dy)
    factors = _parameter(weight, "weight", x_rows)
    sums_type = DTYPES[arithmetic_type(rapt_type)]
    dweight = np.zeros(x_rows.cols, sums_type)
    dbias = np.zeros(x_rows.cols, sums_type) if name == "layer_norm" else None
    given = None if statistics is None else _given_statistics(statistics, x_rows, rapt_type)
    flat = output_rows(out, x_rows, rapt_type)
    options = NormBackwardOptions(
        type=rapt_type,
        weight_plus_one=int(flag(plus_one, "weight_plus_one")),
        rows=x_rows.rows,
        cols=x_rows.cols,
        x_stride=x_rows.stride,
        dy_stride=dy_rows.stride,
        dx_stride=flat.stride,
        eps=number(eps, "eps"),
        weight=_address(factors),
        dweight=_address(dweight),
        dbias=_address(dbias),
        **_from_row(given, 0),
    )
    workspace = np.empty(count(C.rapt_norm_backward_workspace, options), np.uint8)
    options.workspace, options.workspace_size = address(workspace), workspace.size
    function = getattr(C, f"rapt_{name}_backward")
    others = {"weight": factors, **({} if given is None else given._asdict())}
    overlaps = flat.array, {"x": x_rows.array, "dy": dy_rows.array}, others
    if x_rows.array.size > PIECE:
        refuse_overlaps(*overlaps)
        status = rows_in_pieces(function, (x_rows, dy_rows, flat), options, partial(_accumulate, given))
    else:
        status = function(x_rows.address, dy_rows.address, flat.address, options)
    if status:
        refuse_overlaps(*overlaps)
        raise error(status, options, arithmetic_type(rapt_type))
    dx = out if out is not None else in_kind_of(x, flat.array)
    return (dx, *(in_kind_of(x, sums) for sums in (dweight, dbias) if sums is not None))


# fmt: off
@overload
def rms_norm_backward(  # type: ignore[misc]
    x: Torch, dy: TensorLike, weight: TensorLike | None = None, *, eps: float = 1e-6, weight_plus_one: bool = False,
    statistics: NormStatistics | None = None, out: Torch | None = None,
) -> tuple[Torch, Torch]: ...
@overload
def rms_norm_backward(
    x: TensorLike, dy: TensorLike, weight: TensorLike | None = None, *, eps: float = 1e-6, weight_plus_one: bool = False,
    statistics: NormStatistics | None = None, out: Array | None = None,
) -> tuple[Array, Array]: ...
# fmt: on


def rms_norm_backward(
    x: Any,
    dy: TensorLike,
    weight: TensorLike | None = None,
    *,
    eps: float = 1e-6,
    weight_plus_one: bool = False,
    statistics: NormStatistics | None = None,
    out: Any = None,
) -> tuple[Any, Any]:
    """dx and dweight of rms_norm, from x and the gradient dy of its output.

    x and dy have one shape and one type, f32, f64, f16 or bf16, as dx has; dweight is [cols], f32 for types of 16 bits.
    statistics are those of rms_norm, which are computed again without them; eps then has no effect. `out` takes dx, and may
    be x or dy. A TypeError is another type, a ValueError another shape.
    """
    dx, dweight = _backward("rms_norm", x, dy, weight, eps, weight_plus_one, statistics, out)
    return dx, dweight


# fmt: off
@overload
def layer_norm_backward(  # type: ignore[misc]
    x: Torch, dy: TensorLike, weight: TensorLike | None = None, *, eps: float = 1e-5,
    statistics: NormStatistics | None = None, out: Torch | None = None,
) -> tuple[Torch, Torch, Torch]: ...
@overload
def layer_norm_backward(
    x: TensorLike, dy: TensorLike, weight: TensorLike | None = None, *, eps: float = 1e-5,
    statistics: NormStatistics | None = None, out: Array | None = None,
) -> tuple[Array, Array, Array]: ...
# fmt: on


def layer_norm_backward(
    x: Any,
    dy: TensorLike,
    weight: TensorLike | None = None,
    *,
    eps: float = 1e-5,
    statistics: NormStatistics | None = None,
    out: Any = None,
) -> tuple[Any, Any, Any]:
    """dx, dweight and dbias of layer_norm, with rms_norm_backward's arguments, types and errors.

    NormStatistics(rstd, mean) of another library do too.
    """
    dx, dweight, dbias = _backward("layer_norm", x, dy, weight, eps, False, statistics, out)
    return dx, dweight, dbias
