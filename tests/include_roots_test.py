#!/usr/bin/env python3
"""No folder of this project where a compiler looks for <...> holds a program, or a file with the name of a standard header.

usage: include_roots_test.py ROOT COMPILE_COMMANDS COMPILER
Such a file would be found in place of the header: `format`, a script, as <format>. Folders that hold programs are searched only
for "..." (-iquote).
"""
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

# C++26 and C23, because a compiler may lack headers that the next one has.
CXX = """algorithm any array atomic barrier bit bitset cassert ccomplex cctype cerrno cfenv cfloat charconv chrono cinttypes
ciso646 climits clocale cmath codecvt compare complex concepts condition_variable contracts coroutine csetjmp csignal cstdalign
cstdarg cstdbool cstddef cstdint cstdio cstdlib cstring ctgmath ctime cuchar cwchar cwctype debugging deque exception execution
expected filesystem flat_map flat_set format forward_list fstream functional future generator hazard_pointer hive inplace_vector
initializer_list iomanip ios iosfwd iostream istream iterator latch limits linalg list locale map mdspan memory memory_resource
meta mutex new numbers numeric optional ostream print queue random ranges ratio rcu regex scoped_allocator semaphore set
shared_mutex simd source_location span spanstream sstream stack stacktrace stdexcept stdfloat stop_token streambuf string
string_view strstream syncstream system_error text_encoding thread tuple type_traits typeindex typeinfo unordered_map
unordered_set utility valarray variant vector version""".split()
C = """assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbit
stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar wchar wctype""".split()
FOLDER_FLAGS = ("-I", "-isystem", "-idirafter", "-iquote")


def headers_of(compiler: str) -> set[str]:
    """The headers that this compiler finds without a folder in their name: POSIX's too."""
    command = [*shlex.split(compiler), "-x", "c++", "-E", "-v", os.devnull]
    said = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}).stderr
    folders = re.search(r"#include <\.\.\.> search starts here:\n(.*)End of search list", said, re.S)
    files = (path for folder in folders[1].split("\n") if folder.strip() for path in Path(folder.strip()).iterdir())
    return {path.name for path in files if path.is_file()}


def folders_of(words: list[str], where: Path):
    """(flag, folder) of each folder that a command searches for headers."""
    for word, following in zip(words, [*words[1:], ""]):
        for flag in FOLDER_FLAGS:
            if word.startswith(flag):
                yield flag, (where / (word[len(flag) :] or following)).resolve()


def main() -> int:
    root, commands, compiler = Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3]
    if not commands.exists():
        print("skipped: CMake's generator writes no compile_commands.json")
        return 0
    standard = {*CXX, *(f"{name}.h" for name in C), *headers_of(compiler)}
    folders = set(folders_of((root / "compile_flags.txt").read_text().split(), root))
    for command in {(entry["command"], entry["directory"]) for entry in json.loads(commands.read_text())}:
        folders.update(folders_of(shlex.split(command[0]), Path(command[1])))
    searched = sorted({folder for flag, folder in folders if flag != "-iquote" and folder.is_relative_to(root)})
    problems = [f"{folder} is not searched" for folder in (root / "include", root / "src") if folder not in searched]
    for path in (path for folder in searched if folder.is_dir() for path in folder.iterdir()):
        if path.name.lower() in standard:  # some file systems ignore case
            problems.append(f"{path} would be <{path.name.lower()}>")
        elif path.is_file() and os.access(path, os.X_OK):
            problems.append(f"{path} is a program in a folder that is searched for <...>")
    print("\n".join(problems))
    print(f"include roots: {', '.join(str(folder.relative_to(root)) for folder in searched)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
