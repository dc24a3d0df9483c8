"""Compares two runs of the benchmark by the Mann-Whitney U test over the repetitions of each row, as Google
Benchmark's own compare.py does."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays as it is

from data import Results
from markup import time
from scipy.stats import mannwhitneyu

ALPHA = 0.05
EXIT_SLOWER, EXIT_ERROR = 1, 2
NOTABLE_LIMIT = 1.1
BUILD_AND_MACHINE = ("rapt_version", "commit", "compiler", "cpu_name", "os", "kernel", "governor", "turbo_disabled",
                     "transparent_huge_pages", "rapt_isa_environment", "flags_", "working_set_")  # fmt: skip


@dataclass
class Row:
    name: str
    new: float  # seconds
    ratio: float  # new over old
    p: float
    doubts: str
    verdict: str  # empty where the difference is not significant, "?" where a file marks the row


def compare(old: Results, new: Results, threshold: float) -> list[Row]:
    rows = []
    for name, before in old.measurements.items():
        after = new.measurements.get(name)
        if not after:
            continue
        # Caches of other sizes change the working sets: scale the time to equal work.
        same_work = before.facts["elements"] / after.facts["elements"]
        seconds = [one * same_work for one in after.seconds_each]
        ratio = after.seconds * same_work / before.seconds
        p = mannwhitneyu(before.seconds_each, seconds, alternative="two-sided").pvalue
        doubts = " ".join(
            f"{which}:{','.join(one.doubts)}" for which, one in (("old", before), ("new", after)) if one.doubts
        )
        verdict = ""
        if p < ALPHA and max(ratio, 1 / ratio) > 1 + threshold:
            verdict = "?" if doubts else "slower" if ratio > 1 else "faster"
        rows.append(Row(name, after.seconds * same_work, ratio, p, doubts, verdict))
    return sorted(rows, key=lambda row: -row.ratio)


def print_head(paths: list[Path], runs: list[Results]) -> None:
    for which, path, run in zip(("old", "new"), paths, runs):
        print(f"{which}  {path}")
        facts = [run.context.get(key) for key in ("commit", "date", "cpu_name")]
        print(f"     {', '.join(str(fact) for fact in facts if fact)}: {run.disturbed['verdict']}")
    old, new = (run.context for run in runs)
    for key in {**old, **new}:
        if not key.startswith(BUILD_AND_MACHINE) or old.get(key) == new.get(key):
            continue
        values = [str(context.get(key, "not recorded")) for context in (old, new)]
        if "flags" in key:  # only the words that differ
            words = [value.split() for value in values]
            values = [" ".join(word for word in words[i] if word not in words[1 - i]) for i in (0, 1)]
        print(f"differs: {key.replace('_', ' ')}\n     old  {values[0]}\n     new  {values[1]}")
    old_limits, new_limits = (
        {f"{isa} {what}": rate for isa, rates in run.limits.items() for what, rate in rates.items() if rate}
        for run in runs
    )
    limits = {name: new_limits[name] / rate for name, rate in old_limits.items() if name in new_limits}
    far = [name for name, ratio in limits.items() if max(ratio, 1 / ratio) > NOTABLE_LIMIT]
    if far:
        worst = max(far, key=lambda name: abs(math.log(limits[name])))
        print(f"differs: {len(far)} of {len(limits)} limits of the machine by more than 10 %")
        print(f"     the most  {worst}, new over old {limits[worst]:.2f}")
    fewest = min(len(one.seconds_each) for run in runs for one in run.measurements.values())
    if fewest < 4:
        print(f"With {fewest} repetitions no difference can be significant; at least 4 are needed.")


def print_kernels(rows: list[Row]) -> None:
    by_kernel: dict[str, list[Row]] = {}
    for row in rows:
        by_kernel.setdefault(row.name.rpartition("/")[0], []).append(row)
    means = {kernel: statistics.geometric_mean(row.ratio for row in found) for kernel, found in by_kernel.items()}
    print(f"\n{'mean':>6}{'rows':>6}{'slower':>8}{'faster':>8}{'doubted':>9}  kernel/isa\n{'-' * 72}")
    for kernel in sorted(means, key=lambda one: -means[one]):
        verdicts = Counter(row.verdict for row in by_kernel[kernel])
        doubted = sum(bool(row.doubts) for row in by_kernel[kernel])
        print(
            f"{means[kernel]:6.2f}{len(by_kernel[kernel]):6}{verdicts['slower']:8}{verdicts['faster']:8}{doubted:9}"
            f"  {kernel}"
        )


def print_rows(rows: list[Row]) -> None:
    print(f"\n{'ratio':>5} {'p':>5} {'new':>7}          kernel/isa/size\n{'-' * 72}")
    for row in rows:
        mark = "!" if row.doubts else " "
        print(f"{row.ratio:5.2f} {row.p:5.3f} {time(row.new):>7} {row.verdict:>6}{mark} {row.name}")
        if row.doubts:
            print(f"{'':28}{row.doubts}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="bench/compare_runs",
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
    paths = [options.old, options.new]
    try:
        runs = [Results.read(path) for path in paths]
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"bench/compare_runs: a file is not one of results: {error!r}", file=sys.stderr)
        return EXIT_ERROR
    rows = compare(*runs, options.threshold)
    if not rows:
        print("bench/compare_runs: the files have no row in common", file=sys.stderr)
        return EXIT_ERROR

    print_head(paths, runs)
    print_kernels(rows)
    shown = [row for row in rows if options.all or row.verdict]
    if shown:
        print_rows(shown)
    verdicts = Counter(row.verdict for row in rows)
    alone = sum(len(run.measurements) for run in runs) - 2 * len(rows)
    print(
        f"\n{len(rows)} rows: {verdicts['slower']} slower, {verdicts['faster']} faster, "
        f"{verdicts['?']} differ but are marked; {alone} in one file alone."
    )
    return EXIT_SLOWER if verdicts["slower"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
