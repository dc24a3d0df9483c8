// Tests activations and their gradients: special values, and the accuracy of f32 over the whole range of floats. Exact
// values are those of f64, whose accuracy rapt-validate judges. Tests gated's rows and arguments, and argmax.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <vector>

#include "contract/activation_list.hpp"
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

template <class T>
Activation<T> function_of(rapt_activation activation) {
  switch (activation) {
#define ACTIVATION(function, Class, number) \
  case number:                              \
    return Api<T>::function;
#include "contract/activations.def"
  }
  return nullptr;
}

template <class T>
auto gradient_of(rapt_activation activation) {
  auto gradient = Api<T>::silu_backward;
  switch (activation) {
#define ACTIVATION(function, Class, number) \
  case number:                              \
    gradient = Api<T>::function##_backward; \
    break;
#include "contract/activations.def"
  }
  return gradient;
}

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
  on_every_level([&] {
    for (const rapt_activation number : rapt::activations) {
      const Activation<T> activation = function_of<T>(number);
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

TEST_CASE_TEMPLATE("special values of gradients", T, float, double) {
  constexpr T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  on_every_level([&] {
    for (const rapt_activation number : rapt::activations) {
      const auto gradient = gradient_of<T>(number);
      const std::vector<T> x = {infinity, -infinity, 0, T(-0.0), nan, 1}, dy = {3, 3, 3, 3, 3, nan};
      std::vector<T> dx(x.size());
      gradient(x.data(), dy.data(), dx.data(), x.size());
      CHECK(dx[0] == 3);
      CHECK(dx[1] == 0);
      CHECK(dx[2] == T(1.5));
      CHECK(dx[3] == T(1.5));
      CHECK(std::isnan(dx[4]));
      CHECK(std::isnan(dx[5]));
    }
  });
}

// The derivatives in f64 are those of rapt, whose accuracy rapt-validate judges. The bound counts in s + |x s'|.
TEST_CASE("accuracy of gradients over all floats") {
  constexpr std::size_t at_once = 4096;
  const std::uint64_t step = native_or_emulated<std::uint64_t>(1009, 100003);
  std::vector<float> x(at_once), ones(at_once, 1), dx(at_once);
  std::vector<double> wide_x(at_once), wide_ones(at_once, 1), exact(at_once);
  double worst[3] = {};
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += at_once * step) {
    for (std::size_t i = 0; i < at_once; ++i) {
      x[i] = std::bit_cast<float>(static_cast<std::uint32_t>(first + i * step));
      if (!std::isfinite(x[i])) x[i] = 1;
      wide_x[i] = double{x[i]};
    }
    const auto measure = [&](auto narrow, auto wide, double &most, auto magnitude) {
      narrow(x.data(), ones.data(), dx.data(), at_once);
      wide(wide_x.data(), wide_ones.data(), exact.data(), at_once);
      for (std::size_t i = 0; i < at_once; ++i) {
        const double off = std::fabs(dx[i] - exact[i]) - 0x1p-140;
        if (off > 0 || std::isnan(off)) most = std::max(most, off * 0x1p24 / magnitude(wide_x[i], exact[i]));
      }
    };
    // s + |x s'| is s + x s' for positive x. For negative x it is 2 s less that.
    const auto of_sigmoid = [](double v, double v_slope, double slope) {
      const double s = 1 / (1 + std::exp(-v));
      return v_slope > 0 ? slope : 2 * s - slope;
    };
    measure(Api<float>::silu_backward, Api<double>::silu_backward, worst[0],
            [&](double v, double slope) { return of_sigmoid(v, v, slope); });
    measure(Api<float>::gelu_backward, Api<double>::gelu_backward, worst[1], [](double v, double slope) {
      return v > 0 ? slope : std::erfc(-v / std::numbers::sqrt2) - slope;
    });
    measure(Api<float>::gelu_tanh_backward, Api<double>::gelu_tanh_backward, worst[2],
            [&](double v, double slope) {
              const double argument = 2 * std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v);
              return of_sigmoid(argument, v, slope) * (1 + std::fabs(argument) / 2);
            });
  }
  CHECK(worst[0] <= 5);
  CHECK(worst[1] <= 9);
  CHECK(worst[2] <= 6);
  CHECK(worst[0] > 2);  // the measurement sees errors
}

namespace {

constexpr std::size_t rows = 5, cols = 37;

template <class T>
rapt_gated_options options_of(int activation) {
  rapt_gated_options options = RAPT_GATED_OPTIONS_INIT;
  options.type = Api<T>::type;
  options.activation = activation;
  options.rows = rows;
  options.cols = cols;
  return options;
}

// Numbers from -4 to 4 that depend on their index.
template <class T>
std::vector<T> numbers(std::size_t count, std::size_t salt) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = T(static_cast<Number<T>>(static_cast<double>((i * 7919 + salt * 104729) % 1024) / 128 - 4));
  }
  return values;
}

}  // namespace

