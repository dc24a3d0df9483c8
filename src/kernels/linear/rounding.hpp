// Rounds contiguous numbers to integers (contract/integer_units.hpp).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <xsimd/xsimd.hpp>

#include "contract/integer_units.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Finds the units of `count` numbers.
template <class E>
rapt::IntegerUnits units_of(const E *x, std::size_t count, float largest) {
  using S = simd<float>;
  using words = xsimd::batch<std::uint32_t, typename S::batch::arch_type>;
  words most(0);
  const auto see = [&](typename S::batch v) {
    most = xsimd::max(most, words(S::bits(v)) & words(0x7fffffff));
  };
  std::size_t i = 0;
  for (; count - i >= S::width; i += S::width) see(S::load(x + i));
  if (i < count) see(S::load_first(x + i, count - i));
  std::uint32_t lanes[S::width], largest_of_lanes = 0;
  most.store_unaligned(lanes);
  for (const std::uint32_t lane : lanes) largest_of_lanes = lane > largest_of_lanes ? lane : largest_of_lanes;
  return {std::bit_cast<float>(largest_of_lanes), largest};
}

// Numbers that round_numbers() rounds in one call.
inline constexpr std::size_t rounded_at_once = 32;
// Sums with it have the integer in their low bits.
inline constexpr float magic_of_rounding = 0x1.8p23f;

// Stores the low bytes of 32 numbers' bits.
template <class S>
RAPT_INNER inline void store_low_bytes(const typename S::batch (&v)[rounded_at_once / S::width],
                                       std::int8_t *to) {
  constexpr std::size_t vectors = rounded_at_once / S::width;
  if constexpr (StoresLowBytes<S>) {
    unroll<vectors>([&](std::size_t i) RAPT_INNER { S::store_low_bytes(to + i * S::width, v[i]); });
  } else {
    float numbers[rounded_at_once];
    for (std::size_t i = 0; i < vectors; ++i) S::store(numbers + i * S::width, v[i]);
    for (std::size_t j = 0; j < rounded_at_once; ++j)
      to[j] = static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(numbers[j]));
  }
}

// Sets `to` to integers of the first `count` of 32 numbers, and of zeros after them. No other number is read. If
// `inverse` is that of a NaN or an infinity, the integers may be anything.
template <class E>
void round_numbers(const E *x, std::size_t count, simd<float>::batch inverse, std::int8_t *to) {
  using S = simd<float>;
  using batch = typename S::batch;
  const batch magic(magic_of_rounding);
  batch shifted[rounded_at_once / S::width];
  for (std::size_t i = 0; i < rounded_at_once / S::width; ++i) {
    const std::size_t j = i * S::width;
    const batch v = count >= rounded_at_once ? S::load(x + j)
                    : j < count              ? S::load_first(x + j, count - j)
                                             : batch(0);
    shifted[i] = v * inverse + magic;
  }
  store_low_bytes<S>(shifted, to);
}

// Rounds as many groups of 32 contiguous numbers as a vector has lanes, to integers of up to `largest`. Sets the step
// of each group, and the sum of its integers. A vector has the units of all groups: one by one, they took twice the
// time.
template <class E>
[[gnu::noinline, gnu::flatten]] void round_groups(const E *x, float largest, std::int8_t *to, float *steps,
                                                  float *sums) {
  using S = simd<float>;
  using batch = typename S::batch;
  constexpr std::size_t vectors = rounded_at_once / S::width;
  using words = xsimd::batch<std::uint32_t, typename batch::arch_type>;
  const auto larger = [](batch a, batch b) RAPT_INNER -> batch {
    const words bits = xsimd::max(words(S::bits(a)), words(S::bits(b)));
    return S::number(bits);
  };
  batch most[S::width];
  unroll<S::width>([&](std::size_t g) RAPT_INNER {
    const E *const group = x + g * rounded_at_once;
    most[g] = S::abs(S::load(group));
    unroll<vectors - 1>([&](std::size_t i) RAPT_INNER {
      most[g] = larger(most[g], S::abs(S::load(group + (i + 1) * S::width)));
    });
  });
  const batch m = S::fold_each(most, larger), of(largest);
  const auto is_small = S::less(m, batch(rapt::IntegerUnits::lowest));
  const auto is_finite = S::less(m, batch(std::numeric_limits<float>::infinity()));
  alignas(64) float inverse[S::width];
  S::store(inverse, S::select(is_finite, S::zero_where(is_small, S::divide(of, m)), batch(0)));
  S::store(steps, S::select(is_finite, S::zero_where(is_small, S::divide(m, of)),
                            batch(std::numeric_limits<float>::quiet_NaN())));
  const batch magic(magic_of_rounding);
  batch sum[S::width];
  unroll<S::width>([&](std::size_t g) RAPT_INNER {
    const batch of_group(inverse[g]);
    batch shifted[vectors];
    unroll<vectors>([&](std::size_t i) RAPT_INNER {
      shifted[i] = S::load(x + g * rounded_at_once + i * S::width) * of_group + magic;
    });
    sum[g] = shifted[0] - magic;
    unroll<vectors - 1>([&](std::size_t i) RAPT_INNER { sum[g] = sum[g] + (shifted[i + 1] - magic); });
    store_low_bytes<S>(shifted, to + g * rounded_at_once);
  });
  S::store(sums, S::fold_each(sum, [](batch a, batch b) RAPT_INNER { return a + b; }));
}

}  // namespace
