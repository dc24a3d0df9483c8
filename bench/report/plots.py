"""The report's pictures, each an SVG element to stand inside HTML."""

from __future__ import annotations

import html
import io
import itertools
import math
import re
from collections import Counter
from typing import Any

import matplotlib
import numpy

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.textpath import TextPath
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator
from matplotlib.transforms import Bbox

from data import (
    F32_LANES, LEVELS, AttentionSize, Measurement, Peer, Results, Series, attention_size, family, neighbours,
)  # fmt: skip

# Text stays text: small, searchable, and set in the reader's font.
matplotlib.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "rapt",
        "font.family": "DejaVu Sans",
        "font.size": 8,
        "axes.titlesize": 9,
        "axes.titleweight": "bold",
        "axes.labelsize": 8,
        "axes.edgecolor": "#888888",
        "axes.linewidth": 0.6,
        "axes.axisbelow": True,
        "xtick.color": "#444444",
        "ytick.color": "#444444",
        "grid.color": "#e4e4e4",
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "text.parse_math": False,
        "hatch.linewidth": 0.6,
    }
)

PAGE_WIDTH = 10.2  # inches of 72 CSS points

RAPT_COLOUR = "#000000"
# After Okabe and Ito, and Tol: told apart with any colour vision.
PEER_COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00",
    "#882255", "#999933", "#332288", "#44aa99", "#aa4466", "#7f7f7f",
)  # fmt: skip
PEER_MARKERS = "osD^vPX<>hd*"
LEVEL_COLOURS = {"L1": "#440154", "L2": "#31688e", "L3": "#1f9e89", "mem": "#d95f02"}
KERNEL_MARKERS = PEER_MARKERS
ROOFLINE_SHAPES = ("d128", "8x8 d128")  # of attention
HEAT_COLOURS = pyplot.get_cmap("YlGnBu")
IMPOSSIBLE_COLOUR = "#dddddd"  # of no share
ISA_COLOURS = {"scalar": "#999999", "avx2": "#0072b2", "avx512": "#222222", "neon": "#009e73"}

# Ratios above the knee take less room: an input that throws a peer off by a factor of 100 must not squeeze
# the differences of a few percent that the picture is about.
KNEE = 4
COMPRESSION = 4


class Palette:
    """One colour and marker for each library, the same in every picture."""

    def __init__(self, results: Results) -> None:
        self._styles = dict(zip(results.libraries, itertools.cycle(zip(PEER_COLOURS, PEER_MARKERS))))

    def colour(self, library: str) -> str:
        return self._styles[library][0]

    def marker(self, library: str) -> str:
        return self._styles[library][1]


# ---------------------------------------------------------------------------------------------- roofline


def roofline(results: Results, isa: str) -> str | None:
    """Vector operations a second against vector operations a byte, f32 and f64 side by side."""
    limits = results.limits.get(isa, {})
    points = {scalar_type: _roofline_points(results, isa, scalar_type) for scalar_type in ("f32", "f64")}
    points = {scalar_type: found for scalar_type, found in points.items() if found}
    if not points:
        return None
    ceilings = {scalar_type: _operation_limit(limits, isa, scalar_type) for scalar_type in points}

    intensities = [m.intensity for found in points.values() for _, _, m in found]
    rates = [m.operation_rate for found in points.values() for _, _, m in found]
    x_range = (min(intensities) / 1.6, max(intensities) * 2)
    y_range = (min(rates) / 1.8, max([*rates, *(ceiling or 0 for ceiling in ceilings.values())]) * 1.5)

    figure, axes = pyplot.subplots(1, len(points), figsize=(PAGE_WIDTH, 5.6), sharey=True, squeeze=False)
    figure.subplots_adjust(left=0.065, right=0.985, top=0.745, bottom=0.2, wspace=0.06)
    names = list(dict.fromkeys(name for found in points.values() for name, _, _ in found))
    markers = dict(zip(names, itertools.cycle(KERNEL_MARKERS)))
    for ax, (scalar_type, found) in zip(axes[0], points.items()):
        ax.set(xscale="log", yscale="log", xlim=x_range, ylim=y_range)
        ax.grid(True, which="major")
        ax.set_xlabel("vector operations a byte")
        ax.text(0.01, 0.985, scalar_type, transform=ax.transAxes, va="top", fontweight="bold")
        _draw_roofs(ax, limits, ceilings[scalar_type])
        for name, level, one in found:
            ax.plot(
                one.intensity, one.operation_rate, linestyle="none", markersize=6.5,
                marker=markers[name], color=LEVEL_COLOURS[level], markeredgecolor="white",
                markeredgewidth=0.4, zorder=4,
            )  # fmt: skip
        _label_columns(ax, found)
        _plain_log_ticks(ax)
    axes[0][0].set_ylabel("vector operations a second")
    axes[0][0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: _engineering(value)))
    figure.legend(handles=_roof_legend(limits, ceilings), loc="lower center", ncol=3, handlelength=2.2)
    return _svg(figure, f"Roofline of {isa}: measured rate of every kernel below the machine's limits")


