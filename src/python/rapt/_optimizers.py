"""Steps of AdamW, Adam and SGD, in place."""

from __future__ import annotations

from typing import Any

from ._arguments import flag, integer, number
from ._arrays import Array, TensorLike, address, as_array, as_output, check_output, element_type
from ._library import BF16, F16, F32, AdamwOptions, C, SgdOptions, check

_TYPES = (F32, F16, BF16)


def _contiguous(array: Array, name: str) -> Array:
    if not array.flags.c_contiguous:
        raise ValueError(f"{name} is not contiguous")
    return array


def _parameter(param: Any, grad: TensorLike) -> tuple[Array, Array, int, int]:
    of_param, of_grad = as_output(param, "param"), as_array(grad, "grad")
    rapt_type, grad_type = element_type(of_param, "param"), element_type(of_grad, "grad")
    if grad_type not in _TYPES:
        raise TypeError(f"grad has elements of {of_grad.dtype.name}, not f32, f16 or bf16")
    check_output(of_param, "param", of_grad.shape, _TYPES)
    return _contiguous(of_param, "param"), _contiguous(of_grad, "grad"), rapt_type, grad_type


def _state(state: Any, name: str, like: Array) -> Array:
    return _contiguous(check_output(as_output(state, name), name, like.shape, (F32,)), name)


def adamw_step(
    param: Any,
    grad: TensorLike,
    exp_avg: Any,
    exp_avg_sq: Any,
    *,
    step: int,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    max_exp_avg_sq: Any = None,
    decay_in_gradient: bool = False,
    maximize: bool = False,
) -> None:
    """A step of torch.optim.AdamW, with the operations of its single-tensor path, or of Adam with decay_in_gradient.

    param and grad are f32, f16 or bf16, the other arrays f32. All have one shape and are contiguous; all but grad are written.

    step             the number of this step, from 1
    lr, betas, eps   the rate, those of the averages exp_avg and exp_avg_sq, and what is added to a root
    weight_decay     a share of param, which is subtracted times lr
    maximize         takes the gradient with the other sign
    max_exp_avg_sq   amsgrad's state

    A TypeError is another type of elements, a ValueError another shape, a rate out of range, or an overlap.
    """
    of_param, of_grad, rapt_type, grad_type = _parameter(param, grad)
    average, squares = _state(exp_avg, "exp_avg", of_param), _state(exp_avg_sq, "exp_avg_sq", of_param)
    most = None if max_exp_avg_sq is None else _state(max_exp_avg_sq, "max_exp_avg_sq", of_param)
    options = AdamwOptions(
        type=rapt_type,
        grad_type=grad_type,
        count=of_param.size,
        step=integer(step, "step", 1),
        lr=number(lr, "lr"),
        beta1=number(betas[0], "betas[0]"),
        beta2=number(betas[1], "betas[1]"),
        eps=number(eps, "eps"),
        weight_decay=number(weight_decay, "weight_decay"),
        decay_in_gradient=int(flag(decay_in_gradient, "decay_in_gradient")),
        maximize=int(flag(maximize, "maximize")),
    )
    arrays = address(of_param), address(of_grad), address(average), address(squares)
    check(C.rapt_adamw_step(*arrays, None if most is None else address(most), options))


def sgd_step(
    param: Any,
    grad: TensorLike,
    momentum_buffer: Any = None,
    *,
    lr: float = 1e-3,
    momentum: float = 0.0,
    dampening: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    first_step: bool = False,
    maximize: bool = False,
) -> None:
    """A step of torch.optim.SGD, with the operations of its single-tensor path, and adamw_step's arrays and errors.

    momentum_buffer belongs to a momentum. With first_step it is written, and not read. lr, dampening, weight_decay, nesterov and
    maximize are torch.optim.SGD's.
    """
    of_param, of_grad, rapt_type, grad_type = _parameter(param, grad)
    buffer = None if momentum_buffer is None else _state(momentum_buffer, "momentum_buffer", of_param)
    options = SgdOptions(
        type=rapt_type,
        grad_type=grad_type,
        count=of_param.size,
        lr=number(lr, "lr"),
        momentum=number(momentum, "momentum"),
        dampening=number(dampening, "dampening"),
        weight_decay=number(weight_decay, "weight_decay"),
        nesterov=int(flag(nesterov, "nesterov")),
        first_step=int(flag(first_step, "first_step")),
        maximize=int(flag(maximize, "maximize")),
    )
    check(C.rapt_sgd_step(address(of_param), address(of_grad), None if buffer is None else address(buffer), options))
