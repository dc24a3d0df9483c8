#!/usr/bin/env python3
"""Breaks the kernels in one way at a time, and demands that rapt-validate --quick finds each break.

The breaks are in *.txt next to this file. All of them are compiled into one copy of the library, each behind a test of
a global number, and a run of rapt-validate takes its number from the environment: a break costs a run, not a build.

tests/run breaks the best level that has all kernels. With --ci it is the first, and of the breaks a ninth, which is another
each day; all are compiled. It leaves out parts for f64 and f16, and those for bf16 that find nothing which the rest does not.
--full has every level and part.

In *.txt:
  == NAME            begins a mutation; what follows are its edits
  levels: L...       the levels that it is for, if not all that it touches; "all": the scalar level is broken as well,
                     so that levels agree and only the published hashes tell
  kernels: REGEX     those that rapt-validate runs, if not all; before the first mutation, of a whole file
  tuning: NAME       the value of RAPT_TUNING, for code that only some CPUs choose
  in FILE, N sites   the file of the edits below, and how often the original stands there (once, if not said)
  - ORIGINAL         must stand there exactly so often, but for white space; several lines are one text
  + MUTATED          takes its place. Of an original that ends with ; it is a statement, else an expression; with
                     the word MUTANT in it, which is true for the mutant, it stands there as it is
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HEADER = """#pragma once
extern "C" const int rapt_mutation;  // which: 0 is none
extern "C" int rapt_mutation_state;  // for a mutation that has to remember something
#define RAPT_MUTANT_OF_ALL(n) (!__builtin_is_constant_evaluated() && rapt_mutation == (n))
#define RAPT_MUTANT(n) (RAPT_IS_VECTOR_LEVEL && RAPT_MUTANT_OF_ALL(n))
#ifndef RAPT_IS_VECTOR_LEVEL
#define RAPT_IS_VECTOR_LEVEL false
#endif
// Each function is compiled once, not wherever it is inlined: that takes a quarter of the time. Headers of gcc have underscores.
#define always_inline unused
#define flatten unused
"""
VECTOR_LEVEL_FLAG = "list(APPEND RAPT_KERNEL_FLAGS -DRAPT_IS_VECTOR_LEVEL=true)\n"
NUMBER = """#include <cstdlib>
int number __asm__("rapt_mutation");
int rapt_mutation_state;
[[gnu::constructor]] static void take_number() {
  if (const char *text = std::getenv("RAPT_MUTATION")) number = std::atoi(text);
}
"""


class Edit:
    def __init__(self, file, sites):
        self.file, self.sites, self.original, self.mutated = file, sites, [], []


class Mutation:
    def __init__(self, name, number, kernels):
        self.name, self.number, self.kernels, self.levels, self.edits = name, number, kernels, None, []
        self.tuning = None

    def is_for(self, level):
        if self.levels not in (None, ["all"]):
            return level in self.levels
        return any(level_of(edit.file) in (None, level) for edit in self.edits)

    def is_own_of(self, level):
        if self.levels is not None:
            return level in self.levels
        return any(level_of(edit.file) == level for edit in self.edits)

    def condition(self):
        return f"RAPT_MUTANT{'_OF_ALL' if self.levels == ['all'] else ''}({self.number})"


def level_of(file):
    """The vector level in whose folder the file is, if it is in one: src/isa/<level>/... Those of x86 share src/isa/x86."""
    parts = pathlib.PurePath(file).parts
    return parts[2] if parts[:2] == ("src", "isa") and len(parts) > 3 and parts[2] not in ("scalar", "x86") else None


def rows_of_levels(isa_cmake):
    """(row, name of the level, whether it has all parts of src/isa/parts.def) of each row of cmake/isa.cmake."""
    rows = re.finditer(r'^  "(\w+)\|\w+\|\w*\|(all|own)\|.*$', isa_cmake, re.M)
    return [(row[0], row[1], row[2] == "all") for row in rows]


def leave_out_parts(texts, levels, without):
    """Levels other than `levels` lose their parts, and `levels` those whose names match `without`."""
    for row, level, _ in rows_of_levels(texts["cmake/isa.cmake"]):
        if level not in levels:
            texts["cmake/isa.cmake"] = texts["cmake/isa.cmake"].replace(row, row.replace("|all|", "|own|"))
    for file in [file for file in texts if level_of(file) and file.endswith(".cpp")]:
        if level_of(file) not in levels or re.search(without, pathlib.PurePath(file).stem):
            del texts[file]
    rows = texts["src/isa/parts.def"].splitlines(keepends=True)
    name = re.compile(r"PART\((\w+)")
    kept = [row for row in rows if not (found := name.match(row)) or not re.search(without, found[1])]
    texts["src/isa/parts.def"] = "".join(kept)


def read_mutations(folder):
    mutations = []
    for path in sorted(folder.glob("*.txt")):
        of_file, kernels = [], ""
        for number, line in enumerate(path.read_text().splitlines(), 1):
            mark, _, text = line.partition(" ")
            if not line or mark == "#":
                continue
            if mark == "==":
                of_file.append(Mutation(text, len(mutations) + len(of_file) + 1, kernels))
            elif mark == "kernels:" and of_file:
                of_file[-1].kernels = text
            elif mark == "kernels:":
                kernels = text
            elif mark == "tuning:":
                of_file[-1].tuning = text
            elif mark == "levels:":
                of_file[-1].levels = text.split()
            elif mark == "in":
                file, _, count = text.partition(", ")
                sites = int(count.split()[0]) if count else 1
                of_file[-1].edits.append(Edit(file, sites))
            elif mark == "-":
                if of_file[-1].edits[-1].mutated:
                    of_file[-1].edits.append(Edit(file, sites))
                of_file[-1].edits[-1].original.append(text)
            elif mark == "+":
                of_file[-1].edits[-1].mutated.append(text)
            else:
                sys.exit(f"{path}:{number}: not understood: {line}")
        mutations += of_file
    return mutations


def find_sites(text, edit):
    pattern = r"\s+".join(re.escape(word) for word in " ".join(edit.original).split())
    return [match.span() for match in re.finditer(pattern, text)]


def choice(mutation, edit, original, mutated):
    """Text that is `mutated` for the mutation's number, and `original` for any other."""
    condition = mutation.condition()
    if re.search(r"\bMUTANT\b", mutated):
        return re.sub(r"\bMUTANT\b", condition, mutated)
    if edit.original[-1].endswith(";"):
        return f"{{ if ({condition}) {{ {mutated} }} else {{ {original} }} }}"
    return f"({condition} ? ({mutated}) : ({original}))"


