# mypy: no-warn-unused-ignores
"""Attention and its gradient."""

from __future__ import annotations

from ctypes import byref, c_size_t, c_void_p
from functools import partial
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from ._arguments import flag, type_choice
from ._arrays import (
    Array,
    TensorLike,
    Torch,
    address,
    as_array,
    element_type,
    empty,
    in_kind_of,
    readable,
    strides_of,
    tensor_strides,
)
from ._attention_call import BLOCK, AttentionCall, zero_gaps
from ._library import F32, F64, I8, REPEAT, AttentionGradients, AttentionOptions, C, check, count
from ._pieces import run_all
from ._prepared import Prepared, joins
from ._scores import Causal
from ._threads import run_tasks, thread_count
from ._workspace import SMALL, Workspace, run_at_once

Arithmetic = Literal["default", "f32", "bf16", None]
# fmt: off
BlockType = Literal[
    "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K", "Q2_K", "Q3_K", "IQ4_NL", "IQ4_XS", "MXFP4", "NVFP4",
    "i4", None,
]
# fmt: on
_GRADIENT_TYPES = {None: 0, "f32": F32}
# In multiplications with an addition of the forward call: a task of the gradient that takes too long, and a run that
# does not. With AVX-512, they take about 20 and 10 ms.
_LONG_TASK, _FIRST_RUN = 1 << 28, 1 << 27
_SECONDS = 0.12


