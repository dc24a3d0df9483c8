// Finds where the smallest or largest elements of reductions are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/reduce/walks.hpp"

namespace {

// Returns the index of the first element that is `wanted`, or NaN if that is NaN. There is one.
template <class A>
[[gnu::flatten, gnu::noinline]] std::size_t index_of(const A *x, std::size_t n, A wanted) {
  using S = simd<A>;
  const typename S::batch of(wanted);
  const bool is_nan = wanted != wanted;
  std::size_t i = 0;
  for (; n - i >= S::width; i += S::width) {
    const auto v = S::load(x + i);
    if (S::any(is_nan ? S::unordered(v, v) : S::equal(v, of))) break;
  }
  while (is_nan ? x[i] == x[i] : x[i] != wanted) ++i;
  return i;
}

template <class A>
std::int64_t index_in_row(const rapt::ReduceCall &call, std::ptrdiff_t first, const Steps<A> &steps) {
  const bool is_least = call.operation == RAPT_ARGMIN;
  std::size_t i = 0, best_at = 0;
  A best = 0;
  each_piece<A>(call, first, elements_at_once<A>, [&](const A *x, std::size_t n) {
    const A value = steps.take_row(x, n, A(0), nullptr, {true, true});
    const bool is_nan = value != value;
    if (i == 0 || is_nan || (is_least ? value < best : value > best)) {
      best = value;
      best_at = i + index_of(x, n, value);
    }
    i += n;
    return !is_nan;
  });
  return static_cast<std::int64_t>(best_at);
}

// Notes i as the index of each column that has not yet one, and whose element is the best one, or NaN. The best element
// of a column that has one becomes NaN, to which no element is equal. Returns the number of columns with an index.
template <class A>
[[gnu::flatten, gnu::noinline]] std::size_t note_indices(const A *x, std::size_t count, std::size_t i,
                                                         A *best, std::int64_t *index) {
  using S = simd<A>;
  std::size_t noted = 0;
  for (std::size_t c = 0; c < count; c += S::width) {
    const std::size_t k = count - c < S::width ? count - c : S::width;
    const bool is_whole = k == S::width;
    const auto v = is_whole ? S::load(x + c) : S::load_first(x + c, k);
    const auto of = is_whole ? S::load(best + c) : S::load_first(best + c, k);
    if (!S::any(S::either(S::equal(v, of), S::unordered(v, v)))) [[likely]]
      continue;
    for (std::size_t e = c; e < c + k; ++e) {
      if (index[e] >= 0 || (x[e] == x[e] && x[e] != best[e])) continue;
      index[e] = static_cast<std::int64_t>(i);
      best[e] = std::numeric_limits<A>::quiet_NaN();
      ++noted;
    }
  }
  return noted;
}

template <class A>
void indices_in_columns(const Columns<A> &columns, std::size_t count, A *best, std::int64_t *index) {
  for (std::size_t c = 0; c < count; ++c) index[c] = -1;
  std::size_t left = count;
  columns.each_row(
      [&](const A *x, std::size_t i) { return (left -= note_indices(x, count, i, best, index)) > 0; });
}

}  // namespace
