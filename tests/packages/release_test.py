#!/usr/bin/env python3
"""The changelog and what repeats the version keep step with rapt.h, and published hashes with their release."""

import datetime
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
problems = []


def check(holds: object, problem: str) -> None:
    if not holds:
        problems.append(problem)


header = (ROOT / "include/rapt/rapt.h").read_text()
version = ".".join(re.findall(r"^#define RAPT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header, re.M))
soversion = version.rpartition(".")[0]
library_names = re.findall(r"librapt\.(?:so\.)?([0-9.]+[0-9])", (ROOT / "tests/python/test_library.py").read_text())
check(
    library_names and set(library_names) == {soversion},
    f"test_library.py names libraries {library_names}, rapt.h {version}",
)
bits = re.search(r"^#define RAPT_BITS_VERSION (\d+)", header, re.M)[1]

# Releases: every heading has its date but the newest, which gets it last.
headings = re.findall(r"^## .*", (ROOT / "CHANGELOG.md").read_text(), re.M)
releases = [
    re.fullmatch(r"## (\d+\.\d+\.\d+), bits (\d+), (not yet released|\d{4}-\d\d-\d\d)", line) for line in headings
]
newest = headings[0]
check(
    releases[0] and releases[0].groups()[:2] == (version, bits),
    f"CHANGELOG.md begins with '{newest}', rapt.h has {version}, bits {bits}",
)
for heading, release in zip(headings, releases):
    try:
        if heading != newest or not heading.endswith("not yet released"):
            datetime.date.fromisoformat(release[3])
    except (TypeError, ValueError):
        problems.append(f"CHANGELOG.md: '{heading}' is not version, bits, and the date of the release")


def git(*arguments: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True).stdout


def at_tag(tag: str, path: str) -> str:
    return git("show", f"{tag}:{path}")


# The hashes of a release are frozen. (A machine without git has no tags, nor has an exported tree.)
hashes = set((ROOT / "tests/validate/hashes.def").read_text().splitlines())
tags = git("tag", "--list", "v*").split() if shutil.which("git") else []
for tag in tags:
    if f"#define RAPT_BITS_VERSION {bits}\n" not in at_tag(tag, "include/rapt/rapt.h"):
        continue
    frozen = [line for line in at_tag(tag, "tests/validate/hashes.def").splitlines() if line.startswith("HASH(")]
    lost = sum(line not in hashes for line in frozen)
    check(lost == 0, f"{lost} of the hashes that {tag} published for bits {bits} have changed")

print("\n".join(problems) or f"release: version {version}, bits {bits}, {len(releases)} headings, {len(tags)} tags")
sys.exit(bool(problems))
