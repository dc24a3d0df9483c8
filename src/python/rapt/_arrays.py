"""Arrays as the library takes them: NumPy arrays, tensors of PyTorch, and by DLPack those of others, without copies."""

from __future__ import annotations

import ctypes
import functools
import importlib
import math
import sys
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, Union

import numpy as np
import numpy.typing as npt

from ._arguments import a_thing
from ._library import BF16, F16, F32, F64, I8, REPEAT, MatrixStrides, Strides

Array = npt.NDArray[Any]
_DTypes = dict[tuple[int, int], "np.dtype[Any]"]


class SupportsDLPack(Protocol):
    """A tensor of another library."""

    def __dlpack__(self) -> Any:
        ...


class TorchTensor(Protocol):
    """torch.Tensor, which this package does not import."""

    def __dlpack__(self) -> Any:
        ...

    def data_ptr(self) -> int:
        ...

    def requires_grad_(self) -> Any:
        ...


# What an argument may be: arrays, nested lists of numbers, tensors.
TensorLike = Union[npt.ArrayLike, SupportsDLPack]
Output = Union[Array, SupportsDLPack]
Torch = TypeVar("Torch", bound=TorchTensor)

# NumPy has no bf16: a tensor of uint16 holds its bits, and ml_dtypes names its own type "bfloat16".
TYPES = {"float32": F32, "float64": F64, "float16": F16, "uint16": BF16, "bfloat16": BF16, "int8": I8}
SUFFIXES = {F32: "f32", F64: "f64", F16: "f16", BF16: "bf16", I8: "i8"}
OUT_TYPES = {None: 0, "f32": F32, "f64": F64, "f16": F16, "bf16": BF16}
# NumPy takes microseconds for a dtype's name.
_TYPES_OF_DTYPES = {np.dtype(name): rapt_type for name, rapt_type in TYPES.items() if name != "bfloat16"}
DTYPES = {rapt_type: dtype for dtype, rapt_type in _TYPES_OF_DTYPES.items()}
_BOOL, _UINT8, _UINT16 = np.dtype(np.bool_), np.dtype(np.uint8), np.dtype(np.uint16)
# bf16 of another library, which is never taken for integers. Its results have ml_dtypes' type, where that can be
# imported.
_BF16_BITS = np.dtype([("bfloat16", np.uint16)])
_TYPES_OF_DTYPES[_BF16_BITS] = BF16


_whole = (ctypes.c_char * 0).from_buffer


def address(array: Array) -> int:
    """Of the first element. NumPy's own ctypes.data takes three times as long."""
    try:
        return ctypes.addressof(_whole(array))  # type: ignore[arg-type]
    except (TypeError, ValueError, BufferError):  # read-only, not contiguous, or a type that buffers lack
        return array.ctypes.data


def arithmetic_type(rapt_type: int) -> int:
    return F64 if rapt_type == F64 else F32


class _Tensor(ctypes.Structure):
    """DLTensor of DLPack."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _VersionedTensor(ctypes.Structure):
    """DLManagedTensorVersioned, which DLPack has from 1.0 on. DLManagedTensor begins with its tensor."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    ]


# Keys are DLDataTypeCode and bits. DLPack has codes for both bf16 and uint16; a tensor of NumPy's uint16 means bf16
# here.
_DLPACK_INTEGERS: _DTypes = {
    (0, 8): np.dtype("int8"), (0, 16): np.dtype("int16"), (0, 32): np.dtype("int32"), (0, 64): np.dtype("int64"),
    (1, 8): np.dtype("uint8"), (1, 16): np.dtype("uint16"), (1, 32): np.dtype("uint32"), (1, 64): np.dtype("uint64"),
}  # fmt: skip
_DLPACK_NUMBERS: _DTypes = {
    **_DLPACK_INTEGERS,
    (2, 32): np.dtype("float32"), (2, 64): np.dtype("float64"), (2, 16): np.dtype("float16"), (4, 16): _BF16_BITS,
    (6, 8): _BOOL,
}  # fmt: skip
_DLPACK_TENSORS: _DTypes = {key: dtype for key, dtype in _DLPACK_NUMBERS.items() if dtype != _UINT16}
_CPU = 1
_READ_ONLY, _IS_COPIED = 1, 2  # flags of DLPack
_VERSION = (1, 0)  # the latest of DLPack that is read

# Attributes of ctypes.pythonapi are shared with other packages, which may change their types. These are not.
_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class _Memory:
    """A tensor's memory for NumPy, which keeps `owner` alive."""

    def __init__(self, owner: object, interface: dict[str, Any]) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def _torch_of(x: Any) -> Any:
    """torch if x is a tensor of it, and None otherwise. This package does not import it."""
    torch = sys.modules.get("torch")
    return torch if isinstance(x, getattr(torch, "Tensor", ())) else None


