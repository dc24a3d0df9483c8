// exp in f32 for all 2^32 inputs: the scalar level against std::exp in double precision, and every other
// usable level against the scalar one, bit for bit. The sweep is rapt-validate's.
#include <doctest/doctest.h>

#include <cstdio>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "validate/exhaustive.hpp"

using namespace rapt::test;

TEST_CASE("exp_f32 over all inputs") {
  // An odd stride, so that the fractions vary too.
  const std::uint64_t stride = native_or_emulated<std::uint64_t>(1, 4099);
  for (const auto &result :
       rapt::validate::check_exp_exhaustively(usable_isas(), stride, [](auto, auto) {})) {
    std::printf("exp_f32 %-7s %llu inputs, worst error %.5f ULP at %a (%s)\n", result.isa.c_str(),
                static_cast<unsigned long long>(result.inputs), result.worst_ulps, double{result.worst_input},
                hex(bits_of(result.worst_input), 4).c_str());
    CAPTURE(result.isa);
    CAPTURE(hex(result.first_mismatch, 4));
    CHECK(result.mismatches == 0);
    CHECK(result.holds());
    if (!emulated()) CHECK(result.inputs == std::uint64_t{1} << 32);
  }
}
