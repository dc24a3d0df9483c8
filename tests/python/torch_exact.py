"""The arithmetic operators that stay PyTorch's under rapt.torch.enable(), in a process of their own: prints hashes of their results.

    torch_exact.py THREADS

Each runs on long arrays, and on slices whose elements then have other places in vectors and other threads: those must have the
bits of the whole. What a process cannot change is given by its environment: ATEN_CPU_CAPABILITY.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

import rapt
from rapt._torch_exact import ARITHMETIC

Tensor = torch.Tensor
COUNT = 100_003
SLICES = ((0, 1), (1, 4), (17, 117), (1000, 2111))
TYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)

# By the name in _torch_exact.py: of one array x, or of two, element by element.
OF_ELEMENTS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "rsub": lambda x, y: torch.rsub(x, y),
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "floor_divide": lambda x, y: x // y,
    "fmod": lambda x, y: torch.fmod(x, y),
    "remainder": lambda x, y: torch.remainder(x, y),
    "neg": lambda x, y: -x,
    "abs": lambda x, y: x.abs(),
    "reciprocal": lambda x, y: x.reciprocal(),
    "square": lambda x, y: x.square(),
    "sign": lambda x, y: x.sign(),
    "sgn": lambda x, y: x.sgn(),
    "frac": lambda x, y: x.frac(),
    "floor": lambda x, y: x.floor(),
    "ceil": lambda x, y: x.ceil(),
    "round": lambda x, y: x.round(),
    "trunc": lambda x, y: x.trunc(),
    "relu": lambda x, y: x.relu(),
    "leaky_relu": lambda x, y: F.leaky_relu(x, 0.1),
    "leaky_relu_backward": lambda x, y: torch.ops.aten.leaky_relu_backward(y, x, 0.1, False),
    "hardtanh": lambda x, y: F.hardtanh(x),
    "hardtanh_backward": lambda x, y: torch.ops.aten.hardtanh_backward(y, x, -1, 1),
    "hardsigmoid": lambda x, y: F.hardsigmoid(x),
    "hardsigmoid_backward": lambda x, y: torch.ops.aten.hardsigmoid_backward(y, x),
    "hardswish": lambda x, y: F.hardswish(x),
    "hardswish_backward": lambda x, y: torch.ops.aten.hardswish_backward(y, x),
    "_prelu_kernel_backward": lambda x, y: torch.stack(torch.ops.aten._prelu_kernel_backward(y, x, x * 0 + 0.3), 1),
    "hardshrink": lambda x, y: F.hardshrink(x),
    "hardshrink_backward": lambda x, y: torch.ops.aten.hardshrink_backward(y, x, 0.3),
    "softshrink_backward": lambda x, y: torch.ops.aten.softshrink_backward(y, x, 0.3),
    "_prelu_kernel": lambda x, y: torch.ops.aten._prelu_kernel(x, y),
    "threshold": lambda x, y: F.threshold(x, 0.1, 2),
    "threshold_backward": lambda x, y: torch.ops.aten.threshold_backward(y, x, 0.1),
    "where": lambda x, y: torch.where(x > y, x, y),
    "masked_fill": lambda x, y: x.masked_fill(x > y, 0.3),
    "maximum": lambda x, y: torch.maximum(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "fmax": lambda x, y: torch.fmax(x, y),
    "fmin": lambda x, y: torch.fmin(x, y),
    "clamp": lambda x, y: x.clamp(-0.3, 0.7),
    "copysign": lambda x, y: torch.copysign(x, y),
    "nan_to_num": lambda x, y: (x / y.round()).nan_to_num(),
    "heaviside": lambda x, y: torch.heaviside(x.round(), y),
    "copy": lambda x, y: torch.stack([x.to(t).double() for t in TYPES], 1),
}


def image(x: Tensor) -> Tensor:
    return x.view(len(x), 4, 16, 16)


def slope_of(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The gradient of half the square of a function of images."""

    def of(x: Tensor) -> Tensor:
        given = image(x).clone().requires_grad_()
        y = function(given)
        (made,) = torch.autograd.grad(y, given, y.detach())
        return made

    return of


