"""The pictures of the page, each an SVG element to stand inside HTML."""

from __future__ import annotations

import io
import itertools
import re
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator

from data import LEVELS, Measurement, Results

matplotlib.style.use("tableau-colorblind10")
# Text stays text, which is small, searchable and in the font of the reader.
matplotlib.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "rapt",
        "font.family": "DejaVu Sans",
        "font.size": 8,
        "axes.axisbelow": True,
        "grid.color": "#e4e4e4",
        "legend.frameon": False,
        "lines.linewidth": 1,
        "lines.markersize": 5,
        "axes.titlelocation": "left",
    }
)

MARKERS = "osD^vPX<>hd*pH8"
HOLLOW = {
    "color": "white",
    "marker": ".",
    "markersize": 3,
    "linestyle": "",
    "zorder": 4,
}  # on markers not to be believed
LEVEL_COLOURS = dict(zip(LEVELS, ("#440154", "#31688e", "#1f9e89", "#d95f02")))
HEAT_COLOURS = pyplot.get_cmap("YlGnBu")
IMPOSSIBLE_COLOUR = "#dddddd"  # not on the scale
LARGEST_RATIO = 10
RATIO_TICKS = (0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10)
# The sizes that stand for a memory level, and attention with 128 dimensions.
ROOFLINE_SIZES = re.compile(r"(?:cols:1024:|dim:128:)?(L1|L2|L3|mem)|(prefill):d128:t\d+|(decode):8x8:d128:k\d+")


