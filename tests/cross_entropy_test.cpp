// Tests rapt_cross_entropy and its gradient: against long double and the bounds of rapt.h, by the formulas there, on
// every level; what they read; arguments.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "calls/operand.hpp"
#include "oracle/bounds.hpp"
#include "rapt/rapt.h"
#include "rapt/rapt.hpp"
#include "support/bits.hpp"
#include "support/elements.hpp"
#include "support/every_level.hpp"
#include "support/guarded_slot.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

using Real = long double;

template <class T>
struct Drawn {
  using A = Number<T>;
  std::size_t rows, classes;
  std::vector<T> x;
  std::vector<std::int64_t> target;
  std::vector<A> weight, dout;
  bool is_weighted;
  double smoothing;

  Drawn(std::size_t row_count, std::size_t class_count, bool with_weights, double label_smoothing)
      : rows(row_count), classes(class_count), is_weighted(with_weights), smoothing(label_smoothing) {
    Random random(rows * 131 + classes * 7 + with_weights);
    for (std::size_t i = 0; i < rows * classes; ++i) x.push_back(static_cast<T>(24 * random.uniform() - 8));
    for (std::size_t c = 0; c < classes; ++c)
      weight.push_back(with_weights ? static_cast<A>(random.uniform()) : A(1));
    for (std::size_t r = 0; r < rows; ++r) {
      target.push_back(r % 4 == 3 ? -100 : static_cast<std::int64_t>(random.below(classes)));
      dout.push_back(static_cast<A>(2 * random.uniform() - 1));
    }
  }
  rapt_cross_entropy_options options() const {
    rapt_cross_entropy_options o = RAPT_CROSS_ENTROPY_OPTIONS_INIT;
    o.type = type_of(element_of<T>);
    o.rows = rows;
    o.classes = classes;
    o.target = target.data();
    o.label_smoothing = smoothing;
    if (is_weighted) o.weight = weight.data();
    return o;
  }
  A value(std::size_t r, std::size_t c) const { return static_cast<A>(x[r * classes + c]); }
};

template <class T>
struct Exact {
  Real lse, out;
  std::vector<Real> dx, added, subtracted;  // the parts of the gradient

  Exact(const Drawn<T> &of, std::size_t r) {
    Real largest = -std::numeric_limits<Real>::infinity(), sum = 0;
    for (std::size_t c = 0; c < of.classes; ++c) largest = std::max(largest, Real{of.value(r, c)});
    for (std::size_t c = 0; c < of.classes; ++c) sum += std::exp(of.value(r, c) - largest);
    lse = largest + std::log(sum);
    const auto t = static_cast<std::size_t>(of.target[r]);
    const Real a = 1 - Real{of.smoothing}, b = Real{of.smoothing} / static_cast<Real>(of.classes);
    Real all = 0, weights = 0;
    for (std::size_t c = 0; c < of.classes; ++c) {
      all += of.weight[c] * (lse - of.value(r, c));
      weights += of.weight[c];
    }
    out = a * of.weight[t] * (lse - of.value(r, t)) + b * all;
    for (std::size_t c = 0; c < of.classes; ++c) {
      added.push_back(of.dout[r] * (a * of.weight[t] + b * weights) * std::exp(of.value(r, c) - lse));
      subtracted.push_back(of.dout[r] * (b * of.weight[c] + (c == t ? a * of.weight[t] : 0)));
      dx.push_back(added[c] - subtracted[c]);
    }
  }
};

