#!/usr/bin/env python3
"""Every header of src/ compiles alone, by the flags of .clangd and compile_flags.txt, as an editor parses it.

usage: headers_alone_test.py ROOT COMPILER TARGET AARCH64-COMPILER GGML
COMPILER compiles for TARGET, x86_64 or aarch64. AARCH64-COMPILER may be empty: NEON's headers are then named as skipped. So are
those of src/ggml, if GGML, the folder of a llama.cpp tree, is empty.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
from pathlib import Path


def fragments(text: str):
    """(PathMatch, PathExclude, flags) of each fragment. Reads the form that .clangd has: one line for each entry."""
    for fragment in text.split("\n---\n"):
        entries = dict(re.findall(r"^  (\w+): (.*)$", fragment, re.M))
        yield entries["PathMatch"], entries.get("PathExclude"), entries["Add"].strip("[]").split(", ")


def flags_of(path: str, rules) -> list[str]:
    flags = []
    for match, exclude, add in rules:
        if re.fullmatch(match, path) and not (exclude and re.fullmatch(exclude, path)):
            flags += add
    return flags


def main() -> int:
    root, native, target, aarch64, ggml = Path(sys.argv[1]), *sys.argv[2:]
    rules = list(fragments((root / ".clangd").read_text()))
    folders = (root / "compile_flags.txt").read_text().split()
    compilers = {"aarch64": aarch64, target: native}
    headers = sorted(str(path.relative_to(root)) for path in (root / "src").rglob("*.hpp"))
    skipped = []

    def errors(header: str) -> str:
        flags = flags_of(header, rules)
        if header.startswith("src/ggml/"):
            if not ggml:
                skipped.append(header)
                return ""
            flags += ["-isystem", f"{ggml}/ggml/include", "-isystem", f"{ggml}/ggml/src"]
        of_target = [flag.split("=")[1].split("-")[0] for flag in flags if flag.startswith("--target=")]
        compiler = compilers.get(of_target[0] if of_target else target)
        if not compiler:
            skipped.append(header)
            return ""
        flags = [flag for flag in flags if not flag.startswith("--target=")]
        command = [*compiler.split(), "-fsyntax-only", "-x", "c++", *folders, *flags, header]
        return subprocess.run(command, cwd=root, capture_output=True, text=True).stderr

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = [f"{header}:\n{text}" for header, text in zip(headers, pool.map(errors, headers)) if "error:" in text]
    print("\n".join(failed))
    if skipped:
        print(f"skipped: {len(skipped)} headers: no compiler for their architecture, or no headers of ggml")
    print(f"headers alone: {len(headers) - len(skipped) - len(failed)} of {len(headers)} compile")
    return 1 if failed or len(headers) == len(skipped) else 0


if __name__ == "__main__":
    sys.exit(main())
