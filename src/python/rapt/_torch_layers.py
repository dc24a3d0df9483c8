"""Functions of torch.nn.functional by rapt, and rope and gated, with gradients.

Calls of 16 bits compute in f32 and round once, forwards and backwards.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal

import torch

import rapt

from ._arrays import TensorLike
from ._gated import Activation
from ._library import ACTIVATION
from ._rope import Layout
from ._threads import thread_count
from ._torch_tensors import check_tensor, check_tensors, differentiable_once, summed_to, widened


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int) -> torch.Tensor:  # type: ignore[override]
        y = rapt.softmax(x.detach(), axis=dim)
        ctx.save_for_backward(y)
        ctx.dim = dim
        return y

    @staticmethod
    @differentiable_once("softmax")
    def backward(ctx: Any, dy: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, None]:
        of_y, of_dy = (x.detach().movedim(ctx.dim, -1) for x in (y, dy))
        return rapt.softmax_backward(of_y, of_dy).movedim(-1, ctx.dim), None


def _converted(input: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    check_tensor(input, "input")
    x = input if dtype is None else input.to(dtype)
    check_tensors(input=x)
    return x


def softmax(input: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """torch.nn.functional.softmax: exp(input) / sum of exp(input) along `dim`, in input's shape and type.

    dtype: input is converted to it first. A TypeError is no dense tensor of floating-point numbers, a ValueError another
    device, or a dim that input lacks. Along another dimension than the last, the tensor is copied.
    """
    y: torch.Tensor = _Softmax.apply(_converted(input, dtype), dim)
    return y


class _LogSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int) -> torch.Tensor:  # type: ignore[override]
        ctx.save_for_backward(x)
        ctx.dim = dim
        return rapt.log_softmax(x.detach(), axis=dim)

    @staticmethod
    @differentiable_once("log_softmax")
    def backward(ctx: Any, dy: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        # Of x and not of the result, because exp of a result of 16 bits may be off by a percent and more.
        of_dy, shape = widened(dy), list(x.shape)
        shape[ctx.dim] = 1
        # A product and a difference of PyTorch are rounded once each: they have the same bits on every CPU.
        weights = rapt.softmax(widened(x), axis=ctx.dim)
        return (of_dy - weights * summed_to(of_dy, shape)).to(x.dtype), None


def log_softmax(input: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """torch.nn.functional.log_softmax: the logarithm of softmax, with its arguments and errors."""
    y: torch.Tensor = _LogSoftmax.apply(_converted(input, dtype), dim)
    return y


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:  # type: ignore[override]
        ctx.save_for_backward(x, weight)
        ctx.eps = eps
        return rapt.rms_norm(x.detach(), None if weight is None else weight.detach(), eps=eps)

    @staticmethod
    @differentiable_once("rms_norm")
    def backward(
        ctx: Any, dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        factors = None if weight is None else weight.detach()
        gradients = rapt.rms_norm_backward(x.detach(), dy.detach(), factors, eps=ctx.eps)
        return (*(_as_needed(gradients, (x, weight), ctx)), None)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.eps = eps
        parameters = (None if p is None else p.detach() for p in (weight, bias))
        return rapt.layer_norm(x.detach(), *parameters, eps=eps)

    @staticmethod
    @differentiable_once("layer_norm")
    def backward(
        ctx: Any, dy: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, ...]:
        factors = None if weight is None else weight.detach()
        gradients = rapt.layer_norm_backward(x.detach(), dy.detach(), factors, eps=ctx.eps)
        return (*(_as_needed(gradients, (x, weight, bias), ctx)), None)


def _as_needed(
    gradients: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor | None], ctx: Any
) -> list[torch.Tensor | None]:
    """The gradients of inputs that need one, in their types."""
    return [
        gradient.to(x.dtype) if x is not None and need else None
        for gradient, x, need in zip(gradients, inputs, ctx.needs_input_grad)
    ]


def _check_normalized(shape: int | Sequence[int], **tensors: torch.Tensor | None) -> int:
    """How many of the last dimensions are normalised."""
    check_tensors(**tensors)
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    for name, x in tensors.items():
        if x is None:
            continue
        last = tuple(x.shape)[max(x.dim() - len(wanted), 0) :]
        if not wanted or last != wanted or (name != "input" and x.dim() != len(wanted)):
            raise ValueError(f"{name} has the shape {tuple(x.shape)} with a normalized_shape of {wanted}")
    return len(wanted)


def _flat(x: torch.Tensor | None, dims: int) -> torch.Tensor | None:
    """The last dimensions as one."""
    return x if x is None or dims == 1 else x.flatten(-dims)


def rms_norm(
    input: torch.Tensor,
    normalized_shape: int | Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
) -> torch.Tensor:
    """torch.nn.functional.rms_norm: input / sqrt(mean(input^2) + eps) * weight over the last dimensions, normalized_shape.

    weight is of normalized_shape and input's type. eps is torch.finfo(input.dtype).eps by default. The result has input's
    shape and type. A TypeError is no dense tensor of floating-point numbers, or several types. A ValueError is another
    device, another shape, or an eps below 0.
    """
    dims = _check_normalized(normalized_shape, input=input, weight=weight)
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    y: torch.Tensor = _RmsNorm.apply(_flat(input, dims), _flat(weight, dims), eps)
    return y.reshape(input.shape)


def layer_norm(
    input: torch.Tensor,
    normalized_shape: int | Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """torch.nn.functional.layer_norm over the last dimensions, normalized_shape, with rms_norm's shapes, types and errors."""
    dims = _check_normalized(normalized_shape, input=input, weight=weight, bias=bias)
    y: torch.Tensor = _LayerNorm.apply(_flat(input, dims), _flat(weight, dims), _flat(bias, dims), eps)
    return y.reshape(input.shape)


