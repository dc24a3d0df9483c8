"""Numbers and lengths next to the tensors: bias, sinks, slopes and scales of any type of numbers, and what is refused."""

from typing import Any

import numpy as np
import pytest
from dlpack import OldTensor, Tensor, bf16_tensor
from kinds import Array, Call

import rapt

VALUES = np.array([0.5, -1.25, 2.0, 0.0078125], np.float32)  # exact in bf16 and in f16


def bf16(x: Array) -> Any:
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


FORMS: dict[str, Call] = {
    "f64": lambda x: x.astype(np.float64),
    "f16": lambda x: x.astype(np.float16),
    "bf16 by DLPack": lambda x: bf16_tensor(bf16(x)),
    "bf16 by an old DLPack": lambda x: bf16_tensor(bf16(x), OldTensor),
    "strided bf16": lambda x: bf16_tensor(np.repeat(bf16(x), 2, axis=-1)[..., ::2]),
    "f16 by DLPack": lambda x: Tensor(x.astype(np.float16)),
    "f64 by DLPack": lambda x: Tensor(x.astype(np.float64)),
    "list": lambda x: x.tolist(),
}


def attention(**options: Any) -> Any:
    random = np.random.default_rng(2)
    q, k, v = (random.normal(size=(1, heads, 4, 8)).astype(np.float32) for heads in (4, 2, 2))
    return rapt.attention(q, k, v, **options)


def attention_of_bytes(**options: Any) -> Any:
    random = np.random.default_rng(2)
    k, v = (random.integers(-128, 128, (1, 1, 4, 8), np.int8) for _ in range(2))
    scales: dict[str, Any] = {name: VALUES.reshape(1, 1, 4) for name in ("k_scales", "v_scales")}
    return rapt.attention(random.normal(size=(1, 1, 4, 8)).astype(np.float32), k, v, **scales | options)


def rows(function: Call, number: Any = np.float32) -> Any:
    return lambda **options: function(np.random.default_rng(2).normal(size=(4, 4)).astype(number), **options)


def attention_in_f64(**options: Any) -> Any:
    random = np.random.default_rng(2)
    return rapt.attention(*(random.normal(size=(1, 4, 4, 8)) for _ in "qkv"), **options)


def linear(number: Any = np.float32) -> Any:
    def call(**options: Any) -> Any:
        return rapt.linear(*np.random.default_rng(2).normal(size=(2, 4, 8)).astype(number), **options)

    return call


