"""torch.nn.functional.scaled_dot_product_attention by rapt: the same signature, forwards and backwards.

    from torch_attention import scaled_dot_product_attention

    out = scaled_dot_product_attention(q, k, v, is_causal=True)

Tensors are in the memory of the CPU, as float32, float64, float16 or bfloat16. They are read without copies. The bits do not
depend on the CPU, on the number of threads, or on the other sequences of the batch.
"""

from __future__ import annotations

import torch

import rapt


def _flat(x: torch.Tensor) -> torch.Tensor:
    """[batch][heads][tokens][dim] of any number of leading dimensions."""
    if x.dim() < 2:
        raise ValueError(f"attention of a tensor of {x.dim()} dimensions")
    x = x[(None,) * (4 - x.dim())] if x.dim() < 4 else x
    return x.flatten(0, -4) if x.dim() > 4 else x


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, bias, options):
        out = torch.empty(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
        tensors = {} if bias is None else {"bias": bias.detach()}
        _, lse = rapt.attention(q.detach(), k.detach(), v.detach(), out=out, return_lse=True, **options, **tensors)
        ctx.save_for_backward(q, k, v, bias, out, torch.as_tensor(lse))
        ctx.options = options
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, bias, out, lse = (None if x is None else x.detach() for x in ctx.saved_tensors)
        tensors = {} if bias is None else {"bias": bias}
        # For 16 bits the result is f32, and torch rounds it.
        wide = None if q.dtype in (torch.float32, torch.float64) else "f32"
        gradients = rapt.attention_backward(
            q, k, v, out, dout.detach(), lse, gradient_type=wide, **ctx.options, **tensors
        )
        dq, dk, dv = (torch.as_tensor(x).to(q.dtype) for x in gradients[:3])
        return dq, dk, dv, None if bias is None else torch.as_tensor(gradients.dbias), None


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, *, threads=None
):
    """As PyTorch documents it. attn_mask: True (or 0) lets a query see a key; numbers are added to the scores."""
    if dropout_p != 0.0:
        raise ValueError("rapt has no dropout: its results are the same on every call")
    if is_causal and attn_mask is not None:
        raise ValueError("attn_mask must be None where is_causal is set")
    q, k, v = _flat(query), _flat(key), _flat(value)
    if q.shape[1] != k.shape[1] and not enable_gqa:
        raise ValueError(f"{q.shape[1]} query heads and {k.shape[1]} key/value heads need enable_gqa")
    options = {"causal": "top_left" if is_causal else False, "threads": threads}
    if scale is not None:
        options["scale"] = scale
    bias = None
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        options["mask"] = _flat(attn_mask).view(torch.uint8)  # DLPack of old versions lacks bool
    elif attn_mask is not None:
        bias = _flat(attn_mask).to(torch.float64 if q.dtype == torch.float64 else torch.float32)
    return _Attention.apply(q, k, v, bias, options).reshape(*query.shape[:-1], value.shape[-1])
