#include "ggml/unpacked.hpp"

#include <algorithm>
#include <cstring>

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

void Unpacked::fill(Tensor t, const std::byte *matrix, std::size_t first, std::size_t rows,
                    const std::size_t *offsets) {
  const std::size_t inputs = extent(t, 0);
  const auto is_used = [&](std::size_t r) {
    const std::size_t expert = r / extent(t, 1);
    return !offsets || offsets[expert] != offsets[expert + 1];
  };
  const std::byte *const begin = matrix + first * t->nb[1];
  format_ = format_of(t->type);
  if (!format_) {
    std::vector<float> row(inputs);
    codes_.resize(rows * inputs * sizeof(rapt_f16));
    for (std::size_t r = 0; r < rows; ++r) {
      if (!is_used(r)) continue;
      decode(t->type, begin + r * t->nb[1], inputs, row.data());
      rapt_convert_f32_to_f16(row.data(), reinterpret_cast<rapt_f16 *>(codes_.data()) + r * inputs, inputs);
    }
    return;
  }
  const std::size_t groups = format_->groups(inputs), code_bytes = format_->code_bytes(inputs);
  codes_.resize(rows * code_bytes);
  scales_.resize(rows * groups);
  offsets_.resize(format_->offsets ? rows * groups : 0);
  zeros_.assign(format_->zeros ? rows * groups : 0, 0);
  for (std::size_t r = 0; r < rows; ++r) {
    if (!is_used(r)) continue;
    unpack_row(t->type, begin + r * t->nb[1], inputs, &codes_[r * code_bytes], &scales_[r * groups],
               format_->offsets ? &offsets_[r * groups] : nullptr);
  }
  shorten(scales_);
  shorten(offsets_);
}

// Rewrites numbers as those of format_->scale_type, in the memory that they have.
void Unpacked::shorten(std::vector<float> &numbers) const {
  constexpr std::size_t part = 512;
  std::uint16_t halves[part];
  if (format_->scale_type == RAPT_F32) return;
  for (std::size_t i = 0; i < numbers.size(); i += part) {
    const std::size_t count = std::min(part, numbers.size() - i);
    if (format_->scale_type == RAPT_F16) {
      rapt_convert_f32_to_f16(&numbers[i], reinterpret_cast<rapt_f16 *>(halves), count);
    } else {
      rapt_convert_f32_to_bf16(&numbers[i], reinterpret_cast<rapt_bf16 *>(halves), count);
    }
    std::memcpy(reinterpret_cast<std::byte *>(numbers.data()) + i * sizeof *halves, halves,
                count * sizeof *halves);
  }
}

void Unpacked::set_arrays(rapt_linear_options &options) const {
  if (!format_) return;
  options.w_scales = scales_.data();
  options.w_scale_type = format_->scale_type;
  if (format_->offsets) options.w_offsets = offsets_.data();
  if (format_->zeros) options.w_zeros = zeros_.data();
}

}  // namespace rapt_ggml
