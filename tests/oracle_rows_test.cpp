// Compares functions over vectors and rows on the scalar level with the oracle, where the numbers are made for a rule
// of rapt.h: sums of zeros, of bytes at their largest, arguments of exp next to its limits, ties of roundings.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "oracle/bounds.hpp"
#include "oracle/reached.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/faults.hpp"
#include "support/isa.hpp"
#include "support/matrix.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

namespace {

using Real = long double;
__extension__ using Wide = __int128;

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T nan_of = std::numeric_limits<T>::quiet_NaN();
template <class T>
constexpr bool measurable = std::numeric_limits<Real>::digits >= std::numeric_limits<T>::digits + 10;

}  // namespace

// Rows with another element size cannot interleave with the rows of the output, whatever the strides are.
TEST_CASE("rows of options between the rows of an output") {
  constexpr std::size_t rows = 4, cols = 8;
  constexpr std::ptrdiff_t stride = 2 * cols;
  alignas(64) unsigned char memory[1024] = {};
  const std::vector<rapt_f16> halves(rows * cols);
  const std::vector<float> floats(rows * cols);
  rapt_softmax_options o = RAPT_SOFTMAX_OPTIONS_INIT;
  o.bias = memory;
  o.bias_stride = stride;
  auto *half_out = reinterpret_cast<rapt_f16 *>(memory + cols * sizeof(float));
  auto *float_out = reinterpret_cast<float *>(memory + cols * sizeof(float));
  CHECK(rapt_softmax_f16(halves.data(), cols, half_out, stride, rows, cols, &o) == RAPT_BAD_OVERLAP);
  CHECK(std::count(memory, std::end(memory), 0) == 1024);
  CHECK(rapt_softmax_f32(floats.data(), cols, float_out, stride, rows, cols, &o) == RAPT_OK);
  std::fill(memory, std::end(memory), static_cast<unsigned char>(0));
  o.bias = nullptr;
  o.bias_stride = 0;
  o.mask = memory;
  o.mask_stride = stride;
  CHECK(rapt_softmax_f32(floats.data(), cols, reinterpret_cast<float *>(memory + cols), stride, rows, cols,
                         &o) == RAPT_BAD_OVERLAP);
  CHECK(std::count(memory, std::end(memory), 0) == 1024);
}

// If a call has a bias, all its elements are 0.
TEST_CASE_TEMPLATE("scores beyond the type's range", T, float, double) {
  const T large = std::numeric_limits<T>::max() * T(0.9);
  const std::vector<T> x{large, 1, 2}, zeros(3);
  struct Result {
    std::vector<T> probabilities, logs;
    T logsumexp;
  };
  const auto run = [&](double scale, double softcap, bool biased) {
    rapt_softmax_options o = RAPT_SOFTMAX_OPTIONS_INIT;
    o.scale = scale;
    o.softcap = softcap;
    o.bias = biased ? zeros.data() : nullptr;
    Result made{x, x, 0};
    REQUIRE(Api<T>::softmax(x.data(), 0, made.probabilities.data(), 0, 1, 3, &o) == RAPT_OK);
    REQUIRE(Api<T>::log_softmax(x.data(), 0, made.logs.data(), 0, 1, 3, &o) == RAPT_OK);
    REQUIRE(Api<T>::logsumexp(x.data(), 0, &made.logsumexp, 1, 3, &o) == RAPT_OK);
    return made;
  };
  on_every_level([&] {
    for (const bool biased : {false, true}) {
      for (const double scale : {2.0, 0x1p16}) {
        const Result exact = run(scale, 0, biased);  // a product that is not rounded
        CHECK(exact.probabilities == std::vector<T>{1, 0, 0});
        CHECK(exact.logsumexp == infinity<T>);
      }
      const Result rounded = run(0x1.1p16, 0, biased);
      for (std::size_t i = 0; i < 3; ++i)
        CHECK((std::isnan(rounded.probabilities[i]) && std::isnan(rounded.logs[i])));
      CHECK(std::isnan(rounded.logsumexp));
    }
    const Result capped = run(2, 5, false);
    CHECK(double{capped.logs[0]} == doctest::Approx(5 - double{capped.logsumexp}));
    CHECK(std::isfinite(capped.logsumexp));
  });
}