template <class T>
Number<T> log_sum_of(const Drawn<T> &of, std::size_t r) {
  Number<T> sum = 0;
  if constexpr (sizeof(T) == 8) {
    REQUIRE(rapt_logsumexp_f64(&of.x[r * of.classes], 0, &sum, 1, of.classes, nullptr) == RAPT_OK);
  } else {
    std::vector<float> row;
    for (std::size_t c = 0; c < of.classes; ++c) row.push_back(of.value(r, c));
    if constexpr (sizeof(T) == 4) {
      REQUIRE(rapt_logsumexp_f32(row.data(), 0, &sum, 1, of.classes, nullptr) == RAPT_OK);
    } else {
      const float largest = *std::max_element(row.begin(), row.end());
      double total = 0;
      for (std::size_t c = 0; c < of.classes; c += 1024) {
        std::vector<float> powers(1024);
        total +=
            rapt_exp_sum_f32(&row[c], 1, largest, powers.data(), std::min<std::size_t>(1024, of.classes - c));
      }
      rapt_map_options o = RAPT_MAP_OPTIONS_INIT;
      o.function = RAPT_MAP_LOG;
      o.dims = o.shape[0] = 1;
      const float rounded = static_cast<float>(total);
      REQUIRE(rapt_map(&rounded, nullptr, nullptr, &sum, &o) == RAPT_OK);
      sum = largest + sum;
    }
  }
  return sum;
}

}  // namespace

TEST_CASE_TEMPLATE("cross entropy is within its bounds, and has the same bits on every level", T, float,
                   double, F16, BF16) {
  using A = Number<T>;
  const Real u = unit_of<A>;
  for (const std::size_t classes : {1, 10, 1000, 3000}) {
    for (const bool is_weighted : {false, true}) {
      for (const double smoothing : {0.0, 0.125, 1.0}) {
        const Drawn<T> drawn(classes > 500 ? 5 : 70, classes, is_weighted, smoothing);
        CAPTURE(classes);
        CAPTURE(is_weighted);
        CAPTURE(smoothing);
        rapt_cross_entropy_options o = drawn.options();
        std::vector<A> first_out, first_lse;
        std::vector<T> first_dx;
        on_every_level([&] {
          std::vector<A> out(drawn.rows), lse(drawn.rows);
          std::vector<T> dx(drawn.x.size());
          o.lse = lse.data();
          o.dout = drawn.dout.data();
          REQUIRE(rapt_cross_entropy(drawn.x.data(), out.data(), &o) == RAPT_OK);
          REQUIRE(rapt_cross_entropy_backward(drawn.x.data(), dx.data(), &o) == RAPT_OK);
          std::vector<T> in_place = drawn.x;
          REQUIRE(rapt_cross_entropy_backward(in_place.data(), in_place.data(), &o) == RAPT_OK);
          CHECK(same_bits(in_place, dx));
          if (first_out.empty()) first_out = out, first_lse = lse, first_dx = dx;
          CHECK(same_bits(out, first_out));
          CHECK(same_bits(lse, first_lse));
          CHECK(same_bits(dx, first_dx));
        });
        Real weights = 0;
        for (const A weight : drawn.weight) weights += weight;
        for (std::size_t r = 0; r < drawn.rows; ++r) {
          CHECK(same_bits(first_lse[r], log_sum_of(drawn, r)));
          if (drawn.target[r] < 0) {
            CHECK(same_bits(first_out[r], A(0)));
            for (std::size_t c = 0; c < classes; ++c) CHECK(same_bits(first_dx[r * classes + c], T(0)));
            continue;
          }
          const Exact<T> exact(drawn, r);
          const Real units = sizeof(T) == 8   ? 12
                             : sizeof(T) == 4 ? 6
                                              : 10 + std::log(static_cast<Real>(classes));
          const Real of_lse = units * u * std::max<Real>(1, std::fabs(exact.lse));
          CHECK(std::fabs(first_lse[r] - exact.lse) <= of_lse);
          const auto t = static_cast<std::size_t>(drawn.target[r]);
          const Real shares =
              (1 - smoothing) * drawn.weight[t] + smoothing / static_cast<Real>(classes) * weights;
          CHECK(std::fabs(first_out[r] - exact.out) <=
                shares * of_lse + cross_entropy_bound(static_cast<double>(classes)) * u * exact.out);
          if (smoothing == 0) CHECK(first_out[r] == drawn.weight[t] * (first_lse[r] - drawn.value(r, t)));
          for (std::size_t c = 0; c < classes; ++c) {
            const A got = static_cast<A>(first_dx[r * classes + c]);
            const Real d = static_cast<Real>(dot_bound<A>(classes));
            const Real distance = std::fabs(drawn.value(r, c) - exact.lse);
            Real allowed = (of_lse + (distance + d + 12) * u) * std::fabs(exact.added[c]) +
                           8 * u * std::fabs(exact.subtracted[c]) + std::numeric_limits<A>::min();
            if (sizeof(T) == 2) {
              constexpr int digits = std::numeric_limits<T>::digits;
              allowed += std::max(std::ldexp(std::fabs(exact.dx[c]) + allowed, -digits),
                                  std::ldexp(Real{1}, std::numeric_limits<T>::min_exponent - digits - 1));
            }
            if (!(std::fabs(got - exact.dx[c]) <= allowed)) FAIL_CHECK(r << " " << c << ": " << got);
          }
        }
      }
    }
  }
}

