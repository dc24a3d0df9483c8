// Packs quantized weights (quantized_weights.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/quantized_weights.hpp"

namespace rapt {

// Sets `to` to the codes of a block: inputs [first, first + inputs) of `count` outputs from `output` on. `first`
// is a multiple of 8.
inline void pack_codes(const QuantizedWeights &from, std::size_t output, std::size_t count, std::size_t first,
                       std::size_t inputs, std::uint8_t *to) {
  constexpr std::size_t block = linear_block;
  const auto code = [&](std::size_t n, std::size_t k) {
    const bool exists = n < count && k < inputs;
    return exists ? from.code(output + n, first + k) : static_cast<unsigned>(from.common_zero());
  };
  if (from.is_bytes()) {
    std::size_t k = count == block ? 4 * from.copy_bytes(output, first, inputs / 4, to) : 0;
    for (to += k * block; k < inputs; k += 4) {
      for (std::size_t n = 0; n < block; ++n) {
        for (std::size_t j = 0; j < 4; ++j) *to++ = static_cast<std::uint8_t>(code(n, k + j));
      }
    }
    return;
  }
  for (std::size_t k = 0; k < inputs; k += 8) {
    for (std::size_t n = 0; n < block; ++n) {
      for (std::size_t j = 0; j < 4; ++j)
        *to++ = static_cast<std::uint8_t>(code(n, k + j) | code(n, k + j + 4) << 4);
    }
  }
}

inline bool has_specials(F8 f8, const std::uint8_t *codes, std::size_t count) {
  bool any = false;
  for (std::size_t i = 0; i < count; ++i) any = any || f8.is_special(codes[i]);
  return any;
}

// Packs outputs [first, first + outputs) of a layer. `w` and the scales, zeros and offsets in the options
// begin with output `first`, a multiple of 64, or with the row of scales that it shares. The part with output 0 also
// writes the codebook. The header is the caller's work.
inline void pack_quantized(const rapt_linear_options &o, const void *w, std::size_t first,
                           std::size_t outputs, void *packed) {
  constexpr std::size_t block = linear_block;
  const QuantizedWeights from(o, w);
  const std::size_t groups = scale_groups(o);
  auto *to = static_cast<char *>(packed);
  if (first == 0 && from.has_codebook())
    std::memcpy(to + sizeof(PackedHeader), o.w_codebook, 16 * sizeof(float));
  to += from.blocks_begin() + first / block * from.block_size();
  for (std::size_t n = 0; n < outputs; n += block) {
    const std::size_t count = outputs - n < block ? outputs - n : block;
    pack_codes(from, n, count, 0, o.in_features, reinterpret_cast<std::uint8_t *>(to));
    to += from.codes_size();
    const auto copy = [&](const void *numbers, std::size_t size) {
      if (!numbers) return;
      for (std::size_t g = 0; g < groups; ++g) {
        for (std::size_t i = 0; i < block; ++i, to += size) {
          if (i < count) {
            std::memcpy(to, static_cast<const char *>(numbers) + ((n + i) * groups + g) * size, size);
          } else {
            std::memset(to, 0, size);
          }
        }
      }
    };
    if (from.shares_scales()) {
      const std::size_t size = groups * from.scale_size();
      const std::size_t row = from.row_of_scales(first + n) - from.row_of_scales(first);
      std::memset(to, 0, from.scales_size());
      std::memcpy(to, static_cast<const char *>(o.w_scales) + row * size, size);
      to += from.scales_size();
    } else {
      copy(o.w_scales, from.scale_size());
    }
    copy(o.w_offsets, from.scale_size());
    copy(o.w_zeros, 1);
    if (from.f8()) {
      const std::size_t length = from.block_size() - from.specials_begin();
      std::memset(to, 0, length);
      *to = has_specials(from.f8(), reinterpret_cast<const std::uint8_t *>(to) - from.specials_begin(),
                         from.codes_size());
      to += length;
    }
  }
}

}  // namespace rapt
