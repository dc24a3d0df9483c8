// Finds the quantized weights of a block of 64 outputs for a few groups of the sum: their codes, scales, offsets
// and zeros. Packed ones serve where they are. A copy would wait for memory before the products begin: with scales
// of f16, one row took a third longer.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "call/linear_call.hpp"
#include "call/packed_quantized.hpp"
#include "call/quantized_weights.hpp"
#include "kernels/linear/codes.hpp"
#include "kernels/linear/scaled_terms.hpp"
#include "kernels/linear/tiles.hpp"

namespace {

class QuantizedGroups {
 public:
  using S = simd<float>;
  static constexpr std::size_t block = rapt::linear_block;

  // The scratch is that of LinearWorkspace, from `weights` on. The codes of plain weights take its second half.
  QuantizedGroups(const rapt::LinearCall &call, float *scratch)
      : o_(call.options),
        weights_(o_, call.w),
        codes_(reinterpret_cast<std::uint8_t *>(scratch + block * rapt::linear_sum_group)),
        scales_(scratch + rapt::LinearWorkspace(o_).weights),
        offsets_(scales_ + rapt::LinearWorkspace::block_scales),
        zero_numbers_(offsets_ + rapt::LinearWorkspace::block_scales),
        zeros_(reinterpret_cast<std::uint8_t *>(zero_numbers_ + rapt::LinearWorkspace::block_scales)),
        terms_{rapt::sum_group_of(o_), {scales_}, {weights_.has_offsets() ? offsets_ : nullptr}},
        found_zeros_(weights_.has_zeros() ? zeros_ : nullptr) {
    for (std::size_t i = 0; !weights_.has_scales() && i < rapt::LinearWorkspace::block_scales; ++i)
      scales_[i] = 1;
  }

  const rapt::QuantizedWeights &weights() const { return weights_; }
  std::size_t sum_group() const { return terms_.sum_group; }

  // What load() has found. Zeros are [groups][64], or null if all codes have the common zero.
  const ScaledTerms &terms() const { return terms_; }
  const std::uint8_t *zeros() const { return found_zeros_; }
  // Scratch for zeros as f32, if a layer needs such.
  float *zero_numbers() const { return zero_numbers_; }

  // Describes the packed codes of a block for `passes` passes that prefetch them.
  Prefetch prefetch(std::size_t output, std::size_t input, std::size_t inputs, std::size_t passes) const {
    if (!o_.packed_w || output >= o_.out_features || inputs == 0) return {};
    const std::size_t bytes = weights_.codes_before(inputs + weights_.unit().inputs - 1);
    if (passes > 1 && weights_.bits() == 4 && !weights_.has_steps()) fetch_numbers(output, input, inputs);
    return {reinterpret_cast<const char *>(weights_.codes(output, input)), (bytes / passes + 63) / 64 * 64};
  }

  // Returns the inputs of whole groups and whole steps whose codes of a block take at most this many bytes, or the
  // inputs of a group.
  std::size_t inputs_in_turn(std::size_t bytes) const {
    const std::size_t inputs = bytes / block * 8 / weights_.bits() / 256 * 256;
    return inputs < sum_group() ? sum_group() : inputs;
  }

