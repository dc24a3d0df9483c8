"""Linear layers against the loop of rapt.h, to the bit."""

import doctest
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dlpack import Tensor, bf16_tensor
from kinds import TYPES, Array, Call, OnEachLevel, Random, narrowed, widened
from reference import linear as exact

import rapt
from rapt import _arrays, _linear


def layer(random: Random, rows: int = 5, inputs: int = 70, outputs: int = 9, type: str = "f32") -> Any:
    return tuple(narrowed(random.normal(size=(n, inputs)), type) for n in (rows, outputs))


def same(one: Array, other: Array) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


@pytest.mark.parametrize("y_type", [None, *TYPES])
@pytest.mark.parametrize("w_type", TYPES)
@pytest.mark.parametrize("x_type", TYPES)
def test_bits(random: Random, on_each_level: OnEachLevel, x_type: str, w_type: str, y_type: Any) -> None:
    x, w = layer(random, type=x_type)[0], layer(random, type=w_type)[1]
    y_type_or_x = y_type or x_type
    wide = [type == "f64" for type in (x_type, w_type, y_type_or_x)]
    if any(wide) != all(wide):
        with pytest.raises((TypeError, ValueError), match="f64 goes only with f64"):
            rapt.linear(x, w, out_type=y_type)
        return
    number = np.float64 if x_type == "f64" else np.float32
    bias, scales = random.normal(size=9).astype(number), random.normal(size=5).astype(number)
    add = narrowed(random.normal(size=(5, 9)), y_type_or_x)
    options: dict[str, Any] = {"row_scales": scales, "add": add, "out_type": y_type}
    arithmetics: list[Any] = [None, "default", "f32"]
    for arithmetic in arithmetics:
        if x_type == "f64" and arithmetic == "f32":
            continue
        result = on_each_level(lambda: rapt.linear(x, w, bias, arithmetic=arithmetic, **options))
        bf16 = x_type == w_type == "bf16" and arithmetic != "f32"
        expected = exact(widened(x), widened(w), bias, scales, widened(add), bf16=bf16)
        assert same(result, narrowed(expected, y_type_or_x))
        assert same(rapt.linear(x, rapt.pack_weights(w), bias, arithmetic=arithmetic, **options), result)


@pytest.mark.parametrize("type, inputs", [("f32", 1100), ("f32", 512), ("bf16", 75), ("f16", 513), ("f64", 600)])
def test_groups_of_inputs(random: Random, type: str, inputs: int) -> None:
    x, w = layer(random, 2, inputs, 3, type)
    expected = narrowed(exact(widened(x), widened(w), bf16=type == "bf16"), type)
    assert same(rapt.linear(x, w), expected) and same(rapt.linear(x, rapt.pack_weights(w)), expected)


def test_shapes(random: Random) -> None:
    x, w = random.normal(size=(2, 3, 4, 7)).astype(np.float32), random.normal(size=(5, 7)).astype(np.float32)
    expected = exact(x.reshape(-1, 7), w).reshape(2, 3, 4, 5)
    assert same(rapt.linear(x, w), expected)
    assert same(rapt.linear(x[0, 1, 2], w), expected[0, 1, 2])
    assert rapt.linear(x[:, :0], w).shape == (2, 0, 4, 5)
    assert same(rapt.linear(x[..., :1], w[:1, :1]), x[..., :1] * w[0, 0])
    out = np.zeros_like(expected)
    assert rapt.linear(x, w, out=out) is out and same(out, expected)


def test_no_outputs() -> None:
    w = np.zeros((0, 7), np.float32)
    every: list[Any] = [w, rapt.pack_weights(w), rapt.pack_weights([w, w])]
    for weights in every:
        assert rapt.linear(np.ones((3, 7), np.float32), weights, threads=2).shape == (3, 0)


