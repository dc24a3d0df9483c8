"""rapt.torch compared with plain operators of PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kinds import Call, OnEachLevel

torch = pytest.importorskip("torch")
from torch.utils.checkpoint import checkpoint  # noqa: E402

import rapt  # noqa: E402
import rapt.torch as rt  # noqa: E402

Shape = tuple[int, ...]
Calls = list[tuple[str, dict[str, Any]]]  # names, and options
attention: Call = rt.scaled_dot_product_attention
TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
# Largest errors for results and gradients of about 1: some roundings of each type.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.float16: 5e-3, torch.bfloat16: 5e-2}


def plain(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """PyTorch 2's documented equivalent, by matmul and softmax; a query that sees nothing has zeros."""
    if enable_gqa:
        key, value = (x.repeat_interleave(query.shape[-3] // x.shape[-3], -3) for x in (key, value))
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    if scores.shape[-1] == 0:
        return scores @ value
    sees = scores.amax(-1, keepdim=True) > float("-inf")
    return torch.softmax(torch.where(sees, scores, torch.zeros_like(scores)), -1) * sees @ value


def normal(*shape: int, dtype: Any = torch.float64, seed: int = 1, grad: bool = False) -> Any:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator).to(dtype).requires_grad_(grad)


def tensors(dtype: Any = torch.float64, grad: bool = False, q_len: int = 5, kv_len: int = 7, dim: int = 8) -> Any:
    shapes = (3, 2, q_len, dim), (3, 2, kv_len, dim), (3, 2, kv_len, dim)
    return [normal(*shape, dtype=dtype, seed=i, grad=grad) for i, shape in enumerate(shapes)]


def gradients(function: Call, inputs: Any, dy: Any) -> Any:
    """Of those inputs that require one."""
    needed = [x for x in inputs if x.requires_grad]
    return torch.autograd.grad(function(*inputs), needed, dy)


def compare(function: Call, reference: Call, inputs: Any, tolerance: float, **options: Any) -> None:
    """Results and gradients, compared with those of the reference in f64."""
    wide = [x.detach().double().requires_grad_(x.requires_grad) for x in inputs]
    result, expected = function(*inputs, **options), reference(*wide, **options)
    assert result.dtype == inputs[0].dtype and result.shape == expected.shape
    torch.testing.assert_close(result.double(), expected, atol=tolerance, rtol=tolerance)
    if not any(x.requires_grad for x in inputs):
        return
    dy = normal(*result.shape, dtype=result.dtype, seed=9)
    ours = gradients(lambda *x: function(*x, **options), inputs, dy)
    theirs = gradients(lambda *x: reference(*x, **options), wide, dy.double())
    for x, of_x, of_wide in zip([x for x in inputs if x.requires_grad], ours, theirs):
        assert of_x.dtype == x.dtype and of_x.shape == x.shape
        limit = tolerance * max(1, float(of_wide.abs().max()) if of_wide.numel() else 1)
        torch.testing.assert_close(of_x.double(), of_wide, atol=limit, rtol=0)


# ---- attention


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.2},
        {"scale": 0.0},
        {"scale": 0},
        {"attn_mask": torch.ones(5, 7, dtype=torch.bool).tril(1)},
        {"attn_mask": torch.arange(7) % 3 != 1},
        {"attn_mask": torch.ones(3, 1, 5, 1, dtype=torch.bool)},
    ],
)
def test_attention(dtype: Any, options: dict[str, Any]) -> None:
    compare(attention, plain, tensors(dtype, grad=True), TOLERANCE[dtype], **options)


def test_scale_of_0_is_the_mean_of_the_values() -> None:
    q, k, v = tensors()
    assert torch.allclose(attention(q, k, v, scale=0.0), v.mean(-2, keepdim=True).expand_as(q))


@pytest.mark.parametrize("q_len, kv_len", [(5, 7), (7, 5)])
def test_causality_begins_at_the_top_left(q_len: int, kv_len: int) -> None:
    inputs = tensors(q_len=q_len, kv_len=kv_len, grad=True)
    compare(attention, plain, inputs, 1e-12, is_causal=True)
    assert torch.equal(attention(*inputs, is_causal=True)[..., 0, :], inputs[2][..., 0, :])


BIASES = [(5, 7), (5, 1), (1, 7), (1, 1), (7,), (), (2, 5, 7), (2, 1, 1), (3, 1, 5, 7), (3, 2, 1, 1), (1, 2, 5, 1)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", BIASES)
def test_bias_of_any_shape_and_its_gradient(dtype: Any, shape: Shape) -> None:
    inputs = [*tensors(dtype, grad=True), normal(*shape, dtype=dtype, seed=5, grad=True)]
    compare(attention, plain, inputs, TOLERANCE[dtype])


def test_gradient_of_a_bias_has_its_own_type() -> None:
    q, k, v = tensors(torch.bfloat16)
    for dtype in (torch.float32, torch.bfloat16):
        bias = normal(5, 7, dtype=dtype, grad=True)
        attention(q, k, v, bias).sum().backward()
        assert bias.grad.dtype == dtype
    bias = normal(5, 7, dtype=torch.float32, grad=True)  # next to tensors of f64
    attention(*tensors(), bias).sum().backward()
    assert bias.grad.dtype == torch.float32


# Leading dimensions of query, key, value, and the shape of a mask.
LEADING = [
    ((2, 3, 4), (2, 3, 4), (2, 3, 4), (2, 1, 1, 5, 7)),
    ((2, 3, 4), (2, 3, 4), (2, 3, 4), (1, 3, 4, 5, 7)),
    ((2, 3, 4), (2, 3, 4), (2, 3, 4), (3, 1, 1, 7)),
    ((2, 3, 4), (2, 3, 4), (2, 3, 4), (2, 3, 4, 5, 1)),
    ((2, 3, 4), (2, 1, 4), (3, 1), (4, 5, 7)),
    ((1, 3, 4), (2, 1, 1), (2, 3, 1), (5, 1)),
    ((2, 2, 1, 3), (2, 3), (1, 3), (2, 1, 1, 1, 1, 7)),
    ((4,), (2, 3, 1), (), (2, 1, 4, 1, 1)),
    ((), (), (), (5, 7)),
    ((3,), (1,), (), (7,)),
    ((0, 3), (0, 3), (0, 3), (3, 5, 7)),
    ((2, 0), (2, 0), (2, 0), (1, 7)),
    ((2, 0, 3), (1, 1, 3), (3,), (5, 7)),
]


@pytest.mark.parametrize("kind", ["bool", "numbers", None])
@pytest.mark.parametrize("of_query, of_key, of_value, of_mask", LEADING)
def test_dimensions_broadcast(
    of_query: Shape, of_key: Shape, of_value: Shape, of_mask: Shape, kind: str | None
) -> None:
    shapes = (*of_query, 5, 4), (*of_key, 7, 4), (*of_value, 7, 6)
    inputs = [normal(*shape, seed=i, grad=True) for i, shape in enumerate(shapes)]
    mask = normal(*of_mask, seed=7)
    if kind == "numbers":
        compare(attention, plain, [*inputs, mask.requires_grad_()], 1e-12)
    else:
        compare(attention, plain, inputs, 1e-12, attn_mask=mask > 0 if kind else None)


@pytest.mark.parametrize("leading", [(), (2,), (2, 3)])
def test_groups_of_heads(leading: Shape) -> None:
    inputs = [normal(*leading, heads, n, 4, grad=True) for heads, n in ((6, 5), (2, 7), (2, 7))]
    compare(attention, plain, inputs, 1e-12, enable_gqa=True)


@pytest.mark.parametrize("q_len, kv_len", [(0, 7), (5, 0), (0, 0), (1, 1)])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}])
def test_no_queries_or_no_keys(q_len: int, kv_len: int, options: dict[str, Any]) -> None:
    inputs = tensors(q_len=q_len, kv_len=kv_len, grad=True)
    compare(attention, plain, inputs, 1e-12, **options)


