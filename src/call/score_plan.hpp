// Decides, once per call, how the options of softmax turn elements into scores.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "call/softmax_rows.hpp"
#include "contract/softmax.hpp"

namespace {

// A score is s = c * v, where v is
//   the element x, or -x under a negative scale (c is then positive);
//   factor * x if the scale is too large or small for the constants of exp;
//   cap * tanh(factor * x) with a softcap;
// plus bias / c, in a fused operation. So a bias of 0 changes no bit. An excluded element has v = -inf.
template <class A>
struct ScorePlan {
  const rapt::SoftmaxRows &rows;
  A factor = 1;
  A cap = 0;
  double c = 1;
  A from_natural;   // 1 / c: a bias times this is added to v
  A subtract_from;  // if the row's maximum has at least this magnitude, it is subtracted from v

  explicit ScorePlan(const rapt::SoftmaxRows &given) : rows(given) {
    constexpr double limit = rapt::SoftmaxContract<A>::scale_limit;
    const double magnitude = std::fabs(rows.options.scale);
    if (rows.options.softcap != 0) {
      cap = static_cast<A>(rows.options.softcap);
      factor = static_cast<A>(rows.options.scale / rows.options.softcap);
    } else if (magnitude < 1 / limit || magnitude > limit) {
      factor = static_cast<A>(rows.options.scale);
    } else {
      factor = rows.options.scale < 0 ? A(-1) : A(1);
      c = magnitude;
    }
    from_natural = static_cast<A>(1 / c);
    subtract_from = rapt::SoftmaxContract<A>::subtract_from / static_cast<A>(c);
  }

  // Returns whether v is x itself.
  bool plain() const { return unchanged() && !rows.options.mask; }
  // Returns whether v is x itself, and every row sees all columns.
  bool simple() const { return plain() && !rows.options.causal && !rows.options.row_lengths; }
  // Returns whether v is x, except where the mask excludes x.
  bool masked_only() const { return unchanged() && rows.options.mask; }
  // Returns whether v is x plus the bias, except where the bias or a mask excludes x.
  bool biased() const { return rows.options.bias && factor == 1 && cap == 0; }

  // Returns the number of columns that the length and the causal limit of row r leave. No array is read past
  // these columns.
  std::size_t visible_cols(std::size_t r) const {
    std::size_t cols = rows.options.row_lengths ? rows.options.row_lengths[r] : rows.cols;
    if (rows.options.causal != RAPT_CAUSAL_NONE) {
      // Does not form r + causal_offset + 1, which may overflow.
      const std::ptrdiff_t offset = rows.options.causal_offset;
      const std::size_t before = offset < 0 ? std::size_t{0} - static_cast<std::size_t>(offset) : 0;
      const std::size_t after = offset > 0 ? static_cast<std::size_t>(offset) : 0;
      if (r < before) return 0;
      if (after < cols && r - before + 1 < cols - after) cols = r - before + 1 + after;
    }
    return cols;
  }

  const A *bias_row(std::size_t r) const {
    const A *const bias = static_cast<const A *>(rows.options.bias);
    return bias ? bias + static_cast<std::ptrdiff_t>(r) * rows.options.bias_stride : nullptr;
  }
  const A *sinks() const { return static_cast<const A *>(rows.options.sinks); }
  const std::uint8_t *mask_row(std::size_t r) const {
    return rows.options.mask ? rows.options.mask + static_cast<std::ptrdiff_t>(r) * rows.options.mask_stride
                             : nullptr;
  }
  bool excluded(std::size_t r, std::size_t col) const {
    return (rows.options.mask && mask_row(r)[col] == 0) ||
           (rows.options.bias && bias_row(r)[col] == -std::numeric_limits<A>::infinity());
  }

 private:
  bool unchanged() const { return factor == 1 && cap == 0 && !rows.options.bias; }
};

}  // namespace
