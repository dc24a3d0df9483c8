// rapt.h's table of special values, for every function on every usable level.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

template <class T>
constexpr T infinity = std::numeric_limits<T>::infinity();
template <class T>
constexpr T quiet_nan = std::numeric_limits<T>::quiet_NaN();

template <class T>
bool is_plus_zero(T value) {
  return bits_of(value) == 0;
}

template <class T>
bool all_nan(const std::vector<T> &values) {
  for (const T value : values) {
    if (!std::isnan(value)) return false;
  }
  return true;
}

// A row's softmax, log_softmax and logsumexp.
template <class T>
struct RowResult {
  std::vector<T> probabilities, logs;
  T logsumexp;
};

template <class T>
RowResult<T> run_row(const std::vector<T> &x, const rapt_softmax_options *options = nullptr) {
  RowResult<T> result{std::vector<T>(x.size()), std::vector<T>(x.size()), T(0)};
  REQUIRE(Api<T>::softmax(x.data(), 0, result.probabilities.data(), 0, 1, x.size(), options) == RAPT_OK);
  REQUIRE(Api<T>::log_softmax(x.data(), 0, result.logs.data(), 0, 1, x.size(), options) == RAPT_OK);
  REQUIRE(Api<T>::logsumexp(x.data(), 0, &result.logsumexp, 1, x.size(), options) == RAPT_OK);
  return result;
}

rapt_softmax_options default_options() { return RAPT_SOFTMAX_OPTIONS_INIT; }

const std::vector<std::size_t> widths = native_or_emulated<std::vector<std::size_t>>(
    {1, 2, 7, 16, 33, 64, 100, 257, 2049, 2100}, {1, 7, 33, 67, 257});

// Rows of ordinary values with `special` at one place, for places in every part of a vector loop.
template <class T, class Check>
void with_special_at_every_place(T special, Check &&check) {
  for (const std::size_t n : widths) {
    const std::size_t step = (n > 300 ? 97 : n > 70 ? 7 : 1) * native_or_emulated<std::size_t>(1, 5);
    for (std::size_t place = 0; place < n; place += step) {
      std::vector<T> x(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(static_cast<double>(i * 7 % 5) - 2.5);
      x[place] = special;
      CAPTURE(n);
      CAPTURE(place);
      check(x, place);
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("NaN or +inf among the elements makes the whole row NaN", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const T special : {quiet_nan<T>, -quiet_nan<T>, infinity<T>}) {
      with_special_at_every_place(special, [](const std::vector<T> &x, std::size_t) {
        for (const bool empty_rows_are_zero : {false, true}) {
          auto options = default_options();
          options.empty_rows_are_zero = empty_rows_are_zero;
          const RowResult<T> result = run_row(x, &options);
          if (!all_nan(result.probabilities)) FAIL_CHECK("softmax");
          if (!all_nan(result.logs)) FAIL_CHECK("log_softmax");
          if (!std::isnan(result.logsumexp)) FAIL_CHECK("logsumexp");
        }
      });
    }
  });
}

TEST_CASE_TEMPLATE("an excluded element is never read into the result", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const T special : {quiet_nan<T>, infinity<T>, -infinity<T>, std::numeric_limits<T>::max()}) {
      with_special_at_every_place(special, [](const std::vector<T> &x, std::size_t place) {
        if (x.size() == 1) return;
        auto harmless = x;
        harmless[place] = 0;
        const auto check = [&](const rapt_softmax_options &options, std::size_t first_excluded,
                               std::size_t end) {
          const RowResult<T> got = run_row(x, &options), expected = run_row(harmless, &options);
          std::size_t wrong = 0;
          for (std::size_t i = 0; i < x.size(); ++i) {
            wrong += !same_bits(got.probabilities[i], expected.probabilities[i]);
            wrong += !same_bits(got.logs[i], expected.logs[i]);
            wrong += std::isnan(got.probabilities[i]);
            if (i < first_excluded || i >= end) continue;
            wrong += !is_plus_zero(got.probabilities[i]);
            wrong += got.logs[i] != -infinity<T>;
          }
          wrong += !same_bits(got.logsumexp, expected.logsumexp);
          if (wrong != 0) FAIL_CHECK("first excluded column: " << first_excluded << ", wrong: " << wrong);
        };
        std::vector<std::uint8_t> mask(x.size(), 1);
        mask[place] = 0;
        auto options = default_options();
        options.mask = mask.data();
        check(options, place, place + 1);

        std::vector<T> bias(x.size(), T(0.5));
        bias[place] = -infinity<T>;
        options = default_options();
        options.bias = bias.data();
        check(options, place, place + 1);
        options.softcap = 20;
        check(options, place, place + 1);

        options = default_options();
        options.row_lengths = &place;
        check(options, place, x.size());

        options = default_options();
        options.causal = RAPT_CAUSAL_OFFSET;
        options.causal_offset = static_cast<std::ptrdiff_t>(place) - 1;
        check(options, place, x.size());
      });
    }
  });
}

