# mypy: no-warn-unused-ignores
"""Elementwise functions of tensors of any shape and strides, which broadcast as NumPy's do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, Union, overload

import numpy as np

from ._arguments import number
from ._arrays import (
    DTYPES,
    Array,
    TensorLike,
    Torch,
    address,
    arithmetic_type,
    as_array,
    as_output,
    broadcast_strides,
    element_type,
    empty,
    in_kind_of,
    refuse_overlap,
    writable,
)
from ._library import BF16, F16, F32, F64, MAP, MAX_DIMS, REPEAT, C, MapOptions
from ._pieces import PIECE, run_all
from ._status import Status

_BLOCK = 1 << 16  # elements of a piece, at least
_TYPES = (F32, F64, F16, BF16)

# What two operands may be: at least one of them is a tensor.
Operand = Union[TensorLike, float]
# Names for messages, and values, of which an argument may be any object.
_Parameters = tuple[tuple[str, Any], ...]


class _Beside(NamedTuple):
    """The number of the arithmetic type next to a bound, which makes a comparison strict."""

    bound: float
    towards: float


class _Unary(Protocol):
    __name__: str

    @overload
    def __call__(self, x: Torch, out: Torch | None = None) -> Torch:  # type: ignore[misc]
        ...

    @overload
    def __call__(self, x: TensorLike, out: Array | None = None) -> Array:
        ...


class _Binary(Protocol):
    __name__: str

    @overload
    def __call__(self, x: Torch, y: Operand, out: Torch | None = None) -> Torch:  # type: ignore[misc]
        ...

    @overload
    def __call__(self, x: Operand, y: Operand, out: Array | None = None) -> Array:
        ...


class _Gradient(Protocol):
    __name__: str

    @overload
    def __call__(self, x: Torch, dy: Operand, out: Torch | None = None) -> Torch:  # type: ignore[misc]
        ...

    @overload
    def __call__(self, x: TensorLike, dy: Operand, out: Array | None = None) -> Array:
        ...


# ---- calls


def _is_number(x: Any) -> bool:
    """A number of Python, which takes the type of the tensors. NumPy's scalars have types of their own."""
    return isinstance(x, (float, int)) and not isinstance(x, bool)


def _element(x: float, name: str, rapt_type: int) -> Array:
    """One element, rounded to the type."""
    with np.errstate(over="ignore"):  # beyond the type is infinite
        value = np.array([number(x, name)]).astype(DTYPES[F32 if rapt_type == BF16 else rapt_type])
    if rapt_type != BF16:
        return value
    element = np.empty(1, np.uint16)
    C.rapt_convert_f32_to_bf16(address(value), address(element), 1)
    return element


def _operands(function: str, given: dict[str, Any]) -> tuple[dict[str, Array], Any, int]:
    """The arrays by name, the first tensor that was given, and the type of all."""
    are_numbers = {name: _is_number(x) for name, x in given.items()}
    if all(are_numbers.values()):
        are_numbers = dict.fromkeys(given, False)
    arrays: dict[str, Array] = {}
    first = ""
    for name, x in given.items():
        if are_numbers[name]:
            continue
        arrays[name] = array = as_array(x, name)
        rapt_type = element_type(array, name)
        if rapt_type not in _TYPES:
            raise TypeError(f"{name} has elements of {array.dtype.name}, and {function} has f32, f64, f16 and bf16")
        if not first:
            first, wanted = name, rapt_type
        elif rapt_type != wanted:
            raise TypeError(f"{first} and {name} have elements of {arrays[first].dtype.name} and {array.dtype.name}")
    for name, is_number in are_numbers.items():
        if is_number:
            arrays[name] = _element(given[name], name, wanted)
    shapes = {name: () if are_numbers[name] else arrays[name].shape for name in given}
    if any(are_numbers.values()):
        arrays = {name: arrays[name].reshape(()) if are_numbers[name] else arrays[name] for name in given}
    return arrays, _Given(given[first], arrays[first], _shape(shapes)), wanted


