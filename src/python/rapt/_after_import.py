"""What is to be done once a module has been imported, without importing it."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_waiting: dict[str, Callable[[], None]] = {}
_watching: dict[str, Callable[[str], None]] = {}  # by what names of modules begin with


class _Loader(importlib.abc.Loader):
    """The module's own loader, and then the calls. Who only looks for the module gets one, and imports nothing."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._own.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._own  # which may have more methods
        self._own.exec_module(module)
        name = module.__name__
        then = _waiting.pop(name, None)
        if then is not None:
            then()
        for prefix, each in list(_watching.items()):
            if name.startswith(prefix):
                each(name)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _waiting and not any(fullname.startswith(prefix) for prefix in list(_watching)):
            return None
        for finder in sys.meta_path:
            if finder is not self:
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    if spec.loader is not None:
                        spec.loader = _Loader(spec.loader)
                    return spec
        return None


def _find() -> None:
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def after_import(name: str, then: Callable[[], None]) -> None:
    """Calls then() now if the module is there, or else after its first import. A second `then` replaces the first."""
    if name in sys.modules:
        then()
        return
    _waiting[name] = then
    _find()


def after_each_import(prefix: str, then: Callable[[str], None]) -> None:
    """Calls then(name) after the first import of each module whose name begins with `prefix`, from now on."""
    _watching[prefix] = then
    _find()


def no_longer_after_each_import(prefix: str) -> None:
    _watching.pop(prefix, None)
