// The arithmetic of RAPT_ARITHMETIC_BF16: products that AMX's TDPBF16PS computes, and weights of 16 bits.
//
// Products. A k32 is a group of 32 terms, padded with 0. Its even terms are one chain of fused operations
// from +0, in order, and its odd terms are another. The sum of both chains is then added to the result so
// far. Every operation works as on x86 under FTZ and DAZ: subnormal operands count as 0, and a result that is
// tiny after rounding is 0. In scores, a k32 is 32 dimensions; in outputs, a k32 is 32 keys.
//
// Weights. A score s has z = s * c - reference * c, by one fused operation, and the weight 2^z * 2^-7. c is
// to_log2; for a scale of 0 it is the least subnormal, so that -inf times c is -inf. If reference * c is not
// below 2^26, the rounding of that product would outweigh z; then z = (s - reference) * c. With f = z -
// floor(z), the polynomial f + f * (c1 + f * (c2 + f * c3)) approximates 2^f - 1, so that z plus its last
// three terms, in units of 2^-7, is a bf16 with the exponent and fraction of the weight: the low bits of its
// sum with `magic`. Relative error 8.74e-5 before rounding to bf16. A weight below 2^-71 is 0.
//
// The reference of a chunk is the largest score of its first block with a visible key. The reference moves to
// a later block's largest score if that score has z >= move_from, and so a weight of 2 or above. Then results
// so far are multiplied by the f32 contract's weight of the distance.
//
// The sum of the weights is computed as one more output, with values of 1. A chunk's results are multiplied
// by 2^7. All else is as in the f32 contract: scores that options make, folds, sinks, outputs, log-sum-exp.
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
  static constexpr float magic = 98304 + 120;  // 1.5 * 2^16, whose last bit is 2^-7, and the exponent of 2^-7
  static constexpr float least_to_log2 = 0x1p-149f;
  static constexpr float far = 0x1p26f;
  static constexpr float lowest = -64;
  static constexpr float move_from = 0x1.ffd3aap+2f;
  static constexpr float from_weights = 128;
};

}  // namespace
}  // namespace rapt
