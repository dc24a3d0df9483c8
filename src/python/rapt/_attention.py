"""Attention and its gradient."""

from __future__ import annotations

from ctypes import byref, c_size_t
from typing import Any, Literal, NamedTuple, TypeVar, Union, overload

import numpy as np

from ._arguments import flag, type_choice
from ._arrays import address, as_array, element_type, empty, in_kind_of, readable, strides_of, tensor_strides
from ._attention_call import BLOCK, Array, AttentionCall, four_dimensions, zero_gaps
from ._library import F32, F64, I8, AttentionGradients, AttentionOptions, C, check, count
from ._status import Status
from ._threads import run_tasks, thread_count
from ._workspace import SMALL, kept_workspace, larger_workspace

Causal = Union[bool, Literal["bottom_right", "top_left"], None]
Arithmetic = Literal["default", "f32", "bf16", None]
_GRADIENT_TYPES = {None: 0, "f32": F32}
Tensor = TypeVar("Tensor")  # of another library


# fmt: off
@overload
def attention(
    q: Array, k: Any, v: Any, *, return_lse: Literal[False] = False, out: Any = None, threads: int | None = 1,
    scale: float | None = None, softcap: float | None = None, query_scales: Any = None, alibi_slopes: Any = None,
    sinks: Any = None, bias: Any = None, mask: Any = None, causal: Causal = False, causal_offset: int | None = None,
    window_left: int | None = None, window_right: int | None = None, window_chunk: int | None = None,
    kv_lengths: Any = None, q_offsets: Any = None, kv_offsets: Any = None, block_table: Any = None, packed_keys: bool = False,
    k_scales: Any = None, v_scales: Any = None, scale_group: int | None = None,
    arithmetic: Arithmetic = None, out_type: Any = None,
) -> Array: ...
@overload
def attention(
    q: Array, k: Any, v: Any, *, return_lse: Literal[True], out: Any = None, threads: int | None = 1,
    scale: float | None = None, softcap: float | None = None, query_scales: Any = None, alibi_slopes: Any = None,
    sinks: Any = None, bias: Any = None, mask: Any = None, causal: Causal = False, causal_offset: int | None = None,
    window_left: int | None = None, window_right: int | None = None, window_chunk: int | None = None,
    kv_lengths: Any = None, q_offsets: Any = None, kv_offsets: Any = None, block_table: Any = None, packed_keys: bool = False,
    k_scales: Any = None, v_scales: Any = None, scale_group: int | None = None,
    arithmetic: Arithmetic = None, out_type: Any = None,
) -> tuple[Array, Array]: ...
@overload
def attention(
    q: Tensor, k: Any, v: Any, *, return_lse: Literal[False] = False, out: Any = None, threads: int | None = 1,
    scale: float | None = None, softcap: float | None = None, query_scales: Any = None, alibi_slopes: Any = None,
    sinks: Any = None, bias: Any = None, mask: Any = None, causal: Causal = False, causal_offset: int | None = None,
    window_left: int | None = None, window_right: int | None = None, window_chunk: int | None = None,
    kv_lengths: Any = None, q_offsets: Any = None, kv_offsets: Any = None, block_table: Any = None, packed_keys: bool = False,
    k_scales: Any = None, v_scales: Any = None, scale_group: int | None = None,
    arithmetic: Arithmetic = None, out_type: Any = None,
) -> Tensor: ...
@overload
def attention(
    q: Tensor, k: Any, v: Any, *, return_lse: Literal[True], out: Any = None, threads: int | None = 1,
    scale: float | None = None, softcap: float | None = None, query_scales: Any = None, alibi_slopes: Any = None,
    sinks: Any = None, bias: Any = None, mask: Any = None, causal: Causal = False, causal_offset: int | None = None,
    window_left: int | None = None, window_right: int | None = None, window_chunk: int | None = None,
    kv_lengths: Any = None, q_offsets: Any = None, kv_offsets: Any = None, block_table: Any = None, packed_keys: bool = False,
    k_scales: Any = None, v_scales: Any = None, scale_group: int | None = None,
    arithmetic: Arithmetic = None, out_type: Any = None,
) -> tuple[Tensor, Tensor]: ...
# fmt: on


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    return_lse: bool = False,
    out: Any = None,
    threads: int | None = 1,
    scale: float | None = None,
    softcap: float | None = None,
    query_scales: Any = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    bias: Any = None,
    mask: Any = None,
    causal: Causal = False,
    causal_offset: int | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    window_chunk: int | None = None,
    kv_lengths: Any = None,
    q_offsets: Any = None,
    kv_offsets: Any = None,
    block_table: Any = None,
    packed_keys: bool = False,
    k_scales: Any = None,
    v_scales: Any = None,
    scale_group: int | None = None,
    arithmetic: Arithmetic = None,
    out_type: Any = None,
) -> Any:
    """DOC"""
    call = _call(
        q, k, v, scale, softcap, query_scales, alibi_slopes, sinks, bias, mask, causal, causal_offset, window_left,
        window_right, window_chunk, kv_lengths, q_offsets, kv_offsets, block_table, packed_keys, k_scales, v_scales,
        scale_group, arithmetic, out_type,
    )  # fmt: skip
    result = call.output(out)
    lse = call.new_lse() if return_lse is not False and flag(return_lse, "return_lse") else None
    _run(call, result, threads)
    returned = in_kind_of(q, result) if out is None else out
    return returned if lse is None else (returned, in_kind_of(q, lse))


