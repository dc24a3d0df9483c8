"""torch.compile under rapt.torch.enable(): the backend "rapt", and what becomes of inductor, whose loops are its own."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ._after_import import after_import

_REGISTRY, _INDUCTOR = "torch._dynamo.backends.registry", "torch._inductor.compile_fx"


def backend(model: Any, inputs: Any) -> Any:
    """For torch.compile(backend="rapt"): operators are called one by one, as without torch.compile, and so are rapt's.

    It is PyTorch's aot_eager. Forward passes have the bits of the plain program. Gradients may be added up in another order
    than there: they have bits of their own, which are the same everywhere too.
    """
    return import_module("torch._dynamo.backends.debugging").aot_eager(model, inputs)


def add_backend() -> None:
    """Gives torch.compile the name "rapt"."""

    def register() -> None:
        # Not list_backends(): it imports modules, in the middle of an import.
        with contextlib.suppress(AssertionError):  # the name is there
            import_module(_REGISTRY).register_backend(backend, name="rapt")

    after_import(_REGISTRY, register)


def watch_inductor(say: Callable[[], None]) -> None:
    """Calls say() before inductor compiles anything."""

    def wrap() -> None:
        module: Any = import_module(_INDUCTOR)
        own = module.compile_fx
        if hasattr(own, "rapt_own"):
            own = own.rapt_own

        @functools.wraps(own)
        def compile_fx(*args: Any, **kwargs: Any) -> Any:
            say()
            return own(*args, **kwargs)

        watched: Any = compile_fx
        watched.rapt_own = own
        module.compile_fx = watched

    after_import(_INDUCTOR, wrap)
