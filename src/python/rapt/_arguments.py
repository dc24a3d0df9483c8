"""Numbers, flags and names among the arguments: a wrong type is a TypeError, a wrong value a ValueError, and both name it."""

from __future__ import annotations

import inspect
import operator
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

LARGEST = (1 << 63) - 1  # of the integers that the library takes


def shown(x: object) -> str:
    """x for a message: a long value is cut, and an integer of thousands of digits has none to show."""
    try:
        return reprlib.repr(x)
    except ValueError:
        return f"{a_thing(x)} of too many digits"


def a_thing(x: object) -> str:
    """The type of x with its article."""
    name = type(x).__name__
    return f"{'an' if name[:1] in 'aeioAEIO' else 'a'} {name}"


def integer(x: Any, name: str, least: int = 0, most: float = LARGEST) -> int:
    """An int, or what stands for one without rounding, such as np.int64."""
    if type(x) is not int:
        try:
            x = operator.index(x)
        except Exception:  # of x's own method too
            raise TypeError(f"{name} is {shown(x)}, not an integer") from None
    if x < least:
        raise ValueError(f"{name} is {shown(x)}, below {least}")
    if x > most:
        raise ValueError(f"{name} is {shown(x)}, above {most}")
    return int(x)


def number(x: Any, name: str) -> float:
    """A float, or a number of another type, such as np.float32. A str is none."""
    if type(x) is float:
        return x
    if not hasattr(type(x), "__float__") and not hasattr(type(x), "__index__"):
        raise TypeError(f"{name} is {shown(x)}, not a number")
    try:
        return float(x)
    except OverflowError:
        raise ValueError(f"{name} is {shown(x)}, beyond the largest number of a float") from None
    except Exception:  # of an array of several numbers, or of x's own method
        raise TypeError(f"{name} is {shown(x)}, not a number") from None


def flag(x: Any, name: str) -> bool:
    if x is True or x is False:
        return bool(x)
    if isinstance(x, np.bool_):
        return bool(x)
    raise TypeError(f"{name} is {shown(x)}, not True or False")


def choice(choices: Mapping[Any, int], name: str, x: Any) -> int:
    """The number of a name."""
    if x is not None and not isinstance(x, str):
        raise TypeError(f"{name} is {shown(x)}, not one of {', '.join(filter(None, choices))}")
    if x not in choices:
        raise ValueError(f"{name} is {shown(x)}, not one of {', '.join(filter(None, choices))}")
    return choices[x]


_TYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int8": "i8"}


def type_choice(choices: Mapping[Any, int], name: str, x: Any) -> int:
    """As choice, for types: np.float16, torch.float16 and a dtype stand for "f16"."""
    if x is None or isinstance(x, str):
        return choice(choices, name, x)
    if isinstance(x, (type, np.dtype)):
        try:
            text = np.dtype(x).name
        except TypeError:
            text = ""
    else:
        text = str(x).removeprefix("torch.") if type(x).__module__ == "torch" else ""
    if text not in _TYPES:
        raise TypeError(f"{name} is {shown(x)}, not one of {', '.join(filter(None, choices))}")
    return choice(choices, name, _TYPES[text])


def by_name(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
    """What a call of `function` with these arguments would give its parameters, defaults too."""
    bound = inspect.signature(function).bind(*arguments, **options)
    bound.apply_defaults()
    return bound.arguments
