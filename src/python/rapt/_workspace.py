"""The workspace that each thread keeps for calls too small to be divided."""

from __future__ import annotations

import threading

import numpy as np

# Multiplications with an addition: about 0.1 ms on vector levels. A larger call is run as tasks.
SMALL = 1 << 20
_FIRST, _LARGEST = 1 << 17, 1 << 22  # bytes that are kept


class Workspace:
    __slots__ = ("memory", "address", "size")

    def __init__(self, size: int) -> None:
        self.memory = np.empty(size, np.uint8)
        self.address = self.memory.ctypes.data
        self.size = size


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.workspace = Workspace(_FIRST)


_of_thread = _OfThread()


def kept_workspace() -> Workspace:
    """The caller holds it during its call, because a handler of a signal may replace it meanwhile."""
    return _of_thread.workspace


def larger_workspace(size: int) -> Workspace:
    workspace = Workspace(size)
    if size <= _LARGEST:
        _of_thread.workspace = workspace
    return workspace
