#!/usr/bin/env python3
"""The recipes and the changelog keep step with the checkout: versions, options, and the files that recipes take."""

import ast
import json
import re
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
bits = re.search(r"^#define RAPT_BITS_VERSION (\d+)", header, re.M)[1]
newest = re.search(r"^## .*", (ROOT / "CHANGELOG.md").read_text(), re.M)[0]
check(newest == f"## {version}, bits {bits}", f"CHANGELOG.md begins with '{newest}', rapt.h has {version}, bits {bits}")

cmake = "\n".join(path.read_text() for path in [ROOT / "CMakeLists.txt", *sorted((ROOT / "cmake").glob("*.cmake"))])
options = set(re.findall(r"option\((\w+)", cmake)) | set(re.findall(r"set\((\w+) [^)]* CACHE ", cmake))
for path, text in recipes.items():
    for name in re.findall(r"RAPT_[A-Z0-9_]+|BUILD_SHARED_LIBS", text):
        if not name.startswith("RAPT_VERSION"):
            check(name in options, f"{path.relative_to(ROOT)} names {name}, which is no option of the build")

# Conan copies a part of the checkout: the folders of tests/ that it takes include no others.
taken = set(re.findall(r'"tests/(\w+)/\*"', conan))
for folder in sorted(taken):
    for path in sorted((ROOT / "tests" / folder).glob("*.[ch]pp")):
        for other in re.findall(r'^#include "(\w+)/', path.read_text(), re.M):
            if (ROOT / "tests" / other).is_dir():
                check(other in taken, f"conanfile.py takes tests/{folder} without tests/{other}, which {path.name} includes")

print("\n".join(problems) or f"recipes: version {version}, {len(recipes)} files")
sys.exit(bool(problems))
