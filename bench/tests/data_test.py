"""The numbers of the page: medians, shares, and ratios over the fastest peer."""

from __future__ import annotations

import unittest

import made_up
from data import Results

ROWS = {
    "exp_f32/scalar/L1": [800.0, 800, 800],
    "exp_f32/avx2/L1": [200.0, 100, 900],
    "exp_f32/slow-avx2/L1": [500.0, 500, 500],
    "exp_f32/fast/L1": [400.0, 400, 400],
}


class Data(unittest.TestCase):
    def setUp(self) -> None:
        self.results = Results(
            made_up.document(ROWS, isas="scalar, avx2, avx2_vnni", f32_lanes_scalar="1", f32_lanes_avx2_vnni="8")
        )

    def test_a_measurement_is_its_median(self) -> None:
        one = self.results.find("exp_f32", "avx2", "L1")
        self.assertAlmostEqual(one.seconds * 1e9, 200)
        self.assertAlmostEqual(one.share, 0.5)  # the made-up limit is 100 ns
        self.assertAlmostEqual(one.ns_per_element, 200 / (2 * made_up.ELEMENTS))
        self.assertAlmostEqual(one.gigabytes_per_second, 8 * 2 * made_up.ELEMENTS / 200)

    def test_a_limit_that_is_wrong_gives_no_share(self) -> None:
        doubted = Results(made_up.document(ROWS, {"exp_f32/avx2/L1": ["share"]}))
        self.assertIsNone(doubted.find("exp_f32", "avx2", "L1").share)
        self.assertIsNotNone(doubted.find("exp_f32", "scalar", "L1").share)

    def test_a_peer_twice_as_slow_is_a_ratio_of_2(self) -> None:
        self.assertEqual(self.results.best_rival("exp_f32", "avx2", "L1").impl, "fast")
        self.assertAlmostEqual(self.results.best_ratio("exp_f32", "avx2", "L1"), 2)
        # Only the strongest level has peers of other levels.
        self.assertIsNone(self.results.best_ratio("exp_f32", "scalar", "L1"))
        self.assertEqual(self.results.strongest("exp_f32"), "avx2")  # avx2_vnni inherits the kernel
        self.assertAlmostEqual(self.results.over_scalar(self.results.find("exp_f32", "avx2", "L1")), 4)

    def test_the_error_of_a_peer(self) -> None:
        """A peer whose error is NaN is none. With a bound on the error, only peers within it count."""
        document = made_up.document({**ROWS, "exp_f32/nan-avx2/L1": [10.0], "exp_f32/wrong-avx2/L1": [20.0]})
        for row in document["benchmarks"]:
            row["error"] = 100 if "wrong" in row["run_name"] else 0.6
        del document["benchmarks"][-2]["error"]
        document["after"]["errors"] = {"exp_f32/nan-avx2": "nan"}
        results = Results(document)
        self.assertEqual(results.best_rival("exp_f32", "avx2", "L1").impl, "wrong-avx2")
        self.assertEqual(results.best_rival("exp_f32", "avx2", "L1", largest_error=10).impl, "fast")


if __name__ == "__main__":
    unittest.main()
