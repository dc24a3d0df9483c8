// exp in f32 for all 2^32 inputs: the scalar level against std::exp in double precision, whose own error is
// some 2^-29 ULP of f32, and every other usable level against the scalar one, bit for bit.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"

using namespace rapt::test;

namespace {

constexpr double promised_ulps = 0.892;  // rapt.h, to three digits

struct Worst {
  double ulps = 0;
  float input = 0;
  void see(double other_ulps, float other_input) {
    if (!(other_ulps <= ulps)) ulps = other_ulps, input = other_input;
  }
};

double reference_exp(float x) {
  // For speed: below 2^-17, where two fifths of all floats lie, the series has an error below 2^-53.
  if (std::fabs(x) < 0x1p-17f) return 1.0 + (double{x} + 0.5 * double{x} * double{x});
  return std::exp(double{x});
}

// The error of y in units in the last place of f32 (2^-149 among subnormal results). Infinite where y must be
// another infinity, zero or NaN.
double error_in_ulps(float x, float y) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(x)) return std::isnan(y) ? 0 : wrong;
  if (std::isnan(y) || std::signbit(y)) return wrong;
  if (x >= 0x1.62e43p6f) return std::isinf(y) ? 0 : wrong;  // exp(x) rounds beyond the largest float
  if (x < -103.98f) return y == 0.0f ? 0 : wrong;
  if (std::isinf(y)) return wrong;
  const double exact = reference_exp(x);
  const auto exponent = static_cast<int>(bits_of(exact) >> 52) - 1023;
  const double ulps_per_one = from_bits<double>(std::uint64_t(1023 - std::max(exponent - 23, -149)) << 52);
  return std::fabs(double{y} - exact) * ulps_per_one;
}

// body(begin, end) over [0, count) on every core.
template <class Body>
void in_parallel(std::size_t count, Body &&body) {
  const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 64);
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < threads; ++t) {
    others.emplace_back([&, t] { body(count * t / threads, count * (t + 1) / threads); });
  }
  body(0, count / threads);
  for (std::thread &other : others) other.join();
}

}  // namespace

TEST_CASE("exp_f32 over all inputs") {
  constexpr std::size_t chunk = std::size_t{1} << 22;
  constexpr std::size_t block = 4096;  // of one call: inputs and results stay in the cache
  // An odd stride, so that the fractions vary too.
  const std::uint64_t stride = native_or_emulated<std::uint64_t>(1, 4099);
  const std::uint64_t inputs = ((std::uint64_t{1} << 32) + stride - 1) / stride;

  std::vector<float> x(std::min<std::uint64_t>(chunk, inputs)), expected(x.size()), got(x.size());
  Worst worst;
  std::mutex worst_mutex;
  std::map<std::string, std::uint64_t> compared, differing;
  std::atomic<std::uint32_t> first_difference{0};

  const std::vector<std::string> isas = usable_isas();
  for (std::uint64_t begin = 0; begin < inputs; begin += chunk) {
    const std::size_t count = std::min<std::uint64_t>(chunk, inputs - begin);
    {
      const ForcedIsa scalar("scalar");
      in_parallel(count, [&](std::size_t first, std::size_t last) {
        for (std::size_t i = first; i < last; ++i) {
          x[i] = from_bits<float>(static_cast<std::uint32_t>((begin + i) * stride));
        }
        Worst own;
        for (std::size_t at = first; at < last; at += block) {
          const std::size_t n = std::min(block, last - at);
          rapt_exp_f32(x.data() + at, expected.data() + at, n);
          for (std::size_t i = at; i < at + n; ++i) own.see(error_in_ulps(x[i], expected[i]), x[i]);
        }
        const std::lock_guard lock(worst_mutex);
        worst.see(own.ulps, own.input);
      });
      compared["scalar"] += count;
    }
    for (const std::string &isa : isas) {
      if (isa == "scalar") continue;
      const ForcedIsa forced(isa);
      std::atomic<std::uint64_t> different{0};
      in_parallel(count, [&](std::size_t first, std::size_t last) {
        std::uint64_t own = 0;
        for (std::size_t at = first; at < last; at += block) {
          const std::size_t n = std::min(block, last - at);
          rapt_exp_f32(x.data() + at, got.data() + at, n);
          for (std::size_t i = at; i < at + n; ++i) {
            const bool same = canonical_bits(got[i]) == canonical_bits(expected[i]);
            if (!same) first_difference = bits_of(x[i]);
            own += !same;
          }
        }
        different += own;
      });
      compared[isa] += count;
      differing[isa] += different;
    }
  }

  for (const std::string &isa : isas) {
    std::printf("exp_f32 %-7s %llu inputs, worst error %.5f ULP at %a (%s)%s\n", isa.c_str(),
                static_cast<unsigned long long>(compared[isa]), worst.ulps, double{worst.input},
                hex(bits_of(worst.input), 4).c_str(),
                isa == "scalar" ? "" : ", as its bits are the scalar level's");
    CAPTURE(isa);
    CAPTURE(hex(first_difference, 4));
    CHECK(differing[isa] == 0);
  }
  CHECK(worst.ulps < promised_ulps);
  if (!emulated()) CHECK(compared["scalar"] == std::uint64_t{1} << 32);
}
