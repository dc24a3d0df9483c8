"""A number for the bits of an array, by which machines compare results."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import TYPES, Array, TensorLike, as_array

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_BLOCK = 1 << 16  # elements
_NAMES = {rapt_type: name for name, rapt_type in TYPES.items()}  # of which bf16 has the last, bfloat16
# Of each type of floating point: the bits of infinity, above which a magnitude is NaN, and those of the NaN that
# counts.
_NANS = {"float32": (0x7F800000, 0x7FC00000), "float64": (0x7FF0 << 48, 0x7FF8 << 48)}
_NANS |= {"float16": (0x7C00, 0x7E00), "bfloat16": (0x7F80, 0x7FC0)}


def _mixed(words: Array, first: int) -> int:
    """The sum of SplitMix64's output function of each word, which depends on the word's place."""
    z = words + np.arange(first + 1, first + 1 + len(words), dtype=np.uint64) * _STEP
    z = (z ^ (z >> np.uint64(30))) * _FACTORS[0]
    z = (z ^ (z >> np.uint64(27))) * _FACTORS[1]
    return int((z ^ (z >> np.uint64(31))).sum(dtype=np.uint64))


def hash(x: TensorLike) -> int:
    """64 bits that show whether arrays have one type, one shape and the same bits. All NaNs count as one.

    x is an array or a tensor of floating-point numbers, integers or bool, of any strides. NumPy's uint16 is bf16. A TypeError
    is another type. The hash is not cryptographic.

    It is the sum, modulo 2^64, of mix(w[i] + (i + 1) * 0x9e3779b97f4a7c15) over the words w. mix is the output function of
    SplitMix64. The words are the type's name ("float32", "bfloat16" and so on, as little-endian bytes), the number of
    dimensions, their lengths, and the bits of each element in row-major order. Of a NaN they are 0x7fc00000, or what stands
    for it in another type.
    """
    array = as_array(x, "x")
    name = array.dtype.name
    if name in TYPES:
        name = _NAMES[TYPES[name]]
    elif array.dtype.names == ("bfloat16",):  # of a library whose bf16 NumPy lacks
        name = "bfloat16"
    elif array.dtype.kind not in "biu":
        raise TypeError(f"x has elements of {name}, not floating-point numbers, integers or bool")
    bits: Any = array.view(f"u{array.itemsize}") if array.ndim else array.reshape(1).view(f"u{array.itemsize}")
    head = [int.from_bytes(name.encode(), "little"), array.ndim, *array.shape]
    total = _mixed(np.array(head, np.uint64), 0)
    flat = np.ascontiguousarray(bits).reshape(-1)
    for first in range(0, flat.size, _BLOCK):
        words = flat[first : first + _BLOCK].astype(np.uint64)
        if name in _NANS:
            infinity, nan = _NANS[name]
            words[words & np.uint64((1 << 8 * array.itemsize - 1) - 1) > np.uint64(infinity)] = nan
        total += _mixed(words, len(head) + first)
    return total & 0xFFFFFFFFFFFFFFFF
