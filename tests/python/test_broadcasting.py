"""Every array other than x, q, k and v has the shapes that NumPy broadcasts, and no others."""

from typing import Any

import numpy as np
import pytest
from kinds import Array, Call, Random
from reference import attention as exact
from reference import weights

import rapt
from rapt import _arrays, _attention_call, _library, _rows

F32 = _library.F32


def shape_near(random: Random, shape: tuple[int, ...]) -> Any:
    """A shape that broadcasts to `shape`, in most cases."""
    near = [1 if random.random() < 0.35 else length for length in shape]
    if near and random.random() < 0.2:  # another length
        near[random.integers(len(near))] = int(random.integers(4))
    if random.random() < 0.1:
        near = random.permutation(near).tolist()
    if random.random() < 0.05:
        near = [1, *near]
    return tuple(near[random.integers(len(near) + 1) if random.random() < 0.4 else 0 :])


def laid_out(random: Random, array: Array) -> Any:
    """Equal elements, with other strides."""
    way = random.integers(5)
    if way == 1:
        return np.asfortranarray(array)
    if way == 2:
        return np.flip(np.flip(array).copy())
    if way == 3 and array.ndim > 0:
        axis = random.integers(array.ndim)
        return np.repeat(array, 2, axis)[(slice(None),) * axis + (slice(None, None, 2),)]
    if way == 4 and array.ndim > 0:
        wide = np.zeros((*array.shape[:-1], array.shape[-1] + 3), array.dtype)
        wide[..., 1:-2] = array
        return wide[..., 1:-2]
    return array


def broadcasts(array: Array, shape: tuple[int, ...]) -> Any:
    try:
        np.broadcast_to(array, shape)
    except ValueError:
        return False
    return True


def refused_or(call: Call, options: dict[str, Any], wrong: Any) -> Any:
    """The call's result; None if it refused the options that are wrong."""
    if not wrong:
        return call(**options)
    with pytest.raises(ValueError, match=f"({'|'.join(wrong)}) has the shape"):
        call(**options)
    return None


