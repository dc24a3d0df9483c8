// Tests rapt_map: every function on every level, tensors of any strides, special values, angles of any size, the
// accuracy of f32 over the range of floats, and arguments. Exact values are those of f64 and of the C library.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "calls/operand.hpp"
#include "contract/map_list.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/elements.hpp"
#include "support/every_level.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(),
                 not_a_number = std::numeric_limits<double>::quiet_NaN();

rapt_map_options options_of(rapt_map_function function, rapt_type type, std::size_t n) {
  rapt_map_options o = RAPT_MAP_OPTIONS_INIT;
  o.function = function;
  o.type = type;
  o.dims = 1;
  o.shape[0] = n;
  for (const rapt::MapFunction &row : rapt::map_functions) {
    if (row.number != function) continue;
    double *const parameters[] = {&o.alpha, &o.beta, &o.gamma};
    constexpr double values[] = {-0.75, 1.5, 0.5};
    for (std::size_t i = 0; i < row.parameters; ++i) *parameters[i] = values[i];
    if (function == RAPT_MAP_SOFTPLUS || function == RAPT_MAP_SOFTPLUS_BACKWARD) o.alpha = 1.25, o.beta = 20;
  }
  return o;
}

std::size_t inputs_of(rapt_map_function function) {
  return rapt::map_functions[static_cast<std::size_t>(function) - 1].inputs;
}

template <class T>
std::vector<T> map_of(rapt_map_options o, const std::vector<T> (&inputs)[3]) {
  std::vector<T> out(inputs[0].size());
  const std::size_t count = inputs_of(static_cast<rapt_map_function>(o.function));
  o.shape[0] = out.size();
  REQUIRE(rapt_map(inputs[0].data(), count > 1 ? inputs[1].data() : nullptr,
                   count > 2 ? inputs[2].data() : nullptr, out.data(), &o) == RAPT_OK);
  return out;
}

// A number of any kind: of any bits, ordinary, or at an edge.
template <class A>
A any_number(Random &random) {
  using L = std::numeric_limits<A>;
  using Bits = std::conditional_t<sizeof(A) == 4, std::uint32_t, std::uint64_t>;
  switch (random.below(8)) {
    case 0:
      return std::bit_cast<A>(static_cast<Bits>(random.below(SIZE_MAX)));
    case 1:
      return static_cast<A>(random.gaussian() * (sizeof(A) == 4 ? 50 : 400));
    case 2:
      return random.one_of<A>({0,
                               A(-0.0),
                               1,
                               -1,
                               2,
                               3,
                               A(0.5),
                               A(-0.5),
                               A(-1.5),
                               100,
                               1000,
                               L::infinity(),
                               -L::infinity(),
                               L::quiet_NaN(),
                               L::min(),
                               -L::min(),
                               L::denorm_min(),
                               -L::denorm_min(),
                               L::max(),
                               L::lowest(),
                               1 + L::epsilon(),
                               1 - L::epsilon(),
                               A(0x1p28),
                               A(-0x1p40)});
    default:
      return static_cast<A>(random.gaussian() * 3);
  }
}

template <class T>
bool all_same_bits(const std::vector<T> &a, const std::vector<T> &b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return false;
  }
  return a.size() == b.size();
}

// |got - exact| in units in the last place of a float.
double ulps(float got, double exact) {
  if (std::isnan(exact)) return std::isnan(got) ? 0 : infinity;
  if (std::isinf(static_cast<float>(exact)) || std::isinf(got))
    return got == static_cast<float>(exact) ? 0 : infinity;
  int exponent;
  std::frexp(exact, &exponent);
  return std::ldexp(std::fabs(got - exact), 24 - std::max(exponent, -125));
}

}  // namespace

