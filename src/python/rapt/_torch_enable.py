"""rapt.torch.enable(): rapt's kernels in the place of PyTorch's for the CPU, in the whole process."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import torch

from . import _torch_cpp, _torch_models, _torch_packed
from ._torch_compile import watch_inductor
from ._torch_exact import EXACT
from ._torch_shapes import COMPOSITE
from ._torch_table import REPLACED, TYPES, Exact, NotReplaced, count_call

_lock = threading.RLock()
# Debian's PyTorch, over which types are checked, lacks what these have.
_torch_c: Any = torch._C
_torch_library: Any = torch.library
_TYPES = frozenset(TYPES)


class _State:
    """What is enabled. `depth` counts enable() without disable()."""

    depth = 0
    strict = False
    library: Any = None
    # Python's kernels for those in C++, which look them up once: they stay until the process ends.
    behind_cpp: Any = None
    is_cpp = False
    uncovered: dict[str, int] = {}
    ways: tuple[bool, bool] = (True, True)


class Report(NamedTuple):
    """What PyTorch has been asked since enable(): calls by the name of the operator.

    replaced     rapt computed it
    uncovered    PyTorch did, with bits that may depend on the CPU
    """

    replaced: dict[str, int]
    uncovered: dict[str, int]


class UncoveredError(RuntimeError):
    """strict=True: an operator whose bits may depend on the CPU has no kernel of rapt."""


def _uncovered(name: str) -> None:
    _say_uncovered(name, f"aten::{name} has no kernel of rapt, and its bits may depend on the CPU")


def _say_uncovered(name: str, sentence: str) -> None:
    """By an error under strict, or else by a warning, the first time."""
    counts = _State.uncovered
    first = name not in counts
    counts[name] = counts.get(name, 0) + 1
    if _State.strict:
        raise UncoveredError(sentence)
    if first:
        warnings.warn(f"rapt.torch: {sentence}", stacklevel=4)


def _inductor_compiles() -> None:
    if _State.depth:
        _say_uncovered(
            "torch.compile by inductor",
            "inductor compiles loops of its own, whose bits may depend on the CPU: torch.compile(backend='rapt') has rapt's",
        )


def _without_history(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return _torch_packed.without_history(x) if x.requires_grad else x
    return [_without_history(part) for part in x] if isinstance(x, (list, tuple)) else x


# What an operator's arguments are, as the sum of these.
_OURS, _OTHERS, _HISTORY = 1, 2, 4


def _kinds_of(values: Any) -> int:
    """Whether there are tensors of rapt's types, of other numbers than integers, and with a history."""
    kinds = 0
    for x in values:
        if isinstance(x, torch.Tensor):
            if x.dtype in _TYPES:
                kinds |= _OURS
            elif x.is_floating_point() or x.is_complex():
                kinds |= _OTHERS
            if x.requires_grad:
                kinds |= _HISTORY
        elif isinstance(x, (list, tuple)):
            kinds |= _kinds_of(x)
    return kinds


