// Tests silu, gelu and gelu_tanh: special values, and the accuracy of f32 over the whole range of floats. Exact values
// are those of f64, whose accuracy rapt-validate judges.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

template <class T>
using Activation = void (*)(const T *x, T *y, std::size_t n);

template <class T>
struct Activations {
  Activation<T> silu = Api<T>::silu, gelu = Api<T>::gelu, gelu_tanh = Api<T>::gelu_tanh;
};

// Returns |got - exact| in units in the last place, less what a subnormal exponential loses.
double ulps(float x, float got, double exact) {
  const double off = std::fabs(got - exact) - std::fabs(double{x}) * 0x1p-149;
  int exponent;
  std::frexp(exact, &exponent);
  return std::ldexp(std::max(off, 0.0), 24 - std::max(exponent, -125));
}

}  // namespace

TEST_CASE_TEMPLATE("special values of activations", T, float, double, F16, BF16) {
  using A = Number<T>;
  constexpr A infinity = std::numeric_limits<A>::infinity();
  const Activations<T> all;
  on_every_level([&] {
    for (const Activation<T> activation : {all.silu, all.gelu, all.gelu_tanh}) {
      const std::vector<T> x = {T(infinity), T(A(-0.0)), T(A(0)), T(-infinity),
                                T(std::numeric_limits<A>::quiet_NaN())};
      std::vector<T> y(x.size());
      activation(x.data(), y.data(), x.size());
      for (std::size_t i = 0; i < 3; ++i) CHECK(same_bits(y[i], x[i]));
      for (std::size_t i = 3; i < x.size(); ++i) CHECK(std::isnan(A(y[i])));
    }
  });
}

TEST_CASE("accuracy of activations over all floats") {
  constexpr std::size_t at_once = 4096;
  const std::uint64_t step = native_or_emulated<std::uint64_t>(1009, 100003);
  const Activations<float> narrow;
  const Activations<double> wide;
  std::vector<float> x(at_once), y(at_once);
  std::vector<double> wide_x(at_once), exact(at_once);
  double worst[3] = {};
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += at_once * step) {
    for (std::size_t i = 0; i < at_once; ++i) {
      x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i * step));
      if (!std::isfinite(x[i])) x[i] = 1;
      wide_x[i] = double{x[i]};
    }
    const auto measure = [&](Activation<float> own, Activation<double> wider, double &most, auto unit) {
      own(x.data(), y.data(), at_once);
      wider(wide_x.data(), exact.data(), at_once);
      for (std::size_t i = 0; i < at_once; ++i) {
        if (std::isfinite(y[i])) most = std::max(most, ulps(x[i], y[i], exact[i]) / unit(wide_x[i]));
      }
    };
    const auto one = [](double) { return 1.0; };
    measure(narrow.silu, wide.silu, worst[0], one);
    measure(narrow.gelu, wide.gelu, worst[1], one);
    measure(narrow.gelu_tanh, wide.gelu_tanh, worst[2], [](double v) {
      return 1 + std::fabs(2 * std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)) / 2;
    });
  }
  CHECK(worst[0] <= 4);
  CHECK(worst[1] <= 8);
  CHECK(worst[2] <= 5);
  CHECK(worst[0] > 2);  // the measurement sees errors
}
