// Tests the software multiply-add of contract/fused.hpp, which the library uses if the C library's fma() is
// not exact. If fma() is exact, the results are compared with it.
#include "contract/fused.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/bits.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

template <class T>
struct Differences {
  std::size_t cases = 0, found = 0;

  void compare(T a, T b, T c) {
    ++cases;
    const T got = by_parts::fused(a, b, c), right = std::fma(a, b, c);
    if (same_bits(got, right)) return;
    if (++found > 5) return;
    MESSAGE("fused(" << a << ", " << b << ", " << c << ") = " << got << " instead of " << right);
  }
};

// Returns the special values, the smallest and largest subnormal and normal numbers, and numbers near 1 with
// few bits or with all bits set.
template <class T>
std::vector<T> corners() {
  using Limits = std::numeric_limits<T>;
  const T one = 1, two = 2;
  std::vector<T> values = {
      0,   Limits::denorm_min(), 3 * Limits::denorm_min(), Limits::min(),      Limits::max(),
      one, Limits::epsilon(),    Limits::epsilon() / two,  Limits::infinity(), Limits::quiet_NaN()};
  values.push_back(Limits::min() - Limits::denorm_min());
  values.push_back(Limits::max() / two);
  values.push_back(one / Limits::max());
  values.push_back(std::sqrt(Limits::min()));
  values.push_back(std::sqrt(Limits::max()));
  const std::size_t positive = values.size();
  for (std::size_t i = 0; i < positive; ++i) {
    if (!std::isfinite(values[i])) continue;
    values.push_back(std::nextafter(values[i], Limits::infinity()));
    values.push_back(std::nextafter(values[i], -Limits::infinity()));
  }
  const std::size_t unsigned_count = values.size();
  for (std::size_t i = 0; i < unsigned_count; ++i) values.push_back(-values[i]);
  return values;
}

// Returns a number with a random number of significant bits: few bits make ties, and many make near ties.
template <class T>
T random_significand(Random &random) {
  using Bits = BitsOf<T>;
  constexpr int stored = std::numeric_limits<T>::digits - 1;
  const auto dropped = random.one_in(2) ? 0 : random.below(stored + 1);
  const Bits all = static_cast<Bits>((Bits{1} << stored) - 1);
  const Bits kept = static_cast<Bits>(random.next()) & all & static_cast<Bits>(~((Bits{1} << dropped) - 1));
  const T value = from_bits<T>(static_cast<Bits>(bits_of(T{1}) | kept));
  return random.one_in(2) ? value : -value;
}

TEST_CASE_TEMPLATE("a fused multiply-add by parts has the bits of the exact one", T, float, double) {
  using Limits = std::numeric_limits<T>;
  Differences<T> differences;

  SUBCASE("corners") {
    const std::vector<T> values = corners<T>();
    for (const T a : values) {
      for (const T b : values) {
        for (const T c : values) differences.compare(a, b, c);
      }
    }
  }

  SUBCASE("an addend beside the product, or beside its rounding") {
    Random random(1);
    for (int i = 0; i < 2'000'000; ++i) {
      constexpr int half = Limits::max_exponent / 2;
      const int exponent_a = static_cast<int>(random.below(2 * half)) - half;
      const int exponent_b = static_cast<int>(random.below(2 * half)) - half;
      const T a = std::ldexp(random_significand<T>(random), exponent_a);
      const T b = std::ldexp(random_significand<T>(random), exponent_b);
      const int apart = static_cast<int>(random.below(6 * Limits::digits)) - 3 * Limits::digits;
      T c = std::ldexp(random_significand<T>(random), exponent_a + exponent_b + apart);
      if (random.one_in(4)) c = -a * b;
      if (random.one_in(8))
        c = std::nextafter(c, random.one_in(2) ? Limits::infinity() : -Limits::infinity());
      differences.compare(a, b, c);
    }
  }

  SUBCASE("subnormal results and overflow") {
    Random random(2);
    for (int i = 0; i < 2'000'000; ++i) {
      const bool low = random.one_in(2);
      const int sum = (low ? Limits::min_exponent - Limits::digits : Limits::max_exponent) - 4 +
                      static_cast<int>(random.below(8 + Limits::digits));
      const int exponent_a = sum / 2 + static_cast<int>(random.below(20)) - 10;
      const T a = std::ldexp(random_significand<T>(random), exponent_a);
      const T b = std::ldexp(random_significand<T>(random), sum - exponent_a);
      const int apart = static_cast<int>(random.below(4 * Limits::digits)) - 2 * Limits::digits;
      differences.compare(a, b, std::ldexp(random_significand<T>(random), sum + apart));
    }
  }

  SUBCASE("any bits") {
    Random random(3);
    for (int i = 0; i < 1'000'000; ++i) {
      const auto any = [&] { return from_bits<T>(static_cast<BitsOf<T>>(random.next())); };
      differences.compare(any(), any(), any());
    }
  }

  CHECK(differences.cases > 0);
  CHECK(differences.found == 0);
}

}  // namespace
}  // namespace rapt::test