TEST_CASE_TEMPLATE("every function of every level has the scalar level's bits, at any length", T, float,
                   double) {
  Random random(1);
  for (const rapt::MapFunction &row : rapt::map_functions) {
    CAPTURE(row.number);
    for (const std::size_t n :
         {std::size_t{0}, std::size_t{1}, std::size_t{7}, std::size_t{33}, std::size_t{2000}}) {
      std::vector<T> inputs[3], expected;
      for (std::vector<T> &input : inputs) {
        for (std::size_t i = 0; i < n; ++i) input.push_back(any_number<T>(random));
      }
      const rapt_map_options o = options_of(row.number, type_of(element_of<T>), n);
      on_every_level([&] {
        const std::vector<T> got = map_of(o, inputs);
        if (expected.empty()) expected = got;
        CHECK(all_same_bits(got, expected));
      });
    }
  }
}

TEST_CASE_TEMPLATE("a result does not depend on its place", T, float, double, F16, BF16) {
  Random random(2);
  for (const rapt::MapFunction &row : rapt::map_functions) {
    CAPTURE(row.number);
    std::vector<T> inputs[3];
    for (std::vector<T> &input : inputs) {
      for (std::size_t i = 0; i < 150; ++i) input.push_back(static_cast<T>(any_number<Number<T>>(random)));
    }
    const rapt_map_options o = options_of(row.number, type_of(element_of<T>), 0);
    const std::vector<T> whole = map_of(o, inputs);
    for (const std::size_t first : {1u, 2u, 31u, 64u, 149u}) {
      std::vector<T> rest[3];
      for (std::size_t i = 0; i < 3; ++i) rest[i].assign(inputs[i].begin() + first, inputs[i].end());
      CHECK(all_same_bits(map_of(o, rest), std::vector<T>(whole.begin() + first, whole.end())));
    }
    // 16-bit elements are those of the arithmetic type, rounded once.
    std::vector<Number<T>> wide[3];
    for (std::size_t i = 0; i < 3; ++i) wide[i].assign(inputs[i].begin(), inputs[i].end());
    const std::vector<Number<T>> of_wide =
        map_of(options_of(row.number, type_of(element_of<Number<T>>), 0), wide);
    CHECK(all_same_bits(whole, std::vector<T>(of_wide.begin(), of_wide.end())));
  }
}

TEST_CASE_TEMPLATE("one unusual number among usual ones is met in every place", T, float, double) {
  using L = std::numeric_limits<T>;
  constexpr std::size_t n = 64;
  for (const rapt::MapFunction &row : rapt::map_functions) {
    CAPTURE(row.number);
    for (const T unusual :
         {T(0), T(-2), T(-900), L::infinity(), L::quiet_NaN(), L::denorm_min(), L::max(), T(0x1p60)}) {
      CAPTURE(unusual);
      std::vector<T> inputs[3] = {std::vector<T>(n, T(1.5)), std::vector<T>(n, T(0.75)),
                                  std::vector<T>(n, T(0.25))};
      const std::vector<T> alone[3] = {{unusual}, {T(0.75)}, {T(0.25)}};
      const rapt_map_options o = options_of(row.number, type_of(element_of<T>), 0);
      on_every_level([&] {
        std::vector<T> expected = map_of(o, inputs);
        const T usual = expected[0], result = map_of(o, alone)[0];
        for (std::size_t place = 0; place < n; ++place) {
          inputs[0][place] = unusual;
          expected[place] = result;
          CHECK(all_same_bits(map_of(o, inputs), expected));
          inputs[0][place] = T(1.5);
          expected[place] = usual;
        }
      });
    }
  }
}

