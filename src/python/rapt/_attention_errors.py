"""What a status of the library says about a call of attention, in the names and numbers of that call."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ._arrays import SUFFIXES
from ._errors import out_strides_text, scale_text, softcap_text
from ._library import F64, I8, C
from ._status import Status

if TYPE_CHECKING:
    from ._attention_call import AttentionCall

_LARGEST_DIM = 1 << 20


def error(status: int, call: AttentionCall) -> Exception:
    """The exception that names the argument. The library has written nothing."""
    if status == Status.TYPE:
        return TypeError(_type(call))
    explain = _TEXTS.get(status)
    return ValueError(C.rapt_status_text(status).decode() if explain is None else explain(call))


def _names(call: AttentionCall) -> str:
    if call.options.kv_type == call.options.v_type:
        return f"q of {call.q.dtype.name} and k and v of {call.v.dtype.name}"
    return f"q of {call.q.dtype.name}, k of {call.k.dtype.name} and v of {call.v.dtype.name}"


def _type(call: AttentionCall) -> str:
    o = call.options
    if o.q_type == I8:
        return "q has elements of int8: only k and v may have them"
    if (o.q_type == F64) != (o.kv_type == F64):
        return f"{_names(call)} do not go together: float64 goes only with float64"
    return f"out_type is {SUFFIXES[o.out_type]!r} with a q of {call.q.dtype.name}: f64 goes only with f64"


def _arithmetic(call: AttentionCall) -> str:
    if call.options.arithmetic == 2:
        return f"arithmetic is 'bf16', which needs a q, k and v of bf16, not {_names(call)}"
    if call.options.arithmetic == 3:
        return "arithmetic is 'i8', which only linear has: attention has 'f32' and 'bf16'"
    return f"arithmetic is 'f32' with a q of {call.q.dtype.name}, whose arithmetic is its own"


def _heads(call: AttentionCall) -> str:
    o = call.options
    return f"q has {o.q_heads} heads and k {o.kv_heads}: {o.q_heads} is no multiple of {o.kv_heads}"


def _dim(call: AttentionCall) -> str:
    o = call.options
    return f"heads of {o.qk_dim} and {o.v_dim} elements: 1 to {_LARGEST_DIM} are possible"


def _scale(call: AttentionCall) -> str:
    return scale_text(call.options.scale, call.number)


def _softcap(call: AttentionCall) -> str:
    o = call.options
    return softcap_text(o.softcap, o.scale or o.qk_dim**-0.5, call.number)


def _kv_lengths(call: AttentionCall) -> str:
    o, lengths = call.options, call.kv_lengths
    assert lengths is not None
    room = np.full(len(lengths), o.kv_len) if call.kv_offsets is None else np.diff(call.kv_offsets)
    b = int(np.argmax((lengths < 0) | (lengths > room)))
    return f"kv_lengths[{b}] is {lengths[b]}, but sequence {b} has {room[b]} keys"


def _kv_starts(call: AttentionCall) -> str:
    o, starts = call.options, call.kv_starts
    assert starts is not None
    lengths = np.full(len(starts), o.kv_len) if call.kv_lengths is None else call.kv_lengths
    unit = 64 if call.packed_keys else 16 if call.block_table is not None else 1
    b = int(np.argmax((starts < 0) | (starts > lengths) | (starts % unit != 0)))
    if 0 <= starts[b] <= lengths[b]:
        place = "packed keys" if unit == 64 else "pages"
        return f"kv_starts[{b}] is {starts[b]}, no multiple of {unit}: a sequence in {place} begins at one"
    return f"kv_starts[{b}] is {starts[b]}, but sequence {b} has {lengths[b]} keys"


def _q_starts(call: AttentionCall) -> str:
    o, starts = call.options, call.q_starts
    assert starts is not None
    b = int(np.argmax((starts < 0) | (starts > o.q_len)))
    return f"q_starts[{b}] is {starts[b]}, but sequence {b} has {o.q_len} queries"


def _block_table(call: AttentionCall) -> str:
    o, table = call.options, call.block_table
    assert table is not None
    lengths = np.full(len(table), o.kv_len) if call.kv_lengths is None else call.kv_lengths
    starts = np.zeros(len(table), np.int32) if call.kv_starts is None else call.kv_starts
    first = np.arange(table.shape[1]) * o.page_size  # keys of a page
    used = (first < lengths[:, None]) & (first + o.page_size > starts[:, None]) & (starts < lengths)[:, None]
    b, page = np.argwhere(used & (table < 0))[0]
    return f"block_table[{b}, {page}] is {table[b, page]}: no page has that number"


def _key_lists(call: AttentionCall) -> str:
    o, lists = call.options, call.key_lists
    assert lists is not None
    lengths = np.full(lists.shape[:3], o.kv_len) if call.key_list_lengths is None else call.key_list_lengths
    if call.kv_lengths is not None:
        lengths = np.broadcast_to(call.kv_lengths[:, None, None], lists.shape[:3])
    used = np.arange(o.kv_len) < lengths[..., None]
    b, h, at, j = np.argwhere(used & ((lists < -1) | (lists >= o.cache_len)))[0]
    return f"key_lists[{b}, {h}, {at}, {j}] is {lists[b, h, at, j]}: k and v have {o.cache_len} tokens"


def _key_list_lengths(call: AttentionCall) -> str:
    o, lengths = call.options, call.key_list_lengths
    assert lengths is not None
    if call.kv_lengths is not None:
        return "key_list_lengths and kv_lengths both say how many keys there are: only one of them may be given"
    b, h, at = np.argwhere((lengths < 0) | (lengths > o.kv_len))[0]
    return f"key_list_lengths[{b}, {h}, {at}] is {lengths[b, h, at]}, but lists have {o.kv_len} entries"


def _queries_per_list(call: AttentionCall) -> str:
    return (
        "key_lists of several lists, or with key_list_lengths, together with causality, a window or alibi_slopes: these count from "
        "a query's position, which needs one list for all queries"
    )


def _packed_keys(call: AttentionCall) -> str:
    return "packed_keys is True with kv_offsets: packed keys of sequences end to end are not possible"


def _overlap(call: AttentionCall) -> str:
    return "out overlaps an input: it may be exactly q, where v has as many elements in a row, and nothing else"


def _out_strides(call: AttentionCall) -> str:
    return out_strides_text(call.options.out_strides)


def _size(call: AttentionCall) -> str:
    return f"q of {call.q.shape}, k of {call.k.shape} and v of {call.v.shape} are larger than memory can be"


_TEXTS: dict[int, Callable[[AttentionCall], str]] = {
    Status.OVERLAP: _overlap,
    Status.SIZE: _size,
    Status.SCALE: _scale,
    Status.SOFTCAP: _softcap,
    Status.HEADS: _heads,
    Status.DIM: _dim,
    Status.ARITHMETIC: _arithmetic,
    Status.OUT_STRIDES: _out_strides,
    Status.KV_LENGTHS: _kv_lengths,
    Status.KV_STARTS: _kv_starts,
    Status.Q_STARTS: _q_starts,
    Status.BLOCK_TABLE: _block_table,
    Status.PACKED_KEYS: _packed_keys,
    Status.KEY_LISTS: _key_lists,
    Status.KEY_LIST_LENGTHS: _key_list_lengths,
    Status.QUERIES_PER_LIST: _queries_per_list,
}
