# mypy: no-warn-unused-ignores
"""Linear layers."""

from __future__ import annotations

import sys
from ctypes import byref, c_size_t, c_void_p
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from ._arguments import choice, integer, shown, type_choice
from ._arrays import (
    DTYPES,
    OUT_TYPES,
    SUFFIXES,
    Array,
    TensorLike,
    Torch,
    address,
    arithmetic_type,
    as_array,
    as_integers,
    as_numbers,
    as_output,
    as_rows,
    broadcast,
    element_type,
    empty,
    given_rows,
    in_kind_of,
    input_matrix,
)
from ._library import (
    ARITHMETIC,
    BF16,
    BLOCKS,
    F16,
    F32,
    F64,
    F8_E4M3,
    F8_E5M2,
    I4,
    I8,
    U4,
    U8,
    WORDS_AWQ,
    WORDS_GPTQ,
    WORDS_GPTQ_2BIT,
    WORDS_GPTQ_3BIT,
    WORDS_GPTQ_V2,
    WORDS_GPTQ_V2_2BIT,
    WORDS_GPTQ_V2_3BIT,
    Blocks,
    C,
    LinearOptions,
    MatrixStrides,
    check,
    count,
)
from ._linear_errors import error
from ._pieces import run_all
from ._prepared import Prepared, joins
from ._threads import run_tasks, thread_count
from ._workspace import SMALL, Workspace, run_at_once

BLOCK = 64  # outputs of a block of packed weights
_IN_BYTES = {"i8": np.int8, "u8": np.uint8, "f8_e4m3": np.uint8, "f8_e5m2": np.uint8}  # one input a byte
QUANTIZED = {"i8": I8, "i4": I4, "u4": U4, "u8": U8, "f8_e4m3": F8_E4M3, "f8_e5m2": F8_E5M2}
INTEGERS = {"i8": I8, "i4": I4, "u4": U4, "u8": U8}
IN_BLOCKS = {name: of.number for name, of in BLOCKS.items()}
ROW = 2 * sys.maxsize + 1  # x_group of a whole row
SCALE_GROUPS = (0, 16, 32, 64, 128, 256)
OUTPUTS_PER_SCALE = (1, 64, 128, 256, -1)
_NUMBERS = {"f32": F32, "f16": F16, "bf16": BF16}
_GPTQ = {  # without v2, and with it
    2: (WORDS_GPTQ_2BIT, WORDS_GPTQ_V2_2BIT),
    3: (WORDS_GPTQ_3BIT, WORDS_GPTQ_V2_3BIT),
    4: (WORDS_GPTQ, WORDS_GPTQ_V2),
    8: (WORDS_GPTQ, WORDS_GPTQ_V2),
}

Integers = Literal["i8", "i4", "u4", "u8"]
Arithmetic = Literal["default", "f32", "bf16", "i8", None]


def _check(status: int, options: LinearOptions) -> None:
    if status != 0:
        raise error(status, options)


def _count(function: Any, options: LinearOptions) -> int:
    return count(function, options, check=lambda status: _check(status, options))


def _floating_type(array: Array, name: str) -> int:
    rapt_type = element_type(array, name)
    if rapt_type == I8:
        raise TypeError(f"{name} has elements of int8, which linear lacks")
    return rapt_type


def _matrix(x: Any, name: str) -> Array:
    array = as_array(x, name)
    if array.ndim != 2:
        raise ValueError(f"{name} has {array.ndim} dimensions, not 2")
    return array


def _packed_options(shape: tuple[int, int], rapt_type: int) -> LinearOptions:
    outputs, inputs = shape
    if inputs == 0:
        raise ValueError(f"w has the shape {shape}: no inputs")
    x_type = F32 if rapt_type not in SUFFIXES or rapt_type == I8 else rapt_type
    return LinearOptions(x_type=x_type, w_type=rapt_type, out_features=outputs, in_features=inputs)


def _name_what_is_packed(options: LinearOptions, data: Array) -> None:
    """Sets the options that the header of packed weights names. Only a query of sizes may have them."""
    if len(data) < 64:
        raise ValueError(f"data has {len(data)} bytes: packed weights begin with a header of 64")
    given = 1  # an address, which is not looked at
    scales, zeros, offsets, codebook = (bool(flag) for flag in data[40:44])
    options.w_scales, options.w_zeros = scales * given, zeros * given
    options.w_offsets, options.w_codebook = offsets * given, codebook * given
    if scales or offsets:
        options.w_scale_type = int(data[36])
    options.outputs_per_scale = _outputs_per_scale(data)


def _outputs_per_scale(data: Array) -> int:
    """The option that the header of packed weights names, or 0."""
    outputs = int.from_bytes(data[44:48].tobytes(), "little")
    return ROW if outputs == 0xFFFFFFFF else outputs


def _type_of_weights(type: Any) -> int:
    if type is None:
        raise ValueError("type is None: packed weights have one")
    return choice({**OUT_TYPES, **QUANTIZED, **IN_BLOCKS}, "type", type)


def _shape_of_weights(shape: Any) -> tuple[int, int]:
    try:
        sides = tuple(shape)
    except Exception:  # of its own methods too
        raise TypeError(f"shape is {shown(shape)}, not (out_features, in_features)") from None
    if len(sides) != 2:
        raise ValueError(f"shape is {shown(shape)}, not (out_features, in_features)")
    return integer(sides[0], "shape[0]"), integer(sides[1], "shape[1]")


def _bytes(data: Any) -> Array:
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError("data is a masked array")
    try:
        return np.frombuffer(data, np.uint8)
    except (TypeError, AttributeError):
        raise TypeError(f"data is {shown(data)}, not bytes in one piece") from None
    except (ValueError, BufferError) as reason:
        raise ValueError(f"data is not bytes in one piece: {reason}") from None


