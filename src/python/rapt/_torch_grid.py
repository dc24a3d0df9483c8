"""Kernels of torch.nn.functional.grid_sample: a result is a sum of a few products, in the order of PyTorch's documentation."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import torch

import rapt

from ._torch_resize import cubic_factors
from ._torch_table import NotReplaced, Tensor, kernel, wide

_BILINEAR, _NEAREST, _BICUBIC = range(3)
_ZEROS, _BORDER, _REFLECTION = range(3)


def _unnormalized(at: Tensor, length: int, align_corners: bool) -> Tensor:
    return (at + 1) / 2 * (length - 1) if align_corners else ((at + 1) * length - 1) / 2


def _reflected(at: Tensor, length: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """The place, and the sign of its slope."""
    low, high = (0, 2 * (length - 1)) if align_corners else (-1, 2 * length - 1)
    if low == high:
        return at * 0, at * 0
    beyond, span = at - low / 2, (high - low) / 2
    distance = beyond.abs()
    extra, is_odd = torch.fmod(distance, span), (distance / span).floor() % 2 != 0
    slope = torch.where((beyond < 0) != is_odd, -1.0, 1.0).to(at.dtype)
    return torch.where(is_odd, span - extra, extra) + low / 2, slope


def _padded(at: Tensor, length: int, padding: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    """A place along a dimension, inside of it unless padding is zeros; and its slope."""
    slope = torch.ones_like(at)
    if padding == _REFLECTION:
        at, slope = _reflected(at, length, align_corners)
    if padding != _ZEROS:
        slope = torch.where((at <= 0) | (at >= length - 1), 0.0, slope)
        at = at.clamp(0, length - 1)
    return at, slope


class _Tap(NamedTuple):
    """Elements that the results read, one each: their numbers, whether they exist, and a factor for each dimension."""

    number: Tensor
    exists: Tensor
    factors: list[Tensor]
    signs: list[int]  # of the slope of each factor

    def factor(self, without: int | None = None) -> Tensor:
        """The last dimension comes first."""
        made = torch.ones_like(self.factors[0])
        for i in reversed(range(len(self.factors))):
            if i != without:
                made = made * self.factors[i]
        return torch.where(self.exists, made, 0.0)


def _tap(places: list[Tensor], shape: list[int], factors: list[Tensor], signs: list[int]) -> _Tap:
    index, exists = torch.zeros_like(places[0], dtype=torch.int64), torch.ones_like(places[0], dtype=torch.bool)
    for place, length in zip(places, shape):
        exists = exists & (place >= 0) & (place < length)
        index = index * length + place.clamp(0, length - 1).nan_to_num().to(torch.int64)
    return _Tap(index, exists, factors, signs)


def _taps(grid: Tensor, shape: list[int], mode: int, padding: int, align: bool) -> tuple[list[_Tap], list[Tensor]]:
    """Of [batch][results][dimensions], whose last dimension comes first. Also the slope of each place."""
    at = [_unnormalized(grid[..., -1 - i], length, align) for i, length in enumerate(shape)]
    if mode == _BICUBIC:
        first = [x.floor() for x in at]
        of_each = [cubic_factors(x - f) for x, f in zip(at, first)]
        taps = []
        for steps in itertools.product(range(4), repeat=len(shape)):
            places = [_padded(f + (k - 1), n, padding, align)[0] for f, k, n in zip(first, steps, shape)]
            taps.append(_tap([p.round() for p in places], shape, [w[k] for w, k in zip(of_each, steps)], []))
        return taps, []
    padded = [_padded(x, length, padding, align) for x, length in zip(at, shape)]
    scales = [(length - 1) / 2 if align else length / 2 for length in shape]
    slopes = [slope * scale for (_, slope), scale in zip(padded, scales)]
    if mode == _NEAREST:
        places = [x.round() for x, _ in padded]
        return [_tap(places, shape, [torch.ones_like(x) for x in places], [])], slopes
    first = [x.floor() for x, _ in padded]
    sides = list(itertools.product(range(2), repeat=len(shape)))
    return [
        _tap(
            [f + side for f, side in zip(first, of_side)],
            shape,
            [x - f if side else f + 1 - x for (x, _), f, side in zip(padded, first, of_side)],
            [1 if side else -1 for side in of_side],
        )
        for of_side in sides
    ], slopes


def _values(x: Tensor, tap: _Tap) -> Tensor:
    """[batch][channels][results]."""
    rows = x.reshape(*x.shape[:2], -1)
    return rows.gather(2, tap.number[:, None].expand(-1, x.shape[1], -1))


def _sampled(x: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool) -> Tensor:
    if x.numel() == 0 or grid.numel() == 0 or x.dtype != grid.dtype:
        raise NotReplaced
    numbers, of_grid = wide(x), wide(grid).reshape(grid.shape[0], -1, grid.shape[-1])
    made: Tensor | None = None
    for tap in _taps(of_grid, list(x.shape[2:]), mode, padding, align_corners)[0]:
        # A product with a number that does not exist is 0, whatever is at its place.
        part = torch.where(tap.exists[:, None], _values(numbers, tap) * tap.factor()[:, None], 0.0)
        made = part if made is None else made + part
    assert made is not None
    return made.reshape(*x.shape[:2], *grid.shape[1:-1]).to(x.dtype)


def _slopes(
    dy: Tensor, x: Tensor, grid: Tensor, mode: int, padding: int, align: bool, mask: list[bool]
) -> tuple[Tensor | None, Tensor]:
    if x.numel() == 0 or grid.numel() == 0 or mode == _BICUBIC:
        raise NotReplaced
    numbers, of_grid = wide(x), wide(grid).reshape(grid.shape[0], -1, grid.shape[-1])
    of_y = wide(dy).reshape(*dy.shape[:2], -1)
    taps, slopes = _taps(of_grid, list(x.shape[2:]), mode, padding, align)
    batch, channels, length = x.shape[0], x.shape[1], math.prod(x.shape[2:])
    table = numbers.new_zeros(batch * length, channels)
    made = torch.zeros_like(of_grid)
    for tap in taps:
        if mask[0]:
            index = tap.number + torch.arange(batch)[:, None] * length
            rows = (of_y * tap.factor()[:, None]).transpose(1, 2).reshape(-1, channels)
            rapt.index_add(table, torch.where(tap.exists, index, -1).reshape(-1), rows)
        if mode == _BILINEAR:
            along = torch.as_tensor(rapt.sum(of_y * _values(numbers, tap), axis=1))
            for i, sign in enumerate(tap.signs):
                made[..., -1 - i] += torch.where(tap.exists, along * (tap.factor(without=i) * sign), 0.0)
    for i, slope in enumerate(slopes):
        made[..., -1 - i] *= slope
    of_x = table.reshape(batch, length, channels).transpose(1, 2).reshape(x.shape).to(x.dtype) if mask[0] else None
    return of_x, made.reshape(grid.shape).to(grid.dtype)


for _name in ("grid_sampler_2d", "grid_sampler_3d"):
    kernel(_name)(_sampled)
    kernel(f"{_name}_backward")(_slopes)
