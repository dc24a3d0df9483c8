// exp tests for irregular elements once per unrolled step of several vectors. Every element must have the
// bits that the scalar level gives it alone, whatever its neighbours are. The test has each special value in
// every place of every length up to two steps of the widest level, and mixtures of them.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/guarded_slot.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

constexpr std::size_t longest = 130;

template <class T>
std::vector<T> special_values() {
  using Limits = std::numeric_limits<T>;
  const bool single = sizeof(T) == 4;
  constexpr BitsOf<T> infinity_bits = std::bit_cast<BitsOf<T>>(Limits::infinity());
  std::vector<T> values = {
      Limits::quiet_NaN(),
      -Limits::quiet_NaN(),
      from_bits<T>(infinity_bits + 1),  // signalling
      from_bits<T>(std::numeric_limits<BitsOf<T>>::max() ^ 0x5a5),
      Limits::infinity(),
      -Limits::infinity(),
      T(0),
      -T(0),
      Limits::denorm_min(),
      -Limits::denorm_min(),
      Limits::min(),
      Limits::max(),
      Limits::lowest(),
      static_cast<T>(1e30),
      static_cast<T>(-1e30),
      static_cast<T>(single ? -95.5 : -730.25),  // a subnormal result
      static_cast<T>(single ? -103.0 : -744.0),
  };
  // The neighbours of each limit at which the computation changes: overflow, the least normal result, the
  // least result, and the limits of the test for ordinary elements, which depend on the rounding of n.
  const double ln2 = 0.6931471805599453;
  const double limit_of_n = std::ldexp(ln2, Limits::digits - 2);
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
    T below = at, above = at;
    values.push_back(at);
    for (int step = 0; step < 2; ++step) {
      values.push_back(below = std::nextafter(below, -Limits::infinity()));
      values.push_back(above = std::nextafter(above, Limits::infinity()));
    }
  }
  return values;
}

// An element and its exponential on the scalar level.
template <class T>
struct Term {
  T x, y;
};

template <class T>
class Comparer {
 public:
  Comparer() : in_(longest * sizeof(T)), out_(longest * sizeof(T)) {}
  ~Comparer() {
    CHECK(failures_ == 0);
    CHECK(calls_ > 0);
    std::printf("exp_%s: %9zu vectors compared\n", Api<T>::element, calls_);
  }

  void check(const std::vector<Term<T>> &terms, std::size_t n) {
    for (const bool as_sum : {false, true}) {
      const std::size_t number = calls_++;
      const bool in_place = number % 3 == 0;
      const auto placement = number / 2 % 2 == 0 ? Placement::ends_at_guard : Placement::begins_at_guard;
      T *const x = reinterpret_cast<T *>(in_.place(n * sizeof(T), placement, 0));
      T *const y = in_place ? x : reinterpret_cast<T *>(out_.place(n * sizeof(T), placement, 0));
      for (std::size_t i = 0; i < n; ++i) std::memcpy(x + i, &terms[i].x, sizeof(T));
      if (as_sum) {
        Api<T>::exp_sum(x, T(1), T(0), y, n);
      } else {
        Api<T>::exp(x, y, n);
      }
      std::string fault;
      for (std::size_t i = 0; i < n && fault.empty(); ++i) {
        if (same_bits(y[i], terms[i].y)) continue;
        fault = "element " + std::to_string(i) + ": exp(" + hex(bits_of(terms[i].x), sizeof(T)) + "): got " +
                hex(bits_of(y[i]), sizeof(T)) + ", expected " + hex(bits_of(terms[i].y), sizeof(T));
      }
      if (!in_.surroundings_intact() || (!in_place && !out_.surroundings_intact())) {
        fault = "wrote outside the vector";
      }
      if (fault.empty() || ++failures_ > 10) continue;
      char text[80];
      std::snprintf(text, sizeof text, "%s_%s on %s: n=%zu", as_sum ? "exp_sum" : "exp", Api<T>::element,
                    rapt_active_isa(), n);
      FAIL_CHECK(text << ": " << fault);
    }
  }

 private:
  GuardedSlot in_, out_;
  std::size_t calls_ = 0, failures_ = 0;
};

template <class T>
void set_results(std::vector<Term<T>> &terms) {
  const ForcedIsa scalar("scalar");
  for (Term<T> &term : terms) Api<T>::exp(&term.x, &term.y, 1);
}

}  // namespace

TEST_CASE_TEMPLATE("special values among the elements of exp", T, float, double) {
  Random random(20240311);
  std::vector<Term<T>> ordinary(longest), special;
  for (Term<T> &term : ordinary) term.x = static_cast<T>(10 * random.gaussian());
  for (const T value : special_values<T>()) special.push_back({value, 0});
  set_results(ordinary);
  set_results(special);

  Comparer<T> comparer;
  for_each_usable_isa([&](const std::string &) {
    std::vector<Term<T>> terms = ordinary;
    for (std::size_t n = 1; n <= longest; n += native_or_emulated<std::size_t>(1, 6)) {
      for (std::size_t place = 0; place < n; place += native_or_emulated<std::size_t>(1, 3)) {
        for (std::size_t k = 0; k < special.size(); ++k) {
          // Every value in every place of one length, and of each longer one in turn.
          if ((n + place + k) % native_or_emulated<std::size_t>(8, 23) != 0 && n != 129) continue;
          terms[place] = special[k];
          comparer.check(terms, n);
        }
        terms[place] = ordinary[place];
      }
    }
    Random draws(5);
    for (std::size_t repeat = 0; repeat < native_or_emulated<std::size_t>(20000, 1000); ++repeat) {
      const std::size_t n = 1 + draws.below(longest), one_in = 1 + draws.below(20);
      for (std::size_t i = 0; i < n; ++i) {
        terms[i] = draws.one_in(one_in) ? special[draws.below(special.size())] : ordinary[i];
      }
      comparer.check(terms, n);
    }
  });
}
