"""The instruction-set level that runs, and the library's versions."""

from __future__ import annotations

from ._library import C, check


def version() -> str:
    """The version of the library, "MAJOR.MINOR.PATCH"."""
    return C.rapt_version().decode()


def bits_version() -> int:
    """Which set of bits the library gives: equal numbers give equal results."""
    return C.rapt_bits_version()


def isa() -> str:
    """The chosen level, such as "avx512"."""
    return C.rapt_active_isa().decode()


def isas() -> dict[str, bool]:
    """The compiled levels, weakest first, and whether this CPU can run them."""
    names = [C.rapt_isa_name(i) for i in range(C.rapt_isa_count())]
    return {name.decode(): bool(C.rapt_isa_usable(name)) for name in names}


def force_isa(name: str | None) -> None:
    """Chooses the level `name` for the whole process; None chooses the best one again."""
    check(C.rapt_force_isa(None if name is None else name.encode()))


def kernel_isa(kernel: str) -> str | None:
    """The level whose code runs for a kernel such as "softmax_f32"; None if no kernel has that name."""
    name = C.rapt_kernel_isa(kernel.encode())
    return None if name is None else name.decode()
