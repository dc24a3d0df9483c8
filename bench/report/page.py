"""The page: its sections, the verdict, the summary and all numbers."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Callable

import markup
import pictures
from attention import attention
from data import Measurement, Results, geometric_mean
from machine import machine
from plots.figure import Palette


def render(results: Results) -> str:
    palette = Palette(results)
    style = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    sections = [
        ("machine", "Machine and limits", machine(results)),
        ("glance", "At a glance", _glance(results)),
        ("roofline", "Roofline", pictures.rooflines(results)),
        ("share", "Share of the limit", pictures.heat_maps(results)),
        ("attention", "Attention", attention(results)),
        ("peers", "Next to the peers", pictures.peers(results, palette)),
        ("numbers", "All numbers", _numbers(results)),
    ]
    links = " · ".join(f'<a href="#{anchor}">{title}</a>' for anchor, title, _ in sections)
    body = "\n".join(f'<h2 id="{anchor}">{title}</h2>\n{content}' for anchor, title, content in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>rapt benchmark</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<h1>rapt benchmark</h1>\n<nav>{links}</nav>\n{_verdict(results)}\n{body}\n</body>\n</html>\n"
    )


def _verdict(results: Results) -> str:
    found = results.disturbed
    if found["verdict"] == "quiet":
        return f"<p>The machine was quiet: none of {found['rows_measured']} rows is marked.</p>"
    reasons = [
        f"<tr><th>{markup.escape(name)}<td>{reason['count']}<td class=t>{markup.escape(reason['meaning'])}"
        for name, reason in found["reasons"].items()
    ]
    inverted = "".join(
        f"<br>{markup.escape(one['limit'])} was measured below {markup.escape(one['below'])}."
        for one in found["limits"]
    )
    return (
        f'<div class="disturbed"><p><b>The machine was disturbed:</b> of {found["rows_measured"]} rows '
        f'{found["rows_marked"]} are not to be believed. They are hatched, hollow in plots, and named in '
        f'<a href="#numbers">all numbers</a>.{inverted}</p>\n<table>{"".join(reasons)}</table></div>'
    )


def _glance(results: Results) -> str:
    rows = []
    for kernel in results.kernels:
        lines = [(isa, _glance_cells(results, kernel, isa)) for isa in reversed(results.isas) if isa != "scalar"]
        lines = [(isa, cells) for isa, cells in lines if any(cells)]
        for i, (isa, cells) in enumerate(lines):
            rows.append(markup.row(["" if i else kernel, isa, *cells], "tt  t  t", group_begins=i == 0))
    if not rows:
        return markup.none("This run has no kernel beyond the scalar level.")
    groups = "<tr class=groups><th colspan=2><th colspan=3 class=t>share of the limit"
    headings = ["kernel", "ISA", "median", "lowest", "at"]
    text = "Over all sizes of a kernel."
    if results.peers:
        groups += "<th colspan=4 class=t>fastest peer ÷ rapt"
        headings += ["mean", "lowest", "at", "rapt ahead"]
        text += " Fastest peer ÷ rapt compares times: above 1 rapt is ahead. The mean is geometric."
    else:
        text += f" {markup.NO_PEERS}"
    return f"<p>{text}</p>\n{markup.table(headings, 'tt  t  t', rows, groups)}"


def _glance_cells(results: Results, kernel: str, isa: str) -> list[str]:
    shares = {}
    ratios = {}
    for size in results.sizes(kernel):
        own = results.find(kernel, isa, size)
        if own and own.share is not None:
            shares[size] = own.share
        ratio = results.best_ratio(kernel, isa, size)
        if ratio is not None:
            ratios[size] = ratio
    cells = [""] * (7 if results.peers else 3)
    if shares:
        worst = min(shares, key=shares.__getitem__)
        cells[:3] = [markup.percent(statistics.median(shares.values())), markup.percent(shares[worst]), worst]
    if ratios:
        worst = min(ratios, key=ratios.__getitem__)
        ahead = sum(ratio >= 1 for ratio in ratios.values())
        mean = geometric_mean(list(ratios.values()))
        cells[3:] = [markup.ratio(mean), markup.ratio(ratios[worst]), worst, f"at {ahead} of {len(ratios)}"]
    return cells


def _numbers(results: Results) -> str:
    columns: list[tuple[str, Callable[[Measurement], str]]] = [
        ("time", lambda m: markup.time(m.seconds)),
        ("ns/element", lambda m: markup.number(m.ns_per_element)),
        ("GFLOP/s", lambda m: markup.number(m.gigaflops)),
        ("fastest", lambda m: markup.number(m.fastest_ns_per_element)),
        ("spread", lambda m: f"{100 * m.spread:.1f} %"),
        ("GB/s", lambda m: markup.number(m.gigabytes_per_second)),
        ("share", lambda m: markup.percent(m.share)),
        ("best peer ÷ rapt", lambda m: markup.ratio(results.best_ratio(m.kernel, m.impl, m.size))),
        ("error", lambda m: markup.number(m.error)),
        ("limited by", lambda m: m.binding),
        ("marked", lambda m: ", ".join(m.doubts)),
    ]
    align = "tt         tt"
    tables = []
    for kernel in results.kernels:
        rows = []
        for size in results.sizes(kernel):
            for i, one in enumerate(results.at(kernel, size)):
                cells = [size if i == 0 else "", one.impl, *(text(one) for _, text in columns)]
                rows.append(markup.row(cells, align, group_begins=i == 0, own=one.impl in results.isas))
        headings = ["size", "implementation", *(heading for heading, _ in columns)]
        summary = f"{kernel} (error in {markup.error_unit(kernel)})"
        tables.append(markup.details(summary, markup.table(headings, align, rows)))
    if not tables:
        return markup.none("This run measured nothing.")
    return (
        "<p>Medians per call, and the fastest repetition in ns per element. Rows of rapt are shaded. A share counts "
        "the instructions of rapt's own code. An element of attention is a multiply-add.</p>\n" + "".join(tables)
    )
