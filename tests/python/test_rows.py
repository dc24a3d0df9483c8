from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kinds import Array, OnEachLevel, Random
from reference import weights

import rapt
from rapt import _arrays, _library, _rows


def softmax(x: Array) -> Any:
    return weights(x)[0]


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-6), (np.float64, 1e-14), (np.float16, 1e-3)])
def test_softmax(random: Random, on_each_level: OnEachLevel, dtype: npt.DTypeLike, tolerance: float) -> None:
    x = random.normal(size=(2, 3, 40)).astype(dtype)
    y = on_each_level(lambda: rapt.softmax(x, scale=2.0))
    assert y.dtype == dtype and y.shape == x.shape
    np.testing.assert_allclose(y, softmax(2.0 * x.astype(np.float64)), rtol=tolerance, atol=1e-6)
    np.testing.assert_allclose(rapt.log_softmax(x), np.log(softmax(x.astype(np.float64))), rtol=10 * tolerance)


def test_a_row_alone_has_the_bits_of_a_batch(random: Random) -> None:
    x = random.normal(size=(37, 24)).astype(np.float32)
    assert np.array_equal(rapt.softmax(x)[5], rapt.softmax(x[5]))


def test_strides(random: Random) -> None:
    x = random.normal(size=(6, 5, 8)).astype(np.float32)
    for view in (
        x[::2],
        x[:, ::2],
        x[..., ::2],
        x[::-1],
        x.transpose(1, 0, 2),
        x.transpose(2, 1, 0),
        np.broadcast_to(x[:1], x.shape),
        x[:0],
        x[:, :, :1],
    ):
        assert np.array_equal(rapt.softmax(view), rapt.softmax(view.copy()))
    wide = np.zeros((6, 5, 9), np.float32)
    for function in (rapt.softmax, rapt.log_softmax):
        out = wide[..., :8]
        assert function(x, out=out) is out
        assert np.array_equal(out, function(x)) and not wide[..., 8].any()
    for windows in (np.lib.stride_tricks.sliding_window_view(x[0, 0], 5), packed_structs(x[0])):
        assert np.array_equal(rapt.softmax(windows), rapt.softmax(windows.copy()))
    windows = np.lib.stride_tricks.sliding_window_view(np.zeros(8, np.float32), 5, writeable=True)
    for out in (np.zeros((6, 7, 8), np.float32)[:, :5], windows):
        with pytest.raises(ValueError, match="no single stride"):
            rapt.softmax(np.zeros(out.shape, np.float32), out=out)


def packed_structs(x: Array) -> Any:
    """x with a byte behind each row: its stride is no number of elements."""
    structs = np.zeros(len(x), [("row", x.dtype, x.shape[1]), ("byte", np.uint8)])
    structs["row"] = x
    assert structs["row"].strides[0] % x.itemsize == 1
    return structs["row"]


def test_options(random: Random) -> None:
    x = random.normal(size=(4, 10)).astype(np.float32)
    wide = x.astype(np.float64)
    rows, cols = np.ogrid[:4, :10]
    bias = random.normal(size=(4, 10)).astype(np.float32)
    mask = random.random((4, 10)) < 0.8
    mask[:, 0] = True

    def close(y: Array, scores: Array) -> None:
        np.testing.assert_allclose(y, softmax(scores), rtol=1e-5, atol=1e-7)

    close(rapt.softmax(x, causal=True), np.where(cols <= rows + 6, wide, -np.inf))
    close(rapt.softmax(x, causal="top_left"), np.where(cols <= rows, wide, -np.inf))
    close(rapt.softmax(x, causal_offset=2), np.where(cols <= rows + 2, wide, -np.inf))
    close(rapt.softmax(x, bias=bias), wide + bias)
    close(rapt.softmax(x, bias=bias[1]), wide + bias[1])
    close(rapt.softmax(x, mask=mask), np.where(mask, wide, -np.inf))
    close(rapt.softmax(x, row_lengths=[1, 2, 3, 10]), np.where(cols < np.array([[1], [2], [3], [10]]), wide, -np.inf))
    close(rapt.softmax(x, softcap=2.0), 2 * np.tanh(wide / 2))
    with_sink = rapt.softmax(x, sinks=[0.0, 1.0, 2.0, -np.inf])
    assert with_sink.sum(axis=1)[0] < 0.999 and with_sink.sum(axis=1)[3] == pytest.approx(1)
    np.testing.assert_allclose(rapt.logsumexp(x), np.log(np.exp(wide).sum(axis=1)), rtol=1e-6)


def test_causal_offsets_that_the_library_refuses() -> None:
    for shape in ((5, 9), (2, 5, 9)):
        for offset in (2**60 + 1, -(2**60) - 1):
            with pytest.raises(ValueError, match="causal_offset"):
                rapt.softmax(np.zeros(shape, np.float32), causal_offset=offset)


@pytest.mark.parametrize("causal", [{"causal": True}, {"causal": "top_left"}, {"causal_offset": -2}, {"causal_offset": 2**60},
                                    {"causal_offset": -2**60}, {"causal": np.True_, "row_lengths": [[4], [9]]}])  # fmt: skip
def test_causality_begins_with_each_matrix(random: Random, causal: Any) -> None:
    x = random.normal(size=(2, 5, 9)).astype(np.float32)
    together = rapt.softmax(x, **causal), rapt.log_softmax(x, **causal)
    for i in range(2):
        alone = dict(causal)
        if "row_lengths" in causal:
            alone["row_lengths"] = [causal["row_lengths"][i][0]] * 5
        assert np.array_equal(together[0][i], rapt.softmax(x[i], **alone))
        assert np.array_equal(together[1][i], rapt.log_softmax(x[i], **alone))
    if "row_lengths" in causal:
        with pytest.raises(ValueError, match="row_lengths"):
            rapt.softmax(x, causal=True, row_lengths=[[4], [10]])


