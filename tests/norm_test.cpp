// Tests rms_norm, layer_norm and their gradients: special values, difficult rows, and how calls relate to each other.
// The rest is calls_test's.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "calls/norm_truth.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

template <class T>
std::vector<T> draw(std::size_t n, std::uint64_t seed) {
  Random random(seed);
  std::vector<T> values;
  for (std::size_t i = 0; i < n; ++i)
    values.push_back(static_cast<T>(static_cast<Number<T>>(random.gaussian())));
  return values;
}

template <class T>
bool all_same(const std::vector<T> &a, const std::vector<T> &b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) return false;
  }
  return true;
}

template <class T>
rapt_norm_options options_for(std::size_t rows, std::size_t cols) {
  rapt_norm_options o = RAPT_NORM_OPTIONS_INIT;
  o.type = Api<T>::type;
  o.rows = rows;
  o.cols = cols;
  o.eps = 0x1p-17;
  return o;
}

// Lengths next to those where lanes, vectors or stretches end.
std::vector<std::size_t> lengths() {
  std::vector<std::size_t> all = {1, 2, 3, 5, 48, 768};
  for (const std::size_t power : {8u, 16u, 32u, 64u, 128u, 1024u, 4096u})
    all.insert(all.end(), {power - 1, power, power + 1});
  if (!emulated()) all.insert(all.end(), {5120, 16385, 32769});
  return all;
}

// Returns the number of the type that follows x > 0.
template <class T>
T next_after(T x) {
  return from_bits<T>(static_cast<BitsOf<T>>(bits_of(x) + 1));
}

// Returns rows of nearly equal numbers, of numbers whose mean is far from 0, and rows whose first element, which the
// others are measured from, is far from all others.
template <class T>
std::vector<std::vector<T>> difficult_rows(std::size_t n, std::uint64_t seed) {
  const auto row = [&](auto value) {
    std::vector<T> made;
    for (std::size_t i = 0; i < n; ++i) made.push_back(static_cast<T>(static_cast<Number<T>>(value(i))));
    return made;
  };
  Random random(seed);
  std::vector<std::vector<T>> rows;
  for (const double base : {1e4, 1.0, 0.1, -3.0}) {
    rows.push_back(row([&](std::size_t i) { return base + static_cast<double>(i % 16) / 1000; }));
    rows.push_back(row([&](std::size_t) { return base * (1 + random.gaussian() * 1e-6); }));
    rows.push_back(row([&](std::size_t) { return base + random.gaussian() / 100; }));
    // One number is the next one, at either end; then every second one, on either side of the others.
    const T equal = T(Number<T>(std::fabs(base)));
    for (const std::size_t at : {std::size_t{0}, n - 1}) {
      rows.emplace_back(n, equal);
      rows.back()[at] = next_after(equal);
    }
    for (const std::size_t odd : {0u, 1u}) {
      rows.emplace_back(n, equal);
      for (std::size_t i = odd; i < n; i += 2) rows.back()[i] = next_after(equal);
    }
  }
  for (const double far : {1000.0, -20000.0, 0x1p-20}) {
    for (const std::size_t at : {std::size_t{0}, n / 2}) {
      rows.push_back(row([&](std::size_t i) { return i == at ? far : random.gaussian(); }));
      rows.push_back(row([&](std::size_t i) { return i == at ? far / 3 : 0; }));
      rows.push_back(row([&](std::size_t i) { return i == at ? -far : far + random.gaussian(); }));
    }
  }
  return rows;
}

rapt_norm_backward_options backward_options(std::size_t rows, std::size_t cols) {
  rapt_norm_backward_options o = RAPT_NORM_BACKWARD_OPTIONS_INIT;
  o.type = RAPT_F64;
  o.rows = rows;
  o.cols = cols;
  o.eps = 0x1p-17;
  return o;
}

}  // namespace

