"""Kernels of PyTorch's interpolation, one dimension after the other: a result is a sum of a few products in one order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._torch_table import Tensor, kernel, wide

# The elements along a dimension that the results read, and their factors: a row for each tap.
_Taps = tuple[list[Tensor], list[Tensor]]


def _places(length: int, wanted: int, align_corners: bool, scale: float | None, is_cubic: bool) -> Tensor:
    at = torch.arange(wanted, dtype=torch.float64)
    if align_corners:
        return at * ((length - 1) / (wanted - 1) if wanted > 1 else 0.0)
    step = 1 / scale if scale is not None and scale > 0 else length / wanted
    place = (at + 0.5) * step - 0.5
    return place if is_cubic else place.clamp(min=0)


def _linear(place: Tensor, length: int) -> _Taps:
    first = place.floor().clamp(max=length - 1)
    share = (place - first).clamp(max=1)
    index = first.to(torch.int64)
    return [index, (index + 1).clamp(max=length - 1)], [1 - share, share]


def cubic_factors(t: Tensor) -> list[Tensor]:
    """Of the elements at -1, 0, 1 and 2, at the distance t from that at 0."""
    a = -0.75

    def near(x: Tensor) -> Tensor:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Tensor) -> Tensor:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic(place: Tensor, length: int) -> _Taps:
    first = place.floor()
    return [(first.to(torch.int64) + i).clamp(0, length - 1) for i in (-1, 0, 1, 2)], cubic_factors(place - first)


def _beside(factor: Tensor, x: Tensor, dim: int) -> Tensor:
    """A factor of each place along a dimension of x."""
    return factor.to(x.dtype).view([-1 if i == dim else 1 for i in range(x.dim())])


def _along(x: Tensor, dim: int, taps: _Taps) -> Tensor:
    made: Tensor | None = None
    for index, factor in zip(*taps):
        part = x.index_select(dim, index) * _beside(factor, x, dim)
        made = part if made is None else made + part
    assert made is not None
    return made


def _back(dy: Tensor, dim: int, length: int, taps: _Taps) -> Tensor:
    sizes = [length if i == dim else n for i, n in enumerate(dy.shape)]
    made = dy.new_zeros(sizes)
    for index, factor in zip(*taps):
        made.index_add_(dim, index, dy * _beside(factor, dy, dim))
    return made


def _add_kernels(name: str, dims: int, taps: Callable[[Tensor, int], _Taps]) -> None:
    def all_taps(
        lengths: Sequence[int], wanted: Sequence[int], align_corners: bool, scales: Sequence[float | None]
    ) -> list[_Taps]:
        given = list(scales) + [None] * (dims - len(scales))
        return [
            taps(_places(lengths[i], wanted[i], align_corners, given[i], taps is _cubic), lengths[i])
            for i in range(dims)
        ]

    def forward(x: Tensor, output_size: Sequence[int], align_corners: bool, *scales: Any) -> Tensor:
        made = wide(x)
        if x.numel() == 0 or math.prod(output_size) == 0:
            return x.new_empty(*x.shape[:2], *output_size)
        for i, of_dim in enumerate(all_taps(x.shape[2:], output_size, align_corners, scales)):
            made = _along(made, 2 + i, of_dim)
        is_last = dims == 2 and not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
        return made.to(x.dtype).contiguous(memory_format=torch.channels_last if is_last else torch.contiguous_format)

    def backward(
        dy: Tensor, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool, *scales: Any
    ) -> Tensor:
        made = wide(dy)
        if dy.numel() == 0:
            return dy.new_zeros(list(input_size))
        parts = all_taps(list(input_size)[2:], output_size, align_corners, scales)
        for i in reversed(range(dims)):
            made = _back(made, 2 + i, input_size[2 + i], parts[i])
        return made.to(dy.dtype)

    kernel(name, f"{name}.out")(lambda *args, **k: forward(*args, *k.values()))
    kernel(f"{name}_backward", f"{name}_backward.grad_input")(lambda *args, **k: backward(*args, *k.values()))


_add_kernels("upsample_linear1d", 1, _linear)
_add_kernels("upsample_bilinear2d", 2, _linear)
_add_kernels("upsample_trilinear3d", 3, _linear)
_add_kernels("upsample_bicubic2d", 2, _cubic)
