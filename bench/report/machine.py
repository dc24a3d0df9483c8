"""The page's section on the machine: facts and limits."""

from __future__ import annotations

from typing import Any

import markup
from data import LEVELS, Results

# Shown elsewhere or not at all. The build type is that of the Google Benchmark library, and Debian's release build
# says "debug".
_CONTEXT_TOLD_ELSEWHERE = {
    "caches", "clock_ghz", "cpu_name", "cpu_scaling_enabled", "date", "executable", "host_name", "isas",
    "json_schema_version", "l1d_bytes", "l2_bytes", "l3_bytes", "library_build_type", "load_avg", "mhz_per_cpu",
    "num_cpus", "peers", "pinned_cpu", "rapt_version",
}  # fmt: skip
_WORKING_SET = "working_set_"  # and the level


def machine(results: Results) -> str:
    facts = "".join(
        f"<tr><th>{markup.escape(name)}<td>{'<br>'.join(markup.escape(line) for line in lines)}"
        for name, lines in _facts(results)
        if lines
    )
    return (
        f'<div class="beside"><div><table class="facts">{facts}</table></div>\n'
        f"<div>{_limits(results)}</div></div>\n"
        "<p>Every time on this page is CPU time: the median over the repetitions. Spread is (third quartile − first) "
        "÷ median. A limit is the best of all measurements before, between and after the kernels. GB/s are "
        "10<sup>9</sup> bytes per second; of a kernel each input and each output counts once, of a limit the bytes "
        "read and the bytes written. copy-nt uses non-temporal stores; update reads and writes the same memory.</p>"
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
        if key not in _CONTEXT_TOLD_ELSEWHERE and not key.startswith((_WORKING_SET, "f32_lanes_")):
            facts.append((key.replace("_", " "), [str(value)]))
    return facts


def _clock(context: dict[str, Any]) -> str:
    scaling = "on" if context.get("cpu_scaling_enabled") else "off or not visible"
    return (
        f"{float(context['clock_ghz']):.2f} GHz measured, {context['mhz_per_cpu']} MHz as the system states it, "
        f"frequency scaling {scaling}"
    )


def _sizes(context: dict[str, Any], keys: dict[str, str]) -> str:
    return ", ".join(f"{name} {markup.binary_size(int(context[key]))}" for name, key in keys.items() if key in context)


def _peer_versions(peers: str) -> list[str]:
    """A line per library and version, with the instruction sets that it was measured on."""
    isas: dict[str, list[str]] = {}
    for entry in peers.split("; ") if peers else []:
        impl, _, version = entry.partition(" ")
        library, _, isa = impl.rpartition("-")
        isas.setdefault(f"{library} {version}", []).append(isa)
    return [f"{version} ({', '.join(found)})" for version, found in isas.items()]


def _limits(results: Results) -> str:
    if not results.limits:
        return markup.none("This run measured no limits.")
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
            numbers = [markup.number(rate and rate * 1e-9) for rate in rates] + [""] * (len(levels) - len(rates))
            rows.append(markup.row(["" if i else isa, name, *numbers], "tt", group_begins=i == 0))
    return markup.table(["limit", "", *levels], "tt", rows)


def _rate_name(resource: str) -> str:
    """The name of a limit that is not a bandwidth."""
    if resource.startswith("fma_"):
        return f"FMA {resource.removeprefix('fma_')}, GFLOP/s"
    return f"{resource}, GHz" if resource == "clock" else f"{resource}, 10⁹/s"
