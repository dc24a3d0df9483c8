"""Turns the benchmark's JSON into one self-contained page: page.py RESULTS.json PAGE.html"""

from __future__ import annotations

import html
import statistics
import sys
from pathlib import Path
from typing import Callable

sys.dont_write_bytecode = True  # the source tree stays as it is

import plots
from data import Measurement, Results
from markup import number, percent, ratio, table, time

# The build type is that of the Google Benchmark library, and Debian's release build says "debug".
_NOT_SHOWN = ("executable", "f32_lanes_", "host_name", "json_schema_version", "library_build_type")


def render(results: Results) -> str:
    style = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    sections = {
        "Machine and limits": _machine(results),
        "At a glance": _glance(results),
        "Roofline": _rooflines(results),
        "Share of the limit": _shares(results),
        "Next to the peers": _peers(results),
        "Threads": _threads(results),
        "All numbers": _numbers(results),
    }
    anchors = {title: title.lower().replace(" ", "-") for title in sections}
    links = " · ".join(f'<a href="#{anchor}">{title}</a>' for title, anchor in anchors.items())
    body = "\n".join(f'<h2 id="{anchors[title]}">{title}</h2>\n{text}' for title, text in sections.items())
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>rapt benchmark</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
        f"<h1>rapt benchmark</h1>\n<nav>{links}</nav>\n{_verdict(results)}\n{body}\n</body>\n</html>\n"
    )


def _verdict(results: Results) -> str:
    found = results.disturbed
    if found["verdict"] == "quiet":
        return f"<p>The machine was quiet: none of {len(results.measurements)} rows is marked.</p>"
    rows = [[name, str(reason["count"]), reason["meaning"]] for name, reason in found["reasons"].items()]
    inverted = "".join(f"<br>{one['limit']} was measured below {one['below']}." for one in found["limits"])
    return (
        f'<div class="disturbed"><p><b>The machine was disturbed:</b> of {len(results.measurements)} rows '
        f"{len(found['rows'])} are not to be believed. They are hatched or hollow in pictures, and the last column of "
        f"all numbers names their rules.{inverted}</p>\n{table(['rule', 'rows', ''], rows)}</div>"
    )


def _machine(results: Results) -> str:
    context = results.context
    facts = []
    for key, value in context.items():
        if key == "caches":
            value = ", ".join(f"L{one['level']} {one['type']} {one['size'] // 1024} KiB" for one in value)
        elif key.startswith("working_set_"):
            value = f"{int(value) // 1024} KiB"
        if not key.startswith(_NOT_SHOWN):
            facts.append([key.replace("_", " "), str(value)])
    names = list(dict.fromkeys(what for rates in results.limits.values() for what in rates))
    limits = [
        [name, *(number(rates[name] * 1e-9) if rates.get(name) else "" for rates in results.limits.values())]
        for name in names
    ]
    repetitions = max((len(one.seconds_each) for one in results.measurements.values()), default=0)
    return (
        f"<p>{html.escape(context['cpu_name'])}, {context['date']}, rapt {context['rapt_version']}. Every time on this "
        f"page is CPU time: the median of {repetitions} repetitions. A limit is the best of all measurements before, "
        "between and after the kernels, in 10<sup>9</sup> per second: floating-point operations of fma, cycles of the "
        "clock, else bytes read and written. copy_nt uses non-temporal stores; update works in place.</p>\n"
        f'<div class="pictures">{table(["limit", *results.limits], limits)}{table(["fact", ""], facts)}</div>\n'
    )


def _glance(results: Results) -> str:
    rows = []
    for kernel, sizes in results.kernels.items():
        for isa in reversed(results.isas):
            own = {size: impls[isa].share for size, impls in sizes.items() if isa in impls}
            shares = {size: share for size, share in own.items() if share is not None}
            ratios = {size: found for size in sizes if (found := results.best_ratio(kernel, isa, size))}
            if isa == "scalar" or not own:
                continue
            row = [kernel, isa, "", "", "", "", "", "", ""]
            if shares:
                worst = min(shares, key=shares.__getitem__)
                row[2:5] = percent(statistics.median(shares.values())), percent(shares[worst]), worst
            if ratios:
                worst = min(ratios, key=ratios.__getitem__)
                ahead = f"at {sum(one >= 1 for one in ratios.values())} of {len(ratios)}"
                row[5:] = ratio(statistics.geometric_mean(ratios.values())), ratio(ratios[worst]), worst, ahead
            rows.append(row)
    headings = ["kernel", "ISA", "share of limit", "lowest", "at", "best peer ÷ rapt", "lowest", "at", "rapt ahead"]
    return (
        "<p>Over all sizes of a kernel: the median share, and the geometric mean of the time of the fastest peer ÷ the "
        f"time of rapt. Above 1 rapt is ahead.</p>\n{table(headings, rows)}"
    )


