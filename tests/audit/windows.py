#!/usr/bin/env python3
"""The instructions of a library for x86-64 Windows, against its calling convention.

windows.py OBJDUMP LIBRARY...

* No move to or from memory demands an alignment of 32 or 64 bytes: the stack has 16, and gcc spills vectors to it (gcc's
  bug 54412). Stores past the caches are left out, as they go only to outputs; none may go to the stack.
* A function that uses xmm6 to xmm15 saves them first: they are its caller's.

Ends with 1 if anything is wrong, or if a library shows no vector code.
"""
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.+)>:$")
INSTRUCTION = re.compile(r"^ *[0-9a-f]+:\s+(\S+)\s*(.*)$")
ALIGNED = re.compile(r"^v?mov(aps|apd|dqa|dqa32|dqa64)$")
PAST_CACHES = re.compile(r"^v?movnt")
STACK = re.compile(r"\(%rsp")  # functions keep other addresses in rbp
KEPT = re.compile(r"%[xyz]mm(1[0-5]|[6-9])\b")
SAVE = re.compile(r"^%xmm(1[0-5]|[6-9]),.*\(")


def functions(objdump, library):
    """(member, name, instructions) of each function; an instruction is (mnemonic, operands)."""
    command = [objdump, "-d", "--no-show-raw-insn", library]
    member, name, body = library, None, []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            line = line.rstrip()
            if line.endswith("file format pe-x86-64"):
                following = (line.split(":")[0], None)
            elif match := FUNCTION.match(line):
                following = (member, match[1])
            else:
                if match := INSTRUCTION.match(line):
                    body.append((match[1], match[2]))
                continue
            if name is not None:
                yield member, name, body
            (member, name), body = following, []
    if process.returncode != 0:
        raise SystemExit(f"windows.py: {' '.join(command)} failed")
    if name is not None:
        yield member, name, body


def problems_of(body):
    saved = set()
    for mnemonic, operands in body:
        if mnemonic.startswith("{") or mnemonic in ("lock", "rep"):
            continue
        text = f"{mnemonic} {operands}"
        if "(" in operands and re.search("%[yz]mm", operands) and ALIGNED.match(mnemonic):
            yield f"demands an alignment: {text}"
        if PAST_CACHES.match(mnemonic) and STACK.search(operands):
            yield f"stores to the stack past the caches: {text}"
        if "mov" in mnemonic and (match := SAVE.match(operands)):
            saved.add(match[1])
        for match in KEPT.finditer(operands):
            if match[1] not in saved:
                saved.add(match[1])
                yield f"does not save xmm{match[1]}: {text}"


def main():
    wrong = seen = vectors = 0
    for library in sys.argv[2:]:
        for member, name, body in functions(sys.argv[1], library):
            seen += 1
            vectors += any("%ymm" in operands or "%zmm" in operands for _, operands in body)
            if name.endswith(".cold"):  # a part of a function that has saved them
                continue
            for problem in problems_of(body):
                wrong += 1
                if wrong <= 10:
                    print(f"{member}: {name} {problem}")
    print(f"{seen} functions, {vectors} with vectors of 32 or 64 bytes, {wrong} problems")
    return 1 if wrong or not vectors else 0


sys.exit(main())