def _from_torch(torch: Any, x: Any, name: str, dtypes: _DTypes) -> Array:
    """As by DLPack, in a fifth of the time."""
    try:
        if x.requires_grad:
            raise ValueError(f"{name} requires a gradient, which would be lost: use rapt.torch, or {name}.detach()")
        if x.dtype is torch.bfloat16 and dtypes is not _DLPACK_INTEGERS:
            bits: Array = x.view(torch.int16).numpy()
            return bits.view(_UINT16 if dtypes is _DLPACK_TENSORS else _BF16_BITS)
        array: Array = x.numpy()
        if array.dtype != _UINT16:  # which would be bf16 in a tensor
            return array
    except (TypeError, RuntimeError):  # not dense, not of the CPU, of a type that NumPy lacks, or a view that negates
        if x.is_neg():
            raise ValueError(f"{name} is a view of negated numbers: use {name}.resolve_neg()") from None
    # PyTorch's capsules may have no flags, but its memory may be written.
    return _from_dlpack(x, name, dtypes, 0)


def _capsule(x: Any) -> Any:
    try:
        return x.__dlpack__(max_version=_VERSION)
    except TypeError:  # from before DLPack 1.0, or what the next call raises too
        return x.__dlpack__()


def _tensor_of(capsule: Any, flags: int) -> tuple[_Tensor, int]:
    """The tensor of a capsule and its flags, which are `flags` for a capsule that has none."""
    if _capsule_name(capsule) != b"dltensor_versioned":
        pointer = _capsule_pointer(capsule, b"dltensor")
        return ctypes.cast(pointer, ctypes.POINTER(_Tensor)).contents, flags
    pointer = _capsule_pointer(capsule, b"dltensor_versioned")
    versioned = ctypes.cast(pointer, ctypes.POINTER(_VersionedTensor)).contents
    if versioned.major > _VERSION[0]:
        raise ValueError(f"version {versioned.major}.{versioned.minor} of DLPack, and rapt reads 1")
    return versioned.tensor, versioned.flags


def _from_dlpack(x: Any, name: str, dtypes: _DTypes, flags_if_none: int = _READ_ONLY) -> Array:
    """x in its own memory, read-only where it, or a capsule from before DLPack 1.0, does not say that it may be written."""
    try:
        # The capsule is read, but not consumed: it frees the tensor when NumPy drops it.
        capsule = _capsule(x)
        tensor, flags = _tensor_of(capsule, flags_if_none)
    except Exception as error:
        kind = TypeError if isinstance(error, (TypeError, AttributeError)) else ValueError
        raise kind(f"{name} gives no tensor by DLPack: {error}") from None
    if tensor.device_type != _CPU:
        raise ValueError(f"{name} is not in the memory of the CPU")
    dtype = dtypes.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1:
        raise TypeError(f"{name} has an element type that rapt lacks")
    if not 0 <= tensor.ndim <= 32:
        raise ValueError(f"{name} has {tensor.ndim} dimensions, not 0 to 32")
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    size = dtype.itemsize
    strides = tuple(tensor.strides[i] * size for i in range(tensor.ndim)) if tensor.strides else None
    if 0 in shape:
        array = np.empty(shape, dtype)
    elif not tensor.data or min(shape, default=1) < 0:
        raise ValueError(f"{name} has the shape {shape} and no memory")
    else:
        interface = {
            "version": 3,
            "shape": shape,
            "typestr": f"|V{size}" if dtype is _BF16_BITS else dtype.str,
            "data": (tensor.data + tensor.byte_offset, bool(flags & (_READ_ONLY | _IS_COPIED))),
            "strides": strides,
        }
        array = np.asarray(_Memory(capsule, interface))
    if dtype is _BF16_BITS and dtypes is _DLPACK_TENSORS:
        dtype = _bfloat16() or dtype
    return array.view(dtype)


@functools.lru_cache(None)
def _bfloat16() -> Any:
    """ml_dtypes' type, which JAX and TensorFlow have too; None where it cannot be imported."""
    try:
        return np.dtype(importlib.import_module("ml_dtypes").bfloat16)
    except ImportError:
        return None