def test_numbers_per_row_broadcast(random: Random) -> None:
    x = random.normal(size=(2, 3, 9)).astype(np.float32)
    sinks, lengths = np.array([[0.5], [1.5]]), np.array([3, 5, 9])
    y = rapt.softmax(x, sinks=sinks, row_lengths=lengths)
    for i, j in np.ndindex(2, 3):
        assert np.array_equal(y[i, j], rapt.softmax(x[i, j], sinks=sinks[i, 0], row_lengths=lengths[j]))


def test_options_live_as_long_as_the_call(random: Random) -> None:
    rows = _arrays.input_rows(random.normal(size=(3, 4)).astype(np.float32), "x")
    call = _rows._Options(
        rows, _library.F32, 1, bias=[[0.0] * 4] * 3, mask=[[True] * 4] * 3, row_lengths=[4] * 3, sinks=[0.0] * 3
    )
    kept = {array.ctypes.data for array in call.kept.values()}
    options = call.struct
    assert kept == {options.bias, options.mask, options.row_lengths, options.sinks}


def test_rows_of_minus_infinity() -> None:
    x = np.full((2, 3), -np.inf, np.float32)
    assert np.isnan(rapt.softmax(x)).all() and np.isnan(rapt.log_softmax(x)).all()
    assert not rapt.softmax(x, empty_rows_are_zero=True).any()
    assert (rapt.log_softmax(x, empty_rows_are_zero=True) == -np.inf).all()
    assert (rapt.logsumexp(x) == -np.inf).all()
    with pytest.raises(ValueError, match="empty_rows_are_zero"):
        rapt.logsumexp(x, empty_rows_are_zero=True)


def test_lengths_of_no_rows() -> None:
    assert rapt.softmax(np.zeros((0, 4)), row_lengths=[], sinks=[]).shape == (0, 4)
    assert rapt.logsumexp(np.zeros((2, 0, 4)), row_lengths=[]).shape == (2, 0)
    assert (rapt.logsumexp(np.zeros((2, 0))) == -np.inf).all()


@pytest.mark.parametrize("number", [np.float32, np.float64])
def test_backward(random: Random, number: Any) -> None:
    x, dy = random.normal(size=(2, 4, 3, 12)).astype(number)
    y = rapt.softmax(x, scale=0.5)
    dx = rapt.softmax_backward(y, dy, 0.5)
    wide = y.astype(np.float64)
    assert dx.dtype == number
    expected = 0.5 * wide * (dy - (wide * dy).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(dx, expected, rtol=0, atol=1e-6 if number == np.float32 else 1e-15)
    spread = np.zeros((4, 3, 15), number)[..., :12]
    spread[...] = dy
    assert np.array_equal(rapt.softmax_backward(y, spread, 0.5), dx)
    assert np.array_equal(rapt.softmax_backward(spread, y), rapt.softmax_backward(dy, y))
    assert np.array_equal(
        rapt.softmax_backward(y, np.broadcast_to(dy[:1], y.shape)), rapt.softmax_backward(y, dy[[0] * 4])
    )
    for place in (y.copy(), dy.copy()):
        given = {"y": y, "dy": dy, "y" if np.array_equal(place, y) else "dy": place}
        assert rapt.softmax_backward(**given, scale=0.5, out=place) is place and np.array_equal(place, dx)
    for shape in ((3, 12), (4, 3, 11), (4, 4, 12)):
        with pytest.raises(ValueError, match="dy"):
            rapt.softmax_backward(y, np.zeros(shape, number))
    for other in (np.float16, np.float64 if number == np.float32 else np.float32):
        with pytest.raises(TypeError, match="dy"):
            rapt.softmax_backward(y, dy.astype(other))


def test_errors_have_the_library_s_words(random: Random) -> None:
    x = np.zeros((2, 4), np.float32)
    values: list[tuple[dict[str, Any], str]] = [
        ({"softcap": -1.0}, "softcap"),
        ({"scale": float("nan")}, "scale"),
        ({"row_lengths": [5, 1]}, "row"),
        ({"row_lengths": [-1, 1]}, "negative length"),
        ({"causal": "diagonal"}, "causal"),
        ({"causal": "offset"}, "causal"),
        ({"causal": True, "causal_offset": 1}, "causal_offset"),
        ({"bias": np.zeros((3, 4), np.float32)}, "bias has the shape"),
        ({"bias": np.zeros((4, 1), np.float32)}, "bias has the shape"),
        ({"mask": np.zeros((3, 4), bool)}, "mask has the shape"),
        ({"sinks": [1.0, 2.0, 3.0]}, "sinks has the shape"),
        ({"row_lengths": [1, 2, 3]}, "row_lengths has the shape"),
        ({"scale": 0}, "scale"),
        ({"out": np.zeros((4, 2), np.float32)}, "out"),
    ]
    for options, words in values:
        with pytest.raises(ValueError, match=words):
            rapt.softmax(x, **options)
    types: list[tuple[dict[str, Any], str]] = [
        ({"axes": 0}, "axes"),
        ({"out": np.zeros((2, 4))}, "float64"),
        ({"row_lengths": [1.5, 2.5]}, "row_lengths"),
    ]
    for options, words in types:
        with pytest.raises(TypeError, match=words):
            rapt.softmax(x, **options)
    read_only = np.zeros((2, 4), np.float32)
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        rapt.softmax(x, out=read_only)
    with pytest.raises(ValueError, match="overlap"):
        both = np.zeros((3, 4), np.float32)
        rapt.softmax(both[:2], out=both[1:])
