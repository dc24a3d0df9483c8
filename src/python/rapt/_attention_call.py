"""The tensors and options of a call of attention, as the library takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arguments import LARGEST, choice, flag, integer, number, type_choice
from ._arrays import (
    DTYPES,
    OUT_TYPES,
    SUFFIXES,
    Array,
    address,
    arithmetic_type,
    as_array,
    as_integers,
    as_mask,
    as_numbers,
    as_numbers_or_halves,
    as_output,
    broadcast,
    broadcast_rows,
    check_output,
    element_type,
    empty,
    readable,
    strides_of,
    tensor_strides,
)
from ._attention_errors import error
from ._library import ARITHMETIC, BLOCKS, F32, F64, I4, I8, REPEAT, AttentionOptions, Strides, count
from ._scores import Causal, causal_fields, scale_field

BLOCK = 64  # keys of a block of packed keys
_SCALED = {I8: "int8", I4: "i4"}


def zero_gaps(array: Array, tokens: int, offsets: Array | None) -> Array:
    """Zeros at the tokens (an axis) before the first sequence and after the last, which the library does not write."""
    if offsets is not None:
        by_token = np.moveaxis(array, tokens, 0)
        by_token[: offsets[0]] = 0
        by_token[offsets[-1] :] = 0
    return array


def _cache_type(x: Array, name: str, given: Any) -> tuple[int, int, int]:
    """The type of keys or values, the elements of a row of the array, and the numbers in such a row."""
    row = x.shape[-1] if x.ndim > 0 else 0
    if given is None:
        return element_type(x, name), row, row
    rapt_type = choice({**{block: of.number for block, of in BLOCKS.items()}, "i4": I4}, f"{name}_type", given)
    if x.dtype != np.uint8:
        what = "rows" if rapt_type == I4 else "blocks"
        raise TypeError(f"{name} has elements of {x.dtype.name}: {what} of {given} are bytes of uint8")
    if rapt_type == I4:
        if row % 16 != 0:
            raise ValueError(f"{name} has rows of {row} bytes: those of i4 are multiples of 16, which 32 numbers take")
        return rapt_type, row, 2 * row
    of = BLOCKS[given]
    if row % of.bytes != 0:
        raise ValueError(f"{name} has rows of {row} bytes: a block of {given} has {of.bytes}")
    return rapt_type, row, row // of.bytes * of.inputs


class AttentionCall:
    """The library reads `options`; `kept` has the arrays that these point to. Each method sets some of the options.

    The order matters: the tensors come first, and the sequences before what has a number for each query or key.
    """

    __slots__ = (
        "q", "k", "v", "options", "kept", "number", "bias", "q_offsets", "kv_offsets", "kv_batch", "packed_keys", "strided",
        "kv_lengths", "kv_starts", "q_starts", "block_table", "key_lists", "key_list_lengths", "copied", "k_row", "v_row",
    )  # fmt: skip

    def __init__(
        self, q: Any, k: Any, v: Any, packed_keys: bool, arithmetic: str | None, out_type: Any, k_type: Any, v_type: Any
    ) -> None:
        self.copied = ""  # the last tensor whose strides the library cannot take
        self.q, self.k, self.v = q, k, v = self._tensor(q, "q"), self._tensor(k, "k"), self._tensor(v, "v")
        self.kept: list[Array] = []
        self.bias: Array | None = None
        self.q_offsets: Array | None = None
        self.kv_offsets: Array | None = None
        self.kv_lengths: Array | None = None
        self.kv_starts: Array | None = None
        self.q_starts: Array | None = None
        self.block_table: Array | None = None
        self.key_lists: Array | None = None  # [batch][kv_heads or 1][lists][kv_len]
        self.key_list_lengths: Array | None = None  # [batch][kv_heads or 1][lists]
        self.packed_keys = packed_keys is not False and flag(packed_keys, "packed_keys")
        self.options = o = AttentionOptions()
        o.q_type = q_type = element_type(q, "q")
        # The numbers of a row; k_row and v_row are its elements in the array.
        o.kv_type, self.k_row, o.qk_dim = _cache_type(k, "k", k_type)
        o.v_type, self.v_row, o.v_dim = _cache_type(v, "v", v_type)
        if self.packed_keys and (o.kv_type != o.v_type or k_type is not None):
            raise ValueError("packed_keys is set with keys in blocks, or of another type than values")
        if o.kv_type != o.v_type and not {F64, I8}.isdisjoint((o.kv_type, o.v_type)):
            raise TypeError(f"k has elements of {k.dtype.name} and v of {v.dtype.name}")
        o.out_type = q_type if out_type is None else type_choice(OUT_TYPES, "out_type", out_type)
        if arithmetic is not None:
            o.arithmetic = choice(ARITHMETIC, "arithmetic", arithmetic)
        self.number = arithmetic_type(q_type)
        self._set_shape()

    def _tensor(self, x: Any, name: str) -> Array:
        """A tensor that is read where it is, or copied where the library cannot take its strides."""
        array = as_array(x, name)
        if array.flags.c_contiguous:
            return array
        fitting = readable(array)
        if fitting is not array:
            self.copied = name
        return fitting

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (*self.q.shape[:-1], self.options.v_dim)

    def _keep(self, array: Array) -> int:
        self.kept.append(array)
        return address(array)

    # ---- the shape

    def _set_shape(self) -> None:
        o, q, k, v = self.options, self.q, self.k, self.v
        k_numbers = o.qk_dim
        o.batch, o.q_heads, o.q_len, o.qk_dim = _four(q, "q")
        self.kv_batch, o.kv_heads, o.kv_len, _ = _four(v, "v")
        # The library's strides of 0, contiguous, need no arithmetic.
        self.strided = False
        row = o.qk_dim if self.k_row == k_numbers else o.qk_dim * self.k_row // max(k_numbers, 1)
        expected = (*v.shape[:-1], row)
        if self.packed_keys:
            expected = (*v.shape[:-2], -(-o.kv_len // BLOCK), o.qk_dim, BLOCK)
            o.packed_keys = 1
        if k.shape != expected:
            raise ValueError(f"k has the shape {k.shape}, not {expected} with a q of {q.shape} and a v of {v.shape}")
        if o.qk_dim == 0:
            raise ValueError(f"q has the shape {q.shape}: no elements in a row")
        if o.v_dim == 0:  # it would mean as many as q has
            raise ValueError(f"v has the shape {v.shape}: no elements in a row")
        if o.kv_heads == 0:
            raise ValueError(f"v has the shape {v.shape}: no heads")
        if o.q_heads == 0:
            raise ValueError(f"q has the shape {q.shape}: no heads")
        if self.packed_keys or not (q.flags.c_contiguous and k.flags.c_contiguous and v.flags.c_contiguous):
            self._set_strides()

    def set_all_strides(self) -> None:
        """Strides of a part of the heads are not the library's defaults."""
        self._set_strides()
        o = self.options
        if self.q_offsets is None:
            o.lse_strides = Strides(o.q_heads * o.q_len, o.q_len, 1)

    def _set_strides(self) -> None:
        self.strided = True
        o, k = self.options, self.k
        o.q_strides, o.v_strides = tensor_strides(self.q), _cache_strides(self.v, o.v_type)
        if not self.packed_keys:
            o.k_strides = _cache_strides(k, o.kv_type)
            return
        if k.size > 0 and not k[(0,) * (k.ndim - 3)].flags.c_contiguous:
            raise ValueError("packed k must be contiguous in each head")
        strides = strides_of(k.shape[:-3], k.strides[:-3], k.itemsize)
        o.k_strides = Strides(strides.head, strides.token, 0)

    # ---- sequences

    def set_sequences(
        self, q_offsets: Any, kv_offsets: Any, kv_lengths: Any, kv_starts: Any, q_starts: Any, block_table: Any
    ) -> None:
        o = self.options
        if not (self.strided or q_offsets is None and kv_offsets is None and block_table is None):
            self._set_strides()  # the library's default strides end with the last sequence
        if q_offsets is not None:
            self.q_offsets, o.batch, o.q_len = self._offsets("q_offsets", q_offsets, o.batch, o.q_len)
        if kv_offsets is not None:
            self.kv_offsets, self.kv_batch, o.kv_len = self._offsets("kv_offsets", kv_offsets, self.kv_batch, o.kv_len)
        if kv_lengths is not None:
            self.kv_lengths = self._per_sequence("kv_lengths", kv_lengths)
        if kv_starts is not None:
            if kv_offsets is not None:
                raise ValueError(
                    "kv_starts and kv_offsets both say where sequences begin: only one of them may be given"
                )
            self.kv_starts = self._per_sequence("kv_starts", kv_starts)
        if q_starts is not None:
            if q_offsets is not None:
                raise ValueError("q_starts and q_offsets both say where queries begin: only one of them may be given")
            self.q_starts = self._per_sequence("q_starts", q_starts)
        if block_table is not None:
            self._set_pages(block_table)
        if self.key_lists is not None:
            self._check_lists()
        if self.kv_batch != o.batch:
            raise ValueError(f"q has {o.batch} sequences, k and v have {self.kv_batch}")

    def _set_pages(self, block_table: Any) -> None:
        o = self.options
        if self.kv_offsets is not None:
            raise ValueError("block_table and kv_offsets both say where the keys are: only one of them may be given")
        table = self.block_table = self._integers("block_table", block_table)
        if table.ndim != 2 or len(table) != o.batch:
            raise ValueError(f"block_table has the shape {table.shape}, not a row for each of {o.batch} sequences")
        if table.size > 0 and table.max() >= self.kv_batch:
            raise ValueError(f"block_table names page {table.max()} of {self.kv_batch}")
        if o.kv_len == 0:
            raise ValueError("v has pages of 0 keys")
        if self.packed_keys and o.kv_len % BLOCK != 0:
            raise ValueError(
                f"v has pages of {o.kv_len} keys: the length of a page of packed keys is a multiple of {BLOCK}"
            )
        o.page_size, o.block_table_stride, self.kv_batch = o.kv_len, table.shape[1], o.batch
        room = table.shape[1] * o.page_size
        o.kv_len = room if self.kv_lengths is None else int(self.kv_lengths.max(initial=0))
        if o.kv_len > room:
            raise ValueError(f"kv_lengths holds {o.kv_len}, more than {table.shape[1]} pages of {o.page_size} keys")

    def set_lists(self, key_lists: Any, key_list_lengths: Any, queries_per_list: int | None) -> None:
        """Must be called before set_sequences(): the number of entries is then that of keys."""
        o = self.options
        lists = self._integers("key_lists", key_lists)
        if not 2 <= lists.ndim <= 4:
            raise ValueError(f"key_lists has {lists.ndim} dimensions, not 2 to 4")
        if self.packed_keys:
            raise ValueError("key_lists is set with packed_keys: only plain keys can be listed")
        shape = (len(lists), *(1,) * (4 - lists.ndim), *lists.shape[1:])
        self.key_lists = lists.reshape(shape)
        o.cache_len, o.kv_len = o.kv_len, shape[3]
        o.queries_per_list = 0 if queries_per_list is None else integer(queries_per_list, "queries_per_list")
        if queries_per_list == 0:
            raise ValueError("queries_per_list is 0, but a list has queries: None is all queries of a sequence")
        if queries_per_list is None and shape[2] != 1:
            o.queries_per_list = 1
        o.key_list_strides = _strides_of_lists(shape[1:], shape[3])
        if key_list_lengths is None:
            return
        lengths = self._integers("key_list_lengths", key_list_lengths)
        if lengths.shape != lists.shape[:-1]:
            raise ValueError(f"key_list_lengths has the shape {lengths.shape}, not {lists.shape[:-1]}")
        self.key_list_lengths = lengths.reshape(shape[:3])
        o.key_list_length_strides = _strides_of_lists(shape[1:], 1)

    def _check_lists(self) -> None:
        o, lists = self.options, self.key_lists
        assert lists is not None
        for name, other in (
            ("kv_offsets", self.kv_offsets), ("kv_starts", self.kv_starts), ("block_table", self.block_table)
        ):  # fmt: skip
            if other is not None:
                raise ValueError(f"key_lists and {name} both say where the keys are: only one of them may be given")
        some = o.queries_per_list or max(o.q_len, 1)
        expected = max(-(-o.q_len // some), 1)
        if len(lists) != o.batch or lists.shape[1] not in (1, o.kv_heads) or lists.shape[2] != expected:
            raise ValueError(
                f"key_lists has the shape {lists.shape}, not {(o.batch, o.kv_heads, expected, o.kv_len)} or 1 in place of "
                f"{o.kv_heads}, with {some} queries for a list"
            )
        if self.kv_batch == 1 != o.batch:  # all sequences share a cache
            if not self.strided:
                self._set_strides()
            o.k_strides.batch = o.v_strides.batch = REPEAT
            self.kv_batch = o.batch

    def _per_sequence(self, name: str, x: Any) -> Array:
        array = self._integers(name, x)
        if array.shape != (self.options.batch,):
            raise ValueError(f"{name} has the shape {array.shape}, not {(self.options.batch,)}")
        return array

    def _integers(self, name: str, x: Any) -> Array:
        array = as_integers(x, name)
        narrow = np.array(array, np.int32, order="C")  # a copy, which stays as it has been checked
        if not np.array_equal(narrow, array):
            raise ValueError(f"{name} holds a number beyond int32")
        setattr(self.options, name, self._keep(narrow))
        return narrow

    def _offsets(self, name: str, x: Any, batch: int, tokens: int) -> tuple[Array, int, int]:
        """The offsets, how many sequences they make, and the length of the longest."""
        offsets = self._integers(name, x)
        if batch != 1:
            raise ValueError(f"a tensor with {name} has no batch dimension, not one of {batch}")
        if offsets.ndim != 1 or len(offsets) < 2:
            raise ValueError(
                f"{name} must have one element more than there are sequences, not the shape {offsets.shape}"
            )
        if offsets.min() < 0 or offsets.max() > tokens:
            raise ValueError(f"{name} leads out of the {tokens} tokens")
        lengths = np.diff(offsets)
        if lengths.min() < 0:
            b = int(lengths.argmin())
            raise ValueError(
                f"{name} decreases from {offsets[b]} to {offsets[b + 1]}: no sequence has a negative length"
            )
        return offsets, len(offsets) - 1, int(lengths.max())

    # ---- scales of int8 and i4

    def set_kv_scales(self, k_scales: Any, v_scales: Any, scale_group: int | None) -> None:
        o = self.options
        group = 0 if scale_group is None else integer(scale_group, "scale_group")
        caches = (
            ("k_scales", k_scales, self.k, o.kv_type, o.qk_dim),
            ("v_scales", v_scales, self.v, o.v_type, o.v_dim),
        )
        scaled = [cache for cache in caches if cache[3] in _SCALED]
        for name, scales, tensor, rapt_type, _ in caches:
            if scales is None and rapt_type in _SCALED:
                raise ValueError(f"keys and values of {_SCALED[rapt_type]} need {name}")
            if scales is not None and rapt_type not in _SCALED:
                raise ValueError(f"{name} is for keys and values of int8 and i4, not of {tensor.dtype.name}")
        if not scaled:
            if group:
                raise ValueError(f"scale_group is for keys and values of int8 and i4, not of {self.v.dtype.name}")
            return
        if group not in (0, 32, 64, 128):
            raise ValueError(f"scale_group is {group}, not 32, 64 or 128")
        if group and any(dim % group for *_, dim in scaled):
            dims = " and ".join(str(dim) for *_, dim in scaled)
            raise ValueError(f"scale_group is {group}, which does not divide heads of {dims} elements")
        o.scale_group = group
        self._set_strides()  # those of the scales are parts of them
        shared = group == 0 and len(scaled) == 2 and address(self.k) == address(self.v)
        for name, x, tensor, rapt_type, dim in scaled:
            per_scale = group or (o.qk_dim if shared else dim)
            groups = dim // group if group else 1
            scales = as_numbers(x, name, F32)
            shape = (*self.v.shape[:-1], groups)
            if scales.shape != shape and (groups != 1 or scales.shape != shape[:-1]):
                raise ValueError(f"{name} has the shape {scales.shape}, not {shape if groups != 1 else shape[:-1]}")
            numbers = 2 if rapt_type == I4 else 1  # of a byte
            strides = [stride * numbers for stride in tensor.strides[:-1]]
            if self.packed_keys and tensor is self.k:
                strides = [*strides[:-2], per_scale * groups]
            scales = _scales_with_strides(scales.reshape(shape), strides, per_scale, name)
            setattr(o, name, self._keep(scales))

    # ---- scores and what a query sees

    def set_scores(
        self, scale: float | None, softcap: float | None, query_scales: Any, alibi_slopes: Any, sinks: Any
    ) -> None:
        o = self.options
        if scale is not None:
            o.scale = scale_field(scale)
        if softcap is not None:
            o.softcap = number(softcap, "softcap")
        if query_scales is not None:
            scales = as_numbers(query_scales, "query_scales", self.number)
            scales = readable(broadcast(scales, (o.batch, o.q_heads, o.q_len), "query_scales")[..., None])
            o.query_scales = self._keep(scales)
            o.query_scale_strides = tensor_strides(scales)
        if alibi_slopes is not None:
            o.alibi_slopes = self._per_head(alibi_slopes, "alibi_slopes")
        if sinks is not None:
            o.sinks = self._per_head(sinks, "sinks")

    def _per_head(self, x: Any, name: str) -> int:
        array, heads = as_numbers(x, name, self.number), self.options.q_heads
        if array.shape != (heads,):
            raise ValueError(f"{name} has the shape {array.shape}, not {(heads,)}: one number per head of q")
        return self._keep(np.ascontiguousarray(array))

    def set_visibility(
        self,
        causal: Causal,
        causal_offset: int | None,
        window_left: int | None,
        window_right: int | None,
        window_chunk: int | None,
    ) -> None:
        o = self.options
        if causal is not False or causal_offset is not None:
            for field, value in causal_fields(causal, causal_offset).items():
                setattr(o, field, value)
        if window_left is not None:
            o.window_left = _window(window_left, "window_left")
        if window_right is not None:
            o.window_right = _window(window_right, "window_right")
        if window_chunk is not None:
            o.window_chunk = _window(window_chunk, "window_chunk")

    def set_mask(self, mask: Any) -> None:
        self.options.mask, self.options.mask_strides = self._over_keys(as_mask(mask, "mask"), "mask")

    def set_bias(self, bias: Any, bias_slopes: Any, contiguous: bool) -> None:
        o = self.options
        if contiguous:
            array = as_numbers(bias, "bias", self.number)
        else:
            array, o.bias_type = as_numbers_or_halves(bias, "bias", self.number)
        if bias_slopes is not None:
            o.bias_slopes = self._per_head(bias_slopes, "bias_slopes")
        if contiguous:  # a gradient of bias has bias's strides
            if array.shape[-1:] != (o.kv_len,):
                raise ValueError(f"bias has the shape {array.shape}: a gradient has one column per key, of {o.kv_len}")
            array = np.ascontiguousarray(array)
        self.bias = array
        o.bias, o.bias_strides = self._over_keys(array, "bias")

    def _over_keys(self, array: Array, name: str) -> tuple[int, Strides]:
        o = self.options
        shape = (o.batch, o.q_heads, o.q_len, o.kv_len)
        rows, strides = broadcast_rows(array, shape, name)
        return self._keep(rows), strides_of(shape[:-1], strides, rows.itemsize)

    # ---- outputs, and the inputs of the gradient

    def output(self, x: Any) -> Array:
        o = self.options
        shape = self.out_shape
        if x is None:
            result = empty(shape, o.out_type, self.q)
            if self.q_offsets is not None:
                zero_gaps(result, -2, self.q_offsets)
        else:
            result = check_output(as_output(x, "out"), "out", shape, (o.out_type,))
        if self.q_offsets is not None or not result.flags.c_contiguous:
            o.out_strides = tensor_strides(result)
        return result

    def result_of_forward(self, x: Any, name: str) -> Array:
        array = self._tensor(x, name)
        if array.shape != self.out_shape or element_type(array, name) != self.options.out_type:
            wanted = f"{SUFFIXES[self.options.out_type]} of {self.out_shape}"
            raise ValueError(f"{name} is {array.dtype.name} of the shape {array.shape}, not {wanted}")
        return array

    def new_lse(self) -> Array:
        lse = zero_gaps(empty(self.out_shape[:-1], self.number), -1, self.q_offsets)
        self._set_lse(lse)
        return lse

    def set_lse(self, x: Any) -> None:
        lse = as_array(x, "lse")
        if lse.shape != self.out_shape[:-1] or element_type(lse, "lse") != self.number:
            wanted = np.dtype(DTYPES[self.number]).name
            raise ValueError(f"lse is {lse.dtype.name} of the shape {lse.shape}, not {wanted} of {self.out_shape[:-1]}")
        self._set_lse(np.ascontiguousarray(lse) if lse.ndim else lse)

    def _set_lse(self, lse: Array) -> None:
        self.options.lse = self._keep(lse)
        if self.q_offsets is not None:
            self.options.lse_strides = tensor_strides(lse[..., None])

    # ---- the call

    @property
    def addresses(self) -> tuple[int, int, int]:
        return address(self.q), address(self.k), address(self.v)

    @property
    def work(self) -> int:
        """Multiplications with an addition."""
        o = self.options
        return int(o.batch * o.q_heads * o.q_len * o.kv_len * (o.qk_dim + o.v_dim))

    def count(self, function: Any, *arguments: object) -> int:
        return count(function, self.options, *arguments, check=self.check)

    def check(self, status: int) -> None:
        if status != 0:
            raise error(status, self)


def _four(array: Array, name: str) -> tuple[int, ...]:
    shape = array.shape
    if len(shape) == 4:
        return shape
    if not 2 <= len(shape) <= 4:
        raise ValueError(f"{name} has {len(shape)} dimensions, not 2 to 4")
    return (1,) * (4 - len(shape)) + shape


def _strides_of_lists(shape: tuple[int, ...], row: int) -> Strides:
    """The strides of contiguous [kv_heads or 1][lists][...], of which all heads share one, or all queries."""
    heads, lists = shape[0], shape[1]
    return Strides(
        heads * lists * row or REPEAT, lists * row if heads > 1 and row else REPEAT, row if lists > 1 else REPEAT
    )


_WINDOWS = {
    "window_left": "w are the w keys that end at a query's position, its own included (FlashInfer's window_left of w - 1)",
    "window_right": "w are the w keys that begin at a query's position, its own included",
    "window_chunk": "w are the keys of the chunk of w keys that has a query's position",
}


def _window(keys: Any, name: str) -> int:
    number_of_keys = integer(keys, name, -LARGEST)
    if number_of_keys < 0:
        raise ValueError(f"{name} is {number_of_keys}, but it is off as None or 0, not as -1: {_WINDOWS[name]}")
    return number_of_keys


def _cache_strides(array: Array, rapt_type: int) -> Strides:
    if rapt_type == I4:  # of which strides count the numbers
        return strides_of(array.shape[:-1], [2 * stride for stride in array.strides[:-1]], 1)
    return tensor_strides(array)


def _scales_with_strides(scales: Array, strides: list[int], per_scale: int, name: str) -> Array:
    """`scales` at 1 / per_scale of its tensor's strides, which the library expects: a copy if they have other strides."""
    groups = scales.shape[-1]
    for length, stride in zip(scales.shape[:-1], strides):
        if length > 1 and stride % per_scale != 0:
            raise ValueError(f"{name}: a stride of its tensor is no multiple of the {per_scale} elements per scale")
    wanted = [stride // per_scale * 4 if length > 1 else 4 for length, stride in zip(scales.shape[:-1], strides)] + [4]
    if all(length <= 1 or have == want for length, have, want in zip(scales.shape, scales.strides, wanted)):
        return scales
    if scales.size == 0:
        return np.ascontiguousarray(scales)
    span = sum((length - 1) * stride // 4 for length, stride in zip(scales.shape, wanted)) + 1
    copy = np.lib.stride_tricks.as_strided(np.zeros(span + groups, np.float32), scales.shape, wanted)
    copy[...] = scales
    return copy
