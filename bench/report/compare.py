"""Compares two runs of the benchmark by the Mann-Whitney U test over the repetitions of each row, as Google
Benchmark's own compare.py does."""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True  # the source tree stays as it is
sys.path.append(os.environ.get("RAPT_GBENCH_TOOLS", "/usr/share/benchmark"))  # as in Debian

ALPHA = 0.05
EXIT_SLOWER, EXIT_ERROR = 1, 2
LIMIT = "limit/"  # rows that measure the machine
NOTABLE_LIMIT = 1.1
BUILD_AND_MACHINE = ("rapt_version", "commit", "compiler", "compiler_flags", "cpu_name", "os", "kernel", "governor",
                     "turbo_disabled", "transparent_huge_pages", "rapt_isa_environment")  # fmt: skip


class Run:
    """A results file: CPU and wall seconds of the repetitions of each row, the context and the verdict."""

    def __init__(self, path: Path) -> None:
        document = json.loads(path.read_text(encoding="utf-8"))
        self.path = path
        self.context: dict[str, Any] = document["context"]
        # Old results have no verdict.
        after = document.get("after", {})
        disturbed = after.get("disturbed", {})
        self.limits = {
            f"{isa} {what}": rate
            for isa, of_isa in (after.get("limits") or {}).items()
            for what, rate in of_isa.items()
        }
        self.verdict: str = disturbed.get("verdict", "not judged")
        self.doubts: dict[str, list[str]] = disturbed.get("rows", {})
        self.seconds: dict[str, tuple[list[float], list[float]]] = {}
        self.work: dict[str, float] = {}  # per call, in elements or bytes
        for one in document["benchmarks"]:
            if one["run_type"] == "iteration" and not one["run_name"].startswith(LIMIT):
                cpu, wall = self.seconds.setdefault(one["run_name"], ([], []))
                scale = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[one["time_unit"]]
                cpu.append(one["cpu_time"] * scale)
                wall.append(one["real_time"] * scale)
                self.work[one["run_name"]] = one.get("elements") or one.get("bytes") or 1

    def facts(self) -> dict[str, str]:
        more = [key for key in self.context if key.startswith(("flags_", "working_set_"))]
        return {key: str(self.context[key]) for key in (*BUILD_AND_MACHINE, *more) if key in self.context}


@dataclass
class Row:
    name: str
    old: float
    new: float
    p: float | None  # None: too few repetitions
    doubts: str

    @property
    def ratio(self) -> float:
        return self.new / self.old

    def verdict(self, threshold: float) -> str:
        """ "slower" and "faster" only where the difference is significant and neither file marks the row."""
        if self.p is None or self.p >= ALPHA or max(self.ratio, 1 / self.ratio) <= 1 + threshold:
            return ""
        if self.doubts:
            return "?"
        return "slower" if self.ratio > 1 else "faster"


def compare(old: Run, new: Run) -> list[Row]:
    from gbench.report import calc_utest

    rows = []
    for name in old.seconds:
        if name not in new.seconds:
            continue
        old_cpu, old_wall = old.seconds[name]
        # Caches of other sizes change the working sets: scale the time to equal work.
        same_work = old.work[name] / new.work[name]
        new_cpu, new_wall = ([seconds * same_work for seconds in each] for each in new.seconds[name])
        _, p, _ = calc_utest([old_cpu, new_cpu], [old_wall, new_wall])
        doubts = " ".join(
            f"{which}:{','.join(run.doubts[name])}" for which, run in (("old", old), ("new", new)) if name in run.doubts
        )
        rows.append(Row(name, statistics.median(old_cpu), statistics.median(new_cpu), p, doubts))
    return sorted(rows, key=lambda row: -row.ratio)


def print_head(old: Run, new: Run) -> None:
    for which, run in (("old", old), ("new", new)):
        print(f"{which}  {run.path}")
        facts = [run.context.get(key) for key in ("commit", "date", "cpu_name")]
        print(f"     {', '.join(str(fact) for fact in facts if fact)}: {run.verdict}")
    old_facts, new_facts = old.facts(), new.facts()
    differing = [key for key in {**old_facts, **new_facts} if old_facts.get(key) != new_facts.get(key)]
    for key in differing:
        values = [facts.get(key, "not recorded") for facts in (old_facts, new_facts)]
        if "flags" in key:  # only the words that differ
            words = [value.split() for value in values]
            values = [" ".join(word for word in words[i] if word not in words[1 - i]) for i in (0, 1)]
        print(f"differs: {key.replace('_', ' ')}\n     old  {values[0]}\n     new  {values[1]}")
    limits = {name: new.limits[name] / rate for name, rate in old.limits.items() if rate and new.limits.get(name)}
    far = [name for name, ratio in limits.items() if max(ratio, 1 / ratio) > NOTABLE_LIMIT]
    if far:
        worst = max(far, key=lambda name: abs(math.log(limits[name])))
        print(f"differs: {len(far)} of {len(limits)} limits of the machine by more than 10 %")
        print(f"     the most  {worst}, new over old {limits[worst]:.2f}")
    fewest = min(len(cpu) for run in (old, new) for cpu, _ in run.seconds.values())
    if fewest < 4:
        print(f"With {fewest} repetitions no difference can be significant; at least 4 are needed.")


