"""Kernels of PyTorch's losses: single operations by element, and rapt's sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import rapt

from ._torch_table import Tensor, kernel, of, promoted, wide

_MEAN, _SUM = 1, 2


def _reduced(x: Tensor, reduction: int, dtype: torch.dtype) -> Tensor:
    if reduction == _MEAN:
        return of(rapt.mean, x).to(dtype) if x.numel() else x.new_full((), float("nan")).to(dtype)
    return (of(rapt.sum, x) if reduction == _SUM else x).to(dtype)


def _share(dy: Tensor, x: Tensor, reduction: int) -> Tensor:
    """What each element's loss gets of the gradient."""
    return wide(dy) / x.numel() if reduction == _MEAN else wide(dy)


def _huber(away: Tensor, delta: float = 1.0) -> Tensor:
    size = away.abs()
    return torch.where(size <= delta, size * size * 0.5, (size - 0.5 * delta) * delta)


def _huber_slope(away: Tensor, delta: float) -> Tensor:
    return away.clamp(-delta, delta)


def _smooth(away: Tensor, beta: float = 1.0) -> Tensor:
    size = away.abs()
    return torch.where(size < beta, size * size * 0.5 / beta, size - 0.5 * beta)


def _smooth_slope(away: Tensor, beta: float) -> Tensor:
    return torch.where(away.abs() < beta, away / beta if beta else away, away.sign())


def _of_distance(name: str, loss: Callable[..., Tensor], slope: Callable[..., Tensor], backward_out: str) -> None:
    """A loss of the distance between two tensors, and its gradient."""

    def forward(x: Tensor, target: Tensor, reduction: int = _MEAN, *width: float) -> Tensor:
        a, b = promoted(x, target)
        return _reduced(loss(wide(a) - wide(b), *width), reduction, a.dtype)

    def backward(dy: Tensor, x: Tensor, target: Tensor, reduction: int, *width: float) -> Tensor:
        a, b = promoted(x, target)
        made: Tensor = slope(wide(a) - wide(b), *width) * _share(dy, a, reduction)
        return made.to(x.dtype)

    kernel(name, f"{name}.out")(
        lambda x, target, reduction=_MEAN, *w, **k: forward(x, target, reduction, *w, *k.values())
    )
    kernel(f"{name}_backward", f"{name}_backward.{backward_out}")(backward)


def _square(away: Tensor) -> Tensor:
    return away * away


def _twice(away: Tensor) -> Tensor:
    made: Tensor = away * 2
    return made


_of_distance("mse_loss", _square, _twice, "grad_input")
_of_distance("huber_loss", _huber, _huber_slope, "out")
_of_distance("smooth_l1_loss", _smooth, _smooth_slope, "grad_input")


@kernel("binary_cross_entropy", "binary_cross_entropy.out")
def binary_cross_entropy(x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = _MEAN) -> Tensor:
    p, t = wide(x), wide(target)
    if bool(((p < 0) | (p > 1)).any()):
        raise RuntimeError("all elements of input should be between 0 and 1")
    loss = (t - 1) * of(rapt.log1p, -p).clamp(min=-100) - t * of(rapt.log, p).clamp(min=-100)
    if weight is not None:
        loss = loss * wide(weight)
    return _reduced(loss, reduction, x.dtype)


@kernel("binary_cross_entropy_backward", "binary_cross_entropy_backward.grad_input")
def binary_cross_entropy_backward(
    dy: Tensor, x: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = _MEAN
) -> Tensor:
    p = wide(x)
    slope = _share(dy, x, reduction) * (p - wide(target)) / ((1 - p) * p).clamp(min=1e-12)
    slope = slope if weight is None else slope * wide(weight)
    made: Tensor = slope.to(x.dtype)
    return made


@kernel("xlogy.Tensor", "xlogy.OutTensor", "xlogy_.Tensor")
def xlogy(x: Any, y: Any) -> Tensor:
    a, b = promoted(x, y)
    product = wide(a) * of(rapt.log, wide(b))
    made: Tensor = torch.where(b.isnan(), wide(b), torch.where(a == 0, 0.0, product))
    dtype: torch.dtype = a.dtype
    return made.to(dtype)
