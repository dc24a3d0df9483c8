// Writes rows that have no probabilities.
#pragma once

#include <cstddef>
#include <limits>

#include "call/score_plan.hpp"
#include "contract/types.hpp"

namespace {

enum class RowKind { regular, nothing_visible, all_minus_infinity, not_a_number };

// Writes `excluded` to an irregular row. If the row's kind is NaN, visible elements become NaN.
template <class E>
[[gnu::noinline]] void fill_irregular(const ScorePlan<rapt::Arithmetic<E>> &plan, std::size_t r, RowKind kind,
                                      E *y, std::size_t cols, rapt::Arithmetic<E> excluded) {
  using A = rapt::Arithmetic<E>;
  const bool is_nan = kind == RowKind::not_a_number ||
                      (kind == RowKind::all_minus_infinity && !plan.rows.options.empty_rows_are_zero);
  for (std::size_t i = 0; i < cols; ++i) {
    const bool writes_nan = is_nan && !plan.excluded(r, i);
    y[i] = rapt::narrowed<E>(writes_nan ? std::numeric_limits<A>::quiet_NaN() : excluded);
  }
}

}  // namespace
