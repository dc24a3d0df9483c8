"""The instruction-set level that runs, and the library's versions."""

from __future__ import annotations

import os
import warnings
from typing import Any

from ._arguments import shown
from ._library import C
from ._status import Status

_ASKED = os.environ.get("RAPT_ISA", "")  # as the library reads it: once, by its first call


def version() -> str:
    """MAJOR.MINOR.PATCH of the library that is loaded."""
    text: str = C.rapt_version().decode()
    return text


def bits_version() -> int:
    """Which set of bits the library gives: equal numbers give equal results."""
    number: int = C.rapt_bits_version()
    return number


def isa() -> str:
    """The chosen level, such as "avx512"."""
    name: str = C.rapt_active_isa().decode()
    return name


def isas() -> dict[str, bool]:
    """The compiled levels, weakest first, and whether this CPU can run them."""
    names = [C.rapt_isa_name(i) for i in range(C.rapt_isa_count())]
    return {name.decode(): bool(C.rapt_isa_usable(name)) for name in names}


def isa_status() -> str | None:
    """Why RAPT_ISA in the environment was ignored, in words; None if its level was taken, or if it is empty or absent.

    The library reads RAPT_ISA once, when rapt is imported. An ignored one also gives a RuntimeWarning then, and the best
    usable level runs. A later force_isa does not change the answer.
    """
    status = C.rapt_isa_status()
    if status == 0:
        return None
    usable = ", ".join(name for name, is_usable in isas().items() if is_usable)
    return f"RAPT_ISA={_ASKED} is ignored: {_reason(status)} (usable here: {usable})"


def _reason(status: int) -> str:
    if status == Status.ISA_NAME:  # the library's words name a function of C
        return f"no instruction set of that name is compiled in: there are {', '.join(isas())}"
    text: str = C.rapt_status_text(status).decode()
    return text


def force_isa(name: str | None) -> None:
    """Chooses the level `name`, such as "avx2", for the whole process; None chooses the best one again.

    A ValueError is a name that no level has, or one that this CPU lacks. A TypeError is no name.
    """
    status = C.rapt_force_isa(None if name is None else _bytes(name, "name", "level"))
    if status:
        raise ValueError(f"name is {shown(name)}: {_reason(status)}")


def kernel_isa(kernel: str) -> str | None:
    """The level whose code runs for a kernel such as "softmax_f32"; None if no kernel has that name."""
    name = C.rapt_kernel_isa(_bytes(kernel, "kernel", "kernel"))
    return None if name is None else name.decode()


def _bytes(x: Any, name: str, what: str) -> bytes:
    if not isinstance(x, str):
        raise TypeError(f"{name} is {shown(x)}, not the name of a {what}")
    return x.encode(errors="replace").replace(b"\0", b"?")  # which would end the name


if _ignored := isa_status():
    warnings.warn(_ignored, RuntimeWarning, stacklevel=3)  # the line that imports rapt
