#!/usr/bin/env python3
"""Vectors that a hot loop keeps on the stack.

  spills.py OBJDUMP FILE...      FILE is a level's object, rapt_<level>.o

An accumulator that does not fit the registers is loaded, added to and stored: the next step waits for the store. The
compiler decides it, and no result shows it. So the hot loop of each kernel in LOOPS, in each of its instances, may store
no vector on the stack, and a product may read none from it. A polynomial may: constants that exceed 16 registers are there.

LIMITS has what today's code exceeds that by. A level's object that lacks one of the kernels is refused too. Ends with 1
if anything is wrong.
"""

import re
from pathlib import Path

from disassembly import functions, main

PRODUCT, POLYNOMIAL = "product", "polynomial"
LOOPS = {
    "tile_scores": PRODUCT,
    "tile_values": PRODUCT,
    "outer_products": PRODUCT,
    "row_scores": PRODUCT,
    "packed_row_scores": PRODUCT,
    "row_values": PRODUCT,
    "dot": PRODUCT,
    "dot_row_fours": PRODUCT,
    "dot_row_quarters": PRODUCT,
    "tile_weights": POLYNOMIAL,
    "map_long": POLYNOMIAL,
}


# Vectors on the stack per multiply-add where the registers do not hold the accumulators: decoding with several queries.
# The arguments of exp wait there for the test of all four, and those of an activation for its exponentials.
LIMITS = {
    ("avx2", "map_long"): 0.13,
    ("avx2", "row_scores"): 1.2,
    ("avx2", "packed_row_scores"): 0.4,
    ("avx2", "row_values"): 1.5,
    ("avx512", "map_long"): 0.05,
    ("avx512", "row_scores"): 1.0,
    ("avx512", "row_values"): 0.4,
    ("neon", "map_long"): 0.04,
}


def kernel_of(name):
    """The kernel's name and its arguments, of "void row_values<float, 4ul, float>(…)"."""
    name = re.sub(r"\(\w+\)(?=\d)", "", name)  # an enumerator is (RowOrder)2
    match = re.match(r"(?:.*[ :])?([a-z_]+)<([^()]*)>\(", name.split("(")[0] + "(")
    return match.groups() if match and match.group(1) in LOOPS else (None, None)


def judge(objdump, path):
    """Problems of a level's object, and the number of loops looked at."""
    level = re.sub(r"^rapt_(.*)\.o$", r"\1", Path(path).name)
    problems, seen, judged = [], set(), 0
    for function in functions(objdump, path, lambda name: kernel_of(name)[0]):
        kernel, arguments = kernel_of(function.name)
        loop = function.hot_loop()
        if sum(i.is_fma for i in loop) < 4:
            continue
        seen.add(kernel)
        judged += 1
        accesses = [(function.on_stack(i), i) for i in loop]
        wrong = [i for kind, i in accesses if kind == "store" or (kind == "load" and LOOPS[kernel] == PRODUCT)]
        multiplies = sum(i.is_fma for i in loop)
        if len(wrong) > LIMITS.get((level, kernel), 0) * multiplies:
            problems.append(
                f"{level}: {kernel}<{arguments}>: {len(wrong)} of {len(loop)} instructions are vectors on "
                f"the stack, {multiplies} multiply; {wrong[0].text} at {wrong[0].address:x}"
            )
    for kernel in sorted(set(LOOPS) - seen):
        problems.append(f"{level}: no loop of {kernel} was found")
    print(f"spills: {level}: {judged} loops of {len(seen)} kernels")
    return problems


if __name__ == "__main__":
    main("spills", __doc__, judge)