def rewrite(text, begin, end, sites):
    """text[begin:end] with `sites`, (begin, end, mutation, edit) each: equal ones and ones within others nest."""
    result, at = "", begin
    sites = sorted(sites, key=lambda site: (site[0], -site[1]))
    while sites:
        first, last = sites[0][:2]
        same = [site for site in sites if site[:2] == (first, last)]
        within = [site for site in sites if site[:2] != (first, last) and site[0] < last]
        sites = [site for site in sites if site[0] >= last]
        for site in within:
            if site[1] > last:
                sys.exit(f'"{site[2].name}" overlaps "{same[0][2].name}"')
        part = rewrite(text, first, last, within)
        for _, _, mutation, edit in same:
            mutated = "\n".join(edit.mutated)
            if "MUTANT" in mutated and part != text[first:last]:
                sys.exit(f'"{mutation.name}" stands as it is, and has another mutation\'s site in it')
            part = choice(mutation, edit, part, mutated)
        result += text[at:first] + part
        at = last
    return result + text[at:end]


def write(path, text):
    """Only where that is a change, so that nothing is compiled in vain."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def make_copy(source, copy, mutations, levels, without):
    """The copy's sources; returns the mutations that do not apply, with why.

    The other levels lose their parts, and the levels those that match `without`: the scalar level serves there."""
    wrong, texts = {}, {}
    for part in ("CMakeLists.txt", "CMakePresets.json", "cmake", "include", "src", "tests"):
        paths = [source / part] if (source / part).is_file() else sorted((source / part).rglob("*"))
        for path in paths:
            if path.suffix in (".txt", ".hpp", ".cpp", ".h", ".c", ".def", ".cmake", ".in", ".json"):
                texts[str(path.relative_to(source))] = path.read_text()
    texts.update({"mutation.hpp": HEADER, "src/dispatch/mutation.cpp": NUMBER})
    texts["cmake/flags.cmake"] += VECTOR_LEVEL_FLAG
    leave_out_parts(texts, levels, without)
    sites = {}
    for mutation in mutations:
        for edit in mutation.edits:
            found = find_sites(texts.get(edit.file, ""), edit)
            if len(found) != edit.sites:
                wrong[mutation] = f"no longer applies: {edit.file} has {len(found)} of {edit.sites} sites"
    for mutation in mutations:
        if mutation in wrong:
            continue
        for edit in mutation.edits:
            spans = find_sites(texts[edit.file], edit)
            sites.setdefault(edit.file, []).extend((*span, mutation, edit) for span in spans)
    for file, text in texts.items():
        write(copy / file, rewrite(text, 0, len(text), sites.get(file, [])))
    for path in copy.rglob("*"):  # what the checkout no longer has
        if path.is_file() and str(path.relative_to(copy)) not in texts:
            path.unlink()
    return wrong


def build(copy, folder, validate, cmake, preset):
    """The library by CMake, linked with the parts of another build's rapt-validate, which know nothing of mutations."""
    flags = f"-include {copy}/mutation.hpp -w"
    rows = (validate / "rapt_levels.txt").read_text().splitlines()
    levels = ";".join(row.split()[0] for row in rows if not row.startswith("#"))
    configure = [
        cmake,
        "--preset",
        preset,
        "-S",
        copy,
        "-B",
        folder,
        "-DRAPT_BUILD_VALIDATE=OFF",
        "-DRAPT_BUILD_TESTS=OFF",
        "-DRAPT_INSTALL=OFF",
        f"-DRAPT_LEVELS={levels}",
        f"-DCMAKE_CXX_FLAGS={flags}",
    ]
    program = folder / "rapt-validate"
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", (validate / "CMakeCache.txt").read_text(), re.M).group(1)
    static = ["-static"] if preset.endswith("neon") else []
    link = [
        compiler,
        *static,
        validate / "tests/validate/CMakeFiles/rapt-validate.dir/main.cpp.o",
        validate / "tests/validate/librapt_validation.a",
        validate / "tests/validate/librapt_seeded_models.a",
        validate / "tests/examples/decoder/librapt_decoder.a",
        validate / "tests/support/librapt_test_support.a",
        validate / "tests/support/librapt_guarded_memory.a",
        folder / "librapt.a",
        "-pthread",
        "-lm",
        "-o",
        program,
    ]
    for command in (configure, [cmake, "--build", folder, "--parallel", str(os.cpu_count()), "--target", "rapt"], link):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            sys.exit(done.stdout[-6000:] + "\nThe mutations do not build.")
    return program


