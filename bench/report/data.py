"""The benchmark's JSON as medians by kernel, implementation and size."""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable

LIMIT = "limit"  # the kernel in the names of limits
LEVELS = ("L1", "L2", "L3", "mem")

# The limits of the machine, as the benchmark names them.
RESOURCES = (
    "fma_f32", "fma_f64", "products_i8", "products_bf16", "clock",
    *(f"{access}:{level}" for access in ("load", "store", "copy", "copy_nt", "update") for level in LEVELS),
)  # fmt: skip


@dataclass(frozen=True)
class Peer:
    impl: str  # as in the names of benchmarks: "openblas-avx512"
    library: str
    isa: str


@dataclass
class Measurement:
    kernel: str
    impl: str
    size: str
    seconds_each: list[float] = field(default_factory=list)  # per call, by repetition
    elements: float = 0
    bytes: float = 0
    uops: float = 0
    flop: float = 0  # of matrix products, whose elements are multiply-adds
    limit: float = 0  # seconds; 0 if unknown
    binding: str = ""  # the resource that limits the call
    error: float | None = None
    doubts: list[str] = field(default_factory=list)  # the rules of the benchmark that it breaks

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
        """The limit over the time: 1 is as fast as the machine can be."""
        return self.limit / self.seconds if self.limit else None

    @property
    def is_impossible(self) -> bool:
        """Whether it is faster than the limit: then the limit or the time is wrong."""
        return "share" in self.doubts

    @property
    def ns_per_element(self) -> float:
        return self.seconds / self.elements * 1e9

    @property
    def fastest_ns_per_element(self) -> float:
        return min(self.seconds_each) / self.elements * 1e9

    @property
    def gigabytes_per_second(self) -> float:
        return self.bytes / self.seconds * 1e-9

    @property
    def gigaflops(self) -> float | None:
        return self.flop / self.seconds * 1e-9 if self.flop else None

    @property
    def intensity(self) -> float:
        """Vector operations per byte."""
        return self.uops / self.bytes

    @property
    def operation_rate(self) -> float:
        """Vector operations per second."""
        return self.uops / self.seconds


