#!/usr/bin/env python3
"""Checks that every mutation (run.py) still has its lines, without building anything: applies_test.py SOURCE"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import run

source = pathlib.Path(sys.argv[1])
stale = []
for mutation in run.read_mutations(source / "tests/mutations"):
    for edit in mutation.edits:
        path = source / edit.file
        found = len(run.find_sites(path.read_text(), edit)) if path.is_file() else 0
        if found != edit.sites:
            stale.append(f"{mutation.name}: {edit.file} has {found} of {edit.sites} sites")
print("\n".join(stale) or "every mutation applies")
sys.exit(1 if stale else 0)