TEST_CASE("the gradient has the operations of rapt.h") {
  const Drawn<float> drawn(3, 1500, true, 0.25);
  rapt_cross_entropy_options o = drawn.options();
  std::vector<float> out(3), lse(3), dx(drawn.x.size()), p(drawn.x.size());
  o.lse = lse.data();
  o.dout = drawn.dout.data();
  o.scale = 0.3;
  REQUIRE(rapt_cross_entropy(drawn.x.data(), out.data(), &o) == RAPT_OK);
  REQUIRE(rapt_cross_entropy_backward(drawn.x.data(), dx.data(), &o) == RAPT_OK);
  rapt_reduce_options sum = rapt::reduce_options(RAPT_SUM, {1500});
  float weights = 0;
  REQUIRE(rapt_reduce(drawn.weight.data(), &weights, &sum) == RAPT_OK);
  const float a = 0.75f, b = static_cast<float>(0.25 / 1500);
  for (std::size_t r = 0; r < 3; ++r) {
    (void)rapt_exp_sum_f32(&drawn.x[r * 1500], 1, lse[r], &p[r * 1500], 1500);
    const auto t = static_cast<std::size_t>(drawn.target[r]);
    const float g = 0.3f * drawn.dout[r], share = b * weights, of_target = a * drawn.weight[t],
                both = of_target + share, k = g * both, of_class = g * b;
    for (std::size_t c = 0; c < 1500; ++c) {
      const float added = k * p[r * 1500 + c], q = of_class * drawn.weight[c];
      float expected = added - q;
      if (c == t) {
        const float last = g * of_target;
        expected = expected - last;
      }
      if (!same_bits(dx[r * 1500 + c], expected)) FAIL_CHECK(r << " " << c);
    }
    float blocks = 0;
    for (std::size_t first = 0; first < 1500; first += 1024) {
      std::vector<float> d;
      for (std::size_t c = first; c < std::min<std::size_t>(1500, first + 1024); ++c)
        d.push_back(lse[r] - drawn.value(r, c));
      blocks = blocks + rapt_dot_f32(d.data(), &drawn.weight[first], d.size());
    }
    const float plain = drawn.weight[t] * (lse[r] - drawn.value(r, t)), first = a * plain,
                second = b * blocks;
    CHECK(same_bits(out[r], first + second));
  }
}