CALLS = [
    (rows(rapt.softmax), "bias", (4, 4)), (rows(rapt.softmax), "sinks", (4,)),
    (rows(rapt.softmax, np.float64), "bias", (4, 4)), (rows(rapt.softmax, np.float16), "sinks", (4,)),
    (rows(rapt.log_softmax), "bias", (4, 4)), (rows(rapt.logsumexp, np.float64), "bias", (4, 4)),
    (rows(rapt.logsumexp), "sinks", (4,)),
    (attention, "bias", (4, 4)), (attention, "sinks", (4,)), (attention, "alibi_slopes", (4,)),
    (attention, "query_scales", (4,)),
    (attention_in_f64, "bias", (4, 4)), (attention_in_f64, "sinks", (4,)),
    (linear(), "bias", (4,)), (linear(), "row_scales", (4,)),
    (linear(np.float64), "bias", (4,)), (linear(np.float16), "row_scales", (4,)),
    (attention_of_bytes, "k_scales", (1, 1, 4)), (attention_of_bytes, "v_scales", (1, 1, 4, 1)),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("call, name, shape", CALLS)
def test_every_type_of_numbers(call: Call, name: str, shape: tuple[int, ...], form: str) -> None:
    numbers = np.resize(VALUES, shape)
    assert np.array_equal(call(**{name: FORMS[form](numbers)}), call(**{name: numbers}))
    assert not np.array_equal(call(**{name: numbers}), call(**{name: np.zeros_like(numbers)}))  # they matter


@pytest.mark.parametrize("number", [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_are_numbers(number: Any) -> None:
    sinks = np.arange(4) - (2 if np.issubdtype(number, np.signedinteger) else 0)
    forms: list[Call] = [
        lambda x: x.astype(number),
        lambda x: Tensor(x.astype(number)),
        lambda x: x.astype(int).tolist(),
    ]
    for form in forms:
        assert np.array_equal(attention(sinks=form(sinks)), attention(sinks=sinks.astype(np.float32)))


def test_uint16_of_dlpack_is_no_bf16() -> None:
    """DLPack tells them apart: no tensor of integers is a tensor of bf16, and next to the tensors they are numbers."""
    integers = np.arange(4, dtype=np.uint16)
    for kind in (Tensor, OldTensor):
        with pytest.raises(TypeError, match="element type"):
            rapt.softmax(kind(integers))
        for call, name, shape in CALLS:
            of_integers = kind(np.resize(integers, shape))
            assert np.array_equal(call(**{name: of_integers}), call(**{name: np.resize(integers, shape).astype("f4")}))


@pytest.mark.parametrize("call, name, shape", CALLS)
def test_uint16_of_numpy_is_refused(call: Call, name: str, shape: tuple[int, ...]) -> None:
    """They may be integers or the bits of bf16: read wrongly, they would change a result without a word."""
    numbers = np.resize(np.arange(4, dtype=np.uint16), shape)
    for given in (numbers, np.repeat(numbers, 2, axis=-1)[..., ::2], memoryview(numbers), list(numbers)):  # type: ignore[arg-type]
        with pytest.raises(
            TypeError, match=rf"{name} has elements of uint16, .*rapt.convert\({name}, \"f32\"\) of bf16"
        ):
            call(**{name: given})
    assert np.array_equal(call(**{name: numbers.astype(np.float32)}), call(**{name: numbers.astype(np.int64)}))
    bits = bf16(np.resize(VALUES, shape))
    assert np.array_equal(call(**{name: rapt.convert(bits, "f32")}), call(**{name: np.resize(VALUES, shape)}))


def test_bf16_of_ml_dtypes() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    for call, name, shape in CALLS:
        numbers = np.resize(VALUES, shape)
        assert np.array_equal(call(**{name: numbers.astype(bfloat16)}), call(**{name: numbers}))
    x = np.resize(VALUES, (4, 4)).astype(bfloat16)
    assert rapt.softmax(x).dtype == bfloat16
    assert np.array_equal(rapt.softmax(x).view(np.uint16), rapt.softmax(x.view(np.uint16)))
    with pytest.raises(TypeError, match="row_lengths"):
        rapt.softmax(x, row_lengths=np.ones(4, bfloat16))


@pytest.mark.parametrize("refused", [
    ["0.5"] * 4, np.ones(4, np.complex64), [None] * 4, [True] * 4, np.ones(4, bool), np.zeros(4, "M8[s]"),
    np.array([object()] * 4), np.ones(4, ">f4"),
], ids=lambda x: str(np.asarray(x).dtype))  # fmt: skip
@pytest.mark.parametrize("call, name, shape", CALLS)
def test_what_is_no_number(call: Call, name: str, shape: tuple[int, ...], refused: bool) -> None:
    with pytest.raises(TypeError, match=name):
        call(**{name: np.resize(refused, shape).astype(np.asarray(refused).dtype)})


@pytest.mark.parametrize("call, name, shape", CALLS)
def test_lists_of_different_lengths(call: Call, name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=name):
        call(**{name: [[1.0, 2.0], [3.0]]})


def test_numbers_beyond_f32_are_infinite() -> None:
    with np.errstate(over="ignore"):
        bias = np.where(np.eye(4) == 0, np.finfo(np.float64).min, 0)  # a common way to say -inf
        assert np.array_equal(attention(bias=bias), attention(mask=np.eye(4, dtype=bool)))


INTEGERS = [
    (rows(rapt.softmax), "row_lengths", [1, 4, 2, 3]), (attention, "kv_lengths", [3]),
    (lambda **options: rapt.attention(*np.ones((3, 2, 4, 8), np.float32), **{"kv_offsets": [0, 4]} | options), "q_offsets",
     [0, 3]),
    (lambda **options: rapt.attention(*np.ones((3, 2, 4, 8), np.float32), **{"q_offsets": [0, 4]} | options), "kv_offsets",
     [0, 3]),
    (lambda **options: rapt.attention(np.ones((1, 2, 4, 8), np.float32), *np.ones((2, 3, 2, 16, 8), np.float32), **options),
     "block_table", [[0, 2]]),
    (linear(), "x_rows", [1, 3, 0]),
    (lambda **options: linear()(x_rows=[2, 1, 0], out=np.zeros((4, 4), np.float32), **options), "y_rows", [1, 3, 0]),
]  # fmt: skip


@pytest.mark.parametrize("call, name, integers", INTEGERS)
def test_integers(call: Call, name: str, integers: Any) -> None:
    expected = call(**{name: integers})
    for number in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
        array = np.array(integers, number)
        assert np.array_equal(call(**{name: array}), expected)
        assert np.array_equal(call(**{name: Tensor(array)}), expected)
    spread = np.repeat(np.array(integers), 2, axis=-1)[..., ::2]
    assert np.array_equal(call(**{name: spread}), expected)


@pytest.mark.parametrize("call, name, integers", INTEGERS)
def test_what_is_no_integer(call: Call, name: str, integers: Any) -> None:
    array = np.array(integers)
    for refused in (
        array.astype(np.float32),
        bf16_tensor(bf16(array)),
        array.astype(bool),
        array.astype(str),
        array.astype(object),
        array.astype(">i4"),
        Tensor(array.astype(np.float32)),
    ):
        with pytest.raises(TypeError, match=name):
            call(**{name: refused})
    for refused in (-array - 1, array + 2**40):
        with pytest.raises(ValueError, match=name.replace("_", "[_ ]")):
            call(**{name: refused})


@pytest.mark.parametrize("call", [rows(rapt.softmax), rows(rapt.logsumexp), attention])
def test_what_is_no_mask(call: Call) -> None:
    for refused in (
        np.ones((4, 4), np.int8),
        np.ones((4, 4), np.float32),
        bf16_tensor(np.ones((4, 4), np.uint16)),
        [[1] * 4] * 4,
    ):
        with pytest.raises(TypeError, match="mask"):
            call(mask=refused)
    for mask in (
        np.eye(4, dtype=bool),
        255 * np.eye(4, dtype=np.uint8),
        np.eye(4, dtype=bool).tolist(),
        Tensor(np.eye(4, dtype=np.uint8)),
        Tensor(np.eye(4, dtype=np.uint8), code=6),
    ):
        assert np.array_equal(call(mask=mask), call(mask=np.eye(4, dtype=bool)))
