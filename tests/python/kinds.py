"""Types of the tests' arguments, and arrays in each type of rapt."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import rapt

Array = npt.NDArray[Any]
Call = Callable[..., Any]
Random = np.random.Generator
OnEachLevel = Callable[[Callable[[], Any]], Any]  # the fixture of conftest.py

TYPES = ["f32", "f64", "f16", "bf16"]


def narrowed(x: Array, to: str) -> Any:
    """An array of f32 or f64 in a type."""
    if to in ("f16", "bf16"):
        return rapt.convert(x.astype(np.float32), to)
    return x.astype(np.float64 if to == "f64" else np.float32)


def widened(x: Array) -> Any:
    """The numbers of an array in a type, as f32 or f64."""
    return rapt.convert(x, "f32") if x.dtype in (np.float16, np.uint16) else x
