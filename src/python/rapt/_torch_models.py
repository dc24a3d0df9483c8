"""Functions of transformers' models that rapt.torch.enable() replaces: the gated delta rule, and causal convolutions.

Without packages for GPUs, layers call functions of their own module by name, which are made of many operators of PyTorch. A call
becomes one operator of PyTorch's dispatcher, so that compilers, transforms and export see one node.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from . import _torch_causal, _torch_delta
from ._after_import import after_each_import, no_longer_after_each_import

_MODULES = "transformers.models."
# By the name in modules: what computes a call, given its arguments by name, or says NotImplemented.
_CALLS: dict[str, Callable[..., Any]] = {
    "torch_chunk_gated_delta_rule": _torch_delta.gated,
    "torch_recurrent_gated_delta_rule": _torch_delta.gated,
    "chunk_kimi_delta_attention": _torch_delta.gated_by_key,
    "recurrent_kimi_delta_attention": _torch_delta.gated_by_key,
    "causal_conv1d_fn": _torch_causal.convolved,
    "causal_conv1d_update": _torch_causal.updated,
}
# By these arguments, packages for GPUs tell packed sequences apart. The functions refuse them, or ignore them.
_PACKED = ("cu_seqlens", "seq_idx")


class _State:
    """What is replaced: a module, a name in it, its own function, and what stands in its place."""

    enabled = False
    replaced: list[tuple[ModuleType, str, Any, Any]] = []


_lock = threading.RLock()


def _replacement(own: Callable[..., Any], call: Callable[..., Any], key: str) -> Callable[..., Any]:
    # With the package `kernels`, a function is a module of PyTorch.
    parameters = inspect.signature(getattr(own, "forward", own)).parameters.values()
    names = tuple(p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD)
    # What a later version of transformers adds, rapt does not know.
    unknown = tuple(set(names) - set(inspect.signature(call).parameters)) + _PACKED

    @functools.wraps(own, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        # rapt's operators have no forward-mode derivatives.
        if _State.enabled and torch.autograd.forward_ad._current_level < 0 and len(args) <= len(names):
            given = {**dict(zip(names, args)), **kwargs}
            if all(given.get(name) is None for name in unknown):
                result = call(key, **given)
                if result is not NotImplemented:
                    return result
        return own(*args, **kwargs)

    return run


def _replace_in(module_name: str) -> None:
    """In one module of transformers, once it is imported."""
    module = sys.modules.get(module_name)
    with _lock:
        if module is None or not _State.enabled:
            return
        present = [replacement for _, _, _, replacement in _State.replaced]
        for name, call in _CALLS.items():
            own = vars(module).get(name)
            if not callable(own) or own in present:
                continue
            key = f"{module_name}.{name}"
            replacement = _replacement(own, call, key)
            _torch_delta.LOOPS[key] = own
            _State.replaced.append((module, name, own, replacement))
            setattr(module, name, replacement)


def start() -> None:
    """In the modules that are there, and in those that are imported later."""
    with _lock:
        _torch_delta.define()
        _torch_causal.define()
        _State.enabled = True
        after_each_import(_MODULES, _replace_in)
        for name in [name for name in sys.modules if name.startswith(_MODULES)]:
            _replace_in(name)


def stop() -> None:
    """Modules have their functions again. A replacement that something else has kept calls them."""
    with _lock:
        _State.enabled = False
        no_longer_after_each_import(_MODULES)
        for module, name, own, replacement in _State.replaced:
            if vars(module).get(name) is replacement:
                setattr(module, name, own)
        _State.replaced.clear()