def test_strides_give_the_same_bits(random: Random) -> None:
    x, w = layer(random, 6)
    expected = exact(x, w)
    layouts: tuple[Call, ...] = (np.asfortranarray, lambda x: np.repeat(x, 2, 0)[::2], lambda x: np.repeat(x, 3, 1)[:, ::3],
               lambda x: x[::-1].copy()[::-1], lambda x: x[:, ::-1].copy()[:, ::-1])  # fmt: skip
    for layout in layouts:
        assert same(rapt.linear(layout(x), layout(w)), expected)
        assert same(rapt.linear(x, rapt.pack_weights(layout(w))), expected)
    tokens_last = np.moveaxis(np.ascontiguousarray(np.moveaxis(x.reshape(2, 3, 70), 1, 2)), 2, 1)
    assert same(rapt.linear(tokens_last, w), expected.reshape(2, 3, 9))
    structs = np.zeros(6, [("row", np.float32, 70), ("byte", np.uint8)])
    structs["row"] = x
    assert same(rapt.linear(structs["row"], w), expected)
    for repeated in (np.broadcast_to(x[:1], x.shape), np.broadcast_to(x[:, :1], x.shape), x[:1], x[:, :1]):
        weights = w[:, : repeated.shape[1]]
        assert same(rapt.linear(repeated, weights), exact(repeated, weights))
        assert same(rapt.linear(w[:, : repeated.shape[1]], repeated), exact(weights, repeated))
    wide = np.zeros((6, 12), np.float32)
    rapt.linear(x, w, out=wide[:, 1:10])
    assert same(wide[:, 1:10].copy(), expected) and not wide[:, :1].any() and not wide[:, 10:].any()


def test_what_is_not_copied(random: Random) -> None:
    x = random.normal(size=(4, 6, 8)).astype(np.float32)
    for view in (x, x[0], x[0].T, x[:, :, 2], x[:, 1, ::2], np.moveaxis(x, 2, 0)[..., 0].T, x[0, 0]):
        assert _arrays.input_matrix(view)[0] is view
    for view in (x[::-1], x[:, ::2].swapaxes(0, 1), x[..., ::-1]):
        assert not np.shares_memory(_arrays.input_matrix(view)[0], x)


@pytest.mark.parametrize("type", TYPES)
def test_packed_and_threads_give_the_same_bits(random: Random, type: str) -> None:
    x, w = layer(random, 110, 33, 300, type)
    expected = rapt.linear(x, w)
    for weights in (w, rapt.pack_weights(w)):
        for threads in (2, 3, 16, None):
            assert same(rapt.linear(x, weights, threads=threads), expected)
        for row in (0, 50, 109):
            assert same(rapt.linear(x[row], weights), expected[row])


def test_threads_get_tasks(random: Random, monkeypatch: pytest.MonkeyPatch, workers: list[int]) -> None:
    monkeypatch.setattr(_linear, "SMALL", 0)  # which runs at once, without tasks
    x, w = layer(random, 200, 8, 300)
    rapt.linear(x, w, threads=3)
    assert workers == [2]  # and the caller


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("parts", [[64, 128, 9], [9, 64, 9], [64, 0, 5], [3]])
def test_weights_in_parts(random: Random, parts: list[int], type: str) -> None:
    ws = [narrowed(random.normal(size=(n, 35)), type) for n in parts]
    x = narrowed(random.normal(size=(4, 35)), type)
    packed = rapt.pack_weights([np.asfortranarray(w) for w in ws])
    whole = np.concatenate(ws)
    assert packed.shape == whole.shape and packed.type == type
    assert same(packed.data, rapt.pack_weights(whole).data)
    assert same(rapt.linear(x, packed), rapt.linear(x, whole))
    back = rapt.unpack_weights(packed)
    assert back.flags.c_contiguous and same(back, whole)


def test_dot_rows_has_other_bits_of_the_same_products(random: Random) -> None:
    q, rows = random.normal(size=64).astype(np.float32), random.normal(size=(1000, 64)).astype(np.float32)
    one, other = rapt.linear(q, rows), rapt.dot_rows(q, rows)
    assert not same(one, other) and np.allclose(one, other, atol=1e-4)


