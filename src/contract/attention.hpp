// Defines the numbers of attention's numeric contract, and derives its error bounds.
//
// rapt.h bounds the errors of out and of the log-sum-exp for any input. The proof follows, in units of u. V
// is the largest |v|, S the largest sum of a score's magnitudes, c < kv_len / 512 the number of folds of
// chunks, and x <= 2 S a key's distance from the largest score.
//
// Errors of exponents. Let every score be off by at most e, and let m be any part that all errors share. Then
// the mean of the values, in exact arithmetic, is off by at most (e - m) V, however large e is: the derivative
// of a mean by its weights' exponents is a covariance, and that is at most sup |error - m| times the mean of
// |v - mean|, which V bounds. A weight that is off by a factor has an exponent that is off by its logarithm.
// The log-sum-exp is off by at most e.
//
//   of an exponent                    | units
//   a score's chain, and its options  | (qk_dim + 4) S: the factor, its product, the slope's sum, the bias
//   the rounding of distances         | 2 S: those of blocks and chunks add up to x
//   the rounding of to_log2           | x, and half of it is common to all: S (lse: 2 S)
//   2^z: polynomial and reduction     | 1.3 by samples, for the weight, 7 blocks and c folds
//   a subnormal to_log2               | 8: 2^-150 times a distance of 2^129
//   a sink, rounded in units of log 2 | p (1 - p) (2 S + 2 |sink - largest|), p its share: S / 2 + 12
//                                     | (lse: S + |lse| + 24), for up to 2^32 keys
//
// Roundings of sums. Each is at most a unit of the sum of weights, times V for values: the sums of a chunk and
// of the folds never exceed it, as weights are positive and relative to the largest.
//
//   of a sum                             | values           | weights
//   keys of a chunk, one after the other | min(kv_len, 512) | 6 in a block's tree, and 7 blocks
//   rescaled by a larger maximum         | 7                | 0: fused
//   a fold: the product and the sum      | 2 c              | 2 c
//   the quotient, its product; the sink  | 2                | 1
//
// For out these are (qk_dim + 8) S at most, 57, min(kv_len, 512), and 5.3 c < kv_len / 96. lse has 58, 3.3 c,
// the rounding of the result and, in f64, that of the logarithm: 28 for 2^20 keys. rapt.h has more of each,
// for errors of errors, and for bf16 arithmetic, whose z rounds its reference, S, and whose chains are shorter.
//
// Underflow. An operation with a subnormal result errs by half the smallest number: a score by qk_dim halves
// times the scale. A value goes through at most two such operations a key, and the sum of weights is at least
// 1. In bf16 arithmetic an operation loses up to 2^-126: at most two a dimension, and four a key in units of
// 2^7. A block of bytes below 2^-100 loses 64 keys times 2^7 times that.
#pragma once

#include <cstddef>

namespace rapt {

// Keys are processed in blocks of this many, counted from the sequence's first key. The weights of a block
// are relative to one maximum, and their sum is a fold by halves. Smaller blocks would rescale the output
// more often. A block of f32 scores of 64 queries is 16 KiB, a third of an L1 cache.
inline constexpr std::size_t attention_block = 64;
// Each chunk of keys has a separate partial result. Split keys are cut there. At 4096 keys, chunks make the
// rounding error a quarter of a single chain's.
inline constexpr std::size_t attention_chunk = 512;
// A task has up to this many rows.
inline constexpr std::size_t attention_tile_rows = 64;
// The size of a page is a multiple of this, so that this many keys are at one distance from each other.
inline constexpr std::size_t attention_page_unit = 16;

namespace {

template <class A>
struct AttentionContract;

// A weight is 2^z with z = (score - maximum) * to_log2 <= 0. n = round(z), r = z - n in one fused operation,
// and 2^r = 1 + r * (c[0] + c[1] r + …). Base 2 needs one operation less than base e. The scores are
// subtracted before the multiplication: the difference is exact where two products would round, so that the
// largest score has weight exactly 1.
//
// The coefficients come from Sollya 8.0 (f64: degrees 1 to 11, D... in place of SG...). The polynomial of one
// degree less would err by 1.6 units:
//   fpminimax(2^x, [|1,2,3,4,5,6|], [|SG...|], [-0.5; 0.5], 1, relative);
template <>
struct AttentionContract<float> {
  static constexpr double log2_e = 0x1.71547652b82fep0;
  static constexpr double ln_2 = 0x1.62e42fefa39efp-1;
  static constexpr float round_magic = 0x1.8p23f;
  static constexpr std::size_t coefficient_count = 6;
  static constexpr float c[coefficient_count] = {0x1.62e43p-1f, 0x1.ebfbd8p-3f,  0x1.c6af76p-5f,
                                                 0x1.3b30ap-7f, 0x1.5f0b82p-10f, 0x1.3fa208p-13f};
  // Below this exponent a weight is 0, so that no weight is subnormal.
  static constexpr float lowest_log2 = -125.0f;
};

template <>
struct AttentionContract<double> {
  static constexpr double log2_e = 0x1.71547652b82fep0;
  static constexpr double ln_2 = 0x1.62e42fefa39efp-1;
  static constexpr double round_magic = 0x1.8p52;
  static constexpr std::size_t coefficient_count = 11;
  static constexpr double c[coefficient_count] = {
      0x1.62e42fefa39efp-1,  0x1.ebfbdff82c5a6p-3,  0x1.c6b08d704a12cp-5,  0x1.3b2ab6fb9fda6p-7,
      0x1.5d87fe789e96fp-10, 0x1.4309130f6cbdcp-13, 0x1.ffcbfc6685efdp-17, 0x1.62bfc6596b95ap-20,
      0x1.b52522bc19eeep-24, 0x1.e61d4332c8c78p-28, 0x1.e973178f84e2dp-32};
  static constexpr double lowest_log2 = -1021.0;
};

}  // namespace
}  // namespace rapt
