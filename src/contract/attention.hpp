// Defines the numbers of attention's numeric contract, and derives its error bounds.
//
// rapt.h bounds the errors of out and of lse, the log-sum-exp, for any input. This is the proof. All errors
// are in units of u: 2^-24 for f32, 2^-53 for f64. The letters mean:
//
//   V   the largest |v|
//   S   the largest sum of a score's magnitudes: of |scale * q[d] * k[d]| over all d, plus |alibi| and |bias|
//   c   the number of folds of chunks, below kv_len / 512
//   x   the distance of a key's score from the largest score, at most 2 S
//
// Errors of exponents. Let each score have an error of at most e, and let m be a part that all these errors
// share. The output is the mean of the values, weighted by the exponentials of the scores. In exact
// arithmetic, its error is at most (e - m) V, however large e is. The reason is that the derivative of a
// weighted mean by the exponents is a covariance. A covariance is at most sup |error - m| times the mean of
// |v - mean|, and V bounds that mean. A relative error of a weight counts as an error of its exponent. The
// error of lse is at most e.
//
//   source of the exponent's error     | size
//   a score's chain, and its options   | (qk_dim + 4) S; 4: the quotients and sums of ALiBi and the bias, or the
//                                      | factor and its product with a softcap, and these sums
//   rounding the distances             | 2 S: the distances within blocks and chunks add up to x
//   rounding to_log2                   | x, of which all keys share half: S (lse: 2 S)
//   2^z: polynomial and reduction      | 1.3 in samples, for the weight, for 7 blocks and for each of c folds
//   rounding a sink in units of log 2  | p (1 - p) (2 S + 2 |sink - largest|), where p is the sink's share of
//                                      | the sum: S / 2 + 12 (lse: S + |lse| + 24), for up to 2^32 keys
//
// Roundings of sums. Each rounding costs at most u times the sum of weights, and for values also times V. The
// partial sums of a chunk and of the folds never exceed these, because weights are positive and relative to
// the largest score.
//
//   roundings in                         | sums of values   | sums of weights
//   adding a chunk's keys in order       | min(kv_len, 512) | 6 in the tree of a block, and 7 to add 8 blocks
//   rescaling for a larger maximum       | 7                | 0, because it is fused
//   folds, with a product and a sum each | 2 c              | 2 c
//   the quotient and its product         | 2                | 0
//   the sink                             | 0                | 1
//
// For out, the sum of all this is at most (qk_dim + 8) S + 57 + min(kv_len, 512) + 5.3 c, and 5.3 c is below
// kv_len / 96. For lse, it has 58 + 3.3 c, the rounding of the result and, in f64, the error of the
// logarithm, which is 28 for 2^20 keys. The bounds in rapt.h are larger, to cover products of errors and bf16
// arithmetic. bf16 arithmetic rounds a weight's reference, which costs S, but its chains are shorter.
//
// Underflow. An operation with a subnormal result errs by at most half the smallest number. A score has
// qk_dim such errors, times the scale. A value goes through at most two such operations per key, and the sum
// of weights is at least 1. In bf16 arithmetic, an operation loses up to 2^-126. A score has at most two
// losses per dimension. A value has at most four losses per key, and 2^7 multiplies these at the end of a
// chunk. With int8, a block whose numbers are all below 2^-100 counts as 0. That loses 64 keys times 2^7
// times 2^-100.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rapt {

// Keys are processed in blocks of this many, counted from the sequence's first key. The weights of a block
// are relative to one maximum, and are summed by halves. Smaller blocks would rescale the output more often.
// A block of f32 scores of 64 queries is 16 KiB, a third of an L1 cache.
inline constexpr std::size_t attention_block = 64;
// Each chunk of this many keys has a separate partial result, so keys can be split between chunks. At 4096
// keys, chunks reduce the rounding error to a quarter of a single chain's.
inline constexpr std::size_t attention_chunk = 512;
// A task has up to this many rows.
inline constexpr std::size_t attention_tile_rows = 64;
// Scores are in units of |scale|, by which slopes and biases are divided. The unit is at least 2^-this: smaller scales are
// multiplied into the queries, as powers of two.
inline constexpr std::uint64_t attention_least_unit_bits = 64;
// The size of a page is a multiple of this, so groups of this many keys have a constant stride.
inline constexpr std::size_t attention_page_unit = 16;

namespace {

template <class A>
struct AttentionContract;

// A weight is 2^z with z = (score - maximum) * to_log2 <= 0. Let n = round(z), and r = z - n in one fused
// operation. Then 2^r = 1 + r * (c[0] + c[1] r + …). Base 2 needs one operation less than base e. The scores
// are subtracted before the multiplication. This difference is exact where two products would round, so the
// largest score has weight exactly 1.
//
// A polynomial of one degree less would err by 1.6 u. This command of Sollya 8.0 computes the coefficients
// (for f64: with degrees 1 to 11, and D... in place of SG...):
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
