// Describes quantized weights of a linear layer, plain and packed.
//
// Kernels see unsigned codes, from which a zero is subtracted:
//
//   weights | code      | zero
//   i8      | q + 128   | 128
//   i4      | q + 8     | 8
//   u4      | q         | as given, or 8
//   u8      | q         | as given, or 128
//   f8      | its bits  | none: the number is that of the bits (contract/f8.hpp)
//
// Packed weights are a header, the codebook if there is one, and blocks of 64 outputs. Multi-byte numbers are
// little-endian. A wrong size in the header would lead past the end of the memory, so a check number finds damage.
// A block has
//
//   codes     [units]: see code_unit.hpp
//   scales    [groups][64], if given; [groups] and a gap up to a cache line, if outputs share them
//   offsets   [groups][64], if given
//   zeros     [groups][64], if given
//   specials  a cache line, only of f8, whose first byte says whether a code of the block is NaN or infinite
//
// Scales and offsets of file blocks with steps are integers of 8 bits, and after each of the two arrays comes its
// [inputs / 256][64] in f16: a scale is integer * step. The steps of offsets are those of the file, negated. Integers
// of 4 bits share bytes: scales are the low halves, offsets the high ones, and the array of offsets has only the steps.
//
// Scales of MXFP4 and NVFP4 are the bytes of the file. The codebook of a type of blocks is not stored.
//
// Inputs and outputs that do not exist have the code of 0, or some code of a file's codebook. The bits of their scales,
// offsets and zeros are 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/code_unit.hpp"
#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "call/packed_header.hpp"
#include "call/transposed_copy.hpp"
#include "contract/f8.hpp"
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
  unsigned bits() const { return unit_.low + unit_.more; }
  const CodeUnit &unit() const { return unit_; }
  bool is_bytes() const { return unit_.low == 8; }
  // Whether a code has bits in two planes.
  bool is_split() const { return unit_.more != 0; }
  // Whether scales and offsets are integers times steps, each of which is of so many groups.
  bool has_steps() const { return file_.has_steps; }
  std::size_t groups_of_step() const { return file_.inputs / file_.group; }
  // Whether the integers of a scale and of an offset are halves of a byte.
  bool shares_bytes() const { return file_.shares_bytes; }
  // The format of codes that are numbers of 8 bits.
  F8 f8() const { return f8_; }
  bool has_scales() const { return header_.has_scales; }
  // Whether all outputs of a block share their scales.
  bool shares_scales() const { return header_.outputs_per_scale != 0; }
  bool has_zeros() const { return header_.has_zeros; }
  bool has_offsets() const { return header_.has_offsets; }
  bool has_codebook() const { return header_.has_codebook || file_.codebook != Codebook::none; }
  rapt_type scale_type() const { return static_cast<rapt_type>(header_.scale_type); }
  // What the byte of a scale stands for, if it is one without a step.
  ScaleOf scale_of() const { return file_.scale_of; }
  std::size_t scale_size() const {
    if (has_steps() || scale_of() != ScaleOf::d) return 1;
    return header_.scale_type ? size_of(scale_type()) : 0;
  }

  // Returns the scale group of an input.
  std::size_t group_of(std::size_t input) const { return o_.scale_group ? input / o_.scale_group : 0; }
  // The zero of weights without w_zeros.
  int common_zero() const {
    if (f8_) return 0;
    return file_ ? static_cast<int>(file_.zero) : is_bytes() ? 128 : 8;
  }
  // In i8 arithmetic, a codebook turns codes into bytes, from which such a zero is subtracted: its integers + 128, or
  // those of E2M1 + 12, which are below 32.
  bool has_integers_of_bytes() const {
    return is_bytes() || (has_codebook() && file_.codebook != Codebook::e2m1);
  }
  int common_zero_of_integers() const {
    return has_integers_of_bytes() ? 128 : has_codebook() ? 12 : common_zero();
  }

  unsigned code(std::size_t output, std::size_t input) const {
    if (is_packed()) return unit_.places(input % unit_.inputs).read(codes(output, input));
    const char *const row = w_ + o_.w_strides.row * static_cast<std::ptrdiff_t>(output);
    const std::size_t at = is_bytes() ? input : input / 2;
    const auto byte = static_cast<unsigned char>(row[o_.w_strides.column * static_cast<std::ptrdiff_t>(at)]);
    if (is_bytes()) return byte ^ flip();
    const unsigned nibble = input % 2 == 0 ? byte & 15U : byte >> 4U;
    return o_.w_type == RAPT_I4 ? nibble ^ 8U : nibble;
  }
  // Packs the codes of plain bytes, for 64 outputs, if inputs are adjacent. Returns how many quads of inputs it
  // has packed.
  std::size_t copy_bytes(std::size_t output, std::size_t first, std::size_t quads, std::uint8_t *to) const {
    if (o_.w_strides.column != 1) return 0;
    const char *const rows = w_ + o_.w_strides.row * static_cast<std::ptrdiff_t>(output) + first;
    const std::size_t copied = copy_transposed<4>(rows, o_.w_strides.row, block, quads, to, block);
    for (std::size_t i = 0; i < copied * 4 * block; ++i) to[i] ^= flip();
    return copied;
  }
  // What makes codes of the bytes of plain weights, and plain weights of codes.
  std::uint8_t flip() const { return f8_ || o_.w_type == RAPT_U8 ? 0 : 128; }
  int zero(std::size_t output, std::size_t group) const {
    if (!has_zeros()) return common_zero();
    return is_packed() ? *packed_zeros(output, group) : o_.w_zeros[output * scale_groups(o_) + group];
  }
  float scale(std::size_t output, std::size_t group) const {
    if (!has_scales()) return 1;
    if (is_packed()) return packed_number(packed_scales(output, group), output, group, scale_steps(), 0);
    return widened_scale(o_.w_scales, row_of_scales(output) * scale_groups(o_) + group);
  }
  // Returns the row of the option w_scales that an output has.
  std::size_t row_of_scales(std::size_t output) const {
    if (!shares_scales()) return output;
    return header_.outputs_per_scale == PackedHeader::all_outputs ? 0 : output / header_.outputs_per_scale;
  }
  float offset(std::size_t output, std::size_t group) const {
    if (is_packed()) return packed_number(packed_offsets(output, group), output, group, offset_steps(), 4);
    return widened_scale(o_.w_offsets, output * scale_groups(o_) + group);
  }
  // Returns what the scale multiplies.
  float number(std::size_t output, std::size_t input) const {
    const unsigned q = code(output, input);
    if (f8_) return f8_.number(static_cast<std::uint8_t>(q));
    if (has_codebook()) return codebook(q);
    return static_cast<float>(static_cast<int>(q) - zero(output, group_of(input)));
  }
  // Returns what the scale multiplies in i8 arithmetic.
  int integer(std::size_t output, std::size_t input) const {
    const unsigned q = code(output, input);
    if (has_codebook()) return static_cast<int>(codebook(q));
    return static_cast<int>(q) - zero(output, group_of(input));
  }
  // Returns whether i8 arithmetic has all numbers of the codebook.
  bool has_codebook_of_integers() const {
    for (unsigned q = 0; q < 16; ++q) {
      const float number = codebook(q);
      if (!(number >= -128 && number <= 127) || static_cast<float>(static_cast<int>(number)) != number)
        return false;
    }
    return true;
  }
  float codebook(unsigned q) const {
    if (file_.codebook != Codebook::none) return static_cast<float>(integer_of(file_.codebook, q));
    if (!is_packed()) return o_.w_codebook[q];
    float number;
    std::memcpy(&number, packed_codebook() + q * sizeof number, sizeof number);
    return number;
  }

  // These functions return addresses in packed weights. That of codes is of the unit with the input.
  const std::uint8_t *codes(std::size_t output, std::size_t input) const {
    return reinterpret_cast<const std::uint8_t *>(of_block(output)) + codes_before(input) +
           unit_.words_of(output % block);
  }
  const char *packed_codebook() const { return w_ + sizeof(PackedHeader); }
  const char *packed_scales(std::size_t output, std::size_t group) const {
    const std::size_t at = shares_scales() ? group : group * block + output % block;
    return of_block(output) + scales_begin() + at * scale_size();
  }
  const char *packed_offsets(std::size_t output, std::size_t group) const {
    return of_block(output) + offsets_begin() + (group * block + output % block) * scale_size();
  }
  const char *packed_scale_steps(std::size_t output, std::size_t group) const {
    return of_block(output) + scale_steps() + (group / groups_of_step() * block + output % block) * 2;
  }
  const char *packed_offset_steps(std::size_t output, std::size_t group) const {
    return packed_scale_steps(output, group) + (offset_steps() - scale_steps());
  }
  const std::uint8_t *packed_zeros(std::size_t output, std::size_t group) const {
    return reinterpret_cast<const std::uint8_t *>(of_block(output)) + zeros_begin() + group * block +
           output % block;
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

  // Where a block has its arrays.
  std::size_t codes_size() const { return codes_before(o_.in_features + unit_.inputs - 1); }
  std::size_t scales_begin() const { return codes_size(); }
  std::size_t scale_steps() const { return scales_begin() + numbers_size(); }
  std::size_t offsets_begin() const {
    return shares_bytes() ? scales_begin()
                          : scales_begin() + (has_scales() ? scales_size() + steps_size() : 0);
  }
  std::size_t offset_steps() const {
    return scale_steps() + steps_size() + (shares_bytes() ? 0 : numbers_size());
  }
  std::size_t zeros_begin() const {
    if (has_steps()) return has_offsets() ? offset_steps() + steps_size() : offsets_begin();
    return offsets_begin() + (has_offsets() ? numbers_size() : 0);
  }
  std::size_t specials_begin() const { return zeros_begin() + (has_zeros() ? scale_groups(o_) * block : 0); }
  std::size_t block_size() const { return specials_begin() + (f8_ ? gap : 0); }
  // Whether a code of the output's block may be NaN or infinite. Those of plain weights are not looked at before.
  bool may_have_specials(std::size_t output) const {
    return f8_ && (!is_packed() || of_block(output)[specials_begin()] != 0);
  }
  // The bytes of a block's codes before the unit with an input.
  std::size_t codes_before(std::size_t input) const { return input / unit_.inputs * unit_.bytes(); }
  std::size_t blocks_begin() const { return sizeof(PackedHeader) * (header_.has_codebook ? 2 : 1); }

  // The bytes of scales or of offsets, and of their steps.
  std::size_t scales_size() const {
    if (!shares_scales()) return numbers_size();
    return (scale_groups(o_) * scale_size() + gap - 1) / gap * gap;
  }

 private:
  static constexpr std::size_t gap = 64;

  std::size_t numbers_size() const { return scale_groups(o_) * block * scale_size(); }
  std::size_t steps_size() const { return has_steps() ? scale_groups(o_) / groups_of_step() * block * 2 : 0; }

  // `half` is the lowest bit of the number's integer, if it shares a byte.
  float packed_number(const char *at, std::size_t output, std::size_t group, std::size_t steps,
                      unsigned half) const {
    if (scale_of() == ScaleOf::e8m0) return half_of_e8m0(static_cast<std::uint8_t>(*at));
    if (scale_of() == ScaleOf::ue4m3) return half_of_ue4m3(static_cast<std::uint8_t>(*at));
    if (!has_steps()) return widened_scale(at, 0);
    const std::size_t step = group / groups_of_step() * block + output % block;
    const int integer =
        shares_bytes() ? static_cast<unsigned char>(*at) >> half & 15 : static_cast<signed char>(*at);
    return static_cast<float>(integer) * widened_scale(of_block(output) + steps, step);
  }
  const char *of_block(std::size_t output) const {
    return w_ + blocks_begin() + output / block * block_size();
  }

  const rapt_linear_options &o_;
  const char *w_;
  FileBlocks file_ = FileBlocks::of(o_.w_type);
  F8 f8_ = F8::of(o_.w_type);
  CodeUnit unit_ = CodeUnit::of(file_ ? file_.bits : is_4_bits(o_.w_type) ? 4 : 8);
  PackedHeader header_;
};

}  // namespace rapt
