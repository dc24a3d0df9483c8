#!/usr/bin/env python3
"""Names the functions of the levels that a run of a program never enters, and counts the blocks that it never runs.

coverage.py [--blocks FILE] [--except FILE [--every-level]] [--count REGEX] [--tuning NAME]... LEVEL_OBJECT...
            -- PROGRAM [ARGUMENT...]

A breakpoint is planted at every function, or with --blocks at every basic block, of the levels' code in the program. Each
is taken away when the program meets it, so that the program runs at its usual speed. Those that are left were never met.
Nothing is built for it: it judges the code that users run. It needs an x86-64 Linux that lets it trace the program (else
the exit status is 77), and levels that the linker has closed: their objects rapt_<level>.o tell which code is whose.

--count names the functions that match, such as the ways of attention, and how often each is entered. With the one case of
rapt-validate --case it says which way that call goes.

--tuning runs the program with RAPT_TUNING, once for each name: a function is entered if one of these runs enters it.

FILE of --blocks takes the blocks that never ran, each as "LEVEL ADDRESS FUNCTION + OFFSET".
FILE of --except has a line for functions that no run can enter: "NAME: why", with the name up to its last template argument
or parameter. Whether such code is a function at all is the compiler's choice, so that a line may match none.

--every-level says that the objects are all levels of the processor.

The exit status is 1 if a level that the program can run has a function that is never entered, and is no exception; if the CPU
runs every level of --every-level, and each enters an exception; or if a line has a word that is in no source.
"""
import argparse
import bisect
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys

BREAKPOINT = b"\xcc"
NOT_TRACED = 77
RIP = 16 * 8  # in struct user
TRACE_ME, PEEK_USER, POKE_USER, CONTINUE, STEP = 0, 3, 6, 7, 9
MOST_COUNTED = 1000
JUMP = re.compile(r"\s*([0-9a-f]+):\s+(j\w+)\s+(?:\*|([0-9a-f]+) )?")
ptrace = ctypes.CDLL(None, use_errno=True).ptrace
ptrace.argtypes = [ctypes.c_long] * 4
ptrace.restype = ctypes.c_long


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def functions_of(objdump, path):
    """(address, size, name) of each function in .text, by address."""
    rows = re.findall(
        r"^([0-9a-f]+) .{6}F \.text\t([0-9a-f]+) +(?:\.hidden )?(\S+)$", output(objdump, "-t", path), re.M
    )
    return sorted((int(address, 16), int(size, 16), name) for address, size, name in rows)


def place_in(program, level):
    """The functions of a level, at their places in the program."""
    first, _, name = level[0]
    names = {(address, name) for address, _, name in program}
    bases = [address - first for address, _, other in program if other == name]
    found = [base for base in bases if all((address + base, name) in names for address, _, name in level)]
    if len(found) != 1:
        sys.exit(f"The code of a level that begins with {name} is {len(found)} times in the program.")
    return [(address + found[0], size, name) for address, size, name in level]


def blocks_of(objdump, path, functions):
    """The addresses of the basic blocks of neighbouring functions."""
    begin, end = functions[0][0], functions[-1][0] + functions[-1][1]
    blocks, after_branch = {address for address, _, _ in functions}, False
    text = output(objdump, "-d", "--no-show-raw-insn", f"--start-address={begin}", f"--stop-address={end}", path)
    for line in text.splitlines():
        if after_branch:
            blocks.add(int(line.partition(":")[0], 16))
        jump = JUMP.match(line)
        after_branch = bool(jump) and jump[2] != "jmp"
        if jump and jump[3] and begin <= int(jump[3], 16) < end:
            blocks.add(int(jump[3], 16))
    return blocks


def base_address(process, program):
    """The address at which the program is loaded: 0 if it is not position-independent."""
    header = pathlib.Path(program).read_bytes()[:18]
    for line in pathlib.Path(f"/proc/{process}/maps").read_text().splitlines():
        if line.endswith(os.path.realpath(program)):
            return int(line.split("-")[0], 16) if header[16] == 3 else 0
    sys.exit(f"{program} is not in memory")


