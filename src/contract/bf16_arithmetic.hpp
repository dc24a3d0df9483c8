// Defines the arithmetic of RAPT_ARITHMETIC_BF16: products as TDPBF16PS of AMX computes them, and weights of
// 16 bits.
//
// Products. A k32 is a group of 32 terms, padded with 0. Its even terms are summed by one chain of fused
// operations from +0, in order, and its odd terms by another. The sum of both chains is then added to the
// result so far. Every operation works as on x86 under FTZ and DAZ: subnormal operands count as 0, and a
// result that is tiny after rounding is 0. In scores, a k32 is 32 dimensions; in outputs, a k32 is 32 keys.
//
// Weights. A score s has the weight 2^z * 2^-7, where z = s * c - reference * c. The product reference * c is
// rounded, and z is then one fused operation. c is to_log2. If to_log2 is 0, c is the smallest subnormal
// number, so that -inf times c is -inf. If |reference * c| is not below 2^26, its rounding would be too
// large, and z is (s - reference) * c instead.
//
// With f = z - floor(z), the polynomial f + f * (c1 + f * (c2 + f * c3)) approximates 2^f - 1. So z + f * (c1
// + f * (c2 + f * c3)) is floor(z) + 2^f - 1: its integer and its fraction are the exponent and the fraction
// of the weight. Adding `magic` rounds this number to a multiple of 2^-7, and the low 16 bits of the sum are
// the weight as a bf16. Before this rounding, the relative error is 8.74e-5. A weight below 2^-71 is 0.
//
// The reference of a chunk is the largest score of its first block with a visible key. The reference moves to
// a later block's largest score if that score has z >= move_from, which is a weight of 2 or above. Then the
// results so far are multiplied by the f32 contract's weight for the distance between both references.
//
// The sum of the weights is computed like an output whose values are 1. At the end of a chunk, its results
// are multiplied by 2^7. Everything else follows the f32 contract: options of scores, folds, sinks, outputs
// and log-sum-exp. If a row's sum is the weight of its reference, the logarithm of the sum is 0.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "contract/types.hpp"

namespace rapt {
namespace {

struct Bf16Contract {
  static constexpr std::size_t k32 = 32;
  static constexpr float c1 = -0x1.383334p-2f, c2 = 0x1.d236aap-3f, c3 = 0x1.3bac42p-4f;
  // This is 1.5 * 2^16, whose last bit is 2^-7, plus the biased exponent of 2^-7.
  static constexpr float magic = 98304 + 120;
  static constexpr float far = 0x1p26f;
  static constexpr float lowest = -64;
  static constexpr float move_from = 0x1.ffd3aap+2f;
  static constexpr float from_weights = 128;
};

}  // namespace
}  // namespace rapt
