// Tests rows at the border between two ways of summing. Rows of moderate scores are summed without their
// maximum, and other rows relative to their maximum. The bits must be those of the scalar level, which has
// only one way. Rows of every length are computed in place and out of place.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
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

// Describes the scores of a row in units of ln 2.
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
    {"far from 0", 1, [](Random &random, auto, auto, int window) { return window * (3 + random.uniform()); }},
    {"so far apart that quotients may become subnormal", 1,
     [](Random &random, auto, auto, int window) {
       const double apart = window == 64 ? 76 : 943;
       return random.one_in(3) ? 100 - apart + 4 * (random.uniform() - 0.5) : 100 + random.uniform();
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
    // log2(e) * scale is 1: every other score is halfway between two exponents, and is rounded to even.
    {"halfway between exponents", ln_2,
     [](Random &random, auto, auto, int) { return static_cast<double>(random.below(41)) * 0.5 - 10; }},
    {"halfway between exponents, by 3", 3 * ln_2,
     [](Random &random, auto, auto, int) { return static_cast<double>(random.below(41)) * 0.5 - 10; }},
};

// Lists the options that a sum without a maximum supports. With `excludes`, the bias or mask excludes some
// elements, which are NaN. With `bias`, the bias supplies half of each other score.
struct Given {
  const char *name;
  bool bias, excludes, mask, sinks;
};
const Given givens[] = {
    {"no options", false, false, false, false},   {"bias", true, false, false, false},
    {"excluding bias", true, true, false, false}, {"sinks", false, false, false, true},
    {"mask", false, true, true, false},           {"bias, mask and sinks", true, true, true, true},
};

template <class T>
void same_bits_as_scalar(const Kind &kind, const Given &given, std::size_t rows, std::size_t cols) {
  CAPTURE(std::string(given.name));
  Random random(rows * 1000 + cols);
  const std::size_t n = rows * cols;
  std::vector<T> x(n), bias(n), sinks(rows), expected(n), y(n);
  std::vector<std::uint8_t> mask(n, 1);
  const int window = sizeof(T) == 4 ? 64 : 256;
  for (std::size_t i = 0; i < n; ++i) {
    const bool is_odd = i / cols % 3 == 1;  // every third row has ordinary scores
    const double score = ln_2 * (is_odd ? random.uniform() : kind.exponent(random, i % cols, cols, window));
    x[i] = static_cast<T>(score / kind.scale);
    if (given.bias && std::isfinite(score)) {
      bias[i] = static_cast<T>(score / 2);
      x[i] /= 2;
    }
    if (given.excludes && random.one_in(4)) {
      x[i] = std::numeric_limits<T>::quiet_NaN();
      if (given.mask && (!given.bias || random.one_in(2))) {
        mask[i] = 0;
      } else {
        bias[i] = -std::numeric_limits<T>::infinity();
      }
    }
  }
  for (T &sink : sinks) sink = static_cast<T>(ln_2 * kind.exponent(random, 0, 1, window));
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  options.scale = kind.scale;
  const auto stride = static_cast<std::ptrdiff_t>(cols);
  if (given.bias) options.bias = bias.data();
  if (given.bias) options.bias_stride = stride;
  if (given.mask) options.mask = mask.data();
  if (given.mask) options.mask_stride = stride;
  if (given.sinks) options.sinks = sinks.data();
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
    const std::size_t step = native_or_emulated<std::size_t>(1, 37);
    for (std::size_t cols = 1; cols <= 300; cols += step) {
      CAPTURE(cols);
      same_bits_as_scalar<T>(kind, givens[0], 3 + cols % 35, cols);
      same_bits_as_scalar<T>(kind, givens[1 + cols / step % 5], 3 + cols % 11, cols);
    }
    for (const std::size_t cols : Sizes{511, 1024, 2500, 5000}) {
      CAPTURE(cols);
      if (emulated() && cols != 511) continue;
      for (const Given &given : givens) {
        if (!emulated() || given.sinks) same_bits_as_scalar<T>(kind, given, 5, cols);
      }
    }
  }
}
