"""Tasks of one call on several threads. Every split gives the same bits."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ._arguments import integer

Run = Callable[[int, int, int], None]

# Multiplications with an addition that cost about as much as handing work to another thread does.
PAYS = 1 << 23
# Seconds that a run should take: a signal waits for one. Consecutive tasks of a run may share work, and no run is
# shorter than a task.
_RUN, _GROWTH = 0.04, 16


def thread_count(threads: int | None, work: float = float("inf")) -> int:
    """None: one per CPU that this process may use, or 1 where `work` (multiplications with an addition) is too little."""
    if threads is not None:
        return integer(threads, "threads", 1, float("inf"))  # a call has no more than its tasks
    if work < PAYS:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_pool: ThreadPoolExecutor | None = None


def _forget_pool() -> None:
    global _pool
    _pool = None  # a child process has none of its threads


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)


def _submit(work: Callable[[], None], count: int) -> None:
    """To fewer threads where the system has no more, or the interpreter is about to end: the caller does the rest."""
    global _pool
    try:
        if _pool is None:
            _pool = ThreadPoolExecutor(1024, "rapt")  # threads start when work finds none idle
        for _ in range(count):
            _pool.submit(work)
    except RuntimeError:
        pass


class _Tasks:
    """Hands out the tasks of a call in runs, to the caller and to threads of the pool."""

    def __init__(
        self, run: Run, tasks: int, workspace_bytes: int, first_run: int, largest_run: int, seconds: float
    ) -> None:
        self._run = run
        self._tasks = tasks
        self._workspace_bytes = workspace_bytes
        self._first_run = first_run
        self._largest_run = largest_run
        self._seconds = seconds
        self._next = 0
        self._helpers = 0
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def work(self) -> None:
        workspace = np.empty(self._workspace_bytes, np.uint8)
        address = workspace.ctypes.data
        size = self._first_run
        while True:
            with self._changed:
                first = self._next
                last = min(first + size, self._tasks)
                if first >= last:
                    return
                self._next = last
            start = time.perf_counter()
            self._run(first, last, address)
            seconds = time.perf_counter() - start
            # Later tasks may be longer, as those of causal attention are.
            fitting = int((last - first) * self._seconds / max(seconds, 1e-9))
            size = max(1, min(fitting, _GROWTH * size, self._largest_run))

    def help(self) -> None:
        """A thread of the pool. It may begin when the call is over, and then finds no task."""
        with self._changed:
            if self._next >= self._tasks:
                return
            self._helpers += 1
        try:
            self.work()
        except BaseException as error:
            self._error = error
            self._tasks = 0
        finally:
            with self._changed:
                self._helpers -= 1
                self._changed.notify()

    def finish(self) -> None:
        with self._changed:
            while self._helpers > 0:
                self._changed.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Waits for the helpers whatever signals say meanwhile: the memory that they write must not be freed."""
        self._tasks = 0
        while self._helpers > 0:
            try:
                self.finish()
            except BaseException:
                continue


def run_tasks(
    run: Run,
    tasks: int,
    workspace_bytes: int,
    threads: int,
    runs_per_thread: int = 8,
    first_run: int = 1,
    seconds: float = _RUN,
) -> None:
    """run(first, last, workspace) for all tasks, in runs of about `seconds`.

    More runs per thread balance tasks of different length. first_run is the number of tasks of a thread's first run. The
    exception of a signal's handler, such as KeyboardInterrupt, passes after the running runs. No thread touches the call's
    memory when this returns or raises.
    """
    threads = max(1, min(threads, tasks))
    largest_run = tasks if threads == 1 else max(1, tasks // (threads * runs_per_thread))
    queue = _Tasks(run, tasks, workspace_bytes, max(1, min(first_run, largest_run)), largest_run, seconds)
    try:
        if threads > 1:
            _submit(queue.help, threads - 1)
        queue.work()
        queue.finish()
    except BaseException:
        queue.stop()
        raise
