// Sums of bytes are exact beyond 32 bits, and at every length that a block of sums may have.
#include <doctest/doctest.h>

#include <cstdint>
#include <rapt/rapt.hpp>
#include <vector>

#include "support/every_level.hpp"

namespace rapt::test {
namespace {

// The largest products, which fill lanes of 32 bits soonest.
template <class A>
void check_sums_of(A a, std::int8_t b) {
  const std::size_t longest = (std::size_t{3} << 20) + 37;
  const std::vector<A> as(longest, a);
  const std::vector<std::int8_t> bs(longest, b);
  const std::int64_t product = int{a} * int{b};
  for (const std::size_t n : {std::size_t{1}, std::size_t{1} << 20, (std::size_t{1} << 21) - 5, longest}) {
    CAPTURE(n);
    const std::span<const A> first(as.data(), n);
    const std::span<const std::int8_t> second(bs.data(), n);
    const std::int64_t exact = product * static_cast<std::int64_t>(n);
    CHECK(rapt::dot(first, second) == exact);
    // Five rows that are one, as groups of rows and single rows differ.
    std::vector<float> out(5);
    rapt::dot_rows(first, Rows<const std::int8_t>(bs.data(), 5, n, 0), 0.5f, out);
    for (const float sum : out) CHECK(sum == 0.5f * static_cast<float>(exact));
  }
}

TEST_CASE("sums of the largest products") {
  on_every_level([] {
    check_sums_of<std::int8_t>(-128, -128);
    check_sums_of<std::int8_t>(127, -128);
    check_sums_of<std::uint8_t>(255, -128);
    check_sums_of<std::uint8_t>(255, 127);
  });
}

}  // namespace
}  // namespace rapt::test