TEST_CASE_TEMPLATE("a row with no element left", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t n : widths) {
      CAPTURE(n);
      const std::vector<T> x(n, quiet_nan<T>);
      const std::vector<std::uint8_t> mask(n, 0);
      const std::vector<T> bias(n, -infinity<T>);
      const std::size_t length = 0;
      for (int kind = 0; kind < 4; ++kind) {
        CAPTURE(kind);
        auto options = default_options();
        if (kind == 0) options.mask = mask.data();
        if (kind == 1) options.bias = bias.data();
        if (kind == 2) options.row_lengths = &length;
        if (kind == 3) {
          options.causal = RAPT_CAUSAL_OFFSET;
          options.causal_offset = -1;
        }
        const RowResult<T> result = run_row(x, &options);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) {
          wrong += !is_plus_zero(result.probabilities[i]);
          wrong += result.logs[i] != -infinity<T>;
        }
        CHECK(wrong == 0);
        CHECK(result.logsumexp == -infinity<T>);
      }
    }
  });
}

TEST_CASE_TEMPLATE("-inf among the elements has probability +0", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    with_special_at_every_place(-infinity<T>, [](const std::vector<T> &x, std::size_t place) {
      if (x.size() == 1) return;
      const RowResult<T> result = run_row(x);
      CHECK(is_plus_zero(result.probabilities[place]));
      CHECK(result.logs[place] == -infinity<T>);
      double sum = 0;
      for (const T p : result.probabilities) sum += double{p};
      CHECK(std::fabs(sum - 1) < 1e-4);
      CHECK(std::isfinite(result.logsumexp));
    });
  });
}

TEST_CASE_TEMPLATE("a row whose elements are all -inf", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t n : widths) {
      CAPTURE(n);
      const std::vector<T> x(n, -infinity<T>);
      const RowResult<T> plain = run_row(x);
      CHECK(all_nan(plain.probabilities));
      CHECK(all_nan(plain.logs));
      auto options = default_options();
      options.empty_rows_are_zero = 1;
      const RowResult<T> zeros = run_row(x, &options);
      std::size_t wrong = 0;
      for (const T p : zeros.probabilities) wrong += !is_plus_zero(p);
      for (const T log : zeros.logs) wrong += log != -infinity<T>;
      CHECK(wrong == 0);
      CHECK(zeros.logsumexp == -infinity<T>);
    }
  });
}

