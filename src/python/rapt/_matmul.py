# mypy: no-warn-unused-ignores
"""Products of matrices and of batches of them, as NumPy's matmul and torch.bmm."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from ._arguments import choice
from ._arrays import (
    Array,
    TensorLike,
    Torch,
    address,
    as_array,
    as_output,
    broadcast,
    element_type,
    empty,
    in_kind_of,
    may_overlap,
    writable,
)
from ._library import (
    ARITHMETIC,
    BF16,
    F16,
    F32,
    F64,
    MAX_BATCH_DIMS,
    REPEAT,
    C,
    LinearBatchOptions,
    LinearOptions,
    MatrixStrides,
    count,
)
from ._linear_errors import error
from ._threads import run_tasks, thread_count
from ._workspace import SMALL, run_at_once

_TYPES = (F32, F64, F16, BF16)
_Arithmetic = Literal["default", "f32", "bf16", None]


def _operand(x: Any, name: str) -> tuple[Array, int]:
    array = as_array(x, name)
    rapt_type = element_type(array, name)
    if rapt_type not in _TYPES:
        raise TypeError(f"{name} has elements of {array.dtype.name}, and matmul has f32, f64, f16 and bf16")
    if array.ndim == 0:
        raise ValueError(f"{name} has no dimensions")
    if array.flags.c_contiguous:
        return array, rapt_type
    steps = [stride for length, stride in zip(array.shape, array.strides) if length > 1]
    fits = all(stride >= 0 and stride % array.itemsize == 0 for stride in steps)
    return (array if fits else np.ascontiguousarray(array)), rapt_type


def _elements(array: Array, lengths: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Strides as the library takes them, where none is 0."""
    return [(stride // array.itemsize or REPEAT) if n > 1 else 1 for n, stride in zip(lengths, strides)]


def _matrix_strides(array: Array) -> MatrixStrides:
    return MatrixStrides(*_elements(array, array.shape[-2:], array.strides[-2:]))


def _is_row_major(array: Array) -> bool:
    """Whether the library can write the matrices, whose last dimension must be contiguous."""
    if array.flags.c_contiguous:
        return True
    itemsize = array.itemsize
    return (array.shape[-1] <= 1 or array.strides[-1] == itemsize) and all(
        n <= 1 or (stride > 0 and stride % itemsize == 0) for n, stride in zip(array.shape[:-1], array.strides)
    )


def _check(status: int, options: LinearOptions) -> None:
    if status != 0:
        raise error(status, options)


class _Call:
    """x [..., rows, inputs] times w [..., outputs, inputs] transposed, into y [..., rows, outputs]."""

    def __init__(self, x: Array, w: Array, y: Array, types: tuple[int, int, int], arithmetic: int) -> None:
        o = LinearOptions(x_type=types[0], w_type=types[1], y_type=types[2], arithmetic=arithmetic)
        o.rows, o.in_features, o.out_features = y.shape[-2], x.shape[-1], y.shape[-1]
        o.x_strides, o.w_strides = _matrix_strides(x), _matrix_strides(w)
        o.y_stride = y.strides[-2] // y.itemsize if y.shape[-2] > 1 else 0
        batch = LinearBatchOptions(dims=1)
        batch.shape[0] = batch.x_strides[0] = batch.w_strides[0] = batch.y_strides[0] = 1
        longer = [d for d, n in enumerate(y.shape[:-2]) if n > 1]
        if len(longer) > MAX_BATCH_DIMS:
            raise ValueError(f"the result has {len(longer)} dimensions before its matrices, above {MAX_BATCH_DIMS}")
        if longer:
            lengths = [y.shape[d] for d in longer]
            batch.dims = len(longer)
            batch.shape[: batch.dims] = lengths
            for array, strides in ((x, batch.x_strides), (w, batch.w_strides), (y, batch.y_strides)):
                strides[: batch.dims] = _elements(array, lengths, [array.strides[d] for d in longer])
        self.options, self.batch, self.kept = o, batch, (x, w, y)
        self.work = float(y.size) * x.shape[-1]

    def _count(self, function: Any) -> int:
        o = self.options
        return count(function, o, self.batch, check=lambda status: _check(status, o))

    def run(self, threads: int | None) -> None:
        o, batch = self.options, self.batch
        arrays = tuple(map(address, self.kept))
        threads = thread_count(threads, self.work)
        if self.work <= SMALL:
            arguments = *arrays, byref(o), byref(batch)
            workspace_size = partial(self._count, C.rapt_linear_batch_workspace)
            _check(run_at_once(C.rapt_linear_batch, arguments, workspace_size), o)
            return
        workspace, tasks = self._count(C.rapt_linear_batch_workspace), self._count(C.rapt_linear_batch_tasks)

        def run(first: int, last: int, scratch: int) -> None:
            _check(C.rapt_linear_batch_run(*arrays, o, batch, first, last, scratch, workspace), o)

        run_tasks(run, tasks, workspace, threads)


def _multiply(x: Array, w: Array, y: Array, types: tuple[int, int, int], arithmetic: int, threads: int | None) -> None:
    """y = x @ w for matrices that broadcast to the dimensions of y."""
    if y.size == 0:
        thread_count(threads)
        return
    if x.shape[-1] == 0:
        y[...] = 0
        return
    batch = y.shape[:-2]
    x, w = broadcast(x, batch + x.shape[-2:], "a"), broadcast(w, batch + w.shape[-2:], "b")
    # The transposed product has the same bits. A column is faster as a row.
    is_row_major = _is_row_major(y)
    if (y.shape[-1] == 1 or not is_row_major) and _is_row_major(y.swapaxes(-1, -2)):
        x, w, y = w.swapaxes(-1, -2), x.swapaxes(-1, -2), y.swapaxes(-1, -2)
        types, is_row_major = (types[1], types[0], types[2]), True
    if is_row_major:
        _Call(x, w.swapaxes(-1, -2), y, types, arithmetic).run(threads)
        return
    result = np.empty(y.shape, y.dtype)
    _Call(x, w.swapaxes(-1, -2), result, types, arithmetic).run(threads)
    y[...] = result


# fmt: off
@overload
def matmul(a: Torch, b: TensorLike, *, arithmetic: _Arithmetic = None, out: Torch | None = None, threads: int | None = 1) -> Torch: ...  # type: ignore[misc]
@overload
def matmul(a: TensorLike, b: TensorLike, *, arithmetic: _Arithmetic = None, out: Array | None = None, threads: int | None = 1) -> Array: ...
# fmt: on


def matmul(a: Any, b: Any, *, arithmetic: _Arithmetic = None, out: Any = None, threads: int | None = 1) -> Any:
    """a @ b, as NumPy's and PyTorch's matmul: [..., m, k] times [..., k, n] is [..., m, n] of a's type.

    Leading dimensions broadcast. A vector a is a row, a vector b a column, and the result has no dimension for it. Each of
    a and b is f32, f16 or bf16, and they may differ; or both are f64. They have any strides: views such as
    b.swapaxes(-1, -2) and repeated matrices are not copied, unless a stride is negative. `out` has any strides, and
    overlaps neither.

    Each product has the bits of linear(a, b.T), alone or in any batch, for any strides and threads. arithmetic is "f32" where
    a and b are bf16, instead of "bf16". threads: None for all CPUs.

    A TypeError is another type, or f64 among others; a ValueError a shape that does not fit, or an overlap.

    >>> a = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    >>> rapt.matmul(a, np.ones((3, 1), np.float32))
    array([[[ 3.],
            [12.]],
    <BLANKLINE>
           [[21.],
            [30.]]], dtype=float32)

    The gradients of y = matmul(a, b) are matmul(dy, b.swapaxes(-1, -2)) and matmul(a.swapaxes(-1, -2), dy), summed over
    the dimensions that broadcast.
    """
    x, x_type = _operand(a, "a")
    w, w_type = _operand(b, "b")
    if (x_type == F64) != (w_type == F64):
        raise TypeError(f"a and b have elements of {x.dtype.name} and {w.dtype.name}: f64 goes only with f64")
    number = choice(ARITHMETIC, "arithmetic", arithmetic)
    rows = x if x.ndim > 1 else x[np.newaxis]
    columns = w if w.ndim > 1 else w[:, np.newaxis]
    if rows.shape[-1] != columns.shape[-2]:
        raise ValueError(f"a has the shape {x.shape} and b {w.shape}: {rows.shape[-1]} is not {columns.shape[-2]}")
    batch = rows.shape[:-2]
    if columns.shape[:-2] != batch:  # NumPy takes microseconds
        try:
            batch = np.broadcast_shapes(batch, columns.shape[:-2])
        except ValueError:
            raise ValueError(f"a has the shape {x.shape} and b {w.shape}, which do not broadcast") from None
    shape = batch + (rows.shape[-2:-1] if x.ndim > 1 else ()) + (columns.shape[-1:] if w.ndim > 1 else ())
    if out is None:
        result = empty(shape, x_type, x)
    else:
        result = writable(as_output(out), "out")
        if result.shape != shape:
            raise ValueError(f"out has the shape {result.shape}, not {shape}")
        if element_type(result, "out") != x_type:
            raise TypeError(f"out has elements of {result.dtype.name}, and a {x.dtype.name}")
        for name, array in (("a", x), ("b", w)):
            if may_overlap(array, result):
                raise ValueError(f"out overlaps {name}")
    y = result
    if w.ndim == 1:
        y = y[..., np.newaxis]
    if x.ndim == 1:
        y = y[..., np.newaxis, :]
    _multiply(rows, columns, y, (x_type, w_type, x_type), number, threads)
    return in_kind_of(a, result) if out is None else out


# fmt: off
@overload
def bmm(a: Torch, b: TensorLike, *, arithmetic: _Arithmetic = None, out: Torch | None = None, threads: int | None = 1) -> Torch: ...  # type: ignore[misc]
@overload
def bmm(a: TensorLike, b: TensorLike, *, arithmetic: _Arithmetic = None, out: Array | None = None, threads: int | None = 1) -> Array: ...
# fmt: on


def bmm(a: Any, b: Any, *, arithmetic: _Arithmetic = None, out: Any = None, threads: int | None = 1) -> Any:
    """matmul of a [batch, m, k] and b [batch, k, n], as torch.bmm, where nothing broadcasts.

    arithmetic, out and threads are those of matmul.

    >>> rapt.bmm(np.ones((2, 1, 3), np.float32), np.ones((2, 3, 2), np.float32))
    array([[[3., 3.]],
    <BLANKLINE>
           [[3., 3.]]], dtype=float32)
    """
    shapes = [as_array(x, name).shape for x, name in ((a, "a"), (b, "b"))]
    for name, shape in zip("ab", shapes):
        if len(shape) != 3:
            raise ValueError(f"{name} has the shape {shape}, not (batch, rows, columns)")
    if shapes[0][0] != shapes[1][0]:
        raise ValueError(f"a has the shape {shapes[0]} and b {shapes[1]}: {shapes[0][0]} is not {shapes[1][0]}")
    return matmul(a, b, arithmetic=arithmetic, out=out, threads=threads)
