// Tests the sign of a dot product of zero. A level may leave out lanes of +0 and additions of +0, which
// change only the sign of a zero.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

TEST_CASE_TEMPLATE("dot products of zeros and of products that underflow", T, float, double) {
  constexpr T tiny = std::numeric_limits<T>::denorm_min();
  constexpr T values[] = {T(0), T(-0.0), tiny, -tiny};
  constexpr std::size_t most = 300, rows = 5;
  std::size_t negative_zeros = 0;
  for (std::size_t n = emulated() ? 64 - 9 : 1; n <= most; n += native_or_emulated<std::size_t>(1, 9)) {
    CAPTURE(n);
    for (std::size_t kind = 0; kind < 12; ++kind) {
      Random random(n * 12 + kind);
      // The vectors are shifted, because unaligned vectors take other code paths.
      const std::size_t a_at = random.below(16), b_at = random.below(16);
      std::vector<T> a(most + 16), b(rows * most + 16);
      const std::size_t choices = kind % 3 == 0 ? 2 : 4;
      for (T &value : a) value = kind == 1 ? T(-0.0) : kind == 2 ? -tiny : values[random.below(choices)];
      for (T &value : b) value = kind == 1 || kind == 2 ? tiny : values[random.below(choices)];
      T dot = 0;
      std::vector<T> dots(rows);
      const auto run = [&](T &one, std::vector<T> &each) {
        one = Api<T>::dot(a.data() + a_at, b.data() + b_at, n);
        Api<T>::dot_rows(a.data() + a_at, b.data() + b_at, static_cast<std::ptrdiff_t>(n), rows, n, T(1),
                         each.data());
      };
      {
        const ForcedIsa scalar("scalar");
        run(dot, dots);
      }
      negative_zeros += same_bits(dot, T(-0.0));
      on_every_level([&] {
        T got = 1;
        std::vector<T> got_rows(rows, T(1));
        run(got, got_rows);
        CHECK(same_bits(got, dot));
        for (std::size_t r = 0; r < rows; ++r) CHECK(same_bits(got_rows[r], dots[r]));
      });
    }
  }
  CHECK(negative_zeros > 0);
}
