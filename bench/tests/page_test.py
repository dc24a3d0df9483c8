"""The page: doubtful shares have no good colour, and missing parts are named."""

from __future__ import annotations

import sys
import unittest

import made_up

try:
    import page
    import plots
    from data import Results
except ModuleNotFoundError as error:
    print(f"skipped: the benchmark's page: {error} (Debian: python3-matplotlib)")
    sys.exit(0)

ROWS = {f"exp_f32/avx2/{size}": [125.0, 126, 127, 128] for size in ("L1", "L2", "n:64", "n:1024")}
IMPOSSIBLE = {**ROWS, "exp_f32/avx2/L2": [33.0, 33, 33, 33]}


def results(*arguments, **context) -> Results:
    return Results(made_up.document(*arguments, **context))


class Page(unittest.TestCase):
    def assert_in(self, part: str, text: str, wanted: bool = True) -> None:
        """Its message leaves out the page."""
        self.assertEqual(part in text, wanted, part)

    def test_an_impossible_share_has_no_colour_of_the_scale(self) -> None:
        one = results(IMPOSSIBLE, {"exp_f32/avx2/L2": ["share"]}).find("exp_f32", "avx2", "L2")
        self.assertIsNone(one.share)
        self.assertEqual(plots.share_style(one), (plots.IMPOSSIBLE_COLOUR, "////"))

    def test_an_impossible_share_stands_nowhere(self) -> None:
        doubts = {"exp_f32/avx2/L2": ["share"]}
        self.assert_in("303", page.render(results(IMPOSSIBLE, doubts)), False)  # 100 ns over 33
        self.assert_in("303 %", page.render(results(IMPOSSIBLE)))

    def test_other_doubts_are_hatched_on_their_colour(self) -> None:
        quiet = results(ROWS).find("exp_f32", "avx2", "L1")
        doubted = results(ROWS, {"exp_f32/avx2/L1": ["load"]}).find("exp_f32", "avx2", "L1")
        self.assertEqual(plots.share_style(quiet)[1], None)
        self.assertEqual(plots.share_style(doubted), (plots.share_style(quiet)[0], "////"))

    def test_the_verdict_stands_on_the_page(self) -> None:
        self.assert_in("The machine was quiet: none of 4 rows", page.render(results(ROWS)))
        disturbed = page.render(results(IMPOSSIBLE, {"exp_f32/avx2/L2": ["share"]}))
        self.assert_in("The machine was disturbed:", disturbed)
        self.assert_in("<pattern", disturbed)
        self.assert_in("<pattern", page.render(results(ROWS)), False)

    def test_peers_that_were_not_measured_are_named(self) -> None:
        self.assert_in("bench/run --peers", page.render(results(ROWS)))
        rows = {**ROWS, "exp_f32/sleef-avx2/L1": [200.0, 200, 200, 200]}
        self.assert_in("bench/run --peers", page.render(results(rows, peers="sleef-avx2 3.5")), False)

    def test_the_mean_over_the_best_peers_is_geometric(self) -> None:
        peers = {"exp_f32/sleef/L1": [253.0] * 4, "exp_f32/sleef/L2": [63.25] * 4}  # 2 and .5
        text = page.render(results({**ROWS, **peers}, peers="sleef 3.5"))
        glance = text[text.index("At a glance") :]
        self.assert_in("at 1 of 2", glance)
        self.assert_in("1.00", glance[glance.index("exp_f32") : glance.index("at 1 of 2")])


if __name__ == "__main__":
    unittest.main()
