#!/usr/bin/env python3
"""The includes of src and include go down the floors of CONTRIBUTING's diagram, and never round in a circle.

usage: floors_test.py ROOT
A box of the diagram begins with the folders or files of its floor, as far as its colon. A file belongs to the longest that
names it. Every include leads to the same floor, or to one that arrows lead to. An arrow is a line where files include others
of the next floor, and dotted where they only call or list what is there. A level includes files of the levels that it builds
on (cmake/isa.cmake), and of no others.
"""
import re
import sys
from collections import defaultdict
from pathlib import Path

SUFFIXES = {".c", ".cpp", ".def", ".h", ".hpp"}
GENERATED = {"rapt_levels.def"}  # by CMake


class Diagram:
    def __init__(self, text: str):
        picture = re.search(r"```mermaid\n(flowchart TD\n.*?)```", text, re.S)[1]
        self.paths: dict[str, str] = {}  # a folder or a file: its box
        for box, label in re.findall(r'(\w+)\["([^"]*)"\]', picture):
            for path in re.findall(r"(?:src|include)\b[\w./]*", label.split(":")[0]):
                self.paths[path] = box
        bare = re.sub(r'\["[^"]*"\]', "", picture)
        self.lines = set(re.findall(r"(\w+) --> (\w+)", bare))
        self.dotted = set(re.findall(r"(\w+) -\..*?\.-> (\w+)", bare))
        self.below = {box: self.reached(box) for box in self.paths.values()}

    def reached(self, box: str) -> set[str]:
        found, left = set(), [box]
        while left:
            at = left.pop()
            left += [to for source, to in self.lines | self.dotted if source == at and to not in found]
            found.update(to for source, to in self.lines | self.dotted if source == at)
        return found

    def floor_of(self, path: str) -> "str | None":
        parts = path.split("/")
        names = ("/".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((self.paths[name] for name in names if name in self.paths), None)


def includes_of(root: Path, problems: list[str]) -> dict[str, list[str]]:
    """The project's files that each file includes."""
    files = {path for folder in ("src", "include") for path in (root / folder).rglob("*") if path.suffix in SUFFIXES}
    graph = {}
    for path in sorted(files):
        name, graph[name] = path.relative_to(root).as_posix(), []
        for text in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.M):
            found = [
                folder / text for folder in (path.parent, root / "src", root / "include") if folder / text in files
            ]
            if found:
                graph[name].append(found[0].relative_to(root).as_posix())
            elif text not in GENERATED:
                problems.append(f'{name} includes "{text}", which does not exist')
    return graph


def circle(graph: dict[str, list[str]]) -> list[str]:
    """Files that include each other in turn, the first one twice; or none."""
    done: set[str] = set()

    def walk(path: list[str]) -> list[str]:
        for to in graph[path[-1]]:
            if to in path:
                return [*path[path.index(to) :], to]
            if to not in done and (found := walk([*path, to])):
                return found
        done.add(path[-1])
        return []

    return next((found for name in graph if name not in done and (found := walk([name]))), [])


def bases_of_levels(text: str) -> dict[str, set[str]]:
    rows = re.findall(r'^  "(\w+)\|(\w+)\|(\w*)\|', text, re.M)
    base = {level: below for level, _, below in rows}
    chains: dict[str, set[str]] = defaultdict(set)
    for level, processor, _ in rows:
        chains[processor].add(processor)  # src/isa/x86 is of all levels of x86
        chains[level].add(processor)
        at = level
        while at:
            chains[level].add(at)
            at = base[at]
    return chains


def main() -> int:
    root = Path(sys.argv[1])
    problems: list[str] = []
    diagram = Diagram((root / "CONTRIBUTING.md").read_text())
    bases = bases_of_levels((root / "cmake/isa.cmake").read_text())
    graph = includes_of(root, problems)
    drawn: set[tuple[str, str]] = set()
    for name, targets in graph.items():
        floor = diagram.floor_of(name)
        if not floor:
            problems.append(f"{name} is on no floor of CONTRIBUTING's diagram")
            continue
        for to in targets:
            other = diagram.floor_of(to)
            if other and other != floor:
                drawn.add((floor, other))
                if other not in diagram.below[floor]:
                    problems.append(f"{name} includes {to}: an arrow up, from {floor} to {other}")
            level, level_of_to = (re.match(r"src/isa/(\w+)/", path) for path in (name, to))
            if level and level_of_to and level_of_to[1] not in bases[level[1]]:
                problems.append(f"{name} includes {to}: {level[1]} does not build on {level_of_to[1]}")
    problems += [
        f"no file of {a} includes one of {b}, as CONTRIBUTING draws it" for a, b in sorted(diagram.lines - drawn)
    ]
    problems += [
        f"files of {a} include some of {b}, an arrow that CONTRIBUTING dots" for a, b in sorted(diagram.dotted & drawn)
    ]
    problems += [
        f"{box}: CONTRIBUTING's arrows go round" for box, below in sorted(diagram.below.items()) if box in below
    ]
    problems += [
        f"{path} of CONTRIBUTING's diagram does not exist" for path in diagram.paths if not (root / path).exists()
    ]
    if round_trip := circle(graph):
        problems.append("a circle: " + " includes ".join(round_trip))
    print("\n".join(problems))
    print(
        f"floors: {len(graph)} files, {sum(map(len, graph.values()))} includes, {len(set(diagram.paths.values()))} floors"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
