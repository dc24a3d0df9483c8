"""The text of a run: its last screen, and the cells of its tables."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import unittest
from pathlib import Path

import made_up
import text
from data import Results

# A row of 100 ns is as fast as its limit.
ROWS = {
    "exp_f32/scalar/L1": [1600.0],
    "exp_f32/avx2/L1": [200.0],
    "exp_f32/avx2/L2": [800.0],
    "exp_f64/avx2/L1": [500.0],
    "attention_in_bf16/avx2/prefill": [400.0],
    "dot_i8/avx2/L1": [500.0],
    "dot_i8/avx2_vnni/L1": [200.0],
    "dot_i8/avx2_vnni/L2": [90.0],  # faster than its limit: has no share
}
KERNELS = Path(__file__).parents[2] / "src/kernels/kernels.def"


def results(rows: dict[str, list[float]], doubts: dict[str, list[str]] | None = None, **after: object) -> Results:
    document = made_up.document(rows, doubts, isas="scalar, avx2, avx2_vnni", f32_lanes_avx2_vnni="8")
    document["after"].update(after)
    return Results(document)


class Text(unittest.TestCase):
    def test_an_operation_has_one_line_of_the_best_level_that_has_its_kernel(self) -> None:
        """Mean shares, and the gain over scalar."""
        doubts = {"exp_f64/avx2/L1": ["load"], "dot_i8/avx2_vnni/L2": ["share"]}
        self.assertEqual(
            text.text_of(text.brief(results(ROWS, doubts))),
            "\nMade Up, avx2_vnni: the share of the limit, as the mean over all sizes\n"
            "                           f32   f64   f16  bf16    i8  u8i8  over scalar\n"
            "exp                        25%   20%!                               8.00x\n"
            "attention_in_bf16                            25%\n"
            "dot                                                50%!\n",
        )

    def test_packing_does_not_count_in_the_mean_of_products(self) -> None:
        document = made_up.document(
            {"linear_f32/avx2/64x4096x4096": [200.0], "linear_f32/avx2/pack:4096x4096": [1000.0]}
        )
        document["benchmarks"][0]["flop"] = 1e6
        self.assertIn("\nlinear                     50%", text.screen(Results(document)))

    def test_with_the_verdict_all_kernels_fit_a_screen_of_50_lines(self) -> None:
        rows = r"^(?:OPERATION|STAGE)\(\w+, (\w+).*?(\w+)\)$"
        operations = re.findall(rows, KERNELS.read_text(encoding="utf-8"), re.M | re.S)
        self.assertGreater(len(operations), 30)
        names = {"widen": "convert_f16_to_f32", "narrow": "convert_f32_to_f16"}
        names |= {name: name if elements.endswith("_alone") else f"{name}_f32" for name, elements in operations if name not in names}  # fmt: skip
        found = results({f"{kernel}/avx2/L1": [200.0] for kernel in names.values()})
        verdict, files = 9, 4
        self.assertLessEqual(text.text_of(text.brief(found)).count("\n") + verdict + files, 50)

    def test_shares_and_gains(self) -> None:
        found = results({"exp_f32/avx2/L1": [104.0], "exp_f32/avx2/L2": [50.0]}, {"exp_f32/avx2/L2": ["share"]})
        self.assertEqual(text.share(found.find("exp_f32", "avx2", "L1")), "96% ")
        self.assertEqual(text.share(found.find("exp_f32", "avx2", "L2")), "-!")
        self.assertEqual([text.gain(one) for one in (3, 12, None)], ["3.00x", "12.0x", "-"])

    def test_the_largest_errors(self) -> None:
        """Those of a library that are equal stand once. Errors that are no number in JSON are in `after`."""
        rows = {f"exp_f32/{impl}/L1": [200.0] for impl in ("scalar", "avx2", "sleef-scalar", "sleef-avx2", "bad-avx2")}
        document = made_up.document(rows, peers="sleef-avx2 3.5")
        document["after"]["errors"] = {"exp_f32/bad-avx2": "inf"}
        for row, error in zip(document["benchmarks"], (0.5, 0.5, 0.7, 123.4)):
            row["error"] = error
        lines = text.text_of(text.errors(Results(document))).splitlines()
        self.assertIn(f"{'exp_f32':<23}rapt 0.500, sleef-avx2 123, sleef-scalar 0.700, bad inf", lines)
        self.assertEqual(lines[-2], "exp_f32 at L1, avx2: the fastest peer within 1 ULP is")
        self.assertEqual(lines[-1], "  sleef-scalar, 1.00 times rapt's time.")

    def test_tables_fit_80_columns_and_name_what_is_inherited(self) -> None:
        rows = {**ROWS, "dot_i8/avx2/n:64": [300.0], "exp_f32/avx2/cols:1024:L3": [300.0]}
        lines = text.tables(results(rows, inherited={"exp_f32/avx2": "scalar"})).splitlines()
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertIn("exp_f32", lines)
        self.assertIn("* has no code for the kernel: that of a lower instruction set serves.", lines)
        self.assertTrue(any(line.startswith("  avx2*") for line in lines))
        self.assertTrue(any(line.startswith("n:64 ") for line in lines))

    def test_a_whole_run_has_its_tables_in_a_file(self) -> None:
        for partial in (False, True):
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
                path = Path(folder) / "results.json"
                made_up.write(path, ROWS, isas="scalar, avx2, avx2_vnni", f32_lanes_avx2_vnni="8", partial=partial)
                text.main(path)
                file = path.with_suffix(".txt")
                self.assertEqual(file.exists(), not partial)
                self.assertEqual("Bandwidth, GB/s" in out.getvalue(), partial)
                self.assertIn("Quiet: none of 8 rows is marked.", out.getvalue())
                self.assertIn(f"Every repetition: {path}\n", out.getvalue())
                if not partial:
                    self.assertIn("Bandwidth, GB/s", file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
