// Adds the groups of the sum over quantized weights to the sums of a tile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <xsimd/xsimd.hpp>

#include "call/element.hpp"
#include "contract/file_blocks.hpp"
#include "contract/linear.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Points at scales or offsets, [groups][64] from the tile's first group on, or at nothing. Only packed ones may be
// f16 or bf16. Those of type RAPT_I8 are integers times steps, [groups >> step_shift][64]. Shared ones are [groups].
struct GroupNumbers {
  const void *first = nullptr;
  rapt_type type = RAPT_F32;
  const rapt::F16 *steps = nullptr;
  unsigned step_shift = 0;  // of groups to steps; a division would take as long as some vectors
  enum class Integers { bytes, low_halves, high_halves } integers = Integers::bytes;
  rapt::ScaleOf scale_of = rapt::ScaleOf::d;
  bool are_shared = false;

  explicit operator bool() const { return first != nullptr; }
  bool are_bytes() const { return steps || scale_of != rapt::ScaleOf::d; }

  // Loads the numbers of some vectors of outputs from n on.
  template <std::size_t vectors>
  RAPT_INNER void load(std::size_t group, std::size_t n, simd<float>::batch (&to)[vectors]) const {
    using S = simd<float>;
    if (steps) {
      const rapt::F16 *const step = steps + (group >> step_shift) * rapt::linear_block + n;
      load_integers(group * rapt::linear_block + n, to);
      unroll<vectors>([&](std::size_t j) RAPT_INNER { to[j] = to[j] * S::load(step + j * S::width); });
      return;
    }
    if (scale_of != rapt::ScaleOf::d) return load_bytes_of_scales(group * rapt::linear_block + n, to);
    rapt::with_element<float>(type, [&](auto element) RAPT_INNER {
      const auto *from = static_cast<const typename decltype(element)::type *>(first);
      if (are_shared) {
        const typename S::batch number(rapt::widened(from[group]));
        unroll<vectors>([&](std::size_t j) RAPT_INNER { to[j] = number; });
        return;
      }
      from += group * rapt::linear_block + n;
      unroll<vectors>([&](std::size_t j) RAPT_INNER { to[j] = S::load(from + j * S::width); });
    });
  }

 private:
  // Loads what half_of_e8m0 or half_of_ue4m3 returns for bytes.
  template <std::size_t vectors>
  RAPT_INNER void load_bytes_of_scales(std::size_t at, simd<float>::batch (&to)[vectors]) const {
    using S = simd<float>;
    using batch = S::batch;
    const auto *const from = static_cast<const std::uint8_t *>(first) + at;
    const auto load_by = [&](auto half_of) RAPT_INNER {
      unroll<vectors>([&](std::size_t j) RAPT_INNER {
        const Words sum(S::bits(S::load(from + j * S::width) + batch(0x1p23f)));
        to[j] = half_of(sum & Words(255));
      });
    };
    if (scale_of == rapt::ScaleOf::e8m0)
      return load_by([](Words byte) RAPT_INNER { return half_of_e8m0(byte); });
    load_by([](Words byte) RAPT_INNER { return half_of_ue4m3(byte); });
  }
  using Words = xsimd::batch<std::uint32_t, simd<float>::batch::arch_type>;
  // The power of 2 is a product of two, because it may be subnormal.
  RAPT_INNER static simd<float>::batch half_of_e8m0(Words byte) {
    const Words some = byte >> 1, others = byte - some;
    return power_of_2(some) * power_of_2(others);
  }
  // Returns 2^(n - 64).
  RAPT_INNER static simd<float>::batch power_of_2(Words n) {
    return simd<float>::number((n + Words(63)) << 23);
  }
  RAPT_INNER static simd<float>::batch half_of_ue4m3(Words byte) {
    const Words from_nan = byte - Words(127), is_number = (from_nan | (Words(0) - from_nan)) >> 31;
    const Words bits = (byte & Words(127)) << 20;
    return simd<float>::number(bits & (Words(0) - is_number)) * simd<float>::batch(0x1p119f);
  }

