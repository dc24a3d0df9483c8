"""Tables in HTML, and numbers as text."""

from __future__ import annotations

import html
import math
from typing import Collection


def table(headings: list[str], rows: list[list[str]], shaded: Collection[str] = ()) -> str:
    """A first cell that repeats the one above stays empty. Columns of numbers are aligned right, others left. A row is
    shaded if its second cell is in `shaded`."""
    is_text = [any(cell and not cell[0].isdigit() for cell in column) for column in zip(*rows)]

    def line(tag: str, cells: list[str]) -> str:
        # In HTML a row or cell ends where the next one begins.
        return "".join(f"<{tag}{' class=t' if text else ''}>{html.escape(cell)}" for cell, text in zip(cells, is_text))

    body = ""
    last = ""
    for row in rows:
        body += f"<tr{' class=own' if row[1] in shaded else ''}>"
        body += line("td", ["" if row[0] == last else row[0], *row[1:]]) + "\n"
        last = row[0]
    return f"<table><thead><tr>{line('th', headings)}</thead><tbody>\n{body}</tbody></table>\n"


def number(value: float | None, most_decimals: int = 99) -> str:
    """Three significant digits."""
    if not value or not math.isfinite(value):
        return "" if value is None else f"{value:g}"
    return f"{value:.{min(most_decimals, max(0, 2 - math.floor(math.log10(abs(value)))))}f}"


def percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def time(seconds: float) -> str:
    for scale, unit in ((1e-6, "ns"), (1e-3, "µs")):
        if seconds < scale:
            return f"{number(seconds / scale * 1e3)} {unit}"
    return f"{number(seconds * 1e3)} ms"
