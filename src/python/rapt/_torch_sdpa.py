"""Kernels of PyTorch's attention, which scaled_dot_product_attention becomes, and of its gradient."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch

import rapt

from ._torch_table import NotReplaced, Tensor, kernel, threads, wide

# rapt sums keys in chunks of so many. Chunks begin at the first key that a query sees. So neither left padding nor
# keys that a window has left behind change a result, whether the tensors have them or not.
_CHUNK = 512


class _Run(NamedTuple):
    """Queries of one sequence in a row, which share the chunks, and the keys that they see."""

    sequence: int
    queries: slice
    keys: slice


def _seen(mask: Tensor, kv_len: int) -> Any:
    """[batch or 1][queries or 1][keys], whether some head sees the key. None: the mask has no column for each key."""
    if mask.shape[-1] != kv_len or kv_len == 0:
        return None
    of_four = mask if mask.dim() == 4 else mask[None, None]
    return (of_four if mask.dtype == torch.bool else of_four != -math.inf).any(1).numpy()


def _first_keys(mask: Tensor, kv_len: int) -> Tensor | None:
    """The first key of each sequence that some query sees. None: each sequence has a query that sees its first key."""
    seen = _seen(mask, kv_len)
    if seen is None or seen[..., 0].any(1).all():
        return None
    return torch.from_numpy(seen.any(1).argmax(-1))


def _runs(mask: Tensor, kv_len: int, batch: int, q_len: int) -> list[_Run]:
    """Empty where the queries of each sequence share the chunks."""
    seen = _seen(mask, kv_len)
    if seen is None or seen.shape[1] == 1 or seen[..., 0].all():
        return []
    first, some = seen.argmax(-1), seen.any(-1)
    runs: list[_Run] = []
    for b in range(batch):
        of_b = b if seen.shape[0] > 1 else 0
        begin, start = 0, kv_len  # of the run
        for i in [*np.flatnonzero(some[of_b]).tolist(), q_len]:
            key = int(first[of_b, i]) if i < q_len else kv_len
            if i == q_len or (start < kv_len and (key - start) % _CHUNK):
                start = 0 if start == kv_len else start
                columns = np.flatnonzero(seen[of_b, begin:i].any(0))
                end = int(columns[-1]) + 1 if len(columns) else 1
                runs.append(_Run(b, slice(begin, i), slice(start, max(end, start + 1))))
                begin, start = i, kv_len
            start = min(start, key)
    return runs if len(runs) > batch else []


def _attention_options(
    query: Tensor, key: Tensor, is_causal: bool, mask: Tensor | None, scale: float | None
) -> dict[str, Any]:
    options: dict[str, Any] = {"causal": "top_left" if is_causal else False}
    if scale == 0:
        options["query_scales"] = 0.0  # the library's scale of 0 is its default
    elif scale is not None:
        options["scale"] = scale
    if mask is not None:
        first = _first_keys(mask, key.shape[2])
        if first is not None:
            options["kv_starts"] = first.expand(query.shape[0])
        options["mask" if mask.dtype == torch.bool else "bias"] = mask
    return options


def _attend(query: Tensor, key: Tensor, value: Tensor, out: Tensor, count: int, options: dict[str, Any]) -> Tensor:
    """Into out. Returns the log-sum-exp."""
    tensors = query, key, value
    if query.dtype != torch.bfloat16:
        return torch.as_tensor(rapt.attention(*tensors, out=out, return_lse=True, threads=count, **options)[1])
    # That of products in bf16 is too coarse for gradients.
    lse = rapt.attention(*tensors, out=out, return_lse=True, threads=count, arithmetic="f32", **options)[1]
    rapt.attention(*tensors, out=out, threads=count, **options)
    return torch.as_tensor(lse)


def _attend_in_runs(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Any,
    scale: float | None,
    runs: list[_Run],
    out: Tensor,
    lse: Tensor,
) -> None:
    of_four = mask if mask.dim() == 4 else mask[None, None]
    for run in runs:
        one = slice(run.sequence, run.sequence + 1)
        rows = of_four[one if mask.dim() == 4 and mask.shape[0] > 1 else slice(None), :, run.queries, run.keys]
        tensors = query[one, :, run.queries], key[one, :, run.keys], value[one, :, run.keys]
        options = _attention_options(*tensors[:2], False, None, scale)
        options["mask" if mask.dtype == torch.bool else "bias"] = rows
        lse[one, :, run.queries] = _attend(*tensors, out[one, :, run.queries], 1, options)


@kernel("_scaled_dot_product_flash_attention_for_cpu")
def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    if dropout_p != 0:
        raise NotReplaced
    batch, heads, q_len, _ = query.shape
    kv_len = key.shape[2]
    # As PyTorch's kernel, and as its function for the shapes of results has it.
    if value.shape[3] == query.shape[3]:
        out = torch.empty_like(query)
    else:
        out = query.new_empty(batch, q_len, heads, value.shape[3]).transpose(1, 2)
    options = _attention_options(query, key, is_causal, attn_mask, scale)
    lse = query.new_empty(batch, q_len, heads, dtype=wide(query[:0]).dtype).transpose(1, 2)
    if out.numel() and kv_len:
        count = threads(2 * query.numel() * kv_len)
        made = out if out.stride(3) == 1 else out.new_empty(out.shape)
        runs = [] if attn_mask is None or is_causal else _runs(attn_mask, kv_len, batch, q_len)
        if runs:
            _attend_in_runs(query, key, value, attn_mask, scale, runs, made, lse)
        else:
            lse.copy_(_attend(query, key, value, made, count, options))
        if made is not out:
            out.copy_(made)
    else:
        out.zero_(), lse.fill_(-math.inf)
    return out, lse


@kernel("_scaled_dot_product_flash_attention_for_cpu_backward")
def flash_attention_backward(
    dout: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    lse: Tensor,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, ...]:
    if dropout_p != 0 or not out.numel() or not key.shape[2]:
        raise NotReplaced
    options = _attention_options(query, key, is_causal, attn_mask, scale)
    if query.dtype == torch.bfloat16:
        options["arithmetic"] = "f32"
    made = rapt.attention_backward(
        query, key, value, out, dout, lse.contiguous(), bias_gradient=False, threads=threads(), **options
    )
    # PyTorch's have the tokens before the heads, whatever the layout of the tensors.
    return tuple(g.transpose(1, 2).contiguous().transpose(1, 2) for g in (made.dq, made.dk, made.dv))
