"""Types of the tests' arguments."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Call = Callable[..., Any]
Random = np.random.Generator
OnEachLevel = Callable[[Callable[[], Any]], Any]  # the fixture of conftest.py
