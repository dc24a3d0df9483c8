"""Tensors of other libraries, which hand over nothing but DLPack."""

import ctypes
from typing import Any

import numpy as np
from kinds import Array

from rapt import _arrays


class Tensor:
    """`fields` of its DLManagedTensor are changed on the way."""

    def __init__(self, array: Array, **fields: Any) -> None:
        self.array = array
        self.fields = fields

    def __dlpack__(self) -> Any:
        capsule = self.array.__dlpack__()
        tensor = ctypes.cast(_arrays._capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_arrays._Tensor)).contents
        for name, value in self.fields.items():
            setattr(tensor, name, value)
        return capsule

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def bf16_tensor(bits: Any) -> Any:
    """A bf16 tensor, such as PyTorch's, of the bits in an array of uint16."""
    assert bits.dtype == np.uint16
    return Tensor(bits, code=4)
