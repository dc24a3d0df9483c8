// Turns a row of x into integers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "contract/integer_units.hpp"
#include "kernels/linear/rounding.hpp"

namespace {

class RowRounder {
 public:
  using S = simd<float>;

  // The memory has room for LinearWorkspace::row_integers.
  RowRounder(const rapt::LinearCall &call, float *memory)
      : call_(call),
        o_(call.options),
        memory_(reinterpret_cast<std::int8_t *>(memory)),
        group_(rapt::x_group_of(o_)),
        sum_group_(rapt::sum_group_of(o_)),
        sum_groups_(rapt::sum_groups_of(o_)) {}

  // Returns the integers of a row, and 7 zeros after them. Sets steps[f * stride] and sums[f * stride] for each group f
  // of the sum.
  const std::int8_t *load(std::size_t row, float *steps, float *sums, std::size_t stride) {
    std::size_t summed = 0;  // inputs whose sums are known
    if (o_.x_type == RAPT_I8) {
      const auto *x = call_.x_at<std::int8_t>(row);
      const float *const scales = o_.x_scales + call_.x_row(row) * rapt::x_groups(o_);
      if (o_.x_strides.column == 1) {
        std::memcpy(memory_, x, o_.in_features);
      } else {
        const std::ptrdiff_t stride = o_.x_strides.column;
        for (std::size_t k = 0; k < o_.in_features; ++k)
          memory_[k] = x[stride * static_cast<std::ptrdiff_t>(k)];
      }
      for (std::size_t f = 0; f < sum_groups_; ++f) steps[f * stride] = scales[f * sum_group_ / group_];
    } else {
      rapt::with_element<float>(o_.x_type, [&](auto element) {
        const auto *x = call_.x_at<typename decltype(element)::type>(row);
        constexpr std::size_t at_once = rounded_at_once * S::width;
        if (group_ == rounded_at_once && sum_group_ == group_ && o_.x_strides.column == 1) {
          for (; o_.in_features - summed >= at_once; summed += at_once) {
            float of_groups[2][S::width];
            round_groups(x + summed, rapt::largest_i8, memory_ + summed, of_groups[0], of_groups[1]);
            std::size_t at = summed / rounded_at_once * stride;
            for (std::size_t g = 0; g < S::width; ++g, at += stride) {
              steps[at] = of_groups[0][g];
              sums[at] = of_groups[1][g];
            }
          }
        }
        for (std::size_t k = summed; k < o_.in_features; k += group_) {
          const std::size_t count = o_.in_features - k < group_ ? o_.in_features - k : group_;
          const float step = round(x, k, count);
          for (std::size_t f = k / sum_group_; f < sum_groups_ && f * sum_group_ < k + count; ++f)
            steps[f * stride] = step;
        }
      });
    }
    for (std::size_t k = 0; k < 7; ++k) memory_[o_.in_features + k] = 0;
    sum_up(summed, sums + summed / sum_group_ * stride, stride);
    return memory_;
  }

 private:
  // Rounds inputs [first, first + count) to integers, and returns their step.
  template <class E>
  float round(const E *x, std::size_t first, std::size_t count) const {
    std::int8_t *const to = memory_ + first;
    const std::ptrdiff_t stride = o_.x_strides.column;
    if (stride != 1) {
      const auto number = [&](std::size_t i) {
        return rapt::widened(x[stride * static_cast<std::ptrdiff_t>(first + i)]);
      };
      const auto units = rapt::IntegerUnits::of(count, rapt::largest_i8, number);
      for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<std::int8_t>(units.integer(number(i)));
      return units.step;
    }
    static_assert(rounded_at_once == rapt::LinearWorkspace::integers_at_once);
    const rapt::IntegerUnits units = units_of(x + first, count, rapt::largest_i8);
    const typename S::batch inverse(units.inverse);
    // The next inputs replace integers after the last one. If the step is NaN, so is every result of the row, whatever
    // the integers are.
    for (std::size_t i = 0; i < count; i += rounded_at_once)
      round_numbers(x + first + i, count - i, inverse, to + i);
    return units.step;
  }

  // Sums the integers of each group of the sum, from input k on.
  void sum_up(std::size_t k, float *sums, std::size_t stride) const {
    for (; k < o_.in_features; sums += stride) {
      std::int32_t sum = 0;
      const std::size_t end = o_.in_features - k < sum_group_ ? o_.in_features : k + sum_group_;
      for (; end - k >= 16; k += 16) {
        for (std::size_t i = 0; i < 16; ++i) sum += memory_[k + i];
      }
      for (; k < end; ++k) sum += memory_[k];
      *sums = static_cast<float>(sum);
    }
  }

  const rapt::LinearCall &call_;
  const rapt_linear_options &o_;
  std::int8_t *memory_;
  std::size_t group_, sum_group_, sum_groups_;
};

}  // namespace
