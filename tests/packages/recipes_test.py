#!/usr/bin/env python3
"""The recipes and the changelog keep step with the checkout: versions, options, and the files that recipes take."""

import ast
import datetime
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECIPES = ROOT / "cmake" / "recipes"
problems = []


def check(holds: object, problem: str) -> None:
    if not holds:
        problems.append(problem)


port = json.loads((RECIPES / "vcpkg/vcpkg.json").read_text())
recipes = {path: path.read_text() for path in sorted(RECIPES.rglob("*")) if path.suffix in (".py", ".json", ".cmake")}
for path, text in recipes.items():
    if path.suffix == ".py":
        ast.parse(text, str(path))
spack = recipes[RECIPES / "spack/packages/rapt/package.py"]
conan = recipes[RECIPES / "conan/conanfile.py"]

header = (ROOT / "include/rapt/rapt.h").read_text()
version = ".".join(re.findall(r"^#define RAPT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header, re.M))
check(port["version-semver"] == version, f"vcpkg.json has version {port['version-semver']}, rapt.h {version}")
for stated in re.findall(r'version\("([0-9.]+)"|rapt@([0-9.]+)', spack):
    stated = stated[0] or stated[1]
    check(stated == version, f"package.py has version {stated}, rapt.h {version}")
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

cmake = "\n".join(path.read_text() for path in [ROOT / "CMakeLists.txt", *sorted((ROOT / "cmake").glob("*.cmake"))])
options = set(re.findall(r"option\((\w+)", cmake)) | set(re.findall(r"set\((\w+) [^)]* CACHE ", cmake))
for path, text in recipes.items():
    for name in re.findall(r"RAPT_[A-Z0-9_]+|BUILD_SHARED_LIBS", text):
        if not name.startswith("RAPT_VERSION"):
            check(name in options, f"{path.relative_to(ROOT)} names {name}, which is no option of the build")

# Conan copies a part of the checkout: the folders of tests/ that it takes include no others.
taken = set(re.findall(r'"tests/(\w+)/', conan))
for folder in sorted(taken):
    for path in sorted((ROOT / "tests" / folder).glob("*.[ch]pp")):
        for other in re.findall(r'^#include "(\w+)/', path.read_text(), re.M):
            if (ROOT / "tests" / other).is_dir():
                check(
                    other in taken,
                    f"conanfile.py takes tests/{folder} without tests/{other}, which {path.name} includes",
                )

print("\n".join(problems) or f"recipes: version {version}, {len(recipes)} files")
sys.exit(bool(problems))
