"""Prints the tables of the benchmark's JSON, at most 80 columns wide: text.py RESULTS.json

The tables of a whole run have hundreds of lines. They go to a text beside the results, and the screen has a line per operation.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from statistics import geometric_mean
from typing import Iterator

sys.dont_write_bytecode = True  # the source tree stays as it is

from data import Measurement, Results
from markup import number, time

MARK = "!"  # behind a number that should not be trusted
ELEMENTS = ("f32", "f64", "f16", "bf16", "i8", "u8i8")
ACCESSES = {"load": "load", "store": "store", "copy": "copy", "copy_nt": "copy NT", "update": "in place"}


def fact(name: str, text: str, width: int = 14) -> Iterator[str]:
    """A name and a fact about it, wrapped at spaces."""
    for line in textwrap.wrap(text, 80 - width, break_long_words=False, break_on_hyphens=False):
        yield f"{name:<{width}}{line}"
        name = ""


def size(count: int) -> str:
    kib, mib = 1 << 10, 1 << 20
    if count < mib:
        return f"{count / kib:.0f} KiB" if count else "none"
    return f"{count / mib:.{1 if count % mib else 0}f} MiB"


def short(value: float) -> str:
    """Three digits, of a small number fewer: a cell of the tables has seven characters."""
    return number(value, most_decimals=4)


def share(one: Measurement | None) -> str:
    if one is None:
        return "- "
    return ("-" if one.share is None else f"{100 * one.share:.0f}%") + (MARK if one.doubts else " ")


def gain(ratio: float | None) -> str:
    return f"{ratio:.{2 if ratio < 10 else 1}f}x" if ratio else "-"


def mean_gain(ratios: list[float]) -> str:
    return gain(geometric_mean(ratios)) if ratios else ""


def conditions(results: Results) -> Iterator[str]:
    context, run = results.context, results.run
    cpu, sets = context["pinned_cpu"], results.working_sets
    yield f"rapt {context['rapt_version']} benchmarks\n"
    where = (
        "not pinned: the system does not allow it" if cpu == "none" else f"pinned to CPU {cpu} of {run['cpu_count']}"
    )
    yield from fact("CPU", f"{context['cpu_name']}, {where}")
    caches = ", ".join(f"{name} {size(count)}" for name, count in run["caches"].items())
    yield from fact("caches", f"{caches}, as hwloc reports them")
    labels = ", ".join(f"{label} {size(count)}" for label, count in sets.items())
    yield from fact("working sets", f"{labels} (inputs and outputs together)")
    if run["caches"]["L3"] > list(sets.values())[-1] // 4:
        yield from fact("", "the L3 is large beside these: mem may partly run from it")
    yield from fact("ISAs", context["isas"])
    for one in run["skipped"]:
        yield from fact("", f"skipped: {one}")
    yield from fact(
        "scalar",
        "is the reference, built for any CPU of this architecture: it may lack fused multiply-add and call libm "
        "instead. A speed-up over it is not one over a compiler's own vector code",
    )
    times = f"{run['repetitions']} repetitions of at least {run['min_time']:g} s CPU time"
    yield from fact("each number", f"the median of {times}; of a limit the best")
    if run["load"] >= 0:
        yield from fact("", f"load average {run['load']:.1f} on {run['cpu_count']} CPUs when the run began")
    yield from fact(
        "share",
        "of the limit: the larger of bytes / measured bandwidth of the memory level, and counted vector instructions / "
        "measured rate of FMA, or of FMA and additions; divided by the time",
    )


def limits(results: Results) -> Iterator[str]:
    inverted = {one["limit"] for one in results.disturbed["limits"]}

    def cell(isa: str, what: str) -> str:
        rate = results.limits.get(isa, {}).get(what)
        return (short(rate / 1e9) if rate else "-") + (MARK if f"{isa} {what}" in inverted else " ")

    def line(isa: str, cells: list[str], last: str) -> str:
        *cells, tiles = cells
        return f"{isa:<12}{''.join(f'{one:>9}' for one in cells)}{tiles:>11}{last:>8}"

    yield "\nLimits of this machine, the best of the whole run.\n"
    yield line("isa", ["clock ", "f32 FMA ", "f64 FMA ", "f32 +add ", "i8 sums ", "bf16 tiles "], "FMA per")
    yield line("", ["GHz ", "GFLOP/s ", "GFLOP/s ", "GFLOP/s ", "GOP/s ", "GFLOP/s "], "cycle")
    yield "-" * 77
    for isa in results.isas:
        rates = results.limits.get(isa, {})
        per_second = rates.get("fma_f32", 0) / (2 * int(results.context[f"f32_lanes_{isa}"]))
        names = ("clock", "fma_f32", "fma_f64", "fma_add_f32", "products_i8", "products_bf16")
        per_cycle = short(per_second / rates["clock"]) if rates.get("clock") else "-"
        yield line(isa, [cell(isa, what) for what in names], per_cycle)

    yield "\nBandwidth, GB/s, reads and writes together.\n"
    head = f"{'isa':<12}{'level':<6}" + "".join(f"{title:>8} " for title in ACCESSES.values())
    yield head
    yield "-" * len(head)
    for isa in results.isas:
        name = isa
        for label in results.working_sets:
            whats = [f"{access}:{label}" for access in ACCESSES]
            if any(results.limits.get(isa, {}).get(what) for what in whats):
                yield f"{name:<12}{label:<6}" + "".join(f"{cell(isa, what):>9}" for what in whats)
                name = ""


def levels(results: Results) -> Iterator[str]:
    """Every kernel at every memory level, with a line per instruction set."""
    sets, begun, inherited = list(results.working_sets), False, False

    def line(name: str, times: str, shares: str, over: str, peer: str) -> str:
        return f"{name:<10}{times} {shares}{over:>8}{peer:>8}"

    for kernel in results.kernels:
        named = False
        for isa in results.isas:
            found = [results.at_level(kernel, isa, label) for label in sets]
            first = next((one for one in found if one), None)
            if not first:
                continue
            if not begun:
                yield ""
                heads = f"{'ns per element':^{7 * len(sets)}}", f"{'share of the limit':^{6 * len(sets)}}"
                yield line("", *heads, "over", "best" if results.libraries else "")
                heads = "".join(f"{label:>7}" for label in sets), "".join(f"{label:>5} " for label in sets)
                yield line("", *heads, "scalar", "peer" if results.libraries else "")
                yield "-" * (11 + 13 * len(sets) + (16 if results.libraries else 8))
            if not named:
                yield kernel
            begun = named = True
            foreign = f"{kernel}/{isa}" in results.inherited
            inherited |= foreign
            yield line(
                f"  {isa}{'*' if foreign else ''}",
                "".join(f"{short(one.ns_per_element) if one else '-':>7}" for one in found),
                "".join(f"{share(one):>6}" for one in found),
                "" if isa == "scalar" else gain(results.over_scalar(first)),
                gain(best) if (best := results.best_ratio(*first.key)) else "",
            )
    if not begun:
        return
    yield ""
    if inherited:
        yield "* has no code for the kernel: that of a lower instruction set serves."
    yield "Rows have 1024 columns, those of dot_rows 128. linear has one row of x."
    yield f"Over scalar is at {sets[0]}, or at the first level that has a time."
    if results.libraries:
        yield "Best peer: its time over rapt's, there."
    means = []
    for isa in results.isas[results.isas[0] == "scalar" :]:
        own = (results.at_level(kernel, isa, sets[0]) for kernel in results.kernels)
        gains = [over for one in own if one and (over := results.over_scalar(one))]
        means += [f"{isa} {mean_gain(gains)}"] if gains else []
    if means:
        yield f"Geometric mean of the speed-ups at L1: {', '.join(means)}."


def shapes(results: Results) -> Iterator[str]:
    """The sizes that the level table does not show, in one table per kernel."""
    for kernel, sizes in results.kernels.items():
        others = [one for one in sizes if not any(results.is_of_level(one, level) for level in results.working_sets)]
        isas = [isa for isa in results.isas if any(isa in impls for impls in sizes.values())][-2:]  # as many as fit
        for columns in [[isa] for isa in isas] if results.libraries else [isas]:
            if others:
                yield from shape_table(results, kernel, others, columns)
        if others and results.is_product(kernel):
            costs = {isa: text for isa in isas if (text := costs_of_options(results, kernel, isa))}
            if costs:
                yield f"\n{kernel}, the time with an option over that without:"
            for isa, text in costs.items():
                yield from fact(isa, text)
    if results.libraries:
        yield "\nratio: the best peer's time over rapt's; above 1 rapt is faster."


def shape_table(results: Results, kernel: str, sizes: list[str], isas: list[str]) -> Iterator[str]:
    products = results.is_product(kernel)
    width = 30 if products else 23

    def cells(time_of: str, speed: str, share_of: str, ratio: str, peer: str) -> str:
        text = f"{time_of:>9}{speed:>9}{share_of:>7}"
        return text + (f"{ratio:>7} {peer:<13}" if results.libraries else "")

    head = f"{kernel:<{width}}"
    for isa in isas:
        head += cells(isa, "GFLOP/s" if products else "ns/elem", "share ", "ratio", "best peer")
    yield ""
    yield head
    yield "-" * len(head)
    for name in sizes:
        line = f"{name:<{width}}"
        for isa in isas:
            own = results.find(kernel, isa, name)
            if not own:
                line += cells("-", "-", "- ", "", "")
                continue
            if "flop" in own.facts:
                speed = short(own.facts["flop"] / own.seconds * 1e-9)
            else:  # between products, packing has only its bandwidth to show
                speed = short(own.gigabytes_per_second) + "GB/s" if products else short(own.ns_per_element)
            peer = results.best_rival(*own.key)
            ratio = f"{peer.seconds / own.seconds:.2f}" if peer else ""
            name_of_peer = (peer.library if peer.isa == isa else peer.impl) if peer else ""
            line += cells(time(own.seconds), speed, share(own), ratio, name_of_peer)
        yield line


def costs_of_options(results: Results, kernel: str, isa: str) -> str:
    """What each option costs: the geometric mean over the sizes that have it of its time over that without."""
    ratios: dict[str, list[float]] = {}
    for name, impls in results.kernels[kernel].items():
        option = name.rpartition(":")[2]
        over = results.over_plain(impls[isa]) if isa in impls and ":" in name else None
        if over and option != "causal":  # a causal call has less work to do
            ratios.setdefault(option, []).append(over)
    return ", ".join(f"{option} {geometric_mean(found):.2f}" for option, found in ratios.items())


def threads(results: Results) -> Iterator[str]:
    """A row per size and number of threads, and a column per adapter."""
    rows = results.scaling
    if not rows:
        return
    adapters = [row["adapter"] for row in rows if row["size"] == rows[0]["size"] and row["threads"] == 1]
    isa = rows[0]["isa"]
    yield f"\nattention_f32 on threads by rapt/parallel.hpp, {isa}: speed-up over the plain call, wall time.\n"
    head = f"{'size':<34}{'plain call':>12}{'threads':>9}" + "".join(f"{one:>13}" for one in adapters)
    yield head
    yield "-" * len(head)
    for at in range(0, len(rows), len(adapters)):
        row, alone = rows[at], rows[at]["threads"] == 1
        plain = time(row["seconds"] * row["speed_up"]) if alone else ""
        ratios = "".join(f"{one['speed_up']:>13.2f}" for one in rows[at : at + len(adapters)])
        yield f"{row['size'] if alone else '':<34}{plain:>12}{row['threads']:>9}{ratios}"


def errors(results: Results) -> Iterator[str]:
    """The errors of all implementations, and the fastest peer among the accurate ones."""
    if not results.kernels:
        return
    yield "\nLargest error: exp, scale in ULP, others in 2^-24 or 2^-53 of what\nrapt.h relates it to.\n"
    for kernel, sizes in results.kernels.items():
        found: dict[str, dict[str, float]] = {}  # by library and instruction set
        for one in (one for impls in sizes.values() for one in impls.values() if one.error is not None):
            found.setdefault(one.library or "rapt", {})[one.isa] = one.error
        texts = []
        for library, by_isa in found.items():
            one_for_all = len(set(by_isa.values())) == 1
            names = {library: next(iter(by_isa.values()))} if one_for_all else {f"{library}-{isa}": by_isa[isa] for isa in sorted(by_isa)}  # fmt: skip
            texts += [f"{name} {short(error)}" for name, error in names.items()]
        yield from fact(kernel, ", ".join(texts), max(23, len(kernel) + 1))
    if not results.libraries:
        return
    for kernel in ("exp_f32", "exp_f64"):
        for isa in results.isas if kernel in results.kernels else []:
            own = results.at_level(kernel, isa, list(results.working_sets)[0])
            peer = results.best_rival(*own.key, largest_error=1) if own else None
            if own and peer:
                yield f"{kernel} at L1, {isa}: the fastest peer within 1 ULP is"
                yield f"  {peer.impl}, {peer.seconds / own.seconds:.2f} times rapt's time."


def spread(results: Results) -> Iterator[str]:
    rows = sorted([*results.limit_rows.values(), *results.measurements.values()], key=lambda one: one.spread)
    if rows:
        middle, worst = rows[len(rows) // 2], rows[-1]
        yield (
            f"\nQuartiles of the repetitions lie {100 * middle.spread:.1f}% apart in the median row, "
            f"{100 * worst.spread:.0f}% in the\nworst: {worst.name}."
        )


def verdict(results: Results, with_limits: bool) -> Iterator[str]:
    found, rows = results.disturbed, len(results.measurements)
    if not found["reasons"]:
        yield f"\nQuiet: none of {rows} rows is marked."
        return
    yield f"\nDisturbed: of {rows} rows {len(found['rows'])} are marked with an exclamation mark."
    for name, reason in found["reasons"].items():
        yield f"  {name:<9}{reason['count']:>5}  {reason['meaning']}"
    for one in found["limits"] if with_limits else []:
        yield f"  {one['limit']} was measured below {one['below']}"


def operation_and_element(kernel: str) -> tuple[str, str]:
    """ "softmax_f32" is softmax of f32; "attention_in_bf16" is an operation of its own. Conversions share a line, and count
    for the element that is not f32; rows of integers are among them."""
    if kernel.startswith("convert_"):
        return "convert", "bf16" if "bf16" in kernel else "f16"
    if kernel.endswith(("quantize_rows", "quantize_blocks")):
        return "convert", "i8"
    kernel = kernel.partition(":")[0]  # a function of map_f32
    operation, _, element = kernel.rpartition("_")
    if kernel in ("delta_rule", "delta_rule_backward"):
        return kernel, "f32"
    if element in ("step", "random"):  # of f32 alone
        return kernel, "f32"
    return (kernel if operation.endswith("_in") else operation), element


# Operations that share another's line, so that all lines fit a screen.
SHARED_LINES = {
    **{f"{name}_backward": name for name in ("silu", "gelu", "gelu_tanh", "gated")},
    "log_softmax_backward": "softmax_backward",
    "layer_norm_backward": "rms_norm_backward",
    "sgd_step": "adamw_step",
    "metric_rows": "metric",
    "scan": "reduce",
    "logsumexp": "log_softmax",
    "embedding_bag": "expert_sum",
    "index_add": "expert_sum",
    "attention_merge": "attention_partial",
    "delta_rule_backward": "delta_rule",
}


def brief(results: Results) -> Iterator[str]:
    """A line per operation or a few, which averages all its sizes at the strongest level."""
    shares: dict[str, dict[str, list[float]]] = {}  # by operation and element
    marked: set[tuple[str, str]] = set()
    over_scalar: dict[str, list[float]] = {}
    over_peers: dict[str, list[float]] = {}
    for kernel, sizes in results.kernels.items():
        operation, element = operation_and_element(kernel)
        operation = SHARED_LINES.get(operation, operation)
        of_operation = shares.setdefault(operation, {})
        isa = results.strongest(kernel)
        for own in (impls[isa] for impls in sizes.values() if isa in impls):
            # Packing is a copy, so it does not count in the mean of the products.
            if ("flop" in own.facts) != results.is_product(kernel):
                continue
            if own.share is not None:
                of_operation.setdefault(element, []).append(own.share)
            if own.doubts:
                marked.add((operation, element))
            for ratios, ratio in ((over_scalar, results.over_scalar(own)), (over_peers, results.best_ratio(*own.key))):
                ratios.setdefault(operation, []).extend([ratio] if ratio else [])
    context = results.context
    yield f"\n{context['cpu_name']}, {results.isas[-1]}: the share of the limit, as the mean over all sizes"
    head = f"{'':<25}" + "".join(f"{element:>5} " for element in ELEMENTS) + f"{'over scalar':>12}"
    head += f"{'best peer':>12}" if results.libraries else ""
    yield head
    for operation, by_element in shares.items():
        line = f"{operation:<25}"
        for element in ELEMENTS:
            mark = MARK if (operation, element) in marked else " "
            found = by_element.get(element)
            line += f"{100 * geometric_mean(found):>4.0f}%{mark}" if found else " " * 6
        line += f"{mean_gain(over_scalar.get(operation, [])):>12}"
        line += f"{mean_gain(over_peers.get(operation, [])):>12}" if results.libraries else ""
        yield line


def text_of(*parts: Iterator[str]) -> str:
    """Lines without the spaces at their ends."""
    return "".join(line.rstrip(" ") + "\n" for part in parts for line in part)


def tables(results: Results) -> str:
    parts = conditions, limits, levels, shapes, threads, errors, spread
    return text_of(*(part(results) for part in parts), verdict(results, with_limits=True))


def screen(results: Results) -> str:
    return text_of(brief(results), verdict(results, with_limits=False))


def main(path: Path) -> None:
    results = Results.read(path)
    if results.run["partial"]:
        print(tables(results), end="")
    else:
        file = path.with_suffix(".txt")
        file.write_text(tables(results), encoding="utf-8")
        print(f"{screen(results)}\nAll sizes and levels: {file}")
    print(f"Every repetition: {path}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