def print_kernels(rows: list[Row], threshold: float) -> None:
    by_kernel: dict[str, list[Row]] = {}
    for row in rows:
        by_kernel.setdefault("/".join(row.name.split("/")[:2]), []).append(row)
    means = {
        kernel: math.exp(statistics.fmean(math.log(row.ratio) for row in of_kernel))
        for kernel, of_kernel in by_kernel.items()
    }
    print(f"\n{'mean':>6}{'rows':>6}{'slower':>8}{'faster':>8}{'doubted':>9}  kernel/isa\n{'-' * 72}")
    for kernel in sorted(means, key=lambda one: -means[one]):
        of_kernel = by_kernel[kernel]
        verdicts = [row.verdict(threshold) for row in of_kernel]
        doubted = sum(bool(row.doubts) for row in of_kernel)
        print(
            f"{means[kernel]:6.2f}{len(of_kernel):6}{verdicts.count('slower'):8}{verdicts.count('faster'):8}"
            f"{doubted:9}  {kernel}"
        )


def print_rows(rows: list[Row], threshold: float) -> None:
    print(f"\n{'ratio':>5} {'p':>5} {'new':>7}          kernel/isa/size\n{'-' * 72}")
    for row in rows:
        p = "-" if row.p is None else f"{row.p:.3f}"
        mark = "!" if row.doubts else " "
        print(f"{row.ratio:5.2f} {p:>5} {time(row.new):>7} {row.verdict(threshold):>6}{mark} {row.name}")
        if row.doubts:
            print(f"{'':28}{row.doubts}")


def time(seconds: float) -> str:
    for scale, unit in ((1e-6, "ns"), (1e-3, "us"), (1.0, "ms")):
        if seconds < scale:
            return f"{seconds / scale * 1e3:.3g} {unit}"
    return f"{seconds:.3g} s"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="bench/compare",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Compares two results files of bench/run, as build/bench/results.json.\n\n"
        "ratio: the new median time over the old; mean: the geometric one over a kernel's sizes. Above 1 is slower.\n"
        "p: of the Mann-Whitney U test over the repetitions, as Google Benchmark's compare.py has it.\n"
        "!: a file marks the row as disturbed, by the rules in the line below.",
        epilog="Exit status: 0 no row is slower; 1 some are: p < 0.05, by more than the threshold, and marked in\n"
        "neither file; 2 a file cannot be read, or they have no row in common.",
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--all", action="store_true", help="print all rows, not only those that differ")
    parser.add_argument(
        "--threshold", type=float, default=0.05, help="the largest difference that does not count (default: 0.05)"
    )
    options = parser.parse_args(arguments)
    try:
        old, new = Run(options.old), Run(options.new)
    except OSError as error:
        print(f"bench/compare: {error}", file=sys.stderr)
        return EXIT_ERROR
    except (ValueError, KeyError, TypeError) as error:
        print(f"bench/compare: a file is not one of results: {error!r}", file=sys.stderr)
        return EXIT_ERROR
    try:
        rows = compare(old, new)
    except ModuleNotFoundError as error:
        print(f"bench/compare: {error} (Debian: libbenchmark-tools, python3-scipy)", file=sys.stderr)
        return EXIT_ERROR
    if not rows:
        print("bench/compare: the files have no row in common", file=sys.stderr)
        return EXIT_ERROR

    print_head(old, new)
    print_kernels(rows, options.threshold)
    shown = rows if options.all else [row for row in rows if row.verdict(options.threshold)]
    if shown:
        print_rows(shown, options.threshold)
    verdicts = [row.verdict(options.threshold) for row in rows]
    missing = len(old.seconds) + len(new.seconds) - 2 * len(rows)
    print(
        f"\n{len(rows)} rows: {verdicts.count('slower')} slower, {verdicts.count('faster')} faster, "
        f"{verdicts.count('?')} differ but are marked; {missing} in one file only."
    )
    return EXIT_SLOWER if "slower" in verdicts else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
