"""Tensors of other libraries, which hand over nothing but DLPack: before 1.0, or with its version and flags."""

import ctypes
from typing import Any

import numpy as np
from kinds import Array

READ_ONLY, IS_COPIED = 1, 2
CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64),
    ]  # fmt: skip


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("dl_tensor", DLTensor), ("manager_ctx", ctypes.c_void_p), ("deleter", Deleter)]


class DLManagedTensorVersioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager_ctx", ctypes.c_void_p), ("deleter", Deleter),
        ("flags", ctypes.c_uint64), ("dl_tensor", DLTensor),
    ]  # fmt: skip


def of_python(name: str, *types: Any) -> Any:
    return ctypes.PYFUNCTYPE(*types)((name, ctypes.pythonapi))


new_capsule = of_python("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
is_capsule = of_python("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)  # of this name
pointer_of = of_python("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
alive: dict[int, Any] = {}  # by address, what a capsule or its consumer needs


def _delete(managed: int) -> None:
    del alive[managed]


def _destroy(capsule: int) -> None:
    """A consumer renames the capsule, and calls the deleter itself."""
    for name in (b"dltensor", b"dltensor_versioned"):
        if is_capsule(capsule, name):
            del alive[pointer_of(capsule, name)]


delete = Deleter(_delete)
destroy = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_destroy)


class Tensor:
    """With DLPack 1.0. `fields` of its DLTensor are changed on the way."""

    def __init__(self, array: Array, flags: Any = 0, version: Any = (1, 0), old: Any = False, **fields: Any) -> None:
        """With `old`, the capsule has no version, though one is asked for."""
        self.array = array
        self.flags = flags
        self.version = version
        self.old = old
        self.fields = fields

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        return self.capsule(max_version is not None and max_version[0] >= 1 and not self.old)

    def capsule(self, versioned: bool) -> Any:
        array = self.array
        shape, strides = ((ctypes.c_int64 * array.ndim)(*numbers) for numbers in (array.shape, array.strides))
        for i in range(array.ndim):
            strides[i] //= array.itemsize
        code = CODES[array.dtype.kind]
        tensor = DLTensor(array.ctypes.data, 1, 0, array.ndim, code, 8 * array.itemsize, 1, shape, strides, 0)
        for name, value in self.fields.items():
            setattr(tensor, name, value)
        managed: ctypes.Structure
        if versioned:
            managed = DLManagedTensorVersioned(*self.version, None, delete, self.flags, tensor)
        else:
            managed = DLManagedTensor(tensor, None, delete)
        address = ctypes.addressof(managed)
        alive[address] = managed, array, shape, strides
        return new_capsule(address, b"dltensor_versioned" if versioned else b"dltensor", destroy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class OldTensor(Tensor):
    """From before DLPack 1.0: a TypeError names the keyword that __dlpack__ lacks."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return self.capsule(False)


def bf16_tensor(bits: Any, kind: type[Tensor] = Tensor, **fields: Any) -> Any:
    """A bf16 tensor, such as PyTorch's, of the bits in an array of uint16."""
    assert bits.dtype == np.uint16
    return kind(bits, code=4, **fields)
