#!/usr/bin/env python3
"""Compares the numbers of README.md with the pages that have all of them: recordings of programs, and rows of speed."""
import pathlib
import re
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[1]
MOST_LINES = 190
RECORDINGS = ("src/manual/llama_cpp.md", "src/manual/pytorch.md")
# What rows of speed begin with, and the row of a page that has the number.
SPEEDS = {
    "attention, causal, 1024 tokens": (
        "bench/README.md",
        "| prefill, causal, 1024 tokens, 128 dimensions | {} | onednn |",
    ),
    "linear layer of 4096 inputs and outputs, 1024 rows": ("bench/README.md", "| 1024x4096x4096 | {} | openblas |"),
    "llama.cpp: a prompt of 512 tokens, Qwen 3.5 0.8B in q8_0": (
        "src/manual/llama_cpp.md",
        "| Qwen 3.5 0.8B, q8_0 | {} |",
    ),
    "sentence-transformers: sentences one by one": ("src/manual/pytorch.md", "| one by one | {} |"),
}


def problems_of(readme, pages):
    """Sentences that say what is wrong with the texts."""
    if len(lines := readme.splitlines()) > MOST_LINES:
        yield f"README.md has {len(lines)} lines, not {MOST_LINES} at most"
    blocks = re.findall(r"^```console\n(.*?)^```", readme, re.M | re.S)
    rows = [line for line in readme.splitlines() if re.search(r"\| [\d.]+ \| [\w-]+ \|( \d+%)? \|$", line)]
    if len(blocks) != 2 or len(rows) != 4:
        yield f"README.md has {len(blocks)} recordings and {len(rows)} rows of speed, not 2 and 4"
    if not any(float(row.split(" | ")[1]) < 1 for row in rows):
        yield "README.md has no row of speed below 1"
    for line in "".join(blocks).splitlines():
        if not line.startswith("$ ") and not any(f"\n{line}\n" in pages[page] for page in RECORDINGS):
            yield f"{' and '.join(RECORDINGS)} do not have: {line}"
    for row in rows:
        page, text = next(of for begin, of in SPEEDS.items() if row.startswith(f"| {begin}"))
        if text.format(row.split(" | ")[1]) not in pages[page]:
            yield f"{page} does not have: {row}"


def main():
    readme = (SOURCE / "README.md").read_text()
    pages = {page: (SOURCE / page).read_text() for page in (*RECORDINGS, "bench/README.md")}
    problems = list(problems_of(readme, pages))
    # The test can fail: without the pages it knows no number.
    if len(list(problems_of(readme, dict.fromkeys(pages, "")))) < 15:
        problems.append("numbers that no page has go unnoticed")
    for problem in problems:
        print(f"readme: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