def test_packed_weights_are_stored(random: Random, tmp_path: Path) -> None:
    x, w = layer(random)
    packed = rapt.pack_weights(w)
    assert repr(packed) == f"PackedWeights((9, 70), 'f32', {64 + 64 * 70 * 4} bytes)"
    np.save(tmp_path / "w.npy", packed.data)
    odd = np.zeros(len(packed.data) + 1, np.uint8)
    odd[1:] = packed.data
    for data in (packed.data.tobytes(), np.load(tmp_path / "w.npy", mmap_mode="r"), odd[1:]):
        assert same(rapt.linear(x, rapt.PackedWeights((9, 70), "f32", data)), exact(x, w))
    assert same(rapt.linear(x, pickle.loads(pickle.dumps(packed))), exact(x, w))
    wrong: list[Any] = [
        ((9, 70), "f32", packed.data[:-1], "data has 17983 bytes, not the 17984"),
        ((9, 70), "i9", packed.data, "type is 'i9'"),
        ((9, 70), None, packed.data, "type is None"),
        ((9, 70, 1), "f32", packed.data, "shape is"),
        ((-9, 70), "f32", packed.data, r"shape\[0\] is -9"),
        ((9, 0), "f32", packed.data, "no inputs"),
    ]
    for shape, type, data, words in wrong:
        with pytest.raises(ValueError, match=words):
            rapt.PackedWeights(shape, type, data)
    # These have as many bytes, so that only the header tells them apart.
    half = rapt.pack_weights(w.astype(np.float16))
    for others in (rapt.PackedWeights((10, 70), "f32", packed.data), rapt.PackedWeights((9, 70), "bf16", half.data)):
        with pytest.raises(ValueError, match="damaged, or not those of"):
            rapt.linear(x, others)
        with pytest.raises(ValueError, match="damaged, or not those of"):
            rapt.unpack_weights(others)


def test_lists_of_rows(random: Random) -> None:
    x, w = layer(random, 6)
    whole, bias = exact(x, w), random.normal(size=9).astype(np.float32)
    for weights in (w, rapt.pack_weights(w)):
        lists: list[Any] = [[4, 0, 4], [], [5], np.array([1, 2], np.uint8)]
        for given in lists:
            rows = np.asarray(given, None if len(given) else int)
            assert same(rapt.linear(x, weights, x_rows=rows), whole[rows])
            assert same(rapt.linear(x.T.copy().T, weights, x_rows=rows, threads=2), whole[rows])
    assert same(rapt.linear(x[:1], w, x_rows=[0, 0]), whole[[0, 0]])
    scales = np.array([2, 3], np.float32)
    out = np.full((7, 9), 5, np.float32)
    assert rapt.linear(x, w, bias, row_scales=scales, x_rows=[4, 1], y_rows=[6, 2], add=out, out=out) is out
    expected = np.full((7, 9), 5, np.float32)
    expected[[6, 2]] = (whole[[4, 1]] + bias) * scales[:, None] + np.float32(5)
    assert same(out, expected)
    out[...] = 0
    rapt.linear(x, w, y_rows=np.arange(6)[::-1], add=np.arange(9, dtype=np.float32), out=out)
    assert same(out[5::-1].copy(), whole + np.arange(9, dtype=np.float32)) and not out[6].any()


@pytest.mark.parametrize("type", TYPES)
def test_add(random: Random, type: str) -> None:
    x, w = layer(random, type=type)
    add = narrowed(random.normal(size=(5, 9)), type)
    expected = rapt.linear(x, w, add=add)
    for form in (np.asfortranarray(add), np.repeat(add, 2, 1)[:, ::2], np.repeat(add, 2, 0)[::2]):
        assert same(rapt.linear(x, w, add=form), expected)
    for part in (add[:1], add[0], add[:, :1]):
        assert same(rapt.linear(x, w, add=part), rapt.linear(x, w, add=np.broadcast_to(part, add.shape).copy()))
    for threads in (1, 2):
        out = add.copy()
        assert rapt.linear(x, w, add=out, out=out, threads=threads) is out and same(out, expected)
    if type != "f64":
        other = narrowed(widened(add), "f16" if type == "f32" else "f32")
        wide = rapt.linear(x, w, add=widened(other), out_type="f32")
        assert same(rapt.linear(x, w, add=other, out_type="f32"), wide)


