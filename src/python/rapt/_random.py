"""Random numbers of Philox: each element is a function of seed, stream and index."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._arguments import integer, number
from ._arrays import Array, address
from ._library import F32, F64, C, RandomOptions, check

_UNIFORM, _KEEP, _WORDS, _NORMAL = range(4)
_MOST = (1 << 64) - 1


def _drawn(shape: Any, dtype: npt.DTypeLike, kind: int, **fields: Any) -> Array:
    out = np.empty(shape, dtype)
    options = RandomOptions(
        kind=kind,
        seed=integer(fields.pop("seed"), "seed", 0, _MOST),
        stream=integer(fields.pop("stream"), "stream", 0, _MOST),
        offset=integer(fields.pop("offset"), "offset"),
        count=out.size,
        **fields,
    )
    check(C.rapt_random(address(out), options))
    return out


def random_uniform(
    shape: Any, *, seed: int, stream: int = 0, offset: int = 0, dtype: npt.DTypeLike = np.float32
) -> Array:
    """Numbers in [0, 1): multiples of 2^-24 for np.float32, of 2^-53 for np.float64.

    Element i in row-major order is element offset + i of the stream that seed and stream name, whatever the shape. A
    TypeError is another dtype, a ValueError a number out of range.
    """
    return _floats(shape, _UNIFORM, seed, stream, offset, dtype)


def random_normal(
    shape: Any, *, seed: int, stream: int = 0, offset: int = 0, dtype: npt.DTypeLike = np.float32
) -> Array:
    """Numbers of the standard normal distribution, with the shape, seed and rest of random_uniform.

    Numbers 2 j and 2 j + 1 of a stream are made of the same two of random_uniform, by Box's and Muller's formula. rapt.h has
    it, and the bound of the error. Every CPU and every split has the same bits, which NumPy's do not promise.

    >>> whole = rapt.random_normal(6, seed=1)
    >>> np.array_equal(whole[3:], rapt.random_normal(3, seed=1, offset=3))
    True
    """
    return _floats(shape, _NORMAL, seed, stream, offset, dtype)


def _floats(shape: Any, kind: int, seed: int, stream: int, offset: int, dtype: npt.DTypeLike) -> Array:
    wanted = np.dtype(dtype)
    if wanted not in (np.float32, np.float64):
        raise TypeError(f"dtype is {wanted.name}, not float32 or float64")
    rapt_type = F64 if wanted == np.float64 else F32
    return _drawn(shape, wanted, kind, type=rapt_type, seed=seed, stream=stream, offset=offset)


def random_keep(shape: Any, probability: float, *, seed: int, stream: int = 0, offset: int = 0) -> Array:
    """Bytes that are 1 with the probability and else 0, as a mask of dropout. seed and the rest are as in random_uniform."""
    chance = number(probability, "probability")
    return _drawn(shape, np.uint8, _KEEP, probability=chance, seed=seed, stream=stream, offset=offset)


def random_words(shape: Any, *, seed: int, stream: int = 0, offset: int = 0) -> Array:
    """The words of Philox 4x32-10, of np.uint32. seed and the rest are as in random_uniform."""
    return _drawn(shape, np.uint32, _WORDS, seed=seed, stream=stream, offset=offset)
