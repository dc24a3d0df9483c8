"""Tasks on threads: signals, errors, the pool that is kept, and child processes."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from kinds import Array, Call

import rapt
from rapt import _threads


class Interrupted(Exception):
    pass


@pytest.fixture
def interrupt() -> Iterator[Callable[[float], None]]:
    """Sends a signal after some seconds, whose handler raises Interrupted."""
    timers = []

    def after(seconds: float) -> None:
        timers.append(threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGUSR1)))
        timers[-1].start()

    def handler(*_: Any) -> None:
        raise Interrupted(time.perf_counter())

    before = signal.signal(signal.SIGUSR1, handler)
    yield after
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_a_signal_stops_the_tasks(interrupt: Callable[[float], None], threads: int) -> None:
    running, ended = set(), []

    def run(first: int, last: int, _: Any) -> None:
        running.add(threading.get_ident())
        time.sleep(0.02 * (last - first))
        running.discard(threading.get_ident())
        ended.append(last - first)

    interrupt(0.15)
    start = time.perf_counter()
    with pytest.raises(Interrupted):
        _threads.run_tasks(run, 2000, 0, threads)
    assert time.perf_counter() - start < 0.15 + 0.2
    running.discard(threading.get_ident())  # the caller's own run, if the handler ran in it
    assert not running and sum(ended) < 2000
    done = len(ended)
    time.sleep(0.1)
    assert len(ended) == done  # nothing runs on


def test_a_second_signal_does_not_free_memory_that_is_written(interrupt: Callable[[float], None]) -> None:
    writing = []

    def run(first: int, last: int, _: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            time.sleep(0.05)
        else:
            writing.append(1)
            time.sleep(0.5)
            writing.pop()

    interrupt(0.1)
    interrupt(0.2)
    with pytest.raises(Interrupted):
        _threads.run_tasks(run, 1000, 0, 2)
    assert not writing


@pytest.mark.parametrize("threads", [1, 2])
def test_attention_is_interrupted(interrupt: Callable[[float], None], threads: int) -> None:
    q = np.random.default_rng(1).normal(size=(1, 16, 4096, 64)).astype(np.float32)
    interrupt(0.3)
    start = time.perf_counter()
    with pytest.raises(Interrupted):
        for _ in range(100):
            rapt.attention(q, q, q, threads=threads)
    assert time.perf_counter() - start < 0.3 + 0.7  # 0.2, on a machine that does nothing else


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "rms_norm", "exp", "gated", "rope"])
def test_long_calls_are_cut(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The same bits as in one call, with every option that depends on the row."""
    random = np.random.default_rng(3)
    x = random.normal(size=(2, 37, 24)).astype(np.float32)
    lengths, sinks = random.integers(0, 25, (2, 37)), random.normal(size=(2, 37))
    bias, mask = random.normal(size=x.shape), random.random((2, 1, 24)) < 0.8
    options: list[dict[str, Any]] = [{}]
    if name in ("softmax", "log_softmax", "logsumexp"):
        options += [{"bias": bias, "row_lengths": lengths}, {"sinks": sinks, "mask": mask}, {"bias": bias[:1, :1]}]
        options += [
            {"causal": True},
            {"causal": "top_left"},
            {"causal_offset": -3},
            {"axis": 1, "row_lengths": [3] * 24},
        ]
    calls: list[Call] = [lambda x, o=o: getattr(rapt, name)(x, **o) for o in options]
    if name == "gated":
        calls = [lambda x: rapt.gated(x, x[..., ::-1])]
    if name == "rope":
        calls = [lambda x, p=p: rapt.rope(x, np.ones(5), p) for p in (7, np.arange(37), np.arange(74).reshape(2, 37))]
        x = x[None]
    if name == "rms_norm":

        def with_residual(x: Array) -> Any:
            residual = np.cos(x)
            return rapt.rms_norm(x, residual=residual), residual

        calls = [rapt.rms_norm, with_residual, lambda x: rapt.layer_norm(x[..., 3:], np.ones(21, x.dtype))]
    pieces: list[int] = []
    run_tasks = _threads.run_tasks

    def counted(*arguments: Any) -> None:
        pieces.append(1)
        run_tasks(*arguments)

    modules = [getattr(rapt, module) for module in ("_rows", "_norms", "_gated", "_rope", "_vectors")]
    for call in calls:
        tensors: list[Array] = [x, x[..., 0, :], x.astype(np.float16)]
        for tensor in tensors:
            if name == "rope" and tensor.ndim == 3:
                continue
            try:
                expected = call(tensor)
            except ValueError:  # options of another shape
                continue
            for module in modules:
                monkeypatch.setattr(module, "PIECE", 1)
                monkeypatch.setattr(module, "run_tasks", counted)
                if module is rapt._vectors:
                    monkeypatch.setattr(module, "_BLOCK", 100)
            got = call(tensor)
            for module in modules:
                monkeypatch.undo()
            for a, b in zip(got, expected, strict=True):
                assert np.array_equal(a, b, equal_nan=True)
    assert len(pieces) >= len(calls)


