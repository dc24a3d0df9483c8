"""torch.nn.functional.scaled_dot_product_attention by rapt, forwards and backwards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

import rapt

from ._arguments import number
from ._threads import thread_count
from ._torch_tensors import check_tensor, check_tensors, differentiable_once, summed_to


class _Call(NamedTuple):
    """The shape of a call, whose batch may have any number of dimensions, and the options that are no tensors."""

    leading: tuple[int, ...]  # of the result, before its last two dimensions
    batch: tuple[int, ...]
    heads: int
    kv_heads: int
    q_len: int
    kv_len: int
    dim: int
    v_dim: int
    is_causal: bool
    scale: float | None
    threads: int | None
    has_gradient: bool

    def is_empty(self) -> bool:
        """No element of the result, or no key."""
        return 0 in (*self.leading, self.q_len, self.kv_len, self.v_dim)

    def work(self) -> int:
        return math.prod(self.batch) * self.heads * self.q_len * self.kv_len * (self.dim + self.v_dim)

    def folded(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        """[batch][heads][tokens][dim]. Repeated dimensions have strides of 0 as far as one stride serves the batch."""
        x = x.detach()
        if x.dim() == 4 and x.shape[:2] == (*self.batch, heads):  # PyTorch takes microseconds
            return x
        x = x.expand(*self.batch, heads, *x.shape[-2:])
        return x.reshape(math.prod(self.batch), *x.shape[-3:])

    def repeated(self, mask: torch.Tensor) -> torch.Tensor:
        """A mask or a bias with the batch's dimensions: all of them, or ones. Its last dimension has all keys."""
        ndim = len(self.batch) + 3
        mask = mask.detach().reshape((1,) * (ndim - mask.dim()) + tuple(mask.shape))
        batch = mask.shape[:-3] if all(length == 1 for length in mask.shape[:-3]) else self.batch
        return mask.expand(*batch, *mask.shape[-3:-1], self.kv_len)

    def options(self, mask: torch.Tensor | None, dtype: torch.dtype) -> dict[str, Any]:
        options: dict[str, Any] = {"causal": "top_left" if self.is_causal else False}
        if self.scale == 0:
            options["query_scales"] = 0.0  # the library's scale of 0 is its default
        elif self.scale is not None:
            options["scale"] = self.scale
        if self.has_gradient and dtype == torch.bfloat16:
            options["arithmetic"] = "f32"  # the log-sum-exp of products in bf16 is too coarse for gradients
        if mask is not None:
            repeated = self.repeated(mask)
            folded = repeated.reshape(math.prod(repeated.shape[:-3]), *repeated.shape[-3:])
            options["mask" if mask.dtype == torch.bool else "bias"] = folded
        return options


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, call: _Call
    ) -> torch.Tensor:
        ctx.call = call
        out = query.new_empty(*call.leading, call.q_len, call.v_dim)
        if call.is_empty():
            ctx.save_for_backward(query, key, value, mask, None, None)
            return out.zero_()
        tensors = call.folded(query, call.heads), call.folded(key, call.kv_heads), call.folded(value, call.kv_heads)
        four = out.view(math.prod(call.batch), call.heads, call.q_len, call.v_dim)
        options = call.options(mask, query.dtype)
        if call.has_gradient:
            lse = rapt.attention(*tensors, out=four, return_lse=True, threads=call.threads, **options)[1]
            ctx.save_for_backward(query, key, value, mask, out, lse)
        else:
            rapt.attention(*tensors, out=four, threads=call.threads, **options)
        return out

    @staticmethod
    @differentiable_once("scaled_dot_product_attention")
    def backward(ctx: Any, dout: torch.Tensor, *saved: Any) -> tuple[torch.Tensor | None, ...]:
        call: _Call = ctx.call
        query, key, value, mask, out, lse = saved
        inputs, needed = (query, key, value, mask), ctx.needs_input_grad[:4]
        if call.is_empty():
            return (*(torch.zeros_like(x) if need else None for x, need in zip(inputs, needed)), None)
        four = math.prod(call.batch), call.heads, call.q_len, call.v_dim
        gradients = rapt.attention_backward(
            call.folded(query, call.heads),
            call.folded(key, call.kv_heads),
            call.folded(value, call.kv_heads),
            out.detach().view(four),
            dout.detach().reshape(four),
            lse,
            gradient_type=None if query.dtype in (torch.float32, torch.float64) else "f32",
            bias_gradient=needed[3],
            threads=thread_count(call.threads, 3 * call.work()),
            **call.options(mask, query.dtype),
        )
        shapes = [
            (*call.batch, call.heads, *query.shape[-2:]),
            (*call.batch, call.kv_heads, *key.shape[-2:]),
            (*call.batch, call.kv_heads, *value.shape[-2:]),
            call.repeated(mask).shape if needed[3] else (),
        ]
        return (
            *(
                summed_to(gradient.reshape(shape), x.shape).to(x.dtype) if need else None
                for x, need, gradient, shape in zip(inputs, needed, gradients[:4], shapes)
            ),
            None,
        )