TEST_CASE_TEMPLATE("drawn calls of softmax_backward", T, float, double) {
  const ForcedIsa forced("scalar");
  if (!measurable<T>) return;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::size_t rows = random.below(6),
                      cols = random.one_in(5) ? 500 + random.below(50) : random.below(140);
    const auto stride = [&] {
      return static_cast<std::ptrdiff_t>(cols + (random.one_in(2) ? 0 : random.below(7)));
    };
    const std::ptrdiff_t y_stride = stride(), dy_stride = random.one_in(2) ? y_stride : stride();
    Matrix<T> y(rows, cols, y_stride, Placement::ends_at_guard, 0),
        dy(rows, cols, dy_stride, Placement::begins_at_guard, 8);
    std::vector<T> y_values(rows * cols), dy_values(rows * cols);
    for (std::size_t i = 0; i < y_values.size(); ++i) {
      y_values[i] = random.one_in(5) ? T(0) : static_cast<T>(random.uniform() / static_cast<double>(cols));
      dy_values[i] = static_cast<T>(random.gaussian());
      const bool is_odd = y_values[i] == 0 ? random.one_in(2) : random.one_in(20 * cols);
      if (is_odd) dy_values[i] = random.one_of({nan_of<T>, infinity<T>});
    }
    y.fill(y_values);
    dy.fill(dy_values);
    const std::size_t alias = random.below(3);
    const std::ptrdiff_t own_stride = stride();
    Matrix<T> own(rows, cols, own_stride, Placement::ends_at_guard, 0);
    const Matrix<T> &dx = alias == 0 ? own : alias == 1 ? y : dy;
    const T scale = static_cast<T>(random.one_of({1.0, -0.3, 0.125, 0.0}));
    CHECK(Api<T>::softmax_backward(y.data(), y_stride, dy.data(), dy_stride, dx.data(), dx.stride(), rows,
                                   cols, scale) == RAPT_OK);
    CHECK((y.gaps_intact() && dy.gaps_intact() && own.gaps_intact()));
    bool fine = true;
    for (std::size_t r = 0; r < rows; ++r) {
      Real mean = 0, size = 0;
      for (std::size_t c = r * cols; c < (r + 1) * cols; ++c) {
        if (y_values[c] == 0) continue;
        mean += Real{y_values[c]} * Real{dy_values[c]};
        size += std::fabs(Real{y_values[c]} * Real{dy_values[c]});
      }
      for (std::size_t c = 0; c < cols; ++c) {
        const Real p = y_values[r * cols + c], of = dy_values[r * cols + c];
        const Real exact = p == 0 ? 0 : Real{scale} * p * (of - mean);
        const Real bound = p == 0 ? 0 : std::fabs(Real{scale}) * p * (std::fabs(of) + size);
        const Real most = static_cast<Real>(softmax_backward_bound<T> * unit_of<T>) * bound;
        const bool is_near = std::fabs(dx.row(r)[c] - exact) <= most;
        fine = fine && (std::isfinite(mean) || p == 0 ? is_near : !std::isfinite(dx.row(r)[c]));
        if (p == 0) fine = fine && same_bits(dx.row(r)[c], T(0));
      }
    }
    CHECK(fine);
  }
}

TEST_CASE_TEMPLATE("drawn dot products and rows of them", E, float, double, F16, BF16) {
  using A = Number<E>;
  const ForcedIsa forced("scalar");
  if (!measurable<A>) return;
  std::size_t negative_zeros = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    enum : std::size_t { gaussian, equal, tiny, zeros, minus_zeros, special };  // tiny: products underflow
    const std::size_t kind = random.one_in(2) ? std::size_t{gaussian} : random.below(6);
    const std::size_t n = random.one_in(16)  ? 0
                          : random.one_in(8) ? 2000 + random.below(3000)
                          : random.one_in(4) ? 64 * random.below(5)
                                             : random.below(300),
                      rows = random.below(5);
    std::vector<E> query(n), values(rows * n);
    const auto number = [&](bool is_query) {
      if (kind == equal) return 1.1;
      if (kind == tiny) return std::sqrt(smallest<A>) * random.gaussian();
      if (kind == zeros) return random.one_of({0.0, 0.0, -0.0, -0.0, 1.0});
      if (kind == minus_zeros) return is_query ? 1.0 : -0.0;
      if (kind == special && random.one_in(2 * n + 1))
        return random.one_of({infinity<double>, -infinity<double>, nan_of<double>, 0.0});
      return random.gaussian();
    };
    for (E &x : query) x = E(static_cast<A>(number(true)));
    for (E &x : values) x = E(static_cast<A>(number(false)));
    const std::ptrdiff_t gap = static_cast<std::ptrdiff_t>(random.below(5)),
                         step = static_cast<std::ptrdiff_t>(n) + gap;
    const bool reversed = random.one_in(2), same = rows > 0 && random.one_in(6);
    Matrix<E> memory(rows, n, step, Placement::ends_at_guard, 0);
    memory.fill(values);
    const A scale = static_cast<A>(random.one_of({1.0, 0.3, -2.0, 0.0}));
    const E *first = reversed && rows > 0 && !same ? memory.row(rows - 1) : memory.data();
    const std::ptrdiff_t stride = same ? 0 : reversed ? -step : step;
    Matrix<A> out(1, rows, static_cast<std::ptrdiff_t>(rows), Placement::ends_at_guard, 0);
    Api<E>::dot_rows(query.data(), first, stride, rows, n, scale, out.data());
    CHECK(out.gaps_intact());
    bool fine = true;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t at = same ? 0 : reversed ? rows - 1 - r : r;
      const E *row = values.data() + at * n;
      const A dot = Api<E>::dot(query.data(), row, n);
      Real sum = 0, size = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const Real product = Real{static_cast<A>(query[i])} * Real{static_cast<A>(row[i])};
        sum += product;
        size += std::fabs(product);
      }
      const Real underflow = static_cast<Real>(n) * Real{smallest<A>};
      const Real most = static_cast<Real>(dot_bound<A>(n) * unit_of<A>) * size + underflow;
      fine = fine && (std::isnan(sum)      ? std::isnan(dot)
                      : std::isfinite(sum) ? std::fabs(dot - sum) <= most
                                           : dot == sum);
      // All partial sums begin with +0, even those of lanes without elements.
      if (kind != tiny) fine = fine && !(dot == 0 && std::signbit(dot));
      negative_zeros += kind == minus_zeros && n >= 64 && n % 64 == 0;
      fine = fine && same_bits(out.row(0)[r], static_cast<A>(scale * dot));
    }
    CHECK(fine);
  }
  CHECK(negative_zeros > 0);
}

