// Turns rows of x into integers, in the order of the tiles of integers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <xsimd/xsimd.hpp>

#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "call/quantized_weights.hpp"
#include "contract/integer_units.hpp"
#include "kernels/linear/tiles.hpp"

namespace {

// What a tile needs of each group of the sum, [groups][rows]: the number to begin with, which takes the common
// zero of all codes off the sum, the step of its integers, and their sum as f32.
struct RowTerms {
  const std::int32_t *starts;
  const float *steps, *sums;
};

// Holds a block of rows. The tile at row r is [inputs / 4][rows of the tile][4], with inputs that do not exist
// as 0, up to a multiple of 8.
template <class Quads>
class IntegerRows {
 public:
  using S = simd<float>;
  using X = typename Quads::X;

  IntegerRows(const rapt::LinearCall &call, float *workspace)
      : call_(call),
        o_(call.options),
        memory_(reinterpret_cast<X *>(workspace)),
        padded_((o_.in_features + 7) / 8 * 8),
        group_(rapt::x_group_of(o_)),
        fold_(rapt::fold_of(o_)),
        folds_(rapt::folds_of(o_)) {
    const rapt::QuantizedWeights weights(o_, call.w);
    zero_ = (weights.has_zeros() ? 0 : weights.common_zero()) - Quads::code_bias;
    const std::size_t count = rapt::LinearTasks(o_).rows_per_task() * folds_;
    steps_ = workspace + rapt::LinearWorkspace(o_).before_row_numbers();
    sums_ = steps_ + count;
    starts_ = reinterpret_cast<std::int32_t *>(sums_ + count);
  }

  bool load(const rapt::LinearTask &task) {
    if (is_loaded_ && task.first_row == first_) return false;
    is_loaded_ = true;
    first_ = task.first_row;
    each_tile<Quads::most_rows>(task.rows, [&](std::size_t r, auto height) {
      for (std::size_t i = 0; i < height; ++i) {
        const std::size_t row = r + i < task.rows ? r + i : task.rows - 1;
        load_row<height>(first_ + row, memory_ + r * padded_ + i * 4, r * folds_ + i);
      }
    });
    return true;
  }

  const X *tile(std::size_t r, std::size_t height, std::size_t k) const {
    return memory_ + r * padded_ + k * height;
  }
  RowTerms terms(std::size_t r, std::size_t height, std::size_t k) const {
    const std::size_t at = r * folds_ + k / fold_ * height;
    return {starts_ + at, steps_ + at, sums_ + at};
  }

 private:
  // Stores the integers of a row at to[k / 4 * height * 4 + k % 4], and its terms from `at` on.
  template <std::size_t height>
  void load_row(std::size_t row, X *to, std::size_t at) {
    if (o_.x_type == RAPT_I8) {
      const auto *x = call_.x_at<std::int8_t>(row);
      const float *const scales = o_.x_scales + call_.x_row(row) * rapt::x_groups(o_);
      for (std::size_t k = 0; k < o_.in_features; ++k)
        put<height>(to, k, x[o_.x_strides.column * static_cast<std::ptrdiff_t>(k)]);
      for (std::size_t f = 0; f < folds_; ++f) steps_[at + f * height] = scales[f * fold_ / group_];
    } else {
      rapt::with_element<float>(o_.x_type, [&](auto element) {
        const auto *x = call_.x_at<typename decltype(element)::type>(row);
        for (std::size_t k = 0; k < o_.in_features; k += group_) {
          const std::size_t count = o_.in_features - k < group_ ? o_.in_features - k : group_;
          const float step = quantize<height>(x, k, count, to);
          for (std::size_t f = k / fold_; f < folds_ && f * fold_ < k + count; ++f)
            steps_[at + f * height] = step;
        }
      });
    }
    for (std::size_t k = o_.in_features; k < padded_; ++k) put<height>(to, k, 0);
    for (std::size_t f = 0; f < folds_; ++f) {
      std::int32_t sum = 0;
      const std::size_t end = padded_ < (f + 1) * fold_ ? padded_ : (f + 1) * fold_;
      for (std::size_t k = f * fold_; k < end; k += 4) {
        const X *const quad = to + k * height;
        sum += quad[0] + quad[1] + quad[2] + quad[3];
      }
      sums_[at + f * height] = static_cast<float>(sum);
      starts_[at + f * height] = -zero_ * sum;
    }
  }

  template <std::size_t height>
  [[gnu::always_inline]] static void put(X *to, std::size_t k, int integer) {
    to[k / 4 * 4 * height + Quads::place(k % 4)] = static_cast<X>(integer);
  }

  // Rounds inputs [first, first + count) to integers, and returns their step.
  template <std::size_t height, class E>
  float quantize(const E *x, std::size_t first, std::size_t count, X *to) const {
    const std::ptrdiff_t stride = o_.x_strides.column;
    if (stride != 1) {
      const auto number = [&](std::size_t i) {
        return rapt::widened(x[stride * static_cast<std::ptrdiff_t>(first + i)]);
      };
      const auto units = rapt::IntegerUnits::of(count, rapt::largest_i8, number);
      for (std::size_t i = 0; i < count; ++i) put<height>(to, first + i, units.integer(number(i)));
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
    for (std::size_t i = 0; i < count; i += S::width) {
      // The sum with this number has the integer in its low bits.
      const batch magic(0x1.8p23f);
      float integers[S::width];
      S::store(integers, S::load_first(x + first + i, count - i) * batch(units.inverse) + magic);
      for (std::size_t j = 0; j < S::width && i + j < count; ++j) {
        const auto bits = std::bit_cast<std::uint32_t>(integers[j]);
        put<height>(to, first + i + j, static_cast<std::int8_t>(bits));
      }
    }
    return units.step;
  }

  const rapt::LinearCall &call_;
  const rapt_linear_options &o_;
  X *memory_;
  std::size_t padded_, group_, fold_, folds_;
  int zero_;
  float *steps_, *sums_;
  std::int32_t *starts_;
  std::size_t first_ = 0;
  bool is_loaded_ = false;
};

}  // namespace
