// Says what the metrics of rapt.h make of sums. The sums have the lanes of contract/reductions.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "contract/norm.hpp"
#include "contract/types.hpp"
#include "rapt/rapt.h"

namespace rapt {
namespace {

// What a metric of elements E is computed in, and what it returns. Sums of bytes are exact integers, and exact in
// double.
template <class E>
using MetricNumber = std::conditional_t<sizeof(E) == 1 || sizeof(E) == 8, double, float>;
template <class E>
using MetricResult = Arithmetic<E>;
template <class E>
using MetricFunction = MetricResult<E> (*)(const void *a, const void *b, std::size_t n);

// Returns what of<kind>() returns, or null if kind is none.
template <class E, class Of>
MetricFunction<E> metric_function(int kind, Of of) {
  switch (kind) {
    case RAPT_METRIC_DOT:
      return of.template operator()<RAPT_METRIC_DOT>();
    case RAPT_METRIC_COSINE:
      return of.template operator()<RAPT_METRIC_COSINE>();
    case RAPT_METRIC_L2_SQUARED:
      return of.template operator()<RAPT_METRIC_L2_SQUARED>();
    case RAPT_METRIC_DOT_DISTANCE:
      return of.template operator()<RAPT_METRIC_DOT_DISTANCE>();
    case RAPT_METRIC_COSINE_DISTANCE:
      return of.template operator()<RAPT_METRIC_COSINE_DISTANCE>();
    default:
      return nullptr;
  }
}

// Of vectors with these roots of their sums of squares.
template <class A>
A cosine(A product, A root_of_a, A root_of_b) {
  const A divisor = root_of_a * root_of_b;
  return divisor == 0 ? A(0) : product / divisor;
}

constexpr bool is_cosine(int kind) {
  return kind == RAPT_METRIC_COSINE || kind == RAPT_METRIC_COSINE_DISTANCE;
}
constexpr bool is_distance(int kind) {
  return kind == RAPT_METRIC_DOT_DISTANCE || kind == RAPT_METRIC_COSINE_DISTANCE;
}
constexpr bool smallest_is_best(int kind) { return is_distance(kind) || kind == RAPT_METRIC_L2_SQUARED; }

}  // namespace
}  // namespace rapt
