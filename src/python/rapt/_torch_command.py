"""python -m rapt.torch: a program of PyTorch under enable()."""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from collections.abc import Sequence
from typing import Any

from . import _torch_cpp
from ._command import run
from ._torch_children import VARIABLE, value_for
from ._torch_enable import enable, report


class Instead(argparse.Action):
    """An option that needs no program: it calls `const`, and ends."""

    def __init__(self, **options: Any) -> None:
        super().__init__(nargs=0, **options)

    def __call__(self, *_: Any) -> None:
        self.const()
        sys.exit(0)


def build() -> None:
    print(_torch_cpp.build())


def demo() -> None:
    from ._torch_demo import demo

    demo()


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m rapt.torch",
        description="runs a Python program whose operators of PyTorch on the CPU are computed by rapt",
        allow_abbrev=False,
    )
    result.add_argument("--strict", action="store_true", help="an operator that rapt lacks ends the program")
    result.add_argument("--no-pack", action="store_true", help="weights are not copied into the layout of rapt")
    result.add_argument("--report", action="store_true", help="says at the end what was called, on stderr")
    result.add_argument(
        "--build", action=Instead, const=build, help="compiles the kernels in C++ for this PyTorch, and ends"
    )
    result.add_argument(
        "--demo", action=Instead, const=demo, help="shows a small model's answers on this machine, and ends"
    )
    result.add_argument("-m", dest="is_module", action="store_true", help="the program is the name of a module")
    result.add_argument("program", help="a file, or with -m a module")
    result.add_argument("arguments", nargs=argparse.REMAINDER, help="the program's own")
    return result


def report_text() -> str:
    lines = []
    for kind, calls in report()._asdict().items():
        lines += [
            f"{kind:10}  {count:9}  {name}" for name, count in sorted(calls.items(), key=lambda row: -int(row[1]))
        ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    os.environ[VARIABLE] = value_for(given.strict)
    enable(strict=given.strict, pack=not given.no_pack)
    sys.argv = [given.program, *given.arguments]
    try:
        if given.is_module:
            sys.path.insert(0, os.getcwd())
            runpy.run_module(given.program, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.abspath(given.program)))
            runpy.run_path(given.program, run_name="__main__")
    finally:
        if given.report:
            print(report_text(), file=sys.stderr)
    return 0


def command() -> int:
    return run(main)
