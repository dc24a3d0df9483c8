"""Prepared calls: the bits of a plain call at every run, over arrays that change."""

import copy
import doctest
import gc
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kinds import Call, Random

import rapt
from rapt import _attention, _linear, _prepared


def f32(random: Random, *shape: int) -> Any:
    return random.normal(size=shape).astype(np.float32)


OPTIONS = [
    (rapt.softmax, (3, 8), {}), (rapt.softmax, (3, 8), {"scale": 2.0, "causal": True, "mask": [True] * 7 + [False]}),
    (rapt.softmax, (2, 3, 8), {"axis": 1, "bias": np.ones((3, 1))}), (rapt.log_softmax, (8,), {"sinks": 1.0}),
    (rapt.logsumexp, (3, 8), {"row_lengths": [1, 2, 8]}), (rapt.logsumexp, (3, 8), {"axis": 0}),
    (rapt.rms_norm, (3, 8), {"weight": np.arange(8, dtype=np.float32)}), (rapt.layer_norm, (3, 8), {"eps": 0.1}),
    (rapt.rope, (2, 3, 8), {"frequencies": [1.0, 0.5], "positions": [4, 5, 6]}),
    (rapt.gated, (3, 8), {"up": np.linspace(0, 1, 24, dtype=np.float32).reshape(3, 8), "activation": "gelu"}),
]  # fmt: skip


