// Describes quantized weights of a linear layer, plain and packed.
//
// Kernels see unsigned codes, from which a zero is subtracted:
//
//   weights | code      | zero
//   i8      | q + 128   | 128
//   i4      | q + 8     | 8
//   u4      | q         | as given, or 8
//
// Packed weights are a header, the codebook if there is one, and blocks of 64 outputs. Multi-byte numbers are
// little-endian. A wrong size in the header would lead past the end of the memory, so a check number finds damage.
// A block has
//
//   codes of bytes     [inputs / 4][64][4]
//   codes of 4 bits    [inputs / 8][64][4], inputs 0 to 3 of the 8 in the low halves of bytes
//   codes of 5 bits    [inputs / 32][5][64][4]: the low 4 bits, and bit 4 of inputs 4j to 4j + 3 as bit j of the last bytes
//   codes of 6 bits    [inputs / 16][3][64][4]: the low 4 bits, and bits 4, 5 of inputs 4j to 4j + 3 as bits 2j, 2j + 1
//   scales             [groups][64], if given
//   offsets            [groups][64], if given
//   zeros              [groups][64], if given
//
// Scales and offsets of file blocks with steps are integers of 8 bits, and after each of the two arrays comes its
// [inputs / 256][64] in f16: a scale is integer * step. The steps of offsets are those of the file, negated.
//
// Inputs and outputs that do not exist have the code of 0. Their scales, offsets and zeros are 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "call/packed_header.hpp"
#include "call/transposed_copy.hpp"
#include "contract/linear.hpp"

namespace rapt {

class QuantizedWeights {
 public:
  static constexpr std::size_t block = linear_block;

  // The options must be resolved, and `w` must be packed weights if options.packed_w is set. Queries of sizes
  // need no w.
  QuantizedWeights(const rapt_linear_options &o, const void *w) : o_(o), w_(static_cast<const char *>(w)) {
    if (o.packed_w && w) {
      header_ = PackedHeader::stored_at(w);
    } else {
      header_ = PackedHeader::of(o);
      header_.set_length(packed_size());
    }
  }

  const PackedHeader &header() const { return header_; }
  bool is_packed() const { return o_.packed_w != 0; }
  // The bits of a code, and how many inputs of an output lie in how many words of 4 bytes, one of each plane.
  unsigned bits() const { return file_ ? file_.bits : is_4_bits(o_.w_type) ? 4 : 8; }
  std::size_t inputs_of_unit() const { return bits() == 5 ? 32 : bits() == 6 ? 16 : 32 / bits(); }
  std::size_t planes() const { return inputs_of_unit() * bits() / 32; }
  bool is_bytes() const { return bits() == 8; }
  // Whether scales and offsets are integers times steps, each of which is of so many groups.
  bool has_steps() const { return file_.has_steps; }
  std::size_t groups_of_step() const { return file_.inputs / file_.group; }
  bool has_scales() const { return header_.has_scales; }
  bool has_zeros() const { return header_.has_zeros; }
  bool has_offsets() const { return header_.has_offsets; }
  bool has_codebook() const { return header_.has_codebook; }
  rapt_type scale_type() const { return static_cast<rapt_type>(header_.scale_type); }
  std::size_t scale_size() const { return has_steps() ? 1 : header_.scale_type ? size_of(scale_type()) : 0; }

  // Returns the scale group of an input.
  std::size_t group_of(std::size_t input) const { return o_.scale_group ? input / o_.scale_group : 0; }
  // The zero of weights without w_zeros.
  int common_zero() const { return file_ ? static_cast<int>(file_.zero) : is_bytes() ? 128 : 8; }