class _Given:
    """The first tensor, as it was given and as an array, and the shape of the result."""

    __slots__ = ("x", "array", "shape")

    def __init__(self, x: Any, array: Array, shape: tuple[int, ...]) -> None:
        self.x, self.array, self.shape = x, array, shape


def _shape(shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    different = {shape for shape in shapes.values() if shape}
    if len(different) <= 1:  # NumPy takes microseconds
        return different.pop() if different else ()
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        words = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"these shapes do not broadcast to one: {words}") from None


def _result(out: Any, given: _Given, rapt_type: int) -> Array:
    if out is None:
        return empty(given.shape, rapt_type, given.array)
    result = as_output(out)
    if result.shape != given.shape:
        raise ValueError(f"out has the shape {result.shape}, not {given.shape}")
    if element_type(result, "out") != rapt_type:
        raise TypeError(f"out has elements of {result.dtype.name}, not {given.array.dtype.name}")
    size = result.itemsize
    for length, stride in zip(result.shape, result.strides):
        if length > 1 and result.size > 0 and (stride <= 0 or stride % size):
            raise ValueError(f"out has a stride of {stride} bytes: it must be a positive multiple of {size}")
    return writable(result, "out")


def _readable(array: Array) -> Array:
    """`array`, or a copy where the library cannot take its strides."""
    for length, stride in zip(array.shape, array.strides):
        if length > 1 and (stride < 0 or stride % array.itemsize):
            return np.ascontiguousarray(array)
    return array


def _parameter(value: Any, name: str, rapt_type: int) -> float:
    arithmetic = DTYPES[arithmetic_type(rapt_type)]
    if isinstance(value, _Beside):
        with np.errstate(over="ignore"):
            return float(np.nextafter(*np.array(value).astype(arithmetic)))
    x = number(value, name)
    if math.isnan(x):
        raise ValueError(f"{name} is nan")
    if math.isfinite(x) and abs(x) > np.finfo(arithmetic).max:
        raise ValueError(f"{name} is {x!r}, which is not finite in {arithmetic.name}")
    return x