def as_array(x: Any, name: str, dtypes: _DTypes = _DLPACK_TENSORS) -> Array:
    """x as a NumPy array over the same memory."""
    if type(x) is np.ndarray:
        array = x
    elif isinstance(x, np.ndarray):
        if isinstance(x, np.ma.MaskedArray):
            raise TypeError(f"{name} is a masked array, whose mask rapt would ignore")
        array = x.view(np.ndarray)
    elif (torch := _torch_of(x)) is not None:
        array = _from_torch(torch, x, name, dtypes)
    elif _is_tensor(x):
        array = _from_dlpack(x, name, dtypes)
    else:
        array = _new_array(x, name)
    if not array.dtype.isnative:
        raise TypeError(f"{name} has the byte order of another machine")
    return array


def _is_tensor(x: Any) -> bool:
    return hasattr(type(x), "__dlpack__")


def _new_array(x: Any, name: str) -> Array:
    try:
        array = np.asarray(x)
    except ValueError as error:  # lists of different lengths
        raise ValueError(f"{name} is no array: {error}") from None
    except Exception as error:  # of x's own methods
        raise TypeError(f"{name} is no array: {error}") from None
    if array.dtype.kind == "O":
        raise TypeError(f"{name} has elements of object, not numbers")
    return array


def as_output(x: Any, name: str = "out") -> Array:
    """The memory of an array or a tensor. Results in a new array of a list's numbers would be lost."""
    if isinstance(x, np.ndarray):
        return as_array(x, name)
    if not _is_tensor(x):
        raise TypeError(f"{name} is {a_thing(x)}, not an array")
    array = as_array(x, name)
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only, or its library has a DLPack before 1.0, which may not say that it is")
    return array


def in_kind_of(x: Any, array: Array) -> Any:
    """`array` as a tensor of PyTorch where x is one."""
    if type(x) is np.ndarray:
        return array
    torch = _torch_of(x)
    if torch is None:
        return array
    if _type_of(array.dtype) == BF16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def _type_of(dtype: np.dtype[Any]) -> int | None:
    rapt_type = _TYPES_OF_DTYPES.get(dtype)
    return TYPES.get(dtype.name) if rapt_type is None else rapt_type


def element_type(array: Array, name: str) -> int:
    rapt_type = _type_of(array.dtype)
    if rapt_type is None:
        cure = f": np.asarray({name}, np.float32) has numbers of f32" if array.dtype.kind in "biuf" else ""
        raise TypeError(f"{name} has elements of {array.dtype.name}, which rapt lacks{cure}")
    return rapt_type


def widened(bf16: Array) -> Array:
    return np.asarray(bf16.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def as_numbers(x: Any, name: str, rapt_type: int) -> Array:
    """Numbers next to the tensors, in the type that the library reads. f16 and bf16 are widened."""
    array = as_array(x, name, _DLPACK_NUMBERS)
    if array.dtype == DTYPES[rapt_type]:
        return array
    if array.dtype == _UINT16 and (isinstance(x, np.ndarray) or not _is_tensor(x)):
        raise TypeError(
            f"{name} has elements of uint16, which may be integers or the bits of bf16: {name}.astype(np.float32) is of "
            f'integers, rapt.convert({name}, "f32") of bf16'
        )
    if array.dtype != _UINT16 and _type_of(array.dtype) == BF16:
        array = widened(array)
    elif array.dtype.kind not in "fiu":
        raise TypeError(f"{name} has elements of {array.dtype.name}, not numbers")
    with np.errstate(over="ignore"):  # beyond f32 is infinite
        return array.astype(DTYPES[rapt_type])


def as_numbers_or_halves(x: Any, name: str, rapt_type: int) -> tuple[Array, int]:
    """Numbers as as_numbers() has them, and 0; or f16 and bf16 as they are next to f32, and their type."""
    array = as_array(x, name, _DLPACK_NUMBERS)
    own = None if rapt_type != F32 or array.dtype == _UINT16 else _type_of(array.dtype)
    if own == F16:
        return array, own
    if own == BF16:
        return array.view(_UINT16), own
    return as_numbers(x, name, rapt_type), 0


def as_integers(x: Any, name: str) -> Array:
    """Lengths and offsets. uint16 is an integer here."""
    array = as_array(x, name, _DLPACK_INTEGERS)
    if array.size == 0:  # NumPy takes [] for numbers
        return array.astype(np.int32)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} has elements of {array.dtype.name}, not integers")
    return array


def as_mask(x: Any, name: str) -> Array:
    """Bytes of which 0 excludes."""
    array = as_array(x, name)
    if array.dtype != _BOOL and array.dtype != _UINT8:
        raise TypeError(f"{name} has elements of {array.dtype.name}, not bool or uint8")
    return array


def writable(array: Array, name: str) -> Array:
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only")
    return array


