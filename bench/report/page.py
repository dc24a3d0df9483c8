"""The report's HTML: text and tables around the pictures."""

from __future__ import annotations

import html
import math
import statistics
from typing import Any, Callable

import plots
from data import LEVELS, Measurement, Results, attention_size, family, geometric_mean, series_of

STYLE = """
:root { color-scheme: light; }
body { margin: 0 auto; max-width: 1000px; padding: 24px 20px 60px; background: #fff; color: #222;
  font: 14px/1.5 system-ui, "DejaVu Sans", Verdana, sans-serif; }
h1 { font-size: 24px; margin: 0; }
h2 { font-size: 18px; margin: 44px 0 6px; padding-top: 10px; border-top: 1px solid #ddd; }
h3 { font-size: 14px; margin: 22px 0 4px; }
p { margin: 6px 0 10px; max-width: 46em; }
nav { margin: 8px 0 18px; color: #888; }
a { color: #00558a; }
table { border-collapse: collapse; font-size: 12.5px; font-variant-numeric: tabular-nums; margin: 8px 0 14px; }
th, td { padding: 2px 0 2px 14px; text-align: right; vertical-align: top; }
th:first-child, td:first-child { padding-left: 4px; }
th:last-child, td:last-child { padding-right: 4px; }
th.t, td.t, tbody th, .facts td { text-align: left; }
thead th { border-bottom: 1px solid #999; font-weight: 600; white-space: nowrap; vertical-align: bottom; }
tbody tr.first > * { border-top: 1px solid #e2e2e2; }
tbody th { font-weight: 600; white-space: nowrap; }
.numbers td { white-space: nowrap; }
tr.own td { background: #eef2f6; }
thead tr.groups th { border-bottom: none; padding-bottom: 0; }
.facts th { font-weight: 400; color: #666; }
.beside { display: flex; flex-wrap: wrap; gap: 0 24px; }
.beside > :first-child { flex: 1 1 420px; }
figure { margin: 12px 0; break-inside: avoid; }
.maps { display: flex; flex-wrap: wrap; gap: 16px 28px; }
.maps figure { margin: 0; }
svg { max-width: 100%; height: auto; font-family: "DejaVu Sans", Verdana, sans-serif; }
details { margin: 4px 0; }
summary { cursor: pointer; color: #00558a; }
.none { color: #777; }
.disturbed { border-left: 4px solid #d55e00; padding-left: 12px; }
@media print {
  body { max-width: none; padding: 0; font-size: 11px; }
  nav { display: none; }
  h2, h3 { break-after: avoid; }
  tr { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""

# Not shown, or shown under a name of its own. The build type that Google Benchmark states is that of its own
# library, and "debug" with Debian's release build.
_CONTEXT_TOLD_ELSEWHERE = {
    "caches", "clock_ghz", "cpu_name", "cpu_scaling_enabled", "date", "executable", "host_name", "isas",
    "json_schema_version", "l1d_bytes", "l2_bytes", "l3_bytes", "library_build_type", "load_avg", "mhz_per_cpu",
    "num_cpus", "peers", "pinned_cpu", "rapt_version",
}  # fmt: skip
_WORKING_SET = "working_set_"  # and the level

# The kernels whose implementations choose between both; the tables have the errors of all.
_TRADE_ACCURACY_FOR_SPEED = ("exp", "softmax", "attention")
_ATTENTION_FOR_ACCURACY = ("prefill:d64:t1024", "prefill:d64:t512")  # the first that was measured


def render(results: Results) -> str:
    palette = plots.Palette(results)
    sections = [
        ("machine", "Machine and limits", _machine(results)),
        ("glance", "At a glance", _glance(results)),
        ("roofline", "Roofline", _rooflines(results)),
        ("share", "Share of the limit", _heat_maps(results)),
        ("size", "Throughput by size", _throughput(results)),
        ("attention", "Attention", _attention(results)),
        ("peers", "Beside the peers", _peers(results, palette)),
        ("accuracy", "Accuracy beside speed", _accuracy(results, palette)),
        ("numbers", "All numbers", _numbers(results)),
    ]
    links = " · ".join(f'<a href="#{anchor}">{title}</a>' for anchor, title, _ in sections)
    body = "\n".join(f'<h2 id="{anchor}">{title}</h2>\n{content}' for anchor, title, content in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>rapt benchmark</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>rapt benchmark</h1>\n<nav>{links}</nav>\n{_verdict(results)}\n{body}\n</body>\n</html>\n"
    )


# ----------------------------------------------------------------------------------------------- verdict

_NO_PEERS = "This run measured rapt alone; after <code>bench/run --peers</code> other libraries stand here beside it."


def _verdict(results: Results) -> str:
    found = results.disturbed
    if found["verdict"] == "quiet":
        return f"<p>The machine was quiet: none of {found['rows_measured']} rows is marked.</p>"
    reasons = [
        f"<tr><th>{_escape(name)}<td>{reason['count']}<td class=t>{_escape(reason['meaning'])}"
        for name, reason in found["reasons"].items()
    ]
    inverted = "".join(f"<br>{_escape(one['limit'])} was measured below {_escape(one['below'])}." for one in found["limits"])
    return (
        f'<div class="disturbed"><p><b>The machine was disturbed:</b> of {found["rows_measured"]} rows '
        f'{found["rows_marked"]} are not to be believed. They are hatched, hollow in plots, and named in '
        f'<a href="#numbers">all numbers</a>.{inverted}</p>\n<table>{"".join(reasons)}</table></div>'
    )


# ----------------------------------------------------------------------------------------------- machine


def _machine(results: Results) -> str:
    facts = "".join(
        f"<tr><th>{_escape(name)}<td>{'<br>'.join(_escape(line) for line in lines)}"
        for name, lines in _facts(results)
        if lines
    )
    return (
        f'<div class="beside"><div><table class="facts">{facts}</table></div>\n'
        f"<div>{_limits(results)}</div></div>\n"
        "<p>Every time on this page is CPU time: the median over the repetitions. Spread is (third quartile − first) "
        "÷ median. A limit is the best of all that were measured before, between and after the kernels. GB/s are 10<sup>9</sup> bytes a second, each input read once and each output written once; the limits "
        "count the bytes read and the bytes written. copy-nt stores past the caches; update reads and writes the same "
        "memory.</p>"
    )


def _facts(results: Results) -> list[tuple[str, list[str]]]:
    context = results.context
    pinned = f"pinned to CPU {context['pinned_cpu']} of {context['num_cpus']}"
    facts = [
        ("CPU", [f"{context['cpu_name']}, {'not pinned' if context['pinned_cpu'] == 'none' else pinned}"]),
        ("clock", [_clock(context)]),
        ("caches", [_sizes(context, {"L1d": "l1d_bytes", "L2": "l2_bytes", "L3": "l3_bytes"})]),
        ("working sets", [_sizes(context, {level: _WORKING_SET + level for level in LEVELS})]),
        ("rapt", [context["rapt_version"]]),
        ("instruction sets", [context["isas"]]),
        ("peers", _peer_versions(context["peers"])),
        ("date", [context["date"]]),
        ("repetitions", [str(max((len(m.seconds_each) for m in results.measurements), default=0))]),
        ("load average", [", ".join(f"{value:.2f}" for value in context.get("load_avg", []))]),
    ]
    for key, value in context.items():
        if key not in _CONTEXT_TOLD_ELSEWHERE and not key.startswith(_WORKING_SET):
            facts.append((key.replace("_", " "), [str(value)]))
    return facts


def _clock(context: dict[str, Any]) -> str:
    scaling = "on" if context.get("cpu_scaling_enabled") else "off or not visible"
    return (
        f"{float(context['clock_ghz']):.2f} GHz measured, {context['mhz_per_cpu']} MHz as the system states it, "
        f"frequency scaling {scaling}"
    )


def _sizes(context: dict[str, Any], keys: dict[str, str]) -> str:
    return ", ".join(f"{name} {_binary_size(int(context[key]))}" for name, key in keys.items() if key in context)


def _peer_versions(peers: str) -> list[str]:
    """A line for each library and version, with the instruction sets it was measured on."""
    isas: dict[str, list[str]] = {}
    for entry in peers.split("; ") if peers else []:
        impl, _, version = entry.partition(" ")
        library, _, isa = impl.rpartition("-")
        isas.setdefault(f"{library} {version}", []).append(isa)
    return [f"{version} ({', '.join(found)})" for version, found in isas.items()]


def _limits(results: Results) -> str:
    if not results.limits:
        return _none("This run measured no limits.")
    resources = list(dict.fromkeys(resource for limits in results.limits.values() for resource in limits))
    accesses = list(dict.fromkeys(resource.split(":")[0] for resource in resources if ":" in resource))
    levels = list(dict.fromkeys(resource.split(":", 1)[1] for resource in resources if ":" in resource))
    rows = []
    for isa, limits in results.limits.items():
        lines = [
            (f"{access.replace('_', '-')}, GB/s", [limits.get(f"{access}:{level}") for level in levels])
            for access in accesses
        ]
        lines += [(_rate_name(resource), [limits.get(resource)]) for resource in resources if ":" not in resource]
        lines = [(name, rates) for name, rates in lines if any(rates)]
        for i, (name, rates) in enumerate(lines):
            numbers = [_number(rate and rate * 1e-9) for rate in rates] + [""] * (len(levels) - len(rates))
            rows.append(_row(["" if i else isa, name, *numbers], "tt", group_begins=i == 0))
    return _table(["limit", "", *levels], "tt", rows)


def _rate_name(resource: str) -> str:
    """Of a limit that is no bandwidth."""
    if resource.startswith("fma_"):
        return f"FMA {resource.removeprefix('fma_')}, GFLOP/s"
    return f"{resource}, GHz" if resource == "clock" else f"{resource}, 10⁹/s"


# ---------------------------------------------------------------------------------------------- glance


def _glance(results: Results) -> str:
    rows = []
    for kernel in results.kernels:
        lines = [(isa, _glance_cells(results, kernel, isa)) for isa in reversed(results.isas) if isa != "scalar"]
        lines = [(isa, cells) for isa, cells in lines if any(cells)]
        for i, (isa, cells) in enumerate(lines):
            rows.append(_row(["" if i else kernel, isa, *cells], "tt  t  t", group_begins=i == 0))
    if not rows:
        return _none("This run has no kernel beyond the scalar level.")
    groups = "<tr class=groups><th colspan=2><th colspan=3 class=t>share of the limit"
    headings = ["kernel", "ISA", "median", "lowest", "at"]
    text = "Over all sizes of a kernel."
    if results.peers:
        groups += "<th colspan=4 class=t>fastest peer ÷ rapt"
        headings += ["mean", "lowest", "at", "rapt ahead"]
        text += " Fastest peer ÷ rapt compares times: above 1 rapt is ahead. The mean is geometric."
    else:
        text += f" {_NO_PEERS}"
    return f"<p>{text}</p>\n{_table(headings, 'tt  t  t', rows, groups)}"


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
        cells[:3] = [_percent(statistics.median(shares.values())), _percent(shares[worst]), worst]
    if ratios:
        worst = min(ratios, key=ratios.__getitem__)
        ahead = sum(ratio >= 1 for ratio in ratios.values())
        mean = geometric_mean(list(ratios.values()))
        cells[3:] = [_ratio(mean), _ratio(ratios[worst]), worst, f"at {ahead} of {len(ratios)}"]
    return cells


# -------------------------------------------------------------------------------------------- pictures


def _rooflines(results: Results) -> str:
    figures = [(isa, plots.roofline(results, isa)) for isa in reversed(results.isas)]
    figures = [(isa, svg) for isa, svg in figures if svg]
    if not figures:
        return _none("This run has no counts of operations.")
    text = (
        "<p>Across: arithmetic intensity, the vector operations of a call for each byte that it must read or write, "
        "each input once and each output once. An operation is an arithmetic instruction on a whole register that "
        "only the units for fused multiply-adds execute; a fused multiply-add is one, loads, stores and what other "
        "units take are none. Up: operations a second. The slopes are what the measured bandwidths allow, loading "
        "(solid) and copying (dashed; with normal or non-temporal stores, whichever is faster there); the flat line is "
        "the measured rate of fused multiply-adds. A point is a kernel with its data in the level that its colour "
        "names: rows of 1024 columns, those of dot_rows of 128.</p>"
    )
    return text + "".join(f"<h3>{_escape(isa)}</h3>\n{_figure(svg)}" for isa, svg in figures)


def _heat_maps(results: Results) -> str:
    families: dict[str, list[str]] = {}
    for kernel in results.kernels:
        families.setdefault(family(kernel)[0], []).append(kernel)
    maps = [plots.heat_map(results, name, kernels) for name, kernels in families.items()]
    found = "".join(_figure(svg) for svg in maps if svg)
    if not found:
        return _none("This run measured no limits to take a share of.")
    return (
        "<p>Percent: the shortest time that the machine allows ÷ the time taken. The shortest time is the larger of "
        "two: that of the bytes, at the bandwidth measured for such accesses in the level that holds the data, and "
        "that of the vector operations, at the measured rate of fused multiply-adds; "
        '<a href="#numbers">all numbers</a> names the one that binds. It knows no call, loop or tail, so short sizes '
        "cannot come near it. Hatched: not to be believed, by the rules above. Grey: more than 105, which no machine does: "
        "the limit was measured when it was busier, the data lay nearer than its size says, or the call had less to do "
        f'than is counted.</p>\n<div class="maps">{found}</div>'
    )


# ------------------------------------------------------------------------------------------------ size


def _throughput(results: Results) -> str:
    families: dict[str, list[str]] = {}
    for kernel in results.kernels:
        panels = [_figure(plots.throughput(results, kernel, one)) for one in series_of(results, kernel)]
        families.setdefault(family(kernel)[0], []).extend(panels)
    found = "".join(
        f'<h3>{_escape(name)}</h3>\n<div class="maps">{"".join(panels)}</div>' for name, panels in families.items() if panels
    )
    if not found:
        return _none("This run has no kernel at three sizes that differ in one thing.")
    isas = " · ".join(f'<b style="color:{plots.ISA_COLOURS.get(isa, "#cc79a7")}">{_escape(isa)}</b>' for isa in results.isas)
    return (
        f"<p>{isas}. Dashed: the limit. Hollow: not to be believed. Bytes are those that a call must read or write; "
        f"a multiply-add of attention is two operations.</p>\n{found}"
    )


# ------------------------------------------------------------------------------------------- attention


def _attention(results: Results) -> str:
    kernels = [kernel for kernel in results.kernels if family(kernel)[0] == "attention"]
    grids = [plots.attention_grid(results, kernel, phase) for kernel in kernels for phase in ("prefill", "decode")]
    found = "".join(_figure(svg) for svg in grids if svg)
    parts = []
    if found:
        parts.append(
            "<p>Percent of the limit. Of a prefill that is the measured rate of fused multiply-adds over those with "
            "visible keys, q·k and weight·v alone: exponentials, which take the same units, are not counted, so that "
            "100 cannot be reached. Of a decode it is mostly the bandwidth of the level that holds the keys and "
            "values, each read once; with several query heads a key/value head it may be the multiply-adds. 8x8 are "
            f'query and key/value heads; a prefill has 8 of each.</p>\n<div class="maps">{found}</div>'
        )
    parts += [_option_costs(results, kernel) for kernel in kernels]
    if results.scaling:
        align = "t   "
        rows = [
            _row(
                [one["size"] if one["threads"] == 1 else "", str(one["threads"]), _time(one["seconds"]),
                 _ratio(one["speed_up"])],
                align, group_begins=one["threads"] == 1,
            )
            for one in results.scaling
        ]  # fmt: skip
        parts.append(
            f"<h3>Tasks on threads, attention_f32, {_escape(results.scaling[0]['isa'])}</h3>\n"
            "<p>Wall time, the best of several calls; a decode is split into chunks of keys. What else runs on the "
            "machine counts here.</p>\n" + _table(["size", "threads", "a call", "speed-up"], align, rows)
        )
    return "".join(parts) or _none("This run has no attention.")


def _option_costs(results: Results, kernel: str) -> str:
    """Options down, plain sizes across would be mostly empty: a row each."""
    isas = [isa for isa in results.isas if isa != "scalar"]
    rows = []
    last = ""
    for size in results.sizes(kernel):
        parts = attention_size(size)
        plain, _, option = size.rpartition(":")
        if not parts or not parts.option or not any(results.find(kernel, isa, plain) for isa in isas):
            continue
        cells = []
        for isa in isas:
            own, without = results.find(kernel, isa, size), results.find(kernel, isa, plain)
            cells.append(_time(own.seconds) if own else "")
            cells.append(_ratio(own.seconds / without.seconds) if own and without else "")
        rows.append(_row([plain if plain != last else "", option, *cells], "tt", group_begins=plain != last))
        last = plain
    if not rows:
        return ""
    headings = ["shape", "option"] + [heading for isa in isas for heading in (isa, "÷ plain")]
    return f"<h3>What options cost, {_escape(kernel)}</h3>\n{_table(headings, 'tt', rows)}"


def _peers(results: Results, palette: plots.Palette) -> str:
    parts = []
    for kernel in results.kernels:
        pictures = [plots.peer_ratios(results, kernel, isa, palette) for isa in reversed(results.isas)]
        found = "".join(_figure(svg) for svg in pictures if svg)
        if found:
            pictures_and_table = f'<div class="maps">{found}</div>{_best_peers(results, kernel)}'
            parts.append(f"<h3>{_escape(kernel)}</h3>\n{pictures_and_table}")
    if not parts:
        return f"<p>{_NO_PEERS}</p>"
    return (
        "<p>Time of each peer ÷ time of rapt: above the line at 1 rapt is faster. Logarithmic; in the grey part, "
        f"above {plots.KNEE}, the axis is compressed. Peers built for an instruction set stand beside rapt on the same "
        "one. The best peer is the fastest of those, and beside rapt on the strongest set the fastest of all.</p>\n"
        + "".join(parts)
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
                cells += [_time(own.seconds), rival.impl, _time(rival.seconds), _ratio(rival.seconds / own.seconds)]
            else:
                cells += [_time(own.seconds) if own else "", "", "", ""]
        rows.append(_row(cells, align))
    headings = ["size"] + [heading for isa in isas for heading in (f"rapt {isa}", "best peer", "its time", "ratio")]
    return _details(f"{kernel}: the best peer at each size", _table(headings, align, rows))


def _accuracy(results: Results, palette: plots.Palette) -> str:
    figures = []
    for kernel in results.kernels:
        if family(kernel)[0] not in _TRADE_ACCURACY_FOR_SPEED:
            continue
        size = results.size_at(kernel, LEVELS[0]) or next(
            (one for one in _ATTENTION_FOR_ACCURACY if one in results.sizes(kernel)), None
        )
        svg = plots.accuracy(results, kernel, size, _error_unit(kernel), palette) if size else None
        if svg:
            figures.append(_figure(svg))
    if not figures:
        return _none("This run has neither exp nor softmax in the L1 cache, nor attention.")
    return (
        "<p>Down is faster, with the data in the L1 cache (attention: in a prefill); left is more accurate, the "
        "largest error of some 100 000 (attention: 5 000) results at several sizes. Filled: the strongest instruction set; hollow: the others.</p>\n"
        + ("" if results.peers else f"<p>{_NO_PEERS}</p>\n")
        + f'<div class="maps">{"".join(figures)}</div>'
    )


def _error_unit(kernel: str) -> str:
    name, scalar_type = family(kernel)
    if name in ("exp", "exp_sum", "scale"):
        return "ULP"
    return "units of 2⁻²⁴" if scalar_type == "f32" else "units of 2⁻⁵³"


# -------------------------------------------------------------------------------------------- numbers


def _numbers(results: Results) -> str:
    columns: list[tuple[str, Callable[[Measurement], str]]] = [
        ("a call", lambda m: _time(m.seconds)),
        ("ns/element", lambda m: _number(m.ns_per_element)),
        ("GFLOP/s", lambda m: _number(m.gigaflops)),
        ("fastest", lambda m: _number(m.fastest_ns_per_element)),
        ("spread", lambda m: f"{100 * m.spread:.1f} %"),
        ("GB/s", lambda m: _number(m.gigabytes_per_second)),
        ("share", lambda m: _percent(m.share)),
        ("best peer ÷ rapt", lambda m: _ratio(results.best_ratio(m.kernel, m.impl, m.size))),
        ("error", lambda m: _number(m.error)),
        ("limited by", lambda m: m.binding),
        ("marked", lambda m: ", ".join(m.doubts)),
    ]
    align = "tt         tt"
    blocks = []
    for kernel in results.kernels:
        rows = []
        for size in results.sizes(kernel):
            for i, one in enumerate(results.at(kernel, size)):
                cells = [size if i == 0 else "", one.impl, *(text(one) for _, text in columns)]
                rows.append(_row(cells, align, group_begins=i == 0, own=one.impl in results.isas))
        headings = ["size", "implementation", *(heading for heading, _ in columns)]
        summary = f"{kernel} (error in {_error_unit(kernel)})"
        blocks.append(_details(summary, _table(headings, align, rows)))
    if not blocks:
        return _none("This run measured nothing.")
    return (
        "<p>Medians, and the fastest repetition in ns an element. The rows of rapt are marked; a share is of the "
        "work that rapt's own code does. An element of attention is a multiply-add.</p>\n" + "".join(blocks)
    )


# ------------------------------------------------------------------------------------------ HTML, text


def _escape(text: str) -> str:
    return html.escape(text, quote=False)


def _figure(svg: str) -> str:
    return f"<figure>{svg}</figure>\n"


def _none(text: str) -> str:
    return f'<p class="none">{text}</p>'


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{_escape(summary)}</summary>\n{content}</details>\n"


def _table(headings: list[str], align: str, rows: list[str], groups: str = "") -> str:
    """`align` has a letter for each column: t for text, which stands left; numbers stand right."""
    head = "".join(f"<th{_class_of(align, i)}>{_escape(heading)}" for i, heading in enumerate(headings))
    body = "\n".join(rows)
    return f"<table class=numbers><thead>{groups}<tr>{head}</thead><tbody>\n{body}\n</tbody></table>\n"


def _row(cells: list[str], align: str, group_begins: bool = False, own: bool = False) -> str:
    # HTML lets a row and its cells end where the next begin.
    classes = " ".join(name for name, wanted in (("first", group_begins), ("own", own)) if wanted)
    row = f'<tr class="{classes}">' if classes else "<tr>"
    for i, cell in enumerate(cells):
        row += f"<th>{_escape(cell)}" if i == 0 else f"<td{_class_of(align, i)}>{_escape(cell)}"
    return row


def _class_of(align: str, column: int) -> str:
    return " class=t" if align[column : column + 1] == "t" else ""


def _number(value: float | None) -> str:
    """Three significant digits."""
    if not value:
        return "" if value is None else "0"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.0f} %"


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def _time(seconds: float) -> str:
    for scale, unit in ((1e-6, "ns"), (1e-3, "µs")):
        if seconds < scale:
            return f"{_number(seconds / scale * 1e3)} {unit}"
    return f"{_number(seconds * 1e3)} ms"


def _binary_size(size: int) -> str:
    return f"{size / 1024:.0f} KiB" if size < 1 << 20 else f"{size / (1 << 20):.4g} MiB"
