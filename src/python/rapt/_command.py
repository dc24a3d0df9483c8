"""rapt-attention: attention over .npy files, for comparisons with NumPy or PyTorch."""

from __future__ import annotations

import argparse
import hashlib
import sys

import numpy as np

from . import attention, bits_version, force_isa, isa, version

_TENSORS = ("mask", "bias", "sinks", "alibi-slopes", "kv-lengths", "k-scales", "v-scales")
_NUMBERS = {"scale": float, "softcap": float, "window-left": int, "window-right": int, "window-chunk": int,
            "causal-offset": int, "scale-group": int}  # fmt: skip


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="rapt-attention",
        description="softmax(scale * q.kT) . v of .npy files, with the hash of the result's bytes",
    )
    for name in ("q", "k", "v"):
        result.add_argument(name, help=f"{name}.npy: [batch][heads][tokens][dim], with fewer dimensions or more heads")
    result.add_argument("-o", "--out", help="the result goes to this .npy file")
    result.add_argument("--lse", help="the log-sum-exp goes to this .npy file")
    result.add_argument(
        "--causal",
        nargs="?",
        const="bottom_right",
        choices=["bottom_right", "top_left"],
        help="bottom_right (the last query sees the last key) if no word follows",
    )
    for name in _TENSORS:
        result.add_argument(f"--{name}", metavar="FILE", help=f"{name.replace('-', '_')}, a .npy file")
    for name, kind in _NUMBERS.items():
        result.add_argument(f"--{name}", type=kind, metavar=kind.__name__)
    result.add_argument("--arithmetic", choices=["f32", "bf16"])
    result.add_argument("--out-type", choices=["f32", "f16", "bf16"])
    result.add_argument("--threads", type=int, help="all CPUs if absent; the bits do not depend on it")
    result.add_argument("--isa", help="an instruction-set level, such as avx2")
    result.add_argument("--version", action="version", version=f"rapt {version()}, bits {bits_version()}")
    return result


def main(arguments: list[str] | None = None) -> int:
    given = vars(parser().parse_args(arguments))
    options = {name: given[name] for name in ("causal", "arithmetic", "out_type") if given[name]}
    options |= {name: value for name in map(_field, _NUMBERS) if (value := given[name]) is not None}
    try:
        options |= {name: np.load(file) for name in map(_field, _TENSORS) if (file := given[name])}
        tensors = [np.load(given[name]) for name in ("q", "k", "v")]
        if given["isa"]:
            force_isa(given["isa"])
        out, lse = attention(*tensors, threads=given["threads"], return_lse=True, **options)
    except (OSError, TypeError, ValueError) as error:
        print(f"rapt-attention: {error}", file=sys.stderr)
        return 1
    for file, array in ((given["out"], out), (given["lse"], lse)):
        if file:
            np.save(file, array)
    print(
        f"{hashlib.sha256(out.tobytes()).hexdigest()}  {out.dtype.name} {list(out.shape)} on {isa()}, bits {bits_version()}"
    )
    return 0


def _field(name: str) -> str:
    return name.replace("-", "_")
