"""The page's sections of pictures: the text around them."""

from __future__ import annotations

import markup
from data import Results, family
from plots.figure import Palette
from plots.peer_ratios import KNEE, peer_ratios
from plots.roofline import roofline
from plots.shares import heat_map


def rooflines(results: Results) -> str:
    figures = [(isa, roofline(results, isa)) for isa in reversed(results.isas)]
    figures = [(isa, svg) for isa, svg in figures if svg]
    if not figures:
        return markup.none("This run has no counts of operations.")
    text = (
        "<p>Across: arithmetic intensity, the vector operations per byte that a call must read or write, each input "
        "and each output once. An operation is an arithmetic instruction on a whole register that only the units for "
        "fused multiply-adds execute. Loads, stores and instructions for other units do not count. Up: operations "
        "per second. The slopes are the measured bandwidths: loading (solid) and copying (dashed; with normal or "
        "non-temporal stores, whichever is faster there). The flat line is the measured rate of fused multiply-adds. "
        "A point is a kernel; its colour names the memory level of its data. Rows have 1024 columns, those of "
        "dot_rows 128.</p>"
    )
    return text + "".join(f"<h3>{markup.escape(isa)}</h3>\n{markup.figure(svg)}" for isa, svg in figures)


def heat_maps(results: Results) -> str:
    families: dict[str, list[str]] = {}
    for kernel in results.kernels:
        families.setdefault(family(kernel)[0], []).append(kernel)
    maps = [heat_map(results, name, kernels) for name, kernels in families.items()]
    found = "".join(markup.figure(svg) for svg in maps if svg)
    if not found:
        return markup.none("This run measured no limits to take a share of.")
    return (
        "<p>Percent: the shortest possible time ÷ the time taken. The shortest time is the larger of two: the bytes "
        "over the bandwidth, measured for such accesses in the memory level of the data, and the vector operations "
        "over the measured rate of fused multiply-adds. "
        '<a href="#numbers">All numbers</a> names the larger. Neither includes calls, loops or tails, so that short '
        "sizes cannot come near the limit. Hatched: not to be believed, by the rules above. Grey: more than 105, "
        "which is impossible. Then the machine was busier when the limit was measured, the data lay nearer than its "
        f'size says, or the call had less to do than is counted.</p>\n<div class="maps">{found}</div>'
    )


def peers(results: Results, palette: Palette) -> str:
    parts = []
    for kernel in results.kernels:
        pictures = [peer_ratios(results, kernel, isa, palette) for isa in reversed(results.isas)]
        found = "".join(markup.figure(svg) for svg in pictures if svg)
        if found:
            parts.append(f'<h3>{markup.escape(kernel)}</h3>\n<div class="maps">{found}</div>')
    if not parts:
        return f"<p>{markup.NO_PEERS}</p>"
    return (
        "<p>Time of each peer ÷ time of rapt: above the line at 1 rapt is faster. Logarithmic; in the grey part, "
        f"above {KNEE}, the axis is compressed. rapt on an instruction set is compared with peers built for the same "
        "set, and on the strongest set with all. <a href="  # numbers">All numbers</a> has the times.</p>\n" + "".join(parts)
    )
