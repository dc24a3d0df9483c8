"""What a status of the library says about softmax, norms and rope, in the names and numbers of the call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ._library import F64, REPEAT, ROPE_TYPES, C, Strides
from ._status import Status


def error(status: int, options: Any, rapt_type: int) -> ValueError:
    """The exception that names the argument; rapt_type is the arithmetic type."""
    explain = _TEXTS.get(status)
    return ValueError(C.rapt_status_text(status).decode() if explain is None else explain(options, rapt_type))


def normal_numbers(rapt_type: int) -> tuple[str, float, float]:
    """The name of a type, and its least and largest normal numbers."""
    numbers: np.finfo[Any] = np.finfo(np.float64) if rapt_type == F64 else np.finfo(np.float32)
    return numbers.dtype.name, float(numbers.tiny), float(numbers.max)


def scale_text(scale: float, rapt_type: int) -> str:
    name, least, most = normal_numbers(rapt_type)
    return f"scale is {scale!r}: its magnitude must be from {least:.4g} to {most / math.log2(math.e):.4g} in {name}"


def softcap_text(softcap: float, scale: float, rapt_type: int) -> str:
    name, least, most = normal_numbers(rapt_type)
    return (
        f"softcap is {softcap!r}: 0 (off) or from {least:.4g} to {most:.4g} in {name}, and so is the magnitude of "
        f"scale / softcap, which is {scale / (softcap or 1):.4g}"
    )


def out_strides_text(strides: Strides) -> str:
    elements = [0 if stride == REPEAT else stride for stride in (strides.batch, strides.head, strides.token)]
    return f"out has strides of {elements} elements from batch, head and token to the next, with which rows overlap"


def _eps(o: Any, rapt_type: int) -> str:
    name, least, most = normal_numbers(rapt_type)
    return f"eps is {o.eps!r}: 0 or from {least:.4g} to {most:.4g} in {name}"


def _attention_factor(o: Any, rapt_type: int) -> str:
    name, least, most = normal_numbers(rapt_type)
    return f"attention_factor is {o.attention_factor!r}: its magnitude must be from {least:.4g} to {most:.4g} in {name}"


# ---- rope_frequencies

_RANGE = "from 2**-256 to 2**256"


def _rope_type(o: Any) -> str:
    return next(name for name, scaling in ROPE_TYPES.items() if name and scaling == o.scaling)


def _unused(o: Any, *names: str) -> str:
    name = next(name for name in names if getattr(o, name))
    return f"{name} is {getattr(o, name)!r}, which rope_type {_rope_type(o)!r} does not use"


def _factor(o: Any, _: int) -> str:
    return f"factor is {o.factor!r}: {_RANGE}" if o.scaling else _unused(o, "factor")


def _original_length(o: Any, _: int) -> str:
    name = "original_max_position_embeddings"
    return _unused(o, name) if getattr(o, name) else f"{name} is 0, and rope_type {_rope_type(o)!r} needs it"


def _freq_factors(o: Any, _: int) -> str:
    if _rope_type(o) != "llama3":
        return _unused(o, "low_freq_factor", "high_freq_factor")
    low, high = o.low_freq_factor or 1.0, o.high_freq_factor or 4.0
    return f"low_freq_factor is {low!r} and high_freq_factor {high!r}: both {_RANGE}, and the second one is larger"


def _betas(o: Any, _: int) -> str:
    if _rope_type(o) != "yarn":
        return _unused(o, "beta_fast", "beta_slow")
    fast, slow = o.beta_fast or 32.0, o.beta_slow or 1.0
    return f"beta_fast is {fast!r} and beta_slow {slow!r}: both {_RANGE}, and the first one is larger"


def _mscale(o: Any, _: int) -> str:
    if _rope_type(o) != "yarn":
        return _unused(o, "mscale", "mscale_all_dim")
    return f"mscale is {o.mscale!r} and mscale_all_dim {o.mscale_all_dim!r}: both {_RANGE}, or none is given"


_TEXTS: dict[int, Callable[[Any, int], str]] = {
    Status.SCALE: lambda o, rapt_type: scale_text(o.scale, rapt_type),
    Status.SOFTCAP: lambda o, rapt_type: softcap_text(o.softcap, o.scale or 1.0, rapt_type),
    Status.EPS: _eps,
    Status.WEIGHT: lambda o, _: "weight_plus_one is True, and there is no weight",
    Status.Y_STRIDES: lambda o, _: out_strides_text(o.y_strides),
    Status.ATTENTION_FACTOR: _attention_factor,
    Status.ROTARY_DIM: lambda o, _: f"rotary_dim is {o.rotary_dim}: it must be even, and not 0",
    Status.BASE: lambda o, _: f"base is {o.base!r}: above 1, and at most 2**512",
    Status.SCALING_FACTOR: _factor,
    Status.ORIGINAL_LENGTH: _original_length,
    Status.FREQ_FACTORS: _freq_factors,
    Status.BETAS: _betas,
    Status.TRUNCATE: lambda o, _: f"truncate is False, which rope_type {_rope_type(o)!r} does not use",
    Status.MSCALE: _mscale,
}
