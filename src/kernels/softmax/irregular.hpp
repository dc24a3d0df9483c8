// Writes rows without probabilities: they see no column, have only scores of -inf, or have a NaN or +inf.
#pragma once

#include <cstddef>
#include <limits>

#include "call/score_plan.hpp"
#include "contract/types.hpp"

namespace {

enum class RowKind { regular, nothing_visible, all_minus_infinity, not_a_number };

// Writes an irregular row. Visible elements become NaN for not_a_number, and for all_minus_infinity unless
// empty_rows_are_zero. All others become `excluded`.
template <class E>
[[gnu::noinline, gnu::flatten]] void fill_irregular(const ScorePlan<rapt::Arithmetic<E>> &plan, std::size_t r,
                                                    RowKind kind, E *y, std::size_t cols,
                                                    rapt::Arithmetic<E> excluded) {
  using A = rapt::Arithmetic<E>;
  const bool is_nan = kind == RowKind::not_a_number ||
                      (kind == RowKind::all_minus_infinity && !plan.rows.options.empty_rows_are_zero);
  for (std::size_t i = 0; i < cols; ++i) {
    const bool writes_nan = is_nan && !plan.excluded(r, i);
    y[i] = rapt::narrowed<E>(writes_nan ? std::numeric_limits<A>::quiet_NaN() : excluded);
  }
}

}  // namespace
