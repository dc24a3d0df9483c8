"""rapt: CPU kernels for attention and linear layers, with the same bits on every instruction set.

Tensors are NumPy arrays or, by DLPack, the tensors of other libraries in the memory of the CPU. bf16 is NumPy's uint16,
ml_dtypes' bfloat16, or DLPack's. Inputs are read where they are, or copied where the library cannot take their strides.
Results are tensors of PyTorch where the first tensor is one, and NumPy arrays otherwise. A tensor of PyTorch that requires a
gradient is a ValueError: rapt.torch has gradients.

A bf16 tensor of another library, such as JAX's, gives arrays of ml_dtypes' bfloat16, which is also JAX's. Where ml_dtypes
cannot be imported, a new array of bf16 is then a TypeError.

Numbers next to the tensors (bias, sinks, slopes, scales) are arrays, tensors or lists of any integers or floating-point
numbers. They are converted to the arithmetic type, which is f64 for tensors of f64 and f32 for all others. NumPy's uint16 is
a TypeError there, because it may be integers or the bits of bf16.

`out` has the shape and the type of the result, contiguous rows and no negative stride. The function then returns it. `out`
overlaps an input only where the function says so. A read-only `out` is a ValueError: an array of JAX is one, and so is a
tensor with a DLPack before 1.0, unless it is NumPy's or PyTorch's.

A bad argument is a ValueError, and a type that a function lacks is a TypeError, as a masked array is. The GIL is free while
the library computes. On vector levels, Ctrl-C ends a long call within a fifth of a second, but for a row, a task, a copy,
a step of an optimizer, random numbers, or a sum of one order (dot, exp_sum, reductions) that takes longer.

Elementwise functions of several tensors broadcast as NumPy's do. Numbers of Python next to tensors take their type, rounded to
it; numbers alone are f64.

prepare(function, ...) checks the arguments of a call once, for many runs over the same arrays.
"""

from ._attention import Gradients, attention, attention_backward, pack_keys
from ._causal import causal_conv1d
from ._convolution import conv1d, conv2d, conv3d, conv_input, conv_transpose, conv_weight
from ._cross_entropy import cross_entropy, cross_entropy_backward
from ._delta import DeltaGradients, delta_rule, delta_rule_backward
from ._embedding_bag import embedding_bag, embedding_bag_backward
from ._experts import ExpertLists, PackedExperts, expert_lists, expert_sum, linear_experts, pack_experts
from ._gated import gated, gated_backward
from ._hash import hash
from ._index import embedding_backward, index_add
from ._isa import bits_version, force_isa, isa, isa_status, isas, kernel_isa, version
from ._linear import (
    PackedWeights,
    dequantize_rows,
    linear,
    pack_awq,
    pack_blocks,
    pack_gptq,
    pack_quantized,
    pack_weights,
    packed_rows,
    quantize_rows,
    unpack_blocks,
    unpack_quantized,
    unpack_weights,
)
from ._map import (
    add,
    addcdiv,
    addcmul,
    atan2,
    celu,
    celu_backward,
    clamp,
    clamp_backward,
    clip,
    cos,
    divide,
    elu,
    elu_backward,
    erf,
    erf_backward,
    exp2,
    expm1,
    fma,
    hardsigmoid,
    hardsigmoid_backward,
    hardswish,
    hardswish_backward,
    hardtanh,
    hardtanh_backward,
    lerp,
    log,
    log1p,
    log2,
    log_sigmoid,
    log_sigmoid_backward,
    mish,
    mish_backward,
    multiply,
    pow,
    reciprocal,
    relu,
    relu6,
    relu6_backward,
    relu_backward,
    rsqrt,
    selu,
    selu_backward,
    sigmoid,
    sigmoid_backward,
    sin,
    softplus,
    softplus_backward,
    sqrt,
    subtract,
    tan,
    tanh,
    tanh_backward,
)
from ._matmul import bmm, matmul
from ._prepared import Prepared, prepare
from ._reduce import argmin, max, mean, min, norm, prod, std, sum, var
from ._rope import rope, rope_frequencies
from ._norms import NormStatistics, layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from ._optimizers import adamw_step, sgd_step
from ._search import TopK, mean_pool, metric_pointer, normalize, similarity, top_k
from ._random import random_keep, random_normal, random_uniform, random_words
from ._rows import log_softmax, log_softmax_backward, logsumexp, softmax, softmax_backward
from ._scan import cumprod, cumsum, cumulative_prod, cumulative_sum
from ._solve import solve_triangular
from ._vectors import (
    argmax,
    convert,
    dot,
    dot_rows,
    exp,
    exp_sum,
    gelu,
    gelu_backward,
    gelu_tanh,
    gelu_tanh_backward,
    scale,
    silu,
    silu_backward,
)

