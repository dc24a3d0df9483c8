"""The page's section on attention: the cost of options, tasks on threads."""

from __future__ import annotations

import markup
from data import Results, attention_size, family


def attention(results: Results) -> str:
    kernels = [kernel for kernel in results.kernels if family(kernel)[0] == "attention"]
    parts = [_option_costs(results, kernel) for kernel in kernels]
    if results.scaling:
        align = "tt   "
        rows = []
        last = ""
        for one in results.scaling:
            begins = one["size"] != last
            last = one["size"]
            cells = [last if begins else "", one["adapter"], str(one["threads"]), markup.time(one["seconds"]),
                     markup.ratio(one["speed_up"])]  # fmt: skip
            rows.append(markup.row(cells, align, group_begins=begins))
        parts.append(
            f"<h3>Tasks on threads, attention_f32, {markup.escape(results.scaling[0]['isa'])}</h3>\n"
            "<p>By the adapters of rapt/parallel.hpp. Wall time, the best of many calls, and the speed-up over the plain "
            "call. A decode is split into chunks of keys. Other programs on the machine slow it down.</p>\n"
            + markup.table(["size", "threads by", "threads", "time", "speed-up"], align, rows)
        )
    return "".join(parts) or markup.none("This run has no attention.")


def _option_costs(results: Results, kernel: str) -> str:
    """A row per size and option: a table of options by sizes would be mostly empty."""
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
            cells.append(markup.time(own.seconds) if own else "")
            cells.append(markup.ratio(own.seconds / without.seconds) if own and without else "")
        rows.append(markup.row([plain if plain != last else "", option, *cells], "tt", group_begins=plain != last))
        last = plain
    if not rows:
        return ""
    headings = ["shape", "option"] + [heading for isa in isas for heading in (isa, "÷ plain")]
    return f"<h3>What options cost, {markup.escape(kernel)}</h3>\n{markup.table(headings, 'tt', rows)}"