TEST_CASE_TEMPLATE("one visible element has probability 1, and no probability is above 1", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    for (const T value : {T(0), T(-1e30), T(1e30), T(3.3), std::numeric_limits<T>::lowest()}) {
      for (const float scale : {1.0f, 0.3f, -1.7f, 1e-30f, 0.0f}) {
        for (const float softcap : {0.0f, 30.0f}) {
          std::vector<T> x(37, quiet_nan<T>);
          x[20] = value;
          std::vector<std::uint8_t> mask(37, 0);
          mask[20] = 1;
          auto options = default_options();
          options.mask = mask.data();
          options.scale = scale;
          options.softcap = softcap;
          const RowResult<T> result = run_row(x, &options);
          CHECK(result.probabilities[20] == T(1));
          // Its log-probability is 0 only to within log_softmax's own bound.
          constexpr T bound = 4 * (std::numeric_limits<T>::epsilon() / 2);
          CHECK(std::fabs(result.logs[20]) <= bound);
          const RowResult<T> alone = run_row(std::vector<T>{value});
          CHECK(alone.probabilities[0] == T(1));
          CHECK(std::fabs(alone.logs[0]) <= bound);
          CHECK(same_bits(alone.logsumexp, value));
        }
      }
    }
    for (const std::size_t n : widths) {
      std::vector<T> x(n, T(-30));
      x[n / 2] = 30;
      for (const T p : run_row(x).probabilities) CHECK(p <= T(1));
    }
  });
}

TEST_CASE_TEMPLATE("sinks", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    const std::vector<T> x = {1, 2, 3};
    const auto with_sink = [&](T sink) {
      auto options = default_options();
      options.sinks = &sink;
      return run_row(x, &options);
    };
    // A sink of -inf adds nothing; one of NaN or +inf spoils the row; one that dominates leaves nothing.
    const RowResult<T> without = run_row(x), nothing = with_sink(-infinity<T>);
    for (std::size_t i = 0; i < 3; ++i) CHECK(same_bits(without.probabilities[i], nothing.probabilities[i]));
    CHECK(same_bits(without.logsumexp, nothing.logsumexp));
    CHECK(all_nan(with_sink(quiet_nan<T>).probabilities));
    CHECK(all_nan(with_sink(infinity<T>).probabilities));
    for (const T p : with_sink(T(1e30)).probabilities) CHECK(is_plus_zero(p));
    CHECK(same_bits(with_sink(T(1e30)).logsumexp, T(1e30)));
  });
}

TEST_CASE_TEMPLATE("exp", T, float, double) {
  const bool single = sizeof(T) == 4;
  for_each_usable_isa([&](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t n : Sizes{1, 5, 40, 131}) {
      const auto exp_of = [&](T value) {
        std::vector<T> x(n, value), y(n, T(-3));
        Api<T>::exp(x.data(), y.data(), n);
        for (const T other : y) REQUIRE(same_bits(other, y[0]));
        const T sum = Api<T>::exp_sum(x.data(), T(1), T(0), x.data(), n);
        for (const T other : x) REQUIRE(same_bits(other, y[0]));
        if (!std::isfinite(y[0])) REQUIRE(same_bits(sum, y[0]));
        return y[0];
      };
      CHECK(is_plus_zero(exp_of(-infinity<T>)));
      CHECK(exp_of(infinity<T>) == infinity<T>);
      CHECK(std::isnan(exp_of(quiet_nan<T>)));
      CHECK(std::isnan(exp_of(-quiet_nan<T>)));
      CHECK(exp_of(T(0)) == T(1));
      CHECK(exp_of(-T(0)) == T(1));
      CHECK(exp_of(std::numeric_limits<T>::denorm_min()) == T(1));
      CHECK(is_plus_zero(exp_of(std::numeric_limits<T>::lowest())));
      CHECK(exp_of(std::numeric_limits<T>::max()) == infinity<T>);
      CHECK(exp_of(static_cast<T>(single ? 88.7229 : 709.7828)) == infinity<T>);
      CHECK(std::isfinite(exp_of(static_cast<T>(single ? 88.7228 : 709.7827))));
      CHECK(is_plus_zero(exp_of(static_cast<T>(single ? -103.98 : -745.14))));
      CHECK(exp_of(static_cast<T>(single ? -103.9 : -745.1)) == std::numeric_limits<T>::denorm_min());
    }
  });
}

