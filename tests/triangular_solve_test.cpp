// Tests rapt_triangular_solve: its bits against loops of single operations on every level, its backward error,
// arguments.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "calls/operand.hpp"
#include "rapt/rapt.h"
#include "rapt/rapt.hpp"
#include "support/bits.hpp"
#include "support/every_level.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

// A batch of problems with gaps between rows and between problems. Elements that may not be read are NaN.
template <class T>
struct Problems {
  std::size_t batch, n, cols, a_pitch = n + 2, b_pitch = cols + 3, x_pitch = cols + 1;
  bool upper, unit;
  std::vector<T> a, b, x, expected;

  Problems(std::size_t count, std::size_t size, std::size_t right, bool is_upper, bool is_unit)
      : batch(count), n(size), cols(right), upper(is_upper), unit(is_unit) {
    Random random(n * 7 + cols);
    const T nan = std::numeric_limits<T>::quiet_NaN();
    a.assign(batch * n * a_pitch, nan);
    b.assign(batch * n * b_pitch, nan);
    x.assign(batch * n * x_pitch, T(7));
    for (std::size_t p = 0; p < batch; ++p) {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = 0; j < n; ++j) {
          if (i == j && !unit) at(a, a_pitch, p, i, j) = static_cast<T>(1 + random.uniform());
          if (upper ? j > i : j < i) at(a, a_pitch, p, i, j) = static_cast<T>(random.uniform() - 0.5);
        }
        for (std::size_t j = 0; j < cols; ++j)
          at(b, b_pitch, p, i, j) = static_cast<T>(random.uniform() - 0.5);
      }
    }
    expected = x;
    for (std::size_t p = 0; p < batch; ++p) {
      for (std::size_t col = 0; col < cols; ++col) solve_column(p, col);
    }
  }

  T &at(std::vector<T> &m, std::size_t pitch, std::size_t p, std::size_t i, std::size_t j) const {
    return m[(p * n + i) * pitch + j];
  }

  rapt_triangular_solve_options options() const {
    rapt_triangular_solve_options o = RAPT_TRIANGULAR_SOLVE_OPTIONS_INIT;
    o.type = type_of(element_of<T>);
    o.upper = upper;
    o.unit_diagonal = unit;
    o.batch = batch;
    o.n = n;
    o.cols = cols;
    o.a_stride = static_cast<std::ptrdiff_t>(a_pitch);
    o.b_stride = static_cast<std::ptrdiff_t>(b_pitch);
    o.x_stride = static_cast<std::ptrdiff_t>(x_pitch);
    return o;
  }

  // The largest |a x - b| of an element, as a share of the bound of rapt.h.
  double share_of_bound() {
    double worst = 0;
    const double u = std::numeric_limits<T>::epsilon() / 2.0;
    for (std::size_t p = 0; p < batch; ++p) {
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t col = 0; col < cols; ++col) {
          long double sum = -static_cast<long double>(at(b, b_pitch, p, i, col)), magnitude = 0;
          for (std::size_t j = 0; j < n; ++j) {
            if (upper ? j < i : j > i) continue;
            const long double factor = i == j && unit ? T(1) : at(a, a_pitch, p, i, j);
            sum += factor * at(x, x_pitch, p, j, col);
            magnitude += std::fabs(factor * at(x, x_pitch, p, j, col));
          }
          worst = std::max(
              worst, static_cast<double>(std::fabs(sum) / (1.01 * static_cast<double>(n) * u * magnitude)));
        }
      }
    }
    return worst;
  }

 private:
  void solve_column(std::size_t p, std::size_t col) {
    for (std::size_t step = 0; step < n; ++step) {
      const std::size_t i = upper ? n - 1 - step : step;
      T value = at(b, b_pitch, p, i, col);
      for (std::size_t before = 0; before < step; ++before) {
        const std::size_t j = upper ? n - 1 - before : before;
        const T product = at(a, a_pitch, p, i, j) * at(expected, x_pitch, p, j, col);
        value = value - product;
      }
      at(expected, x_pitch, p, i, col) = unit ? value : value / at(a, a_pitch, p, i, i);
    }
  }
};

}  // namespace

TEST_CASE_TEMPLATE("triangular systems have the bits of single operations", T, float, double) {
  for (const std::size_t n : {1, 2, 9, 64}) {
    for (const std::size_t cols : {1, 13, 300}) {
      for (const bool upper : {false, true}) {
        for (const bool unit : {false, true}) {
          Problems<T> problems(2, n, cols, upper, unit);
          CAPTURE(n);
          CAPTURE(cols);
          CAPTURE(upper);
          CAPTURE(unit);
          const rapt_triangular_solve_options o = problems.options();
          on_every_level([&] {
            std::fill(problems.x.begin(), problems.x.end(), T(7));
            REQUIRE(rapt_triangular_solve(problems.a.data(), problems.b.data(), problems.x.data(), &o) ==
                    RAPT_OK);
            CHECK(same_bits(problems.x, problems.expected));
          });
          CHECK(problems.share_of_bound() <= 1);
        }
      }
    }
  }
}

