"""The tensors and options of a call of attention, as the library takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import (
    OUT_TYPES,
    arithmetic_type,
    as_array,
    as_integers,
    as_mask,
    as_numbers,
    broadcast,
    broadcast_rows,
    check_output,
    chosen,
    element_type,
    empty,
    readable,
    strides_of,
    tensor_strides,
)
from ._library import ARITHMETIC, F32, AttentionOptions, Strides
from ._rows import causal_fields, scale_field

BLOCK = 64  # keys of a block of packed keys
# Options of the library that are numbers, under the same names.
_NUMBERS = ("scale", "softcap", "window_left", "window_right", "window_chunk", "scale_group")


def four_dimensions(array: np.ndarray, name: str) -> np.ndarray:
    """[batch][head][token][dim], with dimensions of 1 before those that `array` has."""
    if not 2 <= array.ndim <= 4:
        raise ValueError(f"{name} has {array.ndim} dimensions, not 2 to 4")
    return array[(None,) * (4 - array.ndim)]


def zero_gaps(array: np.ndarray, tokens: int, offsets: np.ndarray | None) -> np.ndarray:
    """Zeros at the tokens (an axis) before the first sequence and after the last, which the library does not write."""
    if offsets is not None:
        by_token = np.moveaxis(array, tokens, 0)
        by_token[: offsets[0]] = 0
        by_token[offsets[-1] :] = 0
    return array


def _longest(offsets: np.ndarray) -> int:
    return max(0, int(np.diff(offsets).max()))


class AttentionCall:
    def __init__(
        self,
        q: Any,
        k: Any,
        v: Any,
        *,
        causal: bool | str | None = False,
        causal_offset: int | None = None,
        mask: Any = None,
        bias: Any = None,
        query_scales: Any = None,
        alibi_slopes: Any = None,
        sinks: Any = None,
        kv_lengths: Any = None,
        q_offsets: Any = None,
        kv_offsets: Any = None,
        block_table: Any = None,
        packed_keys: bool = False,
        k_scales: Any = None,
        v_scales: Any = None,
        arithmetic: str | None = None,
        out_type: str | None = None,
        contiguous_bias: bool = False,
        **numbers: Any,
    ) -> None:
        for name in numbers:
            if name not in _NUMBERS:
                raise TypeError(f"attention has no argument {name}")
        numbers = {name: number for name, number in numbers.items() if number is not None}
        numbers["scale"] = scale_field(numbers.get("scale"))
        for name in _NUMBERS[2:]:
            if not 0 <= numbers.get(name, 0) < 1 << 63:
                raise ValueError(f"{name} is {numbers[name]}: negative, or beyond 2^63")
        arithmetic_number = chosen(ARITHMETIC, "arithmetic", arithmetic)
        out_type_number = chosen(OUT_TYPES, "out_type", out_type)
        self._kept: list[np.ndarray] = []  # what the options point to
        self.q_offsets: np.ndarray | None = None
        self.kv_offsets: np.ndarray | None = None
        self.q, self.k, self.v = (readable(as_array(x, name)) for x, name in ((q, "q"), (k, "k"), (v, "v")))
        q_type, kv_type = element_type(self.q, "q"), element_type(self.v, "v")
        if element_type(self.k, "k") != kv_type:
            raise TypeError("k and v have different types of elements")
        self.number = arithmetic_type(q_type)
        self.out_type = out_type_number or q_type
        self.bias: np.ndarray | None = None
        self.options = AttentionOptions(
            q_type=q_type,
            kv_type=kv_type,
            out_type=self.out_type,
            arithmetic=arithmetic_number,
            packed_keys=int(packed_keys),
            **causal_fields(causal, causal_offset),
            **numbers,
        )
        self._set_shape(packed_keys)
        self._set_sequences(q_offsets, kv_offsets, kv_lengths, block_table)
        self._set_kv_scales(k_scales, v_scales, packed_keys)
        if mask is not None:
            self._set_over_keys("mask", as_mask(mask, "mask"))
        if bias is not None:
            self.bias = as_numbers(bias, "bias", self.number)
            if contiguous_bias:  # a gradient of bias has bias's strides
                if self.bias.shape[-1:] != (self.options.kv_len,):
                    raise ValueError(
                        f"bias has the shape {self.bias.shape}: a gradient has one column per key, of "
                        f"{self.options.kv_len}"
                    )
                self.bias = np.ascontiguousarray(self.bias)
            self._set_over_keys("bias", self.bias)
        if query_scales is not None:
            scales = as_numbers(query_scales, "query_scales", self.number)
            scales = readable(broadcast(scales, self._rows(), "query_scales")[..., None])
            self.options.query_scales = self._keep(scales)
            self.options.query_scale_strides = tensor_strides(scales)
        for name, x in (("alibi_slopes", alibi_slopes), ("sinks", sinks)):
            if x is not None:
                self._set_per_head(name, as_numbers(x, name, self.number))

    @property
    def addresses(self) -> tuple[int, int, int]:
        return self.q.ctypes.data, self.k.ctypes.data, self.v.ctypes.data

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (*self.q.shape[:-1], self.v.shape[-1])

    def _rows(self) -> tuple[int, int, int]:
        """Of what the options have per query."""
        return self.options.batch, self.options.q_heads, self.options.q_len

    def _keep(self, array: np.ndarray) -> int:
        self._kept.append(array)
        return array.ctypes.data

    # ---- the shape

    def _set_shape(self, packed_keys: bool) -> None:
        o = self.options
        q, v = four_dimensions(self.q, "q"), four_dimensions(self.v, "v")
        o.batch, o.q_heads, o.q_len, o.qk_dim = q.shape
        self._kv_batch, o.kv_heads, o.kv_len, o.v_dim = v.shape
        for name, number in (("heads", o.kv_heads), ("elements in a row", o.v_dim)):
            if number == 0:  # to the library it means the same number as q
                raise ValueError(f"v has the shape {self.v.shape}: no {name}")
        o.q_strides, o.v_strides = tensor_strides(q), tensor_strides(v)
        outer = self.v.shape[:-2]
        if packed_keys:
            blocks = -(-o.kv_len // BLOCK)
            expected = (*outer, blocks, o.qk_dim, BLOCK)
            strides = strides_of(self.k.shape[:-3], self.k.strides[:-3], self.k.itemsize)
            o.k_strides = Strides(strides.head, strides.token, 0)
            if self.k.shape == expected and not self.k[(0,) * len(outer)].flags.c_contiguous:
                raise ValueError("packed k must be contiguous in each head")
        else:
            expected = (*outer, o.kv_len, o.qk_dim)
            o.k_strides = tensor_strides(four_dimensions(self.k, "k"))
        if self.k.shape != expected:
            raise ValueError(
                f"k has the shape {self.k.shape}, not {expected} next to a q of {self.q.shape} and a v of "
                f"{self.v.shape}"
            )

    def _set_sequences(self, q_offsets: Any, kv_offsets: Any, kv_lengths: Any, block_table: Any) -> None:
        o = self.options
        if q_offsets is not None:
            o.batch, o.q_len = self._set_offsets("q_offsets", q_offsets, o.batch, o.q_len)
        if kv_offsets is not None:
            self._kv_batch, o.kv_len = self._set_offsets("kv_offsets", kv_offsets, self._kv_batch, o.kv_len)
        longest = None
        if kv_lengths is not None:
            lengths = self._set_integers("kv_lengths", kv_lengths)
            if lengths.shape != (o.batch,):
                raise ValueError(f"kv_lengths has the shape {lengths.shape}, not {(o.batch,)}")
            longest = int(lengths.max(initial=0))
        if block_table is not None:
            table = self._set_integers("block_table", block_table)
            if table.ndim != 2 or len(table) != o.batch:
                raise ValueError(f"block_table has the shape {table.shape}, not a row for each of {o.batch} sequences")
            if table.size > 0 and table.max() >= self._kv_batch:
                raise ValueError(f"block_table names page {table.max()} of {self._kv_batch}")
            o.page_size, o.block_table_stride, self._kv_batch = o.kv_len, table.shape[1], o.batch
            o.kv_len = table.shape[1] * o.page_size if longest is None else longest
            if o.kv_len > table.shape[1] * o.page_size:
                raise ValueError(f"kv_lengths holds {o.kv_len}, more than {table.shape[1]} pages of {o.page_size} keys")
        if self._kv_batch != o.batch:
            raise ValueError(f"q has {o.batch} sequences, k and v have {self._kv_batch}")

    def _set_integers(self, name: str, x: Any) -> np.ndarray:
        array = as_integers(x, name)
        narrow = np.asarray(array, np.int32, order="C")
        if not np.array_equal(narrow, array):
            raise ValueError(f"{name} holds a number beyond int32")
        setattr(self.options, name, self._keep(narrow))
        return narrow

    def _set_offsets(self, name: str, x: Any, batch: int, tokens: int) -> tuple[int, int]:
        """Sequences, and the length of the longest."""
        offsets = self._set_integers(name, x)
        if batch != 1:
            raise ValueError(f"a tensor with {name} has no batch dimension")
        if offsets.ndim != 1 or len(offsets) < 2:
            raise ValueError(f"{name} must have one element more than there are sequences")
        if offsets.min() < 0 or offsets.max() > tokens:
            raise ValueError(f"{name} leads out of the {tokens} tokens")
        setattr(self, name, offsets)
        return len(offsets) - 1, _longest(offsets)

    # ---- scales of int8, masks, numbers per head and query

    def _set_kv_scales(self, k_scales: Any, v_scales: Any, packed_keys: bool) -> None:
        shared = self.k.ctypes.data == self.v.ctypes.data and not self.options.scale_group
        for name, x, tensor, dim in (
            ("k_scales", k_scales, self.k, self.options.qk_dim),
            ("v_scales", v_scales, self.v, self.options.v_dim),
        ):
            if x is None:
                continue  # the library names a missing one
            per_scale = self.options.scale_group or (self.options.qk_dim if shared else dim)
            groups = dim // per_scale if self.options.scale_group else 1
            scales = as_numbers(x, name, F32)
            shape = (*self.v.shape[:-1], groups)
            if scales.shape != shape and (groups != 1 or scales.shape != shape[:-1]):
                raise ValueError(f"{name} has the shape {scales.shape}, not {shape if groups != 1 else shape[:-1]}")
            strides = [stride // tensor.itemsize for stride in tensor.strides[:-1]]
            if packed_keys and tensor is self.k:
                strides = [*strides[:-2], per_scale * groups]
            setattr(
                self.options, name, self._keep(_scales_with_strides(scales.reshape(shape), strides, per_scale, name))
            )

    def _set_over_keys(self, name: str, array: np.ndarray) -> None:
        """A tensor [batch][q_heads][q_len][kv_len]."""
        rows = broadcast_rows(array, (*self._rows(), self.options.kv_len), name)
        setattr(self.options, name, self._keep(rows))
        setattr(self.options, f"{name}_strides", tensor_strides(rows))

    def _set_per_head(self, name: str, array: np.ndarray) -> None:
        if array.shape != (self.options.q_heads,):
            raise ValueError(f"{name} has the shape {array.shape}, not {(self.options.q_heads,)}")
        setattr(self.options, name, self._keep(np.ascontiguousarray(array)))

    # ---- outputs, and the inputs of the gradient

    def output(self, x: Any, name: str) -> np.ndarray:
        if x is None:
            return zero_gaps(empty(self.out_shape, self.out_type, self.q), -2, self.q_offsets)
        return check_output(as_array(x, name), name, self.out_shape, (self.out_type,))

    def input(self, x: Any, name: str) -> np.ndarray:
        array = readable(as_array(x, name))
        if array.shape != self.out_shape or element_type(array, name) != self.out_type:
            raise ValueError(f"{name} is {array.dtype.name} of the shape {array.shape}, which is not the output's")
        self._keep(array)
        return array

    def new_lse(self) -> np.ndarray:
        lse = zero_gaps(empty(self.out_shape[:-1], self.number), -1, self.q_offsets)
        self.set_lse(lse)
        return lse

    def set_lse(self, x: Any) -> None:
        lse = np.asarray(as_array(x, "lse"), order="C")
        if lse.shape != self.out_shape[:-1] or element_type(lse, "lse") != self.number:
            raise ValueError(f"lse is {lse.dtype.name} of the shape {lse.shape}, not of {self.out_shape[:-1]}")
        self.options.lse = self._keep(lse)
        # The library's default strides of packed sequences end with the last sequence.
        self.options.lse_strides = tensor_strides(lse[..., None])


def _scales_with_strides(scales: np.ndarray, strides: list[int], per_scale: int, name: str) -> np.ndarray:
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
