"""The benchmark's JSON as medians by kernel, size and implementation."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LEVELS = ("L1", "L2", "L3", "mem")


@dataclass
class Measurement:
    name: str  # kernel/implementation/size
    facts: dict[str, Any]  # a repetition in the JSON: what a call has to do, and its limit
    doubts: list[str]  # the rules of the benchmark that it breaks
    error: float | None  # the largest error of the implementation, in the unit of rapt.h; None if not measured
    seconds_each: list[float] = field(default_factory=list)  # per call, by repetition

    @property
    def key(self) -> tuple[str, str, str]:
        kernel, impl, size = self.name.split("/", 2)
        return kernel, impl, size

    @property
    def impl(self) -> str:
        """A level of rapt, "avx2", or a peer, "openblas-avx512"."""
        return self.key[1]

    @property
    def library(self) -> str:
        """Of a peer; empty for rapt."""
        return self.impl.rpartition("-")[0]

    @property
    def isa(self) -> str:
        return self.impl.rpartition("-")[2]

    @property
    def seconds(self) -> float:
        return statistics.median(self.seconds_each)

    @property
    def spread(self) -> float:
        """The distance of the quartiles over the median."""
        if len(self.seconds_each) < 2:
            return 0
        low, middle, high = statistics.quantiles(self.seconds_each, n=4, method="inclusive")
        return (high - low) / middle

    @property
    def share(self) -> float | None:
        """The limit over the time: 1 is as fast as the machine can be. None where the limit is unknown or wrong."""
        known = self.facts.get("limit_s") and not self.is_impossible
        return self.facts["limit_s"] / self.seconds if known else None

    @property
    def is_impossible(self) -> bool:
        """Whether it is faster than the limit: then the limit or the time is wrong."""
        return "share" in self.doubts

    @property
    def ns_per_element(self) -> float:
        return self.seconds / self.facts["elements"] * 1e9

    @property
    def gigabytes_per_second(self) -> float:
        return self.facts["bytes"] / self.seconds * 1e-9


class Results:
    """All measurements of a run. Kernels, sizes and implementations keep the order of the file."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.context: dict[str, Any] = document["context"]
        after = document["after"]
        self.disturbed: dict[str, Any] = after["disturbed"]
        self.scaling: list[dict[str, Any]] = after["scaling"]
        self.run: dict[str, Any] = after.get("run", {})
        self.inherited: dict[str, str] = after.get("inherited", {})  # by kernel/isa: the level whose code runs
        self.isas: list[str] = self.context["isas"].split(", ")  # weakest first
        # By instruction set and resource: bytes per second of "load:L1", operations per second of "fma_f32".
        limits: dict[str, dict[str, float]] = after["limits"] or {}
        self.limits = {isa: limits[isa] for isa in self.isas if isa in limits}
        sets = {key: int(value) for key, value in self.context.items() if key.startswith("working_set_")}
        self.working_sets = {key.removeprefix("working_set_"): count for key, count in sets.items()}  # bytes by level
        errors = after.get("errors", {})  # of those that are no number in JSON
        self.limit_rows: dict[str, Measurement] = {}
        self.measurements: dict[str, Measurement] = {}
        self.kernels: dict[str, dict[str, dict[str, Measurement]]] = {}  # by kernel, size and implementation
        for run in document["benchmarks"]:
            name = run["run_name"]
            kernel, impl, size = name.split("/", 2)
            if run["run_type"] != "iteration":  # a mean of repetitions
                continue
            error = float(errors[f"{kernel}/{impl}"]) if f"{kernel}/{impl}" in errors else run.get("error")
            rows = self.limit_rows if kernel == "limit" else self.measurements
            one = rows.setdefault(name, Measurement(name, run, self.disturbed["rows"].get(name, []), error))
            one.seconds_each.append(run["cpu_time"] * 1e-9)
            if kernel != "limit":
                self.kernels.setdefault(kernel, {}).setdefault(size, {})[impl] = one
        peers = (one for one in self.measurements.values() if one.impl not in self.isas)
        self.libraries = list(dict.fromkeys(one.library for one in peers))

    @classmethod
    def read(cls, path: Path) -> Results:
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def find(self, kernel: str, impl: str, size: str) -> Measurement | None:
        return self.measurements.get(f"{kernel}/{impl}/{size}")

    @staticmethod
    def is_of_level(size: str, level: str) -> bool:
        """Whether the table of memory levels shows a kernel at this size."""
        return size in (level, f"cols:1024:{level}", f"dim:128:{level}")

    def at_level(self, kernel: str, isa: str, level: str) -> Measurement | None:
        sizes = self.kernels[kernel].items()
        return next((impls[isa] for size, impls in sizes if isa in impls and self.is_of_level(size, level)), None)

    def is_product(self, kernel: str) -> bool:
        """Whether the kernel multiplies, so that its speed is counted in operations."""
        return "flop" in next(iter(next(iter(self.kernels[kernel].values())).values())).facts

    def strongest(self, kernel: str) -> str:
        """The strongest instruction set on which the kernel was measured. Stronger sets inherit the kernel."""
        measured = {impl for impls in self.kernels[kernel].values() for impl in impls}
        return next((isa for isa in reversed(self.isas) if isa in measured), self.isas[-1])

    def over_scalar(self, one: Measurement) -> float | None:
        kernel, _, size = one.key
        scalar = self.find(kernel, "scalar", size)
        return scalar.seconds / one.seconds if scalar else None

    def rivals(self, kernel: str, isa: str, size: str) -> list[Measurement]:
        """The peers that rapt on `isa` is compared with: peers of the same set, and on the strongest set all. A peer whose
        error is NaN is none."""
        peers = [one for one in self.kernels[kernel][size].values() if one.impl not in self.isas]
        peers = [one for one in peers if one.error is None or not math.isnan(one.error)]
        return [one for one in peers if isa in (one.isa, self.strongest(kernel))]

    def best_rival(self, kernel: str, isa: str, size: str, largest_error: float = math.inf) -> Measurement | None:
        rivals = [
            one
            for one in self.rivals(kernel, isa, size)
            if (math.inf if one.error is None else one.error) <= largest_error
        ]
        return min(rivals, key=lambda one: one.seconds, default=None)

    def best_ratio(self, kernel: str, isa: str, size: str) -> float | None:
        """The time of the best peer over that of rapt: above 1 rapt is faster."""
        own = self.find(kernel, isa, size)
        rival = self.best_rival(kernel, isa, size)
        return rival.seconds / own.seconds if own and rival else None

    def over_plain(self, one: Measurement) -> float | None:
        """The time over that of the size without its last word, which names an option."""
        plain = self.measurements.get(one.name.rpartition(":")[0])
        return one.seconds / plain.seconds if plain else None
