"""A number for the bits of tensors, modules and what holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import rapt


def _joined(parts: list[tuple[str, int]]) -> int:
    """The hash of the hashes of each name and of what it names."""
    words = [(rapt.hash(np.frombuffer(name.encode(), np.uint8)), part) for name, part in parts]
    return rapt.hash(np.array(words, np.uint64).reshape(-1, 2))


def hash(x: Any) -> int:
    """64 bits that show whether tensors, or what holds them, have the same bits: rapt.hash() of a tensor.

    x is a tensor, an array, a module (its state_dict()), a mapping from names, or a list or tuple. The order of names does not
    matter. Numbers count as tensors, None as nothing. Sparse and quantized tensors are a TypeError, as complex ones are.
    """
    if isinstance(x, torch.nn.Module):
        return hash(x.state_dict())
    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided or x.is_quantized:
            raise TypeError(
                f"x is a tensor of {x.layout if x.layout != torch.strided else x.dtype}, without plain elements"
            )
        return rapt.hash(x.detach().resolve_neg().cpu())
    if isinstance(x, Mapping):
        return _joined(sorted((str(name), hash(part)) for name, part in x.items() if part is not None))
    if isinstance(x, (list, tuple)):
        return _joined([(str(i), hash(part)) for i, part in enumerate(x) if part is not None])
    if isinstance(x, (bool, int, float)):
        return rapt.hash(np.asarray(x))
    return rapt.hash(x)
