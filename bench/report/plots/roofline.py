"""Roofline: vector operations per second against vector operations per byte, below the limits of the machine."""

from __future__ import annotations

import itertools
import math

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from data import LEVELS, Measurement, Results, attention_size, family
from plots.figure import LEVEL_COLOURS, MARKERS, PAGE_WIDTH, engineering, plain_log_ticks, svg

ATTENTION_SHAPES = ("d128", "8x8 d128")


def roofline(results: Results, isa: str) -> str | None:
    """f32 and f64 side by side."""
    limits = results.limits.get(isa, {})
    points = {scalar_type: _roofline_points(results, isa, scalar_type) for scalar_type in ("f32", "f64")}
    points = {scalar_type: found for scalar_type, found in points.items() if found}
    if not points:
        return None
    ceilings = {scalar_type: _operation_limit(limits, results.f32_lanes[isa], scalar_type) for scalar_type in points}

    intensities = [m.intensity for found in points.values() for _, _, m in found]
    rates = [m.operation_rate for found in points.values() for _, _, m in found]
    x_range = (min(intensities) / 1.6, max(intensities) * 2)
    y_range = (min(rates) / 1.8, max([*rates, *(ceiling or 0 for ceiling in ceilings.values())]) * 1.5)

    figure, axes = pyplot.subplots(1, len(points), figsize=(PAGE_WIDTH, 5.6), sharey=True, squeeze=False)
    figure.subplots_adjust(left=0.065, right=0.985, top=0.745, bottom=0.2, wspace=0.06)
    names = list(dict.fromkeys(name for found in points.values() for name, _, _ in found))
    markers = dict(zip(names, itertools.cycle(MARKERS)))
    for ax, (scalar_type, found) in zip(axes[0], points.items()):
        ax.set(xscale="log", yscale="log", xlim=x_range, ylim=y_range)
        ax.grid(True, which="major")
        ax.set_xlabel("vector operations per byte")
        ax.text(0.01, 0.985, scalar_type, transform=ax.transAxes, va="top", fontweight="bold")
        _draw_roofs(ax, limits, ceilings[scalar_type])
        for name, level, one in found:
            ax.plot(
                one.intensity, one.operation_rate, linestyle="none", markersize=6.5,
                marker=markers[name], color=LEVEL_COLOURS[level], markeredgecolor="white",
                markeredgewidth=0.4, zorder=4,
            )  # fmt: skip
        _label_columns(ax, found)
        plain_log_ticks(ax)
    axes[0][0].set_ylabel("vector operations per second")
    axes[0][0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: engineering(value)))
    figure.legend(handles=_roof_legend(limits, ceilings), loc="lower center", ncol=3, handlelength=2.2)
    return svg(figure, f"Roofline of {isa}: measured rate of every kernel below the machine's limits")


def _roofline_points(results: Results, isa: str, scalar_type: str) -> list[tuple[str, str, Measurement]]:
    """Name, memory level, measurement."""
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
            if one and parts and not parts.option and parts.shape in ATTENTION_SHAPES:
                points.append((f"{name} {parts.phase}", results.level_of(one.bytes), one))
    return points


def _operation_limit(limits: dict[str, float], f32_lanes: int, scalar_type: str) -> float | None:
    """Vector operations per second, from the floating-point operations per second of fused multiply-adds."""
    flops = limits.get(f"fma_{scalar_type}")
    lanes = f32_lanes if scalar_type == "f32" else max(1, f32_lanes // 2)
    return flops / (2 * lanes) if flops else None


def _copy_limit(limits: dict[str, float], level: str) -> float | None:
    return max((limits[way] for way in (f"copy:{level}", f"copy_nt:{level}") if way in limits), default=None)


def _draw_roofs(ax: Axes, limits: dict[str, float], ceiling: float | None) -> None:
    low, high = ax.get_xlim()
    # On logarithmic axes the roofs are straight between corners.
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
    text = ", ".join(f"{name} {engineering(rate)}/s" for name, rate in ceilings.items() if rate)
    if text:
        handles.append(Line2D([], [], color="#333333", linewidth=1.3, label=f"operations: {text}"))
    if limits:
        handles.append(Line2D([], [], color="#888888", linewidth=1, label="load"))
        handles.append(Line2D([], [], color="#888888", linewidth=1, linestyle=(0, (4, 2)), label="copy"))
    return handles


def _label_columns(ax: Axes, points: list[tuple[str, str, Measurement]]) -> None:
    """The names of kernels above the picture, spread apart, each with a line to its highest point."""
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
        ax.text(place, 1.08, name, transform=ax.transAxes, rotation=90, rotation_mode="anchor", ha="left", va="center")


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