TEST_CASE_TEMPLATE("gated over the halves of a matrix is the activation times up", T, float, double, F16,
                   BF16) {
  using A = Number<T>;
  const std::vector<T> both = numbers<T>(rows * 2 * cols, 1);
  on_every_level([&] {
    for (const rapt_activation activation : rapt::activations) {
      rapt_gated_options options = options_of<T>(activation);
      options.gate_stride = options.up_stride = 2 * cols;
      std::vector<T> y(rows * cols), in_place = both;
      REQUIRE(rapt_gated(both.data(), both.data() + cols, y.data(), &options) == RAPT_OK);
      options.y_stride = 2 * cols;
      REQUIRE(rapt_gated(in_place.data(), in_place.data() + cols, in_place.data() + cols, &options) ==
              RAPT_OK);
      const auto activate = function_of<A>(activation);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) {
          const A gate = A(both[r * 2 * cols + c]), up = A(both[r * 2 * cols + cols + c]);
          A activated;
          activate(&gate, &activated, 1);
          REQUIRE(same_bits(y[r * cols + c], T(activated * up)));
          REQUIRE(same_bits(in_place[r * 2 * cols + cols + c], y[r * cols + c]));
          REQUIRE(same_bits(in_place[r * 2 * cols + c], both[r * 2 * cols + c]));
        }
      }
    }
  });
}

TEST_CASE_TEMPLATE("the gradients of gated are those of its parts", T, float, double) {
  const std::vector<T> gate = numbers<T>(rows * cols, 1), up = numbers<T>(rows * cols, 2),
                       dy = numbers<T>(rows * cols, 3);
  on_every_level([&] {
    for (const rapt_activation activation : rapt::activations) {
      const rapt_gated_options options = options_of<T>(activation);
      const auto backward = gradient_of<T>(activation);
      std::vector<T> dgate(rows * cols), dup(rows * cols), product(rows * cols), expected(rows * cols);
      REQUIRE(rapt_gated_backward(gate.data(), up.data(), dy.data(), dgate.data(), dup.data(), &options) ==
              RAPT_OK);
      for (std::size_t i = 0; i < product.size(); ++i) product[i] = dy[i] * up[i];
      backward(gate.data(), product.data(), expected.data(), expected.size());
      CHECK(dgate == expected);
      REQUIRE(rapt_gated(gate.data(), dy.data(), expected.data(), &options) == RAPT_OK);
      CHECK(dup == expected);
      std::vector<T> own_gate = gate, own_up = up;
      REQUIRE(rapt_gated_backward(own_gate.data(), own_up.data(), dy.data(), own_gate.data(), own_up.data(),
                                  &options) == RAPT_OK);
      CHECK(own_gate == dgate);
      CHECK(own_up == dup);
    }
  });
}