TEST_CASE_TEMPLATE("tensors of any strides", T, float, double, BF16) {
  Random random(3);
  constexpr std::size_t most_dims = 4;
  for (int round = 0; round < 400; ++round) {
    const auto function = rapt::map_functions[random.below(rapt::map_function_count)].number;
    const std::size_t dims = 1 + random.below(most_dims), inputs = inputs_of(function);
    rapt_map_options o = options_of(function, type_of(element_of<T>), 0);
    o.dims = dims;
    std::size_t count = 1;
    for (std::size_t d = 0; d < dims; ++d) {
      o.shape[d] = random.one_in(8) ? 70 + random.below(600) : 1 + random.below(5);
      if (count * o.shape[d] > 5000) o.shape[d] = 2;
      count *= o.shape[d];
    }
    // Draws strides in any order of the dimensions, with gaps; inputs may repeat.
    const auto draw = [&](std::ptrdiff_t(&strides)[RAPT_MAX_DIMS], bool is_input) {
      if (random.one_in(4)) return count;
      std::size_t order[most_dims], extent = 1, step = 1 + random.below(3);
      std::iota(order, order + dims, std::size_t{0});
      for (std::size_t d = dims; d-- > 1;) std::swap(order[d], order[random.below(d + 1)]);
      for (std::size_t i = 0; i < dims; ++i) {
        const std::size_t d = order[i];
        if (is_input && random.one_in(4)) {
          strides[d] = RAPT_REPEAT;
          continue;
        }
        strides[d] = static_cast<std::ptrdiff_t>(step);
        extent += step * (o.shape[d] - 1);
        step = step * o.shape[d] + random.below(3);
      }
      return extent;
    };
    const auto offset = [&](const std::ptrdiff_t *strides, std::size_t index) {
      const bool is_contiguous =
          std::all_of(strides, strides + dims, [](std::ptrdiff_t s) { return s == 0; });
      if (is_contiguous) return index;
      std::size_t at = 0;
      for (std::size_t d = dims; d-- > 0; index /= o.shape[d]) {
        if (strides[d] != RAPT_REPEAT) at += index % o.shape[d] * static_cast<std::size_t>(strides[d]);
      }
      return at;
    };
    std::vector<T> memory[3], dense[3];
    std::ptrdiff_t(*const strides[])[RAPT_MAX_DIMS] = {&o.x_strides, &o.y_strides, &o.z_strides};
    for (std::size_t i = 0; i < 3; ++i) {
      const std::size_t extent = i < inputs ? draw(*strides[i], true) : count;
      for (std::size_t j = 0; j < extent; ++j)
        memory[i].push_back(static_cast<T>(any_number<Number<T>>(random)));
      for (std::size_t j = 0; j < count; ++j) dense[i].push_back(memory[i][offset(*strides[i], j)]);
    }
    const std::size_t extent = draw(o.out_strides, false);
    const T untouched = static_cast<T>(Number<T>(12345));
    std::vector<T> out(extent, untouched);
    REQUIRE(rapt_map(memory[0].data(), inputs > 1 ? memory[1].data() : nullptr,
                     inputs > 2 ? memory[2].data() : nullptr, out.data(), &o) == RAPT_OK);
    rapt_map_options plain = options_of(function, type_of(element_of<T>), 0);
    const std::vector<T> expected = map_of(plain, dense);
    std::vector<T> scattered(extent, untouched);
    for (std::size_t j = 0; j < count; ++j) scattered[offset(o.out_strides, j)] = expected[j];
    CHECK(all_same_bits(out, scattered));
    if (!all_same_bits(out, scattered)) return;
  }
}

