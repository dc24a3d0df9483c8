// Says what a type is: its block, rapt's format for it, and what can be done with it. Decodes rows by rapt's
// own functions.
#include "ggml/formats.hpp"

#include <algorithm>
#include <cstring>

#include "ggml/blocks.hpp"

namespace rapt_ggml {

std::optional<Format> format_of(ggml_type type) {
  std::optional<Format> format;
  with_block(type, [&](const auto &block) { format = block.format; });
  return format;
}

std::optional<rapt_type> float_type(ggml_type type) {
  switch (type) {
    case GGML_TYPE_F32:
      return RAPT_F32;
    case GGML_TYPE_F16:
      return RAPT_F16;
    case GGML_TYPE_BF16:
      return RAPT_BF16;
    default:
      return std::nullopt;
  }
}

std::size_t block_bytes(ggml_type type) {
  switch (type) {
    case GGML_TYPE_I8:
      return 1;
    case GGML_TYPE_F16:
    case GGML_TYPE_BF16:
    case GGML_TYPE_I16:
      return 2;
    case GGML_TYPE_F32:
    case GGML_TYPE_I32:
      return 4;
    case GGML_TYPE_I64:
      return 8;
    default:
      break;
  }
  std::size_t bytes = 0;
  with_block(type, [&](const auto &block) { bytes = sizeof block; });
  return bytes;
}

std::size_t block_elements(ggml_type type) {
  std::size_t elements = block_bytes(type) > 0 ? 1 : 0;
  with_block(type, [&](const auto &block) { elements = block.elements; });
  return elements;
}

bool can_decode(ggml_type type) { return float_type(type) || format_of(type); }

void decode_row(ggml_type type, const void *row, std::size_t n, float *y) {
  if (type == GGML_TYPE_F32) std::memcpy(y, row, n * sizeof *y);
  if (type == GGML_TYPE_F16) rapt_convert_f16_to_f32(static_cast<const rapt_f16 *>(row), y, n);
  if (type == GGML_TYPE_BF16) rapt_convert_bf16_to_f32(static_cast<const rapt_bf16 *>(row), y, n);
  const std::optional<Format> format = format_of(type);
  if (!format) return;
  constexpr std::size_t most = 2048, smallest_group = 16;  // a part of the row: a multiple of every block
  static constexpr std::uint8_t zeros[most / smallest_group] = {};
  std::uint8_t codes[most];
  float scales[most / smallest_group], offsets[most / smallest_group];
  const auto *blocks = static_cast<const std::uint8_t *>(row);
  for (std::size_t count; n > 0; n -= count, y += count) {
    count = std::min(n, most);
    unpack_row(type, blocks, count, codes, scales, offsets);
    rapt_dequantize_rows(codes, format->type, 1, count, format->group, scales,
                         format->zeros ? zeros : nullptr, format->offsets ? offsets : nullptr, RAPT_F32,
                         nullptr, y, RAPT_F32, 0);
    blocks += count / block_elements(type) * block_bytes(type);
  }
}

}  // namespace rapt_ggml