def _copied(x: TensorLike) -> Any:
    return x.detach().clone() if isinstance(x, torch.Tensor) else copy.deepcopy(x)


class _Rope(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: torch.Tensor, frequencies: TensorLike, positions: TensorLike, options: dict[str, Any]
    ) -> torch.Tensor:
        y: torch.Tensor = rapt.rope(x.detach(), frequencies, positions, **options)
        if ctx.needs_input_grad[0]:
            # Their owner may change them before the gradient is computed.
            ctx.arguments, ctx.options = (_copied(frequencies), _copied(positions)), options
        return y

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:  # type: ignore[override]
        options = {**ctx.options, "backward": not ctx.options["backward"]}
        return _Rope.apply(dy, *ctx.arguments, options), None, None, None


def rope(
    x: torch.Tensor,
    frequencies: TensorLike,
    positions: TensorLike = 0,
    *,
    layout: Layout = None,
    attention_factor: float = 1.0,
) -> torch.Tensor:
    """rapt.rope, with a gradient of x: the pairs of elements of every head turned by the angles of its token's position.

    x is [batch][heads][tokens][head_dim], or without leading dimensions. The other arguments and the errors are those of
    rapt.rope. frequencies and positions have no gradient.
    """
    check_tensors(x=x)
    options = {"layout": layout, "attention_factor": attention_factor, "backward": False}
    y: torch.Tensor = _Rope.apply(x, frequencies, positions, options)
    return y


_FORWARDS = {name: getattr(rapt, name) for name in ACTIVATION}
_BACKWARDS = {name: getattr(rapt, f"{name}_backward") for name in ACTIVATION}


class _Activated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, name: str) -> torch.Tensor:  # type: ignore[override]
        ctx.save_for_backward(x)
        ctx.name = name
        y: torch.Tensor = _FORWARDS[name](x.detach())
        return y

    @staticmethod
    @differentiable_once("silu and gelu")
    def backward(ctx: Any, dy: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, None]:
        return _BACKWARDS[ctx.name](x.detach(), dy.detach()), None


def _activated(input: torch.Tensor, name: str) -> torch.Tensor:
    check_tensors(input=input)
    y: torch.Tensor = _Activated.apply(input, name)
    return y