TEST_CASE("special values are those of annex F") {
  struct Case {
    rapt_map_function function;
    double x, y, result;
  };
  constexpr double pi = 3.14159265358979323846;
  const Case cases[] = {
      {RAPT_MAP_SQRT, -0.0, 0, -0.0},
      {RAPT_MAP_SQRT, -1, 0, not_a_number},
      {RAPT_MAP_RSQRT, 0, 0, infinity},
      {RAPT_MAP_RSQRT, -0.0, 0, -infinity},
      {RAPT_MAP_RSQRT, infinity, 0, 0},
      {RAPT_MAP_RECIPROCAL, -0.0, 0, -infinity},
      {RAPT_MAP_EXP2, -infinity, 0, 0},
      {RAPT_MAP_EXP2, infinity, 0, infinity},
      {RAPT_MAP_EXP2, 10, 0, 1024},
      {RAPT_MAP_EXPM1, -0.0, 0, -0.0},
      {RAPT_MAP_EXPM1, -infinity, 0, -1},
      {RAPT_MAP_EXPM1, infinity, 0, infinity},
      {RAPT_MAP_LOG, 0, 0, -infinity},
      {RAPT_MAP_LOG, -0.0, 0, -infinity},
      {RAPT_MAP_LOG, 1, 0, 0},
      {RAPT_MAP_LOG, -1, 0, not_a_number},
      {RAPT_MAP_LOG, infinity, 0, infinity},
      {RAPT_MAP_LOG2, 8, 0, 3},
      {RAPT_MAP_LOG2, 0, 0, -infinity},
      {RAPT_MAP_LOG1P, -0.0, 0, -0.0},
      {RAPT_MAP_LOG1P, -1, 0, -infinity},
      {RAPT_MAP_LOG1P, -2, 0, not_a_number},
      {RAPT_MAP_LOG1P, infinity, 0, infinity},
      {RAPT_MAP_SIN, -0.0, 0, -0.0},
      {RAPT_MAP_SIN, infinity, 0, not_a_number},
      {RAPT_MAP_COS, 0, 0, 1},
      {RAPT_MAP_COS, -infinity, 0, not_a_number},
      {RAPT_MAP_TAN, -0.0, 0, -0.0},
      {RAPT_MAP_TANH, -0.0, 0, -0.0},
      {RAPT_MAP_TANH, -infinity, 0, -1},
      {RAPT_MAP_ERF, -0.0, 0, -0.0},
      {RAPT_MAP_ERF, infinity, 0, 1},
      {RAPT_MAP_SIGMOID, -infinity, 0, 0},
      {RAPT_MAP_SIGMOID, infinity, 0, 1},
      {RAPT_MAP_LOG_SIGMOID, -infinity, 0, -infinity},
      {RAPT_MAP_LOG_SIGMOID, infinity, 0, -0.0},
      {RAPT_MAP_SOFTPLUS, infinity, 0, infinity},
      {RAPT_MAP_SOFTPLUS, -infinity, 0, 0},
      {RAPT_MAP_MISH, infinity, 0, infinity},
      {RAPT_MAP_MISH, -infinity, 0, -0.0},
      {RAPT_MAP_POW, 0, 0, 1},
      {RAPT_MAP_POW, not_a_number, 0, 1},
      {RAPT_MAP_POW, 1, not_a_number, 1},
      {RAPT_MAP_POW, not_a_number, 1, not_a_number},
      {RAPT_MAP_POW, -0.0, -3, -infinity},
      {RAPT_MAP_POW, -0.0, -2, infinity},
      {RAPT_MAP_POW, 0, -1.5, infinity},
      {RAPT_MAP_POW, -0.0, 3, -0.0},
      {RAPT_MAP_POW, -0.0, 0.5, 0},
      {RAPT_MAP_POW, -1, infinity, 1},
      {RAPT_MAP_POW, -1, -infinity, 1},
      {RAPT_MAP_POW, -2, 0.5, not_a_number},
      {RAPT_MAP_POW, -2, 3, -8},
      {RAPT_MAP_POW, -2, 5, -32},
      {RAPT_MAP_POW, -2, 4, 16},
      {RAPT_MAP_POW, 0.5, -infinity, infinity},
      {RAPT_MAP_POW, -1.5, -infinity, 0},
      {RAPT_MAP_POW, 0.5, infinity, 0},
      {RAPT_MAP_POW, 1.5, infinity, infinity},
      {RAPT_MAP_POW, -infinity, -3, -0.0},
      {RAPT_MAP_POW, -infinity, -2.5, 0},
      {RAPT_MAP_POW, -infinity, 5, -infinity},
      {RAPT_MAP_POW, -infinity, 0.5, infinity},
      {RAPT_MAP_POW, infinity, -1, 0},
      {RAPT_MAP_POW, infinity, 0.25, infinity},
      {RAPT_MAP_POW, 4, 0.5, 2},
      {RAPT_MAP_ATAN2, 0, 1, 0},
      {RAPT_MAP_ATAN2, -0.0, 0, -0.0},
      {RAPT_MAP_ATAN2, 0, -0.0, pi},
      {RAPT_MAP_ATAN2, -0.0, -1, -pi},
      {RAPT_MAP_ATAN2, 1, 0, pi / 2},
      {RAPT_MAP_ATAN2, 1, infinity, 0},
      {RAPT_MAP_ATAN2, -1, -infinity, -pi},
      {RAPT_MAP_ATAN2, infinity, 3, pi / 2},
      {RAPT_MAP_ATAN2, infinity, infinity, pi / 4},
      {RAPT_MAP_ATAN2, -infinity, -infinity, -3 * (pi / 4)},
      {RAPT_MAP_HARD_SIGMOID, infinity, 0, 1},
      {RAPT_MAP_HARD_SWISH, -infinity, 0, not_a_number},
      {RAPT_MAP_SIGMOID, not_a_number, 0, not_a_number},
      {RAPT_MAP_TANH, not_a_number, 0, not_a_number},
      {RAPT_MAP_ERF, not_a_number, 0, not_a_number},
      {RAPT_MAP_CLAMP, not_a_number, 0, not_a_number},
      {RAPT_MAP_ELU, not_a_number, 0, not_a_number},
      {RAPT_MAP_SOFTPLUS, not_a_number, 0, not_a_number},
      {RAPT_MAP_MISH, not_a_number, 0, not_a_number},
  };
  const auto check = [&]<class T>(T) {
    for (const Case &c : cases) {
      CAPTURE(c.function);
      CAPTURE(c.x);
      CAPTURE(c.y);
      const std::vector<T> inputs[3] = {{static_cast<T>(c.x)}, {static_cast<T>(c.y)}, {T(0)}};
      CHECK(same_bits(map_of(options_of(c.function, type_of(element_of<T>), 1), inputs)[0],
                      static_cast<T>(c.result)));
    }
  };
  on_every_level([&] {
    check(float{});
    check(double{});
  });
}