TEST_CASE("the strides of a single gated row are not looked at") {
  const std::vector<float> gate = numbers<float>(cols, 1), up = numbers<float>(cols, 2);
  rapt_gated_options o = options_of<float>(RAPT_SILU);
  o.rows = 1;
  o.gate_stride = o.up_stride = o.y_stride = 0;
  std::vector<float> y(cols), other(cols), dgate(cols), dup(cols), other_dgate(cols), other_dup(cols);
  REQUIRE(rapt_gated(gate.data(), up.data(), y.data(), &o) == RAPT_OK);
  REQUIRE(rapt_gated_backward(gate.data(), up.data(), up.data(), dgate.data(), dup.data(), &o) == RAPT_OK);
  for (const std::ptrdiff_t stride : {std::ptrdiff_t{1}, std::ptrdiff_t{-3}, PTRDIFF_MAX, PTRDIFF_MIN}) {
    o.gate_stride = o.up_stride = o.y_stride = stride;
    REQUIRE(rapt_gated(gate.data(), up.data(), other.data(), &o) == RAPT_OK);
    REQUIRE(rapt_gated_backward(gate.data(), up.data(), up.data(), other_dgate.data(), other_dup.data(),
                                &o) == RAPT_OK);
    CHECK(other == y);
    CHECK(other_dgate == dgate);
    CHECK(other_dup == dup);
  }
}

TEST_CASE("gated refuses bad arguments and leaves its output untouched") {
  std::vector<float> gate = numbers<float>(3 * rows * cols, 1), up = gate, y(3 * rows * cols, 7), other = y;
  const std::vector<float> before = y, gate_before = gate;
  const rapt_gated_options good = options_of<float>(RAPT_SILU);
  const auto status = [&](const auto &change) {
    rapt_gated_options options = good;
    change(options);
    const rapt_status forward = rapt_gated(gate.data(), up.data(), y.data(), &options);
    const rapt_status backward =
        rapt_gated_backward(gate.data(), up.data(), up.data(), y.data(), other.data(), &options);
    CHECK(forward == backward);
    return forward;
  };
  CHECK(status([](rapt_gated_options &o) { o.size -= 8; }) == RAPT_BAD_OPTIONS_SIZE);
  CHECK(status([](rapt_gated_options &o) { o.type = RAPT_I8; }) == RAPT_BAD_TYPE);
  CHECK(status([](rapt_gated_options &o) { o.activation = -1; }) == RAPT_BAD_ACTIVATION);
  CHECK(status([](rapt_gated_options &o) { o.activation = 3; }) == RAPT_BAD_ACTIVATION);
  CHECK(status([](rapt_gated_options &o) { o.gate_stride = cols - 1; }) == RAPT_BAD_GATE_STRIDE);
  CHECK(status([](rapt_gated_options &o) { o.up_stride = -std::ptrdiff_t{cols}; }) == RAPT_BAD_UP_STRIDE);
  CHECK(status([](rapt_gated_options &o) { o.y_stride = 1; }) == RAPT_BAD_Y_STRIDE);
  CHECK(status([](rapt_gated_options &o) { o.rows = SIZE_MAX / 8; }) == RAPT_BAD_SIZE);
  CHECK(status([](rapt_gated_options &o) { o.rows = 2, o.cols = SIZE_MAX / 2 + 2; }) == RAPT_BAD_SIZE);
  CHECK(status([](rapt_gated_options &o) { o.rows = 2, o.y_stride = PTRDIFF_MAX; }) == RAPT_BAD_SIZE);
  CHECK(rapt_gated(nullptr, up.data(), y.data(), &good) == RAPT_BAD_GATE);
  CHECK(rapt_gated(gate.data(), nullptr, y.data(), &good) == RAPT_BAD_UP);
  CHECK(rapt_gated(gate.data(), up.data(), nullptr, &good) == RAPT_BAD_Y);
  CHECK(rapt_gated(gate.data(), up.data(), y.data(), nullptr) == RAPT_BAD_OPTIONS);
  CHECK(rapt_gated(gate.data(), up.data(), gate.data() + 1, &good) == RAPT_BAD_OVERLAP);
  CHECK(rapt_gated(gate.data(), up.data(), up.data() + 1, &good) == RAPT_BAD_OVERLAP);
  const auto backward = [&](const float *g, const float *u, const float *dy, float *dg, float *du) {
    return rapt_gated_backward(g, u, dy, dg, du, &good);
  };
  float *const g = gate.data(), *const u = up.data(), *const a = y.data(), *const b = other.data();
  CHECK(backward(nullptr, u, u, a, b) == RAPT_BAD_GATE);
  CHECK(backward(g, u, u, nullptr, b) == RAPT_BAD_GATE);
  CHECK(backward(g, nullptr, u, a, b) == RAPT_BAD_UP);
  CHECK(backward(g, u, u, a, nullptr) == RAPT_BAD_UP);
  CHECK(backward(g, u, nullptr, a, b) == RAPT_BAD_DY);
  CHECK(backward(g, u, g, g + 1, b) == RAPT_BAD_OVERLAP);                // dgate over gate
  CHECK(backward(g, u, g + rows * cols, a, u + 1) == RAPT_BAD_OVERLAP);  // dup over up
  CHECK(backward(g, u, u, u, b) == RAPT_BAD_OVERLAP);                    // dgate over up
  CHECK(backward(g, u, u, a, g) == RAPT_BAD_OVERLAP);                    // dup over gate
  CHECK(backward(g, u, a, a, b) == RAPT_BAD_OVERLAP);                    // dgate over dy
  CHECK(backward(g, u, a, b, a) == RAPT_BAD_OVERLAP);                    // dup over dy
  CHECK(backward(g, u, u, a, a + 1) == RAPT_BAD_OVERLAP);
  rapt_gated_options bytes = good;
  bytes.type = RAPT_I8;
  CHECK(rapt_gated_backward(g, u, u, a, b, &bytes) == RAPT_BAD_TYPE);
  CHECK(y == before);
  CHECK(gate == gate_before);
  for (rapt_gated_options empty : {good, good}) {
    empty.rows = 0;
    CHECK(rapt_gated(nullptr, nullptr, nullptr, &empty) == RAPT_OK);
    empty.rows = 2;
    empty.cols = 0;
    CHECK(rapt_gated_backward(nullptr, nullptr, nullptr, nullptr, nullptr, &empty) == RAPT_OK);
  }
}

