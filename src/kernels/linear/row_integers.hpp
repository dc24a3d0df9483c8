// Turns a row of x into integers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <xsimd/xsimd.hpp>

#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "contract/integer_units.hpp"

namespace {

class RowIntegers {
 public:
  using S = simd<float>;

  // The memory has room for LinearWorkspace::row_integers.
  RowIntegers(const rapt::LinearCall &call, float *memory)
      : call_(call),
        o_(call.options),
        memory_(reinterpret_cast<std::int8_t *>(memory)),
        group_(rapt::x_group_of(o_)),
        fold_(rapt::fold_of(o_)),
        folds_(rapt::folds_of(o_)) {}

  // Returns the integers of a row, and 7 zeros after them. Sets steps[f * stride] for each group f of the sum.
  const std::int8_t *load(std::size_t row, float *steps, std::size_t stride) {
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
      for (std::size_t f = 0; f < folds_; ++f) steps[f * stride] = scales[f * fold_ / group_];
    } else {
      rapt::with_element<float>(o_.x_type, [&](auto element) {
        const auto *x = call_.x_at<typename decltype(element)::type>(row);
        for (std::size_t k = 0; k < o_.in_features; k += group_) {
          const std::size_t count = o_.in_features - k < group_ ? o_.in_features - k : group_;
          const float step = round(x, k, count);
          for (std::size_t f = k / fold_; f < folds_ && f * fold_ < k + count; ++f) steps[f * stride] = step;
        }
      });
    }
    for (std::size_t k = 0; k < 7; ++k) memory_[o_.in_features + k] = 0;
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
    using batch = typename S::batch;
    using words = xsimd::batch<std::uint32_t, typename batch::arch_type>;
    words most(0);
    for (std::size_t i = 0; i < count; i += S::width) {
      const batch v = S::load_first(x + first + i, count - i);
      most = xsimd::max(most, words(S::bits(v)) & words(0x7fffffff));
    }
    std::uint32_t lanes[S::width], largest = 0;
    most.store_unaligned(lanes);
    for (const std::uint32_t lane : lanes) largest = lane > largest ? lane : largest;
    const rapt::IntegerUnits units(std::bit_cast<float>(largest), rapt::largest_i8);
    // If the step is NaN, so is every result of the row, whatever the integers are.
    const batch inverse(units.inverse), magic(0x1.8p23f);  // sums with it have the integer in their low bits
    for (std::size_t i = 0; i < count; i += at_once) {
      float sums[at_once];
      for (std::size_t j = 0; j < at_once && i + j < count; j += S::width) {
        S::store(sums + j, S::load_first(x + first + i + j, count - i - j) * inverse + magic);
      }
      // The next inputs replace integers after the last one.
      for (std::size_t j = 0; j < at_once; ++j) {
        to[i + j] = static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(sums[j]));
      }
    }
    return units.step;
  }

  static constexpr std::size_t at_once = rapt::LinearWorkspace::integers_at_once;

  const rapt::LinearCall &call_;
  const rapt_linear_options &o_;
  std::int8_t *memory_;
  std::size_t group_, fold_, folds_;
};

}  // namespace
