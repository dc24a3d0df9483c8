"""Throughput by size on each instruction set, below the limits."""

from __future__ import annotations

import math

from matplotlib import pyplot
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator

from data import Results, Series
from plots.figure import engineering, isa_colour, plain_log_ticks, svg


def throughput(results: Results, kernel: str, series: Series) -> str:
    """The limits are dashed; doubtful points are hollow."""
    width, height = 3.25, 2.25
    figure, ax = pyplot.subplots(figsize=(width, height))
    figure.subplots_adjust(left=0.15, right=0.97, top=0.89, bottom=0.175)
    ax.set(xscale="log", yscale="log")
    unit = "GB/s"
    for isa in results.isas:
        found = [(x, one) for x, size in series.sizes if (one := results.find(kernel, isa, size))]
        colour = isa_colour(isa)
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
    plain_log_ticks(ax)
    if series.axis == "bytes":
        ax.xaxis.set_major_locator(LogLocator(base=10, numticks=6))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: engineering(value)))
    low, high = ax.get_xlim()
    if series.axis != "bytes" or high / low < 300:
        ax.xaxis.set_major_locator(FixedLocator(_apart([x for x, _ in series.sizes], math.log(high / low) / 8)))
    ax.set_xlabel(series.axis)
    ax.set_ylabel(unit)
    ax.set_title(f"{kernel}, {series.title}", loc="left", fontsize=8)
    return svg(figure, f"{kernel}: {unit} by {series.axis}, {series.title}")


def _apart(ascending: list[float], logarithm: float) -> list[float]:
    """The largest value, and smaller ones whose labels have room."""
    chosen: list[float] = []
    for value in reversed(ascending):
        if not chosen or math.log(chosen[-1] / value) >= logarithm:
            chosen.append(value)
    return chosen
