"""Made-up results of the benchmark."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "report"))

ELEMENTS = 1000


def document(
    rows: dict[str, list[float]], doubts: dict[str, list[str]] | None = None, partial: bool = True, **context: str
) -> dict[str, Any]:
    """Rows by name, each with the nanoseconds of its repetitions. Limits are 100 ns; each row has more elements than the last."""
    doubts = doubts or {}
    return {
        "context": {
            "date": "2030-01-01", "num_cpus": 2, "mhz_per_cpu": 2000, "cpu_name": "Made Up", "pinned_cpu": "0",
            "clock_ghz": "3.0", "isas": "scalar, avx2", "f32_lanes_scalar": "1", "f32_lanes_avx2": "8", "peers": "", "rapt_version": "9.9.9", "commit": "abc",
            "compiler": "gcc 12", "load_avg": [0.1], "working_set_L1": "16384", "working_set_L2": "524288",
            "working_set_L3": "4194304", "working_set_mem": "268435456", **context,
        },
        "benchmarks": [
            {
                "run_name": name, "name": name, "run_type": "iteration", "repetition_index": i, "time_unit": "ns",
                "cpu_time": time, "real_time": time, "elements": ELEMENTS * row, "bytes": 8 * ELEMENTS * row, "uops": 100,
                "limit_s": 100e-9, "label": "L1 copy",
            }
            for row, (name, times) in enumerate(rows.items(), 1)
            for i, time in enumerate(times)
        ],
        "after": {
            "limits": {"avx2": {"fma_f32": 1e11, "load:L1": 2e11, "copy:L1": 1e11}},
            "scaling": [],
            "run": {
                "partial": partial, "skipped": ["avx512 (made up)"], "repetitions": 4, "min_time": 0.015, "load": 0.1,
                "cpu_count": 2, "caches": {"L1d": 32768, "L2": 1048576, "L3": 8388608},
            },
            "disturbed": {
                "verdict": "disturbed" if doubts else "quiet",
                "reasons": {"share": {"count": len(doubts), "meaning": "made up"}} if doubts else {},
                "rows": doubts,
                "limits": [],
            },
        },
    }  # fmt: skip


def write(path: Path, *arguments: Any, **context: Any) -> Path:
    path.write_text(json.dumps(document(*arguments, **context)), encoding="utf-8")
    return path
