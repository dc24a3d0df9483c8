#!/usr/bin/env python3
"""Compares the minutes that texts name with those of minutes.csv, which were measured.

Each row of minutes.csv is a command on a machine, as tests/run and bench/run print it when they end. A text names the
minutes of the slowest machine, where it does not name a limit. A line about minutes that CLAIMS does not know fails too.
"""
import csv
import pathlib
import re
import sys

from line_width import paragraphs

TESTS = pathlib.Path(__file__).resolve().parent
ABOUT = 0.2  # what "about" may be off
WORDS = {"a": 1, "half an hour": 30}
WORDS |= {w: n for n, w in enumerate("two three four five six seven eight nine ten eleven twelve".split(), 2)}

# A text about minutes that says nothing about a command of minutes.csv.
OTHER = r"prints CPU-minutes per row|minutes\.csv|the minutes that texts name|pip install|gcc 12 on a Zen 5|^rapt-validate |published ones.*, in half a minute"

# File, text with the number as a group, the row's command and column, and whether the number is a limit.
CLAIMS = [
    ("README.md", r"bench/run +# .* in about (\w+) minutes", "./bench/run", "minutes", False),
    ("README.md", r"tests/run +# .* in about (\w+)", "./tests/run", "minutes", False),
    ("bench/run", r"repetitions: (\w+) minutes instead of \w+", "./bench/run --quick", "minutes", False),
    ("bench/run", r"repetitions: \w+ minutes instead of (\w+)", "./bench/run", "minutes", False),
    ("src/manual/validating.md", r"it takes about (\w+) minutes on two cores", "./tests/run", "minutes", False),
    ("src/manual/validating.md", r"takes (half an hour) together with a short", ".ci/run", "minutes", True),
    (".ci/run", r"integration in (half an hour)", ".ci/run", "minutes", True),
    ("CONTRIBUTING.md", r"`tests/run` \|.*\| (\d+) CPU-minutes,", "./tests/run", "cpu_minutes", True),
    ("CONTRIBUTING.md", r"`tests/run --ci` \|.*\| (\d+) CPU-minutes", "./tests/run --ci", "cpu_minutes", True),
]


def problems_of(rows, texts):
    """Sentences that say what is wrong. `rows` are those of minutes.csv, `texts` the files' lines by their names."""
    known = set()
    for name, pattern, command, column, is_limit in CLAIMS:
        found = [(line, m.group(1)) for line in texts[name] if (m := re.search(pattern, line))]
        known.update((name, line) for line, _ in found)
        if len(found) != 1:
            yield f"{name} has {len(found)} lines like: {pattern}"
            continue
        measured = max((float(row[column]) for row in rows if row["command"] == command), default=None)
        word = found[0][1]
        claimed = WORDS.get(word) or float(word)
        if measured is None:
            yield f"minutes.csv has no {command}, of which {name} says {word}"
        elif measured > claimed * (1 if is_limit else 1 + ABOUT) or (not is_limit and measured < claimed * (1 - ABOUT)):
            yield f"{name} says {word}, and minutes.csv {measured:g}: {column} of {command}"
    for name, lines in texts.items():
        for line in lines:
            if (
                re.search(r"\b[Mm]inutes?\b|half an hour", line)
                and (name, line) not in known
                and not re.search(OTHER, line)
            ):
                yield f"{name} has minutes that no row of CLAIMS judges: {line}"


def read():
    with open(TESTS / "minutes.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    names = sorted({claim[0] for claim in CLAIMS})
    return rows, {name: sentences_of(TESTS.parent / name) for name in names}


def sentences_of(path):
    """The lines of a file, of a page with each paragraph in one."""
    lines = path.read_text().splitlines()
    for begin, end in reversed(list(paragraphs(lines)) if path.suffix == ".md" else []):
        lines[begin:end] = [" ".join(line.strip() for line in lines[begin:end])]
    return lines


def main():
    rows, texts = read()
    problems = list(problems_of(rows, texts))
    # The test can fail: a machine that takes three times as long is one that no text names.
    slow = [row | {"minutes": 3 * float(row["minutes"]), "cpu_minutes": 3 * float(row["cpu_minutes"])} for row in rows]
    if len(list(problems_of(slow, texts))) < len(CLAIMS):
        problems.append("a machine that takes three times as long goes unnoticed")
    for problem in problems:
        print(f"minutes: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
