// Models the arithmetic of AMX and VNNI in portable C++, independent of the CPU's flush modes.
//
// TDPBF16PS rounds to nearest even, and treats a subnormal input as a zero of its sign. It flushes a result
// to a zero of its sign if the result is tiny after rounding. fmaf rounds a result just below 2^-126 up to
// 2^-126. So if fmaf returns exactly 2^-126, the same sum times 2^64, in which nothing is subnormal, decides.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace rapt::emulate {

using Word = std::uint32_t;  // a float's bits, a pair of bf16, four bytes or a 32-bit integer

struct Vector {
  Word words[16];
};

inline float as_float(Word bits) { return std::bit_cast<float>(bits); }
inline Word as_bits(float value) { return std::bit_cast<Word>(value); }

inline constexpr Word sign_bit = 0x80000000, infinity_bits = 0x7f800000, smallest_normal = 0x00800000;

inline bool is_nan(Word bits) { return (bits & ~sign_bit) > infinity_bits; }

// Two NaNs are equal, because the payload of a NaN is not part of the contract.
inline bool equal_floats(Word a, Word b) { return is_nan(a) ? is_nan(b) : a == b; }

inline float flushed(float value) {
  const Word bits = as_bits(value);
  return (bits & infinity_bits) != 0 ? value : as_float(bits & sign_bit);
}

inline float even(Word pair) { return flushed(as_float(pair << 16)); }
inline float odd(Word pair) { return flushed(as_float(pair & 0xffff0000)); }

// a, b and c must not be subnormal.
inline float flushed_fma(float a, float b, float c) {
  const float result = std::fmaf(a, b, c);
  const Word magnitude = as_bits(result) & ~sign_bit;
  if (magnitude > smallest_normal) return result;
  const float zero = as_float(as_bits(result) & sign_bit);
  if (magnitude < smallest_normal) return zero;
  (std::fabs(a) < std::fabs(b) ? a : b) *= 0x1p64f;
  return std::fabs(std::fmaf(a, b, c * 0x1p64f)) < 0x1p-62f ? zero : result;
}

// A subnormal sum of floats is exact, so it is tiny both before and after rounding.
inline float flushed_sum(float a, float b) { return flushed(a + b); }

// Returns one element of TDPBF16PS: c plus a row of `pairs` pairs times a column, whose pairs are `stride`
// words apart.
inline Word tdpbf16ps(Word c, const Word *a, const Word *b, unsigned stride, unsigned pairs) {
  float even_sum = 0, odd_sum = 0;
  for (unsigned i = 0; i < pairs; ++i) {
    const Word x = a[i], y = b[i * stride];
    even_sum = flushed_fma(even(x), even(y), even_sum);
    odd_sum = flushed_fma(odd(x), odd(y), odd_sum);
  }
  return as_bits(flushed_sum(flushed(as_float(c)), flushed_sum(even_sum, odd_sum)));
}

// Returns the exact sum of c and four products of bytes.
template <class A, class B>
std::int64_t sum_of_bytes(Word c, Word a, Word b) {
  std::int64_t sum = static_cast<std::int32_t>(c);
  for (unsigned i = 0; i < 32; i += 8) {
    sum += std::int64_t{static_cast<A>(a >> i)} * static_cast<B>(b >> i);
  }
  return sum;
}

// Returns the exact sum of c and two products of 16-bit integers.
inline std::int64_t sum_of_shorts(Word c, Word a, Word b) {
  std::int64_t sum = static_cast<std::int32_t>(c);
  for (unsigned i = 0; i < 32; i += 16) {
    sum += std::int64_t{static_cast<std::int16_t>(a >> i)} * static_cast<std::int16_t>(b >> i);
  }
  return sum;
}

inline Word wrapped(std::int64_t sum) { return static_cast<Word>(sum); }

inline Word saturated(std::int64_t sum) {
  return static_cast<Word>(sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum);
}

}  // namespace rapt::emulate