def silu(input: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.silu: input / (1 + exp(-input)), of any shape.

    A TypeError is no dense tensor of floating-point numbers, a ValueError another device.
    """
    return _activated(input, "silu")


def gelu(input: torch.Tensor, approximate: Literal["none", "tanh"] = "none") -> torch.Tensor:
    """torch.nn.functional.gelu: by erf, or with approximate="tanh" by tanh, with silu's errors."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"approximate is {approximate!r}, not 'none' or 'tanh'")
    return _activated(input, "gelu" if approximate == "none" else "gelu_tanh")


def _mapping(name: str, function: str, of_result: bool) -> Any:
    """An elementwise function of rapt by the name of torch, whose gradient is one of its result or of its argument."""
    forwards, backwards = getattr(rapt, function), getattr(rapt, f"{function}_backward")

    class Mapped(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, *parameters: float) -> torch.Tensor:  # type: ignore[override]
            y: torch.Tensor = forwards(x.detach(), *parameters)
            ctx.save_for_backward(y if of_result else x)
            ctx.parameters = parameters
            return y

        @staticmethod
        @differentiable_once(name)
        def backward(ctx: Any, dy: torch.Tensor, saved: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            dx = backwards(saved.detach(), dy.detach(), *ctx.parameters)
            return (dx, *(None for _ in ctx.parameters))

    return Mapped


_OF_RESULT = ("sigmoid", "tanh")
_NAMES = {"logsigmoid": "log_sigmoid"}  # of rapt, where torch has another
_MAPPED = {
    name: _mapping(name, _NAMES.get(name, name), name in _OF_RESULT)
    for name in (
        "sigmoid tanh logsigmoid softplus mish elu celu selu hardsigmoid hardswish hardtanh relu relu6".split()
    )
}


def _mapped(name: str, input: torch.Tensor, *parameters: float) -> torch.Tensor:
    check_tensors(input=input)
    y: torch.Tensor = _MAPPED[name].apply(input, *parameters)
    return y


def sigmoid(input: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.sigmoid: 1 / (1 + exp(-input)), with silu's errors."""
    return _mapped("sigmoid", input)


def tanh(input: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.tanh: the hyperbolic tangent, with silu's errors."""
    return _mapped("tanh", input)


def logsigmoid(input: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.logsigmoid: log(sigmoid(input)), with silu's errors."""
    return _mapped("logsigmoid", input)


def mish(input: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.mish: input * tanh(log(1 + exp(input))), with silu's errors."""
    return _mapped("mish", input)


def hardsigmoid(input: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.hardsigmoid: clamp(input + 3, 0, 6) / 6, with silu's errors."""
    return _mapped("hardsigmoid", input)


def hardswish(input: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.hardswish: input * hardsigmoid(input), with silu's errors."""
    return _mapped("hardswish", input)


def relu(input: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.relu: max(input, 0), with silu's errors."""
    return _mapped("relu", input)


def relu6(input: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.relu6: min(max(input, 0), 6), with silu's errors."""
    return _mapped("relu6", input)


def selu(input: torch.Tensor) -> torch.Tensor:
    """torch.nn.functional.selu: elu with the numbers of its paper, with silu's errors."""
    return _mapped("selu", input)


def elu(input: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    """torch.nn.functional.elu: input above 0, else alpha * (exp(input) - 1), with silu's errors."""
    return _mapped("elu", input, alpha)


def celu(input: torch.Tensor, alpha: float = 1.0) -> torch.Tensor:
    """torch.nn.functional.celu: input above 0, else alpha * (exp(input / alpha) - 1). An alpha of 0 is a ValueError."""
    return _mapped("celu", input, alpha)


def hardtanh(input: torch.Tensor, min_val: float = -1.0, max_val: float = 1.0) -> torch.Tensor:
    """torch.nn.functional.hardtanh: min(max(input, min_val), max_val). A min_val above max_val is a ValueError."""
    return _mapped("hardtanh", input, min_val, max_val)


def softplus(input: torch.Tensor, beta: float = 1.0, threshold: float = 20.0) -> torch.Tensor:
    """torch.nn.functional.softplus: log(1 + exp(beta * input)) / beta, or input where beta * input is above threshold.

    A beta or a threshold of 0 is a ValueError.
    """
    return _mapped("softplus", input, beta, threshold)


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, gate: torch.Tensor, up: torch.Tensor, activation: Activation
    ) -> torch.Tensor:
        ctx.save_for_backward(gate, up)
        ctx.activation = activation
        return rapt.gated(gate.detach(), up.detach(), activation)

    @staticmethod
    @differentiable_once("gated")
    def backward(ctx: Any, dy: torch.Tensor, gate: torch.Tensor, up: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradients = rapt.gated_backward(gate.detach(), up.detach(), dy.detach(), ctx.activation)
        return (*_as_needed(gradients, (gate, up), ctx), None)


def gated(gate: torch.Tensor, up: torch.Tensor, activation: Activation = "silu") -> torch.Tensor:
    """activation(gate) * up, of one shape and type, as in SwiGLU ("silu") and GeGLU ("gelu", "gelu_tanh").

    The result has their shape and type. gate and up may be halves of one tensor. A TypeError is no dense tensor of
    floating-point numbers, or several types, a ValueError another device, shape or activation.
    """
    check_tensors(gate=gate, up=up)
    y: torch.Tensor = _Gated.apply(gate, up, activation)
    return y


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, threads: int | None
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        ctx.threads = threads
        return rapt.linear(x.detach(), weight.detach(), None if bias is None else bias.detach(), threads=threads)

    @staticmethod
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # type: ignore[override]
        x, weight = ctx.saved_tensors
        outputs, inputs = weight.shape
        rows = x.reshape(-1, inputs)
        dy_rows = dy.reshape(len(rows), outputs)
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        dx = dweight = dbias = None
        if needs_x:
            dx = _product(dy_rows, weight.t(), ctx.threads).reshape(x.shape)
        if needs_weight:
            dweight = _product(dy_rows.t(), rows.t(), ctx.threads)
        if needs_bias:
            dbias = _product(dy_rows.new_ones(1, len(dy_rows)), dy_rows.t(), ctx.threads)[0]
        return dx, dweight, dbias, None


def _product(x: torch.Tensor, w: torch.Tensor, threads: int | None) -> torch.Tensor:
    """linear with its gradients. rapt.linear refuses layers without inputs, whose products are zeros."""
    y: torch.Tensor = _Linear.apply(x, w, None, threads) if x.shape[1] else x @ w.t()
    return y


def linear(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, *, threads: int | None = None
) -> torch.Tensor:
    """torch.nn.functional.linear: input . weightT + bias.

    input is [...][in_features], weight [out_features][in_features] and bias [out_features], of one type, which the result
    [...][out_features] has too. Products of bf16 are in rapt.linear's bf16 arithmetic, in the gradients too. Every number of
    threads gives the same bits; None is all CPUs where the work pays.

    A TypeError is no dense tensor of floating-point numbers, or several types, a ValueError another device, another shape,
    or in_features of 0.
    """
    check_tensors(input=input, weight=weight, bias=bias)
    if threads is not None:
        thread_count(threads)
    y: torch.Tensor = _Linear.apply(input, weight, bias, threads)
    return y
