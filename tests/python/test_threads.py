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
from kinds import Array, Call, Random

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


@pytest.mark.parametrize("threads", [1, 2])
def test_gradients_of_attention_are_interrupted(interrupt: Any, threads: int | None) -> None:
    """One call, of more than a second. The scalar level takes 20 times as long for a task, and has shorter ones."""
    heads, tokens = (32, 4096) if rapt.isa() != "scalar" else (256, 512)
    q = np.random.default_rng(1).normal(size=(1, heads, tokens, 64)).astype(np.float32)
    interrupt(0.3)
    start = time.perf_counter()
    with pytest.raises(Interrupted):
        rapt.attention_backward(q, q, q, q, q, np.full(q.shape[:-1], 9, np.float32), threads=threads)
    assert time.perf_counter() - start < 0.3 + 0.7  # 0.2, on a machine that does nothing else


def rows_of_softmax() -> Any:
    random = np.random.default_rng(3)
    lengths, sinks = random.integers(0, 25, (2, 37)), random.normal(size=(2, 37))
    bias, mask = random.normal(size=(2, 37, 24)), random.random((2, 1, 24)) < 0.8
    yield from ({}, {"bias": bias, "row_lengths": lengths}, {"sinks": sinks, "mask": mask}, {"bias": bias[:1, :1]})
    yield from ({"causal": True}, {"causal": "top_left"}, {"causal_offset": -3}, {"axis": 1, "row_lengths": [3] * 24})


def arrays_of(parts: dict[str, Any]) -> list[Any]:
    return [part for part in parts.values() if isinstance(part, np.ndarray)]


def calls_on(x: Any) -> Any:
    """Calls of every function that is cut, with every option that depends on the row, by name."""

    def with_residual(norm: Any) -> Any:
        residual = np.cos(x)
        return norm(x, residual=residual), residual

    flat, row = x.reshape(-1, 24), x[0, 0]
    for options in rows_of_softmax():
        for function in (rapt.softmax, rapt.log_softmax, rapt.logsumexp):
            yield function.__name__, lambda f=function, o=options: f(x, **o)
            if "causal_offset" in options:
                yield function.__name__, lambda f=function, o=options: f(flat, **o)
    norms: list[Call] = [rapt.rms_norm, rapt.layer_norm]
    for norm in norms:
        yield norm.__name__, lambda f=norm: f(x[..., 3:], row[3:])
        yield norm.__name__, lambda f=norm: with_residual(f)
    for positions in (7, np.arange(37), np.arange(74).reshape(2, 37)):
        yield "rope", lambda p=positions: rapt.rope(x[:, None], np.ones(5), p)
    yield "gated", lambda: rapt.gated(x, x[..., ::-1])
    activations: list[Call] = [rapt.silu, rapt.gelu, rapt.gelu_tanh]
    for function in activations:
        yield function.__name__, lambda f=function: f(x)
    yield "scale", lambda: rapt.scale(x, 0.3)
    of_one = "sqrt rsqrt reciprocal exp2 expm1 log log2 log1p sin cos tan tanh erf sigmoid log_sigmoid mish hardsigmoid"
    of_one += " hardswish relu relu6 selu softplus elu celu hardtanh clamp clip"
    of_two = "add subtract multiply divide atan2 pow" + "".join(
        f" {name}_backward"
        for name in (
            "erf sigmoid tanh log_sigmoid softplus mish elu celu selu hardsigmoid hardswish relu relu6 hardtanh clamp".split()
        )
    )
    for name in of_one.split():
        yield name, lambda f=getattr(rapt, name): f(x)
    for name in of_two.split():
        yield name, lambda f=getattr(rapt, name): f(x, x[:, :1, 1:2])
    for name in ("fma", "addcmul", "addcdiv", "lerp"):
        yield name, lambda f=getattr(rapt, name): f(x.swapaxes(0, 1), 0.5, x[0, 0])
    slots = np.stack([x[1], x[0]], 1)
    yield "expert_sum", lambda: rapt.expert_sum(slots, np.cos(np.arange(74.0).reshape(37, 2)), add=x[0])
    yield "dot_rows", lambda: rapt.dot_rows(row, flat[:, ::-1])
    yield "similarity", lambda: rapt.similarity(flat, flat[:5])
    yield "normalize", lambda: rapt.normalize(x)
    if x.dtype != np.float64:
        mask = np.arange(74).reshape(37, 2) % 3 > 0
        yield "mean_pool", lambda: rapt.mean_pool(np.ascontiguousarray(x.swapaxes(0, 1)), mask)
    yield "pack_weights", lambda: rapt.pack_weights([x.reshape(-1, 6), x.reshape(-1, 6).T.copy().T]).data
    packed = rapt.pack_weights(x.reshape(-1, 6))
    yield "unpack_weights", lambda: rapt.unpack_weights(packed)
    yield "packed_rows", lambda: rapt.packed_rows(packed, np.arange(len(flat)) % packed.shape[0])
    yield "pack_keys", lambda: rapt.pack_keys(x.reshape(2, -1, 6)[:, ::2])
    if x.dtype in (np.float32, np.float64):
        yield "softmax_backward", lambda: rapt.softmax_backward(x, x[..., ::-1])
        yield "log_softmax_backward", lambda: rapt.log_softmax_backward(x, x[..., ::-1])
        yield "rms_norm_backward", lambda: rapt.rms_norm_backward(x, x[..., ::-1], row, weight_plus_one=True)
        yield "layer_norm_backward", lambda: rapt.layer_norm_backward(x[..., 3:], x[..., :-3])
        yield "gated_backward", lambda: rapt.gated_backward(x[..., ::-1], x, x[:, :1] + np.zeros_like(x), "gelu")
        yield "exp", lambda: rapt.exp(x)
        gradients: list[Call] = [rapt.silu_backward, rapt.gelu_backward, rapt.gelu_tanh_backward]
        for function in gradients:
            yield function.__name__, lambda f=function: f(x, x[::-1])
    if x.dtype != np.float64:
        yield "convert", lambda: rapt.convert(x, "f32" if x.dtype == np.float16 else "bf16")
        yield "quantize_rows", lambda: rapt.quantize_rows(flat[:, ::-1], "i4", 7)
        q, scales = rapt.quantize_rows(x.reshape(-1, 6).astype(np.float32))
        offsets = np.sin(scales)
        yield "dequantize_rows", lambda: rapt.dequantize_rows(q, "i8", scales, offsets=offsets)
        yield "pack_quantized", lambda: rapt.pack_quantized(q, "i8", scales, offsets=offsets).data
        codes = (q & 15).view(np.uint8)
        zeros = np.arange(len(q))[:, None] % 5
        yield "dequantize_rows", lambda: rapt.dequantize_rows(codes, "u4", scales, zeros=zeros)
        yield "pack_quantized", lambda: rapt.pack_quantized(codes, "u4", scales, zeros=zeros).data
        yield "pack_quantized", lambda: rapt.pack_quantized(codes, "u4", scales, codebook=np.arange(16.0)).data
        every: list[dict[str, Any]] = [{"zeros": zeros, "offsets": offsets}, {"codebook": np.arange(16.0)}]
        for parts in every:
            small = rapt.pack_quantized(codes, "u4", scales, **parts)
            yield "unpack_quantized", lambda w=small: arrays_of(rapt.unpack_quantized(w))
        blocks = np.resize(np.arange(251, dtype=np.uint8), (len(q), 34))
        yield "pack_blocks", lambda: rapt.pack_blocks(blocks, "Q8_0").data
        yield "unpack_blocks", lambda w=rapt.pack_blocks(blocks, "Q8_0"): rapt.unpack_blocks(w)


