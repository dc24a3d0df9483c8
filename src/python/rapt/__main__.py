"""python -m rapt: what runs here."""

from __future__ import annotations

import argparse
import os
import sys

from . import bits_version, isa, isa_status, isas, version
from ._command import parsed, run
from ._library import C
from ._threads import thread_count


def report() -> str:
    levels = isas()
    rows = {
        "rapt": f"{version()}, bits {bits_version()}",
        "levels": ", ".join(f"{name} (chosen)" if name == isa() else name for name in levels if levels[name]),
        "not usable": ", ".join(name for name in levels if not levels[name]),
        "warning": isa_status(),
        "threads": f"{thread_count(None)} with threads=None",
        "library": os.path.realpath(C._name),
    }
    return "\n".join(f"{name:10}  {text}" for name, text in rows.items() if text)


def main() -> int:
    description = "says the version, the instruction-set levels, the threads and the library"
    parsed(argparse.ArgumentParser(prog="python -m rapt", description=description))
    print(report())
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