def roofline(results: Results, isa: str) -> str:
    """Vector operations per second against vector operations per byte, for f32 and f64 side by side."""
    panels = {scalar_type: _roofline_points(results, isa, scalar_type) for scalar_type in ("f32", "f64")}
    panels = {scalar_type: points for scalar_type, points in panels.items() if points}
    if not panels:
        return ""
    limits = {what: rate * 1e-9 for what, rate in results.limits.get(isa, {}).items()}
    names = dict.fromkeys(name for points in panels.values() for name, _, _ in points)
    markers = dict(zip(names, itertools.cycle(MARKERS)))
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(8.5, 4.5), sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    ceilings = []  # without a limit it is too high to be seen
    for ax, (scalar_type, points) in zip(axes[0], panels.items()):
        ax.set(xscale="log", yscale="log", title=scalar_type, xlabel="vector operations per byte")
        for name, level, one in points:
            place = one.facts["uops"] / one.facts["bytes"], one.facts["uops"] / one.seconds * 1e-9
            ax.plot(*place, markers[name], color=LEVEL_COLOURS[level], zorder=3)
            if one.doubts:
                ax.plot(*place, **HOLLOW)
        # A fused multiply-add is two floating-point operations in each lane.
        lanes = int(results.context[f"f32_lanes_{isa}"])
        lanes = lanes if scalar_type == "f32" else max(1, lanes // 2)
        ceilings.append(limits.get(f"fma_{scalar_type}", 1e9) / (2 * lanes))
        ax.grid(True)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
    axes[0][0].set_ylabel("10⁹ vector operations per second")
    axes[0][0].set_ylim(top=1.5 * max([axes[0][0].get_ylim()[1], *ceilings]) if max(ceilings) < 1e6 else None)
    axes[0][0].set_xlim(axes[0][0].get_xlim())
    for ax, ceiling in zip(axes[0], ceilings):
        handles = [ax.axhline(ceiling, color="#333333", label=f"operations {ceiling:.3g}·10⁹/s", zorder=2.5)]
        for level, colour in LEVEL_COLOURS.items():
            copy = max(limits.get(f"copy:{level}", 0), limits.get(f"copy_nt:{level}", 0))
            for access, rate, style in (("load", limits.get(f"load:{level}"), "-"), ("copy", copy, "--")):
                if rate:
                    label = f"{level} {access} {rate:.0f} GB/s"
                    handles += ax.plot([1e-9, ceiling / rate], [1e-9 * rate, ceiling], style, color=colour, label=label)
    handles += [Line2D([], [], color="#666666", marker=markers[name], linestyle="", label=name) for name in names]
    figure.legend(handles=handles, loc="center left", bbox_to_anchor=(1, 0.5))
    return _svg(figure)


def _roofline_points(results: Results, isa: str, scalar_type: str) -> list[tuple[str, str, Measurement]]:
    """Name, memory level, measurement."""
    points = []
    for kernel, sizes in results.kernels.items():
        name, _, type_of_kernel = kernel.rpartition("_")
        for size, impls in sizes.items() if type_of_kernel == scalar_type else ():
            found, one = ROOFLINE_SIZES.fullmatch(size), impls.get(isa)
            if found and one and one.facts.get("uops"):
                phase = found[2] or found[3]
                points.append((f"{name} {phase}" if phase else name, found[1] or _level_of(results, one), one))
    return points


def _level_of(results: Results, one: Measurement) -> str:
    """The memory level that holds the data, as the benchmark decides it."""
    sets = {level: float(results.context.get(f"working_set_{level}", 0)) for level in LEVELS}
    return next((level for level, working_set in sets.items() if one.facts["bytes"] < 4 * working_set), LEVELS[-1])


def heat_map(results: Results, name: str, kernels: list[str]) -> str:
    """Share of the limit: sizes down, and across the instruction sets of each kernel."""
    cells = {
        (kernel, isa, size): impls[isa]
        for kernel in kernels
        for size, impls in results.kernels[kernel].items()
        for isa in results.isas
        if isa in impls and (impls[isa].share is not None or impls[isa].is_impossible)
    }
    if not cells:
        return ""
    sizes = list(dict.fromkeys(size for _, _, size in cells))
    used = {(kernel, isa) for kernel, isa, _ in cells}
    columns = [column for column in itertools.product(kernels, results.isas) if column in used]
    figure = pyplot.figure(figsize=(0.5 * len(columns), 0.19 * len(sizes)))
    ax = figure.add_axes((0, 0, 1, 1), xlim=(0, len(columns)), ylim=(len(sizes), 0), frame_on=False)
    for (x, column), (y, size) in itertools.product(enumerate(columns), enumerate(sizes)):
        one = cells.get((*column, size))
        colour, hatch = share_style(one)
        # White edges would make up half of the SVG, so that cells have gaps between them instead.
        ax.add_patch(Rectangle((x, y), 0.97, 0.93, facecolor=colour, hatch=hatch, edgecolor="#999999", linewidth=0))
        if one and one.share is not None:
            ax.text(
                x + 0.5, y + 0.5, f"{100 * one.share:.0f}", ha="center", va="center",
                color="white" if one.share > 0.6 else "#222222",
                bbox={"facecolor": colour, "linewidth": 0, "pad": 0.8} if hatch else None,
            )  # fmt: skip
    ax.set_title(name, fontweight="bold")
    ax.set_xticks(
        [x + 0.5 for x in range(len(columns))], [f"{kernel.rpartition('_')[2]}\n{isa}" for kernel, isa in columns]
    )
    ax.set_yticks([y + 0.5 for y in range(len(sizes))], sizes)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    return _svg(figure)


def share_style(one: Measurement | None) -> tuple[Any, str | None]:
    """The colour of a share, and the hatching of a doubtful one. An impossible share has no good colour."""
    if one is not None and one.is_impossible:
        return IMPOSSIBLE_COLOUR, "////"
    if one is None or one.share is None:
        return "#f3f3f3", None
    return HEAT_COLOURS(0.9 * min(one.share, 1)), "////" if one.doubts else None


def peer_ratios(results: Results, kernel: str, isa: str) -> str:
    """The time of each peer over the time of rapt, by size. A library built for several instruction sets appears with
    the set of rapt if it has that one, and otherwise with those that it has."""
    sizes = [size for size in results.kernels[kernel] if results.best_ratio(kernel, isa, size) is not None]
    if not sizes:
        return ""
    series: dict[str, list[tuple[int, float]]] = {}  # by the name of the peer, places and ratios
    libraries: dict[str, str] = {}
    doubted = []
    for x, size in enumerate(sizes):
        rivals = results.rivals(kernel, isa, size)
        served = [one.library for one in rivals if one.isa == isa]
        for one in rivals:
            if one.isa == isa or one.library not in served:
                label = one.library if one.isa == isa else one.impl
                libraries[label] = one.library
                ratio = one.seconds / results.find(kernel, isa, size).seconds
                series.setdefault(label, []).append((x, min(ratio, LARGEST_RATIO)))
                if one.doubts or results.find(kernel, isa, size).doubts:
                    doubted.append(series[label][-1])
    figure = pyplot.figure(figsize=(0.2 * max(len(sizes), 12), 2))
    ax = figure.add_axes((0, 0, 1, 1), yscale="log", title=f"peers' time ÷ rapt's, {isa}")
    for label, places in series.items():
        number = results.libraries.index(libraries[label])
        ax.plot(*zip(*places), MARKERS[number % len(MARKERS)], color=f"C{number}", label=label)
    if doubted:
        ax.plot(*zip(*doubted), **HOLLOW)
    ax.axhspan(1e-3, 1, color="#d55e00", alpha=0.06)
    ax.axhline(1, color="#222222")
    ax.set_xticks(range(len(sizes)), sizes, rotation=90)
    ax.set_yticks(RATIO_TICKS, map(str, RATIO_TICKS))
    ax.minorticks_off()
    ratios = [ratio for places in series.values() for _, ratio in places]
    ax.set(xlim=(-0.6, len(sizes) - 0.4), ylim=(min(0.75, *ratios) / 1.1, max(1.5, *ratios) * 1.1))
    ax.grid(True)
    ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return _svg(figure)


def _svg(figure: Figure) -> str:
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", facecolor="none")
    pyplot.close(figure)
    # Many pictures make a large page: drop comments and millionths of a point. Equal parts have equal identifiers.
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|\n *", " ", out.getvalue(), flags=re.DOTALL)
    text = re.sub(r"(\d\.\d{3})\d+", r"\1", text[text.index("<svg") :])
    return f"<figure>{text}</figure>\n"
