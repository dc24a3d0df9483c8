// Implements the scalar reference of rapt_quantize_rows and rapt_dequantize_rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/element.hpp"
#include "call/quantized_rows.hpp"
#include "contract/file_blocks.hpp"
#include "contract/integer_units.hpp"
#include "contract/linear.hpp"

namespace {

template <class X>
void quantize_rows_of(const rapt::QuantizeCall &call) {
  const bool in_4_bits = rapt::is_4_bits(call.q_type);
  const auto *x = static_cast<const X *>(call.x);
  std::uint8_t *q = call.q;
  float *scales = call.scales;
  for (std::size_t r = 0; r < call.rows; ++r, x += call.stride, q += call.q_row()) {
    if (in_4_bits) q[call.q_row() - 1] = 0;
    for (std::size_t begin = 0; begin < call.inputs; begin += call.group) {
      const std::size_t count = call.inputs - begin < call.group ? call.inputs - begin : call.group;
      const auto units = rapt::IntegerUnits::of(count, in_4_bits ? rapt::largest_i4 : rapt::largest_i8,
                                                [&](std::size_t i) { return rapt::widened(x[begin + i]); });
      *scales++ = units.step;
      for (std::size_t k = begin; k < begin + count; ++k) {
        const auto integer = static_cast<std::uint8_t>(units.integer(rapt::widened(x[k])));
        if (!in_4_bits) {
          q[k] = integer;
        } else if (k % 2 == 0) {
          q[k / 2] = integer & 15;
        } else {
          q[k / 2] = static_cast<std::uint8_t>(q[k / 2] | integer << 4);
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

template <class Y, class S>
void dequantize_rows_of(const rapt::DequantizeCall &call) {
  const std::uint8_t *q = call.q;
  const auto *scales = static_cast<const S *>(call.scales), *offsets = static_cast<const S *>(call.offsets);
  auto *y = static_cast<Y *>(call.y);
  for (std::size_t r = 0; r < call.rows; ++r, y += call.stride, q += call.q_row()) {
    for (std::size_t k = 0; k < call.inputs; ++k) {
      const std::size_t g = r * call.groups() + k / call.group;
      const std::uint8_t byte = q[rapt::is_4_bits(call.q_type) ? k / 2 : k];
      const unsigned nibble = k % 2 == 0 ? byte & 15U : byte >> 4U;
      float number;
      if (call.q_type == RAPT_I8) {
        number = static_cast<float>(static_cast<std::int8_t>(byte));
      } else if (call.q_type == RAPT_I4) {
        number = static_cast<float>(static_cast<int>(nibble ^ 8U) - 8);
      } else if (call.codebook) {
        number = call.codebook[nibble];
      } else if (call.q_type == RAPT_U8) {
        number = static_cast<float>(int{byte} - (call.zeros ? call.zeros[g] : 128));
      } else {
        number = static_cast<float>(static_cast<int>(nibble) - (call.zeros ? call.zeros[g] : 8));
      }
      if (scales) number = number * rapt::widened(scales[g]);
      if (offsets) number = number + rapt::widened(offsets[g]);
      y[k] = rapt::narrowed<Y>(number);
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

// Returns the integer of input i of a block.
template <class Block>
int integer_of_code(const std::uint8_t *block, std::size_t i) {
  const unsigned code = Block::code(i).read(block) ^ Block::flip;
  return Block::codebook != rapt::Codebook::none ? rapt::integer_of(Block::codebook, code)
                                                 : static_cast<int>(code - Block::zero);
}

// Returns number i of a row of blocks.
template <class File>
float number_of_blocks(const std::uint8_t *row, std::size_t i) {
  const std::uint8_t *const block = row + i / File::inputs * File::bytes;
  i %= File::inputs;
  const float number = static_cast<float>(integer_of_code<File>(block, i)) *
                       rapt::scale_of_group<File>(block, i / File::group);
  if constexpr (File::has_offsets) return number + rapt::offset_of_group<File>(block, i / File::group);
  return number;
}

// Returns number i of a row of floats or of blocks.
inline float number_of_row(rapt_type type, const std::uint8_t *row, std::size_t i) {
  float number = 0;
  const bool has_blocks =
      rapt::with_file_blocks(type, [&]<class File>(File) { number = number_of_blocks<File>(row, i); });
  if (has_blocks) return number;
  return rapt::with_element<float>(type, [&](auto element) {
    return rapt::widened(reinterpret_cast<const typename decltype(element)::type *>(row)[i]);
  });
}

template <class File, class Y>
void dequantize_blocks_of(const rapt::DequantizeCall &call) {
  const std::uint8_t *q = call.q;
  auto *y = static_cast<Y *>(call.y);
  for (std::size_t r = 0; r < call.rows; ++r, y += call.stride, q += call.q_row()) {
    for (std::size_t k = 0; k < call.inputs; ++k) y[k] = rapt::narrowed<Y>(number_of_blocks<File>(q, k));
  }
}

template <class E>
void dequantize_blocks(const rapt::DequantizeCall *call) {
  rapt::with_file_blocks(call->q_type, [&]<class File>(File) {
    rapt::with_element<float>(call->type, [&](auto element) {
      dequantize_blocks_of<File, typename decltype(element)::type>(*call);
    });
  });
}

}  // namespace
