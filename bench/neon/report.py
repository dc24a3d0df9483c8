#!/usr/bin/env python3
"""Instructions per kernel call and the modelled share of a core, NEON next to AVX2. bench/neon/run starts it.

  report.py BUILD MCA      BUILD has calls-neon, calls-avx2 and their plugins; MCA is llvm-mca

A call's instructions are those of two calls less those of one. Its hot loop is the innermost loop that ran most of them.
The instructions that ran in at least half of the loop's rounds go to llvm-mca, in the order of addresses:

  share = floating-point operations on vectors / units of the core that execute them / modelled cycles
"""

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "audit"))
from disassembly import functions  # noqa: E402

# level: emulator, objdump, llvm-mca's target, and cores with their number of floating-point vector pipelines
LEVELS = {
    "neon": (
        "qemu-aarch64 -cpu max",
        "aarch64-linux-gnu-objdump",
        "aarch64-linux-gnu",
        {"neoverse-n1": 2, "neoverse-v2": 4},
    ),
    "avx2": ("qemu-x86_64 -cpu max", "objdump", "x86_64-linux-gnu", {"skylake": 2}),
}
ARITHMETIC = re.compile(r"^(f(ml[as]|add|sub|mul|max|min|maxnm|minnm) v|vf?n?m?(add|sub|mul|max|min)[0-9]*p[sd] )")


class Program:
    def __init__(self, build, level):
        self.emulator, objdump, self.triple, self.cores = LEVELS[level]
        self.level, self.build = level, build
        self.path = build / f"calls-{level}"
        self.functions = functions(objdump, self.path)
        self.names = subprocess.run(
            [*self.emulator.split(), self.path], capture_output=True, text=True, check=True
        ).stdout.split("\n")[:-1]
        self.order = [i.address for f in self.functions for i in f.instructions]
        self.index = {address: i for i, address in enumerate(self.order)}

    def blocks(self, name, times):
        counts = self.build / f"counts-{self.level}"
        plugin = self.build / "count_plugin.so"
        subprocess.run(
            [
                "env",
                f"RAPT_ISA={self.level}",
                *self.emulator.split(),
                "-plugin",
                f"{plugin},counts={counts}",
                self.path,
                name,
                str(times),
            ],
            check=True,
        )
        runs = Counter()
        for line in counts.read_text().split("\n")[:-1]:
            address, length, times_run = line.split()
            runs[int(address, 16), int(length)] += int(times_run)
        return runs

    def runs_per_call(self, name):
        """How often a call executes each instruction, and how many it executes in all."""
        once, twice = self.blocks(name, 1), self.blocks(name, 2)
        runs, total = Counter(), 0
        for (address, length), times in (twice - once).items():
            total += length * times
            start = self.index.get(address)
            for i in range(start, start + length) if start is not None else ():
                runs[self.order[i]] += times
        return runs, total

    def hot_loop(self, runs):
        """The loop's function, its instructions that run in most rounds, and how many of them a call executes."""

        def executed(instructions):
            return sum(runs[i.address] for i in instructions)

        best = max(self.functions, key=lambda f: executed(f.instructions))
        loop = max(best.loops(), key=executed, default=[])
        # A loop around a rarely executed loop is not an innermost one.
        if 10 * executed(loop) < executed(best.instructions):
            loop = best.instructions
        most = max(runs[i.address] for i in loop)
        rounds = [i for i in loop if 2 * runs[i.address] >= most]
        return best.name, rounds, executed(rounds)


def plain_name(function):
    """dot, of "ArithmeticOf<float>::type dot<float>(float const*, ...)"."""
    name = function.split("(")[0]
    while name.endswith(">"):
        depth = 0
        for i in reversed(range(len(name))):
            depth += {">": 1, "<": -1}.get(name[i], 0)
            if depth == 0:
                name = name[:i]
                break
    return re.search(r"\w*$", name).group()


def modelled_cycles(mca, program, core, loop):
    text = "".join(re.sub(r"\b(0x)?[0-9a-f]+ <.*", "loop", i.text) + "\n" for i in loop)
    command = [mca, f"-mtriple={program.triple}", f"-mcpu={core}", "-iterations=200"]
    result = subprocess.run(command, input="loop:\n" + text, capture_output=True, text=True, check=True)
    return int(re.search(r"Total Cycles:\s+(\d+)", result.stdout).group(1)) / 200


def row(mca, program, name):
    runs, total = program.runs_per_call(name)
    function, loop, executed = program.hot_loop(runs)
    arithmetic = sum(bool(ARITHMETIC.match(i.text)) for i in loop)
    shares = [arithmetic / units / modelled_cycles(mca, program, core, loop) for core, units in program.cores.items()]
    return total, plain_name(function), executed / total, len(loop), arithmetic, shares


def main(build, mca):
    programs = [Program(Path(build), level) for level in LEVELS]
    heads = [f"{'call, f32':24}"]
    for program in programs:
        cores = " ".join(f"{core:>11}" for core in program.cores)
        heads.append(f"{program.level:>9}  {'hot loop':22} {'part':>5} {'instr':>5} {'arith':>5} {cores}")
    print(" | ".join(heads))
    for name in programs[0].names:
        cells = [f"{name:24}"]
        for program in programs:
            total, kernel, part, length, arithmetic, shares = row(mca, program, name)
            modelled = " ".join(f"{share:11.0%}" for share in shares)
            cells.append(f"{total:9}  {kernel[:22]:22} {part:5.0%} {length:5} {arithmetic:5} {modelled}")
        print(" | ".join(cells), flush=True)
    print(
        "\nnumbers below a level: instructions per call; then, of its hot loop: the function, the part of the call's "
        "instructions,\nits instructions and floating-point operations per round, and the modelled share of each core"
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