TEST_CASE_TEMPLATE("norms: residual, rows alone, special values", T, float, double, F16, BF16) {
  using A = Number<T>;
  constexpr A infinity = std::numeric_limits<A>::infinity();
  on_every_level([&] {
    for (const std::size_t cols : {1u, 7u, 64u, 100u, 128u, 300u}) {
      constexpr std::size_t rows = 3;
      const std::vector<T> x = draw<T>(rows * cols, cols), other = draw<T>(rows * cols, cols + 1),
                           w = draw<T>(cols, 5);
      for (const auto function : {rapt_rms_norm, rapt_layer_norm}) {
        rapt_norm_options o = options_for<T>(rows, cols);
        o.weight = w.data();
        std::vector<T> sum, fused(x.size()), apart(x.size()), residual = other;
        for (std::size_t i = 0; i < x.size(); ++i) {
          sum.push_back(static_cast<T>(static_cast<A>(A(x[i]) + A(other[i]))));
        }
        o.residual = residual.data();
        REQUIRE(function(x.data(), fused.data(), &o) == RAPT_OK);
        CHECK(all_same(residual, sum));
        o.residual = nullptr;
        o.rows = 1;
        for (std::size_t r = 0; r < rows; ++r) {
          REQUIRE(function(&sum[r * cols], &apart[r * cols], &o) == RAPT_OK);
        }
        CHECK(all_same(fused, apart));

        std::vector<T> zeros(cols, T(A(0))), y(cols);
        o.eps = 0;
        REQUIRE(function(zeros.data(), y.data(), &o) == RAPT_OK);
        for (const T value : y) CHECK(std::isnan(A(value)));
        zeros[cols / 2] = T(infinity);
        o.weight = nullptr;
        REQUIRE(function(zeros.data(), y.data(), &o) == RAPT_OK);
        CHECK(std::isnan(A(y[cols / 2])));
        for (std::size_t i = 0; i < cols && function == rapt_rms_norm; ++i) {
          if (i != cols / 2) CHECK(A(y[i]) == 0);
        }
      }
    }
  });
}

// A mean that is off by some units of the last place would leave up to 1 of such a row.
TEST_CASE_TEMPLATE("layer_norm of equal numbers is the bias alone", T, float, double, F16, BF16) {
  using A = Number<T>;
  using limits = std::numeric_limits<T>;
  on_every_level([&] {
    for (const std::size_t cols : lengths()) {
      const std::vector<T> w = draw<T>(cols, 8), b = draw<T>(cols, 9);
      for (const T value : {T(A(100000.1)), T(A(1234.56)), T(A(0.1)), T(A(-1) / 3), T(A(1e4)), T(A(0)),
                            limits::max(), limits::lowest(), limits::min(), limits::denorm_min()}) {
        if (std::isinf(A(value))) continue;  // 100000.1 in f16
        const std::vector<T> x(cols, value);
        std::vector<T> y(cols), with_bias(cols);
        rapt_norm_options o = options_for<T>(1, cols);
        o.eps = 1e-12;
        REQUIRE(rapt_layer_norm(x.data(), y.data(), &o) == RAPT_OK);
        o.weight = w.data();
        o.bias = b.data();
        REQUIRE(rapt_layer_norm(x.data(), with_bias.data(), &o) == RAPT_OK);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < cols; ++i) wrong += A(y[i]) != 0 || A(with_bias[i]) != A(b[i]);
        o.eps = 0;
        REQUIRE(rapt_layer_norm(x.data(), y.data(), &o) == RAPT_OK);
        for (std::size_t i = 0; i < cols; ++i) wrong += !std::isnan(A(y[i]));
        if constexpr (sizeof(T) > 2) {
          std::vector<T> dx(cols), dweight(cols);
          rapt_norm_backward_options back = backward_options(1, cols);
          back.type = Api<T>::type;
          back.dweight = dweight.data();
          REQUIRE(rapt_layer_norm_backward(x.data(), w.data(), dx.data(), &back) == RAPT_OK);
          for (const T sum : dweight) wrong += sum != 0;
        }
        CAPTURE(cols);
        CAPTURE(A(value));
        CHECK(wrong == 0);
      }
    }
  });
}

TEST_CASE_TEMPLATE("layer_norm errs by at most its bound, however near or far from 0 a row is", T, float,
                   double, F16, BF16) {
  using A = Number<T>;
  using Real = long double;
  if (std::numeric_limits<Real>::digits < std::numeric_limits<T>::digits + 10) return;
  for (const std::size_t cols : lengths()) {
    for (const std::vector<T> &x : difficult_rows<T>(cols, cols)) {
      for (const double eps : {1e-12, 1e-5}) {
        const rapt::validate::NormRow<A> row(std::vector<Real>(x.begin(), x.end()), eps, true);
        std::vector<Real> allowed;
        for (std::size_t i = 0; i < cols; ++i) {
          constexpr int digits = std::numeric_limits<T>::digits;
          const Real error = row.e(i);
          allowed.push_back(error + (sizeof(T) == 2 ? std::ldexp(row.s(i), -digits) : 0) +
                            (sizeof(T) == 2 ? Real{std::numeric_limits<T>::denorm_min()} : 0));
        }
        rapt_norm_options o = options_for<T>(1, cols);
        o.eps = eps;
        std::vector<T> first;
        on_every_level([&] {
          std::vector<T> y(cols);
          REQUIRE(rapt_layer_norm(x.data(), y.data(), &o) == RAPT_OK);
          if (first.empty()) first = y;
          CHECK(
              all_same(y, first));  // also where the correction of the variance shows, which takes long rows
          Real worst = 0;
          for (std::size_t i = 0; i < cols; ++i)
            worst = std::max(worst, std::fabs(Real{A(y[i])} - row.t(i)) / allowed[i]);
          CAPTURE(cols);
          CAPTURE(A(x[0]));
          CHECK(worst <= 1);
        });
      }
    }
  }
}