# fmt: off
@overload
def attention(  # type: ignore[misc]
    q: Torch, k: TensorLike, v: TensorLike, *, return_lse: Literal[False] = False, out: Torch | None = None,
    threads: int | None = 1, scale: float | None = None, softcap: float | None = None,
    query_scales: TensorLike | None = None, alibi_slopes: TensorLike | None = None, sinks: TensorLike | None = None,
    bias: TensorLike | None = None, bias_slopes: TensorLike | None = None, mask: TensorLike | None = None,
    causal: Causal = False,
    causal_offset: int | None = None, window_left: int | None = None, window_right: int | None = None,
    window_chunk: int | None = None, kv_lengths: TensorLike | None = None, q_offsets: TensorLike | None = None,
    kv_offsets: TensorLike | None = None, kv_starts: TensorLike | None = None, q_starts: TensorLike | None = None,
    block_table: TensorLike | None = None, key_lists: TensorLike | None = None,
    key_list_lengths: TensorLike | None = None, queries_per_list: int | None = None, packed_keys: bool = False,
    k_scales: TensorLike | None = None, v_scales: TensorLike | None = None, scale_group: int | None = None,
    k_type: BlockType = None, v_type: BlockType = None, arithmetic: Arithmetic = None, out_type: Any = None,
) -> Torch: ...
@overload
def attention(  # type: ignore[misc]
    q: Torch, k: TensorLike, v: TensorLike, *, return_lse: Literal[True], out: Torch | None = None,
    threads: int | None = 1, scale: float | None = None, softcap: float | None = None,
    query_scales: TensorLike | None = None, alibi_slopes: TensorLike | None = None, sinks: TensorLike | None = None,
    bias: TensorLike | None = None, bias_slopes: TensorLike | None = None, mask: TensorLike | None = None,
    causal: Causal = False,
    causal_offset: int | None = None, window_left: int | None = None, window_right: int | None = None,
    window_chunk: int | None = None, kv_lengths: TensorLike | None = None, q_offsets: TensorLike | None = None,
    kv_offsets: TensorLike | None = None, kv_starts: TensorLike | None = None, q_starts: TensorLike | None = None,
    block_table: TensorLike | None = None, key_lists: TensorLike | None = None,
    key_list_lengths: TensorLike | None = None, queries_per_list: int | None = None, packed_keys: bool = False,
    k_scales: TensorLike | None = None, v_scales: TensorLike | None = None, scale_group: int | None = None,
    k_type: BlockType = None, v_type: BlockType = None, arithmetic: Arithmetic = None, out_type: Any = None,
) -> tuple[Torch, Torch]: ...
@overload
def attention(
    q: TensorLike, k: TensorLike, v: TensorLike, *, return_lse: Literal[False] = False, out: Array | None = None,
    threads: int | None = 1, scale: float | None = None, softcap: float | None = None,
    query_scales: TensorLike | None = None, alibi_slopes: TensorLike | None = None, sinks: TensorLike | None = None,
    bias: TensorLike | None = None, bias_slopes: TensorLike | None = None, mask: TensorLike | None = None,
    causal: Causal = False,
    causal_offset: int | None = None, window_left: int | None = None, window_right: int | None = None,
    window_chunk: int | None = None, kv_lengths: TensorLike | None = None, q_offsets: TensorLike | None = None,
    kv_offsets: TensorLike | None = None, kv_starts: TensorLike | None = None, q_starts: TensorLike | None = None,
    block_table: TensorLike | None = None, key_lists: TensorLike | None = None,
    key_list_lengths: TensorLike | None = None, queries_per_list: int | None = None, packed_keys: bool = False,
    k_scales: TensorLike | None = None, v_scales: TensorLike | None = None, scale_group: int | None = None,
    k_type: BlockType = None, v_type: BlockType = None, arithmetic: Arithmetic = None, out_type: Any = None,
) -> Array: ...
@overload
def attention(
    q: TensorLike, k: TensorLike, v: TensorLike, *, return_lse: Literal[True], out: Array | None = None,
    threads: int | None = 1, scale: float | None = None, softcap: float | None = None,
    query_scales: TensorLike | None = None, alibi_slopes: TensorLike | None = None, sinks: TensorLike | None = None,
    bias: TensorLike | None = None, bias_slopes: TensorLike | None = None, mask: TensorLike | None = None,
    causal: Causal = False,
    causal_offset: int | None = None, window_left: int | None = None, window_right: int | None = None,
    window_chunk: int | None = None, kv_lengths: TensorLike | None = None, q_offsets: TensorLike | None = None,
    kv_offsets: TensorLike | None = None, kv_starts: TensorLike | None = None, q_starts: TensorLike | None = None,
    block_table: TensorLike | None = None, key_lists: TensorLike | None = None,
    key_list_lengths: TensorLike | None = None, queries_per_list: int | None = None, packed_keys: bool = False,
    k_scales: TensorLike | None = None, v_scales: TensorLike | None = None, scale_group: int | None = None,
    k_type: BlockType = None, v_type: BlockType = None, arithmetic: Arithmetic = None, out_type: Any = None,
) -> tuple[Array, Array]: ...
# fmt: on


