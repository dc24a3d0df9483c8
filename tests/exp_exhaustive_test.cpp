// Tests exp_f32 on all 2^32 inputs, and the tanh of softcaps on every 63rd input. The scalar level is
// compared with double precision. Every other usable level must have the bits of the scalar level.
// rapt-validate --exhaustive tests tanh on all inputs.
#include <doctest/doctest.h>

#include <cstdio>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "validate/exhaustive.hpp"

using namespace rapt::test;

namespace {

void check(const std::vector<rapt::validate::ExhaustiveResult> &results) {
  for (const auto &result : results) {
    std::printf("%s on %-7s %llu inputs, worst error %.5f %s at %a (%s)\n", result.function.c_str(),
                result.isa.c_str(), static_cast<unsigned long long>(result.inputs), result.worst_error,
                result.unit, double{result.worst_input}, hex(bits_of(result.worst_input), 4).c_str());
    CAPTURE(result.isa);
    CAPTURE(hex(result.first_mismatch, 4));
    CHECK(result.mismatches == 0);
    CHECK(result.holds());
  }
}

}  // namespace

// The stride is odd, so that all bits of the inputs' significands vary.
TEST_CASE("exp_f32 over all inputs") {
  const std::uint64_t stride = native_or_emulated<std::uint64_t>(1, 4099);
  const auto results = rapt::validate::check_exp_exhaustively(isas_to_test(), stride, [](auto, auto) {});
  check(results);
  if (!emulated()) CHECK(results.front().inputs == std::uint64_t{1} << 32);
}

TEST_CASE("the tanh of softcaps over many inputs") {
  const std::uint64_t stride = native_or_emulated<std::uint64_t>(63, 40099);
  check(rapt::validate::check_tanh_exhaustively(isas_to_test(), stride, [](auto, auto) {}));
}
