"""The workspace that each thread keeps for calls too small to be divided."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ._status import Status

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


def run_at_once(function: Callable[..., int], arguments: tuple[Any, ...], size_needed: Callable[[], int]) -> int:
    """The status of function(*arguments, workspace, its size), which says that a workspace is too small before it writes."""
    workspace = _of_thread.workspace  # held here, because a handler of a signal may replace it meanwhile
    status = function(*arguments, workspace.address, workspace.size)
    if status == Status.WORKSPACE:
        workspace = Workspace(size_needed())
        if workspace.size <= _LARGEST:
            _of_thread.workspace = workspace
        status = function(*arguments, workspace.address, workspace.size)
    return status
