"""Tasks of one call on several threads. Every split gives the same bits."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np


def thread_count(threads: int | None) -> int:
    """None: one per CPU that this process may use."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads < 1:
        raise ValueError(f"threads is {threads}")
    return threads


def run_tasks(
    run: Callable[[int, int, int], None], tasks: int, workspace_bytes: int, threads: int, runs_per_thread: int = 8
) -> None:
    """run(first, last, workspace) for all tasks. More runs per thread balance tasks of different length."""
    threads = min(threads, tasks)
    if threads <= 1:
        workspace = np.empty(workspace_bytes, np.uint8)
        run(0, tasks, workspace.ctypes.data)
        return
    runs = min(tasks, threads * runs_per_thread)
    numbers = itertools.count()  # next() of it is atomic under the GIL

    def work() -> None:
        workspace = np.empty(workspace_bytes, np.uint8)
        while (number := next(numbers)) < runs:
            run(tasks * number // runs, tasks * (number + 1) // runs, workspace.ctypes.data)

    with ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work) for _ in range(threads)]:
            future.result()
