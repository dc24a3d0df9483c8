"""Functions, instructions and innermost loops of an object file or program, by objdump."""

import re
import subprocess
import sys
from dataclasses import dataclass

FMA = re.compile(r"^(vfn?m(add|sub)\d|fml[as]\b)")
VECTOR = re.compile(r"%[xyz]mm\d|\b[qv]\d+\b")
JUMP = re.compile(r"^(?:j[a-z]+|b|b\.[a-z]+|cbn?z|tbn?z)\s+(?:[^<]*[\s,])?([0-9a-f]+)(?:\s+<|$)")
NEVER_FALLS = re.compile(r"^(jmp|b|ret|br|ud2|brk)\b(?!\.)")


@dataclass
class Instruction:
    address: int
    text: str

    @property
    def is_fma(self):
        return bool(FMA.match(self.text))


class Function:
    def __init__(self, name, instructions):
        self.name = name
        self.instructions = instructions
        text = [i.text for i in instructions]
        # A register that holds the frame's address, as in functions that align the stack.
        self.stack = r"\(%rsp|\[sp\b"
        if "mov %rsp,%rbp" in text:
            self.stack += r"|\(%rbp"
        if any(re.match(r"(mov x29, sp|add x29, sp,)", t) for t in text):
            self.stack += r"|\[x29\b"

    def on_stack(self, instruction):
        """Whether a vector is read from the stack or written to it: "load", "store" or None."""
        text = instruction.text
        if not VECTOR.search(text) or not re.search(self.stack, text):
            return None
        if re.match(r"st[ru]?[rp]?\b|stu?r|stp", text):
            return "store"
        return "store" if re.match(r"v?mov", text) and text.endswith(")") else "load"

    def loops(self):
        """The innermost loops: lists of instructions, in the order of addresses. A loop is a cycle of blocks, wherever they
        lie, without those that it passes seldom: see _dense."""
        code = self.instructions
        if not code:
            return []
        at = {instruction.address: i for i, instruction in enumerate(code)}
        targets = {}
        for i, instruction in enumerate(code):
            match = JUMP.match(instruction.text)
            if match and int(match.group(1), 16) in at:
                targets[i] = at[int(match.group(1), 16)]
        starts = sorted({0, *targets.values(), *(i + 1 for i in targets if i + 1 < len(code))})
        ends = dict(zip(starts, starts[1:] + [len(code)]))
        next_blocks = {}
        for start, end in ends.items():
            last = code[end - 1].text
            next_blocks[start] = [targets[end - 1]] if end - 1 in targets else []
            if end < len(code) and not NEVER_FALLS.match(last):
                next_blocks[start].append(end)
        found = []
        self._innermost(set(starts), next_blocks, found)

        def body(blocks):
            return [code[i] for start in sorted(blocks) for i in range(start, ends[start])]

        return [body(_dense(blocks, next_blocks, body)) for blocks in found]

    def _innermost(self, blocks, next_blocks, found):
        for cycle in _cycles(blocks, next_blocks):
            inner_found = []
            entries = {b for a in blocks - cycle for b in next_blocks[a] if b in cycle} or {min(cycle)}
            self._innermost(cycle - entries, next_blocks, inner_found)
            found.extend(inner_found or [cycle])

    def hot_loop(self):
        """The loop that multiplies most, and in fewest instructions."""

        def weight(loop):
            return sum(i.is_fma for i in loop) ** 2 / len(loop)

        return max(self.loops(), key=weight, default=[])


def _dense(blocks, next_blocks, body):
    """The cycle within a loop that has a third of its multiply-adds at least, and most per instruction: what a branch skips
    for unusual numbers, or most times, is no part of it."""

    def count(cycle):
        return sum(i.is_fma for i in body(cycle))

    least = count(blocks) / 3
    if least < 2:
        return blocks
    best, density = blocks, count(blocks) / len(body(blocks))
    while True:
        smaller = [c for b in best for c in _cycles(best - {b}, next_blocks) if count(c) >= least]
        next_best = max(smaller, key=lambda c: count(c) / len(body(c)), default=None)
        if next_best is None or count(next_best) / len(body(next_best)) <= density:
            return best
        best, density = next_best, count(next_best) / len(body(next_best))


def _cycles(blocks, next_blocks):
    """Strongly connected components that have an edge within them (Tarjan, without recursion)."""
    index, low, on_stack, stack, components = {}, {}, set(), [], []
    for root in blocks:
        if root in index:
            continue
        work = [(root, iter(next_blocks[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            block, successors = work[-1]
            for successor in successors:
                if successor not in blocks:
                    continue
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(next_blocks[successor])))
                    break
                if successor in on_stack:
                    low[block] = min(low[block], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[block])
                if low[block] == index[block]:
                    component = set()
                    while block not in component:
                        component.add(stack[-1])
                        on_stack.discard(stack.pop())
                    if len(component) > 1 or block in next_blocks[block]:
                        components.append(component)
    return components


def functions(objdump, path, wanted=lambda name: True):
    """The functions of wanted names, which are C++ names without the unnamed namespace. A function that the compiler has split
    is two."""
    command = [objdump, "-d", "-C", "--no-show-raw-insn", path]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = []
    for part in text.split("\n\n"):
        lines = part.strip("\n").split("\n")
        head = re.match(r"([0-9a-f]+) <(.*)>:$", lines[0])
        name = head and head.group(2).replace("(anonymous namespace)::", "")
        if not head or not wanted(name):
            continue
        instructions = []
        for line in lines[1:]:
            match = re.match(r"\s*([0-9a-f]+):\s+(.*)", line)
            if match:
                text = re.sub(r"\s+", " ", re.sub(r"\s+//.*$", "", match.group(2))).strip()
                instructions.append(Instruction(int(match.group(1), 16), text))
        found.append(Function(name, instructions))
    return found


def main(what, usage, judge):
    """The program of an audit: `what` OBJDUMP FILE... prints the problems of each file, and ends with 1 if there are any.
    judge(objdump, path) gives a file's."""
    if len(sys.argv) < 3:
        sys.exit(usage)
    objdump, *paths = sys.argv[1:]
    problems = [problem for path in paths for problem in judge(objdump, path)]
    for problem in problems:
        print(f"{what}: {problem}", file=sys.stderr)
    sys.exit(1 if problems else 0)
