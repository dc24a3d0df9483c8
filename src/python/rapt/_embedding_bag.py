"""Embeddings that are reduced in bags, and their gradient: torch.nn.functional.embedding_bag."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ._arguments import choice, flag, integer
from ._arrays import (
    DTYPES,
    Array,
    TensorLike,
    address,
    arithmetic_type,
    as_array,
    as_integers,
    as_numbers,
    element_type,
    empty,
    in_kind_of,
    input_rows,
    widened,
)
from ._index import index_add
from ._library import BF16, F16, F32, F64, C, EmbeddingBagOptions
from ._library import check as check_status
from ._map import divide, multiply
from ._pieces import run_all
from ._vectors import convert

_TYPES = (F32, F64, F16, BF16)
_MODES = {"sum": 0, "mean": 1, "max": 2}
_Mode = Literal["sum", "mean", "max"]


class _Bags:
    """The indices of all bags one after the other, -1 for padding, and where each bag begins."""

    def __init__(
        self, indices: Any, offsets: Any, include_last_offset: Any, padding_idx: Any, rows: int, weights: Any
    ) -> None:
        given = as_integers(indices, "indices")
        last = flag(include_last_offset, "include_last_offset")
        if given.ndim == 2 and offsets is None:
            starts = np.arange(given.shape[0] + 1, dtype=np.uintp) * given.shape[1]
        elif given.ndim == 1 and offsets is not None:
            starts = _starts(as_integers(offsets, "offsets"), last, len(given))
        elif given.ndim == 1:
            raise ValueError("indices has 1 dimension, which needs offsets")
        else:
            without = "" if offsets is None else " with offsets"
            raise ValueError(f"indices has {given.ndim} dimensions{without}, not 1 with offsets, or 2 without")
        flat = given.reshape(-1).astype(np.int64)
        if flat.size and (flat.min() < 0 or flat.max() >= rows):
            raise ValueError(f"indices has numbers from {flat.min()} to {flat.max()}, not from 0 to {rows - 1}")
        if padding_idx is not None:
            flat[flat == integer(padding_idx, "padding_idx", 0, rows - 1)] = -1
        if weights is not None and weights.shape != given.shape:
            raise ValueError(f"per_sample_weights has the shape {weights.shape}, and indices {given.shape}")
        self.flat, self.starts, self.count = flat, np.ascontiguousarray(starts), len(starts) - 1
        self.weights = None if weights is None else np.ascontiguousarray(weights.reshape(-1))

    def of_each_index(self) -> Array:
        return np.repeat(np.arange(self.count), np.diff(self.starts.astype(np.int64)))


def _starts(offsets: Array, has_last: bool, indices: int) -> Array:
    if offsets.ndim != 1 or (has_last and len(offsets) == 0):
        raise ValueError(f"offsets has the shape {offsets.shape}, not (bags{' + 1' if has_last else ''},)")
    starts = offsets if has_last else np.append(offsets, indices)
    if len(starts) > 1 and starts[0] != 0 or starts[-1] != indices or np.any(starts[1:] < starts[:-1]):
        raise ValueError(f"offsets do not ascend from 0 to {indices}, the number of indices")
    return starts.astype(np.uintp) if len(starts) > 1 else np.zeros(1, np.uintp)


def _weights(per_sample_weights: Any, mode: str, rapt_type: int) -> Array | None:
    if per_sample_weights is None:
        return None
    if mode != "sum":
        raise ValueError(f"per_sample_weights are for the mode 'sum', not {mode!r}")
    return as_numbers(per_sample_weights, "per_sample_weights", arithmetic_type(rapt_type))


def embedding_bag(
    indices: TensorLike,
    weight: TensorLike,
    offsets: TensorLike | None = None,
    *,
    mode: _Mode = "mean",
    per_sample_weights: TensorLike | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    return_rows: bool = False,
) -> Any:
    """Sums, means or maxima of rows of `weight`, as torch.nn.functional.embedding_bag: [bags][dim] of its type.

    indices are [bags][length], or all bags in one dimension, of which offsets has the first of each; with
    include_last_offset also the number of all. weight [rows][dim] is f32, f64, f16 or bf16. mode is "sum", "mean" or "max".
    per_sample_weights multiply the rows of a sum. Rows of padding_idx are left out. A bag without rows is zero.

    Rows are added in the order of indices, each product and each sum rounded; those of 16 bits are widened, and the result is
    rounded once. return_rows also gives, for "max", the row of each maximum, int64 [bags][dim], or -1.

    A TypeError is another type; a ValueError an index out of range, or a shape that does not fit.

    >>> w = np.array([[1, 2], [3, 4], [5, 0]], np.float32)
    >>> rapt.embedding_bag([0, 1, 1, 2], w, [0, 1], mode="sum")
    array([[ 1.,  2.],
           [11.,  8.]], dtype=float32)
    """
    table = input_rows(weight, "weight")
    rapt_type = element_type(table.array, "weight")
    if rapt_type not in _TYPES:
        raise TypeError(f"weight has elements of {table.array.dtype.name}, not f32, f64, f16 or bf16")
    if table.array.ndim != 2:
        raise ValueError(f"weight has the shape {table.array.shape}, not (rows, dim)")
    operation = choice(_MODES, "mode", mode)
    if flag(return_rows, "return_rows") and mode != "max":
        raise ValueError(f"return_rows is for the mode 'max', not {mode!r}")
    of_weights = _weights(per_sample_weights, mode, rapt_type)
    bags = _Bags(indices, offsets, include_last_offset, padding_idx, table.rows, of_weights)
    y = empty((bags.count, table.cols), rapt_type, table.array)
    rows = np.empty(y.shape, np.int64) if return_rows else None
    options = EmbeddingBagOptions(
        type=rapt_type, operation=operation, rows=table.rows, cols=table.cols, w_stride=table.stride
    )

    def run(first: int, length: int) -> Any:
        # The offsets of a part begin at 0.
        begin = int(bags.starts[first])
        starts = bags.starts[first : first + length + 1] - bags.starts[first]
        part = options.changed(bags=length, offsets=address(starts))
        if bags.weights is not None:
            part.weights = address(bags.weights) + begin * bags.weights.itemsize
        of_indices = address(bags.flat) + begin * bags.flat.itemsize
        of_rows = None if rows is None else address(rows) + first * table.cols * rows.itemsize
        return C.rapt_embedding_bag(
            table.address, of_indices, address(y) + first * table.cols * y.itemsize, of_rows, part
        )

    check_status(run_all(run, bags.count, bags.flat.size * table.cols))
    result = in_kind_of(weight, y)
    return result if rows is None else (result, in_kind_of(weight, rows))


def embedding_bag_backward(
    grad: TensorLike,
    indices: TensorLike,
    num_embeddings: int,
    offsets: TensorLike | None = None,
    *,
    mode: _Mode = "mean",
    per_sample_weights: TensorLike | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    max_rows: TensorLike | None = None,
) -> Any:
    """The gradient [num_embeddings][dim] of embedding_bag's weight, from grad [bags][dim] of the result.

    The other arguments are those of embedding_bag; max_rows, for "max", are the rows that it gave. Each row of grad is
    multiplied by its weight, or divided by the number of its bag's rows, and rounded to its type. Then index_add adds the
    rows in the order of indices.
    """
    of_bags = as_array(grad, "grad")
    rapt_type = element_type(of_bags, "grad")
    if rapt_type not in _TYPES:
        raise TypeError(f"grad has elements of {of_bags.dtype.name}, not f32, f64, f16 or bf16")
    choice(_MODES, "mode", mode)
    if (max_rows is not None) != (mode == "max"):
        raise ValueError(f"max_rows {'go with' if mode == 'max' else 'are for'} the mode 'max', and mode is {mode!r}")
    rows = integer(num_embeddings, "num_embeddings")
    weights = _weights(per_sample_weights, mode, rapt_type)
    bags = _Bags(indices, offsets, include_last_offset, padding_idx, rows, weights)
    if of_bags.ndim != 2 or len(of_bags) != bags.count:
        raise ValueError(f"grad has the shape {of_bags.shape}, and there are {bags.count} bags")
    out = np.zeros((rows, of_bags.shape[1]), of_bags.dtype)
    if max_rows is not None:
        _add_to_maxima(out, as_integers(max_rows, "max_rows"), of_bags)
        return in_kind_of(grad, out)
    bag_of = bags.of_each_index()
    if mode == "mean":
        counts = np.bincount(bag_of[bags.flat >= 0], minlength=bags.count)
        of_bags = _by_rows(divide, of_bags, np.maximum(counts, 1), rapt_type)
    terms = of_bags[bag_of]
    if bags.weights is not None:
        terms = _by_rows(multiply, terms, bags.weights, rapt_type)
    index_add(out, bags.flat, terms)
    return in_kind_of(grad, out)


def _by_rows(function: Any, x: Array, numbers: Array, rapt_type: int) -> Array:
    """function(x, the number of each row) in the arithmetic type, rounded to x's type."""
    wide = x if rapt_type in (F32, F64) else widened(x) if rapt_type == BF16 else x.astype(np.float32)
    result = function(wide, numbers.astype(DTYPES[arithmetic_type(rapt_type)])[:, np.newaxis])
    if rapt_type in (F32, F64):
        return np.asarray(result)
    return np.asarray(convert(result, "bf16" if rapt_type == BF16 else "f16")).view(x.dtype)


def _add_to_maxima(out: Array, rows: Array, grad: Array) -> None:
    if rows.shape != grad.shape:
        raise ValueError(f"max_rows has the shape {rows.shape}, and grad {grad.shape}")
    if rows.size and (rows.min() < -1 or rows.max() >= len(out)):
        raise ValueError(f"max_rows has numbers from {rows.min()} to {rows.max()}, not from -1 to {len(out) - 1}")
    cols = grad.shape[1]
    places = np.where(rows < 0, -1, rows.astype(np.int64) * cols + np.arange(cols))
    index_add(out.reshape(-1, 1), places.reshape(-1), np.ascontiguousarray(grad).reshape(-1, 1))
