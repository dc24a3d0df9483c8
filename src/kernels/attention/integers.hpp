// Queries and weights as integers (contract/int8_attention.hpp), and the scales of a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "contract/attention.hpp"
#include "contract/int8_attention.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// How numbers of a given largest magnitude become integers. The level finds that magnitude.
struct IntegerUnits {
  float inverse = 0, step = 0;

  explicit IntegerUnits(float largest) {
    using C = rapt::Int8Attention;
    if (!(largest <= std::numeric_limits<float>::max())) {
      step = std::numeric_limits<float>::quiet_NaN();
    } else if (largest >= C::lowest) {
      inverse = C::largest / largest;
      step = largest / C::largest;
    }
  }
};

// Makes the integers of a scale group of a query, and returns their step. Its `count` dimensions are padded.
template <class I, class Q>
float make_integers(const Q *q, std::size_t count, std::size_t padded, std::int16_t *to) {
  using S = simd<float>;
  typename I::Sums largest = I::zero();
  for (std::size_t d = 0; d < count; d += S::width) {
    largest = I::greater_magnitude(largest, S::load_first(q + d, count - d));
  }
  const IntegerUnits units(I::largest(largest));
  const typename S::batch inverse(units.inverse);
  std::size_t d = 0;
  for (; d < count; d += S::width) {
    I::store_rounded(to + d, S::load_first(q + d, count - d) * inverse);
  }
  for (; d < padded; d += S::width) I::store_rounded(to + d, typename S::batch(0.0f));
  return units.step;
}
// Does this for a block's weights times scales. A weight of 0 has the integer 0, whatever its scale is.
template <class I>
float make_integers(const float *weights, const float *scales, std::int16_t *to) {
  using S = simd<float>;
  using batch = typename S::batch;
  constexpr std::size_t vectors = rapt::attention_block / S::width;
  const batch zero(0.0f);
  batch product[vectors];
  typename I::Sums largest = I::zero();
  unroll<vectors>([&](auto i) __attribute__((always_inline)) {
    const batch weight = S::load(weights + i * S::width);
    product[i] = S::zero_where(S::equal(weight, zero), weight * S::load(scales + i * S::width));
    largest = I::greater_magnitude(largest, product[i]);
  });
  const IntegerUnits units(I::largest(largest));
  const batch inverse(units.inverse);
  unroll<vectors>([&](auto i) __attribute__((always_inline)) {
    I::store_rounded(to + i * S::width, product[i] * inverse);
  });
  return units.step;
}

// Copies the scales of a block's keys; those past the last key become 0.
template <class At>
[[gnu::always_inline]] inline void load_scales(At at, std::ptrdiff_t stride, std::size_t first,
                                               std::size_t keys, float *to) {
  using S = simd<float>;
  constexpr std::size_t unit = rapt::attention_page_unit;
  for (std::size_t j = 0; j < rapt::attention_block; j += unit) {
    const std::size_t count = keys <= j ? 0 : keys - j < unit ? keys - j : unit;
    const float *from = count > 0 ? at(first + j) : nullptr;
    if (count == unit && stride == 1) {
      unroll<unit / S::width>([&](auto i) __attribute__((always_inline)) {
        S::store(to + j + i * S::width, S::load(from + i * S::width));
      });
    } else {
      for (std::size_t i = 0; i < unit; ++i) {
        to[j + i] = i < count ? from[stride * static_cast<std::ptrdiff_t>(i)] : 0.0f;
      }
    }
  }
}

}  // namespace
