"""RAPT_TORCH in the environment: rapt.torch.enable() in every Python process that imports PyTorch, such as workers of a program.

A line of rapt.pth, which Python reads when it starts, imports this module where the variable is set.
"""

from __future__ import annotations

import os
import sys

from ._after_import import after_each_import, after_import

VARIABLE = "RAPT_TORCH"
# The values, and what they say of `strict`.
_STRICT = {"1": False, "strict": True}


_waiting = False


def _enable() -> None:
    global _waiting
    # rapt.torch imports PyTorch first of all, and calls again when it is complete.
    _waiting = "rapt._torch_attention" in sys.modules and not hasattr(sys.modules.get("rapt.torch"), "enable")
    if not _waiting:
        from . import torch

        torch.enable(strict=_STRICT[os.environ[VARIABLE]])


def enable_if_waiting() -> None:
    if _waiting:
        _enable()


def value_for(strict: bool) -> str:
    return "strict" if strict else "1"


if os.environ.get(VARIABLE) in _STRICT:
    after_import("torch", _enable)
    # One of these may be the first to import PyTorch. enable() then says what becomes of it, at the end of its import.
    after_each_import("transformers.models.", lambda name: None)
elif os.environ.get(VARIABLE) not in (None, "", "0"):
    raise ValueError(f"{VARIABLE} is {os.environ[VARIABLE]!r}, not 1, strict or 0")