def _replacement(name: str, kernel: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    in_place = name.split(".")[0].endswith("_") and not name.startswith("__")

    def run(*args: Any, **kwargs: Any) -> Any:
        kinds = _kinds_of(args) | (_kinds_of(kwargs.values()) if kwargs else 0)
        if not kinds & (_OURS | _OTHERS):
            return original(*args, **kwargs)
        if not kinds & _OTHERS:
            try:
                if kinds & _HISTORY:
                    result = kernel(*map(_without_history, args), **{k: _without_history(x) for k, x in kwargs.items()})
                else:
                    result = kernel(*args, **kwargs)
            except Exact:
                return original(*args, **kwargs)
            except NotReplaced:
                pass
            except (IndexError, TypeError, ValueError):
                result = original(*args, **kwargs)  # which has PyTorch's error
                _uncovered(name)
                return result
            else:
                count_call(name)
                return args[0] if in_place and result is not None else result
        _uncovered(name)
        return original(*args, **kwargs)

    return run


def _into_out(run: Callable[..., Any]) -> Callable[..., Any]:
    def write(
        *args: Any, out: torch.Tensor | None = None, grad_input: torch.Tensor | None = None, **kwargs: Any
    ) -> Any:
        to = out if out is not None else grad_input
        assert to is not None
        result = run(*args, **kwargs)
        if to.shape != result.shape:
            to.resize_(result.shape)
        return to.copy_(result)

    return write


def _in_place(run: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *args, **kwargs: x.copy_(run(x, *args, **kwargs))


def _when(
    needed: Callable[[dict[str, Any]], bool], run: Callable[..., Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    return lambda *args, **kwargs: (run if needed(kwargs) else original)(*args, **kwargs)


def _shim(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The original, which says that it was called with numbers."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if (_kinds_of(args) | _kinds_of(kwargs.values())) & (_OURS | _OTHERS):
            _uncovered(name)
        return original(*args, **kwargs)

    return run


def _base(name: str) -> str:
    """Of all forms of an operator. Those of lists call the others, which are met themselves."""
    base = name.split(".")[0]
    if base.startswith("_foreach_"):
        return "_foreach"
    return base if base.startswith("__") else base.rstrip("_") or base


@functools.cache
def _places_of_tensors(name: str) -> list[int]:
    schema = _torch_c._get_schema(f"aten::{name.split('.')[0]}", name.partition(".")[2])
    return [i for i, argument in enumerate(schema.arguments) if str(argument.type) == "Tensor"]


def _with_tensors(args: tuple[Any, ...], places: list[int]) -> tuple[Any, ...]:
    """Numbers in the places of tensors, which PyTorch hands to a kernel of Python, as tensors that promote like a number."""
    if all(isinstance(args[i], torch.Tensor) for i in places if i < len(args)):
        return args
    x = next(arg for arg in args if isinstance(arg, torch.Tensor))

    def tensor(number: Any) -> torch.Tensor:
        if isinstance(number, bool):
            return torch.tensor(number)
        if isinstance(number, int):
            is_alone = x.dim() == 0 and x.dtype != torch.bool
            return torch.tensor(number, dtype=x.dtype if is_alone else torch.int64)
        if isinstance(number, complex) or not x.is_floating_point():
            return torch.tensor(number)
        return torch.tensor(number, dtype=x.dtype if x.dim() == 0 else torch.float64)

    return tuple(
        tensor(arg) if i in places and not isinstance(arg, torch.Tensor) else arg for i, arg in enumerate(args)
    )


def _fits(name: str, kernel: Callable[..., Any]) -> bool:
    """Whether this PyTorch has the operator with the arguments that the kernel takes. Otherwise it is not covered."""
    try:
        schema = _torch_c._get_schema(f"aten::{name.split('.')[0]}", name.partition(".")[2])
    except RuntimeError:
        return False
    parameters = inspect.signature(kernel).parameters.values()
    kinds = {kind: [p for p in parameters if p.kind == kind] for kind in inspect._ParameterKind}
    by_place = kinds[inspect.Parameter.POSITIONAL_ONLY] + kinds[inspect.Parameter.POSITIONAL_OR_KEYWORD]
    by_name = kinds[inspect.Parameter.KEYWORD_ONLY]
    wanted = [argument.name for argument in schema.arguments if argument.kwarg_only]
    places = len(schema.arguments) - len(wanted)
    if not kinds[inspect.Parameter.VAR_POSITIONAL] and places > len(by_place):
        return False
    needed = [p for p in by_place[places:] + by_name if p.default is p.empty and p.name not in wanted]
    return not needed and {p.name for p in by_name} >= set(wanted)


def _put_behind_cpp(own: dict[str, Callable[..., Any]]) -> None:
    """Defines the operators that the kernels in C++ hand calls to: as PyTorch's, with the name rapt_python."""
    if _State.behind_cpp is None:
        _State.behind_cpp = _torch_library.Library("rapt_python", "DEF")
        for name, function in own.items():
            schema = str(_torch_c._get_schema(f"aten::{name.split('.')[0]}", name.partition(".")[2]))
            _State.behind_cpp.define(schema.removeprefix("aten::"))
            for key in _keys(name):
                _State.behind_cpp.impl(name, function, key)


def _keys(name: str) -> tuple[str, ...]:
    """Where a kernel stands. Those that call other operators have the gradients of these."""
    return ("CPU", "AutogradCPU") if name in COMPOSITE else ("CPU",)


def _install(library: Any, with_cpp: bool) -> bool:
    """Whether the kernels in C++ are there: `with_cpp`, and this PyTorch has their operators."""
    from . import (  # noqa: F401
        _torch_elements,
        _torch_grid,
        _torch_index,
        _torch_kernels,
        _torch_losses,
        _torch_norms,
        _torch_optimizers,
        _torch_random,
        _torch_resize,
        _torch_sdpa,
    )
    from ._torch_table import IN_PLACE, KERNELS, OUT, WHEN

    keys = _torch_c.DispatchKeySet(_torch_c.DispatchKey.CPU)

    def original(name: str) -> Callable[..., Any]:
        kernel = _torch_library.get_kernel(f"aten::{name}", "CPU")

        def call(*args: Any, **kwargs: Any) -> Any:
            if any(isinstance(arg, (int, float, complex)) for arg in args):
                args = _with_tensors(args, _places_of_tensors(name))
            return kernel.call_boxed(keys, *args, **kwargs)

        return call

    own = {name: make(original(name)) for name, make in COMPOSITE.items()}
    own = {name: run for name, run in own.items() if _fits(name, run)}
    for name, kernel in KERNELS.items():
        if not _fits(name, kernel):
            continue
        run = _replacement(name, kernel, original(name))
        forms = {name: run}
        if name in OUT:
            forms[OUT[name]] = _into_out(run)
        if name in IN_PLACE:
            forms[IN_PLACE[name]] = _in_place(run)
        for form, function in forms.items():
            own[form] = _when(WHEN[name], function, original(form)) if name in WHEN else function
    for full in _torch_c._dispatch_get_all_op_names():
        has_kernel = _torch_c._dispatch_has_kernel_for_dispatch_key(full, "CPU")
        if not full.startswith("aten::") or not has_kernel:
            continue
        name = full[len("aten::") :]
        if name not in own and _base(name) not in EXACT:
            own[name] = _shim(name, original(name))
    with_cpp = with_cpp and own.keys() >= _torch_cpp.OPERATORS
    if with_cpp:
        _put_behind_cpp({name: own.pop(name) for name in sorted(_torch_cpp.OPERATORS)})
        _torch_cpp.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch says that a kernel is replaced
        for name, function in own.items():
            for key in _keys(name):
                library.impl(name, function, key, allow_override=True)
    return with_cpp


def _forget_ways() -> None:
    """Of operators that enable() gives a kernel above the gradients, or takes it from.

    PyTorch's compilers keep an operator's way to its kernel. The old one would lead past the gradients.
    """
    operators: Any = torch.ops  # type: ignore[attr-defined]
    for name in {*COMPOSITE, *_torch_cpp.ABOVE}:
        base, _, overload = name.partition(".")
        one = getattr(getattr(operators.aten, base), overload or "default", None)
        getattr(one, "_dispatch_cache", {}).clear()


def _loads_cpp(cpp: bool | None) -> bool:
    if cpp is None:
        cpp = os.environ.get("RAPT_TORCH_CPP") != "0" and _torch_cpp.is_built()
    elif cpp and not _torch_cpp.is_built():
        raise RuntimeError("the kernels in C++ are not compiled: python -m rapt.torch --build does that")
    if cpp:
        _torch_cpp.load()
    return cpp


def _ways() -> tuple[bool, bool]:
    """Whether LSTMs are a call of oneDNN, and whole layers of transformers a kernel. Without, they are made of other operators."""
    backends: Any = torch.backends
    return bool(torch._C._get_mkldnn_enabled()), bool(backends.mha.get_fastpath_enabled())


def _set_ways(ways: tuple[bool, bool]) -> None:
    backends: Any = torch.backends
    torch._C._set_mkldnn_enabled(ways[0])
    backends.mha.set_fastpath_enabled(ways[1])


def enable(
    strict: bool = False,
    *,
    pack: bool | Literal["replace"] = True,
    pack_limit: int | None = None,
    cpp: bool | None = None,
) -> None:
    """Lets rapt compute PyTorch's operators on the CPU, in the whole process, until as many calls of disable().

    Programs stay as they are: results then have the same bits on every CPU, for any number of threads, and of a sequence
    alone and in a batch. Operators without a kernel of rapt whose bits may vary are named once each by a warning. With
    strict=True they raise an UncoveredError. report() has the calls of both kinds. Later calls of enable() may change strict.

    Without gradients, weights are packed when they are met a second time, as a copy of their size that makes small batches
    faster. pack_limit is the most bytes of such copies, and pack=False makes none. Bits are the same. Weights that change are
    packed again: in place, by an optimizer, or through `data`, where one of 64 numbers from all over them has changed.
    pack="replace" keeps one copy in memory where weights are a mapped file, as those of safetensors are: the packed one. What
    else reads the weights reads the file again. Writes through `data` are then not seen until clear_packed().

    The most frequent operators have kernels in C++ too, with the same bits and without Python's time per call, once
    `python -m rapt.torch --build` has compiled them for this PyTorch. cpp=True makes it a RuntimeError if they are not there,
    and cpp=False leaves them out. None takes them if they are there, and the environment's RAPT_TORCH_CPP is not 0. It counts
    in the first of several calls.

    torch.backends.mkldnn and the fast path of torch.backends.mha are off until disable(): LSTMs and layers of transformers are
    then made of operators that rapt has.

    Functions of transformers' models that compute the gated delta rule and short causal convolutions are replaced too. The
    manual's page on PyTorch names the models.

    torch.compile(backend="rapt") keeps the bits. inductor compiles loops of its own: it is named by a warning, or an
    UncoveredError. What it had compiled before enable() is not seen.

    It needs PyTorch 2.9, whose originals it keeps for integers and for other devices; else it is a RuntimeError.
    """
    if _torch_cpp.version() < (2, 9):
        raise RuntimeError(f"rapt.torch.enable() needs PyTorch 2.9 or later, and this is {torch.__version__}")
    if pack not in (True, False, "replace"):
        raise ValueError(f"pack is {pack!r}, not True, False or 'replace'")
    with _lock:
        with_cpp = _State.depth == 0 and _loads_cpp(cpp)
        _State.strict = bool(strict)
        _torch_packed.set_limit(pack_limit if pack else 0, pack == "replace")
        _State.depth += 1
        if _State.depth > 1:
            return
        REPLACED.clear()
        _State.uncovered = {}
        _torch_cpp.forget_calls()
        _State.library = _torch_library.Library("aten", "IMPL")
        _State.is_cpp = _install(_State.library, with_cpp)
        _forget_ways()
        _State.ways = _ways()
        _set_ways((False, False))
        watch_inductor(_inductor_compiles)
        _torch_models.start()


def disable() -> None:
    """Takes one enable() back. The last one gives PyTorch its kernels again. Without enable() nothing happens."""
    with _lock:
        if _State.depth == 0:
            return
        _State.depth -= 1
        if _State.depth == 0:
            _torch_models.stop()
            _State.library._destroy()
            if _State.is_cpp:
                _torch_cpp.stop()
            _forget_ways()
            _set_ways(_State.ways)
            _torch_packed.clear_packed()
            _State.library = None


@contextlib.contextmanager
def enabled(
    strict: bool = False,
    *,
    pack: bool | Literal["replace"] = True,
    pack_limit: int | None = None,
    cpp: bool | None = None,
) -> Iterator[None]:
    """enable() for a block. It is of the whole process, other threads included."""
    enable(strict, pack=pack, pack_limit=pack_limit, cpp=cpp)
    try:
        yield
    finally:
        disable()


def report() -> Report:
    """The calls since the first enable(), by operator. disable() keeps them."""
    replaced = dict(REPLACED)
    for form, count in _torch_cpp.calls():
        name = form.removesuffix("_")
        if count:
            replaced[name] = replaced.get(name, 0) + count
    return Report(replaced, dict(_State.uncovered))
