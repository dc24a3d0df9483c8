"""rapt-attention: attention over .npy files, for comparisons with NumPy or PyTorch."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import os
import sys
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from . import attention, bits_version, force_isa, isa, version

_TENSORS = ("mask", "bias", "sinks", "alibi-slopes", "kv-lengths", "k-scales", "v-scales")
_NUMBERS = {"scale": float, "softcap": float, "window-left": int, "window-right": int, "window-chunk": int,
            "causal-offset": int, "scale-group": int}  # fmt: skip
_CAUSAL = ("bottom_right", "top_left")


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="rapt-attention",
        description="softmax(scale * q.kT) . v of .npy files, with the hash of the result's bytes",
        allow_abbrev=False,
    )
    for name in ("q", "k", "v"):
        result.add_argument(name, help=f"{name}.npy: [batch][heads][tokens][dim], with fewer dimensions or more heads")
    result.add_argument("-o", "--out", help="the result goes to this .npy file")
    result.add_argument("--lse", help="the log-sum-exp goes to this .npy file")
    result.add_argument(
        "--causal",
        nargs="?",
        const=_CAUSAL[0],
        choices=_CAUSAL,
        help="bottom_right (the last query sees the last key) if neither word follows",
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


def run(program: Callable[[], int]) -> int:
    """A program's status, and 1 without a traceback where nobody reads what it says, or the disk is full."""
    try:
        try:
            return program()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        # What Python writes at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"{os.path.basename(sys.argv[0])}: {error.strerror}", file=sys.stderr)
        return 1


def parsed(parser: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """parser.parse_args(). Some versions of argparse hide that the texts of --help and --version cannot be written."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            return parser.parse_args(arguments)
    finally:
        print(said.getvalue(), end="")


def attention_program() -> int:
    return run(main)


def main(arguments: Sequence[str] | None = None) -> int:
    given = vars(parsed(parser(), _with_causal(sys.argv[1:] if arguments is None else arguments)))
    options = {name: given[name] for name in ("causal", "arithmetic", "out_type") if given[name]}
    options |= {name: value for name in map(_field, _NUMBERS) if (value := given[name]) is not None}
    outputs = [_npy(file) if (file := given[name]) else None for name in ("out", "lse")]
    try:
        _check_outputs([file for file in outputs if file])
        options |= {name: _load(file) for name in map(_field, _TENSORS) if (file := given[name])}
        q, k, v = (_load(given[name]) for name in ("q", "k", "v"))
        if given["isa"]:
            force_isa(given["isa"])
        out, lse = attention(q, k, v, threads=given["threads"], return_lse=True, **options)
        for file, array in zip(outputs, (out, lse)):
            if file:
                np.save(file, array)
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except (MemoryError, OverflowError, TypeError, ValueError) as error:
        return _fail(str(error) or type(error).__name__)
    print(
        f"{hashlib.sha256(out.tobytes()).hexdigest()}  {out.dtype.name} {list(out.shape)} on {isa()}, bits {bits_version()}"
    )
    return 0


def _field(name: str) -> str:
    return name.replace("-", "_")


def _fail(message: str) -> int:
    print(f"rapt-attention: {message}", file=sys.stderr)
    return 1


def _with_causal(arguments: Sequence[str]) -> list[str]:
    """argparse would take the q of `--causal q k v` for the word that may follow --causal."""
    following = [*arguments[1:], ""]
    return [
        f"--causal={_CAUSAL[0]}" if word == "--causal" and after not in _CAUSAL else word
        for word, after in zip(arguments, following)
    ]


def _npy(file: str) -> str:
    return file if file.endswith(".npy") else f"{file}.npy"  # as np.save names it


def _check_outputs(files: list[str]) -> None:
    """Raises OSError for a file that cannot be written, before the work rather than after it."""
    if len({os.path.realpath(file) for file in files}) < len(files):
        raise ValueError(f"{files[0]} is named for both --out and --lse")
    for file in files:
        is_new = not os.path.lexists(file)
        with open(file, "ab"):
            pass
        if is_new:
            os.unlink(file)  # a failure later leaves no empty file


def _load(file: str) -> npt.NDArray[np.generic]:
    try:
        array = np.load(file)
    except OSError:
        raise
    except Exception as error:  # NumPy raises many types for a broken file, from EOFError to zipfile's own
        raise ValueError(f"{file} is not an .npy file: {error}") from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{file} is an archive of arrays, not an .npy file")
    return array