TEST_CASE_TEMPLATE("norms whose sums overflow, or whose squares vanish", T, float, double) {
  constexpr T most = std::numeric_limits<T>::max(), infinity = std::numeric_limits<T>::infinity();
  on_every_level([&] {
    for (const std::size_t cols : {2u, 8u, 64u, 100u, 300u}) {
      const auto norm = [&](auto function, auto value, double eps) {
        std::vector<T> x, y(cols);
        for (std::size_t i = 0; i < cols; ++i) x.push_back(value(i));
        rapt_norm_options o = options_for<T>(1, cols);
        o.eps = eps;
        REQUIRE(function(x.data(), y.data(), &o) == RAPT_OK);
        return y;
      };
      const auto alternating = [](T value) { return [=](std::size_t i) { return i % 2 ? value : -value; }; };
      const T root = in_f64<T> ? T(0x1p520) : T(0x1p70);
      for (const T y : norm(rapt_rms_norm, alternating(root), 1)) CHECK(y == 0);
      for (const T y : norm(rapt_layer_norm, alternating(root), 1)) CHECK(y == 0);
      for (const T y : norm(rapt_layer_norm, alternating(most), 1)) CHECK(std::isnan(y));
      for (const T y : norm(
               rapt_layer_norm, [=](std::size_t i) { return i == 1 ? infinity : T(1); }, 1))
        CHECK(std::isnan(y));
      const T tiny = 1 / root / root;
      for (const T y : norm(rapt_rms_norm, alternating(tiny), 0)) CHECK(std::isinf(y));
      for (const T y : norm(rapt_layer_norm, alternating(tiny), 0)) CHECK(!std::isfinite(y));
    }
  });
}

TEST_CASE("gradients of norms agree with differences, and add up over calls") {
  constexpr std::size_t rows = 3, cols = 37;
  const std::vector<double> x = draw<double>(rows * cols, 1), dy = draw<double>(rows * cols, 2),
                            w = draw<double>(cols, 3);
  on_every_level([&] {
    for (const bool is_layer : {false, true}) {
      const auto forward = is_layer ? rapt_layer_norm : rapt_rms_norm;
      const auto backward = is_layer ? rapt_layer_norm_backward : rapt_rms_norm_backward;
      std::vector<double> dx(x.size()), dweight(cols), dbias(cols);
      rapt_norm_backward_options o = backward_options(rows, cols);
      o.weight = w.data();
      o.dweight = dweight.data();
      if (is_layer) o.dbias = dbias.data();
      REQUIRE(backward(x.data(), dy.data(), dx.data(), &o) == RAPT_OK);
      // The loss is the sum of dy * y.
      const auto loss = [&](const std::vector<double> &at, const std::vector<double> &weight) {
        rapt_norm_options f = options_for<double>(rows, cols);
        f.weight = weight.data();
        std::vector<double> y(at.size());
        REQUIRE(forward(at.data(), y.data(), &f) == RAPT_OK);
        double sum = 0;
        for (std::size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
        return sum;
      };
      const auto slope = [&](bool of_x, std::size_t i) {
        constexpr double step = 0x1p-16;
        std::vector<double> at = x, weight = w;
        std::vector<double> &target = of_x ? at : weight;
        const double value = target[i];
        target[i] = value + step;
        const double above = loss(at, weight);
        target[i] = value - step;
        return (above - loss(at, weight)) / (2 * step);
      };
      for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::fabs(slope(true, i) - dx[i]) < 1e-7);
      for (std::size_t i = 0; i < cols; ++i) CHECK(std::fabs(slope(false, i) - dweight[i]) < 1e-7);
      for (std::size_t i = 0; i < cols && is_layer; ++i)
        CHECK(dbias[i] == (dy[i] + dy[cols + i]) + dy[2 * cols + i]);

      std::vector<double> parts(x.size()), dweight_of_parts(cols), dbias_of_parts(cols);
      o.dweight = dweight_of_parts.data();
      if (is_layer) o.dbias = dbias_of_parts.data();
      o.rows = 1;
      REQUIRE(backward(x.data(), dy.data(), parts.data(), &o) == RAPT_OK);
      o.rows = rows - 1;
      o.accumulate = 1;
      REQUIRE(backward(&x[cols], &dy[cols], &parts[cols], &o) == RAPT_OK);
      CHECK(all_same(parts, dx));
      CHECK(all_same(dweight_of_parts, dweight));
      if (is_layer) CHECK(all_same(dbias_of_parts, dbias));
      o.rows = 0;
      o.accumulate = 0;
      REQUIRE(backward(nullptr, nullptr, nullptr, &o) == RAPT_OK);
      for (const double value : dweight_of_parts) CHECK(value == 0);
    }
  });
}