def _broadcast(shapes: Sequence[Sequence[int]], what: str) -> tuple[int, ...]:
    if shapes[0] == shapes[1] == shapes[2]:  # NumPy takes microseconds
        return tuple(shapes[0])
    try:
        return np.broadcast_shapes(*(tuple(shape) for shape in shapes))
    except ValueError:
        listed = ", ".join(str(tuple(shape)) for shape in shapes)
        raise ValueError(f"{what} of query, key and value do not broadcast: {listed}") from None


def _leading(tensors: Sequence[torch.Tensor], enable_gqa: bool) -> tuple[tuple[int, ...], int]:
    """The dimensions of the result before its last two, and the number of heads of keys and values."""
    if not enable_gqa:
        heads = [x.shape[-3] for x in tensors if x.dim() > 2]
        if len(set(heads) - {1}) > 1:
            raise ValueError(f"query, key and value have {heads} heads: groups of query heads need enable_gqa")
        leading = _broadcast([x.shape[:-2] for x in tensors], "the batches")
        own = any(x.dim() > 2 and x.shape[-3] != 1 for x in tensors[1:])
        return leading, leading[-1] if own else 1
    if any(x.dim() < 3 for x in tensors):
        raise ValueError("enable_gqa is set, and a tensor has no dimension of heads")
    of_query, of_key, of_value = (x.shape[-3] for x in tensors)
    if of_key != of_value or (of_query != of_key and (of_key == 0 or of_query % of_key != 0)):
        raise ValueError(f"query, key and value have {of_query}, {of_key} and {of_value} heads, which make no groups")
    return (*_broadcast([x.shape[:-3] for x in tensors], "the batches"), of_query), of_key


def _check_mask(mask: torch.Tensor, query: torch.Tensor, scores: tuple[int, ...]) -> None:
    check_tensor(mask, "attn_mask")
    if mask.dtype not in (torch.bool, query.dtype, torch.float32):
        raise TypeError(f"attn_mask has elements of {mask.dtype}, not torch.bool, {query.dtype} or torch.float32")
    try:
        fits = np.broadcast_shapes(tuple(mask.shape), scores) == scores
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"attn_mask has the shape {tuple(mask.shape)}, which does not broadcast to {scores}")


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    threads: int | None = None,
) -> torch.Tensor:
    """softmax(scale * query . keyT + attn_mask) . value, with the arguments and the meaning of PyTorch 2.

    query is [...][L][E], key is [...][S][E] and value is [...][S][Ev], of one type. Their leading dimensions, of any number,
    broadcast. The result is [...][L][Ev] of that type, contiguous.

    attn_mask    what broadcasts to [...][L][S]: of bool, where True may attend, or numbers of the query's type or float32
                 that are added to the scaled scores
    dropout_p    only 0: results are the same on every call
    is_causal    query i sees the keys 0 to i, from the top left also where L is not S; not with attn_mask
    scale        1 / sqrt(E) by default. 0 makes all scores 0
    enable_gqa   the dimension before the last two has the heads, and key and value may have fewer: as many as divide the
                 query's. Each serves adjacent heads of the query
    threads      None for all CPUs where the work pays. Every number of threads gives the same bits

    A query that may attend to no key has zeros, as in PyTorch 2.5 and later, and adds to no gradient. So do no keys at all.

    The gradients are those of query, key, value, and an attn_mask of numbers, each in its tensor's type. Gradients of 16
    bits are computed in f32 and rounded once. The library computes those of query, key and value together. Sums over
    repeated dimensions have one order, whatever the threads.

    With a gradient, tensors of bf16 are multiplied in f32 arithmetic, which gradients need; without one, in the bf16
    arithmetic of rapt.attention.

    A TypeError is no tensor, another type of elements, several types, or a layout that is not dense. A ValueError is another
    device, shapes that do not fit, an E of 0, a dropout_p, is_causal with an attn_mask, or a scale that the type cannot
    hold. A second derivative is a RuntimeError.
    """
    check_tensors(query=query, key=key, value=value)
    tensors = query, key, value
    for x, name in zip(tensors, ("query", "key", "value")):
        if x.dim() < 2:
            raise ValueError(f"{name} has {x.dim()} dimensions, not at least 2")
    if dropout_p != 0:
        raise ValueError(f"dropout_p is {dropout_p}, and rapt has no dropout: its results are the same on every call")
    if is_causal and attn_mask is not None:
        raise ValueError("attn_mask must be None where is_causal is set")
    if query.shape[-1] != key.shape[-1] or query.shape[-1] == 0:
        raise ValueError(f"query and key have {query.shape[-1]} and {key.shape[-1]} elements in a row")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"there are {key.shape[-2]} keys and {value.shape[-2]} values")
    leading, kv_heads = _leading(tensors, enable_gqa)
    q_len, kv_len = query.shape[-2], key.shape[-2]
    if attn_mask is not None:
        _check_mask(attn_mask, query, (*leading, q_len, kv_len))
    call = _Call(
        leading=leading,
        batch=leading[:-1],
        heads=leading[-1] if leading else 1,
        kv_heads=kv_heads,
        q_len=q_len,
        kv_len=kv_len,
        dim=query.shape[-1],
        v_dim=value.shape[-1],
        is_causal=bool(is_causal),
        scale=None if scale is None else number(scale, "scale"),
        threads=None if threads is None else thread_count(threads),
        has_gradient=torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (*tensors, attn_mask)),
    )
    result: torch.Tensor = _Attention.apply(query, key, value, attn_mask, call)
    return result