def _dimensions(arrays: list[Array], shape: tuple[int, ...]) -> list[tuple[int, list[int]]]:
    """The lengths and the strides of every array, in elements. Dimensions that a single stride joins are one."""
    strides = [broadcast_strides(array, shape, "") for array in arrays]
    joined: list[tuple[int, list[int]]] = []
    for d, length in enumerate(shape):
        if length == 1:
            continue
        steps = [of_array[d] // arrays[0].itemsize for of_array in strides]
        if joined and all(before == step * length for before, step in zip(joined[-1][1], steps)):
            joined[-1] = joined[-1][0] * length, steps
        else:
            joined.append((length, steps))
    return joined or [(1, [0] * len(arrays))]


_FIELDS = ("x_strides", "y_strides", "z_strides")
_PARAMETERS = ("alpha", "beta", "gamma")


def _run(name: str, function: str, out: Any, parameters: _Parameters, **operands: Any) -> Any:
    """Calls `function` of rapt_map. `name` is that of Python, for messages, and so are those of operands and parameters."""
    arrays, given, rapt_type = _operands(name, operands)
    numbers = [_parameter(value, of, rapt_type) for of, value in parameters]
    result = _result(out, given, rapt_type)
    returned = out if out is not None else in_kind_of(given.x, result)
    if result.size == 0:
        return returned
    arrays = {of: _readable(array) for of, array in arrays.items()}
    inputs = list(arrays.values())
    dimensions = _dimensions([*inputs, result], result.shape)
    if len(dimensions) > MAX_DIMS:
        raise ValueError(
            f"{name} has {MAX_DIMS} dimensions that no single stride joins, and these are {len(dimensions)}"
        )
    shape = tuple(length for length, _ in dimensions)
    fields: dict[str, object] = {}
    for i, field in enumerate((*_FIELDS[: len(inputs)], "out_strides")):
        fields[field] = tuple(steps[i] or (REPEAT if length > 1 else 0) for length, steps in dimensions)
    fields |= zip(_PARAMETERS, numbers)
    options = MapOptions(function=MAP[function].number, type=rapt_type, dims=len(shape), shape=shape, **fields)
    addresses = [address(array) for array in inputs] + [None] * (3 - len(inputs)) + [address(result)]
    if result.size <= PIECE:
        status = C.rapt_map(*addresses, options)
    else:
        _refuse_overlaps(arrays, result)
        status = _run_in_pieces(addresses, options, dimensions, result)
    if status:
        _failed(status, name, arrays, result)
    return returned


def _run_in_pieces(
    addresses: list[int | None], options: MapOptions, dimensions: list[tuple[int, list[int]]], result: Array
) -> int:
    """Cut along the longest dimension."""
    shape = [length for length, _ in dimensions]
    cut = shape.index(max(shape))
    steps = dimensions[cut][1]
    bytes_of = [*steps[:-1], *[0] * (4 - len(steps)), steps[-1]]

    def run(first: int, count: int) -> int:
        shape[cut] = count
        at = [a if a is None else a + first * step * result.itemsize for a, step in zip(addresses, bytes_of)]
        status: int = C.rapt_map(*at, options.changed(shape=tuple(shape)))
        return status

    length = shape[cut]
    return run_all(run, length, result.size, max(1, _BLOCK * length // result.size))


def _refuse_overlaps(arrays: dict[str, Array], result: Array) -> None:
    for name, array in arrays.items():
        refuse_overlap(np.broadcast_to(array, result.shape), result, name)


def _failed(status: int, name: str, arrays: dict[str, Array], result: Array) -> None:
    _refuse_overlaps(arrays, result)
    if status == Status.OUT_STRIDES:
        strides = [stride // result.itemsize for stride in result.strides]
        raise ValueError(f"out has strides of {strides} elements, with which its elements may coincide")
    raise ValueError(f"out overlaps {' or '.join(arrays)}, as far as {name} can tell")


def _named(function: Callable[..., Any], name: str, text: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


_SHAPES = """

    {of} f32, f64, f16 or bf16, of any shape and strides. `out` takes the result, may have strides too, and may be exactly an
    input. A TypeError is another type, or several, a ValueError a shape that does not fit, or another overlap."""


def _unary(name: str, text: str, function: str = "", parameters: _Parameters = ()) -> _Unary:
    def call(x: Any, out: Any = None) -> Any:
        return _run(name, function or name, out, parameters, x=x)

    made: _Unary = _named(call, name, text + _SHAPES.format(of="x is"))
    return made


def _binary(name: str, text: str) -> _Binary:
    def call(x: Any, y: Any, out: Any = None) -> Any:
        return _run(name, name, out, (), x=x, y=y)

    made: _Binary = _named(call, name, text + _SHAPES.format(of="x and y broadcast, and one may be a number:"))
    return made


def _gradient(name: str, text: str, function: str = "", parameters: _Parameters = ()) -> _Gradient:
    def call(x: Any, dy: Any, out: Any = None) -> Any:
        return _run(f"{name}_backward", function or f"{name}_backward", out, parameters, x=x, dy=dy)

    made: _Gradient = _named(call, f"{name}_backward", text + _SHAPES.format(of="x and dy broadcast:"))
    return made


# ---- functions of one tensor

sqrt = _unary("sqrt", "The square root, correctly rounded.")
rsqrt = _unary("rsqrt", "1 / sqrt(x), each operation rounded: at most 1.5 ULP.")
reciprocal = _unary("reciprocal", "1 / x, correctly rounded.")
exp2 = _unary("exp2", "2^x, to 1 ULP.")
expm1 = _unary("expm1", "e^x - 1, accurate near 0: 0.51 ULP in f32, 1.5 in f64.")
log = _unary("log", "The natural logarithm: 0.51 ULP in f32, 1 in f64.")
log2 = _unary("log2", "The logarithm to base 2: 0.51 ULP in f32, 1.5 in f64.")
log1p = _unary("log1p", "log(1 + x), accurate near 0: 0.51 ULP in f32, 1 in f64.")
sin = _unary("sin", "The sine of any number of radians: 0.51 ULP in f32, 1.5 in f64.")
cos = _unary("cos", "The cosine of any number of radians: 0.51 ULP in f32, 1.5 in f64.")
tan = _unary("tan", "The tangent of any number of radians: 0.51 ULP in f32, 4 in f64.")
tanh = _unary("tanh", "The hyperbolic tangent: 0.51 ULP in f32, 3 in f64.")
erf = _unary("erf", "The error function: 0.51 ULP in f32, 4 in f64.")
sigmoid = _unary("sigmoid", "1 / (1 + e^-x): 0.51 ULP in f32, 2 in f64.")
log_sigmoid = _unary("log_sigmoid", "log(sigmoid(x)): 0.51 ULP in f32, 2 in f64.")
mish = _unary("mish", "x * tanh(log(1 + e^x)): 0.51 ULP in f32, 4 in f64.")
hardsigmoid = _unary("hardsigmoid", "clamp(x + 3, 0, 6) / 6, each operation rounded.", "hard_sigmoid")
hardswish = _unary("hardswish", "x * clamp(x + 3, 0, 6) / 6, each operation rounded.", "hard_swish")
relu = _unary("relu", "max(x, 0).", "clamp", (("min", 0.0), ("max", math.inf)))
relu6 = _unary("relu6", "min(max(x, 0), 6).", "clamp", (("min", 0.0), ("max", 6.0)))
_SELU = (("alpha", 1.6732632423543772), ("scale", 1.0507009873554805), ("input_scale", 1.0))
selu = _unary(
    "selu", "scale * x above 0, else scale * alpha * (e^x - 1), with the paper's numbers, rounded to the arithmetic type.",
    "elu", _SELU,
)  # fmt: skip

erf_backward = _gradient("erf", "dy * erf'(x).")
sigmoid_backward = _gradient("sigmoid", "dy * (1 - x) * x. As in PyTorch, x is the sigmoid, not its argument.")
tanh_backward = _gradient("tanh", "dy * (1 - x * x). As in PyTorch, x is the tanh, not its argument.")
log_sigmoid_backward = _gradient("log_sigmoid", "dy * sigmoid(-x).")
mish_backward = _gradient("mish", "dy * mish'(x).")
hardsigmoid_backward = _gradient("hardsigmoid", "dy / 6 between -3 and 3, else 0.", "hard_sigmoid_backward")
hardswish_backward = _gradient("hardswish", "0 below -3, dy * (x / 3 + 1/2) up to 3, dy above.", "hard_swish_backward")
relu_backward = _gradient(
    "relu", "dy where x is above 0, else 0.", "clamp_backward", (("min", _Beside(0.0, math.inf)), ("max", math.inf))
)
relu6_backward = _gradient(
    "relu6", "dy where x is between 0 and 6, else 0.",
    "clamp_backward", (("min", _Beside(0.0, math.inf)), ("max", _Beside(6.0, -math.inf))),
)  # fmt: skip
selu_backward = _gradient("selu", "dy * selu'(x).", "elu_backward", _SELU)

# ---- functions of two tensors

multiply = _binary("multiply", "x * y, correctly rounded.")
divide = _binary("divide", "x / y, correctly rounded.")
atan2 = _binary(
    "atan2", "The angle of the point (y, x): the arc tangent of x / y, with the quadrant. 0.51 ULP in f32, 2 in f64."
)


# fmt: off
@overload
def add(x: Torch, y: Operand, *, alpha: float = 1, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def add(x: Operand, y: Operand, *, alpha: float = 1, out: Array | None = None) -> Array: ...
# fmt: on


def add(x: Any, y: Any, *, alpha: float = 1, out: Any = None) -> Any:
    """x + alpha * y, each operation rounded, with multiply's types, shapes, `out` and errors."""
    return _add("add", 1, x, y, alpha, out)


# fmt: off
@overload
def subtract(x: Torch, y: Operand, *, alpha: float = 1, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def subtract(x: Operand, y: Operand, *, alpha: float = 1, out: Array | None = None) -> Array: ...
# fmt: on


def subtract(x: Any, y: Any, *, alpha: float = 1, out: Any = None) -> Any:
    """x - alpha * y, each operation rounded, with multiply's types, shapes, `out` and errors."""
    return _add("subtract", -1, x, y, alpha, out)


def _add(name: str, sign: int, x: Any, y: Any, alpha: Any, out: Any) -> Any:
    factor = number(alpha, "alpha")
    if factor == 1:
        return _run(name, name, out, (), x=x, y=y)
    return _run(name, "add_scaled", out, (("alpha", sign * factor),), x=x, y=y)


# fmt: off
@overload
def pow(x: Torch, y: Operand, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def pow(x: Operand, y: Operand, out: Array | None = None) -> Array: ...
# fmt: on


def pow(x: Any, y: Any, out: Any = None) -> Any:
    """x^y, to 0.51 ULP in f32 and 1.25 in f64, with multiply's types, shapes, `out` and errors.

    As in PyTorch, a y that is the number 0.5 gives sqrt(x), and -0.5 rsqrt(x). These differ from an array of them at -0 and
    -inf.
    """
    if _is_number(y) and y in (0.5, -0.5) and not _is_number(x):
        return _run("pow", "sqrt" if y > 0 else "rsqrt", out, (), x=x)
    return _run("pow", "pow", out, (), x=x, y=y)


# ---- functions of three tensors


# fmt: off
@overload
def fma(x: Torch, y: Operand, z: Operand, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def fma(x: Operand, y: Operand, z: Operand, out: Array | None = None) -> Array: ...
# fmt: on


def fma(x: Any, y: Any, z: Any, out: Any = None) -> Any:
    """x * y + z, rounded once in the arithmetic type, with multiply's types, shapes, `out` and errors."""
    return _run("fma", "fma", out, (), x=x, y=y, z=z)


# fmt: off
@overload
def addcmul(x: Torch, tensor1: Operand, tensor2: Operand, *, value: float = 1, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def addcmul(x: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1, out: Array | None = None) -> Array: ...
# fmt: on


def addcmul(x: Any, tensor1: Any, tensor2: Any, *, value: float = 1, out: Any = None) -> Any:
    """x + (value * tensor1) * tensor2, each operation rounded, with multiply's types, shapes, `out` and errors."""
    return _run("addcmul", "addcmul", out, (("value", value),), x=x, tensor1=tensor1, tensor2=tensor2)


# fmt: off
@overload
def addcdiv(x: Torch, tensor1: Operand, tensor2: Operand, *, value: float = 1, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def addcdiv(x: Operand, tensor1: Operand, tensor2: Operand, *, value: float = 1, out: Array | None = None) -> Array: ...
# fmt: on


def addcdiv(x: Any, tensor1: Any, tensor2: Any, *, value: float = 1, out: Any = None) -> Any:
    """x + (value * tensor1) / tensor2, each operation rounded, with multiply's types, shapes, `out` and errors."""
    return _run("addcdiv", "addcdiv", out, (("value", value),), x=x, tensor1=tensor1, tensor2=tensor2)


# fmt: off
@overload
def lerp(start: Torch, end: Operand, weight: Operand, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def lerp(start: Operand, end: Operand, weight: Operand, out: Array | None = None) -> Array: ...
# fmt: on


def lerp(start: Any, end: Any, weight: Any, out: Any = None) -> Any:
    """start + weight * (end - start), or end - (end - start) * (1 - weight) where |weight| is not below 1/2.

    Each operation is rounded. A weight that is a number is rounded to the arithmetic type, and is not NaN. Types, shapes, `out`
    and errors are multiply's.
    """
    if _is_number(weight):
        return _run("lerp", "lerp_at", out, (("weight", weight),), start=start, end=end)
    return _run("lerp", "lerp", out, (), start=start, end=end, weight=weight)


# ---- functions with parameters


def _softplus(name: str, function: str, out: Any, beta: Any, threshold: Any, **operands: Any) -> Any:
    for of, value in (("beta", beta), ("threshold", threshold)):
        if number(value, of) == 0:
            raise ValueError(f"{of} is 0, which {name} lacks")
    return _run(name, function, out, (("beta", beta), ("threshold", threshold)), **operands)


# fmt: off
@overload
def softplus(x: Torch, beta: float = 1, threshold: float = 20, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def softplus(x: TensorLike, beta: float = 1, threshold: float = 20, *, out: Array | None = None) -> Array: ...
# fmt: on


def softplus(x: Any, beta: float = 1, threshold: float = 20, *, out: Any = None) -> Any:
    """log(1 + e^(beta * x)) / beta, or x where beta * x is above threshold: 0.51 ULP in f32, 4 + |beta * x| / 2 in f64.

    beta and threshold are not 0. Types, `out` and errors are those of sqrt.
    """
    return _softplus("softplus", "softplus", out, beta, threshold, x=x)


# fmt: off
@overload
def softplus_backward(x: Torch, dy: Operand, beta: float = 1, threshold: float = 20, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def softplus_backward(x: TensorLike, dy: Operand, beta: float = 1, threshold: float = 20, *, out: Array | None = None) -> Array: ...
# fmt: on


def softplus_backward(x: Any, dy: Any, beta: float = 1, threshold: float = 20, *, out: Any = None) -> Any:
    """dy * sigmoid(beta * x), or dy where beta * x is above threshold, with softplus' errors."""
    return _softplus("softplus_backward", "softplus_backward", out, beta, threshold, x=x, dy=dy)


# fmt: off
@overload
def elu(x: Torch, alpha: float = 1, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def elu(x: TensorLike, alpha: float = 1, *, out: Array | None = None) -> Array: ...
# fmt: on


def elu(x: Any, alpha: float = 1, *, out: Any = None) -> Any:
    """x above 0, else alpha * (e^x - 1): 0.51 ULP in f32, 3 in f64. An alpha of 0 is relu.

    Types, `out` and errors are those of sqrt.
    """
    if number(alpha, "alpha") == 0:
        return _run("elu", "clamp", out, (("min", 0.0), ("max", math.inf)), x=x)
    return _run("elu", "elu", out, (("alpha", alpha),), x=x)


# fmt: off
@overload
def elu_backward(x: Torch, dy: Operand, alpha: float = 1, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def elu_backward(x: TensorLike, dy: Operand, alpha: float = 1, *, out: Array | None = None) -> Array: ...
# fmt: on


def elu_backward(x: Any, dy: Any, alpha: float = 1, *, out: Any = None) -> Any:
    """dy where x is above 0, else dy * alpha * e^x. x is elu's argument. An alpha of 0 is relu_backward."""
    if number(alpha, "alpha") == 0:
        bounds = ("min", _Beside(0.0, math.inf)), ("max", math.inf)
        return _run("elu_backward", "clamp_backward", out, bounds, x=x, dy=dy)
    return _run("elu_backward", "elu_backward", out, (("alpha", alpha),), x=x, dy=dy)


def _celu(alpha: Any) -> _Parameters:
    a = number(alpha, "alpha")
    if a == 0 or math.isinf(a):
        raise ValueError(f"alpha is {a!r}, and celu divides by it: it must be finite, and not 0")
    return ("alpha", a), ("scale", 1.0), ("1 / alpha", 1 / a if abs(a) > 1e-308 else math.inf)


# fmt: off
@overload
def celu(x: Torch, alpha: float = 1, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def celu(x: TensorLike, alpha: float = 1, *, out: Array | None = None) -> Array: ...
# fmt: on


def celu(x: Any, alpha: float = 1, *, out: Any = None) -> Any:
    """x above 0, else alpha * (e^(x / alpha) - 1), with 1 / alpha rounded: 0.51 ULP of that in f32, 3 in f64.

    alpha is finite, and not 0. Types, `out` and errors are those of sqrt.
    """
    return _run("celu", "elu", out, _celu(alpha), x=x)


# fmt: off
@overload
def celu_backward(x: Torch, dy: Operand, alpha: float = 1, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def celu_backward(x: TensorLike, dy: Operand, alpha: float = 1, *, out: Array | None = None) -> Array: ...
# fmt: on


def celu_backward(x: Any, dy: Any, alpha: float = 1, *, out: Any = None) -> Any:
    """dy where x is above 0, else dy * e^(x / alpha), with celu's errors. x is celu's argument."""
    return _run("celu_backward", "elu_backward", out, _celu(alpha), x=x, dy=dy)


def _hardtanh(min_val: Any, max_val: Any) -> tuple[float, float]:
    low, high = number(min_val, "min_val"), number(max_val, "max_val")
    if low > high:
        raise ValueError(f"min_val is {low!r}, above max_val, which is {high!r}")
    return low, high


# fmt: off
@overload
def hardtanh(x: Torch, min_val: float = -1, max_val: float = 1, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def hardtanh(x: TensorLike, min_val: float = -1, max_val: float = 1, *, out: Array | None = None) -> Array: ...
# fmt: on


def hardtanh(x: Any, min_val: float = -1, max_val: float = 1, *, out: Any = None) -> Any:
    """min(max(x, min_val), max_val), of numbers of which the first is not above the second.

    Types, `out` and errors are those of sqrt.
    """
    low, high = _hardtanh(min_val, max_val)
    return _run("hardtanh", "clamp", out, (("min_val", low), ("max_val", high)), x=x)


# fmt: off
@overload
def hardtanh_backward(x: Torch, dy: Operand, min_val: float = -1, max_val: float = 1, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def hardtanh_backward(x: TensorLike, dy: Operand, min_val: float = -1, max_val: float = 1, *, out: Array | None = None) -> Array: ...
# fmt: on


def hardtanh_backward(x: Any, dy: Any, min_val: float = -1, max_val: float = 1, *, out: Any = None) -> Any:
    """dy where x is above min_val and below max_val, else 0, with hardtanh's errors. clamp_backward has dy at the bounds too."""
    bounds = _hardtanh(min_val, max_val)
    for name, bound in zip(("min_val", "max_val"), bounds):
        if math.isnan(bound):
            raise ValueError(f"{name} is nan")
    parameters = ("min_val", _Beside(bounds[0], math.inf)), ("max_val", _Beside(bounds[1], -math.inf))
    return _run("hardtanh_backward", "clamp_backward", out, parameters, x=x, dy=dy)


def _bounds(min: Any, max: Any) -> _Parameters:
    return ("min", -math.inf if min is None else min), ("max", math.inf if max is None else max)


# fmt: off
@overload
def clamp(x: Torch, min: float | None = None, max: float | None = None, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def clamp(x: TensorLike, min: float | None = None, max: float | None = None, *, out: Array | None = None) -> Array: ...
# fmt: on


def clamp(x: Any, min: float | None = None, max: float | None = None, *, out: Any = None) -> Any:
    """min(max(x, min), max), as torch.clamp and np.clip: max wins where min is above it.

    min and max are numbers, and not NaN; None is no bound. Types, `out` and errors are those of sqrt.
    """
    return _run("clamp", "clamp", out, _bounds(min, max), x=x)


clip = clamp


# fmt: off
@overload
def clamp_backward(x: Torch, dy: Operand, min: float | None = None, max: float | None = None, *, out: Torch | None = None) -> Torch: ...  # type: ignore[misc]
@overload
def clamp_backward(x: TensorLike, dy: Operand, min: float | None = None, max: float | None = None, *, out: Array | None = None) -> Array: ...
# fmt: on


def clamp_backward(x: Any, dy: Any, min: float | None = None, max: float | None = None, *, out: Any = None) -> Any:
    """dy where x is at least min and at most max, else 0, with clamp's errors."""
    return _run("clamp_backward", "clamp_backward", out, _bounds(min, max), x=x, dy=dy)