def _roofline_points(results: Results, isa: str, scalar_type: str) -> list[tuple[str, str, Measurement]]:
    """Name, level of the memory hierarchy, measurement."""
    points = []
    for kernel in results.kernels:
        name, kernel_type = family(kernel)
        if kernel_type != scalar_type:
            continue
        for level in LEVELS:
            one = results.find(kernel, isa, results.size_at(kernel, level) or "")
            if one and one.uops:
                points.append((name, level, one))
        for size in results.sizes(kernel) if name == "attention" else ():
            parts, one = attention_size(size), results.find(kernel, isa, size)
            if one and parts and not parts.option and parts.shape in ROOFLINE_SHAPES:
                points.append((f"{name} {parts.phase}", results.level_of(one.bytes), one))
    return points


def _operation_limit(limits: dict[str, float], isa: str, scalar_type: str) -> float | None:
    """Vector operations a second, from the flops a second of fused multiply-adds."""
    flops = limits.get(f"fma_{scalar_type}")
    lanes = F32_LANES[isa] if scalar_type == "f32" else max(1, F32_LANES[isa] // 2)
    return flops / (2 * lanes) if flops else None


def _copy_limit(limits: dict[str, float], level: str) -> float | None:
    return max((limits[way] for way in (f"copy:{level}", f"copy_nt:{level}") if way in limits), default=None)


def _draw_roofs(ax: Axes, limits: dict[str, float], ceiling: float | None) -> None:
    low, high = ax.get_xlim()
    # Straight on logarithmic axes but for the corners.
    corners = [ceiling / bandwidth for bandwidth in limits.values()] if ceiling else []
    steps = sorted({low, high, *(corner for corner in corners if low < corner < high)})

    def roof(bandwidth: float) -> list[float]:
        return [min(bandwidth * x, ceiling or math.inf) for x in steps]

    for level, colour in LEVEL_COLOURS.items():
        load, copy = limits.get(f"load:{level}"), _copy_limit(limits, level)
        if load:
            ax.plot(steps, roof(load), color=colour, linewidth=1.1, zorder=2)
        if copy:
            ax.plot(steps, roof(copy), color=colour, linewidth=0.9, linestyle=(0, (4, 2)), zorder=2)
        if load and copy:
            ax.fill_between(steps, roof(load), roof(copy), color=colour, alpha=0.07, linewidth=0, zorder=1)
    if ceiling:
        ax.axhline(ceiling, color="#333333", linewidth=1.3, zorder=2)


def _roof_legend(limits: dict[str, float], ceilings: dict[str, float | None]) -> list[Line2D]:
    handles = []
    for level, colour in LEVEL_COLOURS.items():
        rates = {"load": limits.get(f"load:{level}"), "copy": _copy_limit(limits, level)}
        text = ", ".join(f"{access} {rate * 1e-9:.0f}" for access, rate in rates.items() if rate)
        if text:
            handles.append(Line2D([], [], color=colour, marker="o", markersize=5, label=f"{level}: {text} GB/s"))
    text = ", ".join(f"{name} {_engineering(rate)}/s" for name, rate in ceilings.items() if rate)
    if text:
        handles.append(Line2D([], [], color="#333333", linewidth=1.3, label=f"operations: {text}"))
    if limits:
        handles.append(Line2D([], [], color="#888888", linewidth=1, label="load"))
        handles.append(Line2D([], [], color="#888888", linewidth=1, linestyle=(0, (4, 2)), label="copy"))
    return handles


def _label_columns(ax: Axes, points: list[tuple[str, str, Measurement]]) -> None:
    """Kernels' names above the picture, spread apart, each with a line to its highest point."""
    highest: dict[str, Measurement] = {}
    for name, _, one in points:
        if name not in highest or one.operation_rate > highest[name].operation_rate:
            highest[name] = one
    to_axes = ax.transScale + ax.transLimits
    named = []
    for name, one in highest.items():
        x, y = to_axes.transform((one.intensity, one.operation_rate))
        named.append((x, y, name))
    named.sort()
    places = _spread([x for x, _, _ in named], gap=0.034, low=0.02, high=0.98)
    for (x, y, name), place in zip(named, places):
        ax.plot(
            [x, x, place, place], [y, 1.01, 1.05, 1.07], transform=ax.transAxes, color="#aaaaaa", linewidth=0.6,
            clip_on=False, zorder=1.5,
        )  # fmt: skip
        ax.text(
            place, 1.08, name, transform=ax.transAxes, rotation=90, rotation_mode="anchor", ha="left", va="center"
        )


def _spread(wanted: list[float], gap: float, low: float, high: float) -> list[float]:
    """Ascending places at least `gap` apart, near the ascending ones wanted."""
    places = list(wanted)
    for _ in range(400):
        for i in range(len(places) - 1):
            overlap = gap - (places[i + 1] - places[i])
            if overlap > 0:
                places[i] -= overlap / 2
                places[i + 1] += overlap / 2
        places = [min(max(place, low), high) for place in places]
    return places


# ---------------------------------------------------------------------------------------------- heat map


def heat_map(results: Results, name: str, kernels: list[str]) -> str | None:
    """Share of the limit: sizes down, instruction sets of each of the family's kernels across."""
    columns = [
        (kernel, isa)
        for kernel in kernels
        for isa in results.isas
        if any(m.share is not None for m in _column(results, kernel, isa))
    ]
    elsewhere = {size for kernel in kernels for size in _grid_sizes(results, kernel)}
    sizes = [
        size
        for size in dict.fromkeys(size for kernel in kernels for size in results.sizes(kernel))
        if size not in elsewhere
        and any(m and m.share is not None for m in (results.find(k, i, size) for k, i in columns))
    ]
    if not sizes:
        return None

    cell_width, cell_height = 0.5, 0.185
    label_width = _text_width(sizes, 8) + 0.16
    panel_width = label_width + cell_width * len(columns)
    panel_count = min(math.ceil(len(sizes) / 32), max(1, int(PAGE_WIDTH / panel_width)))
    rows = math.ceil(len(sizes) / panel_count)
    panels = [sizes[i : i + rows] for i in range(0, len(sizes), rows)]
    width, height = panel_width * len(panels) + 0.08, cell_height * rows + 0.62
    figure = pyplot.figure(figsize=(width, height))
    for i, panel in enumerate(panels):
        bottom = 0.04 + cell_height * (rows - len(panel))
        ax = figure.add_axes(
            (
                (i * panel_width + label_width) / width,
                bottom / height,
                cell_width * len(columns) / width,
                cell_height * len(panel) / height,
            )
        )
        ax.set(xlim=(0, len(columns)), ylim=(len(panel), 0))
        for y, size in enumerate(panel):
            for x, (kernel, isa) in enumerate(columns):
                _draw_share(ax, x, y, results.find(kernel, isa, size))
        ax.set_yticks([y + 0.5 for y in range(len(panel))], panel)
        ax.set_xticks([x + 0.5 for x in range(len(columns))], [isa for _, isa in columns])
        ax.xaxis.tick_top()
        ax.tick_params(length=0, pad=2)
        ax.tick_params(axis="x", labelsize=7.5)
        for spine in ax.spines.values():
            spine.set_visible(False)
        for kernel in dict.fromkeys(kernel for kernel, _ in columns):
            places = [x for x, column in enumerate(columns) if column[0] == kernel]
            centre = (places[0] + places[-1] + 1) / 2
            ax.text(centre, -1.35, family(kernel)[1], ha="center", va="bottom", fontweight="bold")
            if places[0] > 0:
                ax.axvline(places[0], color="white", linewidth=3)
    figure.text(0.04 / width, 1 - 0.03 / height, name, fontsize=9, fontweight="bold", va="top")
    return _svg(figure, f"Share of the machine's limit that {name} reaches, by size and instruction set")


def _grid_sizes(results: Results, kernel: str) -> dict[str, AttentionSize]:
    """Those of attention's sizes that a grid of lengths and shapes is made of: the shapes of several lengths."""
    if family(kernel)[0] != "attention":
        return {}
    plain = {size: parts for size in results.sizes(kernel) if (parts := attention_size(size)) and not parts.option}
    lengths = Counter((parts.phase, parts.shape) for parts in plain.values())
    return {size: parts for size, parts in plain.items() if lengths[parts.phase, parts.shape] > 1}


def attention_grid(results: Results, kernel: str, phase: str) -> str | None:
    """Share of the limit: lengths down; head counts, dimensions and causality across, on each instruction set."""
    cells: dict[tuple[str, str, int], Measurement] = {}
    for size, parts in _grid_sizes(results, kernel).items():
        for isa in results.isas:
            one = results.find(kernel, isa, size)
            if parts.phase == phase and one and one.share is not None and isa != "scalar":
                cells[parts.shape, isa, parts.length] = one
    lengths = sorted({length for _, _, length in cells})
    isas = [isa for isa in results.isas if any(isa == other for _, other, _ in cells)]
    shapes = list(dict.fromkeys(shape for shape, _, _ in cells))
    if not shapes:
        return None

    cell_width, cell_height, left, top = 0.58, 0.24, 0.62, 0.7
    columns = [(shape, isa) for isa in isas for shape in shapes]
    width, height = left + cell_width * len(columns) + 0.1, top + cell_height * len(lengths) + 0.05
    figure = pyplot.figure(figsize=(width, height))
    ax = figure.add_axes(
        (left / width, 0.05 / height, cell_width * len(columns) / width, cell_height * len(lengths) / height)
    )
    ax.set(xlim=(0, len(columns)), ylim=(len(lengths), 0))
    for y, length in enumerate(lengths):
        for x, (shape, isa) in enumerate(columns):
            _draw_share(ax, x, y, cells.get((shape, isa, length)))
    ax.set_yticks([y + 0.5 for y in range(len(lengths))], [str(length) for length in lengths])
    ax.set_xticks([x + 0.5 for x in range(len(columns))], [shape.replace(" ", "\n") for shape, _ in columns])
    ax.xaxis.tick_top()
    ax.tick_params(length=0, pad=2)
    ax.tick_params(axis="x", labelsize=7.5)
    for spine in ax.spines.values():
        spine.set_visible(False)
    for i, isa in enumerate(isas):
        centre = (i + 0.5) * len(shapes) * cell_width + left
        figure.text(centre / width, 1 - 0.22 / height, isa, ha="center", va="top", fontweight="bold")
        if i > 0:
            ax.axvline(i * len(shapes), color="white", linewidth=4)
    unit = "tokens" if phase == "prefill" else "keys"
    figure.text(0.04 / width, 1 - 0.03 / height, f"{kernel}, {phase}", fontsize=9, fontweight="bold", va="top")
    figure.text((left - 0.08) / width, 1 - (top - 0.1) / height, unit, ha="right", va="bottom", fontsize=7.5)
    return _svg(figure, f"Share of the machine's limit that {kernel} reaches in {phase}, by length and shape")


def _column(results: Results, kernel: str, isa: str) -> list[Measurement]:
    found = (results.find(kernel, isa, size) for size in results.sizes(kernel))
    return [m for m in found if m]


def _draw_share(ax: Axes, x: int, y: int, one: Measurement | None) -> None:
    share = one.share if one else None
    colour, hatch = share_style(one)
    # Gaps between cells, rather than white edges, which would make up half of the picture's text.
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
    """The colour, and the hatching of what is not to be believed. What no machine can reach has no good colour."""
    if one is None or one.share is None:
        return "#f3f3f3", None
    colour = IMPOSSIBLE_COLOUR if one.is_impossible else HEAT_COLOURS(0.9 * min(one.share, 1))
    return colour, "////" if one.doubts else None


# ---------------------------------------------------------------------------------------------- size


def throughput(results: Results, kernel: str, series: Series) -> str:
    """Throughput by size on each instruction set, below the limits, which are dashed."""
    width, height = 3.25, 2.25
    figure, ax = pyplot.subplots(figsize=(width, height))
    figure.subplots_adjust(left=0.15, right=0.97, top=0.89, bottom=0.175)
    ax.set(xscale="log", yscale="log")
    unit = "GB/s"
    for isa in results.isas:
        found = [(x, one) for x, size in series.sizes if (one := results.find(kernel, isa, size))]
        colour = ISA_COLOURS.get(isa, "#cc79a7")
        bound = [(x, one) for x, one in found if one.limit]
        ax.plot(
            [x for x, _ in bound], [one.throughput(one.limit) for _, one in bound], color=colour, linewidth=0.8,
            linestyle=(0, (4, 2)), zorder=2,
        )  # fmt: skip
        ax.plot([x for x, _ in found], [one.throughput(one.seconds) for _, one in found], color=colour, linewidth=1.2)
        for x, one in found:
            ax.plot(
                x, one.throughput(one.seconds), marker="o", markersize=3.6, color=colour, markeredgewidth=0.9,
                markerfacecolor="white" if one.doubts else colour, zorder=3,
            )  # fmt: skip
            unit = "GFLOP/s" if one.flop else "GB/s"
    ax.grid(True, which="major")
    _plain_log_ticks(ax)
    if series.axis == "bytes":
        ax.xaxis.set_major_locator(LogLocator(base=10, numticks=6))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _engineering(value)))
    low, high = ax.get_xlim()
    if series.axis != "bytes" or high / low < 300:
        ax.xaxis.set_major_locator(FixedLocator(_apart([x for x, _ in series.sizes], math.log(high / low) / 8)))
    ax.set_xlabel(series.axis)
    ax.set_ylabel(unit)
    ax.set_title(f"{kernel}, {series.title}", loc="left", fontsize=8)
    return _svg(figure, f"{kernel}: {unit} by {series.axis}, {series.title}")