TEST_CASE("special values of cross entropy") {
  const float infinity = std::numeric_limits<float>::infinity();
  const float x[] = {-infinity, 1, 2, 3};
  std::int64_t target = 0;
  rapt_cross_entropy_options o = RAPT_CROSS_ENTROPY_OPTIONS_INIT;
  o.rows = 1, o.classes = 4, o.target = &target;
  float out = 0, lse = 0, dx[4];
  o.lse = &lse;
  REQUIRE(rapt_cross_entropy(x, &out, &o) == RAPT_OK);
  CHECK(out == infinity);
  target = 3;
  REQUIRE(rapt_cross_entropy(x, &out, &o) == RAPT_OK);
  CHECK(out == lse - 3);
  REQUIRE(rapt_cross_entropy_backward(x, dx, &o) == RAPT_OK);
  CHECK(dx[0] == 0);
  o.label_smoothing = 0.5;
  REQUIRE(rapt_cross_entropy(x, &out, &o) == RAPT_OK);
  CHECK(out == infinity);
  target = 2, o.ignore_index = 2;
  const float nan[] = {NAN, NAN, NAN, NAN};
  REQUIRE(rapt_cross_entropy(nan, &out, &o) == RAPT_OK);
  CHECK(same_bits(out, 0.0f));
  REQUIRE(rapt_cross_entropy_backward(nan, dx, &o) == RAPT_OK);
  for (const float of : dx) CHECK(same_bits(of, 0.0f));
  for (const F16 edge : {F16(-infinity), F16(infinity), F16(NAN)}) {
    const F16 half[] = {edge, edge};
    o.type = RAPT_F16, o.classes = 2, target = 1, o.label_smoothing = 0;
    REQUIRE(rapt_cross_entropy(half, &out, &o) == RAPT_OK);
    CHECK(same_bits(lse, static_cast<float>(edge)));
    CHECK(std::isnan(out));
  }
}

TEST_CASE("nothing beyond the arrays of cross entropy is read or written") {
  const Drawn<float> drawn(2, 37, true, 0.1);
  rapt_cross_entropy_options o = drawn.options();
  for (const Placement placement : {Placement::begins_at_guard, Placement::ends_at_guard}) {
    GuardedSlot slots[5] = {GuardedSlot(4096), GuardedSlot(4096), GuardedSlot(4096), GuardedSlot(4096),
                            GuardedSlot(4096)};
    const auto place = [&](std::size_t i, const std::vector<float> &values) {
      auto *const at = reinterpret_cast<float *>(slots[i].place(values.size() * sizeof(float), placement, 0));
      std::copy(values.begin(), values.end(), at);
      return at;
    };
    const float *const x = place(0, drawn.x);
    float *const dx = place(1, drawn.x), *const out = place(2, {0, 0}), *const lse = place(3, {0, 0});
    o.weight = place(4, drawn.weight);
    o.lse = lse;
    on_every_level([&] {
      CHECK(rapt_cross_entropy(x, out, &o) == RAPT_OK);
      CHECK(rapt_cross_entropy_backward(x, dx, &o) == RAPT_OK);
    });
  }
}