def attention(
    q: Any,
    k: TensorLike,
    v: TensorLike,
    *,
    return_lse: bool = False,
    out: Any = None,
    threads: int | None = 1,
    scale: float | None = None,
    softcap: float | None = None,
    query_scales: TensorLike | None = None,
    alibi_slopes: TensorLike | None = None,
    sinks: TensorLike | None = None,
    bias: TensorLike | None = None,
    bias_slopes: TensorLike | None = None,
    mask: TensorLike | None = None,
    causal: Causal = False,
    causal_offset: int | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    window_chunk: int | None = None,
    kv_lengths: TensorLike | None = None,
    q_offsets: TensorLike | None = None,
    kv_offsets: TensorLike | None = None,
    kv_starts: TensorLike | None = None,
    q_starts: TensorLike | None = None,
    block_table: TensorLike | None = None,
    key_lists: TensorLike | None = None,
    key_list_lengths: TensorLike | None = None,
    queries_per_list: int | None = None,
    packed_keys: bool = False,
    k_scales: TensorLike | None = None,
    v_scales: TensorLike | None = None,
    scale_group: int | None = None,
    k_type: BlockType = None,
    v_type: BlockType = None,
    arithmetic: Arithmetic = None,
    out_type: Any = None,
) -> Any:
    """softmax(scale * q.kT) . v, without a matrix of scores.

    q is [q_len][dim], [heads][q_len][dim] or [batch][heads][q_len][dim], of f32, f64, f16 or bf16. k is
    [batch][kv_heads][kv_len][dim] and v is [batch][kv_heads][kv_len][v_dim], or without the first dimensions. They have
    q's type or, where q is not f64, other ones; int8 needs k_scales and v_scales. 4 bits and blocks of files need k_type or
    v_type. kv_heads divides heads, and head h of
    q reads head h // (heads // kv_heads), as with PyTorch's enable_gqa. Batches do not broadcast.

    Tensors are read where they are. They are copied only where their last dimension is not contiguous or a stride is
    negative.

    The result is [batch][heads][q_len][v_dim], with the dimensions of q. With return_lse, it is a pair of that and the
    log-sum-exp of every row, the natural logarithm, [batch][heads][q_len] of f32 (of f64 where q is f64). Results are
    tensors of PyTorch where q is one. A query that sees no key has zeros and a log-sum-exp of -inf (that of its sink,
    where there are sinks).

    out             takes the result, in its shape and type, and is returned as given. Its last dimension is contiguous. It
                    may be exactly q, where v_dim is dim, and overlaps nothing else that is read
    return_lse      True: the log-sum-exp too
    threads         how many run the call: 1 by default, None for all CPUs where the work pays. Every number of threads
                    gives the same bits. Ctrl-C stops a call within a twentieth of a second, or after one task

    Options, all off by default; rapt.h has their formulas:

    scale           the factor of the scores; 1/sqrt(dim) by default. 0 and what the type cannot hold are refused
    causal          True or "bottom_right": the last query sees the last key; "top_left": the first query sees the
                    first key only, as with PyTorch's is_causal
    causal_offset   query i sees the keys up to i + causal_offset, an integer; not with causal. i + causal_offset is then
                    the query's position, as i is with "top_left"; otherwise the last query has that of the last key
    window_left     w: a query sees the w keys that end at its position, its own included: j > p - w for key j and a query at
                    p. None and 0 are no limit. FlashInfer's window_left of w is w + 1 here, and its -1 is None
    window_right    w: a query sees the w keys that begin at its position, its own included: j < p + w. None and 0 are no
                    limit
    window_chunk    w: a query sees the keys of its position's chunk of w keys, as in Llama 4: j // w == p // w. None and 0
                    are off
    mask            what broadcasts to [batch][heads][q_len][kv_len], of bool or uint8; False and 0 exclude a key
    bias            numbers that broadcast to that shape and are added to the scores; -inf excludes a key. f16 and bf16 are
                    read where they are
    bias_slopes     [heads] numbers, which multiply the bias of each head: the slopes of ALiBi next to a mask of distances
    query_scales    numbers that broadcast to [batch][heads][q_len], a factor of each query's scores
    softcap         c: scores s become c * tanh(s / c); 0 is off
    alibi_slopes    [heads] numbers, times the distance to the query's position; they do not broadcast
    sinks           [heads] numbers, a logit that joins only the sum of a row; they do not broadcast
    kv_lengths      [batch] integers, the keys of each sequence, from 0 to kv_len. Nothing is read past them
    q_offsets, kv_offsets   [batch + 1] integers: sequences are stored end to end in q (in k and v), whose own batch is 1 or
                    missing. q_len and kv_len are then the longest sequence's
    kv_starts       [batch] integers, the first key of each sequence, for left padding. Nothing is read before them. mask,
                    bias and positions count the padding; a row has the bits of the same sequence alone. In pages they
                    are multiples of 16, with packed_keys of 64; not with kv_offsets
    q_starts        [batch] integers, the first query of each sequence: those before see no key. Under causality queries
                    before kv_starts see none anyway. Not with q_offsets
    block_table     [batch][pages] integers: k and v are [pages][kv_heads][page_size][dim]. kv_len is the largest of
                    kv_lengths, or all pages of a row. page_size is a multiple of 64 with packed_keys
    key_lists       integers, tokens of k and v: [batch][kv_len] lists of a sequence each, [batch][lists][kv_len] of blocks of
                    queries, or [batch][kv_heads][lists][kv_len]. Key j is entry j of a list, so that results have the bits
                    of the listed tokens laid end to end. -1 is a key that no query sees. k and v have any number of tokens,
                    and may have a batch of 1 that all sequences share. Not with kv_offsets, kv_starts, block_table or
                    packed_keys
    key_list_lengths   integers in the shape of key_lists without its last dimension, the entries of each list
    queries_per_list   how many queries share a list, where there are several; 1 if there is a list for each query. Several
                    lists, and key_list_lengths, go with no causality, window or slope
    packed_keys     True: k comes from pack_keys; not with kv_offsets
    k_scales, v_scales   numbers in the shape of v without its last dimension, or with the scale groups in its place, only
                    of int8 and "i4"
    scale_group     32, 64 or 128 elements of a head per scale, of which dim and v_dim are multiples; all by default
    k_type, v_type  "Q8_0", "Q4_0" or another type of blocks of files and of llama.cpp's caches, of k and of v: uint8 of
                    [batch][kv_heads][kv_len][bytes of a row]. Results have the bits of a call with the numbers of f32 that
                    these blocks stand for. "i4" are the rows of quantize_rows: uint8 of [batch][kv_heads][kv_len][dim / 2],
                    a multiple of 16 bytes, with k_scales or v_scales. Not with packed_keys
    arithmetic      "f32" (not of f64), or "bf16" where q, k and v are bf16, instead of the types' own
    out_type        "f32", "f16" or "bf16" instead of q's type, or a dtype of NumPy or PyTorch

    bias, bias_slopes, query_scales, alibi_slopes and sinks are rounded to the type of the log-sum-exp. Tokens that q_offsets give to no
    sequence have zeros in the result and its log-sum-exp. An `out` of yours keeps what it has there.

    A TypeError is an argument of another type, f64 among other types, or a mask that is neither bool nor uint8. A
    ValueError is anything else that an option does not say: another shape, heads that kv_heads does not divide, a window of
    -1, a length or a page out of range, scales without int8 or "i4", or an `out` that is read-only or overlaps an input. In
    all these cases nothing is written.

    >>> q, k, v = np.zeros((1, 2)), np.zeros((2, 2)), np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> rapt.attention(q, k, v)
    array([[2., 3.]])
    >>> rapt.attention(q, k, v, mask=[[True, False]])
    array([[1., 2.]])
    """
    call = _call(
        q, k, v, scale, softcap, query_scales, alibi_slopes, sinks, bias, bias_slopes, mask, causal, causal_offset,
        window_left, window_right, window_chunk, kv_lengths, q_offsets, kv_offsets, kv_starts, q_starts, block_table, key_lists,
        key_list_lengths, queries_per_list, packed_keys, k_scales, v_scales, scale_group, k_type, v_type, arithmetic, out_type,
    )  # fmt: skip
    result = call.output(out)
    lse = call.new_lse() if return_lse is not False and flag(return_lse, "return_lse") else None
    _run(call, result, threads)
    returned = in_kind_of(q, result) if out is None else out
    return returned if lse is None else (returned, in_kind_of(q, lse))