def _apart(ascending: list[float], logarithm: float) -> list[float]:
    """The largest, and of the others those that have room for their labels."""
    chosen: list[float] = []
    for value in reversed(ascending):
        if not chosen or math.log(chosen[-1] / value) >= logarithm:
            chosen.append(value)
    return chosen


# ---------------------------------------------------------------------------------------------- peers


def peer_ratios(results: Results, kernel: str, isa: str, palette: Palette) -> str | None:
    """Every peer's time over rapt's, size by size."""
    ratios = _ratios_of_all(results, kernel, isa)
    if not ratios:
        return None
    sizes = [size for size in results.sizes(kernel) if results.best_ratio(kernel, isa, size) is not None]
    everything = [ratio for by_size in ratios.values() for ratio in by_size.values()]
    low, high = min([*everything, 0.8]) / 1.06, max([*everything, 1.6])

    label_height = _text_width(sizes, 7.5) + 0.1
    plot_height = 2.6 if high > KNEE else 2.0
    plot_width = min(PAGE_WIDTH - 1.9, 0.4 + 0.22 * max(len(sizes), 12))
    width, height = plot_width + 1.9, plot_height + label_height + 0.25
    figure, ax = pyplot.subplots(figsize=(width, height))
    figure.subplots_adjust(
        left=0.45 / width, right=1 - 1.45 / width, top=1 - 0.2 / height, bottom=label_height / height
    )
    for peer, by_size in ratios.items():
        for number, run in enumerate(_runs(sizes, by_size)):
            ax.plot(
                [sizes.index(size) for size in run], [by_size[size] for size in run], linewidth=0.8, markersize=4,
                color=palette.colour(peer.library), marker=palette.marker(peer.library), markeredgewidth=0, zorder=3,
                label=None if number else peer.library if peer.isa == isa else peer.impl,
            )  # fmt: skip
    ax.set_yscale("function", functions=(_compressed_log, _compressed_log_inverse))
    ax.set(ylim=(low, high * (1.06 if high <= KNEE else 1.4)), xlim=(-0.6, len(sizes) - 0.4))
    ax.axhspan(low, 1, color="#d55e00", alpha=0.06, linewidth=0)
    ax.axhline(1, color="#222222", linewidth=1.1, zorder=2)
    if high > KNEE:
        ax.axhspan(KNEE, ax.get_ylim()[1], color="#f0f0f0", linewidth=0)
    for i, (before, after) in enumerate(itertools.pairwise(sizes)):
        if not neighbours(before, after):
            ax.axvline(i + 0.5, color="#cccccc", linewidth=0.6, linestyle=":")
    ax.grid(True, axis="y", which="major")
    _ratio_ticks(ax)
    ax.set_title(f"peers' time ÷ rapt's, {isa}", loc="left", pad=3)
    ax.legend(loc="upper left", bbox_to_anchor=(1.005, 1.03), borderaxespad=0, handlelength=1.6, labelspacing=0.35)
    ax.set_xticks(range(len(sizes)), sizes, rotation=90, fontsize=7.5)
    ax.tick_params(axis="x", length=2, pad=1)
    return _svg(figure, f"{kernel}: time of each peer over the time of rapt {isa}, by size")