TEST_CASE("angles of any size") {
  // The second is the double nearest to a multiple of pi / 2 (J.-M. Muller, Elementary Functions, 2006).
  const std::vector<double> x[3] = {{1e22, 0x1.6ac5b262ca1ffp849, 0x1p1023, -1e300}, {}, {}};
  const double sines[] = {-0.85220084976718880177, 1, 0.56312777985088401345, 0.81788191211590859705},
               cosines[] = {0.52321478539513894549, -4.6871659242546276111e-19, -0.82636983461414799451,
                            -0.57538611195754904669};
  on_every_level([&] {
    const std::vector<double> s = map_of(options_of(RAPT_MAP_SIN, RAPT_F64, 0), x),
                              c = map_of(options_of(RAPT_MAP_COS, RAPT_F64, 0), x);
    for (std::size_t i = 0; i < s.size(); ++i) {
      CAPTURE(i);
      CHECK(std::fabs(s[i] - sines[i]) <= 4e-16);
      CHECK(std::fabs(c[i] - cosines[i]) <= 4e-16 * std::fabs(cosines[i]));
    }
  });
}

TEST_CASE("exponents with exact cases") {
  Random random(5);
  std::vector<float> inputs[3];
  for (int i = 0; i < 4000; ++i) {
    inputs[0].push_back(any_number<float>(random));
    inputs[1].push_back(random.one_of<float>({2, 3, -1, 0.5f}));
  }
  const std::vector<float> got = map_of(options_of(RAPT_MAP_POW, RAPT_F32, 0), inputs);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double x = inputs[0][i], y = inputs[1][i];
    if (y == 0.5 && !(x > 0 && x < infinity)) continue;
    const double exact = y == 2 ? x * x : y == 3 ? x * x * x : y == -1 ? 1 / x : std::sqrt(x);
    CHECK(same_bits(got[i], static_cast<float>(exact)));
  }
}

