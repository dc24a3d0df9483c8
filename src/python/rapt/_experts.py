"""Mixtures of experts: lists of rows, linear layers of all experts, and the sum over a token's slots."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import byref
from typing import Any, NamedTuple

import numpy as np

from ._arguments import integer, shown
from ._arrays import (
    Array,
    TensorLike,
    address,
    arithmetic_type,
    as_array,
    as_integers,
    as_numbers,
    broadcast,
    element_type,
    given_rows,
    in_kind_of,
    input_rows,
    output_rows,
)
from ._library import BF16, F16, F32, F64, C, ExpertOptions, ExpertSumOptions, MatrixStrides, check, count
from ._linear import Arithmetic, PackedWeights, _Call, _check
from ._pieces import refuse_overlaps, run_all
from ._threads import run_tasks, thread_count


class ExpertLists(NamedTuple):
    """Rows in the order of experts: expert e has those from offsets[e] to offsets[e + 1] - 1.

    offsets      [experts + 1]
    token_rows   [rows] the token of each row
    entry_rows   [rows] token * slots + slot of each row
    """

    offsets: Array
    token_rows: Array
    entry_rows: Array


def expert_lists(ids: TensorLike, experts: int) -> ExpertLists:
    """The lists for linear_experts from a router's choice: ids [tokens][slots] has the expert of each slot of a token.

    Rows are in the order of experts, then of tokens, then of slots. A ValueError is an id that is no expert, or no matrix.

    >>> rapt.expert_lists([[1, 0], [1, 2]], 3)
    ExpertLists(offsets=array([0, 1, 3, 4], dtype=uint64), token_rows=array([0, 0, 1, 1], dtype=uint64), \
entry_rows=array([1, 0, 2, 3], dtype=uint64))
    """
    matrix = as_integers(ids, "ids")
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(f"ids has the shape {matrix.shape}, not (tokens, slots)")
    experts = integer(experts, "experts", 1)
    if matrix.size > 0 and (matrix.min() < 0 or matrix.max() >= experts):
        raise ValueError(f"ids has a number that is none of {experts} experts")
    chosen = np.ascontiguousarray(matrix, np.int32)
    lists = ExpertLists(
        np.empty(experts + 1, np.uintp), np.empty(chosen.size, np.uintp), np.empty(chosen.size, np.uintp)
    )
    check(C.rapt_expert_lists(address(chosen), 0, *chosen.shape, experts, *map(address, lists)))
    return lists


class PackedExperts:
    """The packed weights of all experts of a layer, by pack_experts.

    shape   (experts, out_features, in_features)
    type    as that of PackedWeights
    data    the packed weights of one expert after the other, as uint8 [experts][bytes]
    """

    __slots__ = ("shape", "type", "data", "_first")

    def __init__(self, experts: Sequence[PackedWeights]) -> None:
        if not isinstance(experts, (list, tuple)) or not all(isinstance(one, PackedWeights) for one in experts):
            raise TypeError(f"experts is {shown(experts)}, not a list of PackedWeights")
        if not experts:
            raise ValueError("experts has no weights")
        first = experts[0]
        for e, one in enumerate(experts):
            if (one.shape, one.type, one.scale_group, len(one.data)) != (
                first.shape,
                first.type,
                first.scale_group,
                len(first.data),
            ):
                raise ValueError(f"experts[{e}] is {one}, other weights than experts[0], {first}")
        self.shape = len(experts), *first.shape
        self.type = first.type
        self._first = first
        self.data = np.stack([one.data for one in experts])

    def __repr__(self) -> str:
        return f"PackedExperts({self.shape}, {self.type!r}, {self.data.size} bytes)"


def pack_experts(experts: Sequence[PackedWeights]) -> PackedExperts:
    """The packed weights of all experts for linear_experts. They have one shape and type, and the same parts.

    Each comes from pack_weights, pack_quantized or pack_blocks. They are copied. A TypeError is no list of PackedWeights, a
    ValueError are weights of different kinds.
    """
    return PackedExperts(experts)


class _ExpertsCall(_Call):
    """The options of one expert's layer, whose rows are those of all."""

    __slots__ = ("experts",)

    def _set_matrix(self, w: Any) -> tuple[int, int]:
        self.experts = ExpertOptions()
        if isinstance(w, PackedExperts):
            self._set_packed(w._first)
            self.weights = w.data
            self.experts.experts, self.experts.w_stride = w.shape[0], w.data.shape[1]
            return w.shape[1], w.shape[2]
        weights = as_array(w, "w")
        if weights.ndim != 3:
            raise ValueError(f"w has {weights.ndim} dimensions, not 3")
        if len(weights) == 0:
            raise ValueError("w has no experts")
        self.options.w_type = self._type(weights, "w")
        size = weights.itemsize
        if not weights.flags.c_contiguous:
            if any(stride <= 0 or stride % size != 0 for stride in weights.strides):
                self.copied, weights = "w", np.ascontiguousarray(weights)
            else:
                self.options.w_strides = MatrixStrides(weights.strides[1] // size, weights.strides[2] // size)
                self.experts.w_stride = weights.strides[0]
        self.weights = weights
        self.experts.experts = len(weights)
        return weights.shape[1], weights.shape[2]

    def _set_packed(self, w: PackedWeights) -> tuple[int, int]:
        if not hasattr(self, "experts"):
            raise TypeError("w is PackedWeights of one matrix: pack_experts makes PackedExperts of a list of them")
        return super()._set_packed(w)

    def set_offsets(self, offsets: Any) -> None:
        given, experts = as_integers(offsets, "offsets"), self.experts.experts
        if given.shape != (experts + 1,):
            raise ValueError(f"offsets has the shape {given.shape}, not {(experts + 1,)}")
        rows = self.options.rows
        if given[0] != 0 or given[-1] != rows or (given[1:] < given[:-1]).any():
            raise ValueError(f"offsets do not ascend from 0 to {rows}, the number of rows")
        self.experts.offsets = self.keep(np.array(given, np.uintp))

    def set_bias(self, bias: Any) -> None:
        numbers, shape = as_numbers(bias, "bias", arithmetic_type(self.options.x_type)), (
            self.experts.experts,
            self.outputs,
        )
        if numbers.shape != shape:
            raise ValueError(f"bias has the shape {numbers.shape}, not {shape}")
        self.options.bias = self.keep(np.ascontiguousarray(numbers))

    def run(self, result: Array, threads: int | None) -> None:
        o, experts = self.options, self.experts
        arrays = address(self.x), address(self.weights), address(result)
        workspace = count(C.rapt_linear_experts_workspace, o, check=lambda status: _check(status, o))
        tasks = count(C.rapt_linear_experts_tasks, o, experts, check=lambda status: _check(status, o))

        def part(first: int, last: int, scratch: int) -> None:
            status = C.rapt_linear_experts_run(*arrays, byref(o), byref(experts), first, last, scratch, workspace)
            _check(status, o)

        memory = np.empty(workspace, np.uint8)  # an empty run finds a bad expert before another one writes
        part(0, 0, address(memory))
        run_tasks(part, tasks, workspace, thread_count(threads, self.work))


def linear_experts(
    x: Any,
    w: Any,
    offsets: TensorLike,
    bias: Any = None,
    *,
    row_scales: Any = None,
    add: Any = None,
    x_rows: Any = None,
    y_rows: Any = None,
    arithmetic: Arithmetic = None,
    x_group: int = 0,
    out_type: Any = None,
    out: Any = None,
    threads: int | None = 1,
) -> Any:
    """A linear layer of all experts: rows offsets[e] to offsets[e + 1] - 1 are multiplied by w[e].

    x is [rows][in_features], and w [experts][out_features][in_features], or comes from pack_experts. bias is
    [experts][out_features]. The other arguments are those of linear, whose bits each row has: with x_rows, row r is row
    x_rows[r] of x, and with y_rows it goes to row y_rows[r] of `out`. There `add` must not be `out`.

    A layer of a mixture of experts, with the weights of the router:

    >>> lists = rapt.expert_lists(np.array([[1, 0], [1, 2]]), 3)
    >>> x = np.array([[1, 2], [3, 4]], np.float32)
    >>> w = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    >>> y = np.empty((4, 2), np.float32)
    >>> y = rapt.linear_experts(x, w, lists.offsets, x_rows=lists.token_rows, y_rows=lists.entry_rows, out=y)
    >>> rapt.expert_sum(y.reshape(2, 2, 2), [[0.75, 0.25], [0.5, 0.5]])
    array([[11. , 17. ],
           [47.5, 61.5]], dtype=float32)
    """
    call = _ExpertsCall(x, w, arithmetic, x_group, out_type)
    if call.x.ndim != 2:
        raise ValueError(f"x has {call.x.ndim} dimensions, not 2")
    like = call.x
    call.set_x(x_rows, y_rows)
    result = call.output(out, y_rows, like)
    call.set_offsets(offsets)
    if bias is not None:
        call.set_bias(bias)
    if row_scales is not None:
        call.set_row_scales(row_scales)
    if add is not None:
        call.set_add(add, result.shape)
    call.run(result, threads)
    return in_kind_of(x, result) if out is None else out


def expert_sum(x: Any, weights: Any = None, *, add: Any = None, out: Any = None) -> Any:
    """The sum over the slots of each token: x is [tokens][slots][cols], and the result [tokens][cols] of x's type.

    weights are [tokens][slots] numbers, by which the slots are multiplied first. add is [tokens][cols] of x's type, and comes
    last. It may be `out`. rapt.h has the bits.

    A TypeError is another type than f32, f64, f16 or bf16, a ValueError another shape, or an overlap.

    >>> rapt.expert_sum(np.array([[[1, 2], [3, 4]]], np.float32), [[1, 10]])
    array([[31., 42.]], dtype=float32)
    """
    rows = input_rows(x, "x")
    if rows.array.ndim != 3 or rows.array.shape[1] == 0:
        raise ValueError(f"x has the shape {rows.array.shape}, not (tokens, slots, cols)")
    rapt_type = element_type(rows.array, "x")
    if rapt_type not in (F32, F64, F16, BF16):
        raise TypeError(f"x has elements of {rows.array.dtype.name}, and expert_sum has f32, f64, f16 and bf16")
    tokens, slots, cols = rows.array.shape
    options = ExpertSumOptions(type=rapt_type, top_k=slots, cols=cols, x_stride=rows.stride)
    like = input_rows(rows.array[:, 0], "x")
    y = output_rows(None, like, rapt_type) if out is None else given_rows(out, "out", (tokens, cols), rapt_type)
    options.y_stride = y.stride
    of_weights, of_add = None, None
    if weights is not None:
        numbers = as_numbers(weights, "weights", arithmetic_type(rapt_type))
        of_weights = np.ascontiguousarray(broadcast(numbers, (tokens, slots), "weights"))
    if add is not None:
        of_add = input_rows(add, "add")
        if of_add.array.shape != (tokens, cols):
            raise ValueError(f"add has the shape {of_add.array.shape}, not {(tokens, cols)}")
        if element_type(of_add.array, "add") != rapt_type:
            raise TypeError(f"x and add have elements of {rows.array.dtype.name} and {of_add.array.dtype.name}")
        options.add_stride = of_add.stride
    same = {} if of_add is None else {"add": of_add.array}
    refuse_overlaps(y.array, same, {"x": rows.array, "weights": of_weights})

    def run(first: int, length: int) -> Any:
        part = options.changed(tokens=length)
        if of_weights is not None:
            part.weights = address(of_weights) + first * of_weights.strides[0]
        if of_add is not None:
            part.add = of_add.at(first)
        return C.rapt_expert_sum(rows.at(first * slots), y.at(first), part)

    check(run_all(run, tokens, rows.array.size))
    return in_kind_of(x, y.array) if out is None else out
