"""bench/compare_runs on small files: slower and faster rows, insignificant differences, marked rows."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any

import made_up

try:
    import compare
except ModuleNotFoundError as error:
    print(f"skipped: bench/compare_runs: {error} (Debian: python3-scipy)")
    sys.exit(0)

OLD = {"exp_f32/avx2/L1": [100, 101, 102, 103, 104], "dot_f32/avx2/L1": [50, 51, 52, 53, 54]}


class Compare(unittest.TestCase):
    def run_on(self, old: tuple[Any, ...], new: tuple[Any, ...], *flags: str, **context: str) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            paths = [
                made_up.write(Path(folder) / "old.json", *old),
                made_up.write(Path(folder) / "new.json", *new, **context),
            ]
            return compare.main([*flags, *map(str, paths)]), out.getvalue()

    def changed(self, times: list[float]) -> dict[str, list[float]]:
        return {**OLD, "exp_f32/avx2/L1": times}

    def test_the_same_is_no_difference(self) -> None:
        status, text = self.run_on((OLD,), (OLD,))
        self.assertEqual(status, 0)
        self.assertIn("2 rows: 0 slower, 0 faster, 0 differ but are marked", text)
        self.assertNotIn("differs:", text)

    def test_slower_is_status_1_and_stands_first(self) -> None:
        new = {**self.changed([150, 151, 152, 153, 154]), "dot_f32/avx2/L1": [20, 21, 22, 23, 24]}
        status, text = self.run_on((OLD,), (new,))
        self.assertEqual(status, 1)
        self.assertRegex(text, r"1\.49 0\.0\d\d  152 ns slower  exp_f32/avx2/L1\n +0\.42 0\.0\d\d .* faster  dot_f32")
        self.assertRegex(text, r" 1\.49 .* exp_f32/avx2\n +0\.42 .* dot_f32/avx2\n")

    def test_faster_is_status_0(self) -> None:
        status, text = self.run_on((OLD,), (self.changed([70, 71, 72, 73, 74]),))
        self.assertEqual(status, 0)
        self.assertIn("0 slower, 1 faster", text)

    def test_a_small_difference_does_not_count(self) -> None:
        self.assertEqual(self.run_on((OLD,), (self.changed([105, 105.5, 106, 106.5, 107]),))[0], 0)
        self.assertEqual(self.run_on((OLD,), (self.changed([105, 105.5, 106, 106.5, 107]),), "--threshold=0.01")[0], 1)

    def test_repetitions_that_overlap_do_not_count(self) -> None:
        status, text = self.run_on((OLD,), (self.changed([90, 95, 120, 160, 170]),), "--all")
        self.assertEqual(status, 0)
        self.assertRegex(text, r"1\.18 0\.[1-9]\d\d .* exp_f32")

    def test_what_a_file_marks_is_named_and_does_not_count(self) -> None:
        slow = self.changed([150, 151, 152, 153, 154])
        for old, new in (
            ((OLD, {"exp_f32/avx2/L1": ["load"]}), (slow,)),
            ((OLD,), (slow, {"exp_f32/avx2/L1": ["load"]})),
        ):
            status, text = self.run_on(old, new)
            self.assertEqual(status, 0)
            self.assertRegex(text, r"\?! exp_f32/avx2/L1\n +(old|new):load\n")
            self.assertIn("1 differ but are marked", text)

    def test_the_head_names_what_differs(self) -> None:
        _, text = self.run_on(
            (OLD,), (OLD,), commit="def", compiler="clang 14", cpu_name="Another", flags_avx2="-O2 -g"
        )
        for line in ("differs: commit\n     old  abc\n     new  def", "differs: compiler\n", "differs: cpu name\n",
                     "differs: flags avx2\n"):  # fmt: skip
            self.assertIn(line, text)
        self.assertNotIn("differs: rapt version", text)

    def test_other_working_sets_are_compared_by_the_element(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            old = made_up.write(Path(folder) / "old.json", OLD)
            made_up.ELEMENTS *= 2
            new = made_up.write(
                Path(folder) / "new.json", {name: [2 * t for t in times] for name, times in OLD.items()}
            )
            made_up.ELEMENTS //= 2
            self.assertEqual(compare.main([str(old), str(new)]), 0)
        self.assertIn("2 rows: 0 slower, 0 faster", out.getvalue())

    def test_a_slower_limit_is_another_machine_and_no_slower_row(self) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
            rows = {**OLD, "limit/avx2/load:L1": [10, 10, 10, 10]}
            old = made_up.write(Path(folder) / "old.json", rows)
            document = made_up.document({**OLD, "limit/avx2/load:L1": [20, 20, 20, 20]})
            document["after"]["limits"]["avx2"]["load:L1"] /= 2
            new = Path(folder) / "new.json"
            new.write_text(json.dumps(document), encoding="utf-8")
            self.assertEqual(compare.main([str(old), str(new)]), 0)
        self.assertIn(
            "1 of 3 limits of the machine by more than 10 %\n     the most  avx2 load:L1, new over old 0.50",
            out.getvalue(),
        )

    def test_errors_are_status_2(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual(compare.main(["/nonexistent.json", "/nonexistent.json"]), 2)
            with tempfile.TemporaryDirectory() as folder:
                other = Path(folder, "other.json")
                for text in ("{}", "[]", "{", '{"context": {}}'):
                    other.write_text(text, encoding="utf-8")
                    self.assertEqual(compare.main([str(other), str(other)]), 2, text)
            self.assertEqual(self.run_on((OLD,), ({"scale_f32/avx2/L1": [1, 2, 3, 4]},))[0], 2)
        self.assertIn("no row in common", errors.getvalue())


if __name__ == "__main__":
    unittest.main()
