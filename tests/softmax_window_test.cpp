// Rows of moderate scores are summed without their maximum, others relative to it: the bits are the scalar
// level's, which knows one way. Here are rows at the border between the two, for every length, in place and
// not.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

constexpr double ln_2 = 0.6931471805599453;

// Scores of a row, in units of ln 2.
struct Kind {
  const char *name;
  double scale;
  double (*exponent)(Random &random, std::size_t col, std::size_t cols, int window);
};
const Kind kinds[] = {
    {"within", 1, [](Random &random, auto, auto, int window) { return window * (random.uniform() - 0.5); }},
    {"both borders", 1,
     [](Random &random, auto, auto, int window) {
       return (random.one_in(2) ? 0.5 : -0.5) * window + 3 * (random.uniform() - 0.5);
     }},
    {"one score above", 1,
     [](Random &random, std::size_t i, std::size_t n, int window) {
       return i == n / 2 ? 0.5 * window + random.uniform() : random.uniform();
     }},
    {"one score below, at the end", 1,
     [](Random &random, std::size_t i, std::size_t n, int window) {
       return i + 1 == n ? -0.5 * window - random.uniform() : random.uniform();
     }},
    {"wide", 0.3,
     [](Random &random, auto, auto, int window) { return 8 * window * (random.uniform() - 0.5); }},
    {"half of -inf", 1,
     [](Random &random, auto, auto, int) {
       return random.one_in(2) ? -std::numeric_limits<double>::infinity() : random.uniform();
     }},
    {"one score besides -inf, which is above", 1,
     [](Random &random, std::size_t i, std::size_t n, int window) {
       return i == n / 3 ? 0.5 * window + random.uniform() : -std::numeric_limits<double>::infinity();
     }},
    {"-inf", 1, [](Random &, auto, auto, int) { return -std::numeric_limits<double>::infinity(); }},
    // log2(e) * scale is 1: every other score lies halfway between two exponents, and is rounded to even.
    {"halfway between exponents", ln_2,
     [](Random &random, auto, auto, int) { return static_cast<double>(random.below(41)) * 0.5 - 10; }},
    {"halfway between exponents, by 3", 3 * ln_2,
     [](Random &random, auto, auto, int) { return static_cast<double>(random.below(41)) * 0.5 - 10; }},
};

template <class T>
void same_bits_as_scalar(const Kind &kind, std::size_t rows, std::size_t cols) {
  Random random(rows * 1000 + cols);
  const std::size_t n = rows * cols;
  std::vector<T> x(n), expected(n), y(n);
  for (std::size_t i = 0; i < n; ++i) {
    const bool is_odd = i / cols % 3 == 1;  // rows of one batch differ
    const double exponent =
        is_odd ? random.uniform() : kind.exponent(random, i % cols, cols, sizeof(T) == 4 ? 64 : 256);
    x[i] = static_cast<T>(exponent * ln_2 / kind.scale);
  }
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  options.scale = kind.scale;
  const auto stride = static_cast<std::ptrdiff_t>(cols);
  const auto run = [&](const std::vector<T> &from, std::vector<T> &to) {
    REQUIRE(Api<T>::softmax(from.data(), stride, to.data(), stride, rows, cols, &options) == RAPT_OK);
  };
  {
    const ForcedIsa scalar("scalar");
    run(x, expected);
  }
  on_every_level([&] {
    for (const bool in_place : {false, true}) {
      CAPTURE(in_place);
      y = x;
      run(in_place ? y : x, y);
      std::size_t differences = 0;
      for (std::size_t i = 0; i < n; ++i) differences += !same_bits(y[i], expected[i]);
      CHECK(differences == 0);
    }
  });
}

}  // namespace

TEST_CASE_TEMPLATE("rows inside and outside of the window", T, float, double) {
  for (const Kind &kind : kinds) {
    CAPTURE(std::string(kind.name));
    const std::size_t step = native_or_emulated<std::size_t>(1, 23);
    for (std::size_t cols = 1; cols <= 300; cols += step) {
      CAPTURE(cols);
      same_bits_as_scalar<T>(kind, 3 + cols % 35, cols);
    }
    for (const std::size_t cols : Sizes{511, 1024, 2500, 5000}) {
      CAPTURE(cols);
      if (!emulated() || cols == 511) same_bits_as_scalar<T>(kind, 5, cols);
    }
  }
}
