"""The short causal convolution as an operator of PyTorch, in the place of functions of transformers' models.

Those are made of F.conv1d, and have its bits. So has rapt_causal_convolution(), which reads tokens as they lie and keeps no
padding. Calls that need a gradient, and tensors whose tokens are far apart, stay with the model's own function.
"""

from __future__ import annotations

from typing import Any

import torch

from ._library import BF16, F16, F32, F64, C, CausalConvolutionOptions, check
from ._threads import run_tasks
from ._torch_table import Tensor, count_call, threads

# Debian's PyTorch, over which types are checked, lacks what these have.
_torch: Any = torch
_NAME = "causal_conv1d"
_TYPES = {torch.float32: F32, torch.float64: F64, torch.float16: F16, torch.bfloat16: BF16}
_BLOCK, _MOST_TAPS = 256, 16  # channels that a task has
_ACTIVATIONS = {None: False, "silu": True, "swish": True}


def _rows(x: Tensor) -> Tensor:
    """[batch][tokens][channels], which the library can read."""
    x = x.transpose(1, 2)
    batch, tokens, channels = x.shape
    token = x.stride(1) if tokens > 1 else channels
    fits = x.stride(2) == 1 and token >= channels and (batch == 1 or x.stride(0) >= (tokens - 1) * token + channels)
    return x if fits else x.contiguous()


def _convolution(x: Tensor, weight: Tensor, bias: Tensor | None, state: Tensor | None, silu: bool) -> Tensor:
    rows, weights = _rows(x), weight.contiguous()
    batch, tokens, channels = rows.shape
    taps, size = weights.shape[1], rows.element_size()
    wide = x.dtype if x.dtype == torch.float64 else torch.float32
    offsets = None if bias is None else bias.to(wide).contiguous()
    # A copy, which gets the tokens of x.
    before = None if state is None else state[..., state.shape[2] - taps + 1 :].mT.contiguous().clone()
    out = x.new_empty((batch, tokens, channels))
    options: dict[str, Any] = {
        "type": _TYPES[x.dtype],
        "silu": int(silu),
        "batch": batch,
        "tokens": tokens,
        "taps": taps,
        "x_stride": rows.stride(1) if tokens > 1 else channels,
        "x_batch_stride": rows.stride(0) if batch > 1 else 0,
        "y_stride": channels,
        "y_batch_stride": tokens * channels,
        "state_stride": channels,
    }

    def run(first: int, last: int, _: int) -> None:
        begin, end = first * _BLOCK, min(last * _BLOCK, channels)
        of_bias = None if offsets is None else offsets.data_ptr() + begin * offsets.element_size()
        of_state = None if before is None else before.data_ptr() + begin * size
        part = CausalConvolutionOptions(channels=end - begin, bias=of_bias, **options)
        arrays = rows.data_ptr() + begin * size, weights.data_ptr() + begin * taps * size, of_state
        check(C.rapt_causal_convolution(*arrays, out.data_ptr() + begin * size, part))

    blocks, count = -(-channels // _BLOCK), threads(batch * tokens * channels * taps)
    if count == 1:
        run(0, blocks, 0)
    else:
        run_tasks(run, blocks, 0, count)
    count_call(_NAME)
    return out.mT


def _shapes(x: Tensor, weight: Tensor, bias: Tensor | None, state: Tensor | None, silu: bool) -> Tensor:
    return x.new_empty((x.shape[0], x.shape[2], x.shape[1])).mT


class _Defined:
    library: Any = None  # until the process ends: compiled programs call the operator


def define() -> None:
    if _Defined.library is not None:
        return
    library = _Defined.library = _torch.library.Library("rapt", "FRAGMENT")
    library.define(f"{_NAME}(Tensor x, Tensor weight, Tensor? bias, Tensor? state, bool silu) -> Tensor")
    library.impl(_NAME, _convolution, "CPU")
    _torch.library.register_fake(f"rapt::{_NAME}", _shapes, lib=library)


def _is_taken(x: Any, weight: Any, bias: Any, state: Any, activation: Any) -> bool:
    """Whether these are numbers in the memory of the CPU, of the shapes that models have, without gradients."""
    if activation not in _ACTIVATIONS or _torch._C._functorch.maybe_current_level() is not None:
        return False
    for i, given in enumerate((x, weight, bias, state)):
        if given is None and i > 1:
            continue
        if not isinstance(given, torch.Tensor) or given.device.type != "cpu" or given.layout != torch.strided:
            return False
        if given.numel() == 0 or given.dtype != x.dtype or (given.requires_grad and torch.is_grad_enabled()):
            return False
    if x.dtype not in _TYPES or x.dim() != 3 or weight.dim() != 2 or weight.shape[0] != x.shape[1]:
        return False
    if weight.shape[1] > _MOST_TAPS or (bias is not None and bias.shape != x.shape[1:2]):
        return False
    return bool(x.stride(1) == 1 or x.shape[1] == 1 or x.shape[2] == 1)


def convolved(
    _: str, /, hidden_states: Any = None, weight: Any = None, bias: Any = None, activation: Any = None, **__: Any
) -> Any:
    """What a model's function returns, [batch, channels, tokens], or NotImplemented."""
    if not _is_taken(hidden_states, weight, bias, None, activation):
        return NotImplemented
    return _torch.ops.rapt.causal_conv1d(hidden_states, weight, bias, None, _ACTIVATIONS[activation])


def updated(
    _: str,
    /,
    hidden_states: Any = None,
    conv_state: Any = None,
    weight: Any = None,
    bias: Any = None,
    activation: Any = None,
    **__: Any,
) -> Any:
    """The same for a token, after the tokens of conv_state [batch, channels, tokens], which it joins there."""
    if conv_state is None or not _is_taken(hidden_states, weight, bias, conv_state, activation):
        return NotImplemented
    batch, channels, tokens = hidden_states.shape
    if tokens != 1 or conv_state.shape[:2] != (batch, channels) or conv_state.shape[2] < weight.shape[1] - 1:
        return NotImplemented
    result = _torch.ops.rapt.causal_conv1d(hidden_states, weight, bias, conv_state, _ACTIVATIONS[activation])
    conv_state.copy_(torch.cat([conv_state[..., 1:], hidden_states], -1))
    return result
