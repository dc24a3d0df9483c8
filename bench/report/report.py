"""Turns the benchmark's JSON into one self-contained page: python3 bench/report/report.py results.json report.html"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(description="Turns the benchmark's JSON into one self-contained HTML page.")
    parser.add_argument("results", type=Path, help="a file that rapt_bench --json wrote")
    parser.add_argument("page", type=Path, help="the HTML file to write")
    arguments = parser.parse_args()
    sys.dont_write_bytecode = True  # the source tree stays as it is
    try:
        # Imported after the options are parsed: --help needs no matplotlib.
        from data import Results
        from page import render
    except ModuleNotFoundError as error:
        if error.name not in ("matplotlib", "numpy"):
            raise
        print("report.py: matplotlib is missing (Debian: python3-matplotlib)", file=sys.stderr)
        return 1
    try:
        results = Results.read(arguments.results)
    except (OSError, ValueError, KeyError) as error:
        print(f"report.py: {arguments.results}: {error!r}", file=sys.stderr)
        return 1
    page = render(results)
    try:
        arguments.page.write_text(page, encoding="utf-8")
    except OSError as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
