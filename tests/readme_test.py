#!/usr/bin/env python3
"""Compares the numbers of README.md with the pages that have all of them: recordings of programs, and rows of speed."""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
MOST_LINES = 190
RECORDINGS = ("src/manual/llama_cpp.md", "src/manual/pytorch.md")
SPEEDS = "bench/README.md"


def problems_of(readme, recordings, speeds):
    """Sentences that say what is wrong with the texts."""
    if len(lines := readme.splitlines()) > MOST_LINES:
        yield f"README.md has {len(lines)} lines, not {MOST_LINES} at most"
    blocks = re.findall(r"^```console\n(.*?)^```", readme, re.M | re.S)
    rows = [line for line in readme.splitlines() if re.search(r"\| [\d.]+ \| \w+ \| \d+% \|$", line)]
    if len(blocks) != 2 or len(rows) != 4:
        yield f"README.md has {len(blocks)} recordings and {len(rows)} rows of speed, not 2 and 4"
    if not any(float(row.split(" | ")[1]) < 1 for row in rows):
        yield "README.md has no row of speed below 1"
    for line in "".join(blocks).splitlines():
        if not line.startswith("$ ") and f"\n{line}\n" not in recordings:
            yield f"{' and '.join(RECORDINGS)} do not have: {line}"
    for row in rows:
        if row[row.index(" | ") :] not in speeds:
            yield f"{SPEEDS} does not have: {row}"


def main():
    readme = (SOURCE / "README.md").read_text()
    recordings = "".join((SOURCE / page).read_text() for page in RECORDINGS)
    speeds = (SOURCE / SPEEDS).read_text()
    problems = list(problems_of(readme, recordings, speeds))
    # The test can fail: without the pages it knows no number.
    if len(list(problems_of(readme, "", ""))) < 16:
        problems.append("numbers that no page has go unnoticed")
    for problem in problems:
        print(f"readme: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