  // Finds the scales, offsets and zeros, and returns the codes of `inputs` inputs from `input` on.
  const std::uint8_t *load(std::size_t output, std::size_t input, std::size_t inputs, std::size_t rows) {
    const std::size_t count = o_.out_features - output < block ? o_.out_features - output : block;
    if (weights_.is_packed()) {
      const std::size_t g = weights_.group_of(input);
      if (weights_.has_steps()) {
        find_steps(output, g);
      } else {
        if (weights_.has_scales()) terms_.scales = {weights_.packed_scales(output, g), weights_.scale_type()};
        terms_.scales.scale_of = weights_.scale_of();
        terms_.scales.are_shared = weights_.shares_scales();
        if (weights_.has_offsets())
          terms_.offsets = {weights_.packed_offsets(output, g), weights_.scale_type()};
      }
      // Tiles of many rows would turn the same bytes into numbers again.
      if (terms_.scales.are_bytes() && rows > rapt::LinearTasks::few_rows) {
        widen(terms_.scales, scales_, inputs);
        if (weights_.has_offsets()) widen(terms_.offsets, offsets_, inputs);
      }
      if (weights_.has_zeros()) found_zeros_ = weights_.packed_zeros(output, g);
      return weights_.codes(output, input);
    }
    for (std::size_t k = 0, i = 0; k < inputs; k += sum_group(), i += block) {
      load_plain(output, count, weights_.group_of(input + k), i);
    }
    rapt::pack_codes(weights_, output, count, input, inputs, codes_);
    return codes_;
  }

 private:
  // Prefetches scales and offsets, which are a ninth of the bytes of codes of 4 bits. Each pass reads lines with others
  // between, so that the CPU does not. On AVX2, 2 rows from memory take .72 to .97 of the time, 4 rows .83 to .99. One
  // pass, codes of 8 bits and steps gain nothing.
  void fetch_numbers(std::size_t output, std::size_t input, std::size_t inputs) const {
    const std::size_t g = weights_.group_of(input), end = weights_.group_of(input + inputs - 1) + 1;
    const auto fetch = [](const char *at, const char *last) {
      for (; at < last; at += 64) __builtin_prefetch(at, 0, 2);
    };
    if (weights_.has_scales()) fetch(weights_.packed_scales(output, g), weights_.packed_scales(output, end));
    if (weights_.has_offsets())
      fetch(weights_.packed_offsets(output, g), weights_.packed_offsets(output, end));
  }
  // A call begins with a step's first group, because parts of rows are multiples of 256 inputs.
  void find_steps(std::size_t output, std::size_t g) {
    using Integers = GroupNumbers::Integers;
    const bool shared = weights_.shares_bytes();
    const auto numbers = [&](const char *first, const char *steps, Integers integers) {
      return GroupNumbers{first, RAPT_I8, reinterpret_cast<const rapt::F16 *>(steps),
                          static_cast<unsigned>(std::countr_zero(weights_.groups_of_step())),
                          shared ? integers : Integers::bytes};
    };
    terms_.scales = numbers(weights_.packed_scales(output, g), weights_.packed_scale_steps(output, g),
                            Integers::low_halves);
    if (weights_.has_offsets()) {
      terms_.offsets = numbers(weights_.packed_offsets(output, g), weights_.packed_offset_steps(output, g),
                               Integers::high_halves);
    }
  }
  void widen(GroupNumbers &numbers, float *to, std::size_t inputs) {
    for (std::size_t k = 0, g = 0; k < inputs; k += sum_group(), ++g) {
      for (std::size_t n = 0; n < block; n += S::width) {
        typename S::batch number[1];
        numbers.load(g, n, number);
        S::store(to + g * block + n, number[0]);
      }
    }
    numbers = {to};
  }
  void load_plain(std::size_t output, std::size_t count, std::size_t g, std::size_t i) {
    for (std::size_t n = 0; n < block; ++n) {
      const bool exists = n < count;
      if (weights_.has_scales()) scales_[i + n] = exists ? weights_.scale(output + n, g) : 0.0f;
      if (weights_.has_offsets()) offsets_[i + n] = exists ? weights_.offset(output + n, g) : 0.0f;
      if (weights_.has_zeros()) {
        zeros_[i + n] = exists ? static_cast<std::uint8_t>(weights_.zero(output + n, g)) : std::uint8_t{0};
      }
    }
  }

  const rapt_linear_options &o_;
  rapt::QuantizedWeights weights_;
  std::uint8_t *codes_;
  float *scales_, *offsets_, *zero_numbers_;
  std::uint8_t *zeros_;
  ScaledTerms terms_;
  const std::uint8_t *found_zeros_;
};

}  // namespace
