"""Kernels of PyTorch that add rows by index, in order: rapt.index_add and rapt.embedding_bag."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

import rapt

from ._torch_table import Exact, NotReplaced, Tensor, kernel, wide


def _as_numbers(indices: Sequence[Tensor | None], x: Tensor) -> list[Tensor | None]:
    """An index for each dimension of x: masks become the numbers of their true elements."""
    numbers: list[Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            numbers += index.nonzero(as_tuple=True)
        else:
            numbers.append(index)
    return numbers + [None] * (x.dim() - len(numbers))


@kernel("_index_put_impl_")
def index_put_(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False, unsafe: bool = False
) -> Tensor:
    if not accumulate:
        raise Exact
    if x.dtype != values.dtype:
        raise NotReplaced
    numbers = _as_numbers(indices, x)
    named = [i for i, index in enumerate(numbers) if index is not None]
    if not named:
        raise NotReplaced
    broadcast: Any = torch.broadcast_tensors
    places = broadcast(*[numbers[i] for i in named])
    sizes = [x.shape[i] for i in named]
    row = torch.zeros_like(places[0])
    for size, place in zip(sizes, places):
        if bool(((place < -size) | (place >= size)).any()):
            raise IndexError(f"an index is out of bounds for a dimension of size {size}")
        row = row * size + torch.where(place < 0, place + size, place)
    others = [i for i in range(x.dim()) if i not in named]
    of_others = [x.shape[i] for i in others]
    # The indexed dimensions lie where the first of them was, if they follow each other; else they come first.
    before = sum(i < named[0] for i in others) if named[-1] - named[0] == len(named) - 1 else 0
    added = values.expand(*of_others[:before], *row.shape, *of_others[before:])
    added = added.permute(*range(before, before + row.dim()), *range(before), *range(before + row.dim(), added.dim()))
    moved = x.permute(*named, *others)
    length = math.prod(of_others)
    if length and row.numel():
        table = moved.contiguous()  # x itself, or a copy
        rapt.index_add(table.view(math.prod(sizes), length), row.reshape(-1), added.reshape(-1, length))
        if not moved.is_contiguous():
            moved.copy_(table)
    return x


@kernel("embedding_renorm_")
def embedding_renorm_(x: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    unique: Any = torch.unique
    numbers = unique(indices)
    rows = wide(x.index_select(0, numbers))
    length = torch.linalg.vector_norm(rows, norm_type, dim=1, keepdim=True)
    shorter = torch.where(length > max_norm, max_norm / (length + 1e-7), 1.0)
    return x.index_copy_(0, numbers, (rows * shorter).to(x.dtype))


_MODES = ("sum", "mean", "max")


def _bag_of_each(indices: Tensor, starts: Tensor) -> Tensor:
    places = torch.arange(indices.numel(), dtype=starts.dtype)
    bags: Tensor = torch.searchsorted(starts, places, right=True) - 1
    return bags


def _bags(forward_only: bool) -> Callable[..., tuple[Tensor, Tensor, Tensor, Tensor]]:
    def bags(
        weight: Tensor,
        indices: Tensor,
        offsets: Tensor,
        scale_grad_by_freq: bool = False,
        mode: int = 0,
        sparse: bool = False,
        per_sample_weights: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int = -1,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """As PyTorch: also the bag of each index, the rows of each bag that count, and those of the maxima.

        They have its shapes: there is no bag of each index where it needs none, and what is not used has some size.
        """
        if weight.numel() == 0 or indices.numel() == 0:
            raise NotReplaced
        kind: Any = _MODES[mode]
        options: dict[str, Any] = {
            "per_sample_weights": per_sample_weights,
            "include_last_offset": include_last_offset,
            "padding_idx": None if padding_idx < 0 else padding_idx,
        }
        made = rapt.embedding_bag(indices, weight, offsets, mode=kind, return_rows=mode == 2, **options)
        starts = offsets[:-1] if include_last_offset else offsets
        bag = _bag_of_each(indices, starts)
        kept = torch.ones_like(bag) if padding_idx < 0 else (indices != padding_idx).to(bag.dtype)
        count = offsets.numel() if forward_only and mode == 0 else starts.numel()
        sizes = torch.zeros(count, dtype=bag.dtype).index_add_(0, bag, kept).to(offsets.dtype)
        y, maxima = made if mode == 2 else (made, torch.zeros_like(sizes))
        if (
            mode == 0 and padding_idx < 0 and weight.dtype in (torch.float32, torch.float16) and weight.stride(1) == 1
        ) and (per_sample_weights is None or per_sample_weights.stride(0) == 1):
            bag = bag[:0]
        return torch.as_tensor(y), bag.to(offsets.dtype), sizes, torch.as_tensor(maxima)

    return bags


kernel("_embedding_bag")(_bags(forward_only=False))
kernel("_embedding_bag_forward_only")(_bags(forward_only=True))


@kernel("_embedding_bag_dense_backward")
def embedding_bag_dense_backward(
    dy: Tensor,
    indices: Tensor,
    bag: Tensor,
    sizes: Tensor,
    maxima: Tensor,
    num_weights: int,
    scale_grad_by_freq: bool,
    mode: int,
    per_sample_weights: Tensor | None,
    padding_idx: int = -1,
) -> Tensor:
    if scale_grad_by_freq or mode == 2:
        raise NotReplaced
    rows = dy.index_select(0, bag)
    if mode == 1:
        rows = rows / sizes.clamp(min=1).index_select(0, bag)[:, None].to(rows.dtype)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    kept = indices if padding_idx < 0 else torch.where(indices == padding_idx, -1, indices)
    table = dy.new_zeros(num_weights, dy.shape[1])
    rapt.index_add(table, kept, rows)
    return table


@kernel("_embedding_bag_per_sample_weights_backward")
def per_sample_weights_backward(
    dy: Tensor, weight: Tensor, indices: Tensor, offsets: Tensor, bag: Tensor, mode: int, padding_idx: int = -1
) -> Tensor:
    if not bag.numel():
        bag = _bag_of_each(indices, offsets)
    products = dy.index_select(0, bag) * weight.index_select(0, indices)
    made = torch.as_tensor(rapt.sum(products, axis=1))
    return made if padding_idx < 0 else torch.where(indices == padding_idx, 0, made)