def _compressed_log(ratio: Any) -> Any:
    logarithm = numpy.log(numpy.maximum(ratio, 1e-9))
    knee = math.log(KNEE)
    return numpy.where(logarithm <= knee, logarithm, knee + (logarithm - knee) / COMPRESSION)


def _compressed_log_inverse(place: Any) -> Any:
    knee = math.log(KNEE)
    return numpy.exp(numpy.where(place <= knee, place, knee + (place - knee) * COMPRESSION))


def _ratio_ticks(ax: Axes) -> None:
    """The most telling ratios, as many as there is room for."""
    low, high = ax.get_ylim()
    least_distance = 9 * ax.figure.dpi / 72
    places: dict[float, float] = {}
    for ratio in (1, KNEE, 2, 10, 0.5, 100, 1.5, 3, 0.8, 30, 1000, 1.2, 0.1, 0.2, 0.3, 0.7, 0.9, 300, 1.1, 10000):
        place = ax.transData.transform((0, ratio))[1]
        if low <= ratio <= high and all(abs(place - other) >= least_distance for other in places.values()):
            places[ratio] = place
    ticks = sorted(places)
    ax.yaxis.set_major_locator(FixedLocator(ticks))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_locator(NullLocator())


def _ratios_of_all(results: Results, kernel: str, isa: str) -> dict[Peer, dict[str, float]]:
    """A library that is built for several instruction sets stands there with the one that is compared, or, if it
    has no code for it, with what it has."""
    rivals = results.rivals(kernel, isa)
    served = {peer.library for peer in rivals if peer.isa == isa}
    ratios = {}
    for peer in rivals:
        if peer.isa != isa and peer.library in served:
            continue
        by_size = {}
        for size in results.sizes(kernel):
            own, rival = results.find(kernel, isa, size), results.find(kernel, peer.impl, size)
            if own and rival:
                by_size[size] = rival.seconds / own.seconds
        if by_size:
            ratios[peer] = by_size
    return ratios


