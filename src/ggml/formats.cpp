#include "ggml/formats.hpp"

#include <cstring>

namespace rapt_ggml {

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

std::optional<Blocks> blocks_of(ggml_type type) {
  constexpr struct {
    ggml_type type;
    Blocks blocks;
  } known[] = {
      {GGML_TYPE_Q8_0, {RAPT_Q8_0, 32}},     {GGML_TYPE_Q4_0, {RAPT_Q4_0, 32}},
      {GGML_TYPE_Q4_1, {RAPT_Q4_1, 32}},     {GGML_TYPE_Q5_0, {RAPT_Q5_0, 32}},
      {GGML_TYPE_Q5_1, {RAPT_Q5_1, 32}},     {GGML_TYPE_Q2_K, {RAPT_Q2_K, 16}},
      {GGML_TYPE_Q3_K, {RAPT_Q3_K, 16}},     {GGML_TYPE_Q4_K, {RAPT_Q4_K, 32}},
      {GGML_TYPE_Q5_K, {RAPT_Q5_K, 32}},     {GGML_TYPE_Q6_K, {RAPT_Q6_K, 16}},
      {GGML_TYPE_IQ4_NL, {RAPT_IQ4_NL, 32}}, {GGML_TYPE_IQ4_XS, {RAPT_IQ4_XS, 32}},
      {GGML_TYPE_MXFP4, {RAPT_MXFP4, 32}},   {GGML_TYPE_NVFP4, {RAPT_NVFP4, 16}},
  };
  for (const auto &one : known) {
    if (one.type == type) return one.blocks;
  }
  return std::nullopt;
}

bool can_decode(ggml_type type) { return float_type(type) || blocks_of(type); }

void decode_row(ggml_type type, const void *row, std::size_t n, float *y) {
  if (type == GGML_TYPE_F32) std::memcpy(y, row, n * sizeof *y);
  if (type == GGML_TYPE_F16) rapt_convert_f16_to_f32(static_cast<const rapt_f16 *>(row), y, n);
  if (type == GGML_TYPE_BF16) rapt_convert_bf16_to_f32(static_cast<const rapt_bf16 *>(row), y, n);
  if (const std::optional<Blocks> blocks = blocks_of(type)) {
    rapt_dequantize_rows(row, blocks->type, 1, n, 0, nullptr, nullptr, nullptr, RAPT_TYPE_DEFAULT, nullptr, y,
                         RAPT_F32, 0);
  }
}

}  // namespace rapt_ggml
