"""Cross entropy of logits and class indices, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arguments import flag, integer, number, shown
from ._arrays import (
    Array,
    Rows,
    TensorLike,
    address,
    arithmetic_type,
    as_integers,
    as_numbers,
    broadcast,
    element_type,
    empty,
    in_kind_of,
    input_rows,
    may_overlap,
    output_rows,
    refuse_overlap,
)
from ._library import BF16, F16, F32, F64, C, CrossEntropyOptions, check
from ._reduce import sum

_TYPES = (F32, F64, F16, BF16)
_IGNORED = -100
_REDUCTIONS = ("mean", "sum", "none")


class _Call:
    """The checked arguments that the losses and their gradient have in common."""

    def __init__(
        self,
        x: TensorLike,
        target: TensorLike,
        weight: TensorLike | None,
        ignore_index: int,
        reduction: str,
        label_smoothing: float,
    ) -> None:
        rows = input_rows(x, "input")
        self.rows: Rows = rows
        self.type = element_type(rows.array, "input")
        if self.type not in _TYPES:
            raise TypeError(f"input has elements of {rows.array.dtype.name}, not f32, f64, f16 or bf16")
        if rows.array.ndim > 2:
            raise ValueError(f"input has the shape {rows.array.shape}, not [classes] or [rows, classes]")
        if rows.cols == 0:
            raise ValueError("input has no classes")
        if not isinstance(reduction, str) or reduction not in _REDUCTIONS:
            raise ValueError(f'reduction is {shown(reduction)}, not "mean", "sum" or "none"')
        self.reduction = reduction
        self.numbers = arithmetic_type(self.type)
        self.shape = rows.array.shape[:-1]
        smoothing = number(label_smoothing, "label_smoothing")
        if not 0 <= smoothing <= 1:
            raise ValueError(f"label_smoothing is {shown(label_smoothing)}, not between 0 and 1")
        indices = as_integers(target, "target")
        if indices.shape != self.shape:
            raise ValueError(f"target has the shape {indices.shape}, not {self.shape}")
        ignored = indices == integer(ignore_index, "ignore_index", -(2**63), 2**63 - 1)
        if np.any(~ignored & ((indices < 0) | (indices >= rows.cols))):
            raise ValueError(f"target has an index that is none of the {rows.cols} classes")
        self.kept = ~ignored
        self.target: Array = np.ascontiguousarray(np.where(ignored, _IGNORED, indices), np.int64)
        self.weight: Array | None = None
        if weight is not None:
            self.weight = np.ascontiguousarray(as_numbers(weight, "weight", self.numbers))
            if self.weight.shape != (rows.cols,):
                raise ValueError(f"weight has the shape {self.weight.shape}, not ({rows.cols},)")
        self.options = CrossEntropyOptions(
            type=self.type,
            rows=rows.rows,
            classes=rows.cols,
            x_stride=rows.stride,
            target=address(self.target),
            label_smoothing=smoothing,
            weight=None if self.weight is None else address(self.weight),
        )

    def divisor(self) -> float:
        """Of the mean: the weights of the targets that count."""
        if self.weight is None:
            return float(np.count_nonzero(self.kept))
        return float(sum(np.atleast_1d(self.weight[self.target[self.kept]])))


def cross_entropy(
    input: TensorLike,
    target: TensorLike,
    weight: TensorLike | None = None,
    *,
    ignore_index: int = _IGNORED,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    return_lse: bool = False,
) -> Any:
    """The cross entropy of logits and class indices, as torch.nn.functional.cross_entropy.

    input [rows, classes] or [classes] is f32, f64, f16 or bf16, and target [rows] has a class for each row, or ignore_index.
    weight [classes] has a factor for each class. label_smoothing is what all classes share of a target. The losses, and weight,
    have the type of the arithmetic: f32, or f64 for f64. reduction "none" gives one for each row, "sum" their sum by rapt.sum,
    and "mean" that divided by the weights of the targets. With return_lse, the result is that and the log-sum-exp of each row.

    A TypeError is another type, a ValueError another shape, or an index that is no class.

    >>> rapt.cross_entropy(np.zeros((2, 4), np.float32), np.array([0, 3]))
    1.3862944
    """
    call = _Call(input, target, weight, ignore_index, reduction, label_smoothing)
    returns_lse = flag(return_lse, "return_lse")
    losses, lse = (empty(call.shape, call.numbers) for _ in range(2))
    call.options.lse = address(lse)
    check(C.rapt_cross_entropy(call.rows.address, address(losses), call.options))
    if reduction == "none":
        made = in_kind_of(input, losses)
    else:
        made = sum(losses) if losses.ndim else losses[()]
        if reduction == "mean":
            with np.errstate(divide="ignore", invalid="ignore"):
                made = made / losses.dtype.type(call.divisor())
    return (made, in_kind_of(input, lse)) if returns_lse else made


def cross_entropy_backward(
    input: TensorLike,
    target: TensorLike,
    lse: TensorLike,
    grad: TensorLike | float = 1.0,
    weight: TensorLike | None = None,
    *,
    ignore_index: int = _IGNORED,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    out: Any = None,
) -> Any:
    """The gradient of input from that of cross_entropy, whose arguments and log-sum-exp it takes.

    lse [rows] is what return_lse gave. grad is the gradient of the result: a number, or with reduction "none" one for each row,
    and for "mean" it is divided as the result was. `out` takes the gradient of input; it may be input.
    """
    call = _Call(input, target, weight, ignore_index, reduction, label_smoothing)
    sums = np.ascontiguousarray(as_numbers(lse, "lse", call.numbers))
    if sums.shape != call.shape:
        raise ValueError(f"lse has the shape {sums.shape}, not {call.shape}")
    call.options.lse = address(sums)
    if reduction == "none":
        of_rows = np.ascontiguousarray(broadcast(as_numbers(grad, "grad", call.numbers), call.shape, "grad"))
    else:
        divisor = call.divisor() if reduction == "mean" else 1.0
        with np.errstate(over="ignore"):  # beyond f32 is infinite
            of_rows = np.full(call.shape, number(grad, "grad") / (divisor or 1.0)).astype(sums.dtype)
    call.options.dout = address(of_rows)
    others = {"lse": sums, "weight": call.weight, "grad": of_rows}
    result = output_rows(out, call.rows, call.type)
    call.options.dx_stride = result.stride
    refuse_overlap(call.rows.array, result.array, "input")
    for name, other in others.items():
        if other is not None and may_overlap(other, result.array):
            raise ValueError(f"out overlaps {name}")
    check(C.rapt_cross_entropy_backward(call.rows.address, result.address, call.options))
    return out if out is not None else in_kind_of(input, result.array)
