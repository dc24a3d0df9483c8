// How the options of softmax make scores of elements, decided once a call.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "contract/exp.hpp"
#include "kernels/kernels.hpp"

namespace {

// A score is s = c * v, where v is
//   the element x, or -x under a negative scale (which c then has without its sign);
//   factor * x where the scale is too large or small for the constants of exp;
//   fma(factor, x, bias) with a bias;
//   cap * tanh(factor * x), plus the bias by a fused operation, with a softcap.
// An excluded element has v = -inf.
template <class T>
struct ScorePlan {
  const rapt::SoftmaxRows &rows;
  T factor = 1;
  T cap = 0;
  double c = 1;
  T subtract_from;  // the magnitude of v from which the row's maximum is subtracted from it

  explicit ScorePlan(const rapt::SoftmaxRows &given) : rows(given) {
    constexpr double limit = rapt::Contract<T>::scale_limit;
    const double magnitude = std::fabs(rows.options.scale);
    if (rows.options.softcap != 0) {
      cap = static_cast<T>(rows.options.softcap);
      factor = static_cast<T>(rows.options.scale / rows.options.softcap);
    } else if (rows.options.bias || magnitude < 1 / limit || magnitude > limit) {
      factor = static_cast<T>(rows.options.scale);
    } else {
      factor = rows.options.scale < 0 ? T(-1) : T(1);
      c = magnitude;
    }
    subtract_from = rapt::Contract<T>::subtract_from / static_cast<T>(c);
  }

  // v is x itself.
  bool plain() const { return unchanged() && !rows.options.mask; }
  // And every row sees all columns.
  bool simple() const { return plain() && !rows.options.causal && !rows.options.row_lengths; }
  // v is x where the mask lets it.
  bool masked_only() const { return unchanged() && rows.options.mask; }

  // Columns that row r sees at all: all others are excluded without being looked at.
  std::size_t visible_cols(std::size_t r) const {
    std::size_t cols = rows.options.row_lengths ? rows.options.row_lengths[r] : rows.cols;
    if (rows.options.causal != RAPT_CAUSAL_NONE) {
      // Compared without forming r + causal_offset + 1, which may overflow.
      const std::ptrdiff_t offset = rows.options.causal_offset;
      const std::size_t before = offset < 0 ? std::size_t{0} - static_cast<std::size_t>(offset) : 0;
      const std::size_t after = offset > 0 ? static_cast<std::size_t>(offset) : 0;
      if (r < before) return 0;
      if (after < cols && r - before + 1 < cols - after) cols = r - before + 1 + after;
    }
    return cols;
  }

  const T *bias_row(std::size_t r) const {
    const T *const bias = static_cast<const T *>(rows.options.bias);
    return bias ? bias + static_cast<std::ptrdiff_t>(r) * rows.options.bias_stride : nullptr;
  }
  const T *sinks() const { return static_cast<const T *>(rows.options.sinks); }
  const std::uint8_t *mask_row(std::size_t r) const {
    return rows.options.mask ? rows.options.mask + static_cast<std::ptrdiff_t>(r) * rows.options.mask_stride
                             : nullptr;
  }
  bool excluded(std::size_t r, std::size_t col) const {
    return (rows.options.mask && mask_row(r)[col] == 0) ||
           (rows.options.bias && bias_row(r)[col] == -std::numeric_limits<T>::infinity());
  }

 private:
  bool unchanged() const { return factor == 1 && cap == 0 && !rows.options.bias; }
};

}  // namespace
