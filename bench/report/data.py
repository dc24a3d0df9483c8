"""The benchmark's JSON as medians by kernel, implementation and size."""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable

LIMIT = "limit"  # the kernel that the machine's own limits are filed under
LEVELS = ("L1", "L2", "L3", "mem")
KNOWN_ISAS = ("scalar", "neon", "avx2", "avx512")  # weakest first

# f32 lanes of a register, to turn the measured FMA rate into operations a second.
F32_LANES = {"scalar": 1, "neon": 4, "avx2": 8, "avx512": 16}

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True)
class Peer:
    impl: str  # as in the names of benchmarks: "openblas-avx512"
    library: str
    isa: str  # empty if the name has none


@dataclass
class Measurement:
    kernel: str
    impl: str
    size: str
    seconds_each: list[float] = field(default_factory=list)  # a call, one per repetition
    counters: dict[str, list[float]] = field(default_factory=dict)
    binding: str = ""  # the resource that limits the call

    def counter(self, name: str) -> float | None:
        values = self.counters.get(name)
        return statistics.median(values) if values else None

    def positive_counter(self, name: str) -> float | None:
        value = self.counter(name)
        return value if value is not None and value > 0 else None

    @property
    def seconds(self) -> float:
        return statistics.median(self.seconds_each)

    @property
    def spread(self) -> float | None:
        """(max - min) / median, of more than one repetition."""
        if len(self.seconds_each) < 2:
            return None
        return (max(self.seconds_each) - min(self.seconds_each)) / self.seconds

    @property
    def elements(self) -> float | None:
        return self.positive_counter("elements") or self._work_of_rate("items_per_second")

    @property
    def bytes(self) -> float | None:
        return self.positive_counter("bytes") or self._work_of_rate("bytes_per_second")

    @property
    def share(self) -> float | None:
        """Of the machine's limit: 1 is as fast as it can be."""
        limit = self.positive_counter("limit_s")
        return limit / self.seconds if limit else None

    @property
    def error(self) -> float | None:
        return self.counter("error")

    @property
    def ns_per_element(self) -> float | None:
        return self.seconds / self.elements * 1e9 if self.elements else None

    @property
    def fastest_ns_per_element(self) -> float | None:
        return min(self.seconds_each) / self.elements * 1e9 if self.elements else None

    @property
    def gigabytes_per_second(self) -> float | None:
        return self.bytes / self.seconds * 1e-9 if self.bytes else None

    @property
    def intensity(self) -> float | None:
        """Vector operations a byte."""
        uops = self.positive_counter("uops")
        return uops / self.bytes if uops and self.bytes else None

    @property
    def operation_rate(self) -> float | None:
        """Vector operations a second."""
        uops = self.positive_counter("uops")
        return uops / self.seconds if uops else None

    def _work_of_rate(self, name: str) -> float | None:
        rate = self.positive_counter(name)
        return rate * self.seconds if rate else None