def test_row_scales_broadcast(random: Random) -> None:
    x, w = layer(random, 6)
    scales = random.normal(size=(2, 3)).astype(np.float32)
    for part in (scales, scales[:1], scales[:, :1], scales[0], scales[0, 0]):
        expected = exact(x, w, row_scales=np.broadcast_to(part, (2, 3)).reshape(6))
        assert same(rapt.linear(x.reshape(2, 3, 70), w, row_scales=part), expected.reshape(2, 3, 9))


@pytest.mark.parametrize("type", TYPES)
def test_gradients(random: Random, type: str) -> None:
    x, w = layer(random, type=type)
    g = narrowed(random.normal(size=(5, 9)), type)
    ones = narrowed(np.ones((1, 5)), type)
    gradients = rapt.linear(g, w.T), rapt.linear(g.T, x.T), rapt.linear(ones, g.T)
    pairs = (g, w.T), (g.T, x.T), (ones, g.T)
    tolerance = {"f64": 1e-13, "f32": 1e-5, "f16": 2e-2, "bf16": 2e-1}[type]
    for gradient, (left, right) in zip(gradients, pairs):
        left, right = (widened(np.ascontiguousarray(part)) for part in (left, right))
        assert same(gradient, narrowed(exact(left, right, bf16=type == "bf16"), type))
        np.testing.assert_allclose(widened(gradient), left.astype(np.float64) @ right.T, atol=tolerance)


def test_forms_of_tensors(random: Random) -> None:
    x, w = layer(random)
    out = np.zeros((5, 9), np.float32)
    mine = Tensor(out)
    linear: Call = rapt.linear
    assert linear(Tensor(x), Tensor(w.T.copy().T), add=Tensor(out), out=mine) is mine
    assert same(out, exact(x, w))
    x, w = layer(random, type="bf16")
    expected = rapt.linear(x, w)
    assert same(rapt.linear(x, rapt.pack_weights(bf16_tensor(w))), expected)
    lists = rapt.linear([[1, 2.0]], [[3.0, 4]])
    assert lists.dtype == np.float64 and lists.tolist() == [[11.0]]


def test_bf16_of_ml_dtypes(random: Random) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    bits = layer(random, type="bf16")
    x, w = (part.view(bfloat16) for part in bits)
    for weights in (w, rapt.pack_weights(w), rapt.pack_weights([w[:3], bits[1][3:]])):
        result = rapt.linear(x, weights)
        assert result.dtype == bfloat16 and same(result.view(np.uint16), rapt.linear(*bits))


def test_example() -> None:
    (example,) = doctest.DocTestFinder().find(rapt.linear, "linear", globs={"np": np, "rapt": rapt})
    outcome = doctest.DocTestRunner().run(example)
    assert outcome.attempted > 5 and outcome.failed == 0


def ones(*shape: int, dtype: npt.DTypeLike = np.float32) -> Any:
    return np.ones(shape, dtype)