// An output of 16 MiB is written past the caches, from the first aligned vector of each row on. Rows alone are not.
// The statistics of a row: mean and mean_rest together are the mean to more digits than the type has.
TEST_CASE_TEMPLATE("norms write the statistics that their gradients take", T, float, double, F16, BF16) {
  using A = Number<T>;
  constexpr std::size_t rows = 3, cols = 37;
  std::vector<T> x = draw<T>(rows * cols, 11), y(rows * cols), plain(rows * cols);
  for (T &value : x) value = static_cast<T>(static_cast<A>(A(value) + A(100)));
  on_every_level([&] {
    for (const bool is_layer : {false, true}) {
      std::vector<A> rstd(rows), mean(rows), rest(rows);
      rapt_norm_options o = options_for<T>(rows, cols);
      const auto norm = is_layer ? rapt_layer_norm : rapt_rms_norm;
      REQUIRE(norm(x.data(), plain.data(), &o) == RAPT_OK);
      o.rstd = rstd.data();
      if (is_layer) o.mean = mean.data(), o.mean_rest = rest.data();
      REQUIRE(norm(x.data(), y.data(), &o) == RAPT_OK);
      CHECK(all_same(y, plain));
      for (std::size_t r = 0; r < rows; ++r) {
        long double sum = 0, squares = 0;
        for (std::size_t i = 0; i < cols; ++i) sum += A(x[r * cols + i]);
        const long double exact = is_layer ? sum / cols : 0;
        for (std::size_t i = 0; i < cols; ++i) {
          const long double d = A(x[r * cols + i]) - exact;
          squares += d * d;
        }
        const long double u = unit_of<A>, root = 1 / std::sqrt(squares / cols + 0x1p-17L);
        CHECK(std::fabs(rstd[r] - root) <= 16 * u * root);
        if (is_layer) CHECK(std::fabs(static_cast<long double>(mean[r]) + rest[r] - exact) <= 16 * u);
        if (is_layer) CHECK(std::fabs(rest[r]) <= 0x1p7 * u);
      }
    }
  });
}

TEST_CASE_TEMPLATE("norms: large outputs have the bits of rows alone", T, float, double, F16, BF16) {
  if (emulated()) return;  // takes half a minute, and NEON kernels have no such stores
  constexpr std::size_t rows = 5, stride = (std::size_t{4} << 20) / sizeof(T) + 3, cols = stride - 2;
  const std::vector<T> x = draw<T>(rows * stride, 21), w = draw<T>(cols, 22), b = draw<T>(cols, 23);
  on_every_level([&] {
    for (const auto function : {rapt_rms_norm, rapt_layer_norm}) {
      const T canary = T(Number<T>(77));
      std::vector<T> y(rows * stride, canary), alone(rows * stride, canary);
      rapt_norm_options o = options_for<T>(rows, cols);
      o.x_stride = o.y_stride = static_cast<std::ptrdiff_t>(stride);
      o.weight = w.data();
      if (function == rapt_layer_norm) o.bias = b.data();
      REQUIRE(function(x.data(), y.data(), &o) == RAPT_OK);
      o.rows = 1;
      for (std::size_t r = 0; r < rows; ++r)
        REQUIRE(function(&x[r * stride], &alone[r * stride], &o) == RAPT_OK);
      CHECK(all_same(y, alone));
    }
  });
}

// Products that vanish leave -0 in their lanes. Where a lane misses an element, it adds +0, so that the sum is +0.
// The sign of the sum reaches an element whose dy is 0.
TEST_CASE("sums of norms whose products vanish have the sign of dot's lanes") {
  on_every_level([&] {
    for (const std::size_t cols : {65u, 68u, 72u, 80u, 96u, 128u}) {
      std::vector<float> x(cols, 1e-30f), dy(cols, -1e-30f), dx(cols);
      dy[0] = -0.0f;
      rapt_norm_backward_options o = RAPT_NORM_BACKWARD_OPTIONS_INIT;
      o.rows = 1;
      o.cols = cols;
      o.eps = 1;
      REQUIRE(rapt_rms_norm_backward(x.data(), dy.data(), dx.data(), &o) == RAPT_OK);
      CHECK(std::signbit(dx[0]) == (cols != 128));
    }
  });
}