class Results:
    """Everything a run measured. Kernels, implementations and sizes keep the order of the file."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.context: dict[str, Any] = document.get("context") or {}
        self._by_key: dict[tuple[str, str, str], Measurement] = {}
        for run in document.get("benchmarks") or []:
            self._add(run)

        everything = list(self._by_key.values())
        self.limits = _limits(m for m in everything if m.kernel == LIMIT)
        self.measurements = [m for m in everything if m.kernel != LIMIT]
        self._at: dict[tuple[str, str], list[Measurement]] = {}
        for one in self.measurements:
            self._at.setdefault((one.kernel, one.size), []).append(one)
        self.kernels = _unique(m.kernel for m in self.measurements)
        impls = _unique(m.impl for m in self.measurements)
        self.isas = _isas(self.context, impls)
        self.peers = [_peer(impl, self.isas) for impl in impls if impl not in self.isas]
        self.libraries = _unique(peer.library for peer in self.peers)
        self._sizes = {
            kernel: _unique(m.size for m in self.measurements if m.kernel == kernel) for kernel in self.kernels
        }
        self._impls = {kernel: {m.impl for m in self.measurements if m.kernel == kernel} for kernel in self.kernels}

    @classmethod
    def read(cls, path: Path) -> Results:
        document = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(document, dict) or "benchmarks" not in document:
            raise ValueError("not the JSON of a benchmark run")
        return cls(document)

    def sizes(self, kernel: str) -> list[str]:
        return self._sizes[kernel]

    def find(self, kernel: str, impl: str, size: str) -> Measurement | None:
        return self._by_key.get((kernel, impl, size))

    def at(self, kernel: str, size: str) -> list[Measurement]:
        return self._at.get((kernel, size), [])

    def rivals(self, kernel: str, isa: str) -> list[Peer]:
        """The peers that rapt's `isa` is compared with: those of the same instruction set, and against the
        strongest also the libraries that have no code for it."""
        here = [p for p in self.peers if p.impl in self._impls[kernel]]
        same = [p for p in here if p.isa == isa]
        if not self.isas or isa != self.isas[-1]:
            return same
        served = {p.library for p in same}
        best_of_others = {p.library: p for p in sorted(here, key=_strength) if p.library not in served}
        return same + list(best_of_others.values())

    def best_rival(self, kernel: str, isa: str, size: str) -> Measurement | None:
        found = [self.find(kernel, peer.impl, size) for peer in self.rivals(kernel, isa)]
        return min((m for m in found if m), key=lambda m: m.seconds, default=None)

    def best_ratio(self, kernel: str, isa: str, size: str) -> float | None:
        """Best peer's time over rapt's: above 1 rapt is faster."""
        own = self.find(kernel, isa, size)
        rival = self.best_rival(kernel, isa, size)
        return rival.seconds / own.seconds if own and rival else None

    def _add(self, run: dict[str, Any]) -> None:
        parts = str(run.get("run_name") or run.get("name", "")).split("/", 2)
        seconds = _number(run.get("cpu_time"))
        aggregate = run.get("run_type", "iteration") != "iteration"
        if aggregate or run.get("error_occurred") or len(parts) < 3 or not seconds or seconds <= 0:
            return
        kernel, impl, size = parts
        one = self._by_key.setdefault((kernel, impl, size), Measurement(kernel, impl, size))
        one.seconds_each.append(seconds * _SECONDS.get(str(run.get("time_unit", "ns")), 1e-9))
        one.binding = str(run.get("label") or one.binding)
        for name in ("bytes", "elements", "limit_s", "uops", "error", "bytes_per_second", "items_per_second"):
            value = _number(run.get(name))
            if value is not None:
                one.counters.setdefault(name, []).append(value)


def family(kernel: str) -> tuple[str, str]:
    """("softmax", "f32") of softmax_f32."""
    match = re.fullmatch(r"(.+)_(f\d+|bf\d+|[iu]\d+)", kernel)
    return (match[1], match[2]) if match else (kernel, "")


def level_of(size: str) -> str | None:
    """The level of the memory hierarchy that a size names: L2 of "L2" and of "cols:64:L2". Sizes with
    something behind the level, such as "L1:unaligned", are about something else."""
    last = size.rsplit(":", 1)[-1]
    return last if last in LEVELS else None


def size_group(size: str) -> str:
    """Equal for sizes that differ in a number alone, and for the levels of the memory hierarchy."""
    return "level" if size in LEVELS else re.sub(r"(?<![L\d])\d+", "#", size)


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _limits(measurements: Iterable[Measurement]) -> dict[str, dict[str, float]]:
    """By instruction set and resource: bytes a second of "load:L1", flops a second of "fma_f32"."""
    limits: dict[str, dict[str, float]] = {}
    for one in measurements:
        rate = one.positive_counter("bytes_per_second" if ":" in one.size else "items_per_second")
        if rate:
            limits.setdefault(one.impl, {})[one.size] = rate
    return limits


def _isas(context: dict[str, Any], impls: list[str]) -> list[str]:
    """Weakest first, as the context lists them."""
    named = [part.strip() for part in str(context.get("isas", "")).split(",")]
    return [name for name in named if name in impls] or [name for name in KNOWN_ISAS if name in impls]


def _peer(impl: str, isas: list[str]) -> Peer:
    library, dash, isa = impl.rpartition("-")
    return Peer(impl, library, isa) if dash and isa in (*isas, *KNOWN_ISAS) else Peer(impl, impl, "")


def _strength(peer: Peer) -> int:
    return KNOWN_ISAS.index(peer.isa) if peer.isa in KNOWN_ISAS else -1