def run(command, addresses, counts):
    """Runs the command; returns the addresses that it did not meet. counts: of addresses that are met again, up to a limit."""
    process = os.fork()
    if process == 0:
        if ptrace(TRACE_ME, 0, 0, 0) != 0:
            os._exit(NOT_TRACED)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execv(command[0], command)
    _, status = os.waitpid(process, 0)
    if os.WIFEXITED(status):
        print("skipped: this system lets no program trace another")
        sys.exit(NOT_TRACED)
    base = base_address(process, command[0])
    left = {}
    with open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:

        def write(address, byte):
            memory.seek(address)
            memory.write(byte)

        for address in addresses:
            memory.seek(base + address)
            left[base + address] = memory.read(1)
            write(base + address, BREAKPOINT)
        passed = 0
        while True:
            ptrace(CONTINUE, process, 0, passed)
            _, status = os.waitpid(process, 0)
            if not os.WIFSTOPPED(status):
                break
            passed = os.WSTOPSIG(status)
            at = ptrace(PEEK_USER, process, RIP, 0) - 1
            if passed == signal.SIGTRAP and at in left:
                again = counts.get(at - base, MOST_COUNTED) + 1
                write(at, left[at])
                ptrace(POKE_USER, process, RIP, at)
                passed = 0
                if again < MOST_COUNTED:
                    ptrace(STEP, process, 0, 0)
                    _, status = os.waitpid(process, 0)
                    write(at, BREAKPOINT)
                else:
                    del left[at]
                if at - base in counts:
                    counts[at - base] = again
    if status != 0:
        sys.exit(f"{' '.join(command)} has failed: status {status:#x}")
    return {address - base for address in left if not counts.get(address - base)}


def names_of(functions):
    names = subprocess.run(
        ["c++filt"], input="\n".join(f[2] for f in functions), stdout=subprocess.PIPE, text=True, check=True
    ).stdout.splitlines()
    return [name.replace("(anonymous namespace)::", "").replace("rapt::", "") for name in names]


class Unentered:
    """NAME: why"""

    def __init__(self, line):
        self.name = re.match(r"(.+): [^:]+$", line)[1]
        self.exists = self.holds = False


def read_exceptions(path):
    lines = path.read_text().splitlines() if path else []
    return [Unentered(line) for line in lines if not line.startswith("#")]


def judge(level, names, missed, exceptions):
    """Prints the functions of a level that are no exceptions; returns how many."""
    for exception in exceptions:
        exception.exists |= any(exception.name in name for name in names)
        exception.holds |= any(exception.name in name for name in missed)
        missed = [name for name in missed if exception.name not in name]
    for name in missed:
        print(f"{level}: never entered: {name}")
    return len(missed)


def main():
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    command = sys.argv[at + 1 :]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--except", dest="exceptions", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--every-level", action="store_true")
    parser.add_argument("--count", metavar="REGEX")
    parser.add_argument("--tuning", action="append", metavar="NAME")
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("objects", nargs="+", type=pathlib.Path, metavar="LEVEL_OBJECT")
    options = parser.parse_args(sys.argv[1:at])
    program = functions_of(options.objdump, command[0])
    listed = output(command[0], "--list").splitlines()[0]
    levels = {}
    for path in options.objects:
        level = path.stem.removeprefix("rapt_")
        if re.search(rf"\b{level}\b(?! \(not usable)", listed):
            levels[level] = place_in(program, functions_of(options.objdump, path))
    points = {
        level: blocks_of(options.objdump, command[0], functions) if options.blocks else {f[0] for f in functions}
        for level, functions in levels.items()
    }
    counts, counted = {}, []
    for level, functions in levels.items():
        for (address, *_), name in zip(functions, names_of(functions)):
            if options.count and re.search(options.count, name):
                counted.append((level, name.partition("(")[0], address))
                counts[address] = 0
    left = set().union(*points.values())
    for tuning in options.tuning or [None]:
        if tuning:
            os.environ["RAPT_TUNING"] = tuning
        left = run(command, left | {address for address, count in counts.items() if count < MOST_COUNTED}, counts)
    for level, name, address in counted:
        print(f"{level}: {counts[address]}{' or more' if counts[address] == MOST_COUNTED else ''} times {name}")

    wrong, exceptions, blocks = 0, read_exceptions(options.exceptions), []
    for level, functions in levels.items():
        missed = [f for f in functions if f[0] in left]
        begins, names = [f[0] for f in functions], names_of(functions)
        wrong += judge(level, names, names_of(missed), exceptions)
        for address in sorted(points[level] & left):
            index = bisect.bisect(begins, address) - 1
            blocks.append(f"{level} {address:#x} {names[index]} + {address - begins[index]:#x}\n")
        share = 1 - len(points[level] & left) / len(points[level])
        what = "blocks" if options.blocks else "entries of functions"
        print(
            f"{level}: {len(functions)} functions, {len(missed)} never entered; "
            f"{share:.1%} of {len(points[level])} {what} run"
        )
    # Only some levels have some of the exceptions.
    for exception in exceptions if options.every_level and len(levels) == len(options.objects) else []:
        if exception.exists and not exception.holds:
            print(f"{exception.name} is entered on every level, and no exception")
            wrong += 1
    sources = pathlib.Path(__file__).resolve().parents[2] / "src"
    words = {word for path in sources.rglob("*.[hcd]*p*") for word in re.findall(r"\w+", path.read_text())}
    for exception in exceptions:
        for word in re.findall(r"\b[A-Za-z_]\w{3,}", exception.name):
            if word not in words:
                print(f"{exception.name}: no source has {word}")
                wrong += 1
    if options.blocks:
        options.blocks.write_text("".join(blocks))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
