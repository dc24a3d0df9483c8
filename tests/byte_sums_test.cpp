// Tests that sums of bytes are exact beyond 32 bits, at every length at which accumulators change, and for
// every number of rows.
#include <doctest/doctest.h>

#include <cstdint>
#include <rapt/rapt.hpp>
#include <vector>

#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/random.hpp"

namespace rapt::test {
namespace {

// Checks vectors whose products are the largest, because they overflow 32-bit lanes soonest.
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
    // Five rows test the code for groups of rows and for single rows. The stride is 0, so all rows are equal.
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

// dot_rows has different code for groups of four rows, for panels of several groups, and for remaining rows.
template <class A>
void check_numbers_of_rows() {
  constexpr std::size_t most_rows = 40, longest = 130;
  Random random(5);
  std::vector<A> query(longest);
  std::vector<std::int8_t> rows(most_rows * longest);
  for (A &a : query) a = static_cast<A>(random.below(256));
  for (std::int8_t &b : rows) b = static_cast<std::int8_t>(random.below(256));
  for (const std::size_t dim :
       Sizes{0, 1, 3, 4, 7, 8, 15, 16, 17, 24, 31, 32, 33, 63, 64, 65, 100, 128, 130}) {
    for (std::size_t count = 0; count <= most_rows; ++count) {
      std::vector<float> out(count + 1, -1.0f);
      const std::span<const A> first(query.data(), dim);
      rapt::dot_rows(first, Rows<const std::int8_t>(rows.data(), count, dim, longest), 0.5f,
                     std::span<float>(out.data(), count));
      std::size_t wrong = out[count] != -1.0f;
      for (std::size_t r = 0; r < count; ++r) {
        std::int64_t exact = 0;
        for (std::size_t i = 0; i < dim; ++i) exact += int{query[i]} * int{rows[r * longest + i]};
        wrong += out[r] != 0.5f * static_cast<float>(exact);
      }
      CAPTURE(dim);
      CAPTURE(count);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("every number of rows") {
  on_every_level([] {
    check_numbers_of_rows<std::int8_t>();
    check_numbers_of_rows<std::uint8_t>();
  });
}

}  // namespace
}  // namespace rapt::test
