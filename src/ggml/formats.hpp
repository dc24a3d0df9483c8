// The types of ggml's tensors: how rapt's linear layers hold them, and rows of them from and to f32. Every
// function here works on one row, has no state, and gives the same bits on every CPU.
#pragma once

#include <ggml.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rapt/rapt.h"

namespace rapt_ggml {

// How rapt's linear layers hold a type of blocks: see rapt_linear_options.
struct Format {
  rapt_type type;     // RAPT_I8, RAPT_U4 or RAPT_I4
  std::size_t group;  // scale_group
  bool zeros;         // w_zeros are needed, and all of them are 0. RAPT_U4 without them has rapt's zero, 8
  bool offsets;       // w_offsets are needed

  constexpr std::size_t code_bytes(std::size_t inputs) const { return type == RAPT_I8 ? inputs : inputs / 2; }
  constexpr std::size_t groups(std::size_t inputs) const { return inputs / group; }
};

// Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4, NVFP4, TQ1_0 and TQ2_0 have one.
std::optional<Format> format_of(ggml_type type);

// F32, F16 and BF16.
std::optional<rapt_type> float_type(ggml_type type);

// Sizes of the types above, and of I8, I16, I32 and I64. Both are 0 for other types.
std::size_t block_elements(ggml_type type);
std::size_t block_bytes(ggml_type type);

// All rows below have n elements, where n is a multiple of block_elements. Arrays must not overlap. Rows of
// F32, F16 and BF16 are aligned to their elements, other rows may begin anywhere.

// Turns a row into rapt's codes, scales and offsets, which have the same numbers exactly. codes has
// format.code_bytes(n) bytes; two 4-bit codes share a byte, input 2j in the low half. scales, and offsets
// where the format has them, have format.groups(n) numbers. Infinite and NaN scales are kept.
void unpack_row(ggml_type type, const void *row, std::size_t n, std::uint8_t *codes, float *scales,
                float *offsets);

// y = float(code - zero) * scale + offset, each operation rounded to f32, as rapt_dequantize_rows does.
bool can_decode(ggml_type type);  // F32, F16, BF16 and the types with a format
void decode_row(ggml_type type, const void *row, std::size_t n, float *y);

// Rounds f32 to F32, F16, BF16 as rapt_convert_f32_to_* does, and to blocks as follows. Each scale d is
// rounded to f16 first; then each element gets the code whose number is nearest, so ties and clipping are the
// only choices.
//
//   Q8_0         d = m / 127, where m is the block's largest |x|; codes -127 to 127
//   Q4_0, Q5_0   d = e / -8, e / -16, where e is the first x of the largest |x|
//   Q4_1, Q5_1   the offset is the smallest x, rounded down; d = (largest x - offset) / 15, / 31
//   IQ4_NL       d minimises the error, weighted by x^2, of the codes that d = e / -127 gives
//
// Where f16 is so coarse that the largest x would be cut off, d is the next larger half, so |error| <= d (1/2
// + 2^-14). Two kinds of numbers can have more: those of Q4_0 and Q5_0 near -e, up to 3/2 d, and those of
// IQ4_NL, whose codes are 9 to 24 d apart and end at -127 d and 113 d. A scale of IQ4_NL below 2^-25 becomes
// 0.
//
// A block is NaN, in scale and offset, if it has an infinity or a NaN, or if its scale or its offset is too
// large for f16. Zeros of both signs become +0, apart from F32, F16 and BF16.
bool can_encode(ggml_type type);  // F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL
void encode_row(ggml_type type, const float *x, std::size_t n, void *row);

// The inverse of unpack_row: returns the row's bytes, if codes, scales and offsets came from it. One thing is
// lost: MXFP4 has two zeros, but integers have one, so a code of -0 comes back as +0. The k-quants lose their
// scales of scales.
bool can_repack(ggml_type type);  // Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, MXFP4
void repack_row(ggml_type type, const std::uint8_t *codes, const float *scales, const float *offsets,
                std::size_t n, void *row);

}  // namespace rapt_ggml
