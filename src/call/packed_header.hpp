// Defines the header of packed weights. It says which layer they are of, and so how long they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "call/linear_call.hpp"

namespace rapt {

// The first 64 bytes of packed weights. `length` is public, and `check` is last.
struct PackedHeader {
  static constexpr std::uint64_t expected_name = 0x31776c7470617200;  // "\0raptlw1"
  static constexpr std::uint32_t all_outputs = UINT32_MAX;
  std::uint64_t name = expected_name, in_features = 0, out_features = 0, scale_group = 0;
  std::uint32_t w_type = 0, scale_type = 0;
  std::uint8_t has_scales = 0, has_zeros = 0, has_offsets = 0, has_codebook = 0;
  std::uint32_t outputs_per_scale = 0;  // 0: each output has its scales; all_outputs: all share them
  std::uint64_t length = 0;             // the bytes of all packed weights
  std::uint64_t check = 0;

  // Returns the header of plain weights without its length. The options must be resolved.
  static PackedHeader of(const rapt_linear_options &o) {
    PackedHeader header;
    header.in_features = o.in_features;
    header.out_features = o.out_features;
    header.scale_group = o.scale_group;
    header.w_type = static_cast<std::uint32_t>(o.w_type);
    header.has_scales = o.w_scales != nullptr;
    header.has_zeros = o.w_zeros != nullptr;
    header.has_offsets = o.w_offsets != nullptr;
    header.has_codebook = o.w_codebook != nullptr;
    if (o.outputs_per_scale > 1)
      header.outputs_per_scale =
          o.outputs_per_scale == SIZE_MAX ? all_outputs : static_cast<std::uint32_t>(o.outputs_per_scale);
    if (const FileBlocks file = FileBlocks::of(o.w_type)) {
      header.has_scales = 1;
      header.has_offsets = file.has_offsets;
      header.scale_type = RAPT_F16;
    }
    if (o.w_scales || o.w_offsets) {
      header.scale_type =
          static_cast<std::uint32_t>(o.w_scale_type == RAPT_TYPE_DEFAULT ? RAPT_F32 : o.w_scale_type);
    }
    return header;
  }
  static PackedHeader stored_at(const void *packed) {
    PackedHeader header;
    std::memcpy(&header, packed, sizeof header);
    return header;
  }
  void set_length(std::size_t bytes) {
    length = bytes;
    check = checked();
  }

  // Returns the FNV-1a hash of the other fields. A change of any one byte changes it.
  std::uint64_t checked() const {
    unsigned char bytes[offsetof(PackedHeader, check)];
    std::memcpy(bytes, this, sizeof bytes);
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
    return hash;
  }

  // Returns the option outputs_per_scale.
  std::size_t shared_outputs() const {
    return outputs_per_scale == all_outputs ? SIZE_MAX : outputs_per_scale;
  }

  // Returns whether rapt_linear_pack writes this header for some scales, zeros, offsets and codebook of the
  // layer. `length` is not looked at.
  bool fits(const rapt_linear_options &o) const {
    const bool has_type = has_scales || has_offsets, has_both = has_zeros && has_codebook;
    const bool is_float = scale_type == RAPT_F32 || scale_type == RAPT_F16 || scale_type == RAPT_BF16;
    for (const std::uint8_t has : {has_scales, has_zeros, has_offsets, has_codebook}) {
      if (has > 1) return false;
    }
    if (!share_scales_as(o)) return false;
    if (is_in_file_blocks(o.w_type)) {
      const PackedHeader expected = of(o);
      if (has_scales != 1 || has_offsets != expected.has_offsets || scale_type != expected.scale_type)
        return false;
    }
    return check == checked() && name == expected_name && in_features == o.in_features &&
           out_features == o.out_features && scale_group == o.scale_group &&
           w_type == static_cast<std::uint32_t>(o.w_type) && (has_type ? is_float : scale_type == 0) &&
           !has_both && (!has_zeros || may_have_zeros(o.w_type)) && (!has_codebook || w_type == RAPT_U4) &&
           (is_quantized(o.w_type) || !has_type) &&
           (o.w_scale_type == RAPT_TYPE_DEFAULT || scale_type == static_cast<std::uint32_t>(o.w_scale_type));
  }

 private:
  bool share_scales_as(const rapt_linear_options &o) const {
    const bool can_be = outputs_per_scale == 0 || outputs_per_scale == 64 || outputs_per_scale == 128 ||
                        outputs_per_scale == 256 || outputs_per_scale == all_outputs;
    if (!can_be || (outputs_per_scale != 0 && (!has_scales || is_in_file_blocks(o.w_type)))) return false;
    return o.outputs_per_scale == 0 || outputs_per_scale == of(o).outputs_per_scale;
  }
};
static_assert(sizeof(PackedHeader) == 64);

}  // namespace rapt