def empty(shape: tuple[int, ...], rapt_type: int, like: Array | None = None) -> Array:
    """A new array; `like` tells which dtype of bf16 its elements have."""
    if rapt_type == BF16 and like is not None:
        if like.dtype == _BF16_BITS:
            raise TypeError("a result of bf16 has no type in NumPy: install ml_dtypes, or give `out`")
        if like.dtype.name == "bfloat16":
            return np.empty(shape, like.dtype)
    return np.empty(shape, DTYPES[rapt_type])


def _unit_stride(array: Array) -> bool:
    return array.ndim == 0 or array.shape[-1] <= 1 or array.strides[-1] == array.itemsize


def _whole_strides(array: Array) -> bool:
    """Of dimensions longer than 1. Nothing follows the stride of the others, which may be any number."""
    return all(stride % array.itemsize == 0 for length, stride in zip(array.shape, array.strides) if length > 1)


def _strides_fit(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    if shape and shape[-1] > 1 and strides[-1] != itemsize or itemsize == 0:
        return False
    for length, stride in zip(shape, strides):
        if length > 1 and (stride < 0 or stride % itemsize != 0):
            return False
    return True


def readable(array: Array) -> Array:
    """`array`, or a copy where the library cannot take its strides."""
    return array if _strides_fit(array.shape, array.strides, array.itemsize) else np.ascontiguousarray(array)


def check_output(array: Array, name: str, shape: tuple[int, ...], rapt_types: tuple[int, ...]) -> Array:
    if array.shape != shape:
        raise ValueError(f"{name} has the shape {array.shape}, not {shape}")
    if element_type(array, name) not in rapt_types:
        raise TypeError(
            f"{name} has elements of {array.dtype.name}, not {' or '.join(SUFFIXES[t] for t in rapt_types)}"
        )
    if array.flags.c_contiguous:  # so are empty arrays, which may have any strides
        return writable(array, name)
    if not (_unit_stride(array) and _whole_strides(array)):
        raise ValueError(f"{name} must be contiguous in its last dimension")
    if any(length > 1 and stride < 0 for length, stride in zip(shape, array.strides)):
        raise ValueError(f"{name} has a negative stride")
    return writable(array, name)


def refuse_overlap(array: Array, result: Array, name: str, output: str = "out") -> None:
    """For calls in which the library cannot see it: the output may be exactly the input, or be elsewhere."""
    if not _is_same(array, result) and may_overlap(array, result):
        raise ValueError(f"{output} overlaps {name} without being exactly {name}")


def _is_same(array: Array, result: Array) -> bool:
    return address(result) == address(array) and all(
        length == 1 or stride == other for length, stride, other in zip(array.shape, array.strides, result.strides)
    )


def may_overlap(array: Array, result: Array) -> bool:
    if not np.may_share_memory(array, result):
        return False
    try:
        most: Any = 10**6  # for which NumPy's annotations have -1 and 0 only
        return np.shares_memory(array, result, max_work=most)
    except Exception:  # too many strides to decide
        return True


def broadcast(array: Array, shape: tuple[int, ...], name: str) -> Array:
    if array.shape == shape:  # NumPy takes microseconds
        return array
    broadcast_strides(array, shape, name)
    return np.broadcast_to(array, shape)


def broadcast_strides(array: Array, shape: tuple[int, ...], name: str) -> Sequence[int]:
    """The strides, in bytes, of `array` in `shape`: 0 where it repeats."""
    if array.shape == shape:
        return array.strides
    missing = len(shape) - array.ndim
    strides = [0] * missing
    for length, wanted, stride in zip(array.shape, shape[max(missing, 0) :], array.strides):
        if length == wanted:
            strides.append(stride)
        elif length == 1:
            strides.append(0)
    if missing < 0 or len(strides) < len(shape):
        raise ValueError(f"{name} has the shape {array.shape}, which does not broadcast to {shape}")
    return strides


def broadcast_rows(array: Array, shape: tuple[int, ...], name: str) -> tuple[Array, Sequence[int]]:
    """What has contiguous rows and, with the strides (in bytes), is `array` in `shape`. No copy has a row twice."""
    strides = broadcast_strides(array, shape, name)
    if _strides_fit(shape, strides, array.itemsize):
        return array, strides
    whole = np.broadcast_to(array, (*array.shape[:-1], shape[-1]))
    once = tuple(slice(1) if stride == 0 else slice(None) for stride in whole.strides[:-1])
    copy = np.ascontiguousarray(whole[once])
    return copy, broadcast_strides(copy, shape, name)


def tensor_strides(array: Array) -> Strides:
    """Of the dimensions batch, head, token: the last three before the innermost, and 0 for those that lack."""
    return strides_of(array.shape[:-1], array.strides[:-1], array.itemsize)


def strides_of(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> Strides:
    elements = [0] * (3 - len(shape))
    for length, stride in zip(shape, strides):
        repeated = REPEAT if stride == 0 else stride // itemsize
        elements.append(repeated if length > 1 else 0)
    # Strides of only 0 would mean contiguous, but here no dimension longer than 1 is contiguous.
    return Strides(*elements)


class Rows:
    """The rows of an array whose leading dimensions are one."""

    __slots__ = ("array", "rows", "cols", "stride", "address", "copied")

    def __init__(self, array: Array, rows: int, cols: int, stride: int, copied: bool = False) -> None:
        self.array = array
        self.rows = rows
        self.cols = cols
        self.stride = stride  # elements
        self.address = address(array)
        self.copied = copied

    def at(self, row: int) -> int:
        """The address of a row."""
        return self.address + row * self.stride * self.array.itemsize


def row_stride(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int | None:
    """Elements from row to row, 0 for one row; None where no single stride leads from row to row."""
    rows, stride = 1, 0
    for size, step in zip(reversed(shape[:-1]), reversed(strides[:-1])):
        if size == 1:
            continue
        if rows == 1:
            stride = step // itemsize
        elif step // itemsize != stride * rows:
            return None
        rows *= size
    return stride


def as_rows(array: Array) -> Rows | None:
    """None where no single stride leads from row to row."""
    cols = array.shape[-1]
    if array.flags.c_contiguous and array.size > 0:
        return Rows(array, array.size // cols, cols, cols)
    rows = math.prod(array.shape[:-1])
    if array.size == 0:
        return Rows(array, rows, cols, cols)
    if not _unit_stride(array) or not _whole_strides(array):
        return None
    stride = row_stride(array.shape, array.strides, array.itemsize)
    if rows == 1:
        stride = cols
    return None if stride is None or stride < cols else Rows(array, rows, cols, stride)


def input_rows(x: Any, name: str) -> Rows:
    array = as_array(x, name)
    if array.ndim == 0:
        raise ValueError(f"{name} has no dimension")
    rows = as_rows(array)
    if rows is not None:
        return rows
    array = np.ascontiguousarray(array)
    return Rows(array, array.size // array.shape[-1], array.shape[-1], array.shape[-1], True)


def gradient_rows(x: Any, name: str, dy: Any) -> tuple[Rows, Rows, int]:
    """x and the gradient dy, of one shape and of one type that has gradients, and that type."""
    rows, dy_rows = input_rows(x, name), input_rows(dy, "dy")
    rapt_type = element_type(rows.array, name)
    if rapt_type not in (F32, F64, F16, BF16) or dy_rows.array.dtype != rows.array.dtype:
        raise TypeError(
            f"{name} has elements of {rows.array.dtype.name} and dy {dy_rows.array.dtype.name}: they must be of one type, "
            "f32, f64, f16 or bf16"
        )
    if dy_rows.array.shape != rows.array.shape:
        raise ValueError(f"{name} has the shape {rows.array.shape} and dy {dy_rows.array.shape}")
    return rows, dy_rows, rapt_type


def output_rows(out: Any, rows: Rows, rapt_type: int) -> Rows:
    """Those of `out`, or of a new array in the shape of `rows`."""
    if out is None:
        return Rows(empty(rows.array.shape, rapt_type, rows.array), rows.rows, rows.cols, rows.cols)
    return given_rows(out, "out", rows.array.shape, rapt_type)


def given_rows(out: Any, name: str, shape: tuple[int, ...], rapt_type: int) -> Rows:
    rows = as_rows(check_output(as_output(out, name), name, shape, (rapt_type,)))
    if rows is None:
        raise ValueError(f"{name} has no single stride from row to row")
    return rows


def input_matrix(array: Array) -> tuple[Array, MatrixStrides]:
    """`array`, whose leading dimensions are one, and its strides: a copy where the library cannot take them."""
    if array.size == 0:
        return array, MatrixStrides(REPEAT, REPEAT)
    if not _whole_strides(array) or any(n > 1 and stride < 0 for n, stride in zip(array.shape, array.strides)):
        array = np.ascontiguousarray(array)
    row = row_stride(array.shape, array.strides, array.itemsize)
    if row is None:
        array = np.ascontiguousarray(array)
        row = array.shape[-1]
    column = array.strides[-1] // array.itemsize if array.shape[-1] > 1 else 0
    return array, MatrixStrides(row or REPEAT, column or REPEAT)