def _runs(sizes: list[str], by_size: dict[str, float]) -> list[list[str]]:
    """Neighbours, which a line may connect."""
    runs: list[list[str]] = []
    for size in sizes:
        if size not in by_size:
            continue
        if runs and neighbours(runs[-1][-1], size):
            runs[-1].append(size)
        else:
            runs.append([size])
    return runs


# ---------------------------------------------------------------------------------------------- accuracy


def accuracy(results: Results, kernel: str, size: str, unit: str, palette: Palette) -> str | None:
    """Time against error of all implementations at one size, but for the slow reference."""
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
        strongest = isa == results.isas[-1]
        x = max(one.error, least / 2)  # 0 has no place on a logarithmic axis
        ax.plot(
            x, one.ns_per_element, marker=palette.marker(peer.library) if peer else "o", markersize=6,
            color=colour, markerfacecolor=colour if strongest else "white", markeredgewidth=1.2, zorder=3,
        )  # fmt: skip
        name = f"{peer.library} {peer.isa}" if peer else f"rapt {one.impl}"
        labels.append((x, one.ns_per_element, name, colour, peer is None))
    _widen(ax, [x for x, *_ in labels], [y for _, y, *_ in labels])
    ax.grid(True, which="major")
    _plain_log_ticks(ax)
    ax.set_xlabel(f"largest error, {unit}")
    ax.set_ylabel("ns a multiply-add" if points[0].flop else "ns an element")
    ax.set_title(f"{kernel}, {size}", loc="left")
    _place_labels(figure, ax, labels)
    return _svg(figure, f"{kernel} at {size}: nanoseconds an element against largest error")


