"""Odd arguments to every function: a ValueError or a TypeError, or a result, and nothing else."""

from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kinds import Array, Call

import rapt
from rapt import _library


class BrokenDLPack:
    def __dlpack__(self) -> None:
        raise RuntimeError("no tensor")

    def __dlpack_device__(self) -> None:
        raise RuntimeError("no device")


class NoCapsule:
    def __dlpack__(self) -> Any:
        return 7


class BrokenArray:
    def __array__(self, *arguments: Any, **options: Any) -> None:
        raise KeyError("no array")


class ReadOnlyDLPack:
    def __dlpack__(self) -> Any:
        array = np.zeros((2, 4), np.float32)
        array.flags.writeable = False
        return array.__dlpack__()  # a BufferError


class BrokenNumber:
    def __index__(self) -> Any:
        raise OSError("no integer")

    def __float__(self) -> Any:
        raise ZeroDivisionError("no number")

    def __iter__(self) -> Any:
        raise OSError("no elements")


class BrokenAttributes:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")


def read_only() -> Any:
    array = np.zeros((2, 4), np.float32)
    array.flags.writeable = False
    return array


ODD = [
    None, "three", b"three", "", object(), [], {}, {"a": 1}, (1, "a"), 1.5, -1, 0, 10**30, -(10**30), 10**400, float("nan"),
    float("inf"), True, 1j, np.float32(2), np.int64(3), np.zeros(()), np.zeros(0), np.zeros((2, 0)), np.zeros((0, 4), np.float32),
    np.array([object()] * 4), np.array(["a"] * 4), np.zeros(4, "M8[s]"), np.zeros(4, [("a", "f4")]), np.zeros((2, 4), ">f4"),
    np.zeros((2, 4), np.complex64), np.zeros((2, 4), np.longdouble), np.zeros((2, 4), bool), np.zeros((1,) * 32, np.float32),
    np.zeros((2, 4), np.float32)[::-1, ::-1], np.zeros((2, 4), np.float16), np.zeros((2, 4), np.uint16),
    np.array([[2**63] * 4] * 2, np.uint64), read_only(), [[1.0], [1.0, 2.0]], BrokenDLPack(), NoCapsule(), BrokenArray(),
    ReadOnlyDLPack(), np.ndarray, np.float32, lambda: 1, range(3), slice(None), BrokenNumber(), BrokenAttributes(),
    Decimal("sNaN"), np.zeros((4, 2), "S0").T, np.zeros((4, 2), "V").T, np.ones((2, 4), np.float32, order="F"), "\0", "\ud800",
    np.recarray((2, 4), [("a", "f4")]), np.bool_(True), np.complex64(1j), memoryview(b"1234"),
]  # fmt: skip


def x(*shape: int, dtype: npt.DTypeLike = np.float32) -> Array:
    return np.ones(shape or (2, 4), dtype)