def row(x: Tensor) -> Tensor:
    return x.flatten(2)


def cube(x: Tensor) -> Tensor:
    return x[:, None]


def classes(x: Tensor, count: int) -> Tensor:
    return torch.arange(x.numel() // count) % count


# Of a matrix: its rows are the same alone.
OF_ROWS: dict[str, Callable[[Tensor], Any]] = {
    "amax": lambda x: x.amax(-1),
    "aminmax": lambda x: torch.stack(torch.aminmax(x, dim=-1), 1),
    "argmax": lambda x: x.argmax(-1),
    "topk": lambda x: x.topk(5)[0],
    "sort": lambda x: x.sort(-1)[0],
    "max_pool2d_with_indices": lambda x: F.max_pool2d(x.view(len(x), 1, 8, -1), 3, 2),
    "upsample_nearest2d": lambda x: F.interpolate(x.view(len(x), 1, 8, -1), scale_factor=2),
    "reflection_pad1d": lambda x: F.pad(x[:, None], (3, 2), mode="reflect"),
    "avg_pool2d": lambda x: F.avg_pool2d(image(x), 3, 2, 1),
    "avg_pool3d": lambda x: F.avg_pool3d(image(x)[:, None], 2),
    "_adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(image(x), 3),
    "_adaptive_avg_pool3d": lambda x: F.adaptive_avg_pool3d(image(x)[:, None], 3),
    "max_pool3d_with_indices": lambda x: F.max_pool3d(image(x)[:, None], 2),
    "reflection_pad2d": lambda x: F.pad(image(x), (1, 2, 3, 1), mode="reflect"),
    "replication_pad2d": lambda x: F.pad(image(x), (1, 2, 3, 1), mode="replicate"),
    "im2col": lambda x: F.unfold(image(x), 3),
    "max_pool2d_with_indices_backward": slope_of(lambda x: F.max_pool2d(x, 3, 2)),
    "max_pool3d_with_indices_backward": slope_of(lambda x: F.max_pool3d(x[:, None], 2)),
    "avg_pool2d_backward": slope_of(lambda x: F.avg_pool2d(x, 3, 2, 1)),
    "avg_pool3d_backward": slope_of(lambda x: F.avg_pool3d(x[:, None], 2)),
    "_adaptive_avg_pool2d_backward": slope_of(lambda x: F.adaptive_avg_pool2d(x, 3)),
    "adaptive_avg_pool3d_backward": slope_of(lambda x: F.adaptive_avg_pool3d(x[:, None], 3)),
    "upsample_nearest2d_backward": slope_of(lambda x: F.interpolate(x, scale_factor=2)),
    "reflection_pad2d_backward": slope_of(lambda x: F.pad(x, (1, 2, 3, 1), mode="reflect")),
    "replication_pad2d_backward": slope_of(lambda x: F.pad(x, (1, 2, 3, 1), mode="replicate")),
    "adaptive_max_pool2d_backward": slope_of(lambda x: F.adaptive_max_pool2d(x, 3)),
    "adaptive_max_pool3d_backward": slope_of(lambda x: F.adaptive_max_pool3d(cube(x), 3)),
    "upsample_nearest1d_backward": slope_of(lambda x: F.interpolate(row(x), scale_factor=3)),
    "upsample_nearest3d_backward": slope_of(lambda x: F.interpolate(cube(x), scale_factor=2)),
    "_upsample_nearest_exact1d_backward": slope_of(lambda x: F.interpolate(row(x), 600, mode="nearest-exact")),
    "_upsample_nearest_exact2d_backward": slope_of(lambda x: F.interpolate(x, 25, mode="nearest-exact")),
    "_upsample_nearest_exact3d_backward": slope_of(lambda x: F.interpolate(cube(x), 25, mode="nearest-exact")),
    "reflection_pad1d_backward": slope_of(lambda x: F.pad(row(x), (3, 2), mode="reflect")),
    "reflection_pad3d_backward": slope_of(lambda x: F.pad(cube(x), (1, 2, 3, 1, 1, 2), mode="reflect")),
    "replication_pad1d_backward": slope_of(lambda x: F.pad(row(x), (3, 2), mode="replicate")),
    "replication_pad3d_backward": slope_of(lambda x: F.pad(cube(x), (1, 2, 3, 1, 1, 2), mode="replicate")),
    "col2im": slope_of(lambda x: F.unfold(x, 3)),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.view(len(x), 4, 2, -1), 2),
}
# Sums in the order of an index, and numbers of the generator: of whole arrays.
WHOLE: dict[str, Callable[[Tensor], Any]] = {
    "nll_loss_forward": lambda x: torch.stack(
        [F.nll_loss(x.view(-1, 8), classes(x, 8), reduction=r) for r in ("mean", "sum")]
    ),
    "nll_loss2d_forward": lambda x: torch.stack(
        [F.nll_loss(image(x), image(x).argmax(1), reduction=r) for r in ("mean", "sum")]
    ),
    "index_add": lambda x: torch.zeros(7, x.shape[1], dtype=x.dtype).index_add_(0, torch.arange(len(x)) % 7, x),
    "scatter_add": lambda x: torch.zeros(7, x.shape[1], dtype=x.dtype).scatter_add_(
        0, (torch.arange(len(x)) % 7)[:, None].expand_as(x), x
    ),
    "embedding_dense_backward": lambda x: torch.ops.aten.embedding_dense_backward(
        x, torch.arange(len(x)) % 7, 7, -1, False
    ),
    "rand": lambda x: torch.rand(1000, dtype=x.dtype, generator=torch.Generator().manual_seed(1)),
    "bernoulli": lambda x: torch.empty_like(x).bernoulli_(0.3, generator=torch.Generator().manual_seed(1)),
    "native_dropout": lambda x: (torch.manual_seed(3), torch.ops.aten.native_dropout(x, 0.4, True)[0])[1],
}


