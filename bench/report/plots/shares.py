"""Share of the limit as colours: sizes by instruction set."""

from __future__ import annotations

import math
from typing import Any

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from data import Measurement, Results, family
from plots.figure import PAGE_WIDTH, svg, text_width

HEAT_COLOURS = pyplot.get_cmap("YlGnBu")
IMPOSSIBLE_COLOUR = "#dddddd"  # not on the scale


def heat_map(results: Results, name: str, kernels: list[str]) -> str | None:
    """Share of the limit: sizes down, and across the instruction sets of each kernel of the family."""
    columns = [
        (kernel, isa)
        for kernel in kernels
        for isa in results.isas
        if any(m.share is not None for m in _column(results, kernel, isa))
    ]
    sizes = [
        size
        for size in dict.fromkeys(size for kernel in kernels for size in results.sizes(kernel))
        if any(m and m.share is not None for m in (results.find(k, i, size) for k, i in columns))
    ]
    if not sizes:
        return None

    cell_width, cell_height = 0.5, 0.185
    label_width = text_width(sizes, 8) + 0.16
    panel_width = label_width + cell_width * len(columns)
    panel_count = min(math.ceil(len(sizes) / 32), max(1, int(PAGE_WIDTH / panel_width)))
    rows = math.ceil(len(sizes) / panel_count)
    panels = [sizes[i : i + rows] for i in range(0, len(sizes), rows)]
    width, height = panel_width * len(panels) + 0.08, cell_height * rows + 0.62
    figure = pyplot.figure(figsize=(width, height))
    for i, panel in enumerate(panels):
        shares = [[results.find(kernel, isa, size) for kernel, isa in columns] for size in panel]
        place = (i * panel_width + label_width, 0.04 + cell_height * (rows - len(panel)))
        ax = _add_grid(figure, place, (cell_width, cell_height), panel, [isa for _, isa in columns], shares)
        for kernel in dict.fromkeys(kernel for kernel, _ in columns):
            places = [x for x, column in enumerate(columns) if column[0] == kernel]
            centre = (places[0] + places[-1] + 1) / 2
            ax.text(centre, -1.35, family(kernel)[1], ha="center", va="bottom", fontweight="bold")
            if places[0] > 0:
                ax.axvline(places[0], color="white", linewidth=3)
    figure.text(0.04 / width, 1 - 0.03 / height, name, fontsize=9, fontweight="bold", va="top")
    return svg(figure, f"Share of the machine's limit that {name} reaches, by size and instruction set")


def _column(results: Results, kernel: str, isa: str) -> list[Measurement]:
    found = (results.find(kernel, isa, size) for size in results.sizes(kernel))
    return [m for m in found if m]


def _add_grid(
    figure: Figure,
    place: tuple[float, float],
    cell: tuple[float, float],
    rows: list[str],
    columns: list[str],
    shares: list[list[Measurement | None]],
) -> Axes:
    """Cells with their labels. The place and the size of a cell are in inches."""
    width, height = figure.get_size_inches()
    ax = figure.add_axes(
        (place[0] / width, place[1] / height, cell[0] * len(columns) / width, cell[1] * len(rows) / height)
    )
    ax.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    for y, row in enumerate(shares):
        for x, one in enumerate(row):
            _draw_share(ax, x, y, one)
    ax.set_yticks([y + 0.5 for y in range(len(rows))], rows)
    ax.set_xticks([x + 0.5 for x in range(len(columns))], columns)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, pad=2)
    ax.tick_params(axis="x", labelsize=7.5)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax


def _draw_share(ax: Axes, x: int, y: int, one: Measurement | None) -> None:
    share = one.share if one else None
    colour, hatch = share_style(one)
    # White edges would make up half of the SVG, so that cells have gaps between them instead.
    ax.add_patch(Rectangle((x, y), 0.975, 0.94, facecolor=colour, linewidth=0, clip_on=False))
    is_dark = share is not None and share > 0.6 and not one.is_impossible
    if hatch:
        lines = "#ffffff" if share > 0.3 and not one.is_impossible else "#999999"
        ax.add_patch(
            Rectangle((x, y), 0.975, 0.94, fill=False, linewidth=0, clip_on=False, hatch=hatch, edgecolor=lines)
        )
    if share is not None:
        ax.text(
            x + 0.5, y + 0.5, f"{100 * share:.0f}", ha="center", va="center", fontsize=7.5,
            color="white" if is_dark else "#222222",
            bbox={"facecolor": colour, "linewidth": 0, "pad": 0.8} if hatch else None,
        )  # fmt: skip


def share_style(one: Measurement | None) -> tuple[Any, str | None]:
    """The colour of a share, and the hatching of a doubtful one. An impossible share has no good colour."""
    if one is None or one.share is None:
        return "#f3f3f3", None
    colour = IMPOSSIBLE_COLOUR if one.is_impossible else HEAT_COLOURS(0.9 * min(one.share, 1))
    return colour, "////" if one.doubts else None