NOT_CAUGHT = "NOT CAUGHT"
SIGNS = (
    (r"crashed: |^FAIL: SIG", "a guard page"),
    ("got 0x", "a mismatch"),
    ("wrote ", "a canary"),
    ("DIFFERENT", "the published hash"),
    ("INACCURATE", "the accuracy"),
)


def validate(command, log, number, tuning=None):
    """(whether it is caught, in words how)"""
    environment = dict(os.environ, RAPT_MUTATION=str(number))
    if tuning:
        environment["RAPT_TUNING"] = tuning
    with open(log, "w+") as output:
        try:
            status = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, env=environment, timeout=900
            ).returncode
        except subprocess.TimeoutExpired:
            return False, "rapt-validate did not end"
        output.seek(0)
        text = output.read()
    if status == 0:
        return False, NOT_CAUGHT
    if status != 1 or not re.search("^FAIL: ", text, re.MULTILINE):
        return False, f"rapt-validate itself failed with status {status}: see {log}"
    ways = [way for pattern, way in SIGNS if re.search(pattern, text, re.MULTILINE)]
    return True, ", ".join(ways)


def judge_level(level, mutations, wrong, command, logs, without):
    """Prints what becomes of each; whether all are caught."""
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    _, how = validate(command, logs / "nothing.log", 0)
    if how != NOT_CAUGHT:
        print(f"{level}: rapt-validate fails without a mutation: {how}: see {logs / 'nothing.log'}")
        return False

    listed = subprocess.run([*command[:-3], "--list"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^  (\w+)$", listed, re.MULTILINE)

    def kernels_of(mutation):
        # First those whose part is there: the scalar level serves most of the others.
        found = [name for name in names if re.search(mutation.kernels, name)]
        return sorted(found, key=lambda name: bool(re.search(without, name)))

    # Where all kernels of a mutation are in parts that were left out, it breaks nothing.
    mutations = [m for m in mutations if not (found := kernels_of(m)) or not all(re.search(without, k) for k in found)]

    def judge(mutation):
        if mutation in wrong:
            return False, wrong[mutation]
        kernels = kernels_of(mutation)
        if not kernels:
            return False, f"rapt-validate knows no kernel of {mutation.kernels}"
        log = logs / f"{re.sub('[^a-zA-Z0-9]+', '_', mutation.name)}.log"
        # One kernel after the other, until one finds it; and then all, because those of a model have no name.
        runs = [["--kernel", name] for name in kernels] + ([] if mutation.kernels else [[]])
        for arguments in runs:
            is_caught, how = validate(command + arguments, log, mutation.number, mutation.tuning)
            if how != NOT_CAUGHT:
                return is_caught, f"{how}, in {arguments[-1] if arguments else 'all'}"
        return False, NOT_CAUGHT

    caught = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for mutation, (is_caught, how) in zip(mutations, pool.map(judge, mutations)):
            print(f"{mutation.number:>3}  {mutation.name:<75} {how}", flush=True)
            caught += is_caught
    print(f"mutations of {level}: {caught} of {len(mutations)} caught", flush=True)
    return caught == len(mutations)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path, help="kept: a second run compiles what has changed")
    parser.add_argument(
        "--validate",
        type=pathlib.Path,
        required=True,
        metavar="BUILD",
        help="a finished build of rapt-validate for the same levels, whose parts judge the broken library",
    )
    parser.add_argument("--level", required=True, help="one that this machine can run, or several: avx2,avx512")
    parser.add_argument("--only", metavar="REGEX", default="", help="only mutations with such names")
    parser.add_argument(
        "--without",
        metavar="REGEX",
        default="^$",
        help="parts of a level to leave out, and kernels with such names, to compile less: _f64$",
    )
    parser.add_argument(
        "--own", action="store_true", help="those that name the level or are in a file that only it has"
    )
    parser.add_argument("--share", type=int, default=1, metavar="N", help="only every Nth, and others each day")
    parser.add_argument("--emulator", default="", help="a command that runs programs of another processor")
    parser.add_argument("--preset", default="mutations", help="of CMakePresets.json, which names the compiler")
    parser.add_argument("--cmake", default="cmake")
    options = parser.parse_args()
    levels = options.level.split(",")

    work = options.work.resolve()
    every_mutation = read_mutations(options.source / "tests/mutations")
    wrong = make_copy(options.source.resolve(), work / "source", every_mutation, levels, options.without)
    program = build(work / "source", work / "build", options.validate, options.cmake, options.preset)
    complete = [
        name for _, name, has_all in rows_of_levels((options.source / "cmake/isa.cmake").read_text()) if has_all
    ]
    today = int(time.time() // 86400)
    good = True
    for level in levels:
        # A level that inherits most kernels is judged by what it has itself.
        own = options.own or level not in complete
        mutations = [
            m
            for m in every_mutation
            if m.is_for(level)
            and re.search(options.only, m.name)
            and (m.is_own_of(level) or not own)
            and (m.number + today) % options.share == 0
        ]
        command = [*options.emulator.split(), program, "--quick", "--isa", level]
        good &= judge_level(level, mutations, wrong, command, work / f"logs-{level}", options.without)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
