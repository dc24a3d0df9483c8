"""scaled_dot_product_attention of shapes that PyTorch has no kernel of attention for, and makes of products and softmax.

Those would have other bits for other shapes of the same numbers, and left padding would change them. Here such tensors get four
dimensions, without gaps in a row and with values as long as keys. Then PyTorch takes its kernel of attention, and has
its gradient. The operations are differentiable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ._torch_table import TYPES, Tensor


def _fit(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, enable_gqa: bool) -> bool:
    """Whether it is attention that rapt has, whatever the shapes."""
    tensors = (query, key, value)
    backends: Any = torch.backends
    return (
        query.dtype in TYPES
        and all(x.dtype == query.dtype and x.dim() >= (3 if enable_gqa else 2) and x.numel() for x in tensors)
        and query.shape[-1] == key.shape[-1]
        and key.shape[-2] == value.shape[-2]
        and (mask is None or (mask.dim() >= 2 and not (mask.requires_grad and torch.is_grad_enabled())))
        and bool(backends.cuda.flash_sdp_enabled())
    )


def _has_kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, enable_gqa: bool) -> bool:
    """Whether PyTorch takes its kernel of attention for these shapes."""
    return (
        query.dim() == key.dim() == value.dim() == 4
        and query.shape[0] == key.shape[0] == value.shape[0]
        and (enable_gqa or query.shape[1] == key.shape[1] == value.shape[1])
        and query.shape[3] == value.shape[3]
        and query.stride(3) == key.stride(3) == value.stride(3) == 1
        and (mask is None or mask.dim() in (2, 4))
    )


def _leading(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> tuple[int, ...] | None:
    """The dimensions of the result before its last two. None: those of the tensors do not fit. PyTorch says so."""
    of_each = [tuple(x.shape[: -3 if enable_gqa else -2]) for x in (query, key, value)]
    broadcast: Any = torch.broadcast_shapes
    try:
        batch: tuple[int, ...] = tuple(broadcast(*of_each))
    except RuntimeError:
        return None
    return (*batch, query.shape[-3]) if enable_gqa else batch


def _of_four(x: Tensor, leading: tuple[int, ...], enable_gqa: bool) -> Tensor:
    """The last one of `leading` is the heads, of which keys may have fewer. All before it become the batch."""
    heads = x.shape[-3:-2] if enable_gqa else leading[-1:]
    x = x.expand(*leading[:-1], *heads, *x.shape[-2:])
    x = x.reshape(math.prod(leading[:-1]), heads[0] if heads else 1, *x.shape[-2:])
    return x if x.stride(3) == 1 else x.contiguous()


def _mask_of_four(mask: Tensor, leading: tuple[int, ...]) -> Tensor:
    mask = mask.reshape((1,) * (max(len(leading), 1) + 2 - mask.dim()) + tuple(mask.shape))
    if any(length != 1 for length in mask.shape[:-3]):
        mask = mask.expand(*leading[:-1], *mask.shape[-3:])
    return mask.reshape(-1, *mask.shape[-3:])


def _longer(x: Tensor, length: int) -> Tensor:
    return x if x.shape[3] == length else torch.constant_pad_nd(x, (0, length - x.shape[3]))


def attention(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """scaled_dot_product_attention that calls the original with such shapes."""

    def run(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        shapes = query, key, value, attn_mask, enable_gqa
        leading = None
        if dropout_p == 0 and not _has_kernel(*shapes) and _fit(*shapes):
            leading = _leading(query, key, value, enable_gqa)
        if leading is None:
            return original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        length, v_length = query.shape[-1], value.shape[-1]
        q, k, v = (_of_four(x, leading, enable_gqa) for x in (query, key, value))
        made = original(
            _longer(q, max(length, v_length)),
            _longer(k, max(length, v_length)),
            _longer(v, max(length, v_length)),
            attn_mask if attn_mask is None else _mask_of_four(attn_mask, leading),
            dropout_p,
            is_causal,
            scale=1 / math.sqrt(length) if scale is None else scale,
            enable_gqa=enable_gqa,
        )
        return made[..., :v_length].reshape(*leading, q.shape[2], v_length).contiguous()

    return run


# Registered for gradients, too: what it calls has them.
COMPOSITE = {"scaled_dot_product_attention": attention}
