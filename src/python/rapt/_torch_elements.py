"""Kernels of PyTorch's functions of elements, made of rapt's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

import rapt

from ._torch_table import (
    WHEN,
    Exact,
    NotReplaced,
    Tensor,
    kernel,
    mapped,
    of,
    of_contiguous,
    promoted,
    wide,
    with_forms,
)


def _unary(name: str, function: Callable[..., Any], apply: Callable[..., Tensor] = mapped) -> None:
    with_forms(name, lambda x: apply(function, x))


# MKL's square root, which PyTorch has of arrays, is not correctly rounded on Intel's processors.
for _name in "sigmoid tanh log log2 log1p expm1 exp2 erf sin cos tan sqrt rsqrt".split():
    _unary(_name, getattr(rapt, _name))
_unary("mish", rapt.mish)
_unary("exp", rapt.exp, of_contiguous)
_unary("silu", rapt.silu, of_contiguous)


@kernel("gelu", "gelu.out", "gelu_")
def gelu(x: Tensor, *, approximate: str = "none") -> Tensor:
    return of_contiguous(rapt.gelu if approximate == "none" else rapt.gelu_tanh, x)


@kernel("softplus", "softplus.out")
def softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    return mapped(lambda x, out: rapt.softplus(x, beta, threshold, out=out), x)


@kernel("log_sigmoid_forward")
def log_sigmoid(x: Tensor) -> tuple[Tensor, Tensor]:
    return mapped(rapt.log_sigmoid, x), torch.empty_like(x)


@kernel("elu", "elu.out", "elu_")
def elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    negative = of(rapt.expm1, wide(x) * input_scale) * (alpha * scale)
    return torch.empty_like(x).copy_(torch.where(x <= 0, negative, wide(x) * scale))


@kernel("elu_backward", "elu_backward.grad_input")
def elu_backward(dy: Tensor, alpha: float, scale: float, input_scale: float, is_result: bool, given: Tensor) -> Tensor:
    of_y, x = wide(dy), wide(given)
    factor = x + alpha * scale if is_result else of(rapt.exp, x * input_scale) * (alpha * scale)
    made = torch.where(given <= 0, of_y * input_scale * factor, of_y * scale)
    return torch.empty_like(given).copy_(made)


def _add_log_of_sum(name: str, exp: Callable[..., Any], scale: float) -> None:
    """The larger one, and log1p of exp of the distance, times a factor for the base."""

    @kernel(name, f"{name}.out")
    def log_of_sum(x: Tensor, y: Tensor) -> Tensor:
        a, b = promoted(x, y)
        larger, smaller = torch.maximum(wide(a), wide(b)), torch.minimum(wide(a), wide(b))
        made = larger + of(rapt.log1p, exp(smaller - larger)) * scale
        return torch.where(larger.isinf() & (larger == smaller), larger, made).to(a.dtype)


_add_log_of_sum("logaddexp", rapt.exp, 1)
_add_log_of_sum("logaddexp2", rapt.exp2, 1 / math.log(2))


@kernel("erfinv", "erfinv.out", "erfinv_")
def erfinv(x: Tensor) -> Tensor:
    """Giles' start (Approximating the erfinv function, 2010), and three of Newton's steps in f64."""
    y = x.double()
    w = -of(rapt.log1p, -(y * y))
    near, far = w - 2.5, torch.sqrt(w) - 3
    start = torch.where(w < 5, _polynomial(_ERFINV_NEAR, near), _polynomial(_ERFINV_FAR, far)) * y
    for _ in range(3):
        slope = of(rapt.exp, -(start * start)) * (2 / math.sqrt(math.pi))
        start = start - (of(rapt.erf, start) - y) / slope
    start = torch.where(y.abs() == 1, y * math.inf, start)
    return torch.empty_like(x).copy_(torch.where(y.abs() > 1, math.nan, start))


_ERFINV_NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
                -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_ERFINV_FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
               0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def _polynomial(coefficients: Sequence[float], x: Tensor) -> Tensor:
    made = torch.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        made = made * x + c
    return made


@kernel("softshrink", "softshrink.out")
def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    numbers = wide(x)
    made = torch.where(x > lambd, numbers - lambd, torch.where(x < -lambd, numbers + lambd, x * 0))
    return torch.empty_like(x).copy_(made)


@kernel("arange.start_out")
def arange(start: float, end: float, step: float = 1, *, out: Tensor) -> Tensor:
    count = math.ceil((end - start) / step) if step else -1
    if count < 0:
        raise Exact  # which says so
    if out.shape != (count,):
        out.resize_(count)
    return out.copy_(torch.arange(count).double() * step + start)


def _in_f64(name: str, function: Callable[[Tensor], Tensor]) -> None:
    """A function made of others in f64."""
    with_forms(name, lambda x: torch.empty_like(x).copy_(function(x.double())))


def _root_beside(x: Tensor) -> Tensor:
    return torch.sqrt((1 - x) * (1 + x))


_in_f64("sinh", lambda x: 0.5 * (of(rapt.expm1, x) - of(rapt.expm1, -x)))
_in_f64("cosh", lambda x: 0.5 * (of(rapt.exp, x) + of(rapt.exp, -x)))
_in_f64("atan", lambda x: of(rapt.atan2, x, torch.ones_like(x)))
_in_f64("asin", lambda x: of(rapt.atan2, x, _root_beside(x)))
_in_f64("acos", lambda x: of(rapt.atan2, _root_beside(x), x))
_in_f64("atanh", lambda x: 0.5 * (of(rapt.log1p, x) - of(rapt.log1p, -x)))
_in_f64("log10", lambda x: of(rapt.log, x) / math.log(10))

_LARGE = 1e150  # whose square is near the end of f64


def _asinh(x: Tensor) -> Tensor:
    size = x.abs()
    square = size * size
    near = of(rapt.log1p, size + square / (1 + torch.sqrt(square + 1)))
    return torch.where(size > _LARGE, of(rapt.log, size) + math.log(2), near).copysign(x)


def _acosh(x: Tensor) -> Tensor:
    beyond = torch.where(x < 1, math.nan, x - 1)
    near = of(rapt.log1p, beyond + torch.sqrt(beyond * (beyond + 2)))
    return torch.where(x > _LARGE, of(rapt.log, x) + math.log(2), near)


_in_f64("asinh", _asinh)
_in_f64("acosh", _acosh)


@kernel("hypot", "hypot.out", "hypot_")
def hypot(x: Tensor, y: Tensor) -> Tensor:
    a, b = (z.double().abs() for z in promoted(x, y))
    larger, smaller = torch.maximum(a, b), torch.minimum(a, b)
    ratio = torch.where(larger > 0, smaller / larger, 0.0)
    made = larger * torch.sqrt(1 + ratio * ratio)
    return torch.where(a.isinf() | b.isinf(), math.inf, made).to(torch.result_type(x, y))


@kernel("sinc", "sinc.out", "sinc_")
def sinc(x: Tensor) -> Tensor:
    angle = wide(x) * math.pi
    return torch.empty_like(x).copy_(torch.where(x == 0, 1.0, of(rapt.sin, angle) / angle))


@kernel("logspace.out")
def logspace(start: float, end: float, steps: int, base: float = 10.0, *, out: Tensor) -> Tensor:
    if out.shape != (steps,):
        out.resize_(steps)
    places = torch.linspace(start, end, steps, dtype=torch.float64)
    return out.copy_(mapped(rapt.pow, torch.full_like(places, base), places))


@kernel("logit", "logit.out", "logit_")
def logit(x: Tensor, eps: float | None = None) -> Tensor:
    p = x.double() if eps is None else x.double().clamp(eps, 1 - eps)
    return torch.empty_like(x).copy_(of(rapt.log, p / (1 - p)))


@kernel("logit_backward", "logit_backward.grad_input")
def logit_backward(dy: Tensor, x: Tensor, eps: float | None = None) -> Tensor:
    p = wide(x)
    low = 0.0 if eps is None else eps
    made = torch.where((p >= low) & (p <= 1 - low), wide(dy) / (p * (1 - p)), math.nan if eps is None else 0.0)
    return torch.empty_like(x).copy_(made)


@kernel("linspace.out")
def linspace(start: float, end: float, steps: int, *, out: Tensor) -> Tensor:
    """From both ends to the middle, as PyTorch's."""
    if out.shape != (steps,):
        out.resize_(steps)
    if steps < 2:
        return out.fill_(start)
    places = torch.arange(steps, dtype=wide(out[:0]).dtype)
    step = (end - start) / (steps - 1)
    return out.copy_(torch.where(places < steps // 2, places * step + start, end - (steps - 1 - places) * step))


@kernel("atan2", "atan2.out", "atan2_")
def atan2(y: Tensor, x: Tensor) -> Tensor:
    return mapped(rapt.atan2, *promoted(y, x))


@kernel("pow.Tensor_Scalar", "pow.Tensor_Scalar_out", "pow_.Scalar")
def pow_by_number(x: Tensor, exponent: float) -> Tensor:
    if isinstance(exponent, complex):
        raise NotReplaced
    return mapped(rapt.pow, x, float(exponent))


@kernel("pow.Tensor_Tensor", "pow.Tensor_Tensor_out", "pow_.Tensor")
def pow_by_tensor(x: Any, exponent: Any) -> Tensor:
    return mapped(rapt.pow, *promoted(x, exponent))


@kernel("pow.Scalar", "pow.Scalar_out")
def pow_of_number(x: float, exponent: Tensor) -> Tensor:
    return mapped(rapt.pow, *promoted(x, exponent))


@kernel("glu", "glu.out")
def glu(x: Tensor, dim: int = -1) -> Tensor:
    a, b = x.chunk(2, dim)
    return a * mapped(rapt.sigmoid, b)


# Products, quotients and sums are rounded one by one, as Python would.


def _sum_with_alpha(x: Any, other: Any, alpha: float) -> Tensor:
    if not isinstance(x, Tensor) or isinstance(alpha, complex):
        raise NotReplaced
    if not isinstance(other, Tensor):
        y: Tensor = x + alpha * other
        return y
    of_x, of_other = promoted(x, other)
    return (wide(of_x) + wide(of_other) * alpha).to(of_x.dtype)


@kernel("add.Tensor", "add.out", "add_.Tensor")
def add(x: Any, other: Any, *, alpha: float = 1) -> Tensor:
    return _sum_with_alpha(x, other, alpha)


@kernel("sub.Tensor", "sub.out", "sub_.Tensor")
def sub(x: Any, other: Any, *, alpha: float = 1) -> Tensor:
    return _sum_with_alpha(x, other, -alpha)


for _name in ("add.Tensor", "sub.Tensor"):
    WHEN[_name] = lambda options: bool(options.get("alpha", 1) != 1)


@kernel("addcmul", "addcmul.out", "addcmul_")
def addcmul(x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    x, a, b = promoted(x, a, b)
    return mapped(lambda x, a, b, out: rapt.addcmul(x, a, b, value=value, out=out), x, a, b)


@kernel("addcdiv", "addcdiv.out", "addcdiv_")
def addcdiv(x: Tensor, a: Tensor, b: Tensor, *, value: float = 1) -> Tensor:
    x, a, b = promoted(x, a, b)
    return mapped(lambda x, a, b, out: rapt.addcdiv(x, a, b, value=value, out=out), x, a, b)


@kernel("lerp.Scalar", "lerp.Scalar_out", "lerp_.Scalar")
def lerp_by_number(start: Tensor, end: Tensor, weight: float) -> Tensor:
    return mapped(rapt.lerp, start, end, float(weight))


@kernel("lerp.Tensor", "lerp.Tensor_out", "lerp_.Tensor")
def lerp_by_tensor(start: Tensor, end: Tensor, weight: Tensor) -> Tensor:
    return mapped(rapt.lerp, start, end, weight)