def _widen(ax: Axes, xs: list[float], ys: list[float]) -> None:
    """Margins for the labels, and no magnification of differences that are none."""
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


_DIRECTIONS = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 0.6), (1, -0.6), (-1, 0.6), (-1, -0.6))


# ---------------------------------------------------------------------------------------------- all


def _text_width(texts: list[str], font_size: float) -> float:
    """Of the widest, in inches."""
    longest = sorted(texts, key=len)[-3:]
    return max(TextPath((0, 0), text, size=font_size).get_extents().width for text in longest) / 72


def _engineering(value: float) -> str:
    for scale, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:.3g} {letter}"
    return f"{value:.3g}"


def _plain_log_ticks(ax: Axes) -> None:
    """1, 2, 5, 10 in plain digits; powers of ten alone where the range is wide."""
    for one in (ax.xaxis, ax.yaxis):
        low, high = one.get_view_interval()
        steps = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
        if high / low < 6:
            steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
        one.set_major_locator(LogLocator(subs=steps, numticks=50))
        one.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.12g}"))
        one.set_minor_locator(NullLocator())
        one.set_minor_formatter(NullFormatter())


_figure_numbers = itertools.count()


def _svg(figure: Figure, description: str) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", facecolor="none")
    pyplot.close(figure)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    # What a page of many pictures need not carry: comments, and millionths of a point.
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d\d)\d+", r"\1", tag[0]), text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    # Every picture numbers its parts from 1, and all of them share the page's name space.
    figure_number = next(_figure_numbers)
    numbers: dict[str, int] = {}

    def renamed(found: re.Match[str]) -> str:
        return f"{found[1]}f{figure_number}-{numbers.setdefault(found[2], len(numbers))}"

    text = re.sub(r'(\sid="|url\(#|xlink:href="#)([^")]+)', renamed, text)
    return text.replace("<svg", f'<svg role="img" aria-label="{html.escape(description)}"', 1)