class PackedWeights:
    """Weights in the order in which linear reads them, by pack_weights.

    shape         (out_features, in_features)
    type          "f32", "f64", "f16" or "bf16"; "i8", "i4", "u4", "u8", "f8_e4m3" or "f8_e5m2" by pack_quantized; or the name
                  of blocks by pack_blocks, such as "Q4_K"
    data          the packed weights as uint8
    scale_group   inputs that share a scale of quantized weights; 0: a row, or as the blocks say

    They are the same on every CPU, and may be stored: PackedWeights(shape, type, data, scale_group) makes them of anything
    that has their bytes in one piece, such as bytes or a memory map. It does not copy them where they are aligned.
    """

    __slots__ = ("shape", "type", "data", "scale_group", "_number")

    def __init__(self, shape: Sequence[int], type: str, data: Any, scale_group: int = 0) -> None:
        self._number = _type_of_weights(type)
        self.type = type
        self.shape = _shape_of_weights(shape)
        self.scale_group = integer(scale_group, "scale_group")
        self.data = _bytes(data)
        options = _packed_options(self.shape, self._number)
        if type in QUANTIZED:
            options.scale_group = self.scale_group
            _name_what_is_packed(options, self.data)
        elif self.scale_group != 0:
            why = "say it themselves" if type in IN_BLOCKS else "have no scales"
            raise ValueError(f"scale_group is {scale_group}, but weights of {type} {why}")
        elif type in IN_BLOCKS:
            _check_inputs(self.shape, type)
        length = _count(C.rapt_linear_packed_length, options)
        if len(self.data) != length:
            raise ValueError(f"data has {len(self.data)} bytes, not the {length} of {self.shape} in {type}")
        if address(self.data) % np.dtype(DTYPES.get(self._number, np.float32)).itemsize != 0:
            self.data = self.data.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return PackedWeights, (self.shape, self.type, self.data, self.scale_group)

    def __repr__(self) -> str:
        return f"PackedWeights({self.shape}, {self.type!r}, {len(self.data)} bytes)"


def pack_weights(w: Any) -> PackedWeights:
    """Weights for linear, which is then faster, most of all with few rows. They have the same bits.

    w is [out_features][in_features] of f32, f64, f16 or bf16, with any strides, or a list or tuple of such matrices. These
    have one type and as many inputs, and become one layer, whose outputs are those of the first matrix, then those of the
    second, and so on: pack_weights([wq, wk, wv]). Only matrices before the last whose outputs are no multiple of 64 make it
    copy them first.

    A TypeError is int8, which pack_quantized takes, or matrices of several types. A ValueError is no matrix, one without
    inputs, or matrices of other inputs.
    """
    parts, names = _matrices(w, "w")
    types = [_floating_type(part, name) for part, name in zip(parts, names)]
    for part, part_type, name in zip(parts, types, names):
        if part_type != types[0]:
            raise TypeError(f"w[0] has elements of {parts[0].dtype.name} and {name} {part.dtype.name}")
        if part.shape[1] != parts[0].shape[1]:
            raise ValueError(f"w[0] has the shape {parts[0].shape} and {name} {part.shape}: other inputs")
    # NumPy knows no common type of uint16 and ml_dtypes' bfloat16.
    parts = _whole_blocks([part.view(DTYPES[types[0]]) for part in parts])
    shape = sum(map(len, parts)), parts[0].shape[1]
    return PackedWeights(shape, SUFFIXES[types[0]], _pack_parts(parts, _packed_options(shape, types[0])))


def _matrices(x: Any, name: str) -> tuple[list[Array], list[str]]:
    """x, or what the list x has, and what messages call them."""
    several = isinstance(x, (list, tuple))
    names = [f"{name}[{i}]" for i in range(len(x))] if several else [name]
    parts = [_matrix(part, of_part) for part, of_part in zip(x if several else [x], names)]
    if not parts:
        raise ValueError(f"{name} has no matrices")
    return parts, names


def _whole_blocks(parts: list[Array]) -> list[Array]:
    """Parts of a layer that may be packed apart: only the last may have outputs that are no multiple of 64."""
    return [np.concatenate(parts)] if any(len(part) % BLOCK != 0 for part in parts[:-1]) else parts


def _pack_parts(parts: list[Array], options: LinearOptions) -> Array:
    data = np.empty(_count(C.rapt_linear_packed_length, options), np.uint8)
    first = 0
    for part in parts:
        matrix, options.w_strides = input_matrix(part)
        _pack(matrix, first, options, {}, data)
        first += len(part)
    return data


def _pack(
    matrix: Array,
    first: int,
    options: LinearOptions,
    numbers: dict[str, Array],
    data: Array,
    shared: Mapping[str, int] = {},
) -> None:
    """The outputs of a layer from `first` on. The numbers are fields of the options that have a row for each output, or for
    as many as share it."""

    def run(begin: int, count: int) -> Any:
        def row(name: str) -> int:
            return begin // shared.get(name, 1)

        part = options.changed(
            **{name: address(array) + row(name) * array.strides[0] for name, array in numbers.items()}
        )
        w = address(matrix) + begin * matrix.strides[0]
        return C.rapt_linear_pack(w, first + begin, count, part, address(data), len(data))

    _check(run_all(run, len(matrix), matrix.size, BLOCK), options)


def _unpacked_by(w: PackedWeights) -> str:
    return "unpack_quantized" if w.type in QUANTIZED else "unpack_blocks" if w.type in IN_BLOCKS else "unpack_weights"


def _packed(w: Any, function: str) -> PackedWeights:
    if not isinstance(w, PackedWeights):
        raise TypeError(f"w is {shown(w)}, not PackedWeights")
    if _unpacked_by(w) != function:
        raise TypeError(f"w has weights of {w.type}, which {_unpacked_by(w)} takes")
    return w


