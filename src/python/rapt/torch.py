"""rapt's functions for tensors of PyTorch, with gradients.

    import rapt.torch

    y = rapt.torch.scaled_dot_product_attention(query, key, value, is_causal=True)

The functions have the names, the arguments and the meaning of torch.nn.functional, except rope and gated, which are rapt's.
They take float32, float64, float16 and bfloat16 in the memory of the CPU, with any strides. Results and gradients have the
same bits on every CPU and for any number of threads, and those of a row are the same alone and in a batch.

A gradient has the type of its tensor. Nothing is computed where no gradient is needed. linear and rope have derivatives of
every order. A second derivative of another function is a RuntimeError, whichever way the graph of its gradients is walked.
That graph (create_graph=True) alone is no error.

Tested with PyTorch 1.13. Not tested: torch.compile, torch.func and autocast.

enable() lets rapt compute the operators of an unmodified program; it needs PyTorch 2.9 and is tested with 2.13.
"""

from __future__ import annotations

from ._torch_attention import scaled_dot_product_attention
from ._torch_children import enable_if_waiting
from ._torch_compile import add_backend
from ._torch_enable import Report, UncoveredError, disable, enable, enabled, report
from ._torch_hash import hash
from ._torch_packed import clear_packed
from ._torch_layers import (
    celu,
    elu,
    gated,
    gelu,
    hardsigmoid,
    hardswish,
    hardtanh,
    layer_norm,
    linear,
    log_softmax,
    logsigmoid,
    mish,
    relu,
    relu6,
    rms_norm,
    rope,
    selu,
    sigmoid,
    silu,
    softmax,
    softplus,
    tanh,
)

__all__ = [
    "Report",
    "UncoveredError",
    "celu",
    "clear_packed",
    "disable",
    "elu",
    "enable",
    "enabled",
    "gated",
    "gelu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hash",
    "layer_norm",
    "linear",
    "log_softmax",
    "logsigmoid",
    "mish",
    "relu",
    "relu6",
    "report",
    "rms_norm",
    "rope",
    "scaled_dot_product_attention",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]

add_backend()
enable_if_waiting()

if __name__ == "__main__":
    import sys

    from ._torch_command import command

    sys.exit(command())