// Some lengths are just below or above the longest sums that fit in 32 bits: 65793 * 255 * 128 is just below
// 2^31.
TEST_CASE_TEMPLATE("sums of bytes are exact at every length", E, std::int8_t, std::uint8_t) {
  const ForcedIsa forced("scalar");
  constexpr bool is_signed = std::is_same_v<E, std::int8_t>;
  for (const std::size_t n :
       Sizes{0, 1, 63, 64, 65, 65792, 65793, 65794, 99999, 131071, 131072, 131073, 140000}) {
    CAPTURE(n);
    const E largest = is_signed ? static_cast<E>(-128) : static_cast<E>(255);
    const std::vector<E> a(n, largest);
    for (const int factor : {-128, 127}) {
      const std::vector<std::int8_t> b(n, static_cast<std::int8_t>(factor));
      const std::int64_t exact = static_cast<std::int64_t>(n) * int{largest} * factor;
      CHECK(Api<E>::dot(a.data(), b.data(), n) == exact);
      for (const float scale : {0.5f, -0.5f}) {
        float out = -7;
        Api<E>::dot_rows(a.data(), b.data(), 0, 1, n, scale, &out);
        CHECK(same_bits(out, scale * static_cast<float>(exact)));
      }
    }
  }
}

TEST_CASE_TEMPLATE("exp and exp_sum", T, float, double) {
  const ForcedIsa forced("scalar");
  if (!measurable<T>) return;
  std::vector<T> x{infinity<T>, -infinity<T>, nan_of<T>, T(0), T(-0.0)};
  const int least = sizeof(T) == 4 ? -151 : -1076, most = sizeof(T) == 4 ? 129 : 1025;
  // Adds the inputs where exp is a power of two, the inputs where x / ln 2 is halfway between integers, and
  // the neighbours of these inputs.
  for (int k = 2 * least; k <= 2 * most; ++k) {
    const T at = static_cast<T>(0.5L * k * 0.693147180559945309417232121458L);
    for (const T near : {at, std::nextafter(at, infinity<T>), std::nextafter(at, -infinity<T>)})
      x.push_back(near);
  }
  const Real overflow = std::log(Real{std::numeric_limits<T>::max()});
  Random random(3);
  for (int i = 0; i < 3000; ++i) {
    x.push_back(static_cast<T>((random.uniform() * 2 - 1) * static_cast<double>(overflow) * 1.2));
  }
  std::vector<T> y(x.size());
  Api<T>::exp(x.data(), y.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    const Real exact = std::exp(Real{x[i]});
    if (std::isnan(x[i])) {
      CHECK(std::isnan(y[i]));
    } else if (Real{x[i]} > overflow) {
      CHECK(y[i] == infinity<T>);
    } else if (x[i] == -infinity<T>) {
      CHECK(same_bits(y[i], T(0)));
    } else {
      const Real ulp = ulp_at<T>(static_cast<double>(exact));
      if (!(std::fabs(y[i] - exact) < static_cast<Real>(exp_bound) * ulp))
        CHECK(y[i] == static_cast<T>(exact));
      CHECK(!std::signbit(y[i]));
    }
  }
  for (const std::size_t n : Sizes{0, 1, 5, 63, 64, 65, 128, 129, 1000}) {
    for (const T shift : {T(0), T(3), T(-2)}) {
      const T scale = static_cast<T>(-0.3);
      std::vector<T> in(n), out(n + 1, T(-7)), t(n), expected(n);
      for (T &value : in) value = static_cast<T>(3 * random.gaussian());
      for (std::size_t i = 0; i < n; ++i) t[i] = std::fma(scale, in[i], -shift);
      Api<T>::exp(t.data(), expected.data(), n);
      const T sum = Api<T>::exp_sum(in.data(), scale, shift, out.data(), n);
      Real exact = 0;
      for (std::size_t i = 0; i < n; ++i) exact += Real{out[i]};
      CHECK(std::equal(expected.begin(), expected.end(), out.begin()));
      CHECK(out[n] == T(-7));
      CHECK(std::fabs(sum - exact) <= static_cast<Real>(exp_sum_bound<T> * unit_of<T>) * exact);
    }
    for (const T special : {infinity<T>, nan_of<T>}) {
      std::vector<T> in(n, T(1)), out(n);
      if (n != 0) in[n / 2] = special;
      const T sum = Api<T>::exp_sum(in.data(), T(1), T(0), out.data(), n);
      CHECK(same_bits(sum, n == 0 ? T(0) : special));
    }
  }
}

