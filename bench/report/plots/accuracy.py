"""Time against error of all implementations at one size."""

from __future__ import annotations

import itertools
import math

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from data import Results
from plots.figure import PAGE_WIDTH, Palette, plain_log_ticks, svg

RAPT_COLOUR = "#000000"
_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 0.6), (1, -0.6), (-1, 0.6), (-1, -0.6))


def accuracy(results: Results, kernel: str, size: str, unit: str, palette: Palette) -> str | None:
    """All implementations but the slow reference."""
    points = [m for m in results.at(kernel, size) if m.error is not None and m.impl != "scalar"]
    if not points:
        return None
    figure, ax = pyplot.subplots(figsize=(PAGE_WIDTH / 2 - 0.3, 3.7))
    figure.subplots_adjust(left=0.14, right=0.975, top=0.92, bottom=0.115)
    ax.set(xscale="log", yscale="log")
    least = min((m.error for m in points if m.error), default=1.0)
    peers = {peer.impl: peer for peer in results.peers}
    labels = []
    for one in points:
        peer = peers.get(one.impl)
        colour = palette.colour(peer.library) if peer else RAPT_COLOUR
        isa = peer.isa if peer else one.impl
        strongest = isa == results.strongest_isa(kernel)
        x = max(one.error, least / 2)  # 0 has no place on a logarithmic axis
        ax.plot(
            x, one.ns_per_element, marker=palette.marker(peer.library) if peer else "o", markersize=6,
            color=colour, markerfacecolor=colour if strongest else "white", markeredgewidth=1.2, zorder=3,
        )  # fmt: skip
        name = f"{peer.library} {peer.isa}" if peer else f"rapt {one.impl}"
        labels.append((x, one.ns_per_element, name, colour, peer is None))
    _widen(ax, [x for x, *_ in labels], [y for _, y, *_ in labels])
    ax.grid(True, which="major")
    plain_log_ticks(ax)
    ax.set_xlabel(f"largest error, {unit}")
    ax.set_ylabel("ns per multiply-add" if points[0].flop else "ns per element")
    ax.set_title(f"{kernel}, {size}", loc="left")
    _place_labels(figure, ax, labels)
    return svg(figure, f"{kernel} at {size}: nanoseconds per element against largest error")


def _widen(ax: Axes, xs: list[float], ys: list[float]) -> None:
    """Margins for the labels, and a span that does not magnify small differences."""
    for values, setter, least_span in ((xs, ax.set_xlim, 4.0), (ys, ax.set_ylim, 3.0)):
        low, high = min(values), max(values)
        span = max(high / low, least_span)
        middle = math.sqrt(low * high)
        half = math.sqrt(span) * span**0.14
        setter(middle / half, middle * half)


def _place_labels(figure: Figure, ax: Axes, labels: list[tuple[float, float, str, str, bool]]) -> None:
    """Each name at the first place around its point that covers no other name and no point."""
    renderer = figure.canvas.get_renderer()
    inside = ax.get_window_extent(renderer)
    pixel = figure.dpi / 72
    points = [ax.transData.transform((x, y)) for x, y, *_ in labels]
    taken = [Bbox.from_bounds(px - 4 * pixel, py - 4 * pixel, 8 * pixel, 8 * pixel) for px, py in points]
    for (x, y, name, colour, is_rapt), point in zip(labels, points):
        text = ax.annotate(
            name, (x, y), xytext=(0, 0), textcoords="offset points", color=colour, fontsize=7.5,
            fontweight="bold" if is_rapt else "normal", ha="left", va="center", zorder=4,
        )  # fmt: skip
        extent = text.get_window_extent(renderer)
        width, height = extent.width, extent.height
        for distance, (dx, dy) in itertools.product((7, 15, 24, 34, 46, 60), _DIRECTIONS):
            left = point[0] + dx * distance * pixel - width * (1 - dx) / 2
            bottom = point[1] + dy * distance * pixel - height / 2
            box = Bbox.from_bounds(left, bottom, width, height)
            fits = inside.x0 < box.x0 and box.x1 < inside.x1 and inside.y0 < box.y0 and box.y1 < inside.y1
            if fits and not any(box.overlaps(other) for other in taken):
                break
        taken.append(box.padded(pixel))
        text.set_position(((box.x0 - point[0]) / pixel, ((box.y0 + box.y1) / 2 - point[1]) / pixel))
        if distance > 7:
            nearest = (min(max(point[0], box.x0), box.x1), min(max(point[1], box.y0), box.y1))
            end = ax.transData.inverted().transform(nearest)
            ax.plot([x, end[0]], [y, end[1]], color=colour, linewidth=0.5, alpha=0.6, zorder=2)
