// The numbers of attention's numeric contract.
#pragma once

#include <cstddef>

namespace rapt {

// Keys are taken in blocks, at multiples of this from the sequence's first. The weights of a block are
// relative to one maximum, and their sum is a fold by halves. Smaller blocks rescale the output more often; a
// block of scores of 64 queries in f32 is 16 KiB, a third of an L1 cache.
inline constexpr std::size_t attention_block = 64;
// Chunks of keys have partial results of their own: split keys meet there, and at 4096 keys the rounding
// error is a quarter of a single chain's.
inline constexpr std::size_t attention_chunk = 512;
// The rows of a task.
inline constexpr std::size_t attention_tile_rows = 64;
// Keys at one distance from each other, whatever the pages: the size of a page is a multiple.
inline constexpr std::size_t attention_page_unit = 16;

namespace {

template <class A>
struct AttentionContract;

// A weight is 2^z with z = (score - maximum) * to_log2 <= 0:  n = round(z),  r = z - n by one fused
// operation, 2^r = 1 + r * (c[0] + c[1] r + …). Base 2 needs one operation less than base e. The difference
// of the scores is exact where a product of each would round, so that the largest score has weight exactly 1.
//
// Coefficients by Sollya 8.0 (f64: degrees 1 to 11, D... in place of SG...); one degree less errs by 1.6
// units alone:
//   fpminimax(2^x, [|1,2,3,4,5,6|], [|SG...|], [-0.5; 0.5], 1, relative);
template <>
struct AttentionContract<float> {
  static constexpr double log2_e = 0x1.71547652b82fep0;
  static constexpr double ln_2 = 0x1.62e42fefa39efp-1;
  static constexpr float round_magic = 0x1.8p23f;
  static constexpr std::size_t coefficient_count = 6;
  static constexpr float c[coefficient_count] = {0x1.62e43p-1f, 0x1.ebfbd8p-3f,  0x1.c6af76p-5f,
                                                 0x1.3b30ap-7f, 0x1.5f0b82p-10f, 0x1.3fa208p-13f};
  // Below this a weight is 0, so that none is subnormal.
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