def _prepare_attention(q: Any, out: Any, return_lse: bool, threads: int | None, **options: Any) -> Prepared[Any]:
    call = _call(q, **options)
    result = call.output(out)
    lse = call.new_lse() if flag(return_lse, "return_lse") else None
    returned = in_kind_of(q, result) if out is None else out
    if lse is not None:
        returned = returned, in_kind_of(q, lse)
    thread_count(threads)
    if call.options.batch == 0 or call.work > SMALL:
        return Prepared(_run, (call, result, threads), returned, call, call.copied)
    workspace = Workspace(call.count(C.rapt_attention_workspace))
    addresses = (c_void_p(at) for at in (*call.addresses, address(result)))
    scratch = c_void_p(workspace.address), c_size_t(workspace.size)
    return Prepared(
        C.rapt_attention,
        (*addresses, byref(call.options), *scratch),
        returned,
        (call, result, workspace),
        call.copied,
        lambda status, kept: kept[0].check(status),
    )


joins(attention, _prepare_attention)


def _call(
    q: Any,
    k: TensorLike,
    v: TensorLike,
    scale: float | None,
    softcap: float | None,
    query_scales: TensorLike | None,
    alibi_slopes: TensorLike | None,
    sinks: TensorLike | None,
    bias: TensorLike | None,
    bias_slopes: TensorLike | None,
    mask: TensorLike | None,
    causal: Causal,
    causal_offset: int | None,
    window_left: int | None,
    window_right: int | None,
    window_chunk: int | None,
    kv_lengths: TensorLike | None,
    q_offsets: TensorLike | None,
    kv_offsets: TensorLike | None,
    kv_starts: TensorLike | None,
    q_starts: TensorLike | None,
    block_table: TensorLike | None,
    key_lists: TensorLike | None,
    key_list_lengths: TensorLike | None,
    queries_per_list: int | None,
    packed_keys: bool,
    k_scales: TensorLike | None,
    v_scales: TensorLike | None,
    scale_group: int | None,
    k_type: BlockType,
    v_type: BlockType,
    arithmetic: Arithmetic,
    out_type: Any,
    gradient: bool = False,
) -> AttentionCall:
    """The arguments are positional: 30 names take a microsecond to pass."""
    call = AttentionCall(q, k, v, packed_keys, arithmetic, out_type, k_type, v_type)
    if gradient and call.options.kv_type == I8:
        raise TypeError(f"k and v have elements of {call.v.dtype.name}, which have no gradient")
    if gradient and call.options.kv_type != call.options.v_type:
        raise TypeError(f"k has elements of {call.k.dtype.name} and v of {call.v.dtype.name}: there is no gradient")
    if key_lists is not None:
        call.set_lists(key_lists, key_list_lengths, queries_per_list)
    elif key_list_lengths is not None or queries_per_list is not None:
        name = "queries_per_list" if key_list_lengths is None else "key_list_lengths"
        raise ValueError(f"{name} is for key_lists")
    call.set_sequences(q_offsets, kv_offsets, kv_lengths, kv_starts, q_starts, block_table)
    call.set_kv_scales(k_scales, v_scales, scale_group)
    call.set_scores(scale, softcap, query_scales, alibi_slopes, sinks)
    call.set_visibility(causal, causal_offset, window_left, window_right, window_chunk)
    if bias is not None:
        call.set_bias(bias, bias_slopes, gradient)
    elif bias_slopes is not None:
        raise ValueError("bias_slopes is for bias")
    if mask is not None:
        call.set_mask(mask)
    return call