def test_an_error_of_a_thread_is_raised() -> None:
    def run(first: int, last: int, _: Any) -> None:
        time.sleep(0.001)
        if threading.current_thread() is not threading.main_thread():
            raise ValueError(f"task {first}")

    with pytest.raises(ValueError, match="task"):
        _threads.run_tasks(run, 100, 0, 3)


@pytest.mark.parametrize("tasks", [0, 1, 2, 7, 100])
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_every_task_runs_once(tasks: int, threads: int) -> None:
    done: list[int] = []
    _threads.run_tasks(lambda first, last, _: done.extend(range(first, last)), tasks, 16, threads)
    assert sorted(done) == list(range(tasks))


def test_the_pool_is_kept() -> None:
    def threads_of_the_pool() -> set[int | None]:
        return {thread.ident for thread in threading.enumerate() if thread.name.startswith("rapt")}

    def run(first: int, last: int, _: Any) -> None:
        time.sleep(0.001)

    _threads.run_tasks(run, 40, 0, 4)
    before = threads_of_the_pool()
    for _ in range(5):
        _threads.run_tasks(run, 40, 0, 4)
        time.sleep(0.01)
    assert before and threads_of_the_pool() >= before and len(threads_of_the_pool()) <= 3 + len(before)


def test_calls_of_several_threads_at_once() -> None:
    results = []

    def caller() -> None:
        done: list[int] = []
        _threads.run_tasks(lambda first, last, _: done.extend(range(first, last)), 1000, 0, 4)
        results.append(sorted(done) == list(range(1000)))

    callers = [threading.Thread(target=caller) for _ in range(8)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(20)
    assert results == [True] * 8


def test_a_child_process_has_its_own_pool() -> None:
    program = """
        import os, time, numpy as np, rapt
        from rapt import _threads
        run = lambda first, last, _: time.sleep(0.001)
        _threads.run_tasks(run, 30, 0, 3)
        child = os.fork()
        names = []
        import threading
        _threads.run_tasks(lambda *_: names.append(threading.current_thread().name) or time.sleep(0.002), 30, 0, 3)
        if child == 0:
            os._exit(0 if any(name.startswith("rapt") for name in names) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


def test_calls_while_the_interpreter_ends() -> None:
    program = """
        import atexit, rapt
        from rapt import _threads
        done = []
        def last():
            _threads.run_tasks(lambda first, last, _: done.extend(range(first, last)), 30, 0, 3)
            print(sorted(done) == list(range(30)))
        atexit.register(last)
        _threads.run_tasks(lambda *_: None, 30, 0, 3)
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60, capture_output=True, text=True
    )
    assert answer.stdout == "True\n"


def test_threads_argument() -> None:
    assert _threads.thread_count(None, work=1000) == 1
    assert _threads.thread_count(None) >= 1 and _threads.thread_count(7, work=1) == 7
    wrong: list[tuple[type[Exception], Any]] = [
        (ValueError, 0),
        (ValueError, -1),
        (TypeError, 1.5),
        (TypeError, "2"),
        (ValueError, 10**400),
    ]
    for error, threads in wrong:
        with pytest.raises(error, match="threads"):
            _threads.thread_count(threads)