TEST_CASE_TEMPLATE("argmax is the first of the largest, or the first NaN", T, float, double, F16, BF16) {
  using A = Number<T>;
  constexpr A infinity = std::numeric_limits<A>::infinity();
  const T nan = T(std::numeric_limits<A>::quiet_NaN());
  on_every_level([&] {
    CHECK(Api<T>::argmax(nullptr, 0) == SIZE_MAX);
    for (const std::size_t n : {1u, 2u, 7u, 16u, 33u, 100u, 5000u}) {
      std::vector<T> x(n, T(-infinity));
      CHECK(Api<T>::argmax(x.data(), n) == 0);
      for (std::size_t i = n; i-- > 0; i = i > 40 ? i - i / 5 : i) {
        x[i] = T(A(3));
        REQUIRE(Api<T>::argmax(x.data(), n) == i);
        if (i + 1 < n) {
          x[i + 1] = T(A(4));
          REQUIRE(Api<T>::argmax(x.data(), n) == i + 1);
          x[i + 1] = nan;
          REQUIRE(Api<T>::argmax(x.data(), n) == i + 1);
          x[n - 1] = nan;
          REQUIRE(Api<T>::argmax(x.data(), n) == i + 1);
          x[i + 1] = T(A(-1));
          x[n - 1] = T(A(3));
        }
      }
      std::fill(x.begin(), x.end(), T(A(-0.0)));
      x[n / 2] = T(A(0));
      CHECK(Api<T>::argmax(x.data(), n) == 0);
    }
  });
}
