"""Attention and its gradient."""

from __future__ import annotations

from ctypes import byref, c_size_t
from typing import Any, NamedTuple

import numpy as np

from ._attention_call import BLOCK, AttentionCall, four_dimensions, zero_gaps
from ._arrays import as_array, element_type, empty, readable, strides_of, tensor_strides
from ._library import C, F32, AttentionGradients, AttentionOptions, check, count
from ._threads import run_tasks, thread_count


def attention(
    q: Any, k: Any, v: Any, *, out: Any = None, return_lse: bool = False, threads: int | None = 1, **options: Any
) -> Any:
    """softmax(scale * q.kT) . v, without a matrix of scores.

    q is [q_len][dim], [heads][q_len][dim] or [batch][heads][q_len][dim], of f32, f64, f16 or bf16. k is
    [batch][kv_heads][kv_len][dim] and v is [batch][kv_heads][kv_len][v_dim], or without the first dimensions. They have
    q's type or, where q is not f64, another one; int8 needs k_scales and v_scales. kv_heads divides heads, and head h of
    q reads head h // (heads // kv_heads), as with PyTorch's enable_gqa. Batches do not broadcast.

    The result is [batch][heads][q_len][v_dim], with the dimensions of q. With return_lse, it is a pair of that and the
    log-sum-exp of every row, [batch][heads][q_len] of the arithmetic type. `out` may be q, where v_dim is dim.

    Options, all off by default; rapt.h has their formulas:

    scale           of the scores; 1/sqrt(dim) by default
    causal          True or "bottom_right": the last query sees the last key; "top_left": the first query sees the
                    first key only, as with PyTorch's is_causal
    causal_offset   query i sees the keys up to i + causal_offset
    window_left, window_right, window_chunk   the keys around its position that a query sees
    mask            what broadcasts to [batch][heads][q_len][kv_len], of bool or uint8; False excludes a key
    bias            numbers that broadcast to that shape; -inf excludes a key
    query_scales    numbers that broadcast to [batch][heads][q_len]
    softcap         a number; alibi_slopes, sinks: [heads], which do not broadcast
    kv_lengths      [batch] integers, the keys of each sequence
    q_offsets, kv_offsets   [batch + 1] integers: sequences are stored end to end in q (in k and v), whose own batch is 1 or
                    missing. q_len and kv_len are then the longest sequence's
    block_table     [batch][pages] integers: k and v are [pages][kv_heads][page_size][dim]. kv_len is the largest of
                    kv_lengths, or all pages of a row
    packed_keys     True: k comes from pack_keys
    k_scales, v_scales   numbers in the shape of v without its last dimension, or with the scale groups in its place
    scale_group     32, 64 or 128 elements per scale
    arithmetic      "f32" or "bf16" instead of the types' own
    out_type        "f32", "f16" or "bf16" instead of q's type

    Tokens that q_offsets give to no sequence have zeros in the result and its log-sum-exp. An `out` of yours keeps what
    it has there.

    threads: None for all CPUs. Every number of threads gives the same bits.
    """
    call = AttentionCall(q, k, v, **options)
    result = call.output(out, "out")
    call.options.out_strides = tensor_strides(four_dimensions(result, "out"))
    lse = call.new_lse() if return_lse else None
    threads = thread_count(threads)
    if call.options.batch == 0:
        return (result, lse) if return_lse else result
    workspace = count(C.rapt_attention_workspace, call.options)
    tasks = count(C.rapt_attention_tasks, call.options)

    def run(first: int, last: int, scratch: int) -> None:
        check(C.rapt_attention_run(*call.addresses, result.ctypes.data, call.options, first, last, scratch, workspace))

    if tasks < threads and call.options.kv_len > 512:
        _split_keys(call, result, tasks, workspace, threads)
    else:
        run_tasks(run, tasks, workspace, threads)
    return (result, lse) if return_lse else result


def _split_keys(call: AttentionCall, result: np.ndarray, tasks: int, workspace: int, threads: int) -> None:
    """Chunks of keys for threads that would have no rows."""
    partial_tasks, length = c_size_t(), c_size_t()
    check(C.rapt_attention_partial_tasks(call.options, byref(partial_tasks), byref(length)))
    partials = empty((length.value,), call.number)

    def part(first: int, last: int, scratch: int) -> None:
        check(
            C.rapt_attention_partial(
                *call.addresses, partials.ctypes.data, call.options, first, last, scratch, workspace
            )
        )

    def merge(first: int, last: int, scratch: int) -> None:
        check(
            C.rapt_attention_merge(
                partials.ctypes.data, result.ctypes.data, call.options, first, last, scratch, workspace
            )
        )

    run_tasks(part, partial_tasks.value, workspace, threads)
    run_tasks(merge, tasks, workspace, threads)