@pytest.mark.parametrize("seed", range(500))
def test_rows(seed: int) -> None:
    random = np.random.default_rng(seed)
    shape = tuple(random.integers(0 if random.random() < 0.1 else 1, 5, random.integers(1, 5)))
    number = np.float32 if random.random() < 0.7 else np.float64
    x = random.normal(size=shape).astype(number)
    options = {
        "mask": random.random(shape_near(random, shape)) < 0.7,
        "bias": random.normal(size=shape_near(random, shape)).astype(number),
        "row_lengths": random.integers(0, shape[-1] + 1, shape_near(random, shape[:-1])),
        "sinks": random.normal(size=shape_near(random, shape[:-1])).astype(number),
    }
    options = {name: laid_out(random, np.asarray(x)) for name, x in options.items() if random.random() < 0.4}
    wrong = [name for name, array in options.items()
             if not broadcasts(array, shape if name in ("mask", "bias") else shape[:-1])]  # fmt: skip
    function = (rapt.softmax, rapt.log_softmax, rapt.logsumexp)[seed % 3]
    result = refused_or(lambda **options: function(laid_out(random, x), **options), options, wrong)
    if result is None:
        return
    scores = x.astype(np.float64) + options.get("bias", 0)
    scores = np.where(options.get("mask", True), scores, -np.inf)
    lengths = np.broadcast_to(options.get("row_lengths", shape[-1]), shape[:-1])
    scores = np.where(np.arange(shape[-1]) < lengths[..., None], scores, -np.inf)
    shares, lse = weights(scores, options.get("sinks"))
    with np.errstate(divide="ignore"):
        expected = (shares, np.log(shares), lse)[seed % 3]
    assert result.dtype == number
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(300))
def test_attention(seed: int) -> None:
    random = np.random.default_rng(seed)
    batch, kv_heads, shared, q_len, kv_len = random.integers(1, 4, 5)
    if seed % 16 == 0:
        kv_len = 0
    if seed % 16 == 8:
        q_len = 0
    heads = kv_heads * shared
    number = np.float32 if random.random() < 0.7 else np.float64
    dimensions = 4 if batch > 1 else 3 if heads > 1 else 2  # of q, k and v
    q, k, v = (random.normal(size=(batch, h, n, 4)).astype(number)
               for h, n in ((heads, q_len), (kv_heads, kv_len), (kv_heads, kv_len)))  # fmt: skip
    scores, rows = (batch, heads, q_len, kv_len), (batch, heads, q_len)
    options = {
        "mask": random.random(shape_near(random, scores)) < 0.7,
        "bias": random.normal(size=shape_near(random, scores)).astype(number),
        "query_scales": random.normal(size=shape_near(random, rows)).astype(number),
        # One per head or sequence: these do not broadcast.
        "sinks": random.normal(size=shape_near(random, (heads,))).astype(number),
        "alibi_slopes": random.normal(size=shape_near(random, (heads,))).astype(number),
        "kv_lengths": random.integers(0, kv_len + 1, shape_near(random, (batch,))),
    }
    options = {name: laid_out(random, np.asarray(x)) for name, x in options.items() if random.random() < 0.4}
    wrong = [name for name, array in options.items() if not
             (broadcasts(array, scores if name in ("mask", "bias") else rows) if name in ("mask", "bias", "query_scales")
              else array.shape == ((batch,) if name == "kv_lengths" else (heads,)))]  # fmt: skip
    q4, k4, v4 = q, k, v
    q, k, v = (x.reshape(x.shape[4 - dimensions :]) for x in (q, k, v))
    result = refused_or(lambda **options: rapt.attention(q, k, v, return_lse=True, **options), options, wrong)
    if result is None:
        return
    bias, mask = options.get("bias", 0), np.broadcast_to(options.get("mask", True), scores)
    lengths = options.get("kv_lengths", np.full(batch, kv_len))
    mask = mask & (np.arange(kv_len) < lengths[:, None, None, None])
    if "alibi_slopes" in options:
        # The last query is at the sequence's last key.
        positions = np.arange(q_len)[:, None] + lengths[:, None, None, None] - q_len
        bias = bias + options["alibi_slopes"][:, None, None] * (np.arange(kv_len) - positions)
    scaled = q4 * np.broadcast_to(options.get("query_scales", 1), rows)[..., None]
    expected = exact(scaled, k4, v4, bias=bias, mask=mask, sinks=options.get("sinks"))
    np.testing.assert_allclose(result[0], expected[0].reshape(result[0].shape), atol=1e-5)
    np.testing.assert_allclose(result[1], expected[1].reshape(result[1].shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("x, shape, repeated", [
    ((3, 4, 5), (5,), True), ((3, 4, 5), (1, 5), True), ((3, 4, 5), (1, 1, 5), True), ((1, 4, 5), (1, 1, 5), True),
    ((1, 4, 5), (4, 5), False), ((3, 4, 5), (3, 4, 5), False),
])  # fmt: skip
def test_rows_repeat_without_a_copy(x: tuple[int, ...], shape: tuple[int, ...], repeated: bool) -> None:
    rows = _arrays.input_rows(np.zeros(x, np.float32), "x")
    options_of: Call = _rows._Options
    for name, array in (("bias", np.zeros(shape, np.float32)), ("mask", np.ones(shape, bool))):
        options = options_of(rows, F32, rows.array.ndim - 1, **{name: array}).struct
        assert getattr(options, name) == array.ctypes.data
        assert getattr(options, f"{name}_stride") == (_library.REPEAT if repeated else 5)
        wide = np.zeros((*shape[:-1], 8), array.dtype)[..., :5]
        options = options_of(rows, F32, rows.array.ndim - 1, **{name: wide}).struct
        assert getattr(options, name) == wide.ctypes.data
        assert getattr(options, f"{name}_stride") == (_library.REPEAT if repeated else 8)


def test_rows_that_overlap(random: Random) -> None:
    """Windows of a vector, as of relative positions: the library refuses their strides."""
    x = random.normal(size=(6, 5)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(random.normal(size=10).astype(np.float32), 5)
    both: list[dict[str, Any]] = [
        {"bias": windows},
        {"mask": windows > 0},
        {"mask": np.lib.stride_tricks.sliding_window_view(windows[0] > 0, 5)},
    ]
    for options in both:
        copies: dict[str, Any] = {name: array.copy() for name, array in options.items()}
        assert np.array_equal(rapt.softmax(x, **options), rapt.softmax(x, **copies), equal_nan=True)
        assert np.array_equal(rapt.attention(x, x[1:], x[1:], **options), rapt.attention(x, x[1:], x[1:], **copies))


@pytest.mark.parametrize("shape", [(7,), (3, 1, 7), (2, 1, 1, 7), (1, 3, 5, 7), (2, 3, 5, 7), (2, 3, 5, 1), ()])
def test_attention_repeats_without_a_copy(random: Random, shape: tuple[int, ...]) -> None:
    q, k, v = (np.zeros((2, 3, n, 4), np.float32) for n in (5, 7, 7))
    array = np.asarray(random.normal(size=shape), np.float32)
    call = _attention_call.AttentionCall(q, k, v, False, None, None, None, None)
    call.set_bias(array, None, False)
    options = call.options
    strides = [getattr(options.bias_strides, name) for name in ("batch", "head", "token")]
    padded = (1,) * (4 - len(shape)) + shape
    assert [stride == _library.REPEAT for stride in strides] == [length == 1 for length in padded[:3]]
    if shape[-1:] == (7,):  # rows of 1 are written out, once each
        assert options.bias == array.ctypes.data
    scales = np.asarray(random.normal(size=shape[:-1]), np.float32)
    call.set_scores(None, None, scales, None, None)
    assert options.query_scales == scales.ctypes.data


def test_no_copy_has_a_row_twice(random: Random) -> None:
    column = random.normal(size=(2, 1, 5, 1)).astype(np.float32)
    rows, strides = _arrays.broadcast_rows(np.broadcast_to(column, (2, 3, 5, 1)), (2, 3, 5, 7), "bias")
    whole = np.lib.stride_tricks.as_strided(rows, (2, 3, 5, 7), strides)
    assert np.array_equal(whole, np.broadcast_to(column, (2, 3, 5, 7)))
    assert strides[1] == 0 and strides[3] == 4 and rows.size == 2 * 5 * 7