@pytest.mark.parametrize("change, words", [
    ({"x": np.float32(1)}, "x has no dimension"),
    ({"x": ones(5, 6)}, "other inputs"),
    ({"x": ones(5, 0), "w": ones(9, 0)}, "no inputs"),
    ({"w": ones(9, 1, 7)}, "w has 3 dimensions"),
    ({"w": ones(7)}, "w has 1 dimensions"),
    ({"bias": ones(1)}, "bias has the shape"),
    ({"bias": ones(10)}, "bias has the shape"),
    ({"row_scales": ones(4)}, "row_scales has the shape"),
    ({"row_scales": ones(5, 1)}, "row_scales has the shape"),
    ({"add": ones(4, 9)}, "add has the shape"),
    ({"add": ones(1, 5, 9)}, "add has the shape"),
    ({"x_rows": [5]}, "x_rows leads out of the 5 rows of x"),
    ({"x_rows": [-1]}, "x_rows leads out"),
    ({"x_rows": [[0]]}, "x_rows has 2 dimensions"),
    ({"x": ones(1, 5, 7), "x_rows": [0]}, "x has 3 dimensions"),
    ({"y_rows": range(5)}, "out, which is missing"),
    ({"y_rows": [0, 1, 2, 3, 6], "out": ones(6, 9)}, "y_rows leads out of the 6 rows of out"),
    ({"y_rows": [0, 1, 2, 3, 0], "out": ones(6, 9)}, "a row twice"),
    ({"y_rows": [0, 1], "out": ones(6, 9)}, "y_rows has the shape"),
    ({"y_rows": range(5), "out": ones(6, 8)}, "out has the shape"),
    ({"y_rows": range(5), "out": ones(6, 9), "add": ones(5, 9)}, "add has the shape"),
    ({"out": ones(5, 8)}, "out has the shape"),
    ({"out": ones(5, 18)[:, ::2]}, "contiguous"),
    ({"out": ones(5, 9)[::-1]}, "negative stride"),
    ({"x": ones(2, 3, 7), "out": ones(2, 4, 9)[:, :3]}, "no single stride"),
    ({"arithmetic": "bf16"}, "arithmetic"),
    ({"arithmetic": "exact"}, "arithmetic is 'exact', not one of default, f32, bf16"),
    ({"out_type": "i8"}, "out_type"),
    ({"out_type": "f64"}, "f64 goes only with f64"),
    ({"threads": 0}, "threads"),
])  # fmt: skip
def test_bad_arguments(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        rapt.linear(**{"x": ones(5, 7), "w": ones(9, 7), **change})


@pytest.mark.parametrize("change", [
    {"x": ones(5, 7, dtype=np.float64)}, {"w": ones(9, 7, dtype=np.float64)}, {"add": ones(9, dtype=np.float64)},
    {"x": ones(5, 7, dtype=np.int8)}, {"w": ones(9, 7, dtype=np.int8)}, {"add": ones(9, dtype=np.int8)},
    {"w": rapt.pack_weights(ones(9, 7, dtype=np.float64))}, {"x": ones(5, 7, dtype=">f4")},
    {"out": ones(5, 9, dtype=np.float16)}, {"x_rows": [0.5]}, {"dropout": 1}, {"bias": ["a"] * 9},
])  # fmt: skip
def test_bad_types(change: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        rapt.linear(**{"x": ones(5, 7), "w": ones(9, 7), **change})


@pytest.mark.parametrize("threads", [1, 2])
def test_overlap(threads: int) -> None:
    both = ones(600)
    x, w = both[:35].reshape(5, 7), ones(9, 7)
    for options in ({"out": both[30:75].reshape(5, 9)}, {"out": both[100:145].reshape(5, 9),
                                                        "add": both[101:146].reshape(5, 9)}):  # fmt: skip
        with pytest.raises(ValueError, match="overlaps"):
            rapt.linear(x, w, threads=threads, **options)


@pytest.mark.parametrize("w, error, words", [
    ([], ValueError, "no matrices"), (ones(7), ValueError, "w has 1 dimensions"), (ones(2, 9, 7), ValueError, "w has 3"),
    ([ones(9, 7), ones(7)], ValueError, r"w\[1\] has 1 dimensions"), ([ones(9, 7), ones(9, 6)], ValueError, "other inputs"),
    (ones(9, 0), ValueError, "no inputs"), (ones(9, 7, dtype=np.int8), TypeError, "int8"),
    ([ones(9, 7), ones(9, 7, dtype=np.float16)], TypeError, "float16"), ("w", ValueError, "w has 0"),
])  # fmt: skip
def test_what_cannot_be_packed(w: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        rapt.pack_weights(w)