def pack_keys(k: Any) -> np.ndarray:
    """Keys [..., tokens, dim] of any type in the order in which attention reads them: [..., blocks, dim, 64], where a
    block has 64 tokens. The last block's missing tokens are 0."""
    keys = readable(as_array(k, "k"))
    if keys.ndim < 2:
        raise ValueError(f"k has {keys.ndim} dimensions")
    *outer, tokens, dim = keys.shape
    rapt_type = element_type(keys, "k")
    packed = empty((*outer, -(-tokens // BLOCK), dim, BLOCK), rapt_type, keys)
    packed[..., -1:, :, :] = 0  # the keys of the last block that do not exist
    options = AttentionOptions(kv_type=rapt_type, qk_dim=dim, batch=1, q_heads=1)
    stride = strides_of((tokens,), keys.strides[-2:-1], keys.itemsize).token
    for head in np.ndindex(*outer):
        check(C.rapt_attention_pack_keys(keys[head].ctypes.data, stride, 0, tokens, options, packed[head].ctypes.data))
    return packed


class Gradients(NamedTuple):
    """dq, dk and dv have the shapes of q, k and v. dbias and dsinks are None where attention had no bias and no sinks."""

    dq: np.ndarray
    dk: np.ndarray
    dv: np.ndarray
    dbias: np.ndarray | None
    dsinks: np.ndarray | None


def attention_backward(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    dout: Any,
    lse: Any,
    *,
    threads: int | None = 1,
    gradient_type: str | None = None,
    **options: Any,
) -> Gradients:
    """The gradients of an attention call with these options, whose results were out and lse.

    out and dout have the shape and type of attention's result, and lse is its log-sum-exp. dq, dk and dv have the shapes
    and types of q, k and v; gradient_type="f32" keeps the gradients of 16-bit tensors in f32. Tokens of no sequence have
    zeros there, and so have keys that no query sees. dbias and dsinks are None without a bias and without sinks. dbias has
    the shape of bias, and is summed over what bias repeats; its last dimension must be kv_len. Both have the arithmetic
    type. Keys and values in pages, packed keys and int8 have no gradient.
    """
    if gradient_type not in (None, "f32"):
        raise ValueError(f"gradient_type is {gradient_type!r}, not None or 'f32'")
    call = AttentionCall(q, k, v, contiguous_bias=True, **options)
    dout, out = call.input(dout, "dout"), call.input(out, "out")
    call.set_lse(lse)
    call.options.out_strides = tensor_strides(four_dimensions(out, "out"))

    def gradient(tensor: np.ndarray, name: str, offsets: np.ndarray | None) -> np.ndarray:
        result = empty(tensor.shape, F32 if gradient_type else element_type(tensor, name), tensor)
        return zero_gaps(result, -2, offsets)

    dq, dk, dv = (
        gradient(call.q, "q", call.q_offsets),
        gradient(call.k, "k", call.kv_offsets),
        gradient(call.v, "v", call.kv_offsets),
    )
    dbias = None if call.bias is None else empty(call.bias.shape, call.number)
    dsinks = None if options.get("sinks") is None else empty((call.options.q_heads,), call.number)
    if call.options.batch == 0:
        for sums in (dbias, dsinks):
            if sums is not None:
                sums[...] = 0
        return Gradients(dq, dk, dv, dbias, dsinks)
    fields = {
        name: tensor_strides(four_dimensions(tensor, name))
        for name, tensor in (("dout_strides", dout), ("dq_strides", dq), ("dk_strides", dk), ("dv_strides", dv))
    }
    gradients = AttentionGradients(
        out=out.ctypes.data,
        dout=dout.ctypes.data,
        dq=dq.ctypes.data,
        dk=dk.ctypes.data,
        dv=dv.ctypes.data,
        dbias=None if dbias is None else dbias.ctypes.data,
        dsinks=None if dsinks is None else dsinks.ctypes.data,
        type=F32 if gradient_type else 0,
        **fields,
    )
    workspace = count(C.rapt_attention_backward_workspace, call.options)
    tasks = count(C.rapt_attention_backward_tasks, call.options, gradients)

    def run(first: int, last: int, scratch: int) -> None:
        check(C.rapt_attention_backward_run(*call.addresses, call.options, gradients, first, last, scratch, workspace))

    # Consecutive tasks share products, so that each thread gets one run of them.
    run_tasks(run, tasks, workspace, thread_count(threads), runs_per_thread=1)
    return Gradients(dq, dk, dv, dbias, dsinks)
