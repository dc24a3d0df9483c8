// The numbers of Philox 4x32-10: J. Salmon, M. Moraes, R. Dror and D. Shaw, "Parallel Random Numbers: As Easy as 1, 2,
// 3", SC 2011. A round multiplies two words of the counter, and swaps and mixes the halves of the products:
//
//   (c0, c1, c2, c3) = (high(m1 c2) ^ c1 ^ k0, low(m1 c2), high(m0 c0) ^ c3 ^ k1, low(m0 c0))
//
// After each of the 10 rounds but the last, w0 and w1 are added to the words k0 and k1 of the key.
#pragma once

#include <cstdint>

namespace rapt {
namespace {

struct Philox {
  static constexpr std::uint32_t m0 = 0xD2511F53, m1 = 0xCD9E8D57, w0 = 0x9E3779B9, w1 = 0xBB67AE85;
  static constexpr int rounds = 10;
};

}  // namespace
}  // namespace rapt
