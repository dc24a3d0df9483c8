// Turns rows of numbers into integers, and integers into numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <xsimd/xsimd.hpp>

#include "call/element.hpp"
#include "call/quantized_rows.hpp"
#include "contract/linear.hpp"
#include "kernels/file_numbers.hpp"
#include "kernels/linear/rounding.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Codes that are turned at a time.
inline constexpr std::size_t codes_at_once = rounded_at_once;

// Stores the 4-bit integers of inputs [k, k + count), of which `bytes` has the integers and then zeros. The half byte
// before an odd k stays as it is.
inline void store_halves(const std::int8_t *bytes, std::size_t count, std::size_t k, std::uint8_t *q) {
  if (k % 2 == 0) {
    std::uint8_t pairs[codes_at_once / 2];
    for (std::size_t j = 0; j < codes_at_once / 2; ++j)
      pairs[j] = static_cast<std::uint8_t>((bytes[2 * j] & 15) | bytes[2 * j + 1] << 4);
    std::memcpy(q + k / 2, pairs, (count + 1) / 2);
    return;
  }
  for (std::size_t j = 0; j < count; ++j) {
    std::uint8_t &byte = q[(k + j) / 2];
    byte = static_cast<std::uint8_t>((k + j) % 2 == 0 ? bytes[j] & 15 : byte | bytes[j] << 4);
  }
}

template <class X>
void quantize_rows_of(const rapt::QuantizeCall &call) {
  const bool in_4_bits = rapt::is_4_bits(call.q_type);
  const auto *x = static_cast<const X *>(call.x);
  std::uint8_t *q = call.q;
  float *scales = call.scales;
  for (std::size_t r = 0; r < call.rows; ++r, x += call.stride, q += call.q_row()) {
    for (std::size_t begin = 0; begin < call.inputs; begin += call.group) {
      const std::size_t end = call.inputs - begin < call.group ? call.inputs : begin + call.group;
      const auto units = units_of(x + begin, end - begin, in_4_bits ? rapt::largest_i4 : rapt::largest_i8);
      *scales++ = units.step;
      const simd<float>::batch inverse(units.inverse);
      for (std::size_t k = begin; k < end; k += codes_at_once) {
        const std::size_t count = end - k < codes_at_once ? end - k : codes_at_once;
        std::int8_t bytes[codes_at_once] = {};
        if (units.inverse != 0) round_numbers(x + k, count, inverse, bytes);
        if (in_4_bits) {
          store_halves(bytes, count, k, q);
        } else {
          std::memcpy(q + k, bytes, count);
        }
      }
    }
  }
}

template <class E>
void quantize_rows(const rapt::QuantizeCall *call) {
  rapt::with_element<float>(call->type,
                            [&](auto element) { quantize_rows_of<typename decltype(element)::type>(*call); });
}

// Sets `codes` to those of inputs [k, k + count), which are unsigned, and zeros after them.
inline void load_codes(const std::uint8_t *q, rapt_type type, std::size_t k, std::size_t count,
                       std::uint8_t *codes) {
  const std::uint8_t sign = type == RAPT_I8 ? 128 : type == RAPT_I4 ? 8 : 0;
  if (!rapt::is_4_bits(type)) {
    std::uint8_t bytes[codes_at_once] = {};
    std::memcpy(bytes, q + k, count);
    for (std::size_t j = 0; j < codes_at_once; ++j) codes[j] = bytes[j] ^ sign;
  } else if (k % 2 == 0) {
    std::uint8_t bytes[codes_at_once / 2] = {};
    std::memcpy(bytes, q + k / 2, (count + 1) / 2);
    for (std::size_t j = 0; j < codes_at_once / 2; ++j) {
      codes[2 * j] = (bytes[j] & 15) ^ sign;
      codes[2 * j + 1] = static_cast<std::uint8_t>(bytes[j] >> 4 ^ sign);
    }
  } else {
    for (std::size_t j = 0; j < codes_at_once; ++j) {
      const unsigned byte = j < count ? q[(k + j) / 2] : 0;
      codes[j] = static_cast<std::uint8_t>(((k + j) % 2 == 0 ? byte & 15 : byte >> 4) ^ sign);
    }
  }
}

template <class Y, class S>
void dequantize_rows_of(const rapt::DequantizeCall &call) {
  using V = simd<float>;
  using batch = typename V::batch;
  const std::uint8_t *q = call.q;
  const auto *scales = static_cast<const S *>(call.scales), *offsets = static_cast<const S *>(call.offsets);
  auto *y = static_cast<Y *>(call.y);
  std::size_t g = 0;
  for (std::size_t r = 0; r < call.rows; ++r, y += call.stride, q += call.q_row()) {
    for (std::size_t begin = 0; begin < call.inputs; begin += call.group, ++g) {
      const std::size_t end = call.inputs - begin < call.group ? call.inputs : begin + call.group;
      const batch zero(static_cast<float>(call.zeros                     ? call.zeros[g]
                                          : rapt::is_4_bits(call.q_type) ? 8
                                                                         : 128)),
          scale(scales ? rapt::widened(scales[g]) : 1.0f), offset(offsets ? rapt::widened(offsets[g]) : 0.0f);
      for (std::size_t k = begin; k < end; k += codes_at_once) {
        const std::size_t count = end - k < codes_at_once ? end - k : codes_at_once;
        std::uint8_t codes[codes_at_once];
        load_codes(q, call.q_type, k, count, codes);
        float numbers[codes_at_once];
        for (std::size_t j = 0; call.codebook && j < codes_at_once; ++j) numbers[j] = call.codebook[codes[j]];
        for (std::size_t j = 0; j < count; j += V::width) {
          batch v = call.codebook ? V::load(numbers + j) : V::load(codes + j) - zero;
          if (scales) v = v * scale;
          if (offsets) v = v + offset;
          if (count - j >= V::width) {
            V::store(y + k + j, v);
          } else {
            V::store_first(y + k + j, v, count - j);
          }
        }
      }
    }
  }
}

template <class E>
void dequantize_rows(const rapt::DequantizeCall *call) {
  rapt::with_element<float>(call->type, [&](auto element) {
    rapt::with_element<float>(call->scale_type, [&](auto scale) {
      dequantize_rows_of<typename decltype(element)::type, typename decltype(scale)::type>(*call);
    });
  });
}

template <class Codes, class File, class Y>
void dequantize_blocks_of(const rapt::DequantizeCall &call) {
  using V = simd<float>;
  constexpr std::size_t part = 512;  // whole blocks
  const std::uint8_t *q = call.q;
  auto *y = static_cast<Y *>(call.y);
  for (std::size_t r = 0; r < call.rows; ++r, y += call.stride, q += call.q_row()) {
    if constexpr (std::is_same_v<Y, float>) {
      numbers_of_blocks<Codes, File>(q, call.inputs, y);
    } else {
      float numbers[part];
      for (std::size_t k = 0; k < call.inputs; k += part) {
        const std::size_t count = call.inputs - k < part ? call.inputs - k : part;
        numbers_of_blocks<Codes, File>(q + k / File::inputs * File::bytes, count, numbers);
        for (std::size_t i = 0; i < count; i += V::width) V::store(y + k + i, V::load(numbers + i));
      }
    }
  }
}

template <class Codes>
void dequantize_blocks(const rapt::DequantizeCall *call) {
  rapt::with_file_blocks(call->q_type, [&]<class File>(File) {
    rapt::with_element<float>(call->type, [&](auto element) {
      dequantize_blocks_of<Codes, File, typename decltype(element)::type>(*call);
    });
  });
}

}  // namespace
