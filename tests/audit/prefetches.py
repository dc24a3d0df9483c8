#!/usr/bin/env python3
"""Prefetches that a compiler has removed.

  prefetches.py OBJDUMP FILE...      FILE is a level's object, rapt_<level>.o, of a level that has all kernels

A prefetch changes no result, so no other test misses one. gcc removes a call of a function that only prefetches, before it
would be inlined (cmake/flags.cmake). Each instance of the functions in LEAST must have at least so many prefetches; a
function that is missing is wrong too. Ends with 1 if anything is wrong.
"""

import re
from collections import defaultdict
from pathlib import Path

from disassembly import functions, main

# The fewest in any instance, by gcc 12, gcc 14 and clang 14.
LEAST = {
    "fetch_far_lines": 1,
    "layer_norm_rows": 1,
    "log_softmax": 9,
    "logsumexp_row": 5,
    "map_long": 1,
    "packed_row_scores": 1,
    "rms_norm_rows": 1,
    "row_scores": 2,
    "row_values": 4,
    "scale": 2,
    "softmax_by_row_batches": 5,
    "softmax_by_rows": 21,
    "softmax_past_caches": 6,
    "softmax_past_caches_without_max": 2,
    "softmax_without_max": 8,
    "tile_scores": 6,
    "tile_values": 4,
    "K32Rows::packed_scores": 4,
    "K32Rows::run_scores": 12,
    "K32Values": 16,
    "K32Tiles::multiply": 1,
}
# NEON's vectors are shorter, so that fewer lines fit a step. Its norms write no streams.
LEAST_ON = {
    "neon": {
        "layer_norm_rows": 0,
        "log_softmax": 7,
        "rms_norm_rows": 0,
        "row_scores": 1,
        "softmax_by_rows": 16,
        "softmax_without_max": 6,
        "K32Rows::run_scores": 2,
    }
}


def name_of(function):
    """The name without result, arguments and template arguments: "void K32Rows::run_scores<1ul>(…)" is "K32Rows::run_scores".

    Of a function in a class template it is the class's name."""
    return re.sub(r"[<(].*", "", re.sub(r"^(void|float|double|bool|auto) ", "", function))


def judge(objdump, path):
    level = re.sub(r"^rapt_(.*)\.o$", r"\1", Path(path).name)
    found = defaultdict(list)
    for function in functions(objdump, path, lambda name: name_of(name) in LEAST):
        count = sum(bool(re.match(r"prefetch|prfm", i.text)) for i in function.instructions)
        found[name_of(function.name)].append((count, function.name))
    print(f"prefetches: {level}: {sum(map(len, found.values()))} instances of {len(found)} functions")
    for name, least in (LEAST | LEAST_ON.get(level, {})).items():
        if name not in found:
            yield f"{level}: {name} was not found"
        for count, instance in found[name]:
            if count < least:
                yield f"{level}: {instance[:100]}: {count} prefetches, not {least}"


if __name__ == "__main__":
    main("prefetches", __doc__, judge)
