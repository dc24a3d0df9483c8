// Tests exp on unusual elements among ordinary ones. exp checks for unusual elements only once per unrolled
// step of several vectors, but every element must have the bits of the scalar level. The test puts an unusual
// element at every position of two steps of the widest level, and mixes elements. rapt-validate tests other
// lengths.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

template <class T>
std::vector<T> unusual_elements() {
  using Limits = std::numeric_limits<T>;
  constexpr T infinity = Limits::infinity();
  constexpr bool single = sizeof(T) == 4;
  std::vector<T> values = {Limits::quiet_NaN(),
                           from_bits<T>(std::numeric_limits<BitsOf<T>>::max() ^ 0x5a5),
                           infinity,
                           -infinity,
                           T(0),
                           -T(0),
                           Limits::denorm_min(),
                           Limits::max(),
                           Limits::lowest(),
                           static_cast<T>(single ? -95.5 : -730.25)};  // a subnormal result
  // The computation changes at these inputs: overflow, the least normal result, the least result, and the
  // limits of the check for ordinary elements. These limits depend on how x / ln 2 is rounded.
  const double ln2 = 0.6931471805599453, limit_of_n = std::ldexp(ln2, Limits::digits - 2);
  const std::vector<double> borders =
      single ? std::vector<double>{88.72283,     88.37626,   87,          -87,        -86.99,    -87.33654,
                                   -86.98997,    -87.68312,  -103.27893,  -103.97208, -104,      -125.5 * ln2,
                                   -124.5 * ln2, limit_of_n, -limit_of_n, -189 * ln2, -190 * ln2}
             : std::vector<double>{0x1.62e42fefa39efp9,
                                   709.4362,
                                   708,
                                   -708,
                                   -0x1.6232bdd7abcd2p9,
                                   -707.7033,
                                   -708.3964185322641,
                                   -708.743,
                                   -744.4400719213812,
                                   -745.1332191019412,
                                   -746,
                                   -1021.5 * ln2,
                                   -1020.5 * ln2,
                                   limit_of_n,
                                   -limit_of_n,
                                   -1085 * ln2,
                                   -1086 * ln2};
  for (const double border : borders) {
    const T at = static_cast<T>(border);
    for (const T near : {at, std::nextafter(at, infinity), std::nextafter(at, -infinity)})
      values.push_back(near);
  }
  return values;
}

// Holds an element and its exponential on the scalar level.
template <class T>
struct Term {
  T x, y;
};
template <class T>
Term<T> term_of(T x) {
  const ForcedIsa scalar("scalar");
  Term<T> term{x, 0};
  Api<T>::exp(&term.x, &term.y, 1);
  return term;
}

}  // namespace

TEST_CASE_TEMPLATE("unusual elements among the elements of exp", T, float, double) {
  constexpr std::size_t longest = 130;
  Random random(20240311);
  std::vector<Term<T>> ordinary, unusual;
  for (std::size_t i = 0; i < longest; ++i)
    ordinary.push_back(term_of(static_cast<T>(10 * random.gaussian())));
  for (const T value : unusual_elements<T>()) unusual.push_back(term_of(value));
  on_every_level([&] {
    std::vector<Term<T>> terms = ordinary;
    std::vector<T> x(longest), y(longest), z(longest);
    std::size_t checked = 0;
    const auto check = [&] {
      checked += 1;
      for (std::size_t i = 0; i < longest; ++i) x[i] = terms[i].x;
      Api<T>::exp(x.data(), y.data(), longest);
      Api<T>::exp_sum(x.data(), T(1), T(0), z.data(), longest);
      for (std::size_t i = 0; i < longest; ++i) {
        if (!same_bits(y[i], terms[i].y) || !same_bits(z[i], terms[i].y))
          FAIL_CHECK("exp(" << hex(bits_of(x[i]), sizeof(T)) << ") in place " << i);
      }
    };
    for (std::size_t place = 0; place < longest; place += native_or_emulated<std::size_t>(1, 3)) {
      for (const Term<T> &term : unusual) {
        terms[place] = term;
        check();
      }
      terms[place] = ordinary[place];
    }
    Random draws(5);
    for (std::size_t repeat = 0; repeat < native_or_emulated<std::size_t>(5000, 500); ++repeat) {
      const std::size_t one_in = 1 + draws.below(20);
      for (std::size_t i = 0; i < longest; ++i)
        terms[i] = draws.one_in(one_in) ? unusual[draws.below(unusual.size())] : ordinary[i];
      check();
    }
    CHECK(checked > 1000);
  });
}