def test_queries_that_see_nothing_have_zeros() -> None:
    q, k, v = tensors(grad=True)
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[2] = False
    out = attention(q, k, v, mask)
    assert torch.equal(out[:, :, 2], torch.zeros(3, 2, 8, dtype=torch.float64))
    compare(attention, plain, [q, k, v], 1e-12, attn_mask=mask)
    bias = torch.zeros(5, 7, dtype=torch.float64).masked_fill(~mask, float("-inf"))
    assert not attention(q, k, v, bias)[:, :, 2].any()
    compare(attention, plain, [q, k, v], 1e-12, attn_mask=bias)


def test_strides() -> None:
    """Transposed, sliced and expanded tensors are those of their copies."""
    layouts: list[Call] = [
        lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
        lambda x: x.transpose(-1, -2).contiguous().transpose(-1, -2),
        lambda x: torch.stack([x, x], -1)[..., 1],
        lambda x: x[:1, :1].expand(3, 2, -1, -1),
        lambda x: x[..., :1].expand_as(x),
        lambda x: x.flip(0),
    ]
    for layout in layouts:
        inputs = [layout(x).requires_grad_() for x in tensors(torch.float32)]
        copies = [x.detach().contiguous().requires_grad_() for x in inputs]
        bias = layout(normal(3, 2, 5, 7, dtype=torch.float32))
        dout = layout(normal(3, 2, 5, 8, dtype=torch.float32))
        assert torch.equal(attention(*inputs, bias), attention(*copies, bias.contiguous()))
        assert torch.equal(attention(*inputs, bias > 0), attention(*copies, bias.contiguous() > 0))
        strided = gradients(attention, inputs, dout)
        for x, y in zip(strided, gradients(attention, copies, dout.contiguous())):
            assert torch.equal(x, y)


@pytest.mark.parametrize("dtype", TYPES)
def test_bits_of_attention(dtype: Any) -> None:
    """They depend neither on threads nor on the other sequences of a batch, gradients included."""
    shapes = (3, 4, 200, 16), (3, 2, 300, 16), (3, 2, 300, 16), (200, 300)
    inputs = [normal(*shape, dtype=dtype, seed=i, grad=i < 3) for i, shape in enumerate(shapes)]
    dout = normal(3, 4, 200, 16, dtype=dtype)

    def run(*x: Any, threads: int | None = 1) -> Any:
        return attention(*x, enable_gqa=True, threads=threads)

    expected, of_inputs = run(*inputs), gradients(run, inputs, dout)
    for threads in (3, None):
        assert torch.equal(run(*inputs, threads=threads), expected)
        again = gradients(lambda *x: run(*x, threads=threads), inputs, dout)
        assert all(torch.equal(x, y) for x, y in zip(again, of_inputs))
    alone = [x.detach()[1].requires_grad_() for x in inputs[:3]] + [inputs[3]]
    assert torch.equal(run(*alone), expected[1])
    assert all(torch.equal(x, y[1]) for x, y in zip(gradients(run, alone, dout[1]), of_inputs))


@pytest.mark.parametrize("shape", [(200, 1), (4, 1, 300), (3, 1, 200, 300), (1,)])
def test_bits_of_a_bias_gradient(shape: Shape) -> None:
    q, k, v = (normal(3, 4, n, 16, dtype=torch.float32, seed=n) for n in (200, 300, 301))
    bias = normal(*shape, dtype=torch.float32, grad=True)
    dout = normal(3, 4, 200, 16, dtype=torch.float32)
    of_bias = [gradients(lambda b: attention(q, k, v[:, :, 1:], b, threads=n), [bias], dout)[0] for n in (1, 3)]
    assert of_bias[0].abs().max() > 0 and torch.equal(*of_bias)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_16_bits_are_rounded_once(dtype: Any) -> None:
    inputs = tensors(dtype, grad=True)
    wide = [x.detach().float().requires_grad_() for x in inputs]
    dout = normal(3, 2, 5, 8, dtype=dtype)
    out = attention(*inputs)
    assert torch.equal(out, attention(*wide).to(dtype))
    of_values = torch.autograd.grad(out, inputs[2], dout)[0]  # does not depend on the rounded result
    assert torch.equal(of_values, torch.autograd.grad(attention(*wide), wide[2], dout.float())[0].to(dtype))


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"scale": 0.0}])
def test_gradcheck_of_attention(options: dict[str, Any]) -> None:
    inputs = tensors(grad=True, q_len=3, kv_len=4, dim=4)
    assert torch.autograd.gradcheck(lambda *x: attention(*x, **options), inputs)


@pytest.mark.parametrize("shape", [(2, 3, 4), (3, 1), (1,)])
def test_gradcheck_of_a_bias(shape: Shape) -> None:
    inputs = [*tensors(grad=True, q_len=3, kv_len=4, dim=4), normal(*shape, grad=True)]
    assert torch.autograd.gradcheck(attention, inputs)


# ---- which gradients are computed


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The options of the calls of rapt's attention and its gradient."""
    seen: Calls = []
    for name in ("attention", "attention_backward"):

        def call(*arguments: Any, _name: str = name, _function: Call = getattr(rapt, name), **options: Any) -> Any:
            seen.append((_name, options))
            return _function(*arguments, **options)

        monkeypatch.setattr(rapt, name, call)
    return seen


def test_no_log_sum_exp_without_a_gradient(calls: Calls) -> None:
    q, k, v = tensors(grad=True)
    with torch.no_grad():
        attention(q, k, v)
    attention(q.detach(), k.detach(), v.detach())
    assert [options.get("return_lse", False) for _, options in calls] == [False, False]
    attention(q.detach(), k.detach(), v)
    assert calls[2][1]["return_lse"] is True


