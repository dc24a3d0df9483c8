// Special values, predicates over results, and the ways in which options exclude elements: for the tests of
// special values.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/every_level.hpp"

namespace rapt::test {

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T quiet_nan = std::numeric_limits<T>::quiet_NaN();
template <class T>
constexpr T largest = std::numeric_limits<T>::max();
template <class T>
constexpr T least_subnormal = std::numeric_limits<T>::denorm_min();

template <class T>
bool is_plus_zero(T value) {
  return bits_of(value) == 0;
}

// Of vectors and spans.
template <class Values>
bool all_nan(const Values &values) {
  return std::all_of(values.begin(), values.end(), [](auto value) { return std::isnan(value); });
}
template <class Values>
bool all_plus_zero(const Values &values) {
  return std::all_of(values.begin(), values.end(), [](auto value) { return is_plus_zero(value); });
}
template <class Values, class T>
bool all_are(const Values &values, T expected) {
  return std::all_of(values.begin(), values.end(), [=](T value) { return same_bits(value, expected); });
}
template <class Values>
bool all_finite(const Values &values) {
  return std::all_of(values.begin(), values.end(), [](auto value) { return std::isfinite(value); });
}
template <class Values>
bool any_minus_zero(const Values &values) {
  return std::any_of(values.begin(), values.end(), [](auto x) { return x == 0 && std::signbit(x); });
}
// Elements whose bits differ.
template <class Values>
std::size_t differences(const Values &a, const Values &b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += !same_bits(a[i], b[i]);
  return count;
}

// A change to a problem of rows of scores. A Problem has `options`, rows(), cols(), and `mask` and `bias` for
// every score (empty: not set). set_length() sets the number of columns of every row.
template <class Problem>
struct Exclusion {
  const char *name;
  bool hides_the_rest;  // excludes the columns after it too
  std::function<void(Problem &)> apply;
};

template <class Problem>
void set_causal_offset(Problem &problem, std::ptrdiff_t offset) {
  problem.options.causal = RAPT_CAUSAL_OFFSET;
  problem.options.causal_offset = offset;
}

// Every way to exclude column `place` of all rows.
template <class Problem>
std::vector<Exclusion<Problem>> exclusions_of(std::size_t place) {
  const auto by_bias = [=](Problem &problem) {
    using T = typename Problem::Element;
    problem.bias.assign(problem.rows() * problem.cols(), T(0.25));
    for (std::size_t r = 0; r < problem.rows(); ++r) problem.bias[r * problem.cols() + place] = -infinity<T>;
  };
  const auto by_mask = [=](Problem &problem) {
    problem.mask.assign(problem.rows() * problem.cols(), 1);
    for (std::size_t r = 0; r < problem.rows(); ++r) problem.mask[r * problem.cols() + place] = 0;
  };
  const auto by_softcapped_bias = [=](Problem &problem) {
    by_bias(problem);
    problem.options.softcap = 3;
  };
  const auto by_causality = [=](Problem &problem) {
    set_causal_offset(problem,
                      static_cast<std::ptrdiff_t>(place) - static_cast<std::ptrdiff_t>(problem.rows()));
  };
  return {{"a mask", false, by_mask},
          {"a bias", false, by_bias},
          {"a bias behind a softcap", false, by_softcapped_bias},
          {"a length", true, [=](Problem &problem) { problem.set_length(place); }},
          {"causality", true, by_causality}};
}

// Every way to exclude all columns of all rows.
template <class Problem>
std::vector<Exclusion<Problem>> exclusions_of_all() {
  using T = typename Problem::Element;
  const auto scores = [](const Problem &problem) { return problem.rows() * problem.cols(); };
  const auto by_causality = [](Problem &problem) {
    set_causal_offset(problem, -static_cast<std::ptrdiff_t>(problem.rows()));
  };
  return {{"a mask", true, [=](Problem &problem) { problem.mask.assign(scores(problem), 0); }},
          {"a bias", true, [=](Problem &problem) { problem.bias.assign(scores(problem), -infinity<T>); }},
          {"a length", true, [](Problem &problem) { problem.set_length(0); }},
          {"causality", true, by_causality}};
}

}  // namespace rapt::test
