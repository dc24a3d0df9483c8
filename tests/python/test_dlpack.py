"""DLPack's versions and flags: what is read-only is an input and no output, and bf16 stays bf16. JAX is one such library."""

import gc
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from dlpack import IS_COPIED, READ_ONLY, OldTensor, Tensor, alive, bf16_tensor
from kinds import Array, Call, Random
from test_tensors import CALLS, WIDE

import rapt
from rapt import _arrays

ALL: dict[str, Call] = {**CALLS, **WIDE}
INPUTS: dict[str, Call] = {
    "read-only": lambda x: Tensor(x, READ_ONLY),
    "a copy": lambda x: Tensor(x, IS_COPIED),
    "a later version": lambda x: Tensor(x, version=(1, 9)),
    "without keywords": OldTensor,
    "without flags": lambda x: Tensor(x, old=True),
}
OUTPUTS = {name: form for name, form in INPUTS.items() if name != "a later version"}


class OfNumPy:
    """Real capsules of an array, which NumPy 2.1 and later give a version and flags."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def bf16(x: Array) -> Any:
    return rapt.convert(x.astype(np.float32), "bf16")


@pytest.fixture(autouse=True)
def memory_is_freed() -> Iterator[None]:
    yield
    gc.collect()
    assert not alive


@pytest.fixture
def no_ml_dtypes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    modules: Any = sys.modules
    monkeypatch.setitem(modules, "ml_dtypes", None)
    _arrays._bfloat16.cache_clear()
    yield
    _arrays._bfloat16.cache_clear()


@pytest.mark.parametrize("form", INPUTS)
@pytest.mark.parametrize("name", ALL)
def test_inputs(random: Random, name: str, form: str) -> None:
    call, x = ALL[name], random.normal(size=(4, 6)).astype(np.float32)
    before = x.copy()
    if name != "dot_rows":  # whose test calls x[0]
        assert np.array_equal(call(INPUTS[form](x)), call(x)) and np.array_equal(x, before)
    tensor = INPUTS[form](x)
    assert np.array_equal(
        rapt.attention(tensor, tensor, tensor, bias=INPUTS[form](x[:, :4])), rapt.attention(x, x, x, bias=x[:, :4])
    )
    assert np.array_equal(rapt.linear(tensor, tensor, add=INPUTS[form](x[0, :4])), rapt.linear(x, x, add=x[0, :4]))


@pytest.mark.parametrize("form", OUTPUTS)
@pytest.mark.parametrize("name", ALL)
def test_outputs(random: Random, name: str, form: str) -> None:
    call, x = ALL[name], random.normal(size=(4, 6)).astype(np.float32)
    expected = call(x)
    memory = np.full_like(expected, 7)
    with pytest.raises(ValueError, match="^out is read-only"):
        call(x, out=OUTPUTS[form](memory))
    assert (memory == 7).all()
    out = Tensor(memory)
    assert call(x, out=out) is out and np.array_equal(memory, expected)


@pytest.mark.parametrize("form", OUTPUTS)
def test_other_outputs(random: Random, form: str) -> None:
    x = random.normal(size=(4, 4)).astype(np.float32)
    memory = np.full_like(x, 7)
    calls: list[Call] = [
        lambda out: rapt.softmax(x, axis=0, out=out),
        lambda out: rapt.attention(x, x, x, out=out),
        lambda out: rapt.linear(x, x, out=out),
        lambda out: rapt.linear(x[:2], x, y_rows=[3, 1], out=out),
        lambda out: rapt.prepare(rapt.softmax, x, out=out)(),
        lambda out: rapt.rms_norm(x, residual=out),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="^(out|residual) is read-only"):
            call(OUTPUTS[form](memory))
        assert (memory == 7).all()
    for call in calls:
        call(Tensor(memory))
        assert (memory != 7).any()
        memory[...] = 7


def test_rows_of_a_list_are_no_output() -> None:
    out: Any = [[0.0] * 4] * 4
    x = np.ones((2, 4), np.float32)
    with pytest.raises(TypeError, match="out is a list"):
        rapt.linear(x, np.ones((4, 4), np.float32), y_rows=[3, 1], out=out)


def test_another_version_of_dlpack() -> None:
    with pytest.raises(ValueError, match=r"x gives no tensor by DLPack: version 2.3 of DLPack, and rapt reads 1"):
        rapt.softmax(Tensor(np.ones(4), version=(2, 3)))


def test_the_version_is_asked_for() -> None:
    class Asked(Tensor):
        def __dlpack__(self, **options: Any) -> Any:
            assert options == {"max_version": (1, 0)}
            return super().__dlpack__(**options)

    x = np.ones((2, 4), np.float32)
    out: Any = Asked(x)
    rapt.softmax(Asked(x), out=out)
    assert (x == 0.25).all()


def test_types_of_other_packages_do_not_matter() -> None:
    """ctypes.pythonapi is one object of the whole program."""
    import ctypes

    ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.c_void_p] * 2
    assert rapt.softmax(Tensor(np.ones(4))).tolist() == [0.25] * 4


def test_capsules_of_numpy() -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    expected = rapt.softmax(x)
    softmax: Call = rapt.softmax
    assert np.array_equal(softmax(OfNumPy(x)), expected)
    if np.lib.NumpyVersion(np.__version__) < "2.1.0":
        with pytest.raises(ValueError, match="out is read-only"):
            softmax(x, out=OfNumPy(np.ones_like(x)))
        pytest.skip("the capsules of NumPy before 2.1 have no flags")
    out = np.ones_like(x)
    softmax(x, out=OfNumPy(out))
    assert np.array_equal(out, expected)
    out.flags.writeable = x.flags.writeable = False
    assert np.array_equal(rapt.softmax(OfNumPy(x)), expected)
    with pytest.raises(ValueError, match="out is read-only"):
        softmax(x, out=OfNumPy(out))


# ---- bf16


BF16_CALLS: dict[str, Call] = {name: call for name, call in CALLS.items() if name not in ("dot_rows", "argmax")} | {
    "softmax of columns": lambda x, **o: rapt.softmax(x, axis=0, **o),
    "attention": lambda x, **o: rapt.attention(x, x, x, **o),
    "linear": lambda x, **o: rapt.linear(x, x, **o),
}


@pytest.mark.parametrize("name", BF16_CALLS)
def test_bf16_of_ml_dtypes(random: Random, name: str) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    bits = bf16(random.normal(size=(4, 6)))
    call = BF16_CALLS[name]
    expected = call(bits)
    for x in (bf16_tensor(bits), bf16_tensor(bits, OldTensor), bits.view(bfloat16)):
        result = call(x)
        assert type(result) is np.ndarray and result.dtype == bfloat16
        assert np.array_equal(result.view(np.uint16), expected)
    out = np.zeros_like(expected)
    for of_x in (bits, bf16_tensor(bits), bits.view(bfloat16)):
        for of_out in (out, bf16_tensor(out), out.view(bfloat16)):
            out[...] = 0
            assert call(of_x, out=of_out) is of_out and np.array_equal(out, expected)


@pytest.mark.parametrize("name", BF16_CALLS)
def test_bf16_without_ml_dtypes(random: Random, name: str, no_ml_dtypes: None) -> None:
    """There is no array for the result, but memory that is given holds it."""
    bits = bf16(random.normal(size=(4, 6)))
    call = BF16_CALLS[name]
    with pytest.raises(TypeError, match="a result of bf16 has no type in NumPy: install ml_dtypes, or give `out`"):
        call(bf16_tensor(bits))
    expected = call(bits)
    out = np.zeros_like(expected)
    for of_out in (out, bf16_tensor(out)):
        out[...] = 0
        assert call(bf16_tensor(bits), out=of_out) is of_out and np.array_equal(out, expected)


def test_bf16_of_two_kinds(random: Random, no_ml_dtypes: None) -> None:
    """The bits of NumPy's uint16 and DLPack's bf16 are one type of tensors."""
    bits = bf16(random.normal(size=(4, 6)))
    wide, tensor = rapt.convert(bits, "f32"), bf16_tensor(bits)
    assert np.array_equal(rapt.gated(bits, tensor), rapt.gated(bits, bits))
    assert np.array_equal(rapt.linear(bits, tensor), rapt.linear(bits, bits))
    assert np.array_equal(
        rapt.linear(wide, rapt.pack_weights([tensor, bits])), rapt.linear(wide, np.concatenate([wide, wide]))
    )
    assert rapt.dot(bits[0], bf16_tensor(bits[0])) == rapt.dot(bits[0], bits[0])
    assert np.array_equal(rapt.rms_norm(bits, bf16_tensor(bits[0])), rapt.rms_norm(bits, bits[0]))
    sums = bits.copy(), bits.copy()
    normed = rapt.rms_norm(bits, residual=sums[0]), rapt.rms_norm(bits, residual=bf16_tensor(sums[1]))
    assert np.array_equal(*normed) and np.array_equal(*sums) and np.array_equal(sums[1], bf16(2 * wide))
    assert np.array_equal(rapt.convert(tensor, "f32"), wide) and rapt.argmax(bf16_tensor(bits[0])) == int(
        wide[0].argmax()
    )
    q, scales = rapt.quantize_rows(tensor)
    assert np.array_equal(q, rapt.quantize_rows(bits)[0])
    narrow = bf16(scales)
    for of_scales in (narrow, bf16_tensor(narrow)):
        assert np.array_equal(
            rapt.dequantize_rows(q, "i8", of_scales), rapt.dequantize_rows(q, "i8", rapt.convert(narrow, "f32"))
        )


# ---- JAX


def test_jax(random: Random) -> None:
    jax, jnp = pytest.importorskip("jax"), pytest.importorskip("jax.numpy")
    x = random.normal(size=(4, 6)).astype(np.float32)
    immutable = jnp.asarray(np.ones((4, 6), np.float32))
    for name, call in ALL.items():
        if name == "argmax":  # whose results are int64, which JAX lacks by default
            continue
        expected = call(x)
        if name != "dot_rows":
            result = call(jnp.asarray(x))
            assert type(result) is type(expected) and np.array_equal(result, expected)
        with pytest.raises(ValueError, match="^out is read-only"):
            call(x, out=jnp.ones(expected.shape, expected.dtype))
        with pytest.raises(ValueError, match="^out is read-only"):
            call(x, out=np.asarray(jnp.ones(expected.shape, expected.dtype)))
    with pytest.raises(ValueError, match="^residual is read-only"):
        rapt.rms_norm(x, residual=immutable)
    assert (np.asarray(immutable) == 1).all()
    bits = bf16(x)
    for name, call in BF16_CALLS.items():
        result = call(jnp.asarray(x, jnp.bfloat16))
        assert result.dtype == jnp.bfloat16 and np.array_equal(result.view(np.uint16), call(bits))
        assert jnp.asarray(result).dtype == jnp.bfloat16
    assert np.array_equal(
        rapt.softmax(x, bias=jnp.asarray(x, jnp.bfloat16)), rapt.softmax(x, bias=rapt.convert(bits, "f32"))
    )
    counts = np.arange(6, dtype=np.uint16)
    assert np.array_equal(rapt.softmax(x, bias=jnp.asarray(counts)), rapt.softmax(x, bias=counts.astype(np.float32)))
    assert jax.numpy.asarray(rapt.softmax(jnp.asarray(x))).dtype == jnp.float32


def test_bf16_of_jax_next_to_torch(random: Random) -> None:
    """All gradients are tensors of PyTorch where q is one."""
    torch, jnp = pytest.importorskip("torch"), pytest.importorskip("jax.numpy")
    x = random.normal(size=(4, 6)).astype(np.float32)
    of_torch, of_jax = torch.from_numpy(x).bfloat16(), jnp.asarray(x, jnp.bfloat16)
    out, lse = rapt.attention(of_torch, of_jax, of_jax, return_lse=True)
    gradients = rapt.attention_backward(of_torch, of_jax, of_jax, out, out, lse)
    expected = rapt.attention_backward(of_torch, of_torch, of_torch, out, out, lse)
    assert gradients.dk.dtype == torch.bfloat16 and torch.equal(gradients.dk, expected.dk)
