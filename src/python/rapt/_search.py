"""Embeddings: comparing vectors, finding the best rows, mean pooling and rows of length 1."""

from __future__ import annotations

from ctypes import byref
from typing import Any, NamedTuple

import numpy as np

from ._arguments import choice, integer, number, type_choice
from ._arrays import (
    Array,
    Rows,
    TensorLike,
    address,
    arithmetic_type,
    as_array,
    as_integers,
    as_mask,
    element_type,
    empty,
    in_kind_of,
    input_rows,
    output_rows,
    refuse_overlap,
)
from ._errors import normal_numbers
from ._library import F16, F32, F64, BF16, I8, METRIC, C, MeanPoolOptions, NormalizeOptions, SearchOptions, check, count
from ._pieces import run_all
from ._threads import run_tasks, thread_count

_TYPES = {"f32": F32, "f64": F64, "f16": F16, "bf16": BF16, "i8": I8}


class TopK(NamedTuple):
    """The best rows of each query, best first.

    scores    [queries][k] f32
    indices   [queries][k] int64: the number of a row, or -1
    """

    scores: Array
    indices: Array


def metric_pointer(metric: str, type: Any) -> int:
    """The address of the C function of a metric, for other libraries: float (*)(const void *, const void *, size_t).

    type is "f32", "f16", "bf16", "i8" or a dtype; of "f64" the function returns a double. usearch takes the address with
    its MetricSignature.ArrayArraySize. rapt.h says what the function's caller promises.

    A ValueError is another metric or type.
    """
    kind, rapt_type = choice(METRIC, "metric", metric), type_choice(_TYPES, "type", type)
    return int(C.rapt_metric_f64(kind) if rapt_type == F64 else C.rapt_metric(kind, rapt_type))


class _Search:
    """Checked queries and rows."""

    def __init__(self, queries: Any, rows: Any, metric: str, k: int) -> None:
        self.q, self.x = _matrix(queries, "queries"), _matrix(rows, "rows")
        self.is_one = as_array(queries, "queries").ndim == 1
        if self.q.array.dtype != self.x.array.dtype:
            raise TypeError(
                f"queries and rows have elements of {self.q.array.dtype.name} and {self.x.array.dtype.name}"
            )
        if self.q.cols != self.x.cols:
            raise ValueError(f"queries have {self.q.cols} elements and rows {self.x.cols}")
        self.options = SearchOptions(
            metric=choice(METRIC, "metric", metric),
            type=element_type(self.q.array, "queries"),
            queries=self.q.rows,
            rows=self.x.rows,
            dim=self.q.cols,
            k=k,
            q_stride=self.q.stride,
            x_stride=self.x.stride,
        )

    def shaped(self, result: Array) -> Array:
        return np.asarray(result[0]) if self.is_one else result


def _matrix(x: Any, name: str) -> Rows:
    array = as_array(x, name)
    if array.ndim not in ((1, 2) if name == "queries" else (2,)):
        raise ValueError(f"{name} has {array.ndim} dimensions, not 2")
    return input_rows(np.atleast_2d(array), name)


def similarity(queries: TensorLike, rows: TensorLike, *, metric: str = "cosine") -> Array:
    """The score of each query with each row: [queries][rows], or [rows] of a single query.

    metric is "dot", "cosine", "l2_squared", "dot_distance" (1 - dot) or "cosine_distance" (1 - cosine). Elements are f32, f64,
    f16, bf16 or int8, of one type. Scores are f32, of f64 f64. A row's score does not depend on the others.

    A TypeError is another type, a ValueError other shapes.

    >>> rapt.similarity(np.array([3, 4], np.float32), np.array([[6, 8], [4, -3]], np.float32))
    array([1., 0.], dtype=float32)
    """
    call = _Search(queries, rows, metric, 0)
    out = np.empty((call.q.rows, call.x.rows), np.float64 if call.options.type == F64 else np.float32)

    def run(first: int, length: int) -> int:
        part = call.options.changed(queries=length)
        return int(C.rapt_metric_rows(call.q.at(first), call.x.address, address(out[first:]), part))

    check(run_all(run, call.q.rows, call.q.rows * call.x.array.size, 16))
    return call.shaped(out)


