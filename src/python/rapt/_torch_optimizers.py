"""Kernels of PyTorch's fused optimizers: the operations of the single-tensor forms, one by one."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from ._torch_table import Tensor, kernel


def _usable(param: Tensor, grad: Tensor, decay: float, scale: Tensor | None, maximize: bool) -> Tensor:
    """The gradient that a step uses, with a share of the parameter. A scaled one is written back, as PyTorch's kernels do."""
    if scale is not None:
        grad.div_(scale)
    grad = -grad if maximize else grad
    return grad + param * decay if decay else grad


def _adam(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    *,
    lr: Any,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    decoupled: bool,
) -> None:
    if found_inf is not None and found_inf.item() == 1:
        return
    rate = lr.item() if isinstance(lr, Tensor) else lr
    for i, (param, grad, average, squares) in enumerate(zip(params, grads, exp_avgs, exp_avg_sqs)):
        step = state_steps[i].item()
        grad = _usable(param, grad, 0 if decoupled else weight_decay, grad_scale, maximize)
        if weight_decay and decoupled:
            param.mul_(1 - rate * weight_decay)
        average.lerp_(grad, 1 - beta1)
        squares.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        size = rate / (1 - beta1**step)
        root: float = (1 - beta2**step) ** 0.5
        if amsgrad:
            torch.maximum(max_exp_avg_sqs[i], squares, out=max_exp_avg_sqs[i])
            squares = max_exp_avg_sqs[i]
        param.addcdiv_(average, (squares.sqrt() / root).add_(eps), value=-size)


for _overload in ("", ".tensor_lr"):
    kernel("_fused_adamw_" + _overload)(functools.partial(_adam, decoupled=True))
    kernel("_fused_adam_" + _overload)(functools.partial(_adam, decoupled=False))


@kernel("_fused_sgd_")
@kernel("_fused_sgd_.tensor_lr")
def fused_sgd(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    buffers: Sequence[Tensor],
    *,
    weight_decay: float,
    momentum: float,
    lr: Any,
    dampening: float,
    nesterov: bool,
    maximize: bool,
    is_first_step: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    if found_inf is not None and found_inf.item() == 1:
        return
    rate = lr.item() if isinstance(lr, Tensor) else lr
    for i, (param, grad) in enumerate(zip(params, grads)):
        grad = _usable(param, grad, weight_decay, grad_scale, maximize)
        if momentum:
            buffer = buffers[i]
            if is_first_step:
                buffer.copy_(grad)
            else:
                buffer.mul_(momentum).add_(grad * (1 - dampening))
            grad = grad + buffer * momentum if nesterov else buffer
        param.sub_(grad * rate)


@kernel("_fused_adagrad_")
def fused_adagrad(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    state_sums: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    *,
    lr: float,
    lr_decay: float,
    weight_decay: float,
    eps: float,
    maximize: bool,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    if found_inf is not None and found_inf.item() == 1:
        return
    for param, grad, total, step in zip(params, grads, state_sums, state_steps):
        grad = _usable(param, grad, weight_decay, grad_scale, maximize)
        size = lr / (1 + (step.item() - 1) * lr_decay)
        total.addcmul_(grad, grad, value=1)
        param.addcdiv_(grad, total.sqrt().add_(eps), value=-size)
