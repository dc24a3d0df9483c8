"""Tensors of PyTorch give tensors, arrays give arrays, and `out` comes back as it was given."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dlpack import Tensor
from kinds import Array, Call, Random
from numpy.lib.stride_tricks import as_strided

import rapt

FREQUENCIES = [1.0, 0.5]
CALLS: dict[str, Call] = {
    "softmax": lambda x, **o: rapt.softmax(x, **o), "log_softmax": lambda x, **o: rapt.log_softmax(x, axis=0, **o),
    "logsumexp": lambda x, **o: rapt.logsumexp(x, **o), "rms_norm": lambda x, **o: rapt.rms_norm(x, **o),
    "layer_norm": lambda x, **o: rapt.layer_norm(x, **o), "rope": lambda x, **o: rapt.rope(x, FREQUENCIES, 3, **o),
    "gated": lambda x, **o: rapt.gated(x, x, **o), "exp": lambda x, **o: rapt.exp(x, **o),
    "scale": lambda x, **o: rapt.scale(x, 0.3, **o), "silu": lambda x, **o: rapt.silu(x, **o),
    "gelu": lambda x, **o: rapt.gelu(x, **o), "gelu_tanh": lambda x, **o: rapt.gelu_tanh(x, **o),
    "exp_sum": lambda x, **o: rapt.exp_sum(x, 0.5, **o)[0], "argmax": lambda x, **o: rapt.argmax(x, **o),
    "dot_rows": lambda x, **o: rapt.dot_rows(x[0], x, **o), "tanh": lambda x, **o: rapt.tanh(x, **o),
    "add": lambda x, **o: rapt.add(x, x, alpha=0.5, **o), "clamp": lambda x, **o: rapt.clamp(x, 0, **o),
    "fma": lambda x, **o: rapt.fma(x, 0.5, x, **o), "lerp": lambda x, **o: rapt.lerp(x, x, 0.5, **o),
    "mish_backward": lambda x, **o: rapt.mish_backward(x, x, **o),
}  # fmt: skip
WIDE: dict[str, Call] = {
    "softmax_backward": lambda x, **o: rapt.softmax_backward(x, x, **o), "gelu_backward": lambda x, **o: rapt.gelu_backward(x, x, **o),
    "silu_backward": lambda x, **o: rapt.silu_backward(x, x, **o), "gelu_tanh_backward": lambda x, **o: rapt.gelu_tanh_backward(x, x, **o),
    "rms_norm_backward": lambda x, **o: rapt.rms_norm_backward(x, x, **o)[0],
    "layer_norm_backward": lambda x, **o: rapt.layer_norm_backward(x, x, **o)[0],
}  # fmt: skip
TYPES = ["float32", "float64", "float16", "bfloat16"]


def array_of(x: Array, type: str) -> Array:
    return rapt.convert(x.astype(np.float32), "bf16") if type == "bfloat16" else x.astype(type)


def tensor_of(torch: Any, array: Array, type: str) -> Any:
    if type == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def bits(torch: Any, tensor: Any) -> Any:
    return tensor.view(torch.int16).numpy().view(np.uint16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


@pytest.mark.parametrize(
    "name, type",
    [(name, type) for name in CALLS for type in TYPES] + [(name, type) for name in WIDE for type in TYPES[:2]],
)
def test_torch_in_torch_out(random: Random, name: str, type: str) -> None:
    torch = pytest.importorskip("torch")
    call = (CALLS | WIDE)[name]
    array = array_of(random.normal(size=(4, 6)), type)
    expected = call(array)
    assert isinstance(expected, np.ndarray)
    x = tensor_of(torch, array, type)
    result = call(x)
    assert isinstance(result, torch.Tensor) and np.array_equal(bits(torch, result), expected)
    assert name in ("argmax", "dot_rows") or result.dtype == x.dtype
    out = torch.zeros_like(result)
    assert call(x, out=out) is out and torch.equal(out, result)
    of_numpy = np.zeros_like(expected)
    assert call(array, out=of_numpy) is of_numpy and np.array_equal(of_numpy, expected)
    if name != "dot_rows" and type != "bfloat16":
        other = memoryview(array)  # type: ignore[arg-type]
        assert isinstance(call(other), np.ndarray) and np.array_equal(call(other), expected)


def test_pairs_of_results(random: Random) -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(random.normal(size=(4, 6)))
    results = [*rapt.rms_norm_backward(x, x), *rapt.layer_norm_backward(x, x), *rapt.gated_backward(x, x, x)]
    results += [rapt.convert(x.float(), "bf16"), rapt.convert(x.half(), torch.float32), rapt.prepare(rapt.softmax, x)()]
    assert len(results) == 10 and all(isinstance(result, torch.Tensor) for result in results)
    assert results[7].dtype == torch.bfloat16 and results[8].dtype == torch.float32
    assert isinstance(rapt.exp_sum(x)[1], float) and isinstance(rapt.argmax(x[0]), int)


def test_gradients_are_not_lost() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(3, 4, requires_grad=True)
    calls: list[Call] = [rapt.softmax, rapt.exp, rapt.rms_norm, lambda x: rapt.softmax(x.detach(), bias=x)]
    for call in calls:
        with pytest.raises(ValueError, match=r"(x|bias) requires a gradient, .* rapt.torch, or (x|bias).detach\(\)"):
            call(x)
    assert isinstance(rapt.softmax(x.detach()), torch.Tensor)
    with pytest.raises(ValueError, match="CPU|DLPack"):
        rapt.softmax(torch.empty(3, 4, device="meta"))


def test_tensors_that_numpy_has_not() -> None:
    torch = pytest.importorskip("torch")
    x, pair = torch.ones(2, 3), torch.complex(torch.ones(2, 3), torch.ones(2, 3))
    negated = pair.conj().imag  # a view of ones, which stands for -1
    assert negated.is_neg()
    calls: list[Call] = [
        lambda: rapt.softmax(negated),
        lambda: rapt.softmax(x, bias=negated),
        lambda: rapt.exp(x, out=negated),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"(x|bias|out) is a view of negated numbers: use \1.resolve_neg\(\)"):
            call()
    assert torch.equal(rapt.exp(negated.resolve_neg()), rapt.exp(-x))
    for tensor in (x.to_sparse(), torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)):
        with pytest.raises(ValueError, match="x gives no tensor by DLPack"):
            rapt.softmax(tensor)
    for tensor in (pair, pair.conj(), x.int(), x.bool()):
        with pytest.raises((TypeError, ValueError), match="^x "):
            rapt.softmax(tensor)


def test_integers_and_masks_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x, lengths = np.ones((2, 3), np.float32), torch.tensor([1, 3])
    for integers in (lengths, lengths.to(torch.int16), lengths.to(torch.uint8), lengths.repeat_interleave(2)[::2]):
        assert np.array_equal(rapt.softmax(x, row_lengths=integers), rapt.softmax(x, row_lengths=[1, 3]))
    for numbers in (lengths.bfloat16(), lengths.float(), lengths.bool()):
        with pytest.raises(TypeError, match="row_lengths"):
            rapt.softmax(x, row_lengths=numbers)
    mask = torch.tensor([True, False, True])
    for form in (mask, mask.to(torch.uint8)):
        assert np.array_equal(rapt.softmax(x, mask=form), rapt.softmax(x, mask=mask.numpy()))
        assert np.array_equal(rapt.attention(x, x, x, mask=form[1:]), rapt.attention(x, x, x, mask=[False, True]))
    with pytest.raises(TypeError, match="mask"):
        rapt.softmax(x, mask=mask.bfloat16())


def test_uint16_of_torch_is_no_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch 2.3 has it, and NumPy's uint16 is bf16."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "numpy", lambda x: np.ones(x.shape, np.uint16))
    monkeypatch.setattr(torch.Tensor, "__dlpack__", lambda x: Tensor(np.ones(x.shape, np.uint16)).__dlpack__())
    with pytest.raises(TypeError, match="element type"):
        rapt.softmax(torch.ones(3, dtype=torch.int16))
    assert rapt.softmax(np.ones((2, 3)), row_lengths=torch.ones(2, dtype=torch.int16)).tolist() == [[1, 0, 0]] * 2


def test_torch_is_not_imported(tmp_path: Path) -> None:
    import subprocess
    import sys

    program = "import sys, numpy, rapt; rapt.softmax(numpy.ones(3)); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("name", [name for name in CALLS | WIDE if name not in ("argmax", "dot_rows")])
@pytest.mark.parametrize("shape", [(0, 6), (4, 0), (0, 0)])
def test_empty_results(name: str, shape: tuple[int, ...]) -> None:
    if name == "rope" and shape[1] == 0:
        return  # a head has elements
    for x in (
        np.zeros(shape, np.float32),
        np.zeros((*shape, 2), np.float32)[..., 1],
        np.zeros(shape[::-1], np.float32).T,
    ):
        expected = (CALLS | WIDE)[name](x)
        for out in (np.zeros(expected.shape, np.float32), np.zeros((*expected.shape, 2), np.float32)[..., 0]):
            if out.size and not out.flags.c_contiguous:
                continue
            assert (CALLS | WIDE)[name](x, out=out) is out


@pytest.mark.parametrize(
    "name", ["softmax", "log_softmax", "rms_norm", "layer_norm", "rope", "gated", "attention", "linear"]
)
def test_strides_of_dimensions_of_length_1(random: Random, name: str) -> None:
    """Nothing follows them, so that they may be any number: no multiple of an element, or below 0."""
    others: dict[str, Call] = {
        "attention": lambda x, **o: rapt.attention(x, x, x, **o),
        "linear": lambda x, **o: rapt.linear(x, np.ones((4, 4), np.float32), **o),
    }
    call = (CALLS | others)[name]
    for shape, strides in [
        ((3, 1, 4), (32, 17, 4)),
        ((1, 3, 4), (-3, 32, 4)),
        ((3, 4, 1), (32, 8, 7)),
        ((1, 1, 1), (5, 6, 7)),
    ]:
        if shape[2] == 1 and name in ("rope", "linear"):
            continue
        x = as_strided(random.normal(size=99).astype(np.float32), shape, strides)
        expected = call(x.copy())
        assert np.array_equal(call(x), expected)
        out = as_strided(np.zeros(99, np.float32), shape, strides)
        assert call(x, out=out) is out and np.array_equal(out, expected)
        if name in ("softmax", "rms_norm", "rope", "attention", "linear"):
            function = getattr(rapt, name)
            more = {"attention": (x, x), "linear": (np.ones((4, 4), np.float32),), "rope": (FREQUENCIES, 3)}.get(
                name, ()
            )
            assert np.array_equal(rapt.prepare(function, x, *more)(), expected)


def test_subclasses_of_arrays(tmp_path: Path, random: Random) -> None:
    x = random.normal(size=(3, 4)).astype(np.float32)
    file = np.memmap(tmp_path / "x", np.float32, "w+", shape=(3, 4))
    file[...] = x
    result = rapt.softmax(file)
    assert type(result) is np.ndarray and np.array_equal(result, rapt.softmax(x))
    assert rapt.softmax(x, out=file) is file and np.array_equal(file, result)
    assert type(rapt.softmax(x.view(np.recarray))) is np.ndarray


@pytest.mark.parametrize("type", ["float16", "bfloat16"])
def test_exponentials_of_16_bits(random: Random, type: str) -> None:
    """Rounded once from f32."""
    x = array_of(4 * random.normal(size=(70, 1001)), type)
    to = "f16" if type == "float16" else "bf16"
    wide = rapt.convert(x, "f32")
    assert np.array_equal(rapt.exp(x), rapt.convert(rapt.exp(wide), to))
    y, total = rapt.exp_sum(x, 0.5, 1.0)
    of_wide, expected = rapt.exp_sum(wide, 0.5, 1.0)
    assert np.array_equal(y, rapt.convert(of_wide, to)) and total == expected
    lengths = random.integers(0, 1001, 70)
    every: list[dict[str, Any]] = [
        {},
        {"axis": 0},
        {"row_lengths": lengths, "sinks": 0.5},
        {"causal": True, "scale": 0.3},
    ]
    for options in every:
        assert np.array_equal(rapt.logsumexp(x, **options), rapt.convert(rapt.logsumexp(wide, **options), to))
    strided = x[::2, ::3]
    assert np.array_equal(rapt.exp(strided), rapt.exp(strided.copy()))
    assert np.array_equal(rapt.logsumexp(strided), rapt.logsumexp(strided.copy()))


def test_types_by_name_and_by_dtype(random: Random) -> None:
    x = random.normal(size=5).astype(np.float32)
    names: list[Any] = ["f16", np.float16, np.dtype("f2")]
    for to in names:
        assert rapt.convert(x, to).dtype == np.float16
    assert rapt.convert(x, "bf16").dtype == np.uint16
    assert rapt.convert(x.astype(np.float16), np.float32).dtype == np.float32