@pytest.mark.parametrize("function, shape, options", OPTIONS)
def test_runs_read_the_arrays_anew(
    random: Random, function: Call, shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    x = f32(random, *shape)
    call = rapt.prepare(function, x, **options)
    first = call()
    assert first.dtype == np.float32
    for _ in range(3):
        x[...] = random.normal(size=shape)
        assert call() is first and np.array_equal(first, function(x, **options))
        x[...] = random.normal(size=shape)
        assert call.run() is first and np.array_equal(first, function(x, **options))
    out = np.empty_like(first)
    assert rapt.prepare(function, x, out=out, **options)() is out and np.array_equal(out, first)


@pytest.mark.parametrize("function", [rapt.logsumexp, rapt.softmax])
def test_16_bits(random: Random, function: Call) -> None:
    x = f32(random, 3, 8).astype(np.float16)
    call = rapt.prepare(function, x, axis=-1)
    for _ in range(2):
        x[...] = random.normal(size=x.shape)
        assert np.array_equal(call(), function(x))


def test_arrays_live_as_long_as_the_call(random: Random) -> None:
    x = f32(random, 300, 80)
    bias, lengths, sinks = f32(random, 300, 80), random.integers(0, 80, 300), random.normal(size=300)
    expected = rapt.softmax(x, bias=bias, row_lengths=lengths, sinks=sinks)
    call = rapt.prepare(rapt.softmax, x, bias=bias, row_lengths=lengths, sinks=sinks)
    del x, bias, lengths, sinks
    gc.collect()
    noise = [np.full((300, 80), 7, np.float32) for _ in range(20)]
    assert np.array_equal(call(), expected) and len(noise) == 20


def test_what_cannot_be_prepared(random: Random) -> None:
    x = f32(random, 8, 6)
    calls: list[Call] = [
        lambda: rapt.prepare(rapt.softmax, x.T),
        lambda: rapt.prepare(rapt.rms_norm, x[::-1]),
        lambda: rapt.prepare(rapt.gated, x, x.reshape(6, 8).T),
        lambda: rapt.prepare(rapt.rope, x[:, ::-1], [1.0]),
        lambda: rapt.prepare(rapt.logsumexp, x.astype(np.float16).T),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="has strides that need a copy"):
            call()
    others: list[Any] = [rapt.dot, rapt.softmax_backward, "softmax", None, 3]
    for function in others:
        with pytest.raises(TypeError, match="cannot be prepared"):
            rapt.prepare(function, x)
    with pytest.raises(TypeError, match="axes"):
        rapt.prepare(rapt.softmax, x, axes=1)
    with pytest.raises(ValueError, match="scale is 0"):
        rapt.prepare(rapt.softmax, x, scale=0)


def test_errors_of_a_run(random: Random) -> None:
    with pytest.raises(ValueError, match="softcap"):
        rapt.prepare(rapt.softmax, f32(random, 2, 3), softcap=-1.0)()


def test_residual_and_long_calls(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    x, residual = f32(random, 4, 8), f32(random, 4, 8)
    call = rapt.prepare(rapt.rms_norm, x, residual=residual)
    for _ in range(2):
        expected = rapt.rms_norm(x + residual)
        assert np.array_equal(call(), expected)
    monkeypatch.setattr(rapt._rows, "PIECE", 1)
    call = rapt.prepare(rapt.softmax, x, causal=True)
    monkeypatch.undo()
    x += 1
    assert np.array_equal(call(), rapt.softmax(x, causal=True))


ATTENTION = [
    {}, {"causal": True, "return_lse": True}, {"threads": 2, "return_lse": True}, {"threads": None, "out_type": "bf16"},
    {"mask": np.arange(6) != 2, "bias": np.linspace(0, 1, 6), "query_scales": [[1.0], [2.0], [0.5], [3.0]]},
    {"kv_lengths": [6, 3], "window_left": 2, "sinks": [1.0, 2.0, 3.0, 4.0]},
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("options", ATTENTION)
def test_attention(
    random: Random, monkeypatch: pytest.MonkeyPatch, dtype: npt.DTypeLike, small: bool, options: dict[str, Any]
) -> None:
    if dtype == np.float64 and "out_type" in options:
        options = {}
    if not small:
        monkeypatch.setattr(_attention, "SMALL", 0)  # tasks
    q, k, v = (random.normal(size=(2, heads, 6, 8)).astype(dtype) for heads in (4, 2, 2))
    call = rapt.prepare(rapt.attention, q, k, v, **options)
    first = call()
    for _ in range(3):
        for x in (q, k, v):
            x[...] = random.normal(size=x.shape)
        again, expected = call(), rapt.attention(q, k, v, **options)
        assert again is first
        for a, b in zip(again, expected) if options.get("return_lse") else [(again, expected)]:
            assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
    plain: dict[str, Any] = {**options, "return_lse": False}
    out = rapt.attention(q, k, v, **plain)
    other = np.empty_like(out)
    returned = rapt.prepare(rapt.attention, q, k, v, out=other, **options)()
    assert (returned[0] if options.get("return_lse") else returned) is other and other.tobytes() == out.tobytes()


def test_attention_over_caches(random: Random) -> None:
    """Sequences end to end, pages, packed keys and int8; tokens of no sequence keep zeros."""
    q, k, v = f32(random, 2, 9, 8), f32(random, 2, 12, 8), f32(random, 2, 12, 8)
    ragged = {"q_offsets": [1, 4, 7], "kv_offsets": [0, 5, 12]}
    pages = f32(random, 4, 2, 16, 8)
    bytes_ = random.integers(-99, 99, (2, 12, 8)).astype(np.int8)
    scales = {"k_scales": np.ones((2, 12)), "v_scales": np.ones((2, 12))}
    table = {"block_table": [[3, 0]], "kv_lengths": [20]}
    cases: list[Any] = [
        (q, k, v, ragged), (q, pages, pages, table), (q, rapt.pack_keys(k), v, {"packed_keys": True}), (q, bytes_, bytes_, scales),
    ]  # fmt: skip
    for *tensors, options in cases:
        call = rapt.prepare(rapt.attention, *tensors, return_lse=True, **options)
        for _ in range(3):
            q[...] = random.normal(size=q.shape)
            for a, b in zip(call(), rapt.attention(*tensors, return_lse=True, **options)):
                assert np.array_equal(a, b)


def test_offsets_and_pages_stay_as_they_were_checked(random: Random) -> None:
    """What an option leads to is memory: a prepared call must not follow numbers that have changed since."""
    q, pages = f32(random, 1, 2, 1, 8), f32(random, 4, 2, 16, 8)
    table, lengths = np.array([[3, 0]], np.int32), np.array([20], np.int32)
    call = rapt.prepare(rapt.attention, q, pages, pages, block_table=table, kv_lengths=lengths)
    expected = call().copy()
    table[...], lengths[...] = 1 << 20, 1 << 20
    assert np.array_equal(call(), expected)
    x, w, rows = f32(random, 3, 8), f32(random, 5, 8), np.array([2, 0], np.uintp)
    call = rapt.prepare(rapt.linear, x, w, x_rows=rows)
    rows[...] = 1 << 40
    assert np.array_equal(call(), rapt.linear(x, w, x_rows=[2, 0]))


@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("options", [
    {}, {"bias": np.arange(70)}, {"row_scales": [[2.0], [3.0]], "add": np.ones((2, 3, 70), np.float32)},
    {"out_type": "f16", "threads": 2},
])  # fmt: skip
def test_linear(random: Random, monkeypatch: pytest.MonkeyPatch, small: bool, options: dict[str, Any]) -> None:
    if not small:
        monkeypatch.setattr(_linear, "SMALL", 0)
    x, w = f32(random, 2, 3, 40), f32(random, 70, 40)
    q, scales = rapt.quantize_rows(w)
    quantized = rapt.pack_quantized(q, "i8", scales)
    for weights in (w, np.asfortranarray(w), rapt.pack_weights(w), quantized):
        call = rapt.prepare(rapt.linear, x, weights, **options)
        first = call()
        for _ in range(3):
            x[...] = random.normal(size=x.shape)
            expected = rapt.linear(x, weights, **options)
            assert call() is first and first.dtype == expected.dtype and first.tobytes() == expected.tobytes()
        out = np.empty_like(first)
        assert rapt.prepare(rapt.linear, x, weights, out=out, **options)() is out and np.array_equal(out, first)


def test_linear_over_lists_of_rows(random: Random) -> None:
    x, w, out = f32(random, 4, 40), f32(random, 6, 40), f32(random, 5, 6)
    options: dict[str, Any] = {"x_rows": [3, 3, 0], "y_rows": [4, 0, 2]}
    call = rapt.prepare(rapt.linear, x, w, out=out, **options)
    for _ in range(2):
        x[...] = random.normal(size=x.shape)
        expected = rapt.linear(x, w, out=out.copy(), **options)
        assert call() is out and np.array_equal(out, expected)


def test_copies_and_mistakes_are_refused(random: Random) -> None:
    q, k, v = f32(random, 3, 6, 8)[:, None]
    x, w = f32(random, 6, 8), f32(random, 5, 8)
    copies: list[tuple[str, Call]] = [
        ("q", lambda: rapt.prepare(rapt.attention, q[..., ::-1], k, v)),
        ("k", lambda: rapt.prepare(rapt.attention, q, k[..., ::-1, :], v)),
        ("v", lambda: rapt.prepare(rapt.attention, q, k, np.repeat(v, 2, -1)[..., ::2])),
        ("x", lambda: rapt.prepare(rapt.linear, x[::-1], w)),
        ("w", lambda: rapt.prepare(rapt.linear, x, w[:, ::-1])),
        ("add", lambda: rapt.prepare(rapt.linear, x, w, add=np.ones((5, 6), np.float32).T)),
    ]
    for name, call in copies:
        with pytest.raises(ValueError, match=f"^{name} has strides that need a copy"):
            call()
    assert np.array_equal(rapt.prepare(rapt.attention, q[:, ::2], k, v)(), rapt.attention(q[:, ::2], k, v))
    mistakes: list[tuple[type[Exception], str, Call]] = [
        (TypeError, "axes", lambda: rapt.prepare(rapt.attention, q, k, v, axes=1)),
        (TypeError, "'v'", lambda: rapt.prepare(rapt.attention, q, k)),
        (TypeError, "return_lse", lambda: rapt.prepare(rapt.attention, q, k, v, return_lse=1)),
        (ValueError, "threads", lambda: rapt.prepare(rapt.attention, q, k, v, threads=0)),
        (ValueError, "threads", lambda: rapt.prepare(rapt.linear, x, w, threads=0)),
        (ValueError, "k has the shape", lambda: rapt.prepare(rapt.attention, q, k[:, 1:], v)),
        (
            ValueError,
            "3 is no multiple of 2",
            lambda: rapt.prepare(rapt.attention, f32(random, 3, 6, 8), *f32(random, 2, 2, 6, 8)),
        ),
        (ValueError, "overlaps", lambda: rapt.prepare(rapt.attention, q, k, v, out=v)()),
        (ValueError, "overlaps", lambda: rapt.prepare(rapt.linear, x, f32(random, 8, 8), out=x)()),
    ]
    for error, words, call in mistakes:
        with pytest.raises(error, match=words):
            call()


def test_two_calls_and_no_work(random: Random) -> None:
    """Prepared calls have a workspace each, and calls without sequences or rows have results."""
    q, k, v = f32(random, 3, 6, 8)[:, None]
    one, two = (rapt.prepare(rapt.attention, q, k, v, scale=scale) for scale in (1.0, 2.0))
    for _ in range(2):
        q += 1
        assert np.array_equal(one(), rapt.attention(q, k, v, scale=1.0))
        assert np.array_equal(two(), rapt.attention(q, k, v, scale=2.0))
    empty = np.empty((0, 1, 6, 8), np.float32)
    assert rapt.prepare(rapt.attention, empty, empty, empty)().shape == empty.shape
    assert rapt.prepare(rapt.linear, empty, np.ones((3, 8), np.float32))().shape == (0, 1, 6, 3)


def test_attention_of_torch_tensors(random: Random) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (torch.from_numpy(x) for x in f32(random, 3, 2, 6, 8))
    call = rapt.prepare(rapt.attention, q, k, v)
    q += 1
    assert isinstance(call(), torch.Tensor) and torch.equal(call(), rapt.attention(q, k, v))
    w = torch.from_numpy(f32(random, 5, 8))
    assert torch.equal(rapt.prepare(rapt.linear, q, w)(), rapt.linear(q, w))


@pytest.mark.parametrize("name", ["softmax", "softmax of columns", "attention", "linear", "logsumexp"])
def test_copies(random: Random, name: str) -> None:
    """copy.copy shares the arrays, copy.deepcopy and pickle copy them too, and each has a result of its own."""
    calls: dict[str, Call] = {
        "softmax": lambda x: rapt.prepare(rapt.softmax, x, scale=0.5),
        "softmax of columns": lambda x: rapt.prepare(rapt.softmax, x, axis=0),
        "attention": lambda x: rapt.prepare(rapt.attention, x, x, x, return_lse=True, threads=2),
        "linear": lambda x: rapt.prepare(rapt.linear, x, rapt.pack_weights(x)),
        "logsumexp": lambda x: rapt.prepare(rapt.logsumexp, x),
    }
    x = random.normal(size=(8, 8)).astype(np.float32)
    call = calls[name](x)
    before = copy.deepcopy(call())
    shallow, deep, pickled = copy.copy(call), copy.deepcopy(call), pickle.loads(pickle.dumps(call))
    packed = rapt.pack_weights(x)
    x[...] = 2 * x
    after = rapt.linear(x, packed) if name == "linear" else calls[name](x)()

    def same(result: Any, expected: Any) -> bool:
        return bool(
            np.array_equal(np.concatenate([y.ravel() for y in result]), np.concatenate([y.ravel() for y in expected]))
        )

    assert same(shallow(), after) and same(deep(), before) and same(pickled(), before)
    assert shallow() is not call() and deep() is not call()


def test_copies_of_a_call_in_place(random: Random) -> None:
    x = random.normal(size=(8, 8)).astype(np.float32)
    call = rapt.prepare(rapt.softmax, x, out=x)
    assert copy.copy(call)() is x
    result = copy.deepcopy(call)()
    assert result is not x and np.array_equal(result, rapt.softmax(x))


def test_examples() -> None:
    assert doctest.testmod(_prepared, extraglobs={"rapt": rapt, "np": np}).failed == 0
    assert doctest.testmod(rapt._rows, extraglobs={"rapt": rapt, "np": np}).failed == 0
