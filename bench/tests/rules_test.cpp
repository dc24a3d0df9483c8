// Tests the rules that find disturbed measurements, using made-up numbers.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/disturbance.hpp"
#include "support/results_file.hpp"

using namespace rapt::bench;
using Names = std::vector<std::string>;

namespace {

const Names isas = {"scalar", "avx2", "avx512"};
const Names memory_levels = {"L1", "L2", "mem"};

Names inverted(const Rates &rates) {
  Names names;
  for (const Inversion &one : inversions(rates, isas, memory_levels))
    names.push_back(one.limit + " < " + one.below);
  return names;
}

}  // namespace

TEST_CASE("a row of a quiet machine is believed") {
  CHECK(doubts({.share = 0.93, .spread = 0.01, .slowdown = 1.02, .load = 0.05}).empty());
  CHECK(doubts({.share = 1.05, .spread = 0.10, .slowdown = 1.10, .load = 0.20}).empty());
}

TEST_CASE("each rule marks a row, and all do together") {
  CHECK(doubts({.share = 3.03}) == Names{"share"});
  CHECK(doubts({.share = 1.06}) == Names{"share"});
  CHECK(doubts({.spread = 0.11}) == Names{"spread"});
  CHECK(doubts({.slowdown = 1.11}) == Names{"machine"});
  CHECK(doubts({.load = 0.21}) == Names{"load"});
  CHECK(doubts({.share = 2, .spread = 2, .slowdown = 2, .load = 2}) ==
        Names{"share", "spread", "machine", "load"});
}

TEST_CASE("what is not known marks nothing") {
  CHECK(doubts({.share = NAN, .spread = NAN, .slowdown = NAN, .load = NAN}).empty());
}

TEST_CASE("the spread is that of the quartiles, in any order") {
  CHECK(quartile_spread({3, 1, 2, 5, 4}) == doctest::Approx(2.0 / 3));
  CHECK(quartile_spread({100, 101, 102, 103, 500}) == doctest::Approx(2.0 / 102));  // one slow repetition
  CHECK(quartile_spread({1, 2, 3, 4}) == doctest::Approx(1.5 / 2.5));
  CHECK(quartile_spread({7}) == 0);
}

TEST_CASE("a limit below a weaker instruction set's") {
  Rates rates;
  rates["scalar"] = {{"load:L2", 70}};
  rates["avx2"] = {{"load:L2", 145}, {"fma_f32", 114}};
  rates["avx512"] = {{"load:L2", 60}, {"fma_f32", 112}};
  CHECK(inverted(rates) == Names{"avx512 load:L2 < scalar load:L2", "avx512 load:L2 < avx2 load:L2"});
  rates["avx512"]["fma_f32"] = 100;
  rates["avx512"]["load:L2"] = 200;
  CHECK(inverted(rates) == Names{"avx512 fma_f32 < avx2 fma_f32"});
}

TEST_CASE("a limit below that of memory farther away") {
  Rates rates;
  rates["avx2"] = {{"store:L1", 200}, {"store:L2", 40}, {"store:mem", 50}};
  CHECK(inverted(rates) == Names{"avx2 store:L2 < avx2 store:mem"});
}

TEST_CASE("of the two ways to copy the faster is the limit, and a clock is none") {
  Rates rates;
  rates["avx2"] = {{"copy:mem", 15}, {"copy_nt:mem", 24}, {"clock", 4}};
  rates["avx512"] = {{"copy:mem", 24}, {"copy_nt:mem", 10}, {"clock", 3}};
  CHECK(inverted(rates).empty());
  rates["avx512"]["copy:mem"] = 15;
  CHECK(inverted(rates) == Names{"avx512 copy:mem < avx2 copy:mem"});
}

TEST_CASE("only a whole run writes results.json") {
  CHECK(results_file(false, false) == "results.json");
  CHECK(results_file(true, false) == "results-quick.json");
  CHECK(results_file(false, true) == "results-filtered.json");
  CHECK(results_file(true, true) == "results-filtered.json");
}