def _call(
    q: Any,
    k: Any,
    v: Any,
    scale: float | None,
    softcap: float | None,
    query_scales: Any,
    alibi_slopes: Any,
    sinks: Any,
    bias: Any,
    mask: Any,
    causal: Causal,
    causal_offset: int | None,
    window_left: int | None,
    window_right: int | None,
    window_chunk: int | None,
    kv_lengths: Any,
    q_offsets: Any,
    kv_offsets: Any,
    block_table: Any,
    packed_keys: bool,
    k_scales: Any,
    v_scales: Any,
    scale_group: int | None,
    arithmetic: Arithmetic,
    out_type: Any,
    gradient: bool = False,
) -> AttentionCall:
    """The arguments are positional: 25 names take a microsecond to pass."""
    call = AttentionCall(q, k, v, packed_keys, arithmetic, out_type)
    if gradient and call.options.kv_type == I8:
        raise TypeError(f"k and v have elements of {call.v.dtype.name}, which have no gradient")
    call.set_sequences(q_offsets, kv_offsets, kv_lengths, block_table)
    call.set_kv_scales(k_scales, v_scales, scale_group)
    call.set_scores(scale, softcap, query_scales, alibi_slopes, sinks)
    call.set_visibility(causal, causal_offset, window_left, window_right, window_chunk)
    if bias is not None:
        call.set_bias(bias, gradient)
    if mask is not None:
        call.set_mask(mask)
    return call


def _run(call: AttentionCall, result: Array, threads: int | None) -> None:
    options = call.options
    if options.batch == 0:
        thread_count(threads)
        return
    if call.work <= SMALL:
        if threads != 1:
            thread_count(threads)
        _run_at_once(call, result)
        return
    _run_tasks(call, result, thread_count(threads, call.work))


def _run_at_once(call: AttentionCall, result: Array) -> None:
    options, workspace = call.options, kept_workspace()
    arrays = (*call.addresses, address(result))
    status = C.rapt_attention(*arrays, options, workspace.address, workspace.size)
    if status == Status.WORKSPACE:
        workspace = larger_workspace(count(C.rapt_attention_workspace, options))
        status = C.rapt_attention(*arrays, options, workspace.address, workspace.size)
    call.check(status)


def _run_tasks(call: AttentionCall, result: Array, threads: int) -> None:
    options, arrays, out = call.options, call.addresses, address(result)
    workspace, tasks = call.count(C.rapt_attention_workspace), call.count(C.rapt_attention_tasks)

    def run(first: int, last: int, scratch: int) -> None:
        call.check(C.rapt_attention_run(*arrays, out, options, first, last, scratch, workspace))

    if tasks < threads and options.kv_len > 512:
        _split_keys(call, result, tasks, workspace, threads)
    else:
        run_tasks(run, tasks, workspace, threads)


def _split_keys(call: AttentionCall, result: Array, tasks: int, workspace: int, threads: int) -> None:
    """Chunks of keys for threads that would have no rows."""
    options, arrays, out = call.options, call.addresses, address(result)
    partial_tasks, length = c_size_t(), c_size_t()
    call.check(C.rapt_attention_partial_tasks(options, byref(partial_tasks), byref(length)))
    partials = empty((length.value,), call.number)
    numbers = address(partials)

    def part(first: int, last: int, scratch: int) -> None:
        call.check(C.rapt_attention_partial(*arrays, numbers, options, first, last, scratch, workspace))

    def merge(first: int, last: int, scratch: int) -> None:
        call.check(C.rapt_attention_merge(numbers, out, options, first, last, scratch, workspace))

    run_tasks(part, partial_tasks.value, workspace, threads)
    run_tasks(merge, tasks, workspace, threads)


