// Finds the weights of a block of 64 outputs and a group of inputs: as they are, packed or plain, or in scratch,
// widened or transposed.
#pragma once

#include <cstddef>

#include "call/linear_call.hpp"
#include "call/packed_weights.hpp"
#include "kernels/linear/tiles.hpp"
#include "kernels/linear/ways.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/transposed.hpp"
#include "kernels/vector/widen.hpp"

namespace {

template <class E, class Tiles>
class WeightGroups {
 public:
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using Ways = LinearWays<Tiles>;
  static constexpr std::size_t block = rapt::linear_block, length = block * rapt::linear_sum_group;
  using AsPacked = std::conditional_t<std::is_same_v<E, rapt::BF16>, PairsOfBf16, WeightsOf<E>>;

  template <class Rows>
  WeightGroups(const rapt::LinearCall &call, A *scratch, const Rows &)
      : call_(call), o_(call.options), scratch_(scratch) {}

  static NoTerms terms(std::size_t, std::size_t, std::size_t) { return {}; }

  // Calls f(kind, weights, distance to the next block) for `blocks` blocks from `output` on, and `inputs`
  // inputs from `input` on.
  template <class F>
  RAPT_INNER void use(std::size_t output, std::size_t blocks, std::size_t input, std::size_t inputs,
                      std::size_t rows, F f) {
    if constexpr (Tiles::takes_offsets && std::is_same_v<E, A>) {
      if (call_.w_offsets) return f(WeightsAtOffsets<E>{}, static_cast<const E *>(call_.w) + output, block);
    }
    if (o_.packed_w) {
      const E *const packed = this->packed(output, input);
      const std::size_t to_next = rapt::packed_block_length<E>(o_.in_features);
      if (std::is_same_v<E, A> || !Ways::converts(rows)) return f(AsPacked{}, packed, to_next);
      for (std::size_t b = 0; b < blocks; ++b)
        widen_group(packed + b * to_next, inputs, scratch_ + b * length);
    } else {
      if constexpr (Tiles::takes_plain_weights) {
        if (Ways::takes_plain(o_, rows)) {
          for (std::size_t n = 0; n < blocks * block; ++n) outputs_[n] = row(output, n, input);
          return f(RowsOfWeights<E>{}, static_cast<const E *const *>(outputs_), block);
        }
      }
      for (std::size_t b = 0; b < blocks; ++b)
        transpose(output + b * block, input, inputs, scratch_ + b * length);
    }
    f(WeightsOf<A>{}, static_cast<const A *>(scratch_), length);
  }

  static constexpr std::size_t inputs_in_turn(std::size_t bytes) { return bytes / (block * sizeof(E)); }

  // Describes the packed weights of a block and a group, for `passes` passes that prefetch them. Nothing
  // else is prefetched.
  Prefetch prefetch(std::size_t output, std::size_t input, std::size_t inputs, std::size_t passes) const {
    if (!o_.packed_w || output >= o_.out_features) return {};
    return {reinterpret_cast<const char *>(packed(output, input)),
            (inputs * block * sizeof(E) / passes + 63) / 64 * 64};
  }

 protected:
  const E *packed(std::size_t output, std::size_t input) const {
    return static_cast<const E *>(call_.w) + rapt::packed_weight_offset<E>(output, input, o_.in_features);
  }

  const rapt::LinearCall &call_;
  const rapt_linear_options &o_;

 private:
  [[gnu::noinline, gnu::flatten]] static void widen_group(const E *packed, std::size_t inputs, A *to) {
    if constexpr (std::is_same_v<AsPacked, PairsOfBf16>) {
      for (std::size_t k = 0; k < inputs; ++k, to += block) {
        for (std::size_t v = 0; v < block; v += S::width) {
          const auto pair = S::load(reinterpret_cast<const float *>(packed + k / 2 * 2 * block) + v);
          S::store(to + v, k % 2 == 0 ? S::lower_bf16(pair) : S::upper_bf16(pair));
        }
      }
    } else {
      widen(packed, inputs * block, to);
    }
  }

  // Returns the weights of output n of those from `output` on. The last output replaces missing ones.
  const E *row(std::size_t output, std::size_t n, std::size_t input) const {
    const std::size_t last = o_.out_features - output - 1;
    return call_.w_at<E>(output + (n < last ? n : last), input);
  }

  // Sets to[k * 64 + n] to the weight of output n and input k. The last output replaces missing ones.
  [[gnu::noinline, gnu::flatten]] void transpose(std::size_t output, std::size_t input, std::size_t inputs,
                                                 A *to) const {
    const std::size_t last = o_.out_features - output - 1;
    if (o_.w_strides.column == 1) {
      for (std::size_t n = 0; n < block; n += S::width) {
        const E *of[S::width];
        for (std::size_t i = 0; i < S::width; ++i) of[i] = row(output, n + i, input);
        transpose_rows<A>(of, inputs, to + n, block);
      }
      return;
    }
    for (std::size_t k = 0; k < inputs; ++k, to += block) {
      const E *const from = call_.w_at<E>(output, input + k);
      if (o_.w_strides.row == 1 && last >= block - 1) {
        for (std::size_t n = 0; n < block; n += S::width) S::store(to + n, S::load(from + n));
        continue;
      }
      for (std::size_t n = 0; n < block; ++n) {
        to[n] = rapt::widened(from[o_.w_strides.row * static_cast<std::ptrdiff_t>(n < last ? n : last)]);
      }
    }
  }

  A *scratch_;
  const E *outputs_[Tiles::takes_plain_weights ? 2 * block : 1];
};

}  // namespace