TEST_CASE_TEMPLATE("dot and scale follow IEEE arithmetic", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    CHECK(is_plus_zero(Api<T>::dot(nullptr, nullptr, 0)));
    for (const std::size_t n : Sizes{1, 9, 64, 130}) {
      for (std::size_t place = 0; place < n; ++place) {
        std::vector<T> a(n, T(1)), b(n, T(1));
        const auto dot = [&] { return Api<T>::dot(a.data(), b.data(), n); };
        a[place] = infinity<T>;
        const bool plus = dot() == infinity<T>;
        b[place] = T(-1);
        const bool minus = dot() == -infinity<T>;
        b[place] = T(0);
        const bool invalid = std::isnan(dot());
        a[place] = T(1);
        b[place] = quiet_nan<T>;
        const bool not_a_number = std::isnan(dot());
        CHECK((plus && minus && invalid && not_a_number));
      }
    }
    const T x[] = {infinity<T>, -infinity<T>, quiet_nan<T>, T(0), -T(0), T(2)};
    T y[6];
    Api<T>::scale(x, T(-2), y, 6);
    const T expected[] = {-infinity<T>, infinity<T>, quiet_nan<T>, -T(0), T(0), T(-4)};
    for (int i = 0; i < 6; ++i) CHECK(same_bits(y[i], expected[i]));
  });
}

TEST_CASE_TEMPLATE("softmax_backward", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    const auto backward = [](const std::vector<T> &y, const std::vector<T> &dy) {
      std::vector<T> dx(y.size(), T(-3));
      REQUIRE(Api<T>::softmax_backward(y.data(), 0, dy.data(), 0, dx.data(), 0, 1, y.size(), T(0.5)) ==
              RAPT_OK);
      return dx;
    };
    for (const std::size_t n : widths) {
      CAPTURE(n);
      for (std::size_t place = 0; place<n; place += n> 70 ? 11 : native_or_emulated<std::size_t>(1, 5)) {
        std::vector<T> y(n, T(1) / static_cast<T>(n)), dy(n, T(1));
        for (std::size_t i = 0; i < n; ++i) dy[i] = static_cast<T>(i % 3);
        y[place] = 0;
        auto harmless = dy;
        harmless[place] = 0;
        const std::vector<T> expected = backward(y, harmless);
        for (const T special : {quiet_nan<T>, infinity<T>, -infinity<T>}) {
          dy[place] = special;
          const std::vector<T> got = backward(y, dy);
          std::size_t wrong = got[place] != 0;
          for (std::size_t i = 0; i < n; ++i) wrong += !same_bits(got[i], expected[i]) || std::isnan(got[i]);
          if (wrong != 0) FAIL_CHECK("place " << place << ": wrong " << wrong);
        }
        // Where the probability is not 0, a NaN reaches the whole row.
        y[place] = T(0.25);
        dy[place] = quiet_nan<T>;
        const std::vector<T> spoilt = backward(y, dy);
        if (!all_nan(spoilt)) FAIL_CHECK("place " << place << ": a NaN of dy was lost");
      }
    }
  });
}

TEST_CASE_TEMPLATE("a length of 0 reads and writes nothing", T, float, double) {
  for_each_usable_isa([](const std::string &isa) {
    CAPTURE(isa);
    T *const nowhere = nullptr;
    CHECK(is_plus_zero(Api<T>::dot(nowhere, nowhere, 0)));
    Api<T>::dot_rows(nowhere, nowhere, 0, 0, 8, T(1), nowhere);
    Api<T>::scale(nowhere, T(2), nowhere, 0);
    Api<T>::exp(nowhere, nowhere, 0);
    CHECK(is_plus_zero(Api<T>::exp_sum(nowhere, T(1), T(0), nowhere, 0)));
    T x = 1, y = 9;
    for (const auto &[rows, cols] : {std::pair<std::size_t, std::size_t>{0, 1}, {1, 0}, {0, 0}}) {
      CHECK(Api<T>::softmax(&x, 1, &y, 1, rows, cols, nullptr) == RAPT_OK);
      CHECK(Api<T>::log_softmax(&x, 1, &y, 1, rows, cols, nullptr) == RAPT_OK);
      CHECK(Api<T>::softmax_backward(&x, 1, &x, 1, &y, 1, rows, cols, T(1)) == RAPT_OK);
      CHECK(y == 9);
    }
  });
}
