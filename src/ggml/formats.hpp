// The types of ggml's tensors: what rapt calls them, and rows of them from and to f32. Every function here works on one
// row, has no state, and gives the same bits on every CPU.
#pragma once

#include <ggml.h>

#include <cstddef>
#include <optional>

#include "rapt/rapt.h"

namespace rapt_ggml {

// F32, F16 and BF16.
std::optional<rapt_type> float_type(ggml_type type);

// What rapt calls a type of blocks, and how many inputs share a scale there.
struct Blocks {
  rapt_type type;
  std::size_t group;
};
std::optional<Blocks> blocks_of(ggml_type type);

// All rows below have n elements: whole blocks. Arrays must not overlap. Rows of F32, F16 and BF16 are aligned to their
// elements. Other rows may begin anywhere. The rounding mode is to nearest.

bool can_decode(ggml_type type);  // those that rapt has a name for
void decode_row(ggml_type type, const void *row, std::size_t n, float *y);

// Rounds f32 to F32, F16 and BF16 as rapt_convert_f32_to_* does. Blocks of finite numbers get the bytes of
// ggml's reference encoder on x86-64, because programs compare backends with it. A block first gets its scale
// d:
//
//   Q8_0         m / 127, where m is the block's largest |x|
//   Q4_0, Q5_0   e / -8 and e / -16, where e is the first x whose magnitude is m
//   Q4_1, Q5_1   (largest x - smallest x) / 15 and / 31; the offset is the smallest x
//   IQ4_NL       what minimises the error, weighted by x^2, of the codes that e / -127 gives; 0 if m < 1e-15
//
// Each element gets the code nearest to (x - offset) / d, or to x / (e / -127), and the largest code if there
// is none so large. Ties go away from 0 in Q8_0, and up in other types. Only then are d and the offset
// rounded to f16. So |error| <= |d| / 2 + |code| |f16(d) - d| + |f16(offset) - offset|, except near -e and in
// IQ4_NL. If d is not 0 but 1 / d overflows, all bits of codes are 0. If m < 1e-15, IQ4_NL's codes are those
// of 1.
//
// A block becomes NaN, in scale and offset, if it has an infinity or a NaN, or if its scale or offset is too
// large for f16. A scale of 0 may be -0, so zeros may change their sign.
bool can_encode(ggml_type type);  // F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL
void encode_row(ggml_type type, const float *x, std::size_t n, void *row);

}  // namespace rapt_ggml