def numbers(count: int, seed: int) -> Tensor:
    return torch.from_numpy(rapt.random_normal((count,), seed=seed))


def hashes() -> dict[str, int]:
    made: dict[str, int] = {}
    moved: set[str] = set()  # those whose bits depend on the place
    for dtype in TYPES:
        short = str(dtype).rsplit(".", 1)[1]
        x, y = numbers(COUNT, 1).to(dtype), numbers(COUNT, 2).to(dtype)
        for name, of in OF_ELEMENTS.items():
            whole = of(x, y)
            made[f"{name} {short}"] = rapt.hash(whole)
            for first, end in SLICES:
                part = of(x[first:end].clone(), y[first:end].clone())
                if rapt.hash(part) != rapt.hash(whole[first:end].contiguous()):
                    moved.add(f"{name} {short}")
        matrix = numbers(96 * 1024, 3).view(96, 1024).to(dtype)
        for name, of_row in OF_ROWS.items():
            try:
                whole = of_row(matrix).contiguous()
            except NotImplementedError:  # PyTorch lacks it for the type
                continue
            made[f"{name} {short}"] = rapt.hash(whole)
            for first, end in ((0, 1), (90, 96)):
                if rapt.hash(of_row(matrix[first:end].clone()).contiguous()) != rapt.hash(
                    whole[first:end].contiguous()
                ):
                    moved.add(f"{name} {short}")
        for name, of_whole in WHOLE.items():
            made[f"{name} {short}"] = rapt.hash(of_whole(matrix).contiguous())
    assert set(OF_ELEMENTS) | set(OF_ROWS) | set(WHOLE) == ARITHMETIC, "a call of each operator"
    assert not moved, f"the place of an element changes its bits: {sorted(moved)}"
    return made


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]))
    print(json.dumps(hashes()))
