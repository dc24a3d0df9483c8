"""Linear layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import (
    DTYPES,
    OUT_TYPES,
    SUFFIXES,
    arithmetic_type,
    as_array,
    as_integers,
    as_numbers,
    as_rows,
    broadcast,
    chosen,
    element_type,
    input_matrix,
    output_rows,
)
from ._library import ARITHMETIC, C, F64, I8, LinearOptions, check, count
from ._threads import run_tasks, thread_count

BLOCK = 64  # outputs of a block of packed weights


def _floating_type(array: np.ndarray, name: str) -> int:
    rapt_type = element_type(array, name)
    if rapt_type == I8:
        raise TypeError(f"{name} has elements of int8, which linear lacks")
    return rapt_type


def _matrix(x: Any, name: str) -> np.ndarray:
    array = as_array(x, name)
    if array.ndim != 2:
        raise ValueError(f"{name} has {array.ndim} dimensions, not 2")
    return array


def _packed_options(shape: tuple[int, int], rapt_type: int) -> LinearOptions:
    outputs, inputs = shape
    if inputs == 0:
        raise ValueError(f"w has the shape {shape}: no inputs")
    return LinearOptions(x_type=rapt_type, out_features=outputs, in_features=inputs)


class PackedWeights:
    """Weights in the order in which linear reads them, by pack_weights.

    shape   (out_features, in_features)
    type    "f32", "f64", "f16" or "bf16"
    data    the packed weights as uint8

    They are the same on every CPU, and may be stored: PackedWeights(shape, type, data) makes them of anything that has
    their bytes in one piece, such as bytes or a memory map. It does not copy them where they are aligned.
    """

    def __init__(self, shape: tuple[int, int], type: str, data: Any) -> None:
        rapt_type = chosen(OUT_TYPES, "type", type)
        if rapt_type == 0:
            raise ValueError("type is None: packed weights have one")
        self.shape: tuple[int, int] = tuple(shape)
        if len(self.shape) != 2 or min(self.shape) < 0:
            raise ValueError(f"shape is {self.shape}, not (out_features, in_features)")
        self.type = type
        self.data = np.frombuffer(data, np.uint8)
        length = count(C.rapt_linear_packed_length, _packed_options(self.shape, rapt_type))
        if len(self.data) != length:
            raise ValueError(f"data has {len(self.data)} bytes, not the {length} of {self.shape} in {type}")
        if self.data.ctypes.data % np.dtype(DTYPES[rapt_type]).itemsize != 0:
            self.data = self.data.copy()

    def __repr__(self) -> str:
        return f"PackedWeights({self.shape}, {self.type!r}, {len(self.data)} bytes)"


def pack_weights(w: Any) -> PackedWeights:
    """Weights for linear, which is then faster with few rows, up to three times. They have the same bits.

    w is [out_features][in_features] of f32, f64, f16 or bf16, with any strides, or a list or tuple of such matrices. These
    have one type and as many inputs, and become one layer, whose outputs are those of the first matrix, then those of the
    second, and so on: pack_weights([wq, wk, wv]). Only matrices before the last whose outputs are no multiple of 64 make it
    copy them first.
    """
    several = isinstance(w, (list, tuple))
    names = [f"w[{i}]" for i in range(len(w))] if several else ["w"]
    parts = [_matrix(part, name) for part, name in zip(w if several else [w], names)]
    if not parts:
        raise ValueError("w has no matrices")
    types = [_floating_type(part, name) for part, name in zip(parts, names)]
    for part, part_type, name in zip(parts, types, names):
        if part_type != types[0]:
            raise TypeError(f"w[0] has elements of {parts[0].dtype.name} and {name} {part.dtype.name}")
        if part.shape[1] != parts[0].shape[1]:
            raise ValueError(f"w[0] has the shape {parts[0].shape} and {name} {part.shape}: other inputs")
    if any(len(part) % BLOCK != 0 for part in parts[:-1]):
        # NumPy knows no common type of uint16 and ml_dtypes' bfloat16.
        parts = [np.concatenate([part.view(DTYPES[types[0]]) for part in parts])]
    shape = sum(map(len, parts)), parts[0].shape[1]
    options = _packed_options(shape, types[0])
    data = np.empty(count(C.rapt_linear_packed_length, options), np.uint8)
    first = 0
    for part in parts:
        matrix, options.w_strides = input_matrix(part)
        check(C.rapt_linear_pack(matrix.ctypes.data, first, len(part), options, data.ctypes.data))
        first += len(part)
    return PackedWeights(shape, SUFFIXES[types[0]], data)


def _row_list(x: Any, name: str, matrix: np.ndarray, matrix_name: str) -> np.ndarray:
    rows = as_integers(x, name)
    if rows.ndim != 1:
        raise ValueError(f"{name} has {rows.ndim} dimensions, not 1")
    if rows.size > 0 and (rows.min() < 0 or rows.max() >= len(matrix)):
        raise ValueError(f"{name} leads out of the {len(matrix)} rows of {matrix_name}")
    return np.ascontiguousarray(rows, np.uintp)


def linear(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    row_scales: Any = None,
    add: Any = None,
    x_rows: Any = None,
    y_rows: Any = None,
    arithmetic: str | None = None,
    out_type: str | None = None,
    out: Any = None,
    threads: int | None = 1,
) -> np.ndarray:
    """(x . wT + bias) * row_scales + add, as torch.nn.functional.linear has x, w and bias.

    x is [...][in_features] and w is [out_features][in_features], or comes from pack_weights. Each is f32, f16 or bf16, and
    they may differ; or both are f64. The result is [...][out_features] of x's type. rapt.h has its bits: a row has the same
    alone and in a batch, and neither packing nor strides nor threads change a bit.

    Both have any strides: transposed matrices, such as w.T, are not copied. x is only where no single stride leads from row
    to row, and either where a stride is negative.

    bias         [out_features] numbers
    row_scales   numbers that broadcast to the result's shape without its last dimension
    add          a tensor of x's kinds of types, which broadcasts to the result's shape. It may be `out`
    x_rows       [rows] integers: x is a matrix, and row r of the result is that of row x_rows[r] of x. A row may be there
                 several times
    y_rows       [rows] integers, none twice: x and `out` are matrices, and row r goes to row y_rows[r] of `out`, which
                 keeps its other rows. `add` broadcasts to the shape of `out`, and row r has its row y_rows[r] too
    arithmetic   "f32" where x and w are bf16, instead of "bf16"
    out_type     "f32", "f16" or "bf16" instead of x's type

    row_scales has its numbers by r, and not by rows of x or `out`. A single stride leads from row to row of `out`, which
    overlaps no input but `add`, and that only if it is exactly `add`.

    A TypeError is an f64 among other types, or int8. A ValueError is another shape, no input at all, a row that x or `out`
    lacks, arithmetic that the types lack, or an overlap.

    threads: None for all CPUs. Every number of threads gives the same bits.

    >>> x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    >>> w = np.array([[1, 0, 1], [0, 1, 0]], np.float32)
    >>> rapt.linear(x, w, [0.5, 0])
    array([[ 4.5,  2. ],
           [10.5,  5. ]], dtype=float32)
    >>> rapt.linear(x, rapt.pack_weights([w, w[:1]]), x_rows=[1])
    array([[10.,  5., 10.]], dtype=float32)

    The gradients are linear layers, with g the gradient of the result of a matrix x:

    >>> g = np.ones((2, 2), np.float32)
    >>> dx, dw, dbias = rapt.linear(g, w.T), rapt.linear(g.T, x.T), rapt.linear(np.ones(2, np.float32), g.T)
    >>> dw
    array([[5., 7., 9.],
           [5., 7., 9.]], dtype=float32)
    """
    arithmetic_number = chosen(ARITHMETIC, "arithmetic", arithmetic)
    y_type = chosen(OUT_TYPES, "out_type", out_type)
    threads = thread_count(threads)
    x = as_array(x, "x")
    if x.ndim == 0:
        raise ValueError("x has no dimension")
    x_type = _floating_type(x, "x")
    y_type = y_type or x_type
    if (y_type == F64) != (x_type == F64):
        raise ValueError(f"out_type is {out_type!r} next to an x of {x.dtype.name}: f64 goes only with f64")

    def floating_type(array: np.ndarray, name: str) -> int:
        rapt_type = _floating_type(array, name)
        if (rapt_type == F64) != (x_type == F64):
            raise TypeError(
                f"{name} has elements of {array.dtype.name} next to an x of {x.dtype.name}: f64 goes only with f64"
            )
        return rapt_type

    fields: dict[str, Any] = {"arithmetic": arithmetic_number, "x_type": x_type, "y_type": y_type}
    if isinstance(w, PackedWeights):
        weights = w.data.view(DTYPES[OUT_TYPES[w.type]])
        fields["packed_w"] = 1
    else:
        weights, fields["w_strides"] = input_matrix(_matrix(w, "w"))
    shape = w.shape if isinstance(w, PackedWeights) else weights.shape
    fields["w_type"] = floating_type(weights, "w")
    outputs, inputs = shape
    if x.shape[-1] != inputs or inputs == 0:
        raise ValueError(f"x has the shape {x.shape} and w {shape}: {'no' if inputs == 0 else 'other'} inputs")

    kept: dict[str, np.ndarray] = {}  # what the options point to
    rows_shape = x.shape[:-1]
    if (x_rows is not None or y_rows is not None) and x.ndim != 2:
        raise ValueError(f"x has {x.ndim} dimensions, not 2, next to a list of rows")
    if x_rows is not None:
        kept["x_rows"] = _row_list(x_rows, "x_rows", x, "x")
        rows_shape = kept["x_rows"].shape
    matrix, fields["x_strides"] = input_matrix(x)
    if y_rows is None:
        result, flat = output_rows(out, (*rows_shape, outputs), y_type, x)
    elif out is None:
        raise ValueError("y_rows names rows of out, which is missing")
    else:
        out = _matrix(out, "out")
        result, flat = output_rows(out, (len(out), outputs), y_type, x)
        kept["y_rows"] = _row_list(y_rows, "y_rows", out, "out")
        if kept["y_rows"].shape != rows_shape:
            raise ValueError(f"y_rows has the shape {kept['y_rows'].shape}, not {rows_shape}")
        if len(np.unique(kept["y_rows"])) != len(kept["y_rows"]):
            raise ValueError("y_rows has a row twice")

    if bias is not None:
        numbers = as_numbers(bias, "bias", arithmetic_type(x_type))
        if numbers.shape != (outputs,):
            raise ValueError(f"bias has the shape {numbers.shape}, not {(outputs,)}")
        kept["bias"] = np.ascontiguousarray(numbers)
    if row_scales is not None:
        numbers = as_numbers(row_scales, "row_scales", arithmetic_type(x_type))
        kept["row_scales"] = np.ascontiguousarray(broadcast(numbers, rows_shape, "row_scales"))
    if add is not None:
        addend = as_array(add, "add")
        fields["add_type"] = floating_type(addend, "add")
        whole = broadcast(addend, result.shape, "add")
        rows = as_rows(whole) or as_rows(np.ascontiguousarray(whole))
        kept["add"], fields["add_stride"] = rows.array, rows.stride

    options = LinearOptions(
        rows=int(np.prod(rows_shape, dtype=np.int64)),
        in_features=inputs,
        out_features=outputs,
        y_stride=flat.stride,
        **fields,
        **{name: array.ctypes.data for name, array in kept.items()},
    )
    addresses = matrix.ctypes.data, weights.ctypes.data, flat.address
    workspace = count(C.rapt_linear_workspace, options)
    tasks = count(C.rapt_linear_tasks, options)

    def run(first: int, last: int, scratch: int) -> None:
        check(C.rapt_linear_run(*addresses, options, first, last, scratch, workspace))

    run_tasks(run, tasks, workspace, threads)
    return result
