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
the library computes. On vector levels, Ctrl-C ends a long call within a fifth of a second, but for a row, a task, a copy, or
a sum of one order (dot, exp_sum) that takes longer.

prepare(function, ...) checks the arguments of a call once, for many runs over the same arrays.
"""

from ._attention import Gradients, attention, attention_backward, pack_keys
from ._experts import ExpertLists, PackedExperts, expert_lists, expert_sum, linear_experts, pack_experts
from ._gated import gated, gated_backward
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
from ._prepared import Prepared, prepare
from ._rope import rope, rope_frequencies
from ._norms import layer_norm, layer_norm_backward, rms_norm, rms_norm_backward
from ._rows import log_softmax, logsumexp, softmax, softmax_backward
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
    "ExpertLists",
    "Gradients",
    "PackedExperts",
    "PackedWeights",
    "Prepared",
    "argmax",
    "attention",
    "attention_backward",
    "bits_version",
    "convert",
    "dequantize_rows",
    "dot",
    "dot_rows",
    "exp",
    "exp_sum",
    "expert_lists",
    "expert_sum",
    "force_isa",
    "gated",
    "gated_backward",
    "gelu",
    "gelu_backward",
    "gelu_tanh",
    "gelu_tanh_backward",
    "isa",
    "isa_status",
    "isas",
    "kernel_isa",
    "layer_norm",
    "layer_norm_backward",
    "linear",
    "linear_experts",
    "log_softmax",
    "logsumexp",
    "pack_awq",
    "pack_blocks",
    "pack_experts",
    "pack_gptq",
    "pack_keys",
    "pack_quantized",
    "pack_weights",
    "packed_rows",
    "prepare",
    "quantize_rows",
    "rms_norm",
    "rms_norm_backward",
    "rope",
    "rope_frequencies",
    "scale",
    "silu",
    "silu_backward",
    "softmax",
    "softmax_backward",
    "unpack_blocks",
    "unpack_quantized",
    "unpack_weights",
    "version",
]
__version__ = version()