CALLS: dict[str, tuple[Call, dict[str, Any], list[str]]] = {
    "softmax": (rapt.softmax, {"x": x()}, ["axis", "scale", "softcap", "bias", "mask", "row_lengths", "sinks", "causal",
                "causal_offset", "empty_rows_are_zero", "out"]),
    "log_softmax": (rapt.log_softmax, {"x": x(3, 2, 4)}, ["axis", "bias", "mask", "row_lengths", "sinks", "causal", "causal_offset",
                    "out"]),
    "logsumexp": (rapt.logsumexp, {"x": x(dtype=np.float16)}, ["axis", "scale", "softcap", "bias", "mask", "row_lengths", "out",
                  "empty_rows_are_zero"]),
    "softmax_backward": (rapt.softmax_backward, {"y": x(), "dy": x()}, ["scale", "out"]),
    "log_softmax_backward": (rapt.log_softmax_backward, {"y": x(), "dy": x()}, ["scale", "out"]),
    "rms_norm": (rapt.rms_norm, {"x": x()}, ["weight", "eps", "weight_plus_one", "residual", "out"]),
    "layer_norm": (rapt.layer_norm, {"x": x()}, ["weight", "bias", "eps", "residual", "out"]),
    "rms_norm_backward": (rapt.rms_norm_backward, {"x": x(), "dy": x()}, ["weight", "eps", "weight_plus_one", "out"]),
    "layer_norm_backward": (rapt.layer_norm_backward, {"x": x(), "dy": x()}, ["weight", "eps", "out"]),
    "rope": (rapt.rope, {"x": x(), "frequencies": [1.0]}, ["positions", "layout", "attention_factor", "backward", "out"]),
    "rope_frequencies": (rapt.rope_frequencies, {"rotary_dim": 8}, ["base", "rope_type", "factor", "truncate", "low_freq_factor",
                         "original_max_position_embeddings", "beta_fast", "mscale", "mscale_all_dim", "attention_factor"]),
    "gated": (rapt.gated, {"gate": x(), "up": x()}, ["activation", "out"]),
    "gated_backward": (rapt.gated_backward, {"gate": x(), "up": x(), "dy": x()}, ["activation"]),
    "dot": (rapt.dot, {"a": x(4), "b": x(4)}, []),
    "dot_rows": (rapt.dot_rows, {"query": x(4), "rows": x()}, ["scale", "out"]),
    "scale": (rapt.scale, {"x": x(), "factor": 2.0}, ["out"]),
    "exp": (rapt.exp, {"x": x()}, ["out"]),
    "exp_sum": (rapt.exp_sum, {"x": x()}, ["scale", "shift", "out"]),
    "silu": (rapt.silu, {"x": x()}, ["out"]),
    "gelu_backward": (rapt.gelu_backward, {"x": x(), "dy": x()}, ["out"]),
    "argmax": (rapt.argmax, {"x": x()}, ["out"]),
    "sum": (rapt.sum, {"x": x()}, ["axis", "keepdims", "dtype", "out"]),
    "var": (rapt.var, {"x": x()}, ["axis", "correction", "out"]),
    "norm": (rapt.norm, {"x": x()}, ["ord", "axis"]),
    "cumsum": (rapt.cumsum, {"x": x()}, ["axis", "out"]),
    "causal_conv1d": (rapt.causal_conv1d, {"x": x(2, 3, 4), "weight": x(4, 3)}, ["bias", "state", "activation"]),
    "cross_entropy": (rapt.cross_entropy, {"input": x(), "target": np.zeros(2, np.int64)},
                      ["weight", "ignore_index", "reduction", "label_smoothing", "return_lse"]),
    "cross_entropy_backward": (rapt.cross_entropy_backward, {"input": x(), "target": np.zeros(2, np.int64), "lse": x(2)},
                               ["grad", "weight", "ignore_index", "reduction", "label_smoothing", "out"]),
    "argmin": (rapt.argmin, {"x": x()}, ["axis", "keepdims", "out"]),
    "convert": (rapt.convert, {"x": x(), "to": "f16"}, ["out"]),
    "sqrt": (rapt.sqrt, {"x": x()}, ["out"]),
    "multiply": (rapt.multiply, {"x": x(), "y": x()}, ["out"]),
    "add": (rapt.add, {"x": x(), "y": x()}, ["alpha", "out"]),
    "pow": (rapt.pow, {"x": x(), "y": x()}, ["out"]),
    "fma": (rapt.fma, {"x": x(dtype=np.float16), "y": x(dtype=np.float16), "z": x(dtype=np.float16)}, ["out"]),
    "addcdiv": (rapt.addcdiv, {"x": x(), "tensor1": x(), "tensor2": x()}, ["value", "out"]),
    "lerp": (rapt.lerp, {"start": x(), "end": x(), "weight": x()}, ["out"]),
    "softplus": (rapt.softplus, {"x": x()}, ["beta", "threshold", "out"]),
    "elu": (rapt.elu, {"x": x()}, ["alpha", "out"]),
    "celu_backward": (rapt.celu_backward, {"x": x(), "dy": x()}, ["alpha", "out"]),
    "hardtanh_backward": (rapt.hardtanh_backward, {"x": x(), "dy": x()}, ["min_val", "max_val", "out"]),
    "clamp": (rapt.clamp, {"x": x()}, ["min", "max", "out"]),
    "hash": (rapt.hash, {"x": x()}, []),
    "prepare": (lambda function, **options: rapt.prepare(function, **options)(), {"function": rapt.softmax, "x": x()}, ["axis"]),
    "kernel_isa": (rapt.kernel_isa, {"kernel": "softmax_f32"}, []),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_odd_arguments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, needed, options = CALLS[name]
    monkeypatch.setattr(_library.C, "rapt_status_text", lambda status: pytest.fail(f"status {status} has C's words"))
    function(**{key: np.copy(value) if isinstance(value, np.ndarray) else value for key, value in needed.items()})
    wrong: list[Any] = []
    for argument in (*needed, *options):
        for odd in ODD:
            try:
                function(**{**needed, argument: odd})
            except (TypeError, ValueError) as error:
                if type(error) not in (TypeError, ValueError) or "expected " in str(error):
                    wrong.append((argument, odd, error))
            except Exception as error:
                wrong.append((argument, odd, error))
    assert not wrong


@pytest.mark.parametrize("name", CALLS)
def test_masked_arrays_are_refused(name: str) -> None:
    masked: Call = np.ma.masked_array
    function, needed, _ = CALLS[name]
    for argument, value in needed.items():
        if isinstance(value, np.ndarray):
            with pytest.raises(TypeError, match="masked"):
                function(**{**needed, argument: masked(value, mask=value > 0)})
            with pytest.raises(TypeError, match="masked"):
                function(**{**needed, argument: masked(value)})


def test_results_do_not_go_to_a_list() -> None:
    calls: list[Call] = [rapt.softmax, rapt.exp, rapt.rms_norm, rapt.logsumexp]
    for call in calls:
        with pytest.raises(TypeError, match="out is a list"):
            call(x(), out=[[0.0] * 4] * 2)
        with pytest.raises(TypeError, match="out is an int, not an array"):
            call(x(), out=3)
    residual: Any = [[0.0] * 4] * 2
    with pytest.raises(TypeError, match="residual is a list"):
        rapt.rms_norm(x(), residual=residual)


def test_words_of_messages() -> None:
    wrong: list[tuple[Call, type[Exception], str]] = [
        (lambda: rapt.softmax(x(), scale="2"), TypeError, "scale is '2', not a number"),  # type: ignore[call-overload]
        (lambda: rapt.softmax(x(), axis=1.0), TypeError, "axis is 1.0, not an integer"),  # type: ignore[call-overload]
        (lambda: rapt.softmax(x(), axis=2), ValueError, "axis is 2, above 1"),
        (lambda: rapt.softmax(BrokenDLPack()), ValueError, "x gives no tensor by DLPack: no tensor"),
        (lambda: rapt.softmax(NoCapsule()), ValueError, "x gives no tensor by DLPack"),
        (lambda: rapt.softmax(BrokenArray()), TypeError, "x is no array"),  # type: ignore[call-overload]
        (lambda: rapt.softmax(ReadOnlyDLPack()), ValueError, "x gives no tensor by DLPack"),
        (lambda: rapt.rms_norm(x(), eps=10**400), ValueError, "eps is .* beyond the largest"),
        (
            lambda: rapt.rms_norm(x(), weight_plus_one=1),  # type: ignore[call-overload]
            TypeError,
            "weight_plus_one is 1, not True or False",
        ),
        (lambda: rapt.gated(x(), x(), 3), TypeError, "activation is 3"),  # type: ignore[call-overload]
        (lambda: rapt.rope(x(), [1.0], 2**30), ValueError, "positions is 1073741824, above"),
        (lambda: rapt.convert(x(), np.int64), TypeError, "to is"),
    ]
    for call, error, words in wrong:
        with pytest.raises(error, match=words):
            call()


def test_a_class_is_no_tensor() -> None:
    for _ in range(50):
        with pytest.raises(TypeError, match="x has elements of object"):
            rapt.softmax(np.ndarray)  # type: ignore[call-overload]
