"""Kernels of PyTorch's norms of batches, groups, weights and distances: rapt's sums, and single operations around them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

import rapt

from ._torch_table import NotReplaced, Tensor, kernel, of, wide

_Three = tuple[Tensor, Tensor, Tensor]


def _channels(numbers: Tensor, x: Tensor) -> Tensor:
    """A number of each channel, next to x [batch][channels]…"""
    return numbers.view(1, -1, *[1] * (x.dim() - 2))


def _others(x: Tensor) -> tuple[int, ...]:
    return (0, *range(2, x.dim()))


def _inverse_root(variance: Tensor, eps: float) -> Tensor:
    return torch.reciprocal(torch.sqrt(variance + eps))


def _moved(running: Tensor | None, new: Tensor, momentum: float) -> None:
    if running is not None:
        running.copy_(new * momentum + wide(running) * (1 - momentum))


@kernel("native_batch_norm")
@kernel("_native_batch_norm_legit")
def native_batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> _Three:
    if x.dim() < 2 or x.numel() == 0:
        raise NotReplaced
    numbers = wide(x)
    if training:
        count = x.numel() // x.shape[1]
        mean = of(rapt.mean, numbers, axis=_others(x))
        variance = of(rapt.var, numbers, axis=_others(x), correction=0)
        _moved(running_mean, mean, momentum)
        _moved(running_var, variance * (count / (count - 1)) if count > 1 else variance / 0, momentum)
    else:
        if running_mean is None or running_var is None:
            raise NotReplaced
        mean, variance = wide(running_mean), wide(running_var)
    inverse = _inverse_root(variance, eps)
    factor = inverse if weight is None else inverse * wide(weight)
    offset = -(mean * factor) if bias is None else wide(bias) - mean * factor
    y = torch.empty_like(x).copy_(numbers * _channels(factor, x) + _channels(offset, x))
    dtype = x.dtype if weight is None else weight.dtype
    return (y, mean.to(dtype), inverse.to(dtype)) if training else (y, x.new_empty(0), x.new_empty(0))


@kernel("_native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, training: bool, momentum: float, eps: float
) -> _Three:
    return native_batch_norm(x, weight, bias, None, None, training, momentum, eps)


@kernel("native_batch_norm_backward")
def native_batch_norm_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    mean: Tensor | None,
    inverse: Tensor | None,
    training: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    if not training:
        if running_mean is None or running_var is None:
            raise NotReplaced
        mean, inverse = wide(running_mean), _inverse_root(wide(running_var), eps)
    if mean is None or inverse is None or x.numel() == 0:
        raise NotReplaced
    of_y, inverse, count = wide(dy), wide(inverse), x.numel() // x.shape[1]
    away = wide(x) - _channels(wide(mean), x)
    sums = of(rapt.sum, of_y, axis=_others(x))
    products = of(rapt.sum, of_y * away, axis=_others(x))
    dx = None
    if output_mask[0]:
        factor = inverse if weight is None else inverse * wide(weight)
        if training:
            slope = products * (inverse * inverse) / count
            of_y = of_y - _channels(sums / count, x) - away * _channels(slope, x)
        dx = torch.empty_like(x).copy_(of_y * _channels(factor, x))
    dtype = x.dtype if weight is None else weight.dtype
    dw = (products * inverse).to(dtype) if output_mask[1] else None
    return dx, dw, sums.to(dtype) if output_mask[2] else None


@kernel("native_group_norm")
def native_group_norm(
    x: Tensor, weight: Tensor | None, bias: Tensor | None, n: int, c: int, hxw: int, group: int, eps: float
) -> _Three:
    if x.numel() == 0 or not eps >= 0:
        raise NotReplaced
    rows = wide(x).reshape(n * group, c // group * hxw)
    y, statistics = rapt.layer_norm(rows, eps=eps, return_statistics=True)
    y = y.view(n, c, hxw)
    if weight is not None:
        y = y * _channels(wide(weight), y)
    if bias is not None:
        y = y + _channels(wide(bias), y)
    dtype = x.dtype if weight is None else weight.dtype
    made = torch.empty_like(x).copy_(y.view(x.shape))
    return made, statistics.mean.view(n, group).to(dtype), statistics.rstd.view(n, group).to(dtype)


@kernel("native_group_norm_backward")
def native_group_norm_backward(
    dy: Tensor,
    x: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    n: int,
    c: int,
    hxw: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    if x.numel() == 0:
        raise NotReplaced
    numbers, of_y = wide(x).reshape(n, c, hxw), wide(dy).reshape(n, c, hxw)
    dx = dw = db = None
    of_rows = wide(mean).reshape(-1), wide(rstd).reshape(-1)
    if output_mask[0]:
        scaled = of_y if weight is None else of_y * _channels(wide(weight), of_y)
        rows = (t.reshape(n * group, -1) for t in (numbers, scaled))
        statistics = rapt.NormStatistics(of_rows[1], of_rows[0])
        made = rapt.layer_norm_backward(*rows, statistics=statistics)[0]
        dx = torch.empty_like(x).copy_(made.view(x.shape))
    dtype = x.dtype if weight is None else weight.dtype
    if output_mask[1]:
        grouped = (numbers.reshape(n, group, -1) - of_rows[0].view(n, group, 1)) * of_rows[1].view(n, group, 1)
        dw = of(rapt.sum, of_y * grouped.view(n, c, hxw), axis=(0, 2)).to(dtype)
    if output_mask[2]:
        db = of(rapt.sum, of_y, axis=(0, 2)).to(dtype)
    return dx, dw, db


@kernel("_weight_norm_interface")
def weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    others = [i for i in range(v.dim()) if i != dim]
    length = torch.linalg.vector_norm(wide(v), 2, others, keepdim=True)
    return torch.empty_like(v).copy_(wide(v) * (wide(g) / length)), length


@kernel("_weight_norm_interface_backward")
def weight_norm_backward(dw: Tensor, v: Tensor, g: Tensor, length: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    others = [i for i in range(v.dim()) if i != dim]
    of_w, numbers, sizes = wide(dw), wide(v), wide(length)
    products = torch.sum(of_w * numbers, others, keepdim=True)
    dv = (wide(g) / sizes) * (of_w - numbers * (products / (sizes * sizes)))
    return torch.empty_like(v).copy_(dv), (products / sizes).to(g.dtype)


def _distances(x: Tensor, y: Tensor) -> Tensor:
    return x.unsqueeze(-2) - y.unsqueeze(-3)


@kernel("_cdist_forward")
def cdist(x: Tensor, y: Tensor, p: float, compute_mode: int | None) -> Tensor:
    if x.numel() == 0 or y.numel() == 0 or p <= 0:
        raise NotReplaced
    # A row of x at a time bounds the memory.
    parts = [torch.linalg.vector_norm(_distances(row, y), p, -1) for row in torch.split(x, 1, -2)]
    return torch.cat(parts, -2)


@kernel("_cdist_backward")
def cdist_backward(dy: Tensor, x: Tensor, y: Tensor, p: float, distance: Tensor) -> Tensor:
    if p != 2 or x.numel() == 0 or y.numel() == 0:
        raise NotReplaced
    factor = torch.where(distance == 0, 0.0, dy / distance)
    rows = zip(torch.split(x, 1, -2), torch.split(factor, 1, -2))
    return torch.cat([torch.sum(_distances(row, y) * share.unsqueeze(-1), -2) for row, share in rows], -2)
