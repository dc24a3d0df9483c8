"""Weights that PyTorch's programs multiply by again and again, packed for rapt.linear: on second sight, without gradients.

A packed copy belongs to a place in memory, and is valid for one version of it. Writes through Tensor.data move no version, so
that some numbers are compared too, unless they were given back to the system.
"""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch.multiprocessing import reductions

import rapt

from . import _torch_cpp
from ._torch_release import release

_SMALLEST = 4096  # elements: smaller ones gain less than the search costs
_SAMPLES = 8  # of rows, and of columns

_lock = threading.Lock()
# PyTorch has no types for it.
_WeakStorage: Any = reductions.StorageWeakRef


class _Seen:
    """Weights that were met: `packed` is None until the second time."""

    __slots__ = ("storage", "version", "samples", "packed", "is_released")

    def __init__(self, storage: Any, version: int, samples: bytes) -> None:
        self.storage, self.version, self.samples = storage, version, samples
        self.packed: rapt.PackedWeights | None = None
        self.is_released = False

    def is_of(self, version: int, w: torch.Tensor) -> bool:
        if self.version != version or self.storage.expired():
            return False
        return self.is_released or self.samples == _samples(w)


_seen: dict[tuple[Any, ...], _Seen] = {}
_limit: int | None = None  # bytes
_releases = False


def _samples(w: torch.Tensor) -> bytes:
    """The bits of a few numbers from all over a matrix."""
    rows, cols = (max(length // _SAMPLES, 1) for length in w.shape)
    few = w[::rows, ::cols]
    bits: bytes = few.contiguous().view(torch.int16 if w.element_size() == 2 else torch.int32).numpy().tobytes()
    return bits


def _bytes() -> int:
    return sum(len(one.packed.data) for one in _seen.values() if one.packed is not None)


def _has_room(wanted: int) -> bool:
    """Drops what is no longer used. Weights in use stay: in turn, they would push each other out in each pass of a model."""
    for key in [key for key, one in _seen.items() if one.storage.expired()]:
        del _seen[key]
    return _limit is None or _bytes() + wanted <= _limit


def without_history(x: torch.Tensor) -> torch.Tensor:
    """What is made inside a kernel, as this, has a version of its own: it keeps that of the argument."""
    detached: Any = x.detach()
    if not x.is_inference():
        detached.rapt_version = x._version
    plain: torch.Tensor = detached
    return plain


def version_of(argument: torch.Tensor) -> int:
    version: int = getattr(argument, "rapt_version", argument._version)
    return version


def packed(b: torch.Tensor) -> rapt.PackedWeights | None:
    """Of b [inputs][outputs], the argument of a kernel: the packed weights, or None where the matrix itself is to be read."""
    if b.numel() < _SMALLEST or torch.is_grad_enabled() or b.is_inference():
        return None
    version, w = version_of(b), b.t()
    tensor: Any = w
    storage = tensor.untyped_storage()
    key = storage.data_ptr(), w.storage_offset(), w.shape, w.stride(), w.dtype
    with _lock:
        one = _seen.get(key)
        if one is None or not one.is_of(version, w):
            if len(_seen) % 256 == 255:
                _has_room(0)
            _seen[key] = _Seen(_WeakStorage(storage), version, _samples(w))
            return None
        if one.packed is None and (_limit is None or _has_room(w.numel() * w.element_size())):
            one.packed = rapt.pack_weights(w)
            if _releases and (w.is_contiguous() or w.t().is_contiguous()):
                one.is_released = release(w.data_ptr(), w.numel() * w.element_size())
        return one.packed


def set_limit(limit: int | None, releases: bool) -> None:
    """The most bytes of packed weights; None is no limit, 0 packs nothing. Whether originals are given back."""
    global _limit, _releases
    _torch_cpp.set_limit(limit, release if releases else None)
    with _lock:
        _limit, _releases = limit, releases
        if not _has_room(0):
            _seen.clear()


def clear_packed() -> None:
    """Frees all packed weights. They are packed again when they are met twice more."""
    _torch_cpp.clear_packed()
    with _lock:
        _seen.clear()
