"""Kernels of PyTorch's operators, with the arguments of their schemas, made of rapt's functions.

rapt.torch.enable() puts them in the place of PyTorch's own for the dispatch key CPU. They get tensors without a history, of
the types that rapt has. What a kernel does not do it hands to the one that it replaces: `original`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

import rapt

from ._torch_elements import gelu
from ._torch_packed import packed
from ._torch_table import TYPES, Exact, NotReplaced, Tensor, kernel, mapped, of, of_contiguous, threads, wide

# ---- products


@kernel("mm", "mm.out")
def mm(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype != b.dtype:
        raise NotReplaced
    if a.shape[1] == 0:
        return a.new_zeros(a.shape[0], b.shape[1])
    return _product(a, b, None)


def _product(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    result: Tensor = rapt.linear(a, packed(b) or b.t(), bias, threads=threads(a.numel() * b.shape[1]))
    return result


def _added(y: Tensor, addend: Tensor, beta: float, alpha: float) -> Tensor:
    """beta * addend + alpha * y. A beta of 0 reads nothing."""
    y = y if alpha == 1 else y * alpha
    if beta == 0:
        return y
    return y + (addend if beta == 1 else addend * beta)


@kernel("addmm", "addmm.out", "addmm_")
def addmm(addend: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    is_bias = addend.dim() == 1 and addend.shape[0] == b.shape[1] and beta == 1 and alpha == 1
    if is_bias and a.dtype == b.dtype and a.shape[1]:
        return _product(a, b, wide(addend))
    return _added(mm(a, b), addend, beta, alpha)


@kernel("bmm", "bmm.out")
def bmm(a: Tensor, b: Tensor) -> Tensor:
    if a.dtype != b.dtype:
        raise NotReplaced
    result: Tensor = rapt.bmm(a, b, threads=threads(a.numel() * b.shape[2]))
    return result


@kernel("baddbmm", "baddbmm.out", "baddbmm_")
def baddbmm(addend: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _added(bmm(a, b), addend, beta, alpha)


@kernel("addbmm", "addbmm.out", "addbmm_")
def addbmm(addend: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """The sum over the batch continues that over the inner dimension."""
    y = mm(a.transpose(0, 1).reshape(a.shape[1], -1), b.reshape(-1, b.shape[2]))
    return _added(y, addend, beta, alpha)


@kernel("addr", "addr.out", "addr_")
def addr(addend: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _added(a[:, None] * b, addend, beta, alpha)


@kernel("dot")
def dot(a: Tensor, b: Tensor) -> Tensor:
    product: Tensor = mm(a[None], b[:, None])[0, 0]
    return product


@kernel("vdot")
def vdot(a: Tensor, b: Tensor) -> Tensor:
    return dot(a, b)


@kernel("mv")
def mv(a: Tensor, b: Tensor) -> Tensor:
    product: Tensor = mm(a, b[:, None])[:, 0]
    return product


@kernel("addmv", "addmv.out", "addmv_")
def addmv(addend: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    return _added(mv(a, b), addend, beta, alpha)


@kernel("_addmm_activation", "_addmm_activation.out")
def addmm_activation(
    addend: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1, use_gelu: bool = False
) -> Tensor:
    y: Tensor = addmm(addend, a, b, beta=beta, alpha=alpha)
    made: Tensor = gelu(y, approximate="tanh") if use_gelu else y.relu()
    return made


@kernel("linalg_solve_triangular", "linalg_solve_triangular.out")
def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    if not left:  # x a = b is aᵀ xᵀ = bᵀ
        return _by_columns(solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT)
    if a.dtype not in (torch.float32, torch.float64) or a.dtype != b.dtype:
        raise NotReplaced
    broadcast: Any = torch.broadcast_shapes
    leading = broadcast(a.shape[:-2], b.shape[:-2])
    a, b = a.expand(*leading, *a.shape[-2:]), b.expand(*leading, *b.shape[-2:])
    if b.numel() == 0:
        return torch.empty_like(b)
    return _by_columns(
        of(rapt.solve_triangular, a.contiguous(), b.contiguous(), upper=upper, unitriangular=unitriangular)
    )


def _by_columns(x: Tensor) -> Tensor:
    """With the strides of LAPACK."""
    y: Tensor = x.mT.contiguous().mT
    return y


# ---- sums


def _summed_type(x: Tensor, dtype: torch.dtype | None) -> Tensor:
    if dtype is None or dtype == x.dtype:
        return x
    if dtype not in TYPES:
        raise NotReplaced if dtype.is_complex else Exact
    return x.to(dtype)


def _reduced(function: Callable[..., Any], x: Tensor, dim: Any, keepdim: bool, dtype: torch.dtype | None) -> Tensor:
    """All dimensions are summed where none is named."""
    axis = None if dim is None or x.dim() == 0 or (isinstance(dim, Sequence) and len(dim) == 0) else dim
    axis = tuple(axis) if isinstance(axis, Sequence) else axis
    result = function(_summed_type(x, dtype), axis=axis, keepdims=keepdim)
    return result if isinstance(result, Tensor) else torch.as_tensor(result)


def _add_sum(name: str, by_dim: str, out: str, function: Callable[..., Any]) -> None:
    @kernel(f"{name}.{by_dim}", f"{name}.{out}")
    def of_dim(x: Tensor, dim: Any, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
        return _reduced(function, x, dim, keepdim, dtype)

    @kernel(name)
    def of_all(x: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        return _reduced(function, x, None, False, dtype)


_add_sum("sum", "dim_IntList", "IntList_out", rapt.sum)
_add_sum("mean", "dim", "out", rapt.mean)
_add_sum("prod", "dim_int", "int_out", rapt.prod)


@kernel("nansum", "nansum.out")
def nansum(x: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> Tensor:
    return _reduced(rapt.sum, torch.where(x.isnan(), 0, x), dim, keepdim, dtype)


@kernel("trace")
def trace(x: Tensor) -> Tensor:
    return _reduced(rapt.sum, x.diagonal(), None, False, None)


@kernel("linalg_vector_norm", "linalg_vector_norm.out")
def vector_norm(
    x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    if ord in (1, 2, math.inf):
        return _reduced(lambda x, **options: rapt.norm(x, ord, **options), x, dim, keepdim, dtype)
    if ord in (0, -math.inf) or x.numel() == 0:
        raise NotReplaced
    of_type = _summed_type(x, dtype)
    powers = of(rapt.pow, wide(of_type).abs(), torch.tensor(float(ord), dtype=wide(of_type).dtype))
    return of(rapt.pow, _reduced(rapt.sum, powers, dim, keepdim, None), torch.tensor(1 / ord, dtype=powers.dtype)).to(
        of_type.dtype
    )


@kernel("norm.ScalarOpt_dim", "norm.out")
def norm_dim(x: Tensor, p: float | None, dim: Any, keepdim: bool = False) -> Tensor:
    return vector_norm(x, 2 if p is None else p, dim, keepdim)


@kernel("norm.ScalarOpt_dim_dtype", "norm.dtype_out")
def norm_dim_dtype(x: Tensor, p: float | None, dim: Any, keepdim: bool = False, *, dtype: torch.dtype) -> Tensor:
    return vector_norm(x, 2 if p is None else p, dim, keepdim, dtype=dtype)


@kernel("var.correction", "var.correction_out")
def var(x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    freedom = 1 if correction is None else correction
    return _reduced(lambda x, **options: rapt.var(x, correction=freedom, **options), x, dim, keepdim, None)


@kernel("std.correction", "std.correction_out")
def std(x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False) -> Tensor:
    return torch.sqrt(var(wide(x), dim, correction=correction, keepdim=keepdim)).to(x.dtype)


@kernel("var_mean.correction")
def var_mean(
    x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return var(x, dim, correction=correction, keepdim=keepdim), _reduced(rapt.mean, x, dim, keepdim, None)


@kernel("std_mean.correction")
def std_mean(
    x: Tensor, dim: Any = None, *, correction: float | None = None, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    return std(x, dim, correction=correction, keepdim=keepdim), _reduced(rapt.mean, x, dim, keepdim, None)


def _add_scan(name: str, function: Callable[..., Any]) -> None:
    @kernel(name, f"{name}.out", f"{name}_")
    def scan(x: Tensor, dim: int, *, dtype: torch.dtype | None = None) -> Tensor:
        x = _summed_type(x, dtype)
        return x.clone() if x.dim() == 0 else of(function, x, dim)


_add_scan("cumsum", rapt.cumsum)
_add_scan("cumprod", rapt.cumprod)


# ---- rows


def _of_rows(function: Callable[..., Any], x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    x = x.float() if half_to_float else x
    if x.dim() == 0:
        return _of_rows(function, x[None], 0, False)[0]
    if x.numel() == 0:
        return torch.empty_like(x)
    result: Tensor = function(x, axis=dim)
    return result


@kernel("_softmax", "_softmax.out")
def softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _of_rows(rapt.softmax, x, dim, half_to_float)


@kernel("_log_softmax", "_log_softmax.out")
def log_softmax(x: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _of_rows(rapt.log_softmax, x, dim, half_to_float)


@kernel("native_layer_norm")
def native_layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    leading = x.shape[: x.dim() - len(shape)]
    cols = math.prod(shape)
    if cols == 0 or not eps >= 0 or any(p is not None and p.dtype != x.dtype for p in (weight, bias)):
        raise NotReplaced
    rows = x.reshape(-1, cols)
    parameters = (None if p is None else p.reshape(-1) for p in (weight, bias))
    y, statistics = rapt.layer_norm(rows, *parameters, eps=eps, return_statistics=True)
    of_rows = (*leading, *[1] * len(shape))
    mean, rstd = (t.view(of_rows).to(x.dtype) for t in (statistics.mean, statistics.rstd))
    return y.view(x.shape), mean, rstd


# ---- convolutions


@kernel("convolution")
def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    dims = weight.dim() - 2
    if x.dim() != weight.dim() or x.dtype != weight.dtype or not 1 <= dims <= 3:
        raise NotReplaced
    steps, pads, gaps, more = (list(sizes) for sizes in (stride, padding, dilation, output_padding))
    if transposed:
        if any(p >= s for p, s in zip(more, steps)):
            raise NotReplaced
        made: Tensor = rapt.conv_transpose(x, weight, bias, steps, pads, more, groups, gaps, threads=threads())
    else:
        function: Any = (rapt.conv1d, rapt.conv2d, rapt.conv3d)[dims - 1]
        made = function(x, weight, bias, steps, pads, gaps, groups, threads=threads())
    return made.contiguous(memory_format=_format_of(x, weight))


def _format_of(x: Tensor, weight: Tensor) -> Any:
    """Channels are last in the result where they are in an operand."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    is_last = last is not None and any(
        t.is_contiguous(memory_format=last) and not t.is_contiguous() for t in (x, weight)
    )
    return last if is_last else torch.contiguous_format