def top_k(queries: TensorLike, rows: TensorLike, k: int, *, metric: str = "dot", threads: int | None = 1) -> TopK:
    """The k best rows for each query, best first: exact search, as faiss's flat indexes.

    metric is that of similarity, whose scores these are. The largest is the best, of "l2_squared" and distances the smallest.
    Equal scores are in the order of their rows. A row whose score is NaN is never found. Where there are fewer rows than k,
    the rest has the index -1 and an infinite score. Elements are f32, f16, bf16 or int8.

    threads=None uses one thread per CPU where that pays. No result depends on it.

    A TypeError is another type, a ValueError another shape, or k below 1.

    >>> rapt.top_k(np.array([1, 1], np.float32), np.array([[1, 0], [2, 2], [0, 3]], np.float32), 2)
    TopK(scores=array([4., 3.], dtype=float32), indices=array([1, 2]))
    """
    call = _Search(queries, rows, metric, integer(k, "k", 1))
    o = call.options
    if o.type == F64:
        raise TypeError("queries has elements of float64, and top_k has f32, f16, bf16 and int8")
    indices, scores = np.empty((o.queries, o.k), np.int64), np.empty((o.queries, o.k), np.float32)
    workspace = count(C.rapt_top_k_workspace, o)
    memory = np.empty(workspace, np.uint8)

    def part(first: int, last: int, _: int) -> None:
        check(C.rapt_top_k_run(call.q.address, call.x.address, byref(o), first, last, address(memory), workspace))

    work = o.queries * call.x.array.size
    run_tasks(part, count(C.rapt_top_k_tasks, o), 0, thread_count(threads, work))
    check(C.rapt_top_k_merge(address(indices), address(scores), byref(o), address(memory), workspace))
    return TopK(call.shaped(scores), call.shaped(indices))


def mean_pool(x: Any, mask: Any = None, *, lengths: Any = None) -> Any:
    """The mean of the tokens of each sequence: x is [batch][tokens][dim], and the result [batch][dim] of x's type.

    mask [batch][tokens] is bool or uint8, or integers as tokenizers make them: 0 leaves a token out. lengths [batch] leaves
    out the tokens from there on. Tokens that are left out are not read, so that a padded sequence has the bits that it has
    alone. Without tokens the mean is 0. The type is f32, f16 or bf16.

    A TypeError is another type, a ValueError another shape or length.

    >>> rapt.mean_pool(np.array([[[1, 2], [3, 4], [9, 9]]], np.float32), [[1, 1, 0]])
    array([[2., 3.]], dtype=float32)
    """
    array = np.ascontiguousarray(as_array(x, "x"))
    if array.ndim != 3:
        raise ValueError(f"x has the shape {array.shape}, not (batch, tokens, dim)")
    rapt_type = element_type(array, "x")
    if rapt_type not in (F32, F16, BF16):
        raise TypeError(f"x has elements of {array.dtype.name}, and mean_pool has f32, f16 and bf16")
    batch, tokens, dim = array.shape
    options = MeanPoolOptions(type=rapt_type, batch=batch, tokens=tokens, dim=dim)
    flags, of_lengths = None, None
    if mask is not None:
        given = as_array(mask, "mask")
        if given.dtype.kind in "iu" and given.dtype != np.uint8:
            given = given != 0
        flags = np.ascontiguousarray(as_mask(given, "mask"))
        if flags.shape != (batch, tokens):
            raise ValueError(f"mask has the shape {flags.shape}, not {(batch, tokens)}")
    if lengths is not None:
        numbers = as_integers(lengths, "lengths")
        if numbers.shape != (batch,):
            raise ValueError(f"lengths has the shape {numbers.shape}, not {(batch,)}")
        if numbers.size > 0 and (numbers.min() < 0 or numbers.max() > tokens):
            raise ValueError(f"lengths has a number that is not between 0 and {tokens}")
        of_lengths = np.ascontiguousarray(numbers, np.uintp)
    result = empty((batch, dim), rapt_type, array)

    def run(first: int, length: int) -> int:
        part = options.changed(batch=length)
        if flags is not None:
            part.mask = address(flags) + first * tokens
        if of_lengths is not None:
            part.row_lengths = address(of_lengths) + first * of_lengths.itemsize
        row = dim * array.itemsize
        return int(C.rapt_mean_pool(address(array) + first * tokens * row, address(result) + first * row, part))

    check(run_all(run, batch, array.size))
    return in_kind_of(x, result)


def normalize(x: Any, eps: float = 1e-12, *, out: Any = None) -> Any:
    """x / max(length, eps) along the last dimension, as torch.nn.functional.normalize. The type is f32, f64, f16 or bf16.

    `out` may be x. A TypeError is another type, a ValueError another shape, an overlap, or an eps that is not positive.

    >>> rapt.normalize(np.array([3, 4], np.float32))
    array([0.6, 0.8], dtype=float32)
    """
    rows = input_rows(x, "x")
    rapt_type = element_type(rows.array, "x")
    if rapt_type not in (F32, F64, F16, BF16):
        raise TypeError(f"x has elements of {rows.array.dtype.name}, and normalize has f32, f64, f16 and bf16")
    eps = number(eps, "eps")
    name, least, most = normal_numbers(arithmetic_type(rapt_type))
    if not least <= eps <= most:
        raise ValueError(f"eps is {eps!r}: from {least:.4g} to {most:.4g} in {name}")
    y = output_rows(out, rows, rapt_type)
    refuse_overlap(rows.array, y.array, "x")
    options = NormalizeOptions(
        type=rapt_type, rows=rows.rows, cols=rows.cols, x_stride=rows.stride, y_stride=y.stride, eps=eps
    )

    def run(first: int, length: int) -> int:
        return int(C.rapt_normalize(rows.at(first), y.at(first), options.changed(rows=length)))

    check(run_all(run, rows.rows, rows.array.size))
    return in_kind_of(x, y.array) if out is None else out