@pytest.fixture
def all_calls_are_long(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs f with calls cut into the smallest pieces, and after(number) behind each."""

    def cut(f: Any, after: Any = lambda number: None) -> Any:
        done = 0

        def run_tasks(run: Any, tasks: Any, *_: Any) -> Any:
            nonlocal done
            for first in range(tasks):
                run(first, first + 1, 0)
                done += 1
                after(done)

        with monkeypatch.context() as patch:
            for module in (rapt._pieces, rapt._rows, rapt._norms, rapt._gated, rapt._rope, rapt._vectors, rapt._map):
                patch.setattr(module, "PIECE", 1)
            patch.setattr(rapt._pieces, "run_tasks", run_tasks)
            for module in (rapt._vectors, rapt._map):
                patch.setattr(module, "_BLOCK", 100)
            return f(), done

    return cut


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_pieces_have_the_bits_of_one_call(all_calls_are_long: Any, dtype: Any) -> None:
    x = np.random.default_rng(3).normal(size=(2, 37, 24)).astype(dtype)
    for name, call in calls_on(x):
        expected = call()
        got, pieces = all_calls_are_long(call)
        assert pieces > 3, name
        for a, b in zip(got, expected, strict=True):
            assert np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(a, b, equal_nan=True), name


def test_a_signal_between_pieces(all_calls_are_long: Any, interrupt: Any) -> None:
    """Its handler runs before the next piece, and its exception passes, in every function that is cut."""
    pieces = []

    def after(number: Any) -> Any:
        pieces.append(number)
        if number == 2:
            os.kill(os.getpid(), signal.SIGUSR1)

    for name, call in calls_on(np.ones((2, 37, 24), np.float32)):
        pieces.clear()
        with pytest.raises(Interrupted):
            all_calls_are_long(call, after)
        assert pieces == [1, 2], name


def test_every_function_is_cut() -> None:
    cut = {name for name, _ in calls_on(np.ones((2, 37, 24), np.float32))}
    tasks, loops, one_sum = (
        {
            "attention",
            "attention_backward",
            "delta_rule",
            "delta_rule_backward",
            "linear",
            "linear_experts",
            "matmul",
            "bmm",
            "top_k",
        }
        | {"conv1d", "conv2d", "conv3d", "conv_transpose", "conv_input", "conv_weight"},
        {
            "argmax",
            "hash",
            "causal_conv1d",
            "cross_entropy",
            "cross_entropy_backward",
            "embedding_backward",
            "embedding_bag",
            "embedding_bag_backward",
            "index_add",
            "solve_triangular",
        }
        | {"adamw_step", "sgd_step", "random_keep", "random_normal", "random_uniform", "random_words"},
        {"dot", "exp_sum", "sum", "mean", "var", "std", "prod", "norm", "min", "max", "argmin"}
        | {"cumsum", "cumprod", "cumulative_sum", "cumulative_prod"},
    )
    of_levels = {"bits_version", "force_isa", "isa", "isa_status", "isas", "kernel_isa", "version"}
    little = {"expert_lists", "metric_pointer", "pack_experts", "prepare", "rope_frequencies"} | {
        name for name in rapt.__all__ if name[0].isupper()
    }
    whole = {"pack_awq", "pack_gptq"}  # the library packs such a layer only as a whole
    assert cut | tasks | loops | one_sum | of_levels | little | whole == set(rapt.__all__)


@pytest.mark.parametrize("name", ["softmax", "layer_norm_backward", "gated_backward"])
def test_long_calls_are_interrupted(interrupt: Any, name: str) -> None:
    """One call each, of more than a second on the scalar level."""
    x = np.ones((1 << 20, 32), np.float32)
    calls: dict[str, Call] = {
        "softmax": lambda: rapt.softmax(x, out=x),
        "layer_norm_backward": lambda: rapt.layer_norm_backward(*np.broadcast_arrays(x, x), out=x),
        "gated_backward": lambda: rapt.gated_backward(x, x, x),
    }
    rapt.force_isa("scalar")
    try:
        interrupt(0.2)
        start = time.perf_counter()
        with pytest.raises(Interrupted):
            calls[name]()
        assert time.perf_counter() - start < 0.2 + 0.7  # 0.1, on a machine that does nothing else
    finally:
        rapt.force_isa(None)


def test_pieces_do_not_hide_an_overlap(all_calls_are_long: Any) -> None:
    """Each piece alone would overlap nothing."""
    both = np.ones((80, 24), np.float32)
    x, out = both[:40], both[30:70]
    narrow = both.reshape(-1)[: 40 * 20].reshape(40, 20)
    for call in (
        lambda: rapt.softmax(x, out=out),
        lambda: rapt.softmax(both[:40, :20], out=narrow),  # from the same address, with another stride
        lambda: rapt.log_softmax(x, bias=out, out=out),
        lambda: rapt.logsumexp(x, sinks=both.reshape(-1)[-40:], out=both.reshape(-1)[-60:-20]),
        lambda: rapt.softmax_backward(x, x, out=out),
        lambda: rapt.softmax_backward(x.copy(), x, out=out),
        lambda: rapt.rms_norm(x, out=out),
        lambda: rapt.rms_norm(x, residual=x),
        lambda: rapt.rms_norm(x, residual=out, out=out),
        lambda: rapt.layer_norm(x, both[60], out=out),
        lambda: rapt.rms_norm_backward(x, out, both[69], out=out),
        lambda: rapt.layer_norm_backward(x, x, out=out),
        lambda: rapt.gated(x, x, out=out),
        lambda: rapt.rope(x, np.ones(4), 0, out=out),
        lambda: rapt.rope(x, both.view(np.float64).reshape(-1)[-400:-390], 0, out=both[40:]),
        lambda: rapt.exp(x, out=out),
        lambda: rapt.sqrt(x, out=out),
        lambda: rapt.multiply(x.copy(), x, out=out),
        lambda: rapt.fma(out, 2, out[0], out=out),
        lambda: rapt.dot_rows(x[0], x, out=both.reshape(-1)[100:140]),
    ):
        ways: list[Call] = [call, lambda: all_calls_are_long(call)]
        for way in ways:
            with pytest.raises(ValueError, match="overlap"):
                way()
        assert np.array_equal(both, np.ones_like(both))


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


def test_more_threads_than_tasks(random: Random) -> None:
    for size in (4, 300):  # one task, and several
        x = random.normal(size=(size, size)).astype(np.float32)
        for threads in (2**16, 2**70):
            assert np.array_equal(rapt.linear(x, x, threads=threads), rapt.linear(x, x))
            assert np.array_equal(rapt.attention(x, x, x, threads=threads), rapt.attention(x, x, x))
            call = rapt.prepare(rapt.linear, x, x, threads=threads)
            assert np.array_equal(call(), rapt.linear(x, x))


def test_threads_argument() -> None:
    assert _threads.thread_count(None, work=1000) == 1
    assert _threads.thread_count(None) >= 1 and _threads.thread_count(7, work=1) == 7
    wrong: list[tuple[type[Exception], Any]] = [(ValueError, 0), (ValueError, -1), (TypeError, 1.5), (TypeError, "2")]
    for error, threads in wrong:
        with pytest.raises(error, match="threads"):
            _threads.thread_count(threads)
