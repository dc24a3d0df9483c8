"""The table of the kernels that rapt.torch.enable() puts in the place of PyTorch's, and what they share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Tensor = torch.Tensor
_Function = TypeVar("_Function", bound=Callable[..., Any])
TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)

KERNELS: dict[str, Callable[..., Any]] = {}
# The names of the forms of an operator that write into a tensor, by that of the form which returns one.
OUT: dict[str, str] = {}
IN_PLACE: dict[str, str] = {}
# Whether a call needs the kernel, by its keyword arguments, if most calls of an operator are exact as they are.
WHEN: dict[str, Callable[[dict[str, Any]], bool]] = {}

# The calls since the first enable() that rapt's kernels in Python have computed, by operator.
REPLACED: dict[str, int] = {}


def count_call(name: str) -> None:
    REPLACED[name] = REPLACED.get(name, 0) + 1


class NotReplaced(Exception):
    """A kernel leaves the call to the original. It varies there, so that strict mode refuses it."""


class Exact(Exception):
    """A kernel leaves the call to the original, whose bits are the same everywhere for these arguments."""


def kernel(name: str, out: str | None = None, in_place: str | None = None) -> Callable[[_Function], _Function]:
    def register(function: _Function) -> _Function:
        KERNELS[name] = function
        if out is not None:
            OUT[name] = out
        if in_place is not None:
            IN_PLACE[name] = in_place
        return function

    return register


def with_forms(name: str, function: Callable[..., Any]) -> None:
    kernel(name, f"{name}.out", f"{name}_")(function)


def of(function: Callable[..., Any], *x: Any, **options: Any) -> Tensor:
    """What a function of rapt makes of tensors, which is a tensor."""
    return torch.as_tensor(function(*x, **options))


def threads(work: float = math.inf) -> int:
    """For a call of `work` multiplications with an addition: handing it to another thread of Python costs as much as 2^23."""
    return torch.get_num_threads() if work >= 1 << 23 else 1


def wide(x: Tensor) -> Tensor:
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def promoted(*operands: Any) -> list[Any]:
    """Tensors of one type, by PyTorch's rules. Numbers become tensors of that type."""
    dtype = torch.result_type(*operands) if len(operands) == 2 else _common_type(operands)
    if dtype not in TYPES:
        raise NotReplaced
    return [x.to(dtype) if isinstance(x, Tensor) else torch.tensor(x, dtype=dtype) for x in operands]


def _common_type(operands: Any) -> torch.dtype:
    tensors = [x for x in operands if isinstance(x, Tensor)]
    dtype: torch.dtype = tensors[0].dtype
    for x in tensors[1:]:
        dtype = torch.promote_types(dtype, x.dtype)
    return dtype


def mapped(function: Callable[..., Any], x: Tensor, *operands: Any) -> Tensor:
    """The result has the strides that PyTorch's would have, of one tensor or of several of one shape."""
    broadcast: Any = torch.broadcast_shapes
    shape = broadcast(x.shape, *(y.shape for y in operands if isinstance(y, Tensor)))
    like = next((y for y in (x, *operands) if isinstance(y, Tensor) and y.shape == shape), None)
    out = x.new_empty(shape) if like is None else torch.empty_like(like)
    if out.numel():
        function(x, *operands, out=out)
    return out


def of_contiguous(function: Callable[..., Any], x: Tensor, *operands: Tensor) -> Tensor:
    """For functions of contiguous arrays."""
    out = torch.empty_like(x)
    if out.is_contiguous():
        function(x.contiguous(), *(y.contiguous() for y in operands), out=out)
    else:
        out.copy_(function(x.contiguous(), *(y.contiguous() for y in operands)))
    return out
