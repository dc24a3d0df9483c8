#!/usr/bin/env python3
"""Float arithmetic of the decoder outside of rapt.

  floats.py OBJDUMP NM FILE...      FILE is an object or archive of the decoder

The decoder promises that rapt computes every number on the way to tokens and logits: a compiler may contract a * b + c
of its own, and a C library may round exp in another way. So no function of the decoder may have an instruction of
float arithmetic, or call a function of the C library's <math.h>. Comparisons and copies of floats are free, and so is
the JSON library, which reads the numbers of config.json. Ends with 1 if anything is wrong.
"""

import re
import subprocess
import sys

from disassembly import functions

X86 = r"v?(add|sub|mul|div|sqrt|rsqrt|rcp|hadd|hsub|addsub|dp|round|rndscale|fn?m(add|sub|addsub|subadd)\d+)(14)?[sp][sdh]\b|f(add|sub|mul|div|sqrt)"
ARM = r"f(n?m(add|sub)|n?mul|add|sub|div|sqrt|ml[as]|recp|rsqrt|rint)"
ARITHMETIC = re.compile(rf"^({X86}|{ARM})")
MATH = re.compile(
    r"^U (f?exp2?|expm1|log(2|10|1p)?|pow|sqrt|cbrt|hypot|sin|cos|tan|a(sin|cos|tan2?)|(sin|cos|tan)h|fma|fmod|rint|round|nearbyint|ldexp|scalbn|tgamma|erfc?)[fl]?(@|$)"
)


def main():
    objdump, nm, *files = sys.argv[1:]
    wrong, seen = [], 0
    for file in files:
        for function in functions(objdump, file):
            if "nlohmann::" in function.name or not re.search(r"\bdecoder::", function.name):
                continue
            seen += 1
            wrong += [f"{function.name}: {i.text}" for i in function.instructions if ARITHMETIC.match(i.text)]
        symbols = subprocess.run([nm, "--undefined-only", file], check=True, capture_output=True, text=True).stdout
        wrong += [
            f"{file}: calls {line.split()[1]}" for line in map(str.strip, symbols.splitlines()) if MATH.match(line)
        ]
    print("\n".join(wrong))
    print(f"{seen} functions of the decoder, {len(wrong)} places with float arithmetic")
    # A decoder without functions would be a mistake of this script.
    return 1 if wrong or seen < 30 else 0


if __name__ == "__main__":
    sys.exit(main())