@pytest.mark.parametrize("needed", range(4))
def test_only_needed_gradients(calls: Calls, needed: int) -> None:
    inputs = [*tensors(), normal(5, 7)]
    expected = gradients(attention, [x.clone().requires_grad_() for x in inputs], torch.ones(3, 2, 5, 8).double())
    inputs[needed].requires_grad_()
    out = attention(*inputs)
    out.sum().backward()
    assert torch.equal(inputs[needed].grad, expected[needed])
    assert [x.grad is None for x in inputs].count(False) == 1
    assert calls[-1][1]["bias_gradient"] is (needed == 3)


def test_a_frozen_result_has_no_gradient(calls: Calls) -> None:
    q, k, v = tensors()
    assert attention(q, k, v).grad_fn is None
    out = attention(q, k.requires_grad_(), v)
    (out.detach() * 2).sum()
    assert [name for name, _ in calls] == ["attention", "attention"]


def test_results_of_bf16_have_the_arithmetic_that_gradients_need(calls: Calls) -> None:
    q, k, v = tensors(torch.bfloat16)
    attention(q, k, v)
    attention(q, k, v.requires_grad_()).sum().backward()
    assert [options.get("arithmetic") for _, options in calls] == [None, "f32", "f32"]


def test_small_gradients_start_no_thread(calls: Calls) -> None:
    attention(*tensors(grad=True)).sum().backward()
    attention(*tensors(grad=True), threads=2).sum().backward()
    assert [options["threads"] for _, options in calls] == [None, 1, 2, 2]


@pytest.mark.parametrize("needed", range(3))
def test_only_needed_products_of_linear(monkeypatch: pytest.MonkeyPatch, needed: int) -> None:
    inputs = [normal(*shape) for shape in ((3, 4), (5, 4), (5,))]
    inputs[needed].requires_grad_()
    y = rt.linear(*inputs)
    products, linear = [], rapt.linear

    def counted(*x: Any, **options: Any) -> Any:
        products.append(1)
        return linear(*x, **options)

    monkeypatch.setattr(rapt, "linear", counted)
    torch.autograd.backward(y.sum())
    assert len(products) == 1


def test_changed_tensors_are_noticed() -> None:
    q, k, v = tensors(grad=True)
    out = attention(q, k, v)
    with torch.no_grad():
        k.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


# ---- the other functions


def plain_rms_norm(x: Any, shape: Shape, weight: Any = None, eps: float | None = None) -> Any:
    dims = tuple(range(-len(shape), 0))
    y = x * (x.square().mean(dims, keepdim=True) + eps).rsqrt()
    return y if weight is None else y * weight


FREQUENCIES = np.array([1.0, 0.1, 0.01])


def plain_rope(x: Any, positions: Any = None, pairs: bool = False, factor: float = 1.0) -> Any:
    positions = torch.arange(x.shape[-2]) if positions is None else positions
    angles = positions[..., None].double() * torch.from_numpy(FREQUENCIES)
    cos, sin = angles.cos() * factor, angles.sin() * factor
    if positions.dim() == 2:
        cos, sin = cos[:, None], sin[:, None]
    a, b = (x[..., 0:6:2], x[..., 1:6:2]) if pairs else (x[..., :3], x[..., 3:6])
    turned = a * cos - b * sin, b * cos + a * sin
    turned = torch.stack(turned, -1).flatten(-2) if pairs else torch.cat(turned, -1)
    return torch.cat([turned, x[..., 6:]], -1)


