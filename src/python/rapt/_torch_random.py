"""Random numbers of PyTorch's generator, whose state is the same afterwards as PyTorch's own kernels leave it.

PyTorch draws integers alike everywhere. What it makes of them depends on the CPU, by its logarithms and by fused operations.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import torch

import rapt

from ._torch_table import Exact, NotReplaced, Tensor, kernel, wide

# A generator's state has the second number of a pair of normal ones: its value, another field, and whether it is there.
_SECOND = struct.Struct("<ddi")
_SECOND_AT = 5024
_STATE_LENGTH = 5056


def _drawn(shape: Any, dtype: torch.dtype, generator: Any) -> Tensor:
    """Numbers of [0, 1), which PyTorch makes by one exact product."""
    return torch.empty(shape, dtype=dtype).uniform_(generator=generator)


def _pairs(logarithms: Tensor, angles: Tensor) -> Tensor:
    """Box and Muller's: two normal numbers of the logarithm of a uniform one, and of another."""
    radius = torch.sqrt(-2 * logarithms)
    turn = angles * (2 * math.pi)
    return torch.stack([radius * rapt.cos(turn), radius * rapt.sin(turn)], 1).flatten()


def _sixteens(u: Tensor) -> Tensor:
    rows = u.view(-1, 2, 8)
    return _pairs(rapt.log(1 - rows[:, 0]), rows[:, 1])


def _many_normal(count: int, dtype: torch.dtype, generator: Any) -> Tensor:
    """Sixteen numbers of sixteen; the last sixteen are drawn again where there is a part of them."""
    of = torch.float64 if dtype == torch.float64 else torch.float32
    whole, more = count // 16 * 16, count % 16
    made = _sixteens(_drawn(count if dtype == of else whole, of, generator)[:whole])
    if more:
        made = torch.cat([made[: count - 16], _sixteens(_drawn(16, of, generator))])
    return made


def _few_normal(count: int, generator: Any) -> Tensor:
    """One by one, in pairs. The second of the last pair stays in the generator, if the count is odd."""
    source = torch.default_generator if generator is None else generator
    state = source.get_state()
    if len(state) != _STATE_LENGTH:
        raise NotReplaced
    second, _, is_there = _SECOND.unpack_from(state.numpy().tobytes(), _SECOND_AT)
    taken = min(count, int(is_there))
    pairs = (count - taken + 1) // 2
    u = _drawn((pairs, 2), torch.float64, source)
    made = _pairs(rapt.log1p(-u[:, 1]), u[:, 0])
    if taken:
        made = torch.cat([torch.tensor([second], dtype=torch.float64), made])
    if count:
        state = source.get_state()
        left = float(made[count]) if len(made) > count else 0.0
        patch = _SECOND.pack(left, 0.0, int(len(made) > count))
        state[_SECOND_AT : _SECOND_AT + _SECOND.size] = torch.frombuffer(bytearray(patch), dtype=torch.uint8)
        source.set_state(state)
    return made[:count]


@kernel("normal_")
def normal_(x: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    if not std >= 0:
        raise Exact  # which says so
    if x.numel() >= 16 and x.is_contiguous():
        made = _many_normal(x.numel(), x.dtype, generator)
    else:
        made = _few_normal(x.numel(), generator)
    in_memory = x.permute(sorted(range(x.dim()), key=lambda i: -x.stride(i)))
    in_memory.copy_((made * std + mean).view(in_memory.shape))
    return x


def _normal_like(shape: Any, mean: Any, std: Any, generator: Any, dtype: torch.dtype) -> Tensor:
    made: Tensor = torch.empty(shape, dtype=dtype).normal_(generator=generator) * std + mean
    return made


@kernel("normal.Tensor_float", "normal.Tensor_float_out")
def normal_of_means(mean: Tensor, std: float = 1, *, generator: Any = None) -> Tensor:
    return _normal_like(mean.shape, mean, std, generator, mean.dtype)


@kernel("normal.float_Tensor", "normal.float_Tensor_out")
def normal_of_deviations(mean: float, std: Tensor, *, generator: Any = None) -> Tensor:
    return _normal_like(std.shape, mean, std, generator, std.dtype)


@kernel("normal.Tensor_Tensor", "normal.Tensor_Tensor_out")
def normal_of_tensors(mean: Tensor, std: Tensor, *, generator: Any = None) -> Tensor:
    broadcast: Any = torch.broadcast_shapes
    return _normal_like(broadcast(mean.shape, std.shape), mean, std, generator, mean.dtype)


@kernel("uniform_")
def uniform_(x: Tensor, first: float = 0, last: float = 1, *, generator: Any = None) -> Tensor:
    if (first, last) == (0, 1) or not first <= last:
        raise Exact
    # `from` and `to` are numbers of the type.
    begin, end = torch.tensor([first, last], dtype=x.dtype)
    numbers = torch.empty_like(x).uniform_(generator=generator)
    made = (wide(numbers) * wide(end - begin) + wide(begin)).to(x.dtype)
    return x.copy_(torch.where(made == end, begin, made))  # one that is rounded up is no number of [from, to)


@kernel("exponential_")
def exponential_(x: Tensor, rate: float = 1, *, generator: Any = None) -> Tensor:
    if not rate > 0:
        raise Exact
    numbers = _drawn(x.shape, torch.float64, generator)
    # Never 0, which a quotient of multinomial would divide by.
    smallest = torch.finfo(torch.float32 if x.dtype != torch.float64 else x.dtype).eps / 2
    return x.copy_((-rapt.log1p(-numbers)).clamp(min=smallest) / rate)
