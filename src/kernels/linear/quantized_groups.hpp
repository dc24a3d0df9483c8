// Finds the quantized weights of a block of 64 outputs for a few groups of the sum: their codes, and the
// scales, offsets and zeros as f32.
#pragma once

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
  // load() adds a number to all zeros. If it is 0, zeros() is null where all codes have the common zero.
  QuantizedGroups(const rapt::LinearCall &call, float *scratch, float added_to_zeros)
      : o_(call.options),
        weights_(o_, call.w),
        codes_(reinterpret_cast<std::uint8_t *>(scratch + block * rapt::linear_fold)),
        scales_(scratch + rapt::LinearWorkspace(o_).weights),
        offsets_(scales_ + rapt::LinearWorkspace::block_scales),
        zeros_(offsets_ + rapt::LinearWorkspace::block_scales),
        fold_(rapt::fold_of(o_)),
        added_to_zeros_(added_to_zeros) {
    const float zero = static_cast<float>(weights_.common_zero()) + added_to_zeros;
    for (std::size_t i = 0; zeros() && i < rapt::LinearWorkspace::block_scales; ++i) zeros_[i] = zero;
  }

  const rapt::QuantizedWeights &weights() const { return weights_; }
  std::size_t fold() const { return fold_; }

  // What load() has loaded. Zeros are [groups][64].
  ScaledTerms terms() const {
    return {fold_, stored_scales_ ? stored_scales_ : scales_, weights_.has_offsets() ? offsets_ : nullptr};
  }
  const float *zeros() const { return weights_.has_zeros() || added_to_zeros_ != 0 ? zeros_ : nullptr; }

  // Describes the packed codes of a block for `passes` passes that prefetch them.
  Prefetch prefetch(std::size_t output, std::size_t input, std::size_t inputs, std::size_t passes) const {
    if (!o_.packed_w || output >= o_.out_features || inputs == 0) return {};
    const std::size_t per_word = weights_.is_bytes() ? 4 : 8;
    const std::size_t bytes = (inputs + per_word - 1) / per_word * (4 * block);
    return {reinterpret_cast<const char *>(weights_.codes(output, input)), (bytes / passes + 63) / 64 * 64};
  }

  // Returns the inputs of whole groups whose codes of a block take about this many bytes.
  std::size_t inputs_in_turn(std::size_t bytes) const {
    const std::size_t inputs = bytes / block * (weights_.is_bytes() ? 1 : 2);
    return inputs < fold_ ? fold_ : inputs;
  }

  // Loads the scales, offsets and zeros, and returns the codes of `inputs` inputs from `input` on.
  const std::uint8_t *load(std::size_t output, std::size_t input, std::size_t inputs) {
    const std::size_t count = o_.out_features - output < block ? o_.out_features - output : block;
    // Packed scales of f32 serve where they are. A copy waits for memory before the products begin: one row took a
    // seventh longer.
    if (weights_.is_packed() && weights_.has_scales() && weights_.scale_type() == RAPT_F32) {
      stored_scales_ =
          reinterpret_cast<const float *>(weights_.packed_scales(output, weights_.group_of(input)));
    }
    for (std::size_t k = 0, i = 0; k < inputs; k += fold_, i += block) {
      const std::size_t g = weights_.group_of(input + k);
      if (weights_.is_packed()) {
        load_packed(output, g, i);
      } else {
        load_plain(output, count, g, i);
      }
    }
    if (weights_.is_packed()) return weights_.codes(output, input);
    rapt::pack_codes(weights_, output, count, input, inputs, codes_);
    return codes_;
  }

 private:
  void load_packed(std::size_t output, std::size_t g, std::size_t i) {
    if (!weights_.has_scales()) {
      for (std::size_t n = 0; n < block; n += S::width) S::store(scales_ + i + n, typename S::batch(1.0f));
    } else if (!stored_scales_) {
      widen(weights_.packed_scales(output, g), scales_ + i);
    }
    if (weights_.has_offsets()) widen(weights_.packed_offsets(output, g), offsets_ + i);
    if (weights_.has_zeros()) {
      const std::uint8_t *const zeros = weights_.packed_zeros(output, g);
      for (std::size_t n = 0; n < block; ++n) zeros_[i + n] = static_cast<float>(zeros[n]) + added_to_zeros_;
    }
  }
  void load_plain(std::size_t output, std::size_t count, std::size_t g, std::size_t i) {
    for (std::size_t n = 0; n < block; ++n) {
      const bool exists = n < count;
      scales_[i + n] = exists ? weights_.scale(output + n, g) : 0.0f;
      if (weights_.has_offsets()) offsets_[i + n] = exists ? weights_.offset(output + n, g) : 0.0f;
      if (weights_.has_zeros()) {
        zeros_[i + n] = (exists ? static_cast<float>(weights_.zero(output + n, g)) : 0.0f) + added_to_zeros_;
      }
    }
  }
  void widen(const char *from, float *to) const {
    rapt::with_element<float>(weights_.scale_type(), [&](auto element) {
      const auto *numbers = reinterpret_cast<const typename decltype(element)::type *>(from);
      for (std::size_t n = 0; n < block; n += S::width) S::store(to + n, S::load(numbers + n));
    });
  }

  const rapt_linear_options &o_;
  rapt::QuantizedWeights weights_;
  std::uint8_t *codes_;
  float *scales_, *offsets_, *zeros_;
  const float *stored_scales_ = nullptr;
  std::size_t fold_;
  float added_to_zeros_;
};

}  // namespace
