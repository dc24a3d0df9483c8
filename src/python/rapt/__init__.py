"""rapt: CPU kernels for attention, with the same bits on every instruction set.

Functions take NumPy arrays and, by DLPack, the tensors of other libraries. NumPy's uint16 is bf16. A bad argument is a
ValueError, an element type that a function lacks a TypeError. The GIL is free while the library computes.
"""

from ._attention import Gradients, attention, attention_backward, pack_keys
from ._isa import bits_version, force_isa, isa, isas, kernel_isa, version
from ._rows import log_softmax, logsumexp, softmax, softmax_backward
from ._vectors import convert, dot, dot_rows, exp, exp_sum, scale

__all__ = [
    "Gradients",
    "attention",
    "attention_backward",
    "bits_version",
    "convert",
    "dot",
    "dot_rows",
    "exp",
    "exp_sum",
    "force_isa",
    "isa",
    "isas",
    "kernel_isa",
    "log_softmax",
    "logsumexp",
    "pack_keys",
    "scale",
    "softmax",
    "softmax_backward",
    "version",
]
__version__ = version()
