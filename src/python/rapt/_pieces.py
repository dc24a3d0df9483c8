"""Long calls in pieces, between which handlers of signals run. The pieces give the bits of one call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ._arrays import Array, Rows, may_overlap, refuse_overlap
from ._library import Options
from ._threads import run_tasks

PIECE = 1 << 23  # elements of a call that a signal waits for
Run = Callable[[int, int], Any]  # run(first, count) returns a status of the library or None


def in_pieces(run: Run, length: int, unit: int = 1) -> int:
    """run from 0 to `length`, cut at multiples of `unit`. The result is the first status that is not 0, which ends it."""
    status = 0

    def piece(first: int, last: int, _: int) -> None:
        nonlocal status
        start = first * unit
        status = status or run(start, min(last * unit, length) - start) or 0

    run_tasks(piece, -(-length // unit), 0, 1)
    return status


def run_all(run: Run, length: int, size: int, unit: int = 1) -> int:
    """As in_pieces, and at once where `size` elements are few."""
    if size > PIECE:
        return in_pieces(run, length, unit)
    return run(0, length) or 0


def rows_in_pieces(
    function: Callable[..., int],
    arrays: tuple[Rows, ...],
    options: Options,
    fields: Callable[[int], Mapping[str, object]] = lambda _: {},
) -> int:
    """function(addresses of the arrays' rows, options), where fields(first) are further options of the rows from `first` on."""

    def run(first: int, count: int) -> int:
        return function(*(rows.at(first) for rows in arrays), options.changed(rows=count, **fields(first)))

    return in_pieces(run, arrays[0].rows)


def refuse_overlaps(
    result: Array, same: Mapping[str, Array], others: Mapping[str, Array | None], name: str = "out"
) -> None:
    """What the library finds in one call, but not in pieces. The result may be exactly one of `same`."""
    for of, array in same.items():
        refuse_overlap(array, result, of, name)
    for of, other in others.items():
        if other is not None and may_overlap(other, result):
            raise ValueError(f"{name} overlaps {of}")
