#!/usr/bin/env python3
"""Instructions per kernel call and the modelled share of a core, NEON compared with AVX2. bench/neon/run starts it.

  report.py BUILD MCA      BUILD has calls-neon, calls-avx2 and their plugins; MCA is llvm-mca

A call's instructions are those of two calls less those of one. Its hot loop is the innermost loop that ran most of them.
The instructions that ran in at least half of the loop's rounds go to llvm-mca, in the order of addresses:

  share = floating-point operations on vectors / units of the core that execute them / modelled cycles

Linear layers are in a second table, at each NEON level that has its own kernels for them. There, the share is that of the
instructions that multiply. The loop of a group of inputs ends with the group's scales, so the model has one round of that
loop, in which the inner loops are as often as they run.
"""

import re
import subprocess
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "audit"))
from disassembly import functions  # noqa: E402

NEON = ("qemu-aarch64 -cpu max", "aarch64-linux-gnu-objdump", "aarch64-linux-gnu")
# level: emulator, objdump, llvm-mca's target, and cores with their number of floating-point vector pipelines
LEVELS = {
    "neon": (*NEON, {"neoverse-n1": 2, "neoverse-v2": 4}),
    "avx2": ("qemu-x86_64 -cpu max", "objdump", "x86_64-linux-gnu", {"skylake": 2}),
}
# Linear layers: cores with all the instructions, and the levels with their own kernels.
LINEAR_CORES = {"neoverse-n2": 2, "neoverse-v2": 4}
LINEAR_LEVELS = {
    "linear f32": ["neon"],
    "linear bf16": ["neon", "neon_bf16"],
    "linear i8": ["neon", "neon_dotprod", "neon_i8mm"],
}
ARITHMETIC = re.compile(r"^(f(ml[as]|add|sub|mul|max|min|maxnm|minnm) v|vf?n?m?(add|sub|mul|max|min)[0-9]*p[sd] )")
# Products of an instruction: of each lane, or of each byte. SMULL and SADALP together multiply 8 bytes.
MULTIPLY = {r"fml[as] v": 4, r"bfmlal[bt] ": 4, r"smull2? ": 8, r"[us]+dot ": 16, r"[us]+mmla ": 32}
ANY_MULTIPLY = "|".join(MULTIPLY)
END_OF_GROUP = "(scvtf|fadd) v"


class Program:
    def __init__(self, build, level, kind=None):
        self.emulator, objdump, self.triple, self.cores = LEVELS[kind or level]
        self.level, self.build = level, build
        self.path = build / f"calls-{kind or level}"
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
        return best, rounds, executed(rounds)

    def group_loop(self, runs, function):
        """One round of the loop of a group of inputs, in which inner loops are as often as they run. A group of more than 64
        rounds is the round of the loop that multiplies."""

        def most(code, pattern):
            return max((runs[i.address] for i in code if re.match(pattern, i.text)), default=0)

        def rolled_out(code, rate):
            code = [i for i in code if 2 * runs[i.address] >= rate]
            result = []
            for is_inner, stretch in groupby(code, lambda i: 2 * runs[i.address] >= 3 * rate):
                stretch = list(stretch)
                if is_inner:
                    inner_rate = most(stretch, ANY_MULTIPLY) or most(stretch, "")
                    stretch = rolled_out(stretch, inner_rate) * round(inner_rate / rate)
                result += stretch
            return result

        rate, groups = most(function.instructions, ANY_MULTIPLY), most(function.instructions, END_OF_GROUP)
        return rolled_out(function.instructions, groups if 64 * groups >= rate else rate)


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
    rounds = 200 if len(loop) < 500 else 20
    command = [mca, f"-mtriple={program.triple}", f"-mcpu={core}", f"-iterations={rounds}"]
    result = subprocess.run(command, input="loop:\n" + text, capture_output=True, text=True, check=True)
    return int(re.search(r"Total Cycles:\s+(\d+)", result.stdout).group(1)) / rounds


def row(mca, program, name):
    runs, total = program.runs_per_call(name)
    function, loop, executed = program.hot_loop(runs)
    arithmetic = sum(bool(ARITHMETIC.match(i.text)) for i in loop)
    shares = [arithmetic / units / modelled_cycles(mca, program, core, loop) for core, units in program.cores.items()]
    return total, plain_name(function.name), executed / total, len(loop), arithmetic, shares


def linear_row(mca, program, name):
    runs, total = program.runs_per_call(name)
    function = max(
        program.functions, key=lambda f: sum(runs[i.address] for i in f.instructions if re.match(ANY_MULTIPLY, i.text))
    )
    loop = program.group_loop(runs, function)
    part = sum(runs[i.address] for i in function.instructions) / total
    products, multiplies = 0, 0
    kinds = {p: n for p, n in MULTIPLY.items() if n > 4 or not name.startswith("linear i8")}
    for text in (i.text for i in loop):
        for pattern, count in kinds.items():
            if re.match(pattern, text):
                products += count
                multiplies += 1
        multiplies += text.startswith("sadalp")
    cells = [f"{total:10} {part:5.0%} {len(loop):5} {multiplies:5}"]
    for core, units in LINEAR_CORES.items():
        cycles = modelled_cycles(mca, program, core, loop)
        cells.append(f"{multiplies / units / cycles:11.0%} {products / cycles:10.1f}")
    return " | ".join(cells)


def linear_table(build, mca, names):
    cores = " | ".join(f"{core:>11} {'products':>10}" for core in LINEAR_CORES)
    print(
        f"\n{'linear layer, 256 outputs':32} {'level':14} | {'instr':>10} {'part':>5} {'loop':>5} {'mult':>5} | {cores}"
    )
    programs = {}
    for name in names:
        for level in next(levels for start, levels in LINEAR_LEVELS.items() if name.startswith(start)):
            if level not in programs:
                programs[level] = Program(build, level, "neon")
            print(f"{name:32} {level:14} | {linear_row(mca, programs[level], name)}", flush=True)
    print(
        "\ninstr: per call; part: of the call's instructions in the function that multiplies; loop, mult: instructions of a "
        "group\nof inputs or of the hot loop, and those that multiply; then, of each core: the share of its slots for them, and "
        "the\nproducts per modelled cycle"
    )


def main(build, mca):
    programs = [Program(Path(build), level) for level in LEVELS]
    heads = [f"{'call, f32':24}"]
    for program in programs:
        cores = " ".join(f"{core:>11}" for core in program.cores)
        heads.append(f"{program.level:>9}  {'hot loop':22} {'part':>5} {'instr':>5} {'arith':>5} {cores}")
    print(" | ".join(heads))
    for name in (n for n in programs[0].names if not n.startswith("linear")):
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
    linear_table(Path(build), mca, [n for n in programs[0].names if n.startswith("linear")])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
