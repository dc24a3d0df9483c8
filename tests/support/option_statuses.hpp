// Tests the statuses of options that softmax and attention share. `Call` needs the members `options` and
// `Element`, and those that support/expect_status.hpp asks for.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "support/effort.hpp"
#include "support/expect_status.hpp"

namespace rapt::test {

// Tests that the library accepts only the sizes that the options struct has had in releases.
template <class Call, class Options>
void expect_option_sizes(unsigned functions, Options Call::*options, const std::vector<std::size_t> &released,
                         rapt_status bad_size) {
  const auto expect = [&](std::size_t size, rapt_status expected) {
    CAPTURE(size);
    expect_status<Call>("size", functions, expected, [&](Call &call) { (call.*options).size = size; });
  };
  for (const std::size_t size : released) {
    expect(size, RAPT_OK);
    for (const std::size_t off : Sizes{1, 3, 4, 8}) {
      expect(size - off, bad_size);
      expect(size + off, bad_size);
    }
  }
  CHECK(released.back() == sizeof(Options));
  for (const std::size_t bad : {std::size_t{0}, std::size_t{8}, std::size_t{4096}, SIZE_MAX})
    expect(bad, bad_size);
}

// Tests that the scale, the softcap and their quotient must be normal numbers of the element type.
template <class Call>
void expect_scale_and_softcap(unsigned functions) {
  using Limits = std::numeric_limits<typename Call::Element>;
  constexpr double infinity = std::numeric_limits<double>::infinity(), largest{Limits::max()},
                   least{Limits::min()};
  struct Scores {
    double scale, softcap;
  };
  const auto expect = [&](rapt_status expected, const std::vector<Scores> &rows) {
    for (const Scores &scores : rows) {
      CAPTURE(scores.scale);
      CAPTURE(scores.softcap);
      expect_status<Call>("numbers", functions, expected, [&](Call &call) {
        call.options.scale = scores.scale;
        call.options.softcap = scores.softcap;
      });
    }
  };
  for (const double bad : {infinity, largest, largest / 1.4, least / 1.1, 5e-324, std::nan("")})
    expect(RAPT_BAD_SCALE, {{bad, 0}, {-bad, 0}});
  expect(RAPT_BAD_SOFTCAP, {{0, infinity}, {0, -infinity}, {0, std::nan("")}, {0, -1}, {0, -5e-324}});
  expect(RAPT_BAD_SOFTCAP, {{0, 5e-324}, {1, least / 1.1}, {1, largest}, {1e10, least}});
  expect(RAPT_BAD_SOFTCAP, {{1e-10, 1e-3 / least}, {1e-5, largest}});
  expect(RAPT_OK, {{0, 0}, {-0.0, 0}, {-3, 0}, {largest / 1.5, 0}, {least, 0}, {-least, 0}, {8, largest}});
}

// Tests that an offset needs RAPT_CAUSAL_OFFSET and is at most 2^60 in magnitude.
template <class Call>
void expect_causality(unsigned functions) {
  constexpr std::ptrdiff_t farthest = std::ptrdiff_t{1} << 60;
  const auto expect = [&](int causal, std::ptrdiff_t offset, rapt_status expected) {
    CAPTURE(causal);
    CAPTURE(offset);
    expect_status<Call>("causality", functions, expected, [=](Call &call) {
      call.options.causal = causal;
      call.options.causal_offset = offset;
    });
  };
  for (const int bad : {-1, 4, 1000}) expect(bad, 0, RAPT_BAD_CAUSAL);
  for (const int other : {RAPT_CAUSAL_NONE, RAPT_CAUSAL_BOTTOM_RIGHT, RAPT_CAUSAL_TOP_LEFT}) {
    for (const std::ptrdiff_t offset : {std::ptrdiff_t{1}, std::ptrdiff_t{-1}, farthest})
      expect(other, offset, RAPT_BAD_CAUSAL_OFFSET);
  }
  for (const std::ptrdiff_t bad : {farthest + 1, -farthest - 1, PTRDIFF_MAX, PTRDIFF_MIN})
    expect(RAPT_CAUSAL_OFFSET, bad, RAPT_BAD_CAUSAL_OFFSET);
  for (const std::ptrdiff_t good : {farthest, -farthest, std::ptrdiff_t{0}})
    expect(RAPT_CAUSAL_OFFSET, good, RAPT_OK);
}

}  // namespace rapt::test
