// Tests conversions between f32 and 16-bit elements: every element, every number halfway between two of them,
// and every kind of NaN.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "emulate/golden.hpp"
#include "support/bits.hpp"
#include "support/elements.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"

namespace rapt::test {
namespace {

constexpr std::size_t all_bits = 1 << 16;

template <class E>
std::vector<E> all_elements() {
  std::vector<E> all;
  for (std::size_t bits = 0; bits < all_bits; ++bits)
    all.push_back(E::of_bits(static_cast<std::uint16_t>(bits)));
  return all;
}

// Returns all elements, the numbers halfway to the next element, and the f32 neighbours of both.
template <class E>
std::vector<float> numbers_between() {
  std::vector<float> numbers;
  const auto add = [&](float x) {
    numbers.push_back(x);
    numbers.push_back(std::nextafter(x, std::numeric_limits<float>::infinity()));
    numbers.push_back(std::nextafter(x, -std::numeric_limits<float>::infinity()));
  };
  for (std::size_t bits = 0; bits + 1 < all_bits; ++bits) {
    const float x = E::of_bits(static_cast<std::uint16_t>(bits)),
                next = E::of_bits(static_cast<std::uint16_t>(bits + 1));
    if (std::isfinite(x)) add(x);
    if (std::isfinite(x) && std::isfinite(next) && std::signbit(x) == std::signbit(next))
      add(x + (next - x) / 2);
  }
  // Half a unit above the largest element, numbers begin to round to infinity.
  const float largest = std::numeric_limits<E>::max();
  const float half = std::ldexp(1.0f, std::ilogb(largest) - std::numeric_limits<E>::digits);
  if (std::isfinite(largest + half)) add(largest + half), add(-largest - half);
  return numbers;
}

TEST_CASE_TEMPLATE("every element as a number, and back", E, F16, BF16) {
  on_every_level([] {
    const std::vector<E> all = all_elements<E>();
    std::vector<float> numbers(all.size());
    std::vector<E> back(all.size());
    Api<E>::to_f32(all.data(), numbers.data(), all.size());
    Api<E>::from_f32(numbers.data(), back.data(), all.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      wrong += !same_bits(numbers[i], float{all[i]}) || !same_bits(back[i], all[i]);
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE_TEMPLATE("numbers between two elements", E, F16, BF16) {
  const std::vector<float> numbers = numbers_between<E>();
  on_every_level([&] {
    std::vector<E> got(numbers.size());
    Api<E>::from_f32(numbers.data(), got.data(), numbers.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < numbers.size(); ++i) wrong += !same_bits(got[i], E(double{numbers[i]}));
    CHECK(wrong == 0);
  });
}

// A NaN whose payload is only in its last bits would become infinite if conversion rounded it like a number.
TEST_CASE_TEMPLATE("NaN stays NaN", E, F16, BF16) {
  std::vector<float> nans;
  for (std::uint32_t bit = 0; bit < 23; ++bit) {
    for (const std::uint32_t payload : {std::uint32_t{1} << bit, (std::uint32_t{1} << (bit + 1)) - 1}) {
      for (const std::uint32_t sign : {0u, 0x80000000u})
        nans.push_back(from_bits<float>(sign | 0x7f800000u | payload));
    }
  }
  on_every_level([&] {
    std::vector<E> got(nans.size());
    Api<E>::from_f32(nans.data(), got.data(), nans.size());
    for (const E element : got) CHECK(std::isnan(float{element}));
  });
}

// VCVTNEPS2BF16 treats subnormal numbers as zero; the API does not.
TEST_CASE("bf16 as the CPU's instruction rounds") {
  std::vector<float> numbers;
  std::vector<std::uint16_t> expected;
  for (const auto &record :
       emulate::read_golden<emulate::ConversionRecord>(RAPT_TEST_GOLDEN, "vcvtneps2bf16")) {
    for (std::size_t i = 0; i < std::size(record.to); ++i) {
      const float number = emulate::as_float(record.from.words[i]);
      if (std::fpclassify(number) == FP_SUBNORMAL) continue;
      numbers.push_back(number);
      expected.push_back(record.to[i]);
    }
  }
  CHECK(numbers.size() > 14000);
  on_every_level([&] {
    std::vector<BF16> got(numbers.size());
    Api<BF16>::from_f32(numbers.data(), got.data(), numbers.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) wrong += !same_bits(got[i], BF16::of_bits(expected[i]));
    CHECK(wrong == 0);
  });
}

}  // namespace
}  // namespace rapt::test
