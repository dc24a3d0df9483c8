# mypy: no-warn-unused-ignores
"""Calls whose arguments are checked once, and that run many times on the same arrays.

A module joins in two steps. It divides a function f into _prepare_f and f itself, which returns _prepare_f(...)(). Then it
calls joins(f, _prepare_f) below f. prepare gives _prepare_f all parameters of f by name, with f's defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from ._arguments import by_name, shown
from ._arrays import Array, TensorLike, Torch
from ._library import check

if TYPE_CHECKING:
    from ._norms import NormStatistics

Result = TypeVar("Result")


class Prepared(Generic[Result]):
    """A call with its arguments, which keeps every array of it alive. Calling it computes anew and gives the result.

    Every run writes the same memory: a result that is needed later is copied. Two threads must not run it at once.
    copy.copy prepares the call again, over the same arrays; copy.deepcopy and pickle do so over copies of them. A result of
    the copy has memory of its own, but for an `out`, which is one of the arrays.

    prepare makes it. What it is made of is for the modules that join prepare:

    function    function(*arguments) computes, and returns a status of the library or None
    arguments   what function takes, converted once
    result      what a run returns, which is the memory that function writes
    kept        whatever holds the arrays and structs that the arguments point to
    copied      the name of a tensor that arguments have as a copy, because the library cannot take its strides; or ""
    failed      failed(status, kept) raises the exception of a status
    """

    __slots__ = ("_function", "_arguments", "_result", "_kept", "copied", "_failed", "_made_of")

    def __init__(
        self,
        function: Callable[..., int | None],
        arguments: tuple[Any, ...],
        result: Result,
        kept: object,
        copied: str = "",
        failed: Callable[[int, Any], object] = lambda status, _: check(status),
    ) -> None:
        self._function = function
        self._arguments = arguments
        self._result = result
        self._kept = kept
        self.copied = copied
        self._failed = failed
        self._made_of: tuple[Any, ...] = ()

    def status(self) -> int:
        """Computes, without an exception for a status."""
        return self._function(*self._arguments) or 0

    def __call__(self) -> Result:
        status = self._function(*self._arguments)
        if status:
            self._failed(status, self._kept)
        return self._result

    run = __call__

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy is prepared anew, because this has addresses of its own arrays."""
        return _prepare_by_name, self._made_of


_preparers: dict[Callable[..., Any], Callable[..., Prepared[Any]]] = {}


def joins(function: Callable[..., Any], preparer: Callable[..., Prepared[Any]]) -> None:
    _preparers[function] = preparer


# fmt: off
@overload
def prepare(  # type: ignore[misc]
    function: Callable[..., Any], x: Torch, *arguments: Any, return_lse: Literal[True], **options: Any
) -> Prepared[tuple[Torch, Torch]]: ...
@overload
def prepare(  # type: ignore[misc]
    function: Callable[..., Any], x: TensorLike, *arguments: Any, return_lse: Literal[True], **options: Any
) -> Prepared[tuple[Array, Array]]: ...
@overload
def prepare(  # type: ignore[misc]
    function: Callable[..., Any], x: Torch, *arguments: Any, return_statistics: Literal[True], **options: Any
) -> Prepared[tuple[Torch, NormStatistics]]: ...
@overload
def prepare(  # type: ignore[misc]
    function: Callable[..., Any], x: TensorLike, *arguments: Any, return_statistics: Literal[True], **options: Any
) -> Prepared[tuple[Array, NormStatistics]]: ...
@overload
def prepare(  # type: ignore[misc]
    function: Callable[..., Any], x: Torch, *arguments: Any, **options: Any
) -> Prepared[Torch]: ...
@overload
def prepare(
    function: Callable[..., Any], x: TensorLike, *arguments: Any, **options: Any
) -> Prepared[Array]: ...
# fmt: on


def prepare(function: Callable[..., Any], x: Any, *arguments: Any, **options: Any) -> Prepared[Any]:
    """The call function(x, *arguments, **options), checked now and run by every call of what this returns.

    The function is softmax, log_softmax, logsumexp, rms_norm, layer_norm, rope, gated, attention or linear. A run reads the
    tensors and writes the result where they were at preparation, so that new values go into the same arrays. Masks, biases,
    lengths and other numbers next to the tensors may have been copied: they keep their values.

    A ValueError is a tensor that would have to be copied for its strides, or what the function refuses. A TypeError is a
    function that cannot be prepared.

    >>> x = np.zeros((1, 2), np.float32)
    >>> call = rapt.prepare(rapt.softmax, x)
    >>> call()
    array([[0.5, 0.5]], dtype=float32)
    >>> x[0, 0] = 100
    >>> call()
    array([[1., 0.]], dtype=float32)
    """
    is_function = isinstance(function, FunctionType)
    if not is_function or function not in _preparers:
        raise TypeError(f"{function.__name__ if is_function else shown(function)} cannot be prepared")
    return _prepare_by_name(function, by_name(function, (x, *arguments), options))


def _prepare_by_name(function: Callable[..., Any], arguments: dict[str, Any]) -> Prepared[Any]:
    call = _preparers[function](**arguments)
    if call.copied:
        raise ValueError(f"{call.copied} has strides that need a copy: a prepared call reads it where it is")
    call._made_of = function, arguments
    return call