def _rooflines(results: Results) -> str:
    return (
        "<p>Across: the vector operations per byte that a call must read or write, each input and each output once. An "
        "operation is an arithmetic instruction on a whole register; where processors have more units for additions, "
        "those count less. Slopes are measured bandwidths, the flat line is the measured rate of fused multiply-adds. A marker "
        "is a kernel, and its colour the memory level of its data. Rows have 1024 columns, those of dot_rows 128, "
        "and linear has one row of x."
        "</p>\n"
        + "".join(
            f"<h3>{isa}</h3>\n{picture}" for isa in reversed(results.isas) if (picture := plots.roofline(results, isa))
        )
    )


def _shares(results: Results) -> str:
    families: dict[str, list[str]] = {}
    for kernel in results.kernels:
        families.setdefault(kernel.rpartition("_")[0], []).append(kernel)
    maps = "".join(plots.heat_map(results, name, kernels) for name, kernels in families.items())
    return (
        "<p>Percent: the shortest possible time ÷ the time taken. The shortest time is the larger of two: the bytes "
        "over the bandwidth, measured for such accesses in the memory level of the data, and the vector operations "
        "over the measured rates of fused multiply-adds, and of these with additions. All numbers name the larger. Neither includes calls, loops or "
        "tails, so that short sizes cannot come near the limit. Grey without a number: more than 105, which is "
        "impossible. Then the machine was busier when the limit was measured, the data were nearer than the size says, "
        f'or the call had less to do than is counted.</p>\n<div class="pictures">{maps}</div>'
    )


def _peers(results: Results) -> str:
    if not results.libraries:
        return "<p>This run measured only rapt. <code>bench/run --peers</code> measures other libraries too.</p>"
    parts = []
    for kernel in results.kernels:
        pictures = "".join(plots.peer_ratios(results, kernel, isa) for isa in reversed(results.isas))
        if pictures:
            parts.append(f'<h3>{kernel}</h3>\n<div class="pictures">{pictures}</div>\n')
    return (
        f"<p>{html.escape(results.context['peers'])}.</p>\n"
        "<p>Time of each peer ÷ time of rapt: above the line at 1 rapt is faster. A ratio above "
        f"{plots.LARGEST_RATIO} is drawn at {plots.LARGEST_RATIO}. rapt on an instruction set is compared with peers "
        f"built for the same set, and on the strongest set with all.</p>\n{''.join(parts)}"
    )


def _threads(results: Results) -> str:
    if not results.scaling:
        return "<p>This run did not measure attention on threads.</p>"
    rows = [
        [one["size"], one["adapter"], str(one["threads"]), time(one["seconds"]), ratio(one["speed_up"])]
        for one in results.scaling
    ]
    return (
        "<p>Attention in f32 on the strongest instruction set, by the adapters of rapt/parallel.hpp. Wall time, the "
        "best of many calls, and the speed-up over the plain call. A decode is split into chunks of keys.</p>\n"
        + table(["size", "threads by", "threads", "time", "speed-up"], rows)
    )


def _numbers(results: Results) -> str:
    columns: dict[str, Callable[[Measurement], str]] = {
        "time": lambda one: time(one.seconds),
        "ns/element": lambda one: number(one.ns_per_element),
        "fastest": lambda one: number(one.ns_per_element * min(one.seconds_each) / one.seconds),
        "spread": lambda one: f"{100 * one.spread:.1f} %",
        "GFLOP/s": lambda one: number(one.facts["flop"] / one.seconds * 1e-9) if "flop" in one.facts else "",
        "GB/s": lambda one: number(one.gigabytes_per_second),
        "share": lambda one: percent(one.share),
        "error": lambda one: number(one.error),
        "÷ plain": lambda one: ratio(results.over_plain(one)),
        "best peer ÷ rapt": lambda one: ratio(results.best_ratio(*one.key)),
        "limited by": lambda one: one.facts.get("label", ""),
        "rules": lambda one: ", ".join(one.doubts),
    }
    parts = []
    for kernel, sizes in results.kernels.items():
        rows = [
            [size, impl, *(text(one) for text in columns.values())]
            for size, impls in sizes.items()
            for impl, one in impls.items()
        ]
        headings = ["size", "implementation", *columns]
        parts.append(f"<details><summary>{kernel}</summary>\n{table(headings, rows, results.isas)}</details>\n")
    return (
        "<p>Rows of rapt are shaded. Fastest is the best repetition, in ns per element; spread is (third quartile − "
        "first) ÷ median. A share counts the instructions of rapt's own code. Errors of exp and scale are in ULP, "
        "others in 2⁻²⁴ (f64: 2⁻⁵³) of what rapt.h relates them to. ÷ plain is what an option costs: the time over "
        f"that of the size without its last word.</p>\n{''.join(parts)}"
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    Path(sys.argv[2]).write_text(render(Results.read(Path(sys.argv[1]))), encoding="utf-8")