class Results:
    """All measurements of a run. Kernels, implementations and sizes keep the order of the file."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.context: dict[str, Any] = document["context"]
        self._by_key: dict[tuple[str, str, str], Measurement] = {}
        for run in document["benchmarks"]:
            self._add(run)

        after = document["after"]
        self.scaling: list[dict[str, Any]] = after["scaling"]
        self.disturbed: dict[str, Any] = after["disturbed"]
        for key, one in self._by_key.items():
            one.doubts = self.disturbed["rows"].get("/".join(key), [])
        self.measurements = [m for m in self._by_key.values() if m.kernel != LIMIT]
        self._at: dict[tuple[str, str], list[Measurement]] = {}
        for one in self.measurements:
            self._at.setdefault((one.kernel, one.size), []).append(one)
        self.kernels = _unique(m.kernel for m in self.measurements)
        self.isas: list[str] = self.context["isas"].split(", ")  # weakest first
        # f32 lanes of a register, which turn the measured rate of multiply-adds into instructions per second.
        self.f32_lanes = {isa: int(self.context[f"f32_lanes_{isa}"]) for isa in self.isas}
        # By instruction set and resource: bytes per second of "load:L1", operations per second of "fma_f32".
        limits = after["limits"] or {}
        self.limits: dict[str, dict[str, float]] = {
            isa: {what: limits[isa][what] for what in RESOURCES if limits[isa].get(what)}
            for isa in self.isas
            if isa in limits
        }
        impls = _unique(m.impl for m in self.measurements)
        self.peers = [_peer(impl) for impl in impls if impl not in self.isas]
        self.libraries = _unique(peer.library for peer in self.peers)
        self._sizes = {
            kernel: _unique(m.size for m in self.measurements if m.kernel == kernel) for kernel in self.kernels
        }
        self._impls = {kernel: {m.impl for m in self.measurements if m.kernel == kernel} for kernel in self.kernels}

    @classmethod
    def read(cls, path: Path) -> Results:
        return cls(json.loads(path.read_text(encoding="utf-8")))

    def sizes(self, kernel: str) -> list[str]:
        return self._sizes[kernel]

    def size_at(self, kernel: str, level: str) -> str | None:
        """The size at which the benchmark's own table shows the memory level."""
        return next((s for s in (level, f"cols:1024:{level}", f"dim:128:{level}") if s in self._sizes[kernel]), None)

    def level_of(self, size: float) -> str:
        """The memory level that holds so many bytes, as the benchmark decides it."""
        sets = {level: self.context.get(f"working_set_{level}") for level in LEVELS}
        return next((level for level, one in sets.items() if one and size < 4 * float(one)), LEVELS[-1])

    def find(self, kernel: str, impl: str, size: str) -> Measurement | None:
        return self._by_key.get((kernel, impl, size))

    def at(self, kernel: str, size: str) -> list[Measurement]:
        return self._at.get((kernel, size), [])

    def strongest_isa(self, kernel: str) -> str | None:
        """The strongest set that was measured: those above it inherit the kernel."""
        return next((isa for isa in reversed(self.isas) if isa in self._impls[kernel]), None)

    def rivals(self, kernel: str, isa: str) -> list[Peer]:
        """The peers that rapt on `isa` is compared with: peers of the same set, and on the strongest set all."""
        here = [peer for peer in self.peers if peer.impl in self._impls[kernel]]
        return here if isa == self.strongest_isa(kernel) else [peer for peer in here if peer.isa == isa]

    def best_rival(self, kernel: str, isa: str, size: str) -> Measurement | None:
        found = [self.find(kernel, peer.impl, size) for peer in self.rivals(kernel, isa)]
        return min((m for m in found if m), key=lambda m: m.seconds, default=None)

    def best_ratio(self, kernel: str, isa: str, size: str) -> float | None:
        """The time of the best peer over that of rapt: above 1 rapt is faster."""
        own = self.find(kernel, isa, size)
        rival = self.best_rival(kernel, isa, size)
        return rival.seconds / own.seconds if own and rival else None

    def _add(self, run: dict[str, Any]) -> None:
        if run["run_type"] != "iteration":  # a mean or median of repetitions
            return
        key = tuple(run["run_name"].split("/", 2))
        one = self._by_key.setdefault(key, Measurement(*key))
        one.seconds_each.append(run["cpu_time"] * 1e-9)
        one.elements = run.get("elements", 0)
        one.bytes = run.get("bytes", 0)
        one.uops = run.get("uops", 0)
        one.flop = run.get("flop", 0)
        one.limit = run.get("limit_s", 0)
        one.binding = run.get("label", "")
        one.error = run.get("error")


def family(kernel: str) -> tuple[str, str]:
    """("softmax", "f32") of softmax_f32."""
    name, _, scalar_type = kernel.rpartition("_")
    return name, scalar_type


@dataclass(frozen=True)
class AttentionSize:
    """The parts of the name of a size of attention."""

    phase: str  # "prefill", "decode"
    shape: str  # "d64", "d64 causal", "8x8 d128"
    length: int  # tokens of a prefill, keys of a decode
    option: str  # "softcap", "packed", or empty


_ATTENTION_SIZE = re.compile(r"(?:(prefill):(d[\dv]+):t(\d+)|(decode):(\d+x\d+:d\d+):k(\d+))(:causal)?(?::(\w+))?")


def attention_size(size: str) -> AttentionSize | None:
    """None for sizes that have names, such as models."""
    found = _ATTENTION_SIZE.fullmatch(size)
    if not found:
        return None
    shape = (found[2] or found[5]).replace(":", " ") + (" causal" if found[7] else "")
    return AttentionSize(found[1] or found[4], shape, int(found[3] or found[6]), found[8] or "")


def neighbours(size: str, other: str) -> bool:
    """Whether the sizes differ only in a single number or in the memory level."""
    different = [(a, b) for a, b in zip(size.split(":"), other.split(":")) if a != b]
    if size.count(":") != other.count(":") or len(different) != 1:
        return False
    a, b = different[0]
    return (a in LEVELS and b in LEVELS) or (a not in LEVELS and re.sub(r"\d+", "#", a) == re.sub(r"\d+", "#", b))


def geometric_mean(values: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _peer(impl: str) -> Peer:
    library, _, isa = impl.rpartition("-")
    return Peer(impl, library, isa)