def pack_keys(k: Any) -> Any:
    """Keys in the order in which attention reads them, for attention's packed_keys: caches that are read many times.

    k is [..., tokens, dim] of f32, f64, f16, bf16 or int8. The result is [..., blocks, dim, 64] of k's type, where a block
    has 64 tokens. The last block's missing tokens are 0.

    A ValueError is a k of fewer than 2 dimensions, or without elements in a row. A TypeError is another type.
    """
    keys = readable(as_array(k, "k"))
    if keys.ndim < 2:
        raise ValueError(f"k has {keys.ndim} dimensions, not at least 2")
    *outer, tokens, dim = keys.shape
    if not 1 <= dim <= 1 << 20:
        raise ValueError(f"k has rows of {dim} elements, not of 1 to {1 << 20}")
    rapt_type = element_type(keys, "k")
    packed = empty((*outer, -(-tokens // BLOCK), dim, BLOCK), rapt_type, keys)
    packed[..., -1:, :, :] = 0  # the keys of the last block that do not exist
    # Elements are only moved, but the library has no q of f32 next to keys of f64.
    options = AttentionOptions(
        q_type=F64 if rapt_type == F64 else F32, kv_type=rapt_type, qk_dim=dim, batch=1, q_heads=1
    )
    stride = strides_of((tokens,), keys.strides[-2:-1], keys.itemsize).token
    for head in np.ndindex(*outer):
        check(C.rapt_attention_pack_keys(address(keys[head]), stride, 0, tokens, options, address(packed[head])))
    return in_kind_of(k, packed)


class Gradients(NamedTuple):
    """dq, dk and dv have the shapes of q, k and v. dbias and dsinks are None where attention had no bias and no sinks."""

    dq: Any
    dk: Any
    dv: Any
    dbias: Any
    dsinks: Any


def attention_backward(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    dout: Any,
    lse: Any,
    *,
    gradient_type: Any = None,
    bias_gradient: bool = True,
    threads: int | None = 1,
    scale: float | None = None,
    softcap: float | None = None,
    query_scales: Any = None,
    alibi_slopes: Any = None,
    sinks: Any = None,
    bias: Any = None,
    mask: Any = None,
    causal: Causal = False,
    causal_offset: int | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    window_chunk: int | None = None,
    kv_lengths: Any = None,
    q_offsets: Any = None,
    kv_offsets: Any = None,
    arithmetic: Arithmetic = None,
    out_type: Any = None,
) -> Gradients:
    """DOC2

    bias_gradient: False leaves dbias out, which is then None.
    """
    wide = type_choice(_GRADIENT_TYPES, "gradient_type", gradient_type)
    call = _call(
        q, k, v, scale, softcap, query_scales, alibi_slopes, sinks, bias, mask, causal, causal_offset, window_left,
        window_right, window_chunk, kv_lengths, q_offsets, kv_offsets, None, False, None, None, None, arithmetic, out_type,
        True,
    )  # fmt: skip
    options = call.options
    d_out, result = call.result_of_forward(dout, "dout"), call.result_of_forward(out, "out")
    call.set_lse(lse)
    options.out_strides = tensor_strides(four_dimensions(result, "out"))

    def gradient(tensor: Array, name: str, offsets: Array | None) -> Array:
        return zero_gaps(empty(tensor.shape, wide or element_type(tensor, name), tensor), -2, offsets)

    dq = gradient(call.q, "q", call.q_offsets)
    dk, dv = gradient(call.k, "k", call.kv_offsets), gradient(call.v, "v", call.kv_offsets)
    dbias = None
    if flag(bias_gradient, "bias_gradient") and call.bias is not None:
        dbias = empty(call.bias.shape, call.number)
    dsinks = None if sinks is None else empty((options.q_heads,), call.number)
    if options.batch == 0:
        thread_count(threads)
        for sums in (dbias, dsinks):
            if sums is not None:
                sums[...] = 0
    else:
        gradients = AttentionGradients(
            out=address(result),
            dout=address(d_out),
            dq=address(dq),
            dk=address(dk),
            dv=address(dv),
            dbias=None if dbias is None else address(dbias),
            dsinks=None if dsinks is None else address(dsinks),
            type=wide,
            **{
                name: tensor_strides(four_dimensions(tensor, name))
                for name, tensor in (
                    ("dout_strides", d_out),
                    ("dq_strides", dq),
                    ("dk_strides", dk),
                    ("dv_strides", dv),
                )
            },
        )
        _run_backward(call, gradients, thread_count(threads))
    return Gradients(*(None if array is None else in_kind_of(q, array) for array in (dq, dk, dv, dbias, dsinks)))


def _run_backward(call: AttentionCall, gradients: AttentionGradients, threads: int) -> None:
    options, arrays = call.options, call.addresses
    workspace = call.count(C.rapt_attention_backward_workspace)
    tasks = call.count(C.rapt_attention_backward_tasks, gradients)

    def run(first: int, last: int, scratch: int) -> None:
        call.check(C.rapt_attention_backward_run(*arrays, options, gradients, first, last, scratch, workspace))

    # Consecutive tasks share products, so that each thread gets one run of them.
    run_tasks(run, tasks, workspace, threads, runs_per_thread=1)
