#include "ggml/unpacked.hpp"

#include "ggml/host.hpp"

namespace rapt_ggml {

bool can_unpack(ggml_type type) {
  if (float_type(type) || format_of(type)) return true;
  const ggml_type_traits *const traits = type < GGML_TYPE_COUNT ? host().type_traits(type) : nullptr;
  return traits && traits->is_quantized && traits->to_float;
}

void decode(ggml_type type, const void *row, std::size_t n, float *y) {
  if (can_decode(type)) return decode_row(type, row, n, y);
  host().type_traits(type)->to_float(row, y, static_cast<std::int64_t>(n));
}

void Unpacked::fill(Tensor t, const std::byte *matrix, std::size_t first, std::size_t rows) {
  const std::size_t inputs = extent(t, 0);
  const std::byte *const begin = matrix + first * t->nb[1];
  const std::optional<Format> format = format_of(t->type);
  if (!format) {
    codes_.resize(rows * inputs * sizeof(rapt_f16));
    scales_.resize(inputs);
    for (std::size_t r = 0; r < rows; ++r) {
      decode(t->type, begin + r * t->nb[1], inputs, scales_.data());
      rapt_convert_f32_to_f16(scales_.data(), reinterpret_cast<rapt_f16 *>(codes_.data()) + r * inputs,
                              inputs);
    }
    scales_.clear();
    return;
  }
  const std::size_t groups = inputs / format->group,
                    code_bytes = format->type == RAPT_I8 ? inputs : inputs / 2;
  codes_.resize(rows * code_bytes);
  scales_.resize(rows * groups);
  offsets_.resize(format->offsets ? rows * groups : 0);
  zeros_.assign(format->zeros ? rows * groups : 0, 0);
  for (std::size_t r = 0; r < rows; ++r) {
    unpack_row(t->type, begin + r * t->nb[1], inputs, &codes_[r * code_bytes], &scales_[r * groups],
               format->offsets ? &offsets_[r * groups] : nullptr);
  }
}

void Unpacked::set_arrays(rapt_linear_options &options) const {
  if (!scales_.empty()) options.w_scales = scales_.data();
  if (!offsets_.empty()) options.w_offsets = offsets_.data();
  if (!zeros_.empty()) options.w_zeros = zeros_.data();
}

}  // namespace rapt_ggml