TEST_CASE("a system may be solved in place, and its columns apart") {
  Problems<float> problems(2, 20, 33, false, false);
  rapt_triangular_solve_options o = problems.options();
  o.b_stride = o.x_stride;
  std::vector<float> x = problems.x;
  for (std::size_t row = 0; row < 40; ++row) {
    for (std::size_t col = 0; col < 33; ++col)
      x[row * problems.x_pitch + col] = problems.b[row * problems.b_pitch + col];
  }
  const std::vector<float> right = x;
  REQUIRE(rapt_triangular_solve(problems.a.data(), x.data(), x.data(), &o) == RAPT_OK);
  CHECK(same_bits(x, problems.expected));
  x = right;
  o.cols = 10;
  o.b_batch_stride = o.x_batch_stride = static_cast<std::ptrdiff_t>(20 * problems.x_pitch);
  REQUIRE(rapt_triangular_solve(problems.a.data(), x.data(), x.data(), &o) == RAPT_OK);
  o.cols = 23;
  REQUIRE(rapt_triangular_solve(problems.a.data(), x.data() + 10, x.data() + 10, &o) == RAPT_OK);
  CHECK(same_bits(x, problems.expected));
}

TEST_CASE("arguments of rapt_triangular_solve") {
  std::vector<float> a(64, 1), b(64, 2), x(64, 3);
  const std::vector<float> before = x;
  rapt_triangular_solve_options o = RAPT_TRIANGULAR_SOLVE_OPTIONS_INIT;
  o.batch = 2, o.n = 4, o.cols = 3;
  const auto status = [&] {
    const rapt_status given = rapt_triangular_solve(a.data(), b.data(), x.data(), &o);
    if (given != RAPT_OK) CHECK(x == before);
    return given;
  };
  const auto past = [&](std::ptrdiff_t &field, std::ptrdiff_t value, rapt_status expected) {
    field = value;
    CHECK(status() == expected);
    field = 0;
  };
  CHECK(rapt_triangular_solve(a.data(), b.data(), x.data(), nullptr) == RAPT_BAD_OPTIONS);
  o.size = 9;
  CHECK(status() == RAPT_BAD_OPTIONS_SIZE);
  o.size = sizeof o;
  for (const rapt_type bad : {RAPT_F16, RAPT_BF16, RAPT_I8}) {
    o.type = bad;
    CHECK(status() == RAPT_BAD_TYPE);
  }
  o.type = RAPT_TYPE_DEFAULT;
  past(o.a_stride, 3, RAPT_BAD_A_STRIDE);
  past(o.b_stride, 2, RAPT_BAD_B_STRIDE);
  past(o.x_stride, -3, RAPT_BAD_X_STRIDE);
  past(o.a_batch_stride, 15, RAPT_BAD_BATCH_STRIDE);
  past(o.b_batch_stride, 11, RAPT_BAD_BATCH_STRIDE);
  past(o.x_batch_stride, -12, RAPT_BAD_BATCH_STRIDE);
  past(o.x_stride, PTRDIFF_MAX / 2, RAPT_BAD_SIZE);
  o.cols = SIZE_MAX;
  CHECK(status() == RAPT_BAD_SIZE);
  o.cols = 3;
  CHECK(rapt_triangular_solve(nullptr, b.data(), x.data(), &o) == RAPT_BAD_A);
  CHECK(rapt_triangular_solve(a.data(), nullptr, x.data(), &o) == RAPT_BAD_B);
  CHECK(rapt_triangular_solve(a.data(), b.data(), nullptr, &o) == RAPT_BAD_X);
  CHECK(rapt_triangular_solve(x.data(), b.data(), x.data(), &o) == RAPT_BAD_OVERLAP);
  CHECK(rapt_triangular_solve(a.data(), x.data() + 3, x.data(), &o) == RAPT_BAD_OVERLAP);
  CHECK(x == before);
  o.cols = 0;
  CHECK(rapt_triangular_solve(nullptr, nullptr, nullptr, &o) == RAPT_OK);
  SUBCASE("C++ sets the shape") {
    Problems<float> problems(1, 5, 6, true, false);
    const auto row = [](auto &m, std::size_t cols, std::size_t pitch) {
      return rapt::Rows(m.data(), 5, cols, static_cast<std::ptrdiff_t>(pitch));
    };
    CHECK(rapt::triangular_solve<float>(row(problems.a, 5, 7), row(problems.b, 6, 9), row(problems.x, 6, 7),
                                        true) == RAPT_OK);
    CHECK(same_bits(problems.x, problems.expected));
    CHECK(rapt::triangular_solve<float>(row(problems.a, 4, 7), row(problems.b, 6, 9), row(problems.x, 6, 7),
                                        true) == RAPT_BAD_SIZE);
  }
}