  unsigned code(std::size_t output, std::size_t input) const {
    if (is_packed()) return code_of(codes(output, input), input % inputs_of_unit());
    const char *const row = w_ + o_.w_strides.row * static_cast<std::ptrdiff_t>(output);
    const std::size_t at = is_bytes() ? input : input / 2;
    const auto byte = static_cast<unsigned char>(row[o_.w_strides.column * static_cast<std::ptrdiff_t>(at)]);
    if (is_bytes()) return byte ^ 128U;
    const unsigned nibble = input % 2 == 0 ? byte & 15U : byte >> 4U;
    return o_.w_type == RAPT_I4 ? nibble ^ 8U : nibble;
  }
  // Returns the code of an input of a unit.
  unsigned code_of(const std::uint8_t *unit, std::size_t input) const {
    constexpr std::size_t plane = 4 * block;
    if (is_bytes()) return unit[input];
    const unsigned low = unit[input / 8 * plane + input % 4] >> (input % 8 < 4 ? 0 : 4) & 15U;
    if (bits() == 4) return low;
    const unsigned more = bits() - 4;
    const unsigned byte = unit[(planes() - 1) * plane + input % 4];
    return low | (byte >> more * (input / 4) & ((1U << more) - 1)) << 4;
  }
  // Packs the codes of plain bytes, for 64 outputs, if inputs are adjacent. Returns how many quads of inputs it
  // has packed.
  std::size_t copy_bytes(std::size_t output, std::size_t first, std::size_t quads, std::uint8_t *to) const {
    if (o_.w_strides.column != 1) return 0;
    const char *const rows = w_ + o_.w_strides.row * static_cast<std::ptrdiff_t>(output) + first;
    const std::size_t copied = copy_transposed<4>(rows, o_.w_strides.row, block, quads, to, block);
    for (std::size_t i = 0; i < copied * 4 * block; ++i) to[i] ^= 128;
    return copied;
  }
  int zero(std::size_t output, std::size_t group) const {
    if (!has_zeros()) return common_zero();
    return is_packed() ? *packed_zeros(output, group) : o_.w_zeros[output * scale_groups(o_) + group];
  }
  float scale(std::size_t output, std::size_t group) const {
    if (!has_scales()) return 1;
    if (is_packed()) return packed_number(packed_scales(output, group), output, group, scale_steps());
    return widened_scale(o_.w_scales, output * scale_groups(o_) + group);
  }
  float offset(std::size_t output, std::size_t group) const {
    if (is_packed()) return packed_number(packed_offsets(output, group), output, group, offset_steps());
    return widened_scale(o_.w_offsets, output * scale_groups(o_) + group);
  }
  // Returns what the scale multiplies.
  float number(std::size_t output, std::size_t input) const {
    const unsigned q = code(output, input);
    if (has_codebook()) return codebook(q);
    return static_cast<float>(static_cast<int>(q) - zero(output, group_of(input)));
  }
  float codebook(unsigned q) const {
    if (!is_packed()) return o_.w_codebook[q];
    float number;
    std::memcpy(&number, packed_codebook() + q * sizeof number, sizeof number);
    return number;
  }

  // These functions return addresses in packed weights. That of codes is of the unit with the input.
  const std::uint8_t *codes(std::size_t output, std::size_t input) const {
    return reinterpret_cast<const std::uint8_t *>(of_block(output)) + codes_before(input) +
           output % block * 4;
  }
  const char *packed_codebook() const { return w_ + sizeof(PackedHeader); }
  const char *packed_scales(std::size_t output, std::size_t group) const {
    return of_block(output) + codes_size() + (group * block + output % block) * scale_size();
  }
  const char *packed_offsets(std::size_t output, std::size_t group) const {
    return packed_scales(output, group) + (has_scales() ? scales_size() : 0);
  }
  const char *packed_scale_steps(std::size_t output, std::size_t group) const {
    return of_block(output) + scale_steps() + (group / groups_of_step() * block + output % block) * 2;
  }
  const char *packed_offset_steps(std::size_t output, std::size_t group) const {
    return packed_scale_steps(output, group) + scales_size();
  }
  const std::uint8_t *packed_zeros(std::size_t output, std::size_t group) const {
    const std::size_t before =
        codes_size() + (has_scales() ? scales_size() : 0) + (has_offsets() ? scales_size() : 0);
    return reinterpret_cast<const std::uint8_t *>(of_block(output)) + before + group * block + output % block;
  }

  // Returns the bytes of all packed weights.
  std::size_t packed_size() const {
    return blocks_begin() + ((header_.out_features + block - 1) / block) * block_size();
  }

  float widened_scale(const void *scales, std::size_t i) const {
    return with_element<float>(scale_type(), [&](auto element) -> float {
      using E = typename decltype(element)::type;
      E scale;
      std::memcpy(&scale, static_cast<const char *>(scales) + i * sizeof scale, sizeof scale);
      return widened(scale);
    });
  }

  std::size_t codes_size() const { return codes_before(o_.in_features + inputs_of_unit() - 1); }
  // The bytes of a block's codes before the unit with an input.
  std::size_t codes_before(std::size_t input) const {
    return input / inputs_of_unit() * planes() * (4 * block);
  }
  std::size_t scales_size() const {
    const std::size_t steps = has_steps() ? scale_groups(o_) / groups_of_step() * block * 2 : 0;
    return scale_groups(o_) * block * scale_size() + steps;
  }
  std::size_t block_size() const {
    return codes_size() + (has_scales() ? scales_size() : 0) + (has_offsets() ? scales_size() : 0) +
           (has_zeros() ? scale_groups(o_) * block : 0);
  }
  std::size_t blocks_begin() const { return sizeof(PackedHeader) * (has_codebook() ? 2 : 1); }

 private:
  // Where a block has the steps of its scales, and those of its offsets.
  std::size_t scale_steps() const { return codes_size() + scale_groups(o_) * block; }
  std::size_t offset_steps() const { return scale_steps() + scales_size(); }
  float packed_number(const char *at, std::size_t output, std::size_t group, std::size_t steps) const {
    if (!has_steps()) return widened_scale(at, 0);
    const std::size_t step = group / groups_of_step() * block + output % block;
    return static_cast<float>(static_cast<signed char>(*at)) * widened_scale(of_block(output) + steps, step);
  }
  const char *of_block(std::size_t output) const {
    return w_ + blocks_begin() + output / block * block_size();
  }

  const rapt_linear_options &o_;
  const char *w_;
  FileBlocks file_ = FileBlocks::of(o_.w_type);
  PackedHeader header_;
};

}  // namespace rapt