F = torch.nn.functional
POSITIONS = torch.tensor([[3, 0, 7, 7], [1, 2, 3, 4]])
# Ours, plain operators of PyTorch, and the shapes of the tensors that both take.
FUNCTIONS: dict[str, tuple[Call, Call, list[Shape]]] = {
    "softmax": (lambda x: rt.softmax(x, -1), lambda x: torch.softmax(x, -1), [(2, 3, 4)]),
    "softmax of columns": (lambda x: rt.softmax(x, 1), lambda x: torch.softmax(x, 1), [(2, 3, 4)]),
    "log_softmax": (lambda x: rt.log_softmax(x, dim=-1), lambda x: torch.log_softmax(x, -1), [(2, 3, 4)]),
    "log_softmax of columns": (lambda x: rt.log_softmax(x, 0), lambda x: torch.log_softmax(x, 0), [(5, 4)]),
    "rms_norm": (
        lambda x, w: rt.rms_norm(x, (4,), w, eps=1e-3),
        lambda x, w: plain_rms_norm(x, (4,), w, 1e-3),
        [(2, 3, 4), (4,)],
    ),
    "rms_norm without a weight": (
        lambda x: rt.rms_norm(x, [3, 4], eps=0.1),
        lambda x: plain_rms_norm(x, (3, 4), None, 0.1),
        [(2, 3, 4)],
    ),
    "layer_norm": (
        lambda x, w, b: rt.layer_norm(x, (4,), w, b),
        lambda x, w, b: F.layer_norm(x, (4,), w, b),
        [(2, 3, 4), (4,), (4,)],
    ),
    "layer_norm of a plane": (
        lambda x, w, b: rt.layer_norm(x, (3, 4), w, b, 0.1),
        lambda x, w, b: F.layer_norm(x, (3, 4), w, b, 0.1),
        [(2, 3, 4), (3, 4), (3, 4)],
    ),
    "layer_norm without a bias": (
        lambda x, w: rt.layer_norm(x, 4, w),
        lambda x, w: F.layer_norm(x, (4,), w),
        [(5, 4), (4,)],
    ),
    "layer_norm alone": (lambda x: rt.layer_norm(x, (4,)), lambda x: F.layer_norm(x, (4,)), [(5, 4)]),
    "rope": (lambda x: rt.rope(x, FREQUENCIES), plain_rope, [(2, 3, 4, 8)]),
    "rope of pairs": (
        lambda x: rt.rope(x, torch.from_numpy(FREQUENCIES), POSITIONS, layout="pairs", attention_factor=1.5),
        lambda x: plain_rope(x, POSITIONS, True, 1.5),
        [(2, 3, 4, 8)],
    ),
    "silu": (rt.silu, lambda x: x * torch.sigmoid(x), [(3, 4)]),
    "gelu": (rt.gelu, lambda x: x / 2 * (1 + torch.erf(x / 2**0.5)), [(3, 4)]),
    "gelu by tanh": (
        lambda x: rt.gelu(x, approximate="tanh"),
        lambda x: x / 2 * (1 + torch.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
        [(3, 4)],
    ),
    "sigmoid": (rt.sigmoid, torch.sigmoid, [(3, 4)]),
    "tanh": (rt.tanh, torch.tanh, [(3, 4)]),
    "logsigmoid": (rt.logsigmoid, F.logsigmoid, [(3, 4)]),
    "mish": (rt.mish, lambda x: x * torch.tanh(torch.log1p(torch.exp(x))), [(3, 4)]),
    "hardsigmoid": (rt.hardsigmoid, lambda x: (x + 3).clamp(0, 6) / 6, [(3, 4)]),
    "hardswish": (rt.hardswish, lambda x: x * (x + 3).clamp(0, 6) / 6, [(3, 4)]),
    "relu": (rt.relu, torch.relu, [(3, 4)]),
    "relu6": (rt.relu6, lambda x: x.clamp(0, 6), [(3, 4)]),
    "selu": (rt.selu, F.selu, [(3, 4)]),
    "celu": (rt.celu, F.celu, [(3, 4)]),
    "elu": (rt.elu, F.elu, [(3, 4)]),
    "hardtanh": (rt.hardtanh, lambda x: x.clamp(-1, 1), [(3, 4)]),
    "softplus": (rt.softplus, F.softplus, [(3, 4)]),
    "elu of alpha": (lambda x: rt.elu(x, 0.3), lambda x: F.elu(x, 0.3), [(3, 4)]),
    "celu of alpha": (lambda x: rt.celu(x, 0.3), lambda x: torch.where(x > 0, x, 0.3 * torch.expm1(x / 0.3)), [(3, 4)]),
    "hardtanh of bounds": (lambda x: rt.hardtanh(x, -0.5, 2), lambda x: x.clamp(-0.5, 2), [(3, 4)]),
    "softplus of beta": (lambda x: rt.softplus(x, 2, 1), lambda x: F.softplus(x, 2, 1), [(3, 4)]),
    "gated": (rt.gated, lambda gate, up: gate * torch.sigmoid(gate) * up, [(3, 4), (3, 4)]),
    "gated by gelu": (
        lambda gate, up: rt.gated(gate, up, "gelu"),
        lambda gate, up: gate / 2 * (1 + torch.erf(gate / 2**0.5)) * up,
        [(3, 4), (3, 4)],
    ),
    "linear": (rt.linear, lambda x, w, b: x @ w.t() + b, [(2, 3, 4), (5, 4), (5,)]),
    "linear without a bias": (rt.linear, lambda x, w: x @ w.t(), [(3, 4), (5, 4)]),
    "linear of a vector": (rt.linear, lambda x, w, b: w @ x + b, [(4,), (5, 4), (5,)]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradcheck(name: str) -> None:
    ours, _, shapes = FUNCTIONS[name]
    inputs = [normal(*shape, seed=i, grad=True) for i, shape in enumerate(shapes)]
    assert torch.autograd.gradcheck(ours, inputs)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_next_to_plain_operators(name: str, dtype: Any) -> None:
    ours, reference, shapes = FUNCTIONS[name]
    inputs = [normal(*shape, dtype=dtype, seed=i, grad=True) for i, shape in enumerate(shapes)]
    compare(ours, reference, inputs, TOLERANCE[dtype])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_each_input_alone(name: str) -> None:
    ours, _, shapes = FUNCTIONS[name]
    inputs = [normal(*shape, seed=i, grad=True) for i, shape in enumerate(shapes)]
    dy = normal(*ours(*inputs).shape, seed=9)
    expected = gradients(ours, inputs, dy)
    for i, of_all in enumerate(expected):
        alone = [x.detach().clone().requires_grad_(i == j) for j, x in enumerate(inputs)]
        ours(*alone).backward(dy)
        assert torch.equal(alone[i].grad, of_all)
        assert all(x.grad is None for j, x in enumerate(alone) if j != i)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_strides_of_functions(name: str) -> None:
    ours, _, shapes = FUNCTIONS[name]
    layouts: list[Call] = [
        lambda x: torch.stack([x, x], -1)[..., 1],
        lambda x: x[..., :1].expand_as(x),
        lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
        lambda x: x.flip(0),
    ]
    for layout in layouts:
        inputs = [layout(normal(*shape, seed=i)).requires_grad_() for i, shape in enumerate(shapes)]
        copies = [x.detach().contiguous().requires_grad_() for x in inputs]
        expected = ours(*copies)
        assert torch.equal(ours(*inputs), expected)
        dy = torch.ones(()).double().expand_as(expected)
        for x, y in zip(gradients(ours, inputs, dy), gradients(ours, copies, dy.contiguous())):
            assert torch.equal(x, y)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_rows(name: str) -> None:
    ours, _, shapes = FUNCTIONS[name]
    if len(shapes[0]) < 2 or name == "log_softmax of columns":
        return
    rows = [(0, *shape[1:]) if shape == shapes[0] else shape for shape in shapes]
    inputs = [normal(*shape, grad=True) for shape in rows]
    if name == "rope of pairs":
        result = rt.rope(inputs[0], FREQUENCIES, layout="pairs")
    else:
        result = ours(*inputs)
    assert result.numel() == 0
    torch.autograd.backward(result.sum())
    assert all(x.grad.shape == x.shape and not x.grad.any() for x in inputs)


def test_layers_without_outputs_and_empty_columns() -> None:
    x, w = normal(3, 4, grad=True), normal(0, 4, grad=True)
    torch.autograd.backward(rt.linear(x, w).sum())
    assert not x.grad.any() and w.grad.shape == (0, 4)
    y = normal(0, 4, grad=True)
    for function in (rt.softmax, rt.log_softmax):
        assert gradients(lambda y: function(y, 0), [y], torch.zeros(0, 4).double())[0].shape == (0, 4)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_of_a_row_alone(name: str, dtype: Any) -> None:
    """Results and gradients of the second row, alone and next to others."""
    ours, _, shapes = FUNCTIONS[name]
    if len(shapes[0]) < 2 or name in ("log_softmax of columns", "rope of pairs"):
        return
    inputs = [normal(*shape, dtype=dtype, seed=i, grad=shape == shapes[0]) for i, shape in enumerate(shapes)]
    alone = [x.detach()[1:2].requires_grad_() if x.requires_grad else x for x in inputs]
    expected = ours(*inputs)
    assert torch.equal(ours(*alone), expected[1:2])
    dy = normal(*expected.shape, dtype=dtype, seed=9)
    for x, y in zip(gradients(ours, alone, dy[1:2]), gradients(ours, inputs, dy)):
        assert torch.equal(x, y[1:2])


@pytest.mark.parametrize("dtype", TYPES)
def test_bits_of_linear(dtype: Any) -> None:
    inputs = [normal(*shape, dtype=dtype, seed=i, grad=True) for i, shape in enumerate([(70, 600), (130, 600), (130,)])]
    dy = normal(70, 130, dtype=dtype)
    results = [rt.linear(*inputs, threads=n) for n in (1, 3, None)]
    of_inputs = [gradients(lambda *x: rt.linear(*x, threads=n), inputs, dy) for n in (1, 3, None)]
    for result, other in zip(results[1:], of_inputs[1:]):
        assert torch.equal(result, results[0])
        assert all(torch.equal(x, y) for x, y in zip(other, of_inputs[0]))


def in_order(x: Any) -> Any:
    """Sums along the last dimension, one addition after the other."""
    return torch.from_numpy(np.add.accumulate(x.numpy(), -1)[..., -1:].copy())


def test_sums_over_repeated_dimensions_are_in_order() -> None:
    """PyTorch's own sums have other orders, which depend on the CPU."""
    q, k, v = (normal(4, n, 16, dtype=torch.float32, seed=n) for n in (200, 300, 301))
    dout = normal(4, 200, 16, dtype=torch.float32)

    def of_bias(*shape: int) -> Any:
        bias = torch.zeros(shape, requires_grad=True)
        return gradients(lambda b: attention(q, k, v[:, 1:], b), [bias], dout)[0]

    assert torch.equal(of_bias(4, 200, 1), in_order(of_bias(4, 200, 300)))
    assert not torch.equal(of_bias(4, 200, 1), of_bias(4, 200, 300).sum(-1, keepdim=True))
    x, dy = normal(30, 500, dtype=torch.float32, grad=True), normal(30, 500, dtype=torch.float32, seed=3)
    of_x = gradients(lambda x: rt.log_softmax(x, -1), [x], dy)[0]
    assert torch.equal(of_x, dy - rapt.softmax(x.detach()) * in_order(dy))


@pytest.mark.parametrize("name", [*FUNCTIONS, "attention"])
def test_bits_on_each_level(name: str, on_each_level: OnEachLevel) -> None:
    shapes: list[Shape] = [*[(2, 3, 70, 24)] * 3, (70, 1)] if name == "attention" else FUNCTIONS[name][2]
    function = attention if name == "attention" else FUNCTIONS[name][0]
    inputs = [normal(*shape, dtype=torch.float32, seed=i, grad=True) for i, shape in enumerate(shapes)]

    def run() -> Any:
        y = function(*inputs)
        results = y.detach(), *gradients(function, inputs, normal(*y.shape, dtype=torch.float32, seed=9))
        return tuple(x.numpy() for x in results)

    on_each_level(run)


def test_other_types_of_softmax() -> None:
    x = normal(3, 4, dtype=torch.float16, grad=True)
    for ours, theirs in ((rt.softmax, torch.softmax), (rt.log_softmax, torch.log_softmax)):
        y = ours(x, -1, dtype=torch.float64)
        assert y.dtype == torch.float64
        torch.testing.assert_close(y, theirs(x.double(), -1))
        torch.autograd.backward(y.square().sum())
    assert x.grad.dtype == torch.float16
    torch.testing.assert_close(
        rt.softmax(torch.arange(4), 0, dtype=torch.float64), torch.arange(4.0).double().softmax(0)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gradients_of_layers_of_16_bits_are_those_of_f32(dtype: Any) -> None:
    """Rounded once: the library widens what it is given."""
    x, up = (normal(3, 40, 5, dtype=dtype, seed=seed, grad=True) for seed in (1, 2))
    w, b = (normal(5, dtype=dtype, seed=seed, grad=True) for seed in (3, 4))
    dy = normal(3, 40, 5, dtype=dtype, seed=5)
    wide_x, wide_up, wide_w, wide_dy = (tensor.detach().float() for tensor in (x, up, w, dy))

    def check(function: Call, inputs: Any, expected: Any) -> None:
        for got, true in zip(gradients(function, inputs, dy), expected):
            assert got.dtype == dtype and torch.equal(got, true.to(dtype)), function

    for dim in (0, 1, -1):
        y = rapt.softmax(x.detach(), axis=dim).float().movedim(dim, -1)
        of_x = rapt.softmax_backward(y, wide_dy.movedim(dim, -1)).movedim(-1, dim)
        check(lambda x, dim=dim: rt.softmax(x, dim), [x], [of_x])
    check(lambda x, w: rt.rms_norm(x, (5,), w, 1e-5), [x, w], rapt.rms_norm_backward(wide_x, wide_dy, wide_w, eps=1e-5))
    check(
        lambda *given: rt.layer_norm(given[0], (5,), *given[1:]),
        [x, w, b],
        rapt.layer_norm_backward(wide_x, wide_dy, wide_w),
    )
    check(rt.silu, [x], [rapt.silu_backward(wide_x, wide_dy)])
    check(rt.gelu, [x], [rapt.gelu_backward(wide_x, wide_dy)])
    check(lambda x: rt.gelu(x, "tanh"), [x], [rapt.gelu_tanh_backward(wide_x, wide_dy)])
    check(lambda gate, up: rt.gated(gate, up, "gelu"), [x, up], rapt.gated_backward(wide_x, wide_up, wide_dy, "gelu"))


def test_eps_of_rms_norm_is_the_types() -> None:
    x = 1e-4 * normal(3, 4, dtype=torch.float32)
    expected = plain_rms_norm(x, (4,), None, torch.finfo(torch.float32).eps)
    torch.testing.assert_close(rt.rms_norm(x, (4,)), expected, atol=0, rtol=1e-6)


def test_positions_may_change_before_the_gradient() -> None:
    x = normal(4, 8, grad=True)
    positions, frequencies = torch.tensor([5, 6, 9, 11]), FREQUENCIES.copy()
    expected = gradients(lambda x: rt.rope(x, frequencies, positions.clone()), [x], torch.ones(4, 8).double())[0]
    y = rt.rope(x, frequencies, positions)
    positions.zero_()
    frequencies[:] = 0
    torch.autograd.backward(y, torch.ones(4, 8).double())
    assert torch.equal(x.grad, expected)


# ---- second derivatives


def summed(x: Any) -> Any:
    """Of squares of results whose gradient alone has a history."""
    return sum(y.square().sum() for y in (x if isinstance(x, tuple) else [x]))


def first(y: Any, inputs: Any, dy: Any = None) -> Any:
    return torch.autograd.grad(y, inputs, torch.ones_like(y) if dy is None else dy, create_graph=True)


def accumulated(inputs: Any) -> Any:
    found = [x.grad for x in inputs]
    for x in inputs:
        x.grad = None
    return found


def by_a_penalty(f: Call, inputs: Any) -> Any:
    y = f(*inputs)
    torch.autograd.backward(y.sum() + summed(first(y, inputs)))
    return accumulated(inputs)


def by_a_penalty_of_another_call(f: Call, inputs: Any) -> Any:
    penalty = summed(first(f(*inputs), inputs))
    torch.autograd.backward(f(*inputs).sum() + penalty)
    return accumulated(inputs)


def by_a_gradient_alone(f: Call, inputs: Any) -> Any:
    return torch.autograd.grad(summed(first(summed(f(*inputs)), inputs)), inputs)


def by_dy(f: Call, inputs: Any) -> Any:
    dy = torch.linspace(1, 2, f(*inputs).numel()).double().reshape(f(*inputs).shape).requires_grad_()
    return torch.autograd.grad(summed(first(f(*inputs), inputs, dy)), [dy])


def by_dy_and_a_second_path(f: Call, inputs: Any) -> Any:
    """As in jvp by two backward walks: of frozen inputs, but one."""
    x, *others = inputs
    dy = torch.ones_like(f(*inputs)).requires_grad_()
    g = first(f(x, *(other.detach() for other in others)), x, dy)[0]
    return torch.autograd.grad((g * x).sum(), [x, dy])


def by_a_second_path(f: Call, inputs: Any) -> Any:
    g = first(f(*inputs), inputs)
    return torch.autograd.grad(sum((of_x * x).sum() for of_x, x in zip(g, inputs)), inputs)


def by_a_power(f: Call, inputs: Any) -> Any:
    """The gradient of y^2: its own walk passes through dy and through y."""
    x = inputs[0]
    y = f(*inputs)
    g = first(y, x, 2 * y)[0]
    return torch.autograd.grad(g.sum(), x, retain_graph=True) + torch.autograd.grad((g * g).sum() + y.sum(), x)


def by_backward(f: Call, inputs: Any) -> Any:
    torch.autograd.backward(f(*inputs).sum(), create_graph=True)
    torch.autograd.backward(f(*inputs).sum() + summed(tuple(accumulated(inputs))))
    return accumulated(inputs)


def by_backward_twice(f: Call, inputs: Any) -> Any:
    """Gradients accumulate: of the sum, and of the squares."""
    torch.autograd.backward(f(*inputs).sum(), create_graph=True)
    torch.autograd.backward(summed(f(*inputs)), create_graph=True)
    return torch.autograd.grad(summed(tuple(accumulated(inputs))), inputs)


def between_layers(f: Call, inputs: Any) -> Any:
    """The parameters are those of layers before and after, of PyTorch's own operators."""
    before = [torch.linspace(-1, 1, x.shape[-1]).double().requires_grad_() for x in inputs]
    y = f(*(torch.tanh(x.detach() * w) for x, w in zip(inputs, before)))
    after = torch.linspace(1, 2, y.shape[-1]).double().requires_grad_()
    loss = torch.tanh(y * after).sum()
    torch.autograd.backward(loss + summed(first(loss, [*before, after])))
    return accumulated([*before, after])


def before_a_layer(f: Call, inputs: Any) -> Any:
    y = f(*inputs)
    g = first(torch.sin(y).sum(), inputs)
    return torch.autograd.grad(torch.cos(g[0]).sum(), inputs[0])


def by_a_hessian(f: Call, inputs: Any) -> Any:
    return [torch.autograd.functional.hessian(lambda x: summed(f(x, *inputs[1:])), inputs[0])]


def by_products_with_the_hessian(f: Call, inputs: Any) -> Any:
    vectors = tuple(torch.cos(x.detach()) for x in inputs)
    return torch.autograd.functional.hvp(lambda *x: summed(f(*x)), tuple(inputs), vectors)[1]


def by_a_checkpoint(f: Call, inputs: Any) -> Any:
    y = checkpoint(f, *inputs, use_reentrant=False)
    torch.autograd.backward(y.sum() + summed(first(y, inputs)))
    return accumulated(inputs)


def by_an_input_of_several(f: Call, inputs: Any) -> Any:
    """Each input in turn is the only one with a gradient."""
    found = []
    for i in range(len(inputs)):
        alone = [x.detach().requires_grad_(i == j) for j, x in enumerate(inputs)]
        found += torch.autograd.grad(summed(first(summed(f(*alone)), alone[i])), alone[i])
    return found


WALKS: list[Call] = [
    by_a_penalty,
    by_a_penalty_of_another_call,
    by_a_gradient_alone,
    by_dy,
    by_dy_and_a_second_path,
    by_a_second_path,
    by_a_power,
    by_backward,
    by_backward_twice,
    between_layers,
    before_a_layer,
    by_a_hessian,
    by_products_with_the_hessian,
    by_a_checkpoint,
    by_an_input_of_several,
]
DIFFERENTIABLE: dict[str, tuple[Call, Call, list[Shape]]] = FUNCTIONS | {
    "attention": (attention, plain, [(2, 3, 4), (2, 5, 4), (2, 5, 4)]),
    "attention with a bias": (attention, plain, [(2, 3, 4), (2, 5, 4), (2, 5, 4), (3, 5)]),
}


def has_every_derivative(name: str) -> bool:
    return name.startswith(("linear", "rope"))


def drawn(name: str) -> tuple[Call, Call, Any]:
    ours, reference, shapes = DIFFERENTIABLE[name]
    return ours, reference, [normal(*shape, seed=i, grad=True) for i, shape in enumerate(shapes)]


def test_every_function_is_in_the_table() -> None:
    """A name of the table begins with the function's."""
    switches = {"clear_packed", "enable", "disable", "enabled", "hash", "report"}  # of test_torch_enable.py
    functions = {name for name in rt.__all__ if name[0].islower()} - switches
    names = {"attention" if name == "scaled_dot_product_attention" else name for name in functions}
    assert all(any(name.split()[0] == function for name in DIFFERENTIABLE) for function in names)


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("walk", WALKS, ids=lambda walk: str(walk.__name__))
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_second_derivatives_are_right_or_refused(name: str, walk: Call) -> None:
    ours, reference, inputs = drawn(name)
    expected = walk(reference, inputs)  # the walk is one that PyTorch answers
    if not has_every_derivative(name):
        function = name.split()[0].replace("attention", "scaled_dot_product_attention")
        with pytest.raises(RuntimeError, match=f"rapt.torch has no second derivative of .*{function}"):
            walk(ours, inputs)
        return
    found = walk(ours, inputs)
    assert len(found) == len(expected)
    for x, y in zip(found, expected):
        torch.testing.assert_close(x, y, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in DIFFERENTIABLE if has_every_derivative(name)])
def test_gradgradcheck(name: str) -> None:
    ours, _, inputs = drawn(name)
    assert torch.autograd.gradgradcheck(ours, inputs)


def test_third_derivatives_of_linear() -> None:
    x, w = normal(3, 4, grad=True), normal(4, 4, grad=True)

    def third(f: Call) -> Any:
        g = first(f(f(x, w), w).sum(), w)[0]
        return torch.autograd.grad(first(summed(g), w)[0].square().sum(), w)[0]

    torch.testing.assert_close(third(rt.linear), third(lambda x, w: x @ w.t()), atol=0, rtol=1e-12)


def test_a_gradient_of_frozen_weights_has_no_history() -> None:
    """That of x does not depend on x."""
    x = normal(3, 4, grad=True)
    assert first(rt.linear(x, normal(5, 4)), x)[0].grad_fn is None
    assert first(rt.rope(x, FREQUENCIES[:2]), x)[0].grad_fn is None


# First derivatives, in graphs that are kept and not walked, or walked past the functions of rapt.torch.
def as_numbers(f: Call, inputs: Any) -> Any:
    return first(summed(f(*inputs)), inputs)


def in_place(f: Call, inputs: Any) -> Any:
    found = as_numbers(f, inputs)
    with torch.no_grad():
        return [x.mul_(2) for x in found]


def detached(f: Call, inputs: Any) -> Any:
    y = f(*inputs)
    factor = summed(first(y, inputs)).detach()
    torch.autograd.backward((factor * y).sum())
    return accumulated(inputs)


def steps(f: Call, inputs: Any) -> Any:
    optimizer = torch.optim.SGD([x.detach().requires_grad_() for x in inputs], lr=0.1, momentum=0.5)
    parameters = optimizer.param_groups[0]["params"]
    for _ in range(3):
        torch.autograd.backward(summed(f(*parameters)), create_graph=True)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    return [x.detach() for x in parameters]


def of_a_layer_after(f: Call, inputs: Any) -> Any:
    """The penalty is on the gradient of a later layer: its derivatives pass through y once."""
    y = f(*inputs)
    w = torch.linspace(1, 2, y.shape[-1]).double().requires_grad_()
    loss = torch.sin(y * w).sum()
    torch.autograd.backward(loss + summed(first(loss, w)))
    return accumulated([w, *inputs])


def of_another_input(f: Call, inputs: Any) -> Any:
    """The gradient is multiplied by w, and the walk goes to w alone."""
    w = torch.ones((), dtype=torch.float64, requires_grad=True)
    penalty = sum((w * x).sum() for x in first(summed(f(*inputs)), inputs))
    torch.autograd.backward(penalty, inputs=[w], retain_graph=True)
    return [*torch.autograd.grad(penalty, w), *accumulated([w])]


class _Stop(torch.autograd.Function):  # type: ignore[name-defined,misc]
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, dy: Any) -> None:
        return None


def of_a_stopped_gradient(f: Call, inputs: Any) -> Any:
    """What no gradient reaches has none: the walk passes the gradients' node, and asks for nothing."""
    y = f(*inputs)
    torch.autograd.backward(y.sum() + sum(_Stop.apply(x).sum() for x in first(y, inputs)))
    return accumulated(inputs)


def by_jacobians(f: Call, inputs: Any) -> Any:
    return torch.autograd.functional.jacobian(f, tuple(inputs), create_graph=True)


FIRST_ONLY: list[Call] = [
    as_numbers,
    in_place,
    detached,
    steps,
    of_a_layer_after,
    of_another_input,
    of_a_stopped_gradient,
    by_jacobians,
]


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("use", FIRST_ONLY, ids=lambda use: str(use.__name__))
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_first_derivatives_may_keep_their_graph(name: str, use: Call) -> None:
    ours, reference, inputs = drawn(name)
    for x, y in zip(use(ours, inputs), use(reference, inputs)):
        torch.testing.assert_close(x, y, atol=1e-9, rtol=1e-9)


def test_a_model_learns() -> None:
    """A block of a decoder: its gradients are those of plain operators, and a step of descent lowers the loss."""
    shapes = {"norm": (8,), "qkv": (24, 8), "o": (8, 8), "gate": (12, 8), "up": (12, 8), "down": (8, 12)}
    weights = {name: (normal(*shape, seed=i) / 3).requires_grad_() for i, (name, shape) in enumerate(shapes.items())}
    x, target = normal(2, 5, 8, seed=11), normal(2, 5, 8, seed=12)

    def loss(f: Call, attend: Call, turn: Call, norm: Call, gate: Call) -> Any:
        y = norm(x, weights["norm"])
        q, k, v = f(y, weights["qkv"]).reshape(2, 5, 3, 1, 8).permute(2, 0, 3, 1, 4)
        y = x + f(attend(turn(q), turn(k), v, is_causal=True).transpose(1, 2).reshape(2, 5, 8), weights["o"])
        y = y + f(gate(f(y, weights["gate"]), f(y, weights["up"])), weights["down"])
        return (y - target).square().mean()

    def ours() -> Any:
        norm = lambda x, w: rt.rms_norm(x, (8,), w, 1e-6)  # noqa: E731
        return loss(rt.linear, attention, lambda x: rt.rope(x, FREQUENCIES), norm, rt.gated)

    before = ours()
    found = torch.autograd.grad(before, list(weights.values()))
    norm = lambda x, w: plain_rms_norm(x, (8,), w, 1e-6)  # noqa: E731
    theirs = loss(lambda x, w: x @ w.t(), plain, plain_rope, norm, lambda g, u: g * torch.sigmoid(g) * u)
    for x_, y in zip(found, torch.autograd.grad(theirs, list(weights.values()))):
        torch.testing.assert_close(x_, y, atol=1e-12, rtol=1e-10)
    with torch.no_grad():
        for weight, gradient in zip(weights.values(), found):
            weight -= 0.1 * gradient
    assert ours() < before


# ---- refusals


def test_refused_arguments_of_attention() -> None:
    q, k, v = tensors()
    mask = torch.ones(5, 7, dtype=torch.bool)
    refused: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (ValueError, "dropout_p is 0.1", {"dropout_p": 0.1}),
        (ValueError, "attn_mask must be None", {"attn_mask": mask, "is_causal": True}),
        (ValueError, r"\(4, 7\), which does not broadcast to \(3, 2, 5, 7\)", {"attn_mask": mask[:4]}),
        (ValueError, "does not broadcast", {"attn_mask": mask.expand(4, 1, 1, 5, 7)}),
        (TypeError, "attn_mask has elements of torch.int64", {"attn_mask": mask.long()}),
        (TypeError, "attn_mask has elements of torch.float16", {"attn_mask": mask.half()}),
        (TypeError, "attn_mask is a ndarray", {"attn_mask": mask.numpy()}),
        (ValueError, "scale", {"scale": float("nan")}),
        (ValueError, "scale", {"scale": 1e-320}),
        (TypeError, "scale", {"scale": "2"}),
        (ValueError, "threads", {"threads": 0}),
        (TypeError, "threads", {"threads": 1.5}),
    ]
    for error, match, options in refused:
        with pytest.raises(error, match=match):
            attention(q, k, v, **options)


def test_refused_shapes_of_attention() -> None:
    q, k, v = tensors()
    refused: list[tuple[str, Any, dict[str, Any]]] = [
        ("query has 1 dimensions", (q[0, 0, 0], k, v), {}),
        ("8 and 7 elements", (q, k[..., :7], v), {}),
        ("0 and 0 elements", (q[..., :0], k[..., :0], v), {}),
        ("7 keys and 6 values", (q, k, v[:, :, :6]), {}),
        ("enable_gqa", (q.expand(3, 2, 5, 8).repeat(1, 2, 1, 1), k, v), {}),
        ("batches", (q, k[:2], v), {}),
        ("no dimension of heads", (q, k, v[0, 0]), {"enable_gqa": True}),
        ("2, 2 and 1 heads", (q, k, v[:, :1]), {"enable_gqa": True}),
        ("2, 3 and 3 heads", (q, k.new_zeros(3, 3, 7, 8), k.new_zeros(3, 3, 7, 8)), {"enable_gqa": True}),
        ("2, 0 and 0 heads", (q, k[:, :0], v[:, :0]), {"enable_gqa": True}),
    ]
    for match, inputs, options in refused:
        with pytest.raises(ValueError, match=match):
            attention(*inputs, **options)


def test_refused_tensors() -> None:
    q, k, v = tensors()
    for error, match, inputs in [
        (TypeError, "query has elements of torch.float64 and key of torch.float32", (q, k.float(), v)),
        (TypeError, "query has elements of torch.float64 and value of torch.float16", (q, k, v.half())),
        (TypeError, "query has elements of torch.int64", (q.long(), k.long(), v.long())),
        (TypeError, "query has elements of torch.complex128", (q * 1j, k, v)),
        (TypeError, "key is a ndarray, not a tensor", (q, k.numpy(), v)),
        (ValueError, "query is on meta", (q.to("meta"), k, v)),
        (TypeError, "query has the layout torch.sparse_coo", (q.to_sparse(), k, v)),
    ]:
        with pytest.raises(error, match=match):
            attention(*inputs)
    x, w = normal(3, 4), normal(4)
    functions: list[Call] = [
        lambda x, w: rt.softmax(x, -1),
        lambda x, w: rt.log_softmax(x, -1),
        lambda x, w: rt.rms_norm(x, (4,), w),
        lambda x, w: rt.layer_norm(x, (4,), w, w),
        lambda x, w: rt.rope(x, FREQUENCIES[:2]),
        lambda x, w: rt.silu(x),
        lambda x, w: rt.tanh(x),
        lambda x, w: rt.softplus(x),
        lambda x, w: rt.gelu(x),
        lambda x, w: rt.gated(x, x),
        lambda x, w: rt.linear(x, w[None]),
    ]
    for call in functions:
        for error, other in ((TypeError, x.long()), (TypeError, x.numpy()), (ValueError, x.to("meta"))):
            with pytest.raises(error):
                call(other, w)
        assert isinstance(call(x, w), torch.Tensor)
    calls: list[Call] = [
        lambda: rt.rms_norm(x, (4,), w.float()),
        lambda: rt.linear(x, w.float()[None]),
        lambda: rt.gated(x, x.float()),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="float64 and .*float32"):
            call()


def test_refused_arguments_of_functions() -> None:
    x, w = normal(3, 4), normal(4)
    calls: list[Call] = [
        lambda: rt.softmax(x, 2),
        lambda: rt.rms_norm(x, (3,)),
        lambda: rt.rms_norm(x, ()),
        lambda: rt.rms_norm(x, (5, 3, 4)),
        lambda: rt.rms_norm(x, (4,), w[:3]),
        lambda: rt.rms_norm(x, (4,), w[None]),
        lambda: rt.rms_norm(x, (4,), eps=-1.0),
        lambda: rt.layer_norm(x, (4,), w, w[:2]),
        lambda: rt.gelu(x, "sigmoid"),  # type: ignore[arg-type]
        lambda: rt.gated(x, x[:2]),
        lambda: rt.gated(x, x, "relu"),  # type: ignore[arg-type]
        lambda: rt.linear(x, w),
        lambda: rt.linear(x, w[None, :3]),
        lambda: rt.linear(x, w[None], w),
        lambda: rt.linear(x, w[None], threads=0),
        lambda: rt.linear(x[:, :0], w[None, :0]),
        lambda: rt.rope(x, FREQUENCIES),
        lambda: rt.rope(x, w[:2].clone().requires_grad_()),
    ]
    for call in calls:
        with pytest.raises(ValueError):
            call()


# ---- the module


def test_bf16_by_dlpack() -> None:
    x = torch.randn(4, 16).to(torch.bfloat16)
    assert np.array_equal(rapt.convert(x, "f32"), x.float().numpy())
    out = torch.empty_like(x)
    rapt.softmax(x, out=out)
    torch.testing.assert_close(out.float(), torch.softmax(x.float(), -1), atol=4e-3, rtol=0)


def test_a_bias_of_bf16_by_dlpack() -> None:
    x, w, bias = torch.randn(2, 3, 9).bfloat16(), torch.randn(4, 3, 3).bfloat16(), torch.randn(4).bfloat16()
    assert torch.equal(rapt.conv1d(x, w, bias), rapt.conv1d(x, w, bias.float()))
    assert torch.equal(rapt.linear(x, w[:, 0].repeat(1, 3), bias), rapt.linear(x, w[:, 0].repeat(1, 3), bias.float()))


def test_the_module_is_loaded_only_on_request() -> None:
    program = "import sys, rapt; assert 'rapt.torch' not in sys.modules; import rapt.torch; print(rapt.torch.__all__)"
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == str(rt.__all__) and all(callable(getattr(rt, name)) for name in rt.__all__)


def test_the_tested_version_is_named() -> None:
    assert f"PyTorch {'.'.join(torch.__version__.split('.')[:2])}." in rt.__doc__


@pytest.mark.skipif("RAPT_WHEEL" not in os.environ, reason="mypy reads PyTorch for a minute; run.sh does it")
def test_types(cache: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    package = Path(rapt.__file__).parent
    file = tmp_path / "typical_torch.py"
    file.write_text(
        "import torch\nimport rapt.torch\n"
        "def f(x: torch.Tensor) -> torch.Tensor:\n"
        "    return rapt.torch.scaled_dot_product_attention(x, x, rapt.torch.softmax(x, -1), is_causal=True)\n"
    )
    modules = [*package.glob("torch.py"), *package.glob("_torch*.py")]
    assert {"torch.py", "_torch_delta.py"} <= {module.name for module in modules}
    answer = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, *modules, file, __file__],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin"}
        | ({} if package.parent.name == "site-packages" else {"MYPYPATH": package.parent}),
        cwd=Path(__file__).parent,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