TEST_CASE("f32 functions that are computed in double are rounded nearly correctly") {
  struct Function {
    rapt_map_function number;
    double (*of)(double x);
  };
  const Function functions[] = {
      {RAPT_MAP_EXPM1, std::expm1},
      {RAPT_MAP_LOG, std::log},
      {RAPT_MAP_LOG2, std::log2},
      {RAPT_MAP_LOG1P, std::log1p},
      {RAPT_MAP_SIN, std::sin},
      {RAPT_MAP_COS, std::cos},
      {RAPT_MAP_TAN, std::tan},
      {RAPT_MAP_TANH, std::tanh},
      {RAPT_MAP_ERF, std::erf},
      {RAPT_MAP_SIGMOID, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {RAPT_MAP_LOG_SIGMOID, [](double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::fabs(x))); }},
      {RAPT_MAP_MISH,
       [](double x) { return x < -800 ? -0.0
                             : x > 30 ? x
                                      : x * std::tanh(std::log1p(std::exp(x))); }},
  };
  // All floats with the full effort, else one of some thousand.
  const std::uint32_t step = everything() ? 1 : 9973;
  for (const Function &function : functions) {
    CAPTURE(function.number);
    double worst = 0;
    std::vector<float> inputs[3];
    for (std::uint64_t next = 0; next >> 32 == 0;) {
      inputs[0].clear();
      for (; next >> 32 == 0 && inputs[0].size() < 4096; next += step) {
        inputs[0].push_back(std::bit_cast<float>(static_cast<std::uint32_t>(next)));
      }
      const std::vector<float> got = map_of(options_of(function.number, RAPT_F32, 0), inputs);
      for (std::size_t i = 0; i < got.size(); ++i) {
        worst = std::max(worst, ulps(got[i], function.of(double{inputs[0][i]})));
      }
    }
    CHECK(worst <= 0.51);
    CHECK(worst > 0.49);
  }
}

TEST_CASE("arguments") {
  std::vector<float> x(24, 1), out(24, 7);
  rapt_map_options o = options_of(RAPT_MAP_ADD, RAPT_F32, 0);
  o.dims = 2;
  o.shape[0] = 2, o.shape[1] = 3;
  const auto status = [&] { return rapt_map(x.data(), x.data() + 1, nullptr, out.data(), &o); };
  CHECK(status() == RAPT_OK);
  CHECK(rapt_map(x.data(), x.data(), nullptr, out.data(), nullptr) == RAPT_BAD_OPTIONS);
  CHECK(rapt_map(x.data(), x.data(), x.data(), out.data(), &o) == RAPT_BAD_INPUTS);
  CHECK(rapt_map(x.data(), nullptr, nullptr, out.data(), &o) == RAPT_BAD_INPUTS);
  out.assign(24, 7);
  o.out_strides[0] = 1, o.out_strides[1] = 1;
  CHECK(status() == RAPT_BAD_OUT_STRIDES);
  o.out_strides[0] = 3, o.out_strides[1] = 0;
  CHECK(status() == RAPT_BAD_OUT_STRIDES);
  o.out_strides[0] = o.out_strides[1] = 0;
  o.x_strides[0] = 3;
  CHECK(status() == RAPT_BAD_X_STRIDES);
  o.x_strides[1] = RAPT_REPEAT;
  CHECK(status() == RAPT_OK);
  o.x_strides[0] = o.x_strides[1] = 0;
  o.shape[0] = SIZE_MAX / 2;
  CHECK(status() == RAPT_BAD_SIZE);
  o.shape[0] = 2;
  SUBCASE("an output may be an input, lie between its elements, and not on some of them") {
    o.x_strides[0] = o.out_strides[0] = 6, o.x_strides[1] = o.out_strides[1] = 2;
    CHECK(rapt_map(x.data(), out.data(), nullptr, x.data(), &o) == RAPT_OK);
    CHECK(rapt_map(x.data(), out.data(), nullptr, x.data() + 1, &o) == RAPT_OK);
    CHECK(rapt_map(x.data(), out.data(), nullptr, x.data() + 2, &o) == RAPT_BAD_OVERLAP);
    o.out_strides[0] = 12;
    CHECK(rapt_map(x.data(), out.data(), nullptr, x.data(), &o) == RAPT_BAD_OVERLAP);
  }
  SUBCASE("an empty tensor needs no memory") {
    o.shape[1] = 0;
    CHECK(rapt_map(nullptr, nullptr, nullptr, nullptr, &o) == RAPT_OK);
    o.function = 0;
    CHECK(rapt_map(nullptr, nullptr, nullptr, nullptr, &o) == RAPT_BAD_FUNCTION);
  }
}