# ---- gradients


@kernel("silu_backward", "silu_backward.grad_input")
def silu_backward(dy: Tensor, x: Tensor) -> Tensor:
    return of_contiguous(rapt.silu_backward, x, dy)


@kernel("gelu_backward", "gelu_backward.grad_input")
def gelu_backward(dy: Tensor, x: Tensor, *, approximate: str = "none") -> Tensor:
    return of_contiguous(rapt.gelu_backward if approximate == "none" else rapt.gelu_tanh_backward, x, dy)


@kernel("_softmax_backward_data", "_softmax_backward_data.out")
def softmax_backward(dy: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    if y.dim() == 0 or y.numel() == 0:
        return torch.zeros_like(y, dtype=input_dtype)
    result: Tensor = rapt.softmax_backward(y.movedim(dim, -1), dy.movedim(dim, -1))
    return result.movedim(-1, dim).to(input_dtype).contiguous()


@kernel("_log_softmax_backward_data", "_log_softmax_backward_data.out")
def log_softmax_backward(dy: Tensor, y: Tensor, dim: int, input_dtype: torch.dtype) -> Tensor:
    if y.dim() == 0 or y.numel() == 0:
        return torch.zeros_like(y, dtype=input_dtype)
    # rapt leaves an element of -inf out. PyTorch adds its dy to the sum. So does rapt for -1e30, whose e^y is 0 too.
    finite = wide(y).clamp_min(-1e30)
    result: Tensor = rapt.log_softmax_backward(finite.movedim(dim, -1), wide(dy).movedim(dim, -1))
    return result.movedim(-1, dim).to(input_dtype).contiguous()


@kernel("tanh_backward", "tanh_backward.grad_input")
def tanh_backward(dy: Tensor, y: Tensor) -> Tensor:
    return mapped(rapt.tanh_backward, y, dy)


@kernel("sigmoid_backward", "sigmoid_backward.grad_input")
def sigmoid_backward(dy: Tensor, y: Tensor) -> Tensor:
    return mapped(rapt.sigmoid_backward, y, dy)


@kernel("log_sigmoid_backward", "log_sigmoid_backward.grad_input")
def log_sigmoid_backward(dy: Tensor, x: Tensor, buffer: Tensor) -> Tensor:
    return mapped(rapt.log_sigmoid_backward, x, dy)


@kernel("glu_backward", "glu_backward.grad_input")
def glu_backward(dy: Tensor, x: Tensor, dim: int) -> Tensor:
    a, b = (wide(part) for part in x.chunk(2, dim))
    gate, of_y = mapped(rapt.sigmoid, b), wide(dy)
    made = torch.cat([of_y * gate, of_y * a * ((1 - gate) * gate)], dim)
    return torch.empty_like(x).copy_(made)


@kernel("mish_backward")
def mish_backward(dy: Tensor, x: Tensor) -> Tensor:
    return mapped(rapt.mish_backward, x, dy)


@kernel("softplus_backward", "softplus_backward.grad_input")
def softplus_backward(dy: Tensor, x: Tensor, beta: float, threshold: float) -> Tensor:
    return mapped(lambda x, dy, out: rapt.softplus_backward(x, dy, beta, threshold, out=out), x, dy)


@kernel("native_layer_norm_backward")
def native_layer_norm_backward(
    dy: Tensor,
    x: Tensor,
    shape: Sequence[int],
    mean: Tensor,
    rstd: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    cols = math.prod(shape)
    if cols == 0 or x.numel() == 0 or (weight is not None and weight.dtype != x.dtype):
        raise NotReplaced
    rows, of_rows = (t.reshape(-1, cols) for t in (x, dy))
    statistics = rapt.NormStatistics(wide(rstd).reshape(-1), wide(mean).reshape(-1))
    flat = None if weight is None else weight.reshape(-1)
    gradients = rapt.layer_norm_backward(rows, of_rows, flat, statistics=statistics)
    of_x, of_parameters = x.shape, tuple(shape)
    made = (g.to(x.dtype).view(s) for g, s in zip(gradients, (of_x, of_parameters, of_parameters)))
    return tuple(g if wanted else None for g, wanted in zip(made, output_mask))


@kernel("convolution_backward")
def convolution_backward(
    dy: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    if x.dim() != weight.dim() or not 1 <= weight.dim() - 2 <= 3:
        raise NotReplaced
    steps, pads, gaps = (list(sizes) for sizes in (stride, padding, dilation))
    if transposed:
        if any(more >= step for more, step in zip(output_padding, steps)):
            raise NotReplaced
        # y is the gradient of the input of a convolution from dy's channels to those of x.
        function: Any = (rapt.conv1d, rapt.conv2d, rapt.conv3d)[weight.dim() - 3]
        dx = function(dy, weight, None, steps, pads, gaps, groups, threads=threads()) if output_mask[0] else None
        dw = (
            rapt.conv_weight(dy, weight.shape, x, steps, pads, gaps, groups, threads=threads())
            if output_mask[1]
            else None
        )
        return dx, dw, rapt.sum(dy, axis=(0, *range(2, dy.dim()))) if output_mask[2] else None
    of_x = (
        rapt.conv_input(x.shape, weight, dy, None, steps, pads, gaps, groups, threads=threads())
        if output_mask[0]
        else None
    )
    of_w = (
        rapt.conv_weight(x, weight.shape, dy, steps, pads, gaps, groups, threads=threads()) if output_mask[1] else None
    )
    of_bias = rapt.sum(dy, axis=(0, *range(2, dy.dim()))) if output_mask[2] else None
    return of_x, of_w, of_bias