__all__ = [
    "DeltaGradients",
    "ExpertLists",
    "Gradients",
    "NormStatistics",
    "PackedExperts",
    "PackedWeights",
    "Prepared",
    "TopK",
    "adamw_step",
    "add",
    "addcdiv",
    "addcmul",
    "argmax",
    "argmin",
    "atan2",
    "attention",
    "attention_backward",
    "bits_version",
    "bmm",
    "causal_conv1d",
    "celu",
    "celu_backward",
    "clamp",
    "clamp_backward",
    "clip",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_input",
    "conv_transpose",
    "conv_weight",
    "convert",
    "cos",
    "cross_entropy",
    "cross_entropy_backward",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "delta_rule",
    "delta_rule_backward",
    "dequantize_rows",
    "divide",
    "dot",
    "dot_rows",
    "elu",
    "elu_backward",
    "embedding_backward",
    "embedding_bag",
    "embedding_bag_backward",
    "erf",
    "erf_backward",
    "exp",
    "exp2",
    "exp_sum",
    "expert_lists",
    "expert_sum",
    "expm1",
    "fma",
    "force_isa",
    "gated",
    "gated_backward",
    "gelu",
    "gelu_backward",
    "gelu_tanh",
    "gelu_tanh_backward",
    "hardsigmoid",
    "hardsigmoid_backward",
    "hardswish",
    "hardswish_backward",
    "hardtanh",
    "hardtanh_backward",
    "hash",
    "index_add",
    "isa",
    "isa_status",
    "isas",
    "kernel_isa",
    "layer_norm",
    "layer_norm_backward",
    "lerp",
    "linear",
    "linear_experts",
    "log",
    "log1p",
    "log2",
    "log_sigmoid",
    "log_sigmoid_backward",
    "log_softmax",
    "log_softmax_backward",
    "logsumexp",
    "matmul",
    "max",
    "mean",
    "mean_pool",
    "metric_pointer",
    "min",
    "mish",
    "mish_backward",
    "multiply",
    "norm",
    "normalize",
    "pack_awq",
    "pack_blocks",
    "pack_experts",
    "pack_gptq",
    "pack_keys",
    "pack_quantized",
    "pack_weights",
    "packed_rows",
    "pow",
    "prepare",
    "prod",
    "quantize_rows",
    "random_keep",
    "random_normal",
    "random_uniform",
    "random_words",
    "reciprocal",
    "relu",
    "relu6",
    "relu6_backward",
    "relu_backward",
    "rms_norm",
    "rms_norm_backward",
    "rope",
    "rope_frequencies",
    "rsqrt",
    "scale",
    "selu",
    "selu_backward",
    "sgd_step",
    "sigmoid",
    "sigmoid_backward",
    "silu",
    "silu_backward",
    "similarity",
    "sin",
    "softmax",
    "softmax_backward",
    "softplus",
    "softplus_backward",
    "solve_triangular",
    "sqrt",
    "std",
    "subtract",
    "sum",
    "tan",
    "tanh",
    "tanh_backward",
    "top_k",
    "unpack_blocks",
    "unpack_quantized",
    "unpack_weights",
    "var",
    "version",
]
__version__ = version()
