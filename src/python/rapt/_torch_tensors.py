"""What the functions of rapt.torch share: checks of tensors, gradients and their types, and sums over repeated dimensions."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

import rapt

_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_tensor(x: object, name: str) -> torch.Tensor:
    """x, if it is a dense tensor in the memory of the CPU."""
    if not isinstance(x, torch.Tensor):
        raise TypeError(f"{name} is a {type(x).__name__}, not a tensor of PyTorch")
    if x.layout != torch.strided:
        raise TypeError(f"{name} has the layout {x.layout}, and rapt reads dense tensors")
    if x.device.type != "cpu":
        raise ValueError(f"{name} is on {x.device}, and rapt computes on the CPU")
    return x


def check_tensors(**tensors: object) -> None:
    """All are dense tensors of the CPU, of one type that rapt has. None stands for a tensor that is not given."""
    first: tuple[str, torch.dtype] | None = None
    for name, given in tensors.items():
        if given is None:
            continue
        x = check_tensor(given, name)
        if x.dtype not in _TYPES:
            raise TypeError(f"{name} has elements of {x.dtype}, not float32, float64, float16 or bfloat16")
        if first is None:
            first = name, x.dtype
        elif x.dtype != first[1]:
            raise TypeError(f"{first[0]} has elements of {first[1]} and {name} of {x.dtype}")


def widened(x: torch.Tensor) -> torch.Tensor:
    """x without its history, in f32 where it has 16 bits."""
    x = x.detach()
    return x if x.dtype == torch.float64 else x.float()


def summed_to(x: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """x, of f32 or f64, summed over the dimensions in which `shape` broadcasts to x.shape.

    Sums of PyTorch depend on the CPU and on its threads. Linear layers of rapt with weights of 1 do not.
    """
    if x.shape == tuple(shape):
        return x
    lengths = (1,) * (x.dim() - len(shape)) + tuple(shape)
    repeated = [i for i, length in enumerate(lengths) if length != x.shape[i]]
    kept = [i for i in range(x.dim()) if i not in repeated]
    terms = math.prod(x.shape[i] for i in repeated)
    if x.numel() == 0:
        return x.new_zeros(tuple(shape))
    rows = x.permute(*kept, *repeated).reshape(-1, terms)
    return rapt.linear(rows, x.new_ones(1, terms)).reshape(tuple(shape))


class _FirstDerivative(torch.autograd.Function):
    """Gradients as results of all tensors that they depend on, which cannot be differentiated."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, name: str, backward: Callable[..., Any], of_result: Any, *tensors: torch.Tensor | None
    ) -> Any:
        ctx.set_materialize_grads(False)
        ctx.name, ctx.tensors = name, len(tensors)
        # Views would refuse to be changed in place; `data` is none.
        return tuple(None if x is None else x.data for x in backward(of_result, *tensors))

    @staticmethod
    def backward(ctx: Any, *of_gradients: torch.Tensor | None) -> Any:
        if any(x is not None for x in of_gradients):
            raise RuntimeError(
                f"rapt.torch has no second derivative of {ctx.name}: a gradient that was computed with create_graph=True "
                "was differentiated. Only linear and rope have derivatives of every order"
            )
        return (None,) * (3 + ctx.tensors)


def differentiable_once(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes f(ctx, dy, *saved tensors) the backward of a function whose second derivative is a RuntimeError.

    torch's once_differentiable refuses only where dy has a history. Gradients depend on the saved tensors too, so a second
    derivative by way of these would be left out silently.
    """

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def backward(ctx: Any, dy: torch.Tensor) -> Any:
            return _FirstDerivative.apply(name, f, ctx, dy, *ctx.saved_tensors)

        return backward

    return decorate