  template <std::size_t vectors>
  RAPT_INNER void load_integers(std::size_t at, simd<float>::batch (&to)[vectors]) const {
    using S = simd<float>;
    if (integers == Integers::bytes) {
      const auto *const from = static_cast<const std::int8_t *>(first) + at;
      unroll<vectors>([&](std::size_t j) RAPT_INNER { to[j] = S::load(from + j * S::width); });
      return;
    }
    const auto *const from = static_cast<const std::uint8_t *>(first) + at;
    unroll<vectors>([&](std::size_t j) RAPT_INNER {
      const auto byte = S::load(from + j * S::width);
      const auto high = S::floor(byte * typename S::batch(0.0625f));
      to[j] = integers == Integers::high_halves ? high : S::fnma(high, typename S::batch(16.0f), byte);
    });
  }
};

struct ScaledTerms {
  std::size_t sum_group;
  GroupNumbers scales, offsets;

  // Adds p[r][j], the sum of products of row r and vector j of outputs from n on, to sums[r * 64 + n]. The scales of
  // the vectors are loaded. x_sum(r) returns the sum of the row's x, which the offsets multiply. Each option is
  // looked at once per group.
  template <std::size_t rows, std::size_t vectors, class XSum>
  RAPT_INNER void add(const simd<float>::batch (&p)[rows][vectors],
                      const simd<float>::batch (&scale)[vectors], std::size_t group, std::size_t n,
                      float *sums, XSum x_sum) const {
    using S = simd<float>;
    using batch = typename S::batch;
    unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER {
      float *const to = sums + r * rapt::linear_block + n + j * S::width;
      S::store(to, S::fma(scale[j], p[r][j], S::load(to)));
    });
    if (!offsets) return;
    batch offset[vectors];
    offsets.load(group, n, offset);
    unroll<rows>([&](std::size_t r) RAPT_INNER {
      const batch sum = x_sum(r);
      unroll<vectors>([&](std::size_t j) RAPT_INNER {
        float *const to = sums + r * rapt::linear_block + n + j * S::width;
        S::store(to, S::fma(sum, offset[j], S::load(to)));
      });
    });
  }

  // Does it where scales and offsets share their bytes. load_products(j, p) sets p[r] to the sum of row r and vector j,
  // so that a vector is done before the next one begins.
  template <std::size_t rows, std::size_t vectors, class LoadProducts, class XSum>
  RAPT_INNER void add_shared(LoadProducts load_products, std::size_t group, std::size_t n, float *sums,
                             XSum x_sum) const {
    using S = simd<float>;
    using batch = typename S::batch;
    const std::size_t step = (group >> scales.step_shift) * rapt::linear_block + n;
    const auto *const bytes =
        static_cast<const std::uint8_t *>(scales.first) + group * rapt::linear_block + n;
    batch sum[rows];
    unroll<rows>([&](std::size_t r) RAPT_INNER { sum[r] = x_sum(r); });
    unroll<vectors>([&](std::size_t j) RAPT_INNER {
      batch p[rows];
      load_products(j, p);
      const Words byte = S::load_words(bytes + j * S::width);
      const batch scale = number(byte & Words(15)) * S::load(scales.steps + step + j * S::width),
                  offset = number(byte >> 4) * S::load(offsets.steps + step + j * S::width);
      unroll<rows>([&](std::size_t r) RAPT_INNER {
        float *const to = sums + r * rapt::linear_block + n + j * S::width;
        S::store(to, S::fma(sum[r], offset, S::fma(scale, p[r], S::load(to))));
      });
    });
  }
  bool share_bytes() const { return scales.integers == GroupNumbers::Integers::low_halves; }

  // Sets the sums of the vectors to 0.
  template <std::size_t rows, std::size_t vectors>
  RAPT_INNER static void clear(std::size_t n, float *sums) {
    using S = simd<float>;
    unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER {
      S::store(sums + r * rapt::linear_block + n + j * S::width, typename S::batch(0.0f));
    });
  }

 private:
  using Words = xsimd::batch<std::uint32_t, simd<float>::batch::arch_type>;
  // Converts words below 2^23, which are the last bits of 2^23 + word. xsimd converts signed words only, and its
  // versions write the cast to these differently.
  RAPT_INNER static simd<float>::batch number(Words word) {
    using S = simd<float>;
    return S::number(word | Words(0x4b000000)) - S::batch(0x1p23f);
  }
};

}  // namespace
