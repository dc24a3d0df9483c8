// Describes calls of rapt_quantize_rows and rapt_dequantize_rows, whose arguments have been checked. Rows of blocks of
// a file have their scales in them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/linear_call.hpp"
#include "contract/file_blocks.hpp"
#include "rapt/rapt.h"

namespace rapt {

// Rows of integers, contiguous, and rows of numbers, `stride` elements apart.
struct QuantizedRows {
  std::size_t rows, inputs, group;  // `group` inputs share a scale; not 0
  rapt_type q_type, type;           // of the integers and of the numbers
  std::ptrdiff_t stride;            // of the numbers

  std::size_t groups() const { return inputs == 0 ? 0 : (inputs - 1) / group + 1; }
  std::size_t q_row() const {
    if (const FileBlocks file = FileBlocks::of(q_type)) return inputs / file.inputs * file.bytes;
    return is_4_bits(q_type) ? inputs / 2 + inputs % 2 : inputs;
  }
};

struct QuantizeCall : QuantizedRows {
  const void *x;
  std::uint8_t *q;
  float *scales;
};

// Arrays that are not given are null. Scales and offsets have scale_type.
struct DequantizeCall : QuantizedRows {
  const std::uint8_t *q;
  const void *scales;
  const std::uint8_t *zeros;
  const void *offsets;
  rapt_type scale_type;
  const float *codebook;
  void *y;
};

}  // namespace rapt
