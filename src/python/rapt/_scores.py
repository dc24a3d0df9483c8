"""What softmax and attention share of the options of scores."""

from __future__ import annotations

from typing import Any, Literal, Union

import numpy as np

from ._arguments import integer, number, shown
from ._library import CAUSAL

Causal = Union[bool, np.bool_, Literal["bottom_right", "top_left"], None]


def causal_fields(causal: Any, causal_offset: int | None) -> dict[str, int]:
    """Of both structs of options."""
    is_flag = causal is None or isinstance(causal, (bool, np.bool_))
    if causal_offset is not None:
        if not is_flag or causal:
            raise ValueError(f"causal is {shown(causal)} with a causal_offset, which says where causality begins")
        return {
            "causal": CAUSAL["offset"],
            "causal_offset": integer(causal_offset, "causal_offset", -(1 << 60), 1 << 60),
        }
    if is_flag:
        return {"causal": CAUSAL["bottom_right"]} if causal else {}
    if not isinstance(causal, str):
        raise TypeError(f"causal is {shown(causal)}, not True, 'bottom_right' or 'top_left'")
    if causal not in ("bottom_right", "top_left"):
        raise ValueError(f"causal is {shown(causal)}: True or 'bottom_right', 'top_left', or an integer causal_offset")
    return {"causal": CAUSAL[causal]}


def scale_field(scale: float) -> float:
    scale = number(scale, "scale")
    if scale == 0:  # the library's default
        raise ValueError("scale is 0: every score would be the same")
    return scale
