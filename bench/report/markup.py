"""HTML and numbers as the sections of the page write them."""

from __future__ import annotations

import html
import math

from data import family

NO_PEERS = "This run measured only rapt. After <code>bench/run --peers</code> other libraries stand here next to it."


def escape(text: str) -> str:
    return html.escape(text, quote=False)


def figure(svg: str) -> str:
    return f"<figure>{svg}</figure>\n"


def none(text: str) -> str:
    return f'<p class="none">{text}</p>'


def details(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>\n{content}</details>\n"


def table(headings: list[str], align: str, rows: list[str], groups: str = "") -> str:
    """`align` has a letter per column: t aligns text left; anything else aligns numbers right."""
    head = "".join(f"<th{class_of(align, i)}>{escape(heading)}" for i, heading in enumerate(headings))
    body = "\n".join(rows)
    return f"<table class=numbers><thead>{groups}<tr>{head}</thead><tbody>\n{body}\n</tbody></table>\n"


def row(cells: list[str], align: str, group_begins: bool = False, own: bool = False) -> str:
    # In HTML a row or cell ends where the next one begins.
    classes = " ".join(name for name, wanted in (("first", group_begins), ("own", own)) if wanted)
    row = f'<tr class="{classes}">' if classes else "<tr>"
    for i, cell in enumerate(cells):
        row += f"<th>{escape(cell)}" if i == 0 else f"<td{class_of(align, i)}>{escape(cell)}"
    return row


def class_of(align: str, column: int) -> str:
    return " class=t" if align[column : column + 1] == "t" else ""


def number(value: float | None) -> str:
    """Three significant digits."""
    if not value:
        return "" if value is None else "0"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def time(seconds: float) -> str:
    for scale, unit in ((1e-6, "ns"), (1e-3, "µs")):
        if seconds < scale:
            return f"{number(seconds / scale * 1e3)} {unit}"
    return f"{number(seconds * 1e3)} ms"


def binary_size(size: int) -> str:
    return f"{size / 1024:.0f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.4g} MiB"


def error_unit(kernel: str) -> str:
    name, scalar_type = family(kernel)
    if name in ("exp", "scale"):
        return "ULP"
    return "units of 2⁻²⁴" if scalar_type == "f32" else "units of 2⁻⁵³"