def _unpack(
    packed: PackedWeights,
    matrix: Array,
    options: LinearOptions,
    parts: dict[str, Array],
    shared: Mapping[str, int] = {},
) -> None:
    """Fills the matrix and the parts, which have a row for each output or for as many as share it, except for the codebook."""

    def run(begin: int, count: int) -> Any:
        def part(name: str) -> int | None:
            array = parts.get(name)
            if array is None:
                return None
            return address(array) + (begin // shared.get(name, 1) * array.strides[0] if array.ndim == 2 else 0)

        to = address(matrix) + begin * matrix.strides[0], *map(part, ("scales", "zeros", "offsets", "codebook"))
        return C.rapt_linear_unpack(address(packed.data), len(packed.data), begin, count, options, *to)

    _check(run_all(run, len(matrix), matrix.size, BLOCK), options)


def unpack_weights(w: PackedWeights) -> Array:
    """What pack_weights packed: [out_features][in_features], with the same bits. bf16 is uint16. Several matrices have become
    one.

    A TypeError is a w of quantized weights, which unpack_quantized or unpack_blocks takes.

    >>> rapt.unpack_weights(rapt.pack_weights(np.array([[1, -2, 4]], np.float32)))
    array([[ 1., -2.,  4.]], dtype=float32)
    """
    packed = _packed(w, "unpack_weights")
    matrix = np.empty(packed.shape, DTYPES[packed._number])
    _unpack(packed, matrix, _packed_options(packed.shape, packed._number), {})
    return matrix


def packed_rows(w: PackedWeights, rows: Any, out_type: str | None = None) -> Array:
    """The numbers of some outputs of packed weights, [rows][in_features]: an embedding that shares the weights of a linear layer.

    rows are numbers of outputs, in any order and as often as one likes. out_type is "f32", "f16" or "bf16"; None is f32, or
    f64 for weights of f64. A ValueError is a row that is no output.

    >>> packed = rapt.pack_weights(np.array([[1, -2], [3, 4]], np.float32))
    >>> rapt.packed_rows(packed, [1, 1, 0])
    array([[ 3.,  4.],
           [ 3.,  4.],
           [ 1., -2.]], dtype=float32)
    """
    if not isinstance(w, PackedWeights):
        raise TypeError(f"w is {shown(w)}, not PackedWeights")
    outputs, inputs = w.shape
    numbers = as_integers(rows, "rows")
    if numbers.ndim != 1:
        raise ValueError(f"rows has {numbers.ndim} dimensions, not 1")
    if numbers.size and (numbers.min() < 0 or numbers.max() >= outputs):
        raise ValueError(f"rows has numbers from {numbers.min()} to {numbers.max()}, not from 0 to {outputs - 1}")
    if w._number == F64:
        y_type = type_choice({None: F64, "f64": F64}, "out_type", out_type)
    else:
        y_type = type_choice({None: F32, **_NUMBERS}, "out_type", out_type)
    options = _packed_options(w.shape, w._number)
    options.scale_group = w.scale_group
    listed = np.ascontiguousarray(numbers, np.uintp)
    y = np.empty((len(listed), inputs), DTYPES[y_type])

    def run(first: int, count: int) -> Any:
        of_list, of_y = (address(array) + first * array.strides[0] for array in (listed, y))
        return C.rapt_linear_packed_rows(address(w.data), len(w.data), of_list, count, options, of_y, y_type, 0)

    _check(run_all(run, len(listed), y.size), options)
    return y


def quantize_rows(x: Any, type: str = "i8", group: int = 0) -> tuple[Array, Array]:
    """Rows of integers and their scales: q * scale is about x.

    x is [rows][inputs] of f32, f16 or bf16. `group` adjacent inputs of a row share a scale; 0: the whole row. The result is q,
    int8 [rows][inputs] for type "i8" or uint8 [rows][(inputs + 1) / 2] for "i4", and scales, float32 [rows][groups]. rapt.h
    has the rule. pack_quantized takes both as they are.

    A TypeError is f64 or int8. A ValueError is no matrix, another type of integers, or a group below 0.

    >>> q, scales = rapt.quantize_rows(np.array([[1, -2, 4]], np.float32))
    >>> q
    array([[ 32, -64, 127]], dtype=int8)
    """
    q_type = choice({"i8": I8, "i4": I4}, "type", type)
    group = integer(group, "group")
    matrix = _matrix(x, "x")
    x_type = _floating_type(matrix, "x")
    if x_type == F64:
        raise TypeError("x has elements of float64, which have no integers")
    matrix = np.ascontiguousarray(matrix)
    rows, inputs = matrix.shape
    groups = 0 if inputs == 0 else -(-inputs // (group or inputs))
    q = np.empty((rows, inputs), np.int8) if type == "i8" else np.empty((rows, (inputs + 1) // 2), np.uint8)
    scales = np.empty((rows, groups), np.float32)

    def run(first: int, count: int) -> Any:
        of_x, of_q, of_scales = (address(array) + first * array.strides[0] for array in (matrix, q, scales))
        return C.rapt_quantize_rows(of_x, x_type, 0, count, inputs, group, q_type, of_q, of_scales)

    check(run_all(run, rows, matrix.size))
    return in_kind_of(x, q), in_kind_of(x, scales)


def _integers(type: Any, types: dict[str, int] = QUANTIZED) -> int:
    if not isinstance(type, str):
        raise TypeError(f"type is {shown(type)}, not one of {', '.join(types)}: it comes after q and before scales")
    if type in BLOCKS:
        raise ValueError(f"type is {type!r}, which pack_blocks takes")
    return choice(types, "type", type)


def _shared_outputs(outputs_per_scale: Any, scales: Any) -> int:
    """How many outputs share a row of scales."""
    outputs = integer(outputs_per_scale, "outputs_per_scale", -1)
    if outputs not in OUTPUTS_PER_SCALE:
        raise ValueError(f"outputs_per_scale is {outputs}, not one of {', '.join(map(str, OUTPUTS_PER_SCALE))}")
    if outputs != 1 and scales is None:
        raise ValueError(f"outputs_per_scale is {outputs} without scales")
    return ROW if outputs == -1 else outputs


def _rows_of_integers(q: Any, type: str, in_features: int | None) -> tuple[Array, int]:
    """q as a contiguous matrix, and how many inputs its rows have."""
    matrix = _matrix(q, "q")
    wanted = _IN_BYTES.get(type, np.uint8)
    if matrix.dtype != wanted:
        raise TypeError(f"q has elements of {matrix.dtype.name}, not {np.dtype(wanted).name}")
    if in_features is not None:
        in_features = integer(in_features, "in_features")
    else:
        in_features = matrix.shape[1] * (1 if type in _IN_BYTES else 2)
    if matrix.shape[1] != (in_features if type in _IN_BYTES else (in_features + 1) // 2):
        raise ValueError(f"q has the shape {matrix.shape}, which is not that of {in_features} inputs")
    return np.ascontiguousarray(matrix), in_features


def _rows_of_blocks(
    q: Any, type: str, of: Blocks, in_features: int | None, group: int, arrays: dict[str, Any]
) -> tuple[Array, int]:
    matrix = _matrix(q, "q")
    for name, array in arrays.items():
        if array is not None:
            raise ValueError(f"{name} is for integers: blocks of {type} have their scales in them")
    if matrix.dtype != np.uint8:
        raise TypeError(f"q has elements of {matrix.dtype.name}, not uint8")
    if matrix.shape[1] % of.bytes != 0:
        raise ValueError(f"q has the shape {matrix.shape}: a block of {type} has {of.bytes} bytes")
    inputs = matrix.shape[1] // of.bytes * of.inputs
    if in_features is not None and integer(in_features, "in_features") != inputs:
        raise ValueError(f"q has the shape {matrix.shape}, which is not that of {in_features} inputs")
    if group not in (0, of.group):
        raise ValueError(f"group is {group}: {of.group} inputs share a scale in blocks of {type}")
    return np.ascontiguousarray(matrix), inputs


def _zeros(zeros: Any, shape: tuple[int, int]) -> Array:
    numbers = broadcast(as_integers(zeros, "zeros"), shape, "zeros")
    if numbers.size and (numbers.min() < 0 or numbers.max() > 255):
        raise ValueError("zeros has a number outside 0 to 255")
    return np.ascontiguousarray(numbers, np.uint8)


def _check_parts(type: str, zeros: Any, codebook: Any) -> None:
    if zeros is not None and type not in ("u4", "u8"):
        raise ValueError(f"zeros is for integers of 'u4' and 'u8', not of {type!r}")
    if codebook is not None and type != "u4":
        raise ValueError(f"codebook is for integers of 'u4', not of {type!r}")
    if zeros is not None and codebook is not None:
        raise ValueError("zeros and codebook are both given: a codebook takes the place of q - zero")


def _codebook(codebook: Any) -> Array:
    numbers = np.ascontiguousarray(as_numbers(codebook, "codebook", F32))
    if numbers.shape != (16,):
        raise ValueError(f"codebook has the shape {numbers.shape}, not (16,)")
    return numbers


def dequantize_rows(
    q: Any,
    type: str,
    scales: Any = None,
    *,
    in_features: int | None = None,
    group: int = 0,
    zeros: Any = None,
    offsets: Any = None,
    codebook: Any = None,
    out_type: str = "f32",
) -> Array:
    """(q - zero) * scale + offset, as [rows][in_features] of out_type. The arguments are those of pack_quantized, but any
    number of inputs may share a scale.

    With a type of pack_blocks, q has its blocks, uint8 [rows][bytes of a row], and the result their numbers. They have their
    scales in them, so that no other array goes with them.

    >>> q, scales = rapt.quantize_rows(np.array([[1, -2, 4]], np.float32))
    >>> rapt.dequantize_rows(q, "i8", scales)
    array([[ 1.007874, -2.015748,  4.      ]], dtype=float32)
    """
    in_blocks = BLOCKS.get(type) if isinstance(type, str) else None
    q_type = in_blocks.number if in_blocks else _integers(type, INTEGERS)
    y_type = type_choice({None: F32, **_NUMBERS}, "out_type", out_type)
    group = integer(group, "group")
    if in_blocks:
        arrays = {"scales": scales, "zeros": zeros, "offsets": offsets, "codebook": codebook}
        matrix, inputs = _rows_of_blocks(q, type, in_blocks, in_features, group, arrays)
    else:
        matrix, inputs = _rows_of_integers(q, type, in_features)
        _check_parts(type, zeros, codebook)
    groups = 0 if inputs == 0 else -(-inputs // (group or inputs))
    shape = len(matrix), groups
    of_scales, scale_type = _scales_and_offsets(scales, offsets, shape, shape)
    of_groups = [of_scales.get("scales"), None if zeros is None else _zeros(zeros, shape), of_scales.get("offsets")]
    numbers = None if codebook is None else _codebook(codebook)
    of_codebook = None if numbers is None else address(numbers)
    y = np.empty((len(matrix), inputs), DTYPES[y_type])

    def run(first: int, count: int) -> Any:
        of_q, of_y, *parts = (
            None if array is None else address(array) + first * array.strides[0] for array in (matrix, y, *of_groups)
        )
        return C.rapt_dequantize_rows(
            of_q, q_type, count, inputs, group, *parts, scale_type, of_codebook, of_y, y_type, 0
        )

    check(run_all(run, len(matrix), y.size))
    result: Array = in_kind_of(q, y)
    return result


def _scales(x: Any, name: str) -> Array:
    """A tensor of f16 or bf16 as it is; other numbers become f32."""
    array = as_array(x, name)
    if array.dtype == np.uint16 or array.dtype.name in ("float16", "bfloat16"):
        return array
    return as_numbers(array, name, F32)


def _scales_and_offsets(
    scales: Any, offsets: Any, shape_of_scales: tuple[int, int], shape_of_offsets: tuple[int, int]
) -> tuple[dict[str, Array], int]:
    """Those that are given, as contiguous arrays of one type, and that type or 0."""
    arrays: dict[str, Array] = {}
    types = {}
    for name, given, shape in (("scales", scales, shape_of_scales), ("offsets", offsets, shape_of_offsets)):
        if given is None:
            continue
        numbers = _scales(given, name)
        types[name] = element_type(numbers, name)
        arrays[name] = np.ascontiguousarray(broadcast(numbers, shape, name))
    if len(set(types.values())) > 1:
        raise TypeError("scales and offsets have elements of different types")
    return arrays, next(iter(types.values()), 0)


def pack_quantized(
    q: Any,
    type: str,
    scales: Any = None,
    *,
    in_features: int | None = None,
    scale_group: int = 0,
    outputs_per_scale: int = 1,
    zeros: Any = None,
    offsets: Any = None,
    codebook: Any = None,
) -> PackedWeights:
    """Quantized weights for linear: input k of an output is scale * (q[k] - zero) + offset.

    q             int8 [out_features][in_features] for type "i8", uint8 for "u8". For "i4", of -8 to 7, and "u4", of 0 to 15,
                  uint8 [out_features][(in_features + 1) / 2]: input 2j is in the low half of byte j, input 2j + 1 in the high.
                  For "f8_e4m3" and "f8_e5m2", the bytes of the numbers as uint8 [out_features][in_features], such as
                  w.view(torch.uint8)
    in_features   needed for an odd number of 4-bit inputs
    scale_group   16, 32, 64, 128 or 256 inputs share a scale; 0: the whole row
    outputs_per_scale    64, 128 or 256 outputs share a row of scales; -1: all outputs
    scales        f32, f16 or bf16 [out_features][groups], or with a row for each so many outputs
    zeros         uint8 [out_features][groups], only of "u4" and "u8", whose zeros are 8 and 128 without them
    offsets       [out_features][groups], of the type of scales
    codebook      16 numbers that take the place of q - zero, only of "u4"

    >>> q, scales = rapt.quantize_rows(7 * np.eye(3, dtype=np.float32), "i4")
    >>> rapt.linear(np.array([1, 2, 3], np.float32), rapt.pack_quantized(q, "i4", scales, in_features=3))
    array([ 7., 14., 21.], dtype=float32)
    """
    w_type = _integers(type)
    scale_group = integer(scale_group, "scale_group")
    if scale_group not in SCALE_GROUPS:
        raise ValueError(f"scale_group is {scale_group}, not one of {', '.join(map(str, SCALE_GROUPS))}")
    _check_parts(type, zeros, codebook)
    matrix, in_features = _rows_of_integers(q, type, in_features)
    shape = matrix.shape[0], in_features
    options = _packed_options(shape, w_type)
    options.scale_group = scale_group
    groups = -(-in_features // scale_group) if scale_group else 1
    shared = _shared_outputs(outputs_per_scale, scales)
    rows_of_scales = -(-shape[0] // shared)
    arrays, options.w_scale_type = _scales_and_offsets(scales, offsets, (rows_of_scales, groups), (shape[0], groups))
    options.outputs_per_scale = ROW if outputs_per_scale == -1 else 0 if shared == 1 else shared
    kept = {f"w_{name}": array for name, array in arrays.items()}
    if zeros is not None:
        kept["w_zeros"] = _zeros(zeros, (shape[0], groups))
    codes = None if codebook is None else _codebook(codebook)
    for name, array in kept.items():
        setattr(options, name, address(array))
    if codes is not None:
        options.w_codebook = address(codes)
    data = np.empty(_count(C.rapt_linear_packed_length, options), np.uint8)
    _pack(matrix, 0, options, kept, data, {"w_scales": shared})
    return PackedWeights(shape, type, data, scale_group)


def unpack_quantized(w: PackedWeights) -> dict[str, Any]:
    """The arguments with which pack_quantized made w: q, type, in_features, scale_group, and those of scales, zeros, offsets
    codebook and outputs_per_scale that were given. Arrays have the same bits, and bf16 is uint16. The half of a byte that no input has is 0.

    A TypeError is a w of other weights, which unpack_weights or unpack_blocks takes.

    >>> q, scales = rapt.quantize_rows(np.array([[1, -2, 4]], np.float32))
    >>> parts = rapt.unpack_quantized(rapt.pack_quantized(q, "i8", scales))
    >>> parts["q"]
    array([[ 32, -64, 127]], dtype=int8)
    """
    packed = _packed(w, "unpack_quantized")
    outputs, inputs = packed.shape
    group = packed.scale_group
    options = _packed_options(packed.shape, packed._number)
    options.scale_group = group
    has_scales, has_zeros, has_offsets, has_codebook = (bool(flag) for flag in packed.data[40:44])
    outputs_per_scale = _outputs_per_scale(packed.data)
    shape = outputs, -(-inputs // group) if group else 1
    shared = max(1, outputs_per_scale)
    parts: dict[str, Array] = {}
    if has_scales or has_offsets:
        options.w_scale_type = int(packed.data[36])
        dtype = DTYPES.get(options.w_scale_type, np.float64)  # of a damaged header, which the library refuses
        if has_scales:
            parts["scales"] = np.empty((-(-outputs // shared), shape[1]), dtype)
        if has_offsets:
            parts["offsets"] = np.empty(shape, dtype)
    if has_zeros:
        parts["zeros"] = np.empty(shape, np.uint8)
    if has_codebook:
        parts["codebook"] = np.empty(16, np.float32)
    columns = inputs if packed.type in _IN_BYTES else (inputs + 1) // 2
    q = np.empty((outputs, columns), _IN_BYTES.get(packed.type, np.uint8))
    _unpack(packed, q, options, parts, {"scales": shared})
    made = {"q": q, "type": packed.type, "in_features": inputs, "scale_group": group, **parts}
    if outputs_per_scale != 0:
        made["outputs_per_scale"] = -1 if outputs_per_scale == ROW else outputs_per_scale
    return made


def _blocks(type: Any) -> Blocks:
    if not isinstance(type, str):
        raise TypeError(f"type is {shown(type)}, not one of {', '.join(BLOCKS)}: it comes after blocks")
    choice(IN_BLOCKS, "type", type)
    return BLOCKS[type]


def _check_inputs(shape: tuple[int, int], type: str) -> None:
    inputs = BLOCKS[type].inputs
    if shape[1] % inputs != 0:
        raise ValueError(f"w has the shape {shape}: a block of {type} has {inputs} inputs")


def pack_blocks(blocks: Any, type: str) -> PackedWeights:
    """Weights for linear from the blocks of a GGUF file, which have their scales in them.

    blocks   uint8 [out_features][bytes of a row] as they lie in the file, such as np.memmap, or a list or tuple of such
             matrices, which become one layer as in pack_weights
    type     "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4" or
             "NVFP4": GGUF's own names

    The bytes of a row say how many inputs there are: a whole number of blocks. Rows may have gaps. rapt.h says which
    numbers the blocks stand for.

    A TypeError is another type of elements. A ValueError is another type of blocks, no matrix, a row of no whole blocks,
    or matrices of other inputs.

    >>> blocks = np.zeros((1, 34), np.uint8)  # an f16 and 32 integers
    >>> blocks[0, :2], blocks[0, 2:] = np.array([0.5], np.float16).view(np.uint8), np.arange(32)
    >>> rapt.linear(np.ones(32, np.float32), rapt.pack_blocks(blocks, "Q8_0"))
    array([248.], dtype=float32)
    """
    of = _blocks(type)
    parts, names = _matrices(blocks, "blocks")
    for i, (part, name) in enumerate(zip(parts, names)):
        if part.dtype != np.uint8:
            raise TypeError(f"{name} has elements of {part.dtype.name}, not uint8")
        if part.shape[1] == 0 or part.shape[1] % of.bytes != 0:
            raise ValueError(f"{name} has the shape {part.shape}: a block of {type} has {of.bytes} bytes")
        if part.shape[1] != parts[0].shape[1]:
            raise ValueError(f"blocks[0] has the shape {parts[0].shape} and {name} {part.shape}: other inputs")
        if part.strides[1] != 1:  # the library reads only whole rows
            parts[i] = np.ascontiguousarray(part)
    parts = _whole_blocks(parts)
    shape = sum(map(len, parts)), parts[0].shape[1] // of.bytes * of.inputs
    return PackedWeights(shape, type, _pack_parts(parts, _packed_options(shape, of.number)))


def unpack_blocks(w: PackedWeights) -> Array:
    """What pack_blocks packed: uint8 [out_features][bytes of a row], the same bytes. Several matrices have become one.

    A TypeError is a w of other weights, which unpack_weights or unpack_quantized takes.

    >>> blocks = np.arange(18, dtype=np.uint8)[None]
    >>> rapt.unpack_blocks(rapt.pack_blocks(blocks, "Q4_0")).tobytes() == blocks.tobytes()
    True
    """
    packed = _packed(w, "unpack_blocks")
    of = BLOCKS[packed.type]
    blocks = np.empty((packed.shape[0], packed.shape[1] // of.inputs * of.bytes), np.uint8)
    _unpack(packed, blocks, _packed_options(packed.shape, packed._number), {})
    return blocks


@overload
def pack_gptq(
    qweight: Any, qzeros: Any, scales: Any, g_idx: None = None, v2: bool = False, bits: int = 4
) -> PackedWeights:
    ...


@overload
def pack_gptq(
    qweight: Any, qzeros: Any, scales: Any, g_idx: TensorLike, v2: bool = False, bits: int = 4
) -> tuple[PackedWeights, Array]:
    ...


def pack_gptq(qweight: Any, qzeros: Any, scales: Any, g_idx: Any = None, v2: bool = False, bits: int = 4) -> Any:
    """Weights for linear from the words of a GPTQ file: those of pack_quantized for the same integers.

    qweight  int32 [in_features * bits / 32][out_features]
    qzeros   int32 [groups][out_features * bits / 32]
    scales   f32, f16 or bf16 [groups][out_features]
    g_idx    [in_features] integers: the group of each input, where they are out of order (desc_act). The result is then
             (weights, order): input k of the weights is input order[k] of the file, so linear takes x[..., order]
    v2       the file's checkpoint_format is "gptq_v2": qzeros has zeros, and not zeros less one
    bits     of an integer: 2, 3 and 4 become "u4", which takes 4 bits for each, and 8 "u8"

    in_features and out_features are multiples of 8, or with 2, 3 and 8 bits of 16, 32 and 4. The inputs of a group are 16,
    32, 64, 128 or 256, or all of them; the last group may have fewer.

    A TypeError is another type of elements. A ValueError is another shape or size of groups, a g_idx whose groups are
    not full, or a zero of 256, which qzeros of 8 bits without v2 can have.

    >>> ones = np.full((1, 8), 0x11111111, np.int32)  # 8 inputs of 1
    >>> zeros = np.full((1, 1), -0x77777778, np.int32)  # 0x88888888: a zero of 9
    >>> rapt.linear(np.ones(8, np.float32), rapt.pack_gptq(ones, zeros, np.ones((1, 8), np.float32)))[:2]
    array([-64., -64.], dtype=float32)
    """
    if not isinstance(v2, (bool, np.bool_)):
        raise TypeError(f"v2 is {shown(v2)}, not True or False")
    number = integer(bits, "bits")
    if number not in _GPTQ:
        raise ValueError(f"bits is {number}, not one of {', '.join(map(str, _GPTQ))}")
    return _pack_words(_GPTQ[number][bool(v2)], number, qweight, qzeros, scales, g_idx)


def pack_awq(qweight: Any, qzeros: Any, scales: Any) -> PackedWeights:
    """Weights for linear from the 4-bit words of an AWQ file: those of pack_quantized for the same integers.

    qweight  int32 [in_features][out_features / 8]
    qzeros   int32 [groups][out_features / 8]
    scales   f32, f16 or bf16 [groups][out_features]

    Sizes and errors are those of pack_gptq.

    >>> w = np.full((8, 1), 0x33333333, np.int32)  # 8 outputs of 3
    >>> zeros = np.full((1, 1), 0x11111111, np.int32)
    >>> rapt.linear(np.ones(8, np.float32), rapt.pack_awq(w, zeros, np.ones((1, 8), np.float32)))[:2]
    array([16., 16.], dtype=float32)
    """
    weights: PackedWeights = _pack_words(WORDS_AWQ, 4, qweight, qzeros, scales, None)
    return weights


def _pack_words(format: int, bits: int, qweight: Any, qzeros: Any, scales: Any, g_idx: Any) -> Any:
    words, of_zeros = _words(qweight, "qweight"), _words(qzeros, "qzeros")
    numbers = _matrix(_scales(scales, "scales"), "scales")
    rows, columns = words.shape
    inputs, outputs = (rows, 8 * columns) if format == WORDS_AWQ else (32 * rows // bits, columns)
    unit = 32 if bits == 3 else 32 // bits  # integers of whole words
    if inputs == 0 or inputs % unit != 0 or outputs % unit != 0:
        sizes = f"{outputs} outputs and {inputs} inputs"
        raise ValueError(f"qweight has the shape {words.shape}: {sizes}, not multiples of {unit} above 0")
    groups = len(numbers)
    if numbers.shape != (groups, outputs):
        raise ValueError(f"scales has the shape {numbers.shape}, not (groups, {outputs})")
    columns_of_zeros = outputs * bits // 32
    if of_zeros.shape != (groups, columns_of_zeros):
        raise ValueError(f"qzeros has the shape {of_zeros.shape}, not {(groups, columns_of_zeros)}")
    if bits == 8 and format == WORDS_GPTQ and (of_zeros.view(np.uint8) == 255).any():
        raise ValueError("qzeros has 255, for a zero of 256: zeros are 0 to 255")
    options = _packed_options((outputs, inputs), U8 if bits == 8 else U4)
    options.scale_group = scale_group = _group_of(groups, inputs)
    options.w_scale_type = element_type(numbers, "scales")
    numbers = np.ascontiguousarray(numbers)
    query = options.changed(w_scales=address(numbers), w_zeros=address(of_zeros))
    data = np.empty(_count(C.rapt_linear_packed_length, query), np.uint8)
    of_inputs = None if g_idx is None else _groups_of_inputs(g_idx, inputs, scale_group or inputs)
    order = None if of_inputs is None else np.empty(inputs, np.uintp)
    arrays = address(words), address(of_zeros), address(numbers), None if of_inputs is None else address(of_inputs)
    to = address(data), len(data), None if order is None else address(order)
    _check(C.rapt_linear_pack_words(*arrays, format, options, *to), options)
    weights = PackedWeights((outputs, inputs), "u8" if bits == 8 else "u4", data, scale_group)
    return weights if order is None else (weights, order.astype(np.intp))


def _words(x: Any, name: str) -> Array:
    array = _matrix(x, name)
    if array.dtype not in (np.int32, np.uint32):
        raise TypeError(f"{name} has elements of {array.dtype.name}, not int32")
    return np.ascontiguousarray(array)


def _group_of(groups: int, inputs: int) -> int:
    """How many inputs share a scale, or 0 for all. The sizes of groups are powers of two, so one at most fits."""
    if groups == 1:
        return 0
    for group in SCALE_GROUPS[1:]:
        if -(-inputs // group) == groups:
            return group
    raise ValueError(f"scales has {groups} groups of {inputs} inputs, none of which has 16, 32, 64, 128 or 256")


def _groups_of_inputs(g_idx: Any, inputs: int, group: int) -> Array:
    numbers = as_integers(g_idx, "g_idx")
    if numbers.shape != (inputs,):
        raise ValueError(f"g_idx has the shape {numbers.shape}, not {(inputs,)}")
    groups = -(-inputs // group)
    if numbers.min() < 0 or numbers.max() >= groups:
        raise ValueError(f"g_idx has numbers from {numbers.min()} to {numbers.max()}, not from 0 to {groups - 1}")
    numbers = np.ascontiguousarray(numbers, np.int32)
    for number, count in enumerate(np.bincount(numbers, minlength=groups)):
        wanted = min(group, inputs - number * group)
        if count != wanted:
            raise ValueError(f"g_idx has {count} inputs of group {number}, not {wanted}")
    return numbers


def _row_list(x: Any, name: str, rows_of: int, matrix_name: str) -> Array:
    rows = as_integers(x, name)
    if rows.ndim != 1:
        raise ValueError(f"{name} has {rows.ndim} dimensions, not 1")
    if rows.size > 0 and (rows.min() < 0 or rows.max() >= rows_of):
        raise ValueError(f"{name} leads out of the {rows_of} rows of {matrix_name}")
    return np.array(rows, np.uintp, order="C")  # a copy, which stays as it has been checked


class _Call:
    """The options of one call, and the arrays that they point to."""

    __slots__ = ("x", "weights", "options", "kept", "rows_shape", "outputs", "copied")

    def __init__(self, x: Any, w: Any, arithmetic: Any, x_group: int, out_type: Any) -> None:
        self.x = x = as_array(x, "x")
        if x.ndim == 0:
            raise ValueError("x has no dimension")
        self.kept: list[Array] = []
        self.copied = ""  # the last tensor whose strides the library cannot take
        self.rows_shape = x.shape[:-1]
        self.options = o = LinearOptions()
        o.x_type = x_type = _floating_type(x, "x")
        o.y_type = x_type
        if out_type is not None:
            o.y_type = type_choice(OUT_TYPES, "out_type", out_type)
            if (o.y_type == F64) != (x_type == F64):
                raise ValueError(f"out_type is {shown(out_type)} with an x of {x.dtype.name}: f64 goes only with f64")
        if arithmetic is not None:
            o.arithmetic = choice(ARITHMETIC, "arithmetic", arithmetic)
        if type(x_group) is not int or x_group != 0:
            x_group = integer(x_group, "x_group", -1)
            o.x_group = ROW if x_group == -1 else x_group
        shape = self._set_packed(w) if isinstance(w, PackedWeights) else self._set_matrix(w)
        self.outputs, inputs = shape
        if x.shape[-1] != inputs or inputs == 0:
            raise ValueError(f"x has the shape {x.shape} and w {shape}: {'no' if inputs == 0 else 'other'} inputs")
        o.out_features, o.in_features = shape

    def _set_packed(self, w: PackedWeights) -> tuple[int, int]:
        o = self.options
        if (w._number == F64) != (o.x_type == F64):
            what = "quantized" if w.type in QUANTIZED else w.type
            raise TypeError(f"x has elements of {self.x.dtype.name} with {what} weights: f64 goes only with f64")
        self.weights = w.data
        o.packed_w, o.w_type, o.scale_group = 1, w._number, w.scale_group
        return w.shape

    def _set_matrix(self, w: Any) -> tuple[int, int]:
        weights = _matrix(w, "w")
        self.options.w_type = self._type(weights, "w")
        shape = weights.shape[0], weights.shape[1]
        self.weights = weights
        if not weights.flags.c_contiguous:
            self.weights, self.options.w_strides = self._readable(weights, "w")
        return shape

    def _type(self, array: Array, name: str) -> int:
        rapt_type = _floating_type(array, name)
        if (rapt_type == F64) != (self.options.x_type == F64):
            raise TypeError(
                f"{name} has elements of {array.dtype.name} with an x of {self.x.dtype.name}: f64 goes only with f64"
            )
        return rapt_type

    def _readable(self, array: Array, name: str) -> tuple[Array, MatrixStrides]:
        matrix, strides = input_matrix(array)
        if matrix is not array:
            self.copied = name
        return matrix, strides

    def keep(self, array: Array) -> int:
        self.kept.append(array)
        return address(array)

    def set_x(self, x_rows: Any, y_rows: Any) -> None:
        o, x = self.options, self.x
        if (x_rows is not None or y_rows is not None) and x.ndim != 2:
            raise ValueError(f"x has {x.ndim} dimensions, not 2, with a list of rows")
        if x_rows is not None:
            rows = _row_list(x_rows, "x_rows", len(x), "x")
            o.x_rows = self.keep(rows)
            self.rows_shape = rows.shape
            o.rows = len(rows)
        else:
            o.rows = x.size // o.in_features
        if not x.flags.c_contiguous:
            self.x, o.x_strides = self._readable(x, "x")

    def output(self, out: Any, y_rows: Any, like: Array) -> Array:
        o = self.options
        if y_rows is not None:
            if out is None:
                raise ValueError("y_rows names rows of out, which is missing")
            of_out = as_output(out)
            if of_out.ndim != 2:
                raise ValueError(f"out has {of_out.ndim} dimensions, not 2")
            shape: tuple[int, ...] = (len(of_out), self.outputs)
        else:
            shape = (*self.rows_shape, self.outputs)
        if out is None:
            return empty(shape, o.y_type, like)
        result = given_rows(out, "out", shape, o.y_type)
        o.y_stride = result.stride
        if y_rows is not None:
            rows = _row_list(y_rows, "y_rows", shape[0], "out")
            if rows.shape != self.rows_shape:
                raise ValueError(f"y_rows has the shape {rows.shape}, not {self.rows_shape}")
            if len(np.unique(rows)) != len(rows):
                raise ValueError("y_rows has a row twice")
            o.y_rows = self.keep(rows)
        return result.array

    def set_bias(self, bias: Any) -> None:
        numbers = as_numbers(bias, "bias", arithmetic_type(self.options.x_type))
        if numbers.shape != (self.outputs,):
            raise ValueError(f"bias has the shape {numbers.shape}, not {(self.outputs,)}")
        self.options.bias = self.keep(np.ascontiguousarray(numbers))

    def set_output_scales(self, output_scales: Any) -> None:
        numbers = as_numbers(output_scales, "output_scales", arithmetic_type(self.options.x_type))
        if numbers.shape not in ((), (self.outputs,)):
            raise ValueError(f"output_scales has the shape {numbers.shape}, not {(self.outputs,)}")
        self.options.output_scales = self.keep(np.ascontiguousarray(np.broadcast_to(numbers, (self.outputs,))))

    def set_row_scales(self, row_scales: Any) -> None:
        numbers = as_numbers(row_scales, "row_scales", arithmetic_type(self.options.x_type))
        self.options.row_scales = self.keep(np.ascontiguousarray(broadcast(numbers, self.rows_shape, "row_scales")))

    def set_add(self, add: Any, shape: tuple[int, ...]) -> None:
        o = self.options
        addend = as_array(add, "add")
        o.add_type = self._type(addend, "add")
        whole = broadcast(addend, shape, "add")
        rows = as_rows(whole)
        if rows is None:
            self.copied = "add"
            rows = as_rows(np.ascontiguousarray(whole))
        assert rows is not None  # of a contiguous array
        o.add, o.add_stride = self.keep(rows.array), rows.stride

    @property
    def work(self) -> int:
        """Multiplications with an addition."""
        o = self.options
        return int(o.rows * o.in_features * o.out_features)

    def run(self, result: Array, threads: int | None) -> None:
        work = self.work
        if work <= SMALL:
            if type(threads) is not int or threads < 1:
                thread_count(threads, work)
            o = self.options
            arguments = address(self.x), address(self.weights), address(result), o
            _check(run_at_once(C.rapt_linear, arguments, partial(_count, C.rapt_linear_workspace, o)), o)
        else:
            self._run_tasks(result, thread_count(threads, work))

    def prepared(self, result: Array, returned: Any, threads: int | None) -> Prepared[Any]:
        thread_count(threads)
        if self.work > SMALL:
            return Prepared(self.run, (result, threads), returned, self, self.copied)
        o = self.options
        workspace = Workspace(_count(C.rapt_linear_workspace, o))
        addresses = (c_void_p(address(array)) for array in (self.x, self.weights, result))
        scratch = c_void_p(workspace.address), c_size_t(workspace.size)
        return Prepared(
            C.rapt_linear,
            (*addresses, byref(o), *scratch),
            returned,
            (self, result, workspace),
            self.copied,
            lambda status, kept: _check(status, kept[0].options),
        )

    def _run_tasks(self, result: Array, threads: int) -> None:
        o = self.options
        arrays = address(self.x), address(self.weights), address(result)
        workspace, tasks = _count(C.rapt_linear_workspace, o), _count(C.rapt_linear_tasks, o)

        def run(first: int, last: int, scratch: int) -> None:
            _check(C.rapt_linear_run(*arrays, o, first, last, scratch, workspace), o)

        run_tasks(run, tasks, workspace, threads)


# fmt: off
@overload
def linear(  # type: ignore[misc]
    x: Torch, w: TensorLike | PackedWeights, bias: TensorLike | None = None, *, output_scales: TensorLike | None = None,
    row_scales: TensorLike | None = None, add: TensorLike | None = None, x_rows: TensorLike | None = None, y_rows: TensorLike | None = None,
    arithmetic: Arithmetic = None, x_group: int = 0, out_type: Any = None, out: Torch | None = None, threads: int | None = 1,
) -> Torch: ...
@overload
def linear(
    x: TensorLike, w: TensorLike | PackedWeights, bias: TensorLike | None = None, *, output_scales: TensorLike | None = None,
    row_scales: TensorLike | None = None, add: TensorLike | None = None, x_rows: TensorLike | None = None, y_rows: TensorLike | None = None,
    arithmetic: Arithmetic = None, x_group: int = 0, out_type: Any = None, out: Array | None = None, threads: int | None = 1,
) -> Array: ...
# fmt: on


def linear(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    output_scales: Any = None,
    row_scales: Any = None,
    add: Any = None,
    x_rows: Any = None,
    y_rows: Any = None,
    arithmetic: Arithmetic = None,
    x_group: int = 0,
    out_type: Any = None,
    out: Any = None,
    threads: int | None = 1,
) -> Any:
    """(x . wT * output_scales + bias) * row_scales + add, as torch.nn.functional.linear has x, w and bias.

    x is [...][in_features] and w is [out_features][in_features], or comes from pack_weights, pack_quantized or
    pack_blocks. Each is f32, f16 or bf16, and they may differ; or both are f64. The result is [...][out_features] of x's
    type. rapt.h has its bits: a row has the same alone and in a batch, and neither packing nor strides nor threads change
    a bit. dot_rows adds the same products in another order, and has other bits.

    Both have any strides: transposed matrices, such as w.T, are not copied. x is only where no single stride leads from row
    to row, and either where a stride is negative.

    bias         [out_features] numbers
    output_scales    [out_features] numbers, or one for all
    row_scales   numbers that broadcast to the result's shape without its last dimension
    add          a tensor of x's kinds of types, which broadcasts to the result's shape. It may be `out`
    x_rows       [rows] integers: x is a matrix, and row r of the result is that of row x_rows[r] of x. A row may be there
                 several times
    y_rows       [rows] integers, none twice: x and `out` are matrices, and row r goes to row y_rows[r] of `out`, which
                 keeps its other rows. `add` broadcasts to the shape of `out`, and row r has its row y_rows[r] too
    arithmetic   "f32" where x and w are bf16, instead of "bf16"; "i8" for quantized weights: x is rounded to bytes
    x_group      inputs of x that share a scale in "i8", a multiple of the scale group. 0: as many as share a scale of w, or
                 32 with blocks of a file; -1: the whole row
    out_type     "f32", "f16" or "bf16" instead of x's type

    row_scales has its numbers by r, and not by rows of x or `out`. A single stride leads from row to row of `out`, which
    overlaps no input but `add`, and that only if it is exactly `add`.

    A TypeError is an f64 among other types, or int8. A ValueError is another shape, no input at all, a row that x or `out`
    lacks, arithmetic that the types lack, or an overlap.

    threads: None for all CPUs. Every number of threads gives the same bits.

    >>> x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    >>> w = np.array([[1, 0, 1], [0, 1, 0]], np.float32)
    >>> rapt.linear(x, w, [0.5, 0])
    array([[ 4.5,  2. ],
           [10.5,  5. ]], dtype=float32)
    >>> rapt.linear(x, rapt.pack_weights([w, w[:1]]), x_rows=[1])
    array([[10.,  5., 10.]], dtype=float32)

    The gradients are linear layers, with g the gradient of the result of a matrix x:

    >>> g = np.ones((2, 2), np.float32)
    >>> dx, dw, dbias = rapt.linear(g, w.T), rapt.linear(g.T, x.T), rapt.linear(np.ones(2, np.float32), g.T)
    >>> dw
    array([[5., 7., 9.],
           [5., 7., 9.]], dtype=float32)
    """
    call, result = _call(x, w, bias, output_scales, row_scales, add, x_rows, y_rows, arithmetic, x_group, out_type, out)
    call.run(result, threads)
    return in_kind_of(x, result) if out is None else out


def _call(
    x: Any,
    w: Any,
    bias: Any,
    output_scales: Any,
    row_scales: Any,
    add: Any,
    x_rows: Any,
    y_rows: Any,
    arithmetic: Arithmetic,
    x_group: int,
    out_type: Any,
    out: Any,
) -> tuple[_Call, Array]:
    call = _Call(x, w, arithmetic, x_group, out_type)
    like = call.x
    call.set_x(x_rows, y_rows)
    result = call.output(out, y_rows, like)
    if bias is not None:
        call.set_bias(bias)
    if output_scales is not None:
        call.set_output_scales(output_scales)
    if row_scales is not None:
        call.set_row_scales(row_scales)
    if add is not None:
        call.set_add(add, result.shape)
    return call, result


def _prepare_linear(x: Any, out: Any, threads: int | None, **options: Any) -> Prepared[Any]:
    call, result = _call(x, out=out, **options)
    return call.prepared(result, in_kind_of(x, result) if out is None else out, threads)


joins(linear, _prepare_linear)
