"""Sums of rows by index: torch.index_add and the gradient of an embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arguments import integer
from ._arrays import Array, TensorLike, address, as_array, as_integers, as_output, element_type, given_rows, input_rows
from ._library import BF16, F16, F32, F64, C, IndexAddOptions, check

_TYPES = (F32, F64, F16, BF16)


def index_add(out: Any, indices: TensorLike, x: TensorLike) -> None:
    """out[indices[i]] += x[i] for the rows of x in order, in place. Each addition is rounded to the type.

    out [out_rows, cols] and x [rows, cols] are f32, f64, f16 or bf16. x may have any strides; the rows of out are contiguous.
    indices [rows] are integers; -1 leaves a row out. An index out of range is a ValueError, and nothing is written.
    """
    rows = input_rows(x, "x")
    rapt_type = element_type(rows.array, "x")
    if rapt_type not in _TYPES:
        raise TypeError(f"x has elements of {rows.array.dtype.name}, not f32, f64, f16 or bf16")
    of_out = as_output(out, "out")
    for array, name in ((rows.array, "x"), (of_out, "out")):
        if array.ndim != 2:
            raise ValueError(f"{name} has the shape {array.shape}, not [rows, cols]")
    to = given_rows(out, "out", (of_out.shape[0], rows.cols), rapt_type)
    numbers = as_integers(indices, "indices")
    if numbers.shape != (rows.rows,):
        raise ValueError(f"indices has the shape {numbers.shape}, and x {rows.rows} rows")
    numbers = np.ascontiguousarray(numbers, np.int64)
    options = IndexAddOptions(
        type=rapt_type,
        rows=rows.rows,
        cols=rows.cols,
        out_rows=to.rows,
        x_stride=rows.stride,
        out_stride=to.stride,
        indices=address(numbers),
    )
    check(C.rapt_index_add(rows.address, to.address, options))


def embedding_backward(
    grad: TensorLike, indices: TensorLike, num_embeddings: int, padding_idx: int | None = None
) -> Array:
    """The gradient [num_embeddings, dim] of the table of torch.nn.functional.embedding.

    grad [..., dim] is the gradient of what was looked up, indices [...] what was looked up. Rows with one index are added in
    order. The row padding_idx gets none.
    """
    rows = as_array(grad, "grad")
    numbers = np.asarray(as_array(indices, "indices"))
    if numbers.shape != rows.shape[:-1]:
        raise ValueError(f"grad has the shape {rows.shape}, and indices {numbers.shape}")
    if numbers.size and numbers.min() < 0:
        raise ValueError("an index is negative")
    flat = numbers.reshape(-1).astype(np.int64)
    if padding_idx is not None:
        flat = np.where(flat == padding_idx, -1, flat)
    out = np.zeros((integer(num_embeddings, "num_embeddings"), rows.shape[-1]), rows.dtype)
    index_add(out, flat, np.ascontiguousarray(rows).reshape(-1, rows.shape[-1]))
    return out
