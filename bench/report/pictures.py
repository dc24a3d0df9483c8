"""The page's sections of pictures: the text around them."""

from __future__ import annotations

import markup
from data import LEVELS, Results, family, series_of
from plots.accuracy import accuracy
from plots.figure import Palette, isa_colour
from plots.peer_ratios import KNEE, peer_ratios
from plots.roofline import roofline
from plots.shares import heat_map
from plots.throughput import throughput

# The kernels whose implementations choose between both; the tables have the errors of all.
_TRADE_ACCURACY_FOR_SPEED = ("exp", "softmax", "attention")
_ATTENTION_FOR_ACCURACY = ("prefill:d64:t1024", "prefill:d64:t512")  # the first that was measured


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


def throughputs(results: Results) -> str:
    families: dict[str, list[str]] = {}
    for kernel in results.kernels:
        panels = [markup.figure(throughput(results, kernel, one)) for one in series_of(results, kernel)]
        families.setdefault(family(kernel)[0], []).extend(panels)
    found = "".join(
        f'<h3>{markup.escape(name)}</h3>\n<div class="maps">{"".join(panels)}</div>'
        for name, panels in families.items()
        if panels
    )
    if not found:
        return markup.none("This run has no kernel at three sizes that differ in one thing.")
    isas = " · ".join(f'<b style="color:{isa_colour(isa)}">{markup.escape(isa)}</b>' for isa in results.isas)
    return (
        f"<p>{isas}. Dashed: the limit. Hollow: not to be believed. Bytes count each input and each output once. "
        f"A multiply-add of attention is two operations.</p>\n{found}"
    )


def peers(results: Results, palette: Palette) -> str:
    parts = []
    for kernel in results.kernels:
        pictures = [peer_ratios(results, kernel, isa, palette) for isa in reversed(results.isas)]
        found = "".join(markup.figure(svg) for svg in pictures if svg)
        if found:
            pictures_and_table = f'<div class="maps">{found}</div>{_best_peers(results, kernel)}'
            parts.append(f"<h3>{markup.escape(kernel)}</h3>\n{pictures_and_table}")
    if not parts:
        return f"<p>{markup.NO_PEERS}</p>"
    return (
        "<p>Time of each peer ÷ time of rapt: above the line at 1 rapt is faster. Logarithmic; in the grey part, "
        f"above {KNEE}, the axis is compressed. rapt on an instruction set is compared with peers built for the same "
        "set, and on the strongest set with all. The best peer is the fastest of them.</p>\n" + "".join(parts)
    )


def _best_peers(results: Results, kernel: str) -> str:
    isas = [isa for isa in results.isas if results.rivals(kernel, isa)]
    align = "t" + " t  " * len(isas)
    rows = []
    for size in results.sizes(kernel):
        cells = [size]
        for isa in isas:
            own, rival = results.find(kernel, isa, size), results.best_rival(kernel, isa, size)
            if own and rival:
                ratio = markup.ratio(rival.seconds / own.seconds)
                cells += [markup.time(own.seconds), rival.impl, markup.time(rival.seconds), ratio]
            else:
                cells += [markup.time(own.seconds) if own else "", "", "", ""]
        rows.append(markup.row(cells, align))
    headings = ["size"] + [heading for isa in isas for heading in (f"rapt {isa}", "best peer", "its time", "ratio")]
    return markup.details(f"{kernel}: the best peer at each size", markup.table(headings, align, rows))


def accuracies(results: Results, palette: Palette) -> str:
    figures = []
    for kernel in results.kernels:
        if family(kernel)[0] not in _TRADE_ACCURACY_FOR_SPEED:
            continue
        size = results.size_at(kernel, LEVELS[0]) or next(
            (one for one in _ATTENTION_FOR_ACCURACY if one in results.sizes(kernel)), None
        )
        svg = accuracy(results, kernel, size, markup.error_unit(kernel), palette) if size else None
        if svg:
            figures.append(markup.figure(svg))
    if not figures:
        return markup.none("This run has neither exp nor softmax in the L1 cache, nor attention.")
    return (
        "<p>Down is faster, with the data in the L1 cache (attention: in a prefill). Left is more accurate: the "
        "largest error of some 100 000 (attention: 5 000) results at several sizes. Filled: the strongest instruction "
        "set; hollow: the others.</p>\n"
        + ("" if results.peers else f"<p>{markup.NO_PEERS}</p>\n")
        + f'<div class="maps">{"".join(figures)}</div>'
    )