def _run(call: AttentionCall, result: Array, threads: int | None) -> None:
    options = call.options
    if options.batch == 0:
        thread_count(threads)
        return
    if call.work <= SMALL:
        if type(threads) is not int or threads < 1:
            thread_count(threads, call.work)
        arguments = (*call.addresses, address(result), options)
        call.check(run_at_once(C.rapt_attention, arguments, partial(call.count, C.rapt_attention_workspace)))
        return
    _run_tasks(call, result, thread_count(threads, call.work))


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


# fmt: off
@overload
def pack_keys(k: Torch) -> Torch: ...  # type: ignore[misc]
@overload
def pack_keys(k: TensorLike) -> Array: ...
# fmt: on


def pack_keys(k: Any) -> Any:
    """Keys in the order in which attention reads them, for attention's packed_keys: caches that are read many times.

    k is [..., tokens, dim] of f32, f64, f16, bf16 or int8. The result is [..., blocks, dim, 64] of k's type, where a block
    has 64 tokens. The last block's missing tokens are 0.

    A ValueError is a k of fewer than 2 or more than 31 dimensions, or without elements in a row. A TypeError is another type.
    """
    keys = readable(as_array(k, "k"))
    if not 2 <= keys.ndim < 32:  # packed keys have one more, and NumPy 1 has 32
        raise ValueError(f"k has {keys.ndim} dimensions, not 2 to 31")
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
        of_keys, of_packed = address(keys[head]), address(packed[head])

        def run(first: int, count: int) -> Any:
            part = of_keys + first * keys.strides[-2]
            return C.rapt_attention_pack_keys(part, stride, first, count, options, of_packed)

        check(run_all(run, tokens, tokens * dim, BLOCK))
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
    k: TensorLike,
    v: TensorLike,
    out: TensorLike,
    dout: TensorLike,
    lse: TensorLike,
    *,
    gradient_type: Any = None,
    bias_gradient: bool = True,
    threads: int | None = 1,
    scale: float | None = None,
    softcap: float | None = None,
    query_scales: TensorLike | None = None,
    alibi_slopes: TensorLike | None = None,
    sinks: TensorLike | None = None,
    bias: TensorLike | None = None,
    mask: TensorLike | None = None,
    causal: Causal = False,
    causal_offset: int | None = None,
    window_left: int | None = None,
    window_right: int | None = None,
    window_chunk: int | None = None,
    kv_lengths: TensorLike | None = None,
    q_offsets: TensorLike | None = None,
    kv_offsets: TensorLike | None = None,
    kv_starts: TensorLike | None = None,
    q_starts: TensorLike | None = None,
    arithmetic: Arithmetic = None,
    out_type: Any = None,
) -> Gradients:
    """The gradients of an attention call with these options, whose results were out and lse.

    q, k and v are those of attention. out and dout, the gradient of out, have the shape and type of attention's result, and
    lse is its log-sum-exp. All may be tensors of PyTorch; the gradients are some where q is one.

    dq, dk and dv have the shapes and types of q, k and v; gradient_type="f32" keeps the gradients of 16-bit tensors in f32.
    Tokens of no sequence have zeros there, and so have keys that no query sees. dbias and dsinks are None without a bias
    and without sinks. dbias has the shape of bias, and is summed over what bias repeats; its last dimension must be kv_len.
    Both have the type of lse.

    The options must be those of the call: scale, softcap, query_scales, alibi_slopes, sinks, bias, mask, causal,
    causal_offset, window_left, window_right, window_chunk, kv_lengths, q_offsets, kv_offsets, kv_starts, q_starts,
    arithmetic and out_type, as attention describes them. There are no gradients of query_scales and alibi_slopes, nor with keys and values in
    pages, packed keys and int8.

    threads: 1 by default, None for all CPUs. Every number of threads gives the same bits.

    bias_gradient: False leaves dbias out, which is then None.

    A TypeError or a ValueError is what attention refuses, an out, dout or lse of another shape or type than attention's
    results, another gradient_type than None and "f32", or a bias whose last dimension is not kv_len.

    >>> q, k, v = np.ones((1, 2)), np.ones((3, 2)), np.ones((3, 2))
    >>> out, lse = rapt.attention(q, k, v, return_lse=True)
    >>> rapt.attention_backward(q, k, v, out, np.ones((1, 2)), lse).dk
    array([[0., 0.],
           [0., 0.],
           [0., 0.]])
    """
    wide = type_choice(_GRADIENT_TYPES, "gradient_type", gradient_type)
    call = _call(
        q, k, v, scale, softcap, query_scales, alibi_slopes, sinks, bias, None, mask, causal, causal_offset, window_left,
        window_right, window_chunk, kv_lengths, q_offsets, kv_offsets, kv_starts, q_starts, None, None, None, None, False,
        None, None, None, None, None, arithmetic, out_type, True,
    )  # fmt: skip
    options = call.options
    d_out, result = call.result_of_forward(dout, "dout"), call.result_of_forward(out, "out")
    call.set_lse(lse)
    options.out_strides = tensor_strides(result)

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
                name: tensor_strides(tensor)
                for name, tensor in (
                    ("dout_strides", d_out),
                    ("dq_strides", dq),
                    ("dk_strides", dk),
                    ("dv_strides", dv),
                )
            },
        )
        tensors = call.q, result, d_out, dq, call.k, call.v, dk, dv
        _run_backward(call, gradients, tensors, thread_count(threads))
    return Gradients(*(None if array is None else in_kind_of(q, array) for array in (dq, dk, dv, dbias, dsinks)))


