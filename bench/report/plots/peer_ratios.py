"""The time of each peer over the time of rapt, by size."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from data import Peer, Results, neighbours
from plots.figure import PAGE_WIDTH, Palette, svg, text_width

# Ratios above the knee take less room: a factor of 100 at one input must not squeeze the differences of a few
# percent that the picture is about.
KNEE = 4
COMPRESSION = 4


def peer_ratios(results: Results, kernel: str, isa: str, palette: Palette) -> str | None:
    """One line per peer."""
    ratios = _ratios_of_all(results, kernel, isa)
    if not ratios:
        return None
    sizes = [size for size in results.sizes(kernel) if results.best_ratio(kernel, isa, size) is not None]
    everything = [ratio for by_size in ratios.values() for ratio in by_size.values()]
    low, high = min([*everything, 0.8]) / 1.06, max([*everything, 1.6])

    label_height = text_width(sizes, 7.5) + 0.1
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
    return svg(figure, f"{kernel}: time of each peer over the time of rapt {isa}, by size")


def _compressed_log(ratio: Any) -> Any:
    logarithm = numpy.log(numpy.maximum(ratio, 1e-9))
    knee = math.log(KNEE)
    return numpy.where(logarithm <= knee, logarithm, knee + (logarithm - knee) / COMPRESSION)


def _compressed_log_inverse(place: Any) -> Any:
    knee = math.log(KNEE)
    return numpy.exp(numpy.where(place <= knee, place, knee + (place - knee) * COMPRESSION))


def _ratio_ticks(ax: Axes) -> None:
    """As many ratios as have room, the most telling first."""
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
    """By peer and size. A library built for several instruction sets appears with the set of rapt if it has that one,
    and otherwise with those that it has."""
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
    """Sizes that a line may connect."""
    runs: list[list[str]] = []
    for size in sizes:
        if size not in by_size:
            continue
        if runs and neighbours(runs[-1][-1], size):
            runs[-1].append(size)
        else:
            runs.append([size])
    return runs