TEST_CASE_TEMPLATE("conversions and products with a factor", E, F16, BF16) {
  const ForcedIsa forced("scalar");
  std::vector<E> all;
  for (unsigned bits = 0; bits < 65536; ++bits) all.push_back(E::of_bits(static_cast<std::uint16_t>(bits)));
  std::vector<float> wide(all.size()), ties;
  Api<E>::to_f32(all.data(), wide.data(), all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!same_bits(wide[i], static_cast<float>(all[i]))) CHECK(i == all.size());
    // These are the element, the tie between it and its neighbour, and the f32 numbers on both sides of the
    // tie.
    const float next = static_cast<float>(E::of_bits(static_cast<std::uint16_t>(i + 1)));
    const float tie = static_cast<float>(0.5 * double{wide[i]} + 0.5 * double{next});
    for (const float x : {wide[i], tie, std::nextafter(tie, INFINITY), std::nextafter(tie, -INFINITY)})
      ties.push_back(x);
  }
  Random random(5);
  for (int i = 0; i < 50000; ++i) ties.push_back(from_bits<float>(static_cast<std::uint32_t>(random.next())));
  std::vector<E> narrow(ties.size()), scaled(all.size());
  Api<E>::from_f32(ties.data(), narrow.data(), ties.size());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < ties.size(); ++i) wrong += !same_bits(narrow[i], E(double{ties[i]}));
  CHECK(wrong == 0);
  for (const float factor : {0.3f, -2.0f, 1e-30f, 1e30f}) {
    Api<E>::scale(all.data(), factor, scaled.data(), all.size());
    wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float product = static_cast<float>(all[i]) * factor;
      wrong += !same_bits(scaled[i], E(double{product}));
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE_TEMPLATE("products with a factor are rounded once", T, float, double) {
  const ForcedIsa forced("scalar");
  Random random(7);
  std::vector<T> x(1000), y(1001, T(-7));
  for (T &value : x) value = from_bits<T>(static_cast<BitsOf<T>>(random.next()));
  x[5] = T(0);
  x[6] = T(-0.0);
  for (const T factor : {T(0.3), T(-1e-30), T(1e30), infinity<T>, T(0)}) {
    Api<T>::scale(x.data(), factor, y.data(), x.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < x.size(); ++i) wrong += !same_bits(y[i], x[i] * factor);
    CHECK(wrong == 0);
    CHECK(y[1000] == T(-7));
  }
}

TEST_CASE_TEMPLATE("a length of 0 reads and writes nothing", T, float, double) {
  on_every_level([] {
    T *const nowhere = nullptr;
    CHECK(same_bits(Api<T>::dot(nowhere, nowhere, 0), T(0)));
    Api<T>::dot_rows(nowhere, nowhere, 0, 0, 8, T(1), nowhere);
    Api<T>::scale(nowhere, T(2), nowhere, 0);
    Api<T>::exp(nowhere, nowhere, 0);
    CHECK(same_bits(Api<T>::exp_sum(nowhere, T(1), T(0), nowhere, 0), T(0)));
    T x = 1, y = 9;
    for (const auto &[rows, cols] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 0}, {0, 0}}) {
      CHECK(Api<T>::softmax(&x, 1, &y, 1, rows, cols, nullptr) == RAPT_OK);
      CHECK(Api<T>::log_softmax(&x, 1, &y, 1, rows, cols, nullptr) == RAPT_OK);
      CHECK(Api<T>::softmax_backward(&x, 1, &x, 1, &y, 1, rows, cols, T(1)) == RAPT_OK);
      CHECK(y == 9);
    }
  });
}