def _run_backward(call: AttentionCall, gradients: AttentionGradients, tensors: tuple[Array, ...], threads: int) -> None:
    work, arguments = call.work, (*call.addresses, call.options, gradients)
    if work <= SMALL:
        size_needed = partial(call.count, C.rapt_attention_backward_workspace)
        call.check(run_at_once(C.rapt_attention_backward, arguments, size_needed))
        return
    workspace = call.count(C.rapt_attention_backward_workspace)
    tasks = call.count(C.rapt_attention_backward_tasks, gradients)
    parts: list[tuple[Any, ...]] = [arguments]
    if work > _LONG_TASK * tasks and _heads_are_apart(call.options, gradients):
        call.set_all_strides()
        parts = [_of_head(call, gradients, tensors, head) for head in range(call.options.kv_heads)]
        tasks = count(C.rapt_attention_backward_tasks, *parts[0][-2:])

    def run(first: int, last: int, scratch: int) -> None:
        for i in range(first // tasks, (last - 1) // tasks + 1):
            begin, end = max(first - i * tasks, 0), min(last - i * tasks, tasks)
            call.check(C.rapt_attention_backward_run(*parts[i], begin, end, scratch, workspace))

    # Consecutive tasks of a head share products: one run computes 5 of them, and single tasks up to 7.
    whole = len(parts) * tasks
    first_run = _FIRST_RUN * whole // work
    seconds = _SECONDS if threads == 1 else _SECONDS / 2  # a signal waits for the caller's run, then for the others'
    run_tasks(run, whole, workspace, threads, runs_per_thread=1, first_run=first_run, seconds=seconds)


def _heads_are_apart(options: AttentionOptions, gradients: AttentionGradients) -> bool:
    return options.kv_heads > 1 and (not gradients.dbias or options.bias_strides.head != REPEAT)


def _of_head(
    call: AttentionCall, gradients: AttentionGradients, tensors: tuple[Array, ...], head: int
) -> tuple[Any, ...]:
    """The arguments of a call for one head of k and v: the library makes fewer tasks per head of more heads."""
    o, size = call.options, 8 if call.number == F64 else 4
    heads = o.q_heads // o.kv_heads
    first = head * heads

    def at(address: int | None, stride: int, size: int) -> int | None:
        return address + first * stride * size if address and stride != REPEAT else address

    # q, out, dout and dq have the heads of q; k, v, dk and dv those of k.
    q, out, dout, dq = (address(x[..., first : first + heads, :, :]) for x in tensors[:4])
    k, v, dk, dv = (address(x[..., head : head + 1, :, :]) for x in tensors[4:])
    options = o.changed(
        q_heads=heads,
        kv_heads=1,
        lse=at(o.lse, o.lse_strides.head, size),
        bias=at(o.bias, o.bias_strides.head, size),
        mask=at(o.mask, o.mask_strides.head, 1),
        query_scales=at(o.query_scales, o.query_scale_strides.head, size),
        alibi_slopes=at(o.alibi_slopes, 1, size),
        sinks=at(o.sinks, 1, size),
    )
    part = gradients.changed(
        out=out,
        dout=dout,
        dq=dq,
        dk=dk,
        dv=dv,
        dbias=at(gradients.dbias, o.bias_strides.head, size),
        dsinks=at(gradients.dsinks, 1, size),
    )
    return q, k, v, options, part
