"""The causal depthwise convolution with state of Mamba, Qwen3-Next and LFM2."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import (
    TensorLike,
    address,
    arithmetic_type,
    as_array,
    as_numbers,
    as_output,
    check_output,
    element_type,
    empty,
    in_kind_of,
    may_overlap,
)
from ._library import BF16, F16, F32, F64, C, CausalConvolutionOptions, check

_TYPES = (F32, F64, F16, BF16)
_MOST_TAPS = 16


def causal_conv1d(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    state: Any = None,
    activation: str | None = None,
) -> Any:
    """Sums over the last tokens of each channel: x [batch, tokens, channels], weight [channels, taps], the newest token last.

    state [batch, taps - 1, channels] holds the tokens before x and gets the last ones: a sequence has the same bits at once,
    in chunks and token by token. Without it there are none before x. activation is None or "silu". The type is f32, f64,
    f16 or bf16, and that of bias f32 or f64.

    A TypeError is another type, a ValueError other shapes, an overlap or another activation.
    """
    array = as_array(x, "x")
    rapt_type = element_type(array, "x")
    if rapt_type not in _TYPES:
        raise TypeError(f"x has elements of {array.dtype.name}, not f32, f64, f16 or bf16")
    if array.ndim != 3:
        raise ValueError(f"x has the shape {array.shape}, not [batch, tokens, channels]")
    if activation not in (None, "silu"):
        raise ValueError(f'activation is {activation!r}, not None or "silu"')
    array = np.ascontiguousarray(array)
    batch, tokens, channels = array.shape
    weights = np.ascontiguousarray(as_array(weight, "weight"))
    if element_type(weights, "weight") != rapt_type:
        raise TypeError(f"weight has elements of {weights.dtype.name}, and x of {array.dtype.name}")
    if weights.ndim != 2 or weights.shape[0] != channels:
        raise ValueError(f"weight has the shape {weights.shape}, and x {channels} channels")
    taps = weights.shape[1]
    if not 1 <= taps <= _MOST_TAPS:
        raise ValueError(f"weight has {taps} taps, not 1 to {_MOST_TAPS}")
    kept = None
    if state is not None:
        kept = check_output(as_output(state, "state"), "state", (batch, taps - 1, channels), (rapt_type,))
        if not kept.flags.c_contiguous:
            raise ValueError("state is not contiguous")
    offsets = None
    if bias is not None:
        offsets = np.ascontiguousarray(as_numbers(bias, "bias", arithmetic_type(rapt_type)))
        if offsets.shape != (channels,):
            raise ValueError(f"bias has the shape {offsets.shape}, not ({channels},)")
    if kept is not None:
        for name, other in (("x", array), ("weight", weights), ("bias", offsets)):
            if other is not None and may_overlap(other, kept):
                raise ValueError(f"state overlaps {name}")
    y = empty(array.shape, rapt_type, array)
    options = CausalConvolutionOptions(
        type=rapt_type,
        silu=int(activation == "silu"),
        batch=batch,
        tokens=tokens,
        channels=channels,
        taps=taps,
        bias=None if offsets is None else address(offsets),
    )
    memory = None if kept is None else address(kept)
    check(C.rapt_causal_convolution(address(array), address(weights), memory, address(y), options))
    return in_kind_of(x, y)