TEST_CASE("arguments of rapt_cross_entropy") {
  std::vector<float> x(24, 1), out(4, 5), lse(4, 6), dx(24, 7), weight(6, 1);
  const std::vector<float> before = out, lse_before = lse, dx_before = dx;
  std::vector<std::int64_t> target = {0, 5, -100, 3};
  rapt_cross_entropy_options o = RAPT_CROSS_ENTROPY_OPTIONS_INIT;
  o.rows = 4, o.classes = 6, o.target = target.data(), o.lse = lse.data(), o.weight = weight.data();
  const auto refused = [&](rapt_status expected, rapt_status of_gradient) {
    CHECK(rapt_cross_entropy(x.data(), out.data(), &o) == expected);
    CHECK(rapt_cross_entropy_backward(x.data(), dx.data(), &o) == of_gradient);
    CHECK(out == before);
    CHECK(lse == lse_before);
    CHECK(dx == dx_before);
  };
  const auto past = [&](auto &field, auto value, rapt_status expected) {
    const auto kept = field;
    field = static_cast<std::remove_reference_t<decltype(field)>>(value);
    refused(expected, expected);
    field = kept;
  };
  CHECK(rapt_cross_entropy(x.data(), out.data(), nullptr) == RAPT_BAD_OPTIONS);
  past(o.size, 5, RAPT_BAD_OPTIONS_SIZE);
  past(o.type, RAPT_I8, RAPT_BAD_TYPE);
  past(o.classes, 0, RAPT_BAD_SHAPE);
  past(o.classes, SIZE_MAX / 2, RAPT_BAD_SIZE);
  past(o.rows, SIZE_MAX, RAPT_BAD_SIZE);
  past(o.x_stride, 5, RAPT_BAD_X_STRIDE);
  past(o.label_smoothing, 1.1, RAPT_BAD_LABEL_SMOOTHING);
  past(o.label_smoothing, -0.1, RAPT_BAD_LABEL_SMOOTHING);
  past(o.label_smoothing, std::nan(""), RAPT_BAD_LABEL_SMOOTHING);
  past(o.scale, 1e300, RAPT_BAD_SCALE);
  past(o.target, nullptr, RAPT_BAD_TARGET);
  past(target[1], 6, RAPT_BAD_TARGET);
  past(target[1], -1, RAPT_BAD_TARGET);
  past(o.ignore_index, -1, RAPT_BAD_TARGET);
  CHECK(rapt_cross_entropy(nullptr, out.data(), &o) == RAPT_BAD_X);
  CHECK(rapt_cross_entropy(x.data(), nullptr, &o) == RAPT_BAD_OUT);
  CHECK(rapt_cross_entropy_backward(x.data(), nullptr, &o) == RAPT_BAD_DX);
  CHECK(rapt_cross_entropy(x.data(), x.data() + 20, &o) == RAPT_BAD_OVERLAP);
  CHECK(rapt_cross_entropy(x.data(), lse.data() + 1, &o) == RAPT_BAD_OVERLAP);
  CHECK(rapt_cross_entropy_backward(x.data(), x.data() + 1, &o) == RAPT_BAD_OVERLAP);
  o.weight = dx.data() + 3;
  CHECK(rapt_cross_entropy_backward(x.data(), dx.data(), &o) == RAPT_BAD_OVERLAP);
  o.weight = nullptr;
  o.lse = nullptr;
  CHECK(rapt_cross_entropy_backward(x.data(), dx.data(), &o) == RAPT_BAD_LSE);
  o.dx_stride = 5;
  CHECK(rapt_cross_entropy_backward(x.data(), dx.data(), &o) == RAPT_BAD_DX_STRIDE);
  o.dx_stride = 0;
  CHECK(dx == dx_before);
  o.rows = 0;
  CHECK(rapt_cross_entropy(nullptr, nullptr, &o) == RAPT_OK);
  CHECK(rapt_cross_entropy_backward(nullptr, nullptr, &o) == RAPT_OK);
  o.rows = 4;
  CHECK(rapt_cross_entropy(x.data(), out.data(), &o) == RAPT_OK);
  CHECK(out[2] == 0);
}

TEST_CASE("C++ sets the shape of cross entropy") {
  const Drawn<float> drawn(4, 9, true, 0.1);
  std::vector<float> out(4), lse(4), expected(4), expected_lse(4), dx(36), expected_dx(36);
  rapt_cross_entropy_options o = drawn.options();
  o.lse = expected_lse.data();
  REQUIRE(rapt_cross_entropy(drawn.x.data(), expected.data(), &o) == RAPT_OK);
  REQUIRE(rapt_cross_entropy_backward(drawn.x.data(), expected_dx.data(), &o) == RAPT_OK);
  const rapt::Rows<const float> x(drawn.x.data(), 4, 9, 9);
  rapt_cross_entropy_options of_values = RAPT_CROSS_ENTROPY_OPTIONS_INIT;
  of_values.label_smoothing = 0.1;
  of_values.weight = drawn.weight.data();
  of_values.lse = lse.data();
  CHECK(rapt::cross_entropy<float>(x, drawn.target, out, of_values) == RAPT_OK);
  CHECK(same_bits(out, expected));
  CHECK(rapt::cross_entropy_backward<float>(x, drawn.target, {dx.data(), 4, 9, 9}, of_values) == RAPT_OK);
  CHECK(same_bits(dx, expected_dx));
  CHECK(rapt::cross_entropy<float>(x, std::span(drawn.target).first(3), out, of_values) == RAPT_BAD_SIZE);
  CHECK(rapt::cross_entropy<float>(x, drawn.target, std::span(out).first(3), of_values) == RAPT_BAD_SIZE);
}
