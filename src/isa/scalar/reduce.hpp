// Implements the scalar reference of reduce. The code spells out the order of every operation
// (contract/reductions.hpp).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "call/element.hpp"
#include "call/reduce_call.hpp"
#include "contract/fused.hpp"
#include "contract/norm.hpp"
#include "contract/reduce.hpp"
#include "contract/reductions.hpp"
#include "contract/types.hpp"

namespace {

// Finds element i of an output, by its index in each reduced dimension.
template <class A>
struct ElementsOf {
  const rapt::ReduceCall &call;
  std::ptrdiff_t first;

  A operator()(std::size_t i) const {
    std::ptrdiff_t at = first;
    for (std::size_t d = call.reduced_dims; d-- > 0; i /= call.reduced[d].count)
      at += call.reduced[d].x * static_cast<std::ptrdiff_t>(i % call.reduced[d].count);
    return rapt::with_element<A>(call.type, [&](auto element) -> A {
      return rapt::widened(static_cast<const typename decltype(element)::type *>(call.x)[at]);
    });
  }
};

// Each lane takes its elements by take(lane, i). Lanes are joined by join(a, b).
template <class A, class Take, class Join>
A in_lanes(std::size_t n, A start, Take take, Join join) {
  constexpr std::size_t lanes = rapt::dot_lanes<A>, stretch = rapt::dot_stretch<A>;
  A total[lanes];
  for (A &of : total) of = start;
  for (std::size_t begin = 0; begin < n; begin += stretch) {
    A lane[lanes];
    for (A &of : lane) of = start;
    for (std::size_t i = begin; i < n && i < begin + stretch; ++i) lane[i % lanes] = take(lane[i % lanes], i);
    for (std::size_t j = 0; j < lanes; ++j) total[j] = begin == 0 ? lane[j] : join(total[j], lane[j]);
  }
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t j = 0; j < half; ++j) total[j] = join(total[j], total[j + half]);
  }
  return total[0];
}

template <class A, class Take>
A sum_in_lanes(std::size_t n, Take take) {
  return in_lanes(n, A(0), take, [](A a, A b) { return a + b; });
}

// Returns a if it is NaN, or better than b.
template <class A>
A least_or_nan(A a, A b) {
  return a != a || a < b ? a : b;
}

template <class A>
std::int64_t index_of_best(const rapt::ReduceCall &call, const ElementsOf<A> &x) {
  const A sign = call.operation == RAPT_ARGMIN ? A(1) : A(-1);
  std::size_t best = 0;
  for (std::size_t i = 0; i < call.elements; ++i) {
    const A value = x(i);
    if (value != value) return static_cast<std::int64_t>(i);
    if (sign * value < sign * x(best)) best = i;
  }
  return static_cast<std::int64_t>(best);
}

template <class A, class Largest>
A norm_2(const ElementsOf<A> &x, std::size_t n, Largest largest) {
  const auto squares = [&](A scale) {
    return sum_in_lanes<A>(n, [&](A lane, std::size_t i) {
      const A scaled = x(i) * scale;
      return fused(scaled, scaled, lane);
    });
  };
  const A sum = squares(1);
  if (sum != sum || (sum >= rapt::SafeSquares<A>::least && sum <= std::numeric_limits<A>::max()))
    return rapt::square_root(sum);
  const A norm_inf = largest(), scale = rapt::SafeSquares<A>::scale_of(norm_inf);
  if (scale == 0) return norm_inf;
  return rapt::square_root(squares(scale)) / scale;
}

// Computes one output. The mean of a variance is written to `mean`.
template <class A>
A reduced(const rapt::ReduceCall &call, const ElementsOf<A> &x, A &mean) {
  constexpr A infinity = std::numeric_limits<A>::infinity();
  const std::size_t n = call.elements;
  const auto sum = [&] { return sum_in_lanes<A>(n, [&](A lane, std::size_t i) { return lane + x(i); }); };
  const auto largest = [&] {
    return in_lanes<A>(
        n, A(0), [&](A lane, std::size_t i) { return -least_or_nan<A>(-lane, -std::fabs(x(i))); },
        [](A a, A b) { return -least_or_nan<A>(-a, -b); });
  };
  switch (call.operation) {
    case RAPT_SUM:
      return sum();
    case RAPT_MEAN:
      return sum() / static_cast<A>(n);
    case RAPT_VARIANCE: {
      mean = sum() / static_cast<A>(n);
      const A squares = sum_in_lanes<A>(n, [&](A lane, std::size_t i) {
        const A deviation = x(i) - mean;
        return fused(deviation, deviation, lane);
      });
      return squares / rapt::variance_divisor<A>(n, call.correction);
    }
    case RAPT_NORM_1:
      return sum_in_lanes<A>(n, [&](A lane, std::size_t i) { return lane + std::fabs(x(i)); });
    case RAPT_NORM_2:
      return norm_2(x, n, largest);
    case RAPT_NORM_INF:
      return largest();
    case RAPT_PRODUCT:
      return in_lanes<A>(
          n, A(1), [&](A lane, std::size_t i) { return lane * x(i); }, [](A a, A b) { return a * b; });
    case RAPT_MIN:
      return in_lanes<A>(
                 n, infinity, [&](A lane, std::size_t i) { return least_or_nan<A>(lane, x(i)); },
                 [](A a, A b) { return least_or_nan<A>(a, b); }) +
             A(0);
    default:
      return in_lanes<A>(
                 n, -infinity, [&](A lane, std::size_t i) { return -least_or_nan<A>(-lane, -x(i)); },
                 [](A a, A b) { return -least_or_nan<A>(-a, -b); }) +
             A(0);
  }
}

template <class A>
void write_number(void *out, rapt_type type, std::ptrdiff_t at, A value) {
  rapt::with_element<A>(type, [&](auto element) {
    using E = typename decltype(element)::type;
    static_cast<E *>(out)[at] = rapt::narrowed<E>(value);
  });
}

template <class A>
void reduce(const rapt::ReduceCall *call, std::size_t first, std::size_t last) {
  for (std::size_t task = first; task < last; ++task) {
    const rapt::ReduceTask of(*call, task);
    const rapt::ReduceCall::Dim kept = call->last_kept();
    for (std::ptrdiff_t o = 0; o < static_cast<std::ptrdiff_t>(of.count); ++o) {
      const ElementsOf<A> x{*call, of.x + kept.x * o};
      const std::ptrdiff_t at = of.out + kept.out * o;
      if (call->finds_index()) {
        static_cast<std::int64_t *>(call->out)[at] = index_of_best(*call, x);
        continue;
      }
      A mean = 0;
      const A result = reduced(*call, x, mean);
      write_number(call->out, call->out_type, at, result);
      if (call->mean) write_number(call->mean, call->out_type, at, mean);
    }
  }
}

}  // namespace
