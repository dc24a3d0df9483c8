// rapt.h's table of special values, for every function but attention, on every usable level.
#include "support/special_values.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "support/effort.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

// One row, and its softmax, log_softmax and logsumexp.
template <class T>
struct Row {
  using Element = T;
  std::vector<T> x;
  std::vector<T> bias = {};  // of the options; empty: not set
  std::vector<std::uint8_t> mask = {};
  std::vector<std::size_t> lengths = {};
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  std::vector<T> probabilities = {}, logs = {};
  T logsumexp = 0;

  std::size_t rows() const { return 1; }
  std::size_t cols() const { return x.size(); }
  void set_length(std::size_t length) { lengths = {length}; }
  void run() {
    const auto given = [](const auto &values) { return values.empty() ? nullptr : values.data(); };
    options.bias = given(bias);
    options.mask = given(mask);
    options.row_lengths = given(lengths);
    probabilities.resize(x.size());
    logs.resize(x.size());
    REQUIRE(Api<T>::softmax(x.data(), 0, probabilities.data(), 0, 1, x.size(), &options) == RAPT_OK);
    REQUIRE(Api<T>::log_softmax(x.data(), 0, logs.data(), 0, 1, x.size(), &options) == RAPT_OK);
    rapt_softmax_options of_sum = options;
    of_sum.empty_rows_are_zero = 0;
    REQUIRE(Api<T>::logsumexp(x.data(), 0, &logsumexp, 1, x.size(), &of_sum) == RAPT_OK);
  }
  bool is_nan() const { return all_nan(probabilities) && all_nan(logs) && std::isnan(logsumexp); }
  bool is_empty() const {
    return all_plus_zero(probabilities) && all_are(logs, -infinity<T>) && logsumexp == -infinity<T>;
  }
};

template <class T>
Row<T> run_row(Row<T> row) {
  row.run();
  return row;
}

const std::vector<std::size_t> widths = native_or_emulated<std::vector<std::size_t>>(
    {1, 2, 7, 16, 33, 64, 100, 257, 2049, 2100}, {1, 7, 33, 67, 257});

// Rows of ordinary values with `special` at one place, for places in every part of a vector loop.
template <class T, class Check>
void with_special_at_every_place(T special, Check &&check) {
  for (const std::size_t n : widths) {
    const std::size_t step = (n > 300 ? 97 : n > 70 ? 7 : 1) * native_or_emulated<std::size_t>(1, 5);
    for (std::size_t place = 0; place < n; place += step) {
      Row<T> row{std::vector<T>(n)};
      for (std::size_t i = 0; i < n; ++i) row.x[i] = static_cast<T>(static_cast<double>(i * 7 % 5) - 2.5);
      row.x[place] = special;
      CAPTURE(n);
      CAPTURE(place);
      check(row, place);
    }
  }
}

}  // namespace

TEST_CASE_TEMPLATE("NaN or +inf among the elements makes the whole row NaN", T, float, double) {
  on_every_level([] {
    for (const T special : {quiet_nan<T>, -quiet_nan<T>, infinity<T>}) {
      with_special_at_every_place(special, [](Row<T> row, std::size_t) {
        for (const bool empty_rows_are_zero : {false, true}) {
          row.options.empty_rows_are_zero = empty_rows_are_zero;
          row.run();
          if (!row.is_nan()) FAIL_CHECK("empty_rows_are_zero: " << empty_rows_are_zero);
        }
      });
    }
  });
}

TEST_CASE_TEMPLATE("an excluded element is never read into the result", T, float, double) {
  on_every_level([] {
    for (const T special : {quiet_nan<T>, infinity<T>, -infinity<T>, largest<T>}) {
      with_special_at_every_place(special, [](const Row<T> &row, std::size_t place) {
        if (row.cols() == 1) return;
        for (const auto &exclusion : exclusions_of<Row<T>>(place)) {
          Row<T> spoilt = row, harmless = row;
          harmless.x[place] = 0;
          for (Row<T> *one : {&spoilt, &harmless}) {
            exclusion.apply(*one);
            one->run();
          }
          std::size_t wrong = differences(spoilt.probabilities, harmless.probabilities) +
                              differences(spoilt.logs, harmless.logs) +
                              !same_bits(spoilt.logsumexp, harmless.logsumexp);
          for (const T p : spoilt.probabilities) wrong += std::isnan(p);
          const std::size_t end = exclusion.hides_the_rest ? row.cols() : place + 1;
          for (std::size_t i = place; i < end; ++i)
            wrong += !is_plus_zero(spoilt.probabilities[i]) + (spoilt.logs[i] != -infinity<T>);
          if (wrong != 0) FAIL_CHECK("excluded by " << std::string(exclusion.name) << ", wrong: " << wrong);
        }
      });
    }
  });
}

TEST_CASE_TEMPLATE("a row with no element left", T, float, double) {
  on_every_level([] {
    for (const std::size_t n : widths) {
      for (const auto &exclusion : exclusions_of_all<Row<T>>()) {
        CAPTURE(n);
        CAPTURE(std::string(exclusion.name));
        Row<T> row{std::vector<T>(n, quiet_nan<T>)};
        exclusion.apply(row);
        row.run();
        CHECK(row.is_empty());
      }
    }
  });
}

TEST_CASE_TEMPLATE("-inf among the elements has probability +0", T, float, double) {
  on_every_level([] {
    with_special_at_every_place(-infinity<T>, [](Row<T> row, std::size_t place) {
      if (row.cols() == 1) return;
      row.run();
      CHECK(is_plus_zero(row.probabilities[place]));
      CHECK(row.logs[place] == -infinity<T>);
      double sum = 0;
      for (const T p : row.probabilities) sum += double{p};
      CHECK(std::fabs(sum - 1) < 1e-4);
      CHECK(std::isfinite(row.logsumexp));
    });
  });
}

TEST_CASE_TEMPLATE("a row whose elements are all -inf", T, float, double) {
  on_every_level([] {
    for (const std::size_t n : widths) {
      CAPTURE(n);
      Row<T> row{std::vector<T>(n, -infinity<T>)};
      row.run();
      CHECK(all_nan(row.probabilities));
      CHECK(all_nan(row.logs));
      row.options.empty_rows_are_zero = 1;
      row.run();
      CHECK(row.is_empty());
    }
  });
}

// The rules are about scores, not about elements.
TEST_CASE_TEMPLATE("a score is finished: after scale, softcap and bias", T, float, double) {
  on_every_level([] {
    const auto run = [](std::vector<T> x, double scale, double softcap, const T *sink, bool biased) {
      Row<T> row{x};
      if (biased) row.bias.assign(x.size(), T(0));
      row.options.scale = scale;
      row.options.softcap = softcap;
      row.options.sinks = sink;
      row.run();
      return row;
    };
    const std::vector<T> minus{-infinity<T>, 1, 2}, plus{infinity<T>, 1, 2}, all(3, -infinity<T>);
    for (const bool biased : {false, true}) {
      CAPTURE(biased);
      CHECK(run(minus, -1, 0, nullptr, biased).is_nan());
      const Row<T> turned = run(plus, -1, 0, nullptr, biased);
      CHECK(is_plus_zero(turned.probabilities[0]));
      CHECK(std::isfinite(turned.logsumexp));
      // A softcap makes a score of every element but NaN finite.
      for (const auto &x : {minus, plus}) {
        const T cap = x[0] < 0 ? T(-5) : T(5);
        const Row<T> capped = run(x, 1, 5, nullptr, biased),
                     same = run({cap * 1000, 1, 2}, 1, 5, nullptr, biased);
        CHECK(differences(capped.probabilities, same.probabilities) == 0);
        CHECK(capped.probabilities[0] > 0);
        CHECK(double{capped.logs[0]} == doctest::Approx(double{cap} - double{capped.logsumexp}));
      }
      for (const T p : run(all, 1, 5, nullptr, biased).probabilities)
        CHECK(double{p} == doctest::Approx(1 / 3.0));
      // All scores -inf: a finite sink takes everything.
      const T sink = T(0.5), none = -infinity<T>;
      const Row<T> with_sink = run(all, 1, 0, &sink, biased);
      CHECK(all_plus_zero(with_sink.probabilities));
      CHECK(all_are(with_sink.logs, -infinity<T>));
      CHECK(same_bits(with_sink.logsumexp, sink));
      for (const T *nothing : {static_cast<const T *>(nullptr), &none}) {
        const Row<T> empty = run(all, 1, 0, nothing, biased);
        CHECK(all_nan(empty.probabilities));
        CHECK(all_nan(empty.logs));
        CHECK(empty.logsumexp == -infinity<T>);
      }
    }
  });
}

TEST_CASE_TEMPLATE("scores beyond the type's range", T, float, double) {
  on_every_level([] {
    const T large = largest<T> * T(0.9);
    const auto run = [&](double scale, double softcap, bool biased) {
      Row<T> row{{large, 1, 2}};
      if (biased) row.bias.assign(3, T(0));
      row.options.scale = scale;
      row.options.softcap = softcap;
      row.run();
      return row;
    };
    for (const double scale : {2.0, 0x1p16}) {
      const Row<T> exact = run(scale, 0, false);  // a product that is not rounded
      CHECK(exact.probabilities == std::vector<T>{1, 0, 0});
      CHECK(exact.logsumexp == infinity<T>);
    }
    CHECK(run(2, 0, true).is_nan());
    CHECK(run(0x1.1p16, 0, false).is_nan());
    const Row<T> capped = run(2, 5, false);
    CHECK(double{capped.logs[0]} == doctest::Approx(5 - double{capped.logsumexp}));
    CHECK(std::isfinite(capped.logsumexp));
  });
}

TEST_CASE_TEMPLATE("one visible element has probability 1, and no probability is above 1", T, float, double) {
  on_every_level([] {
    // Its log-probability is 0 only to within log_softmax's own bound.
    constexpr T bound = 4 * (std::numeric_limits<T>::epsilon() / 2);
    for (const T value : {T(0), T(-1e30), T(1e30), T(3.3), std::numeric_limits<T>::lowest()}) {
      for (const float scale : {1.0f, 0.3f, -1.7f, 1e-30f, 0.0f}) {
        for (const float softcap : {0.0f, 30.0f}) {
          Row<T> row{.x = std::vector<T>(37, quiet_nan<T>), .mask = std::vector<std::uint8_t>(37, 0)};
          row.x[20] = value;
          row.mask[20] = 1;
          row.options.scale = scale;
          row.options.softcap = softcap;
          row.run();
          CHECK(row.probabilities[20] == T(1));
          CHECK(std::fabs(row.logs[20]) <= bound);
        }
      }
      const Row<T> alone = run_row<T>({{value}});
      CHECK(alone.probabilities[0] == T(1));
      CHECK(std::fabs(alone.logs[0]) <= bound);
      CHECK(same_bits(alone.logsumexp, value));
    }
    for (const std::size_t n : widths) {
      Row<T> row{std::vector<T>(n, T(-30))};
      row.x[n / 2] = 30;
      row.run();
      for (const T p : row.probabilities) CHECK(p <= T(1));
    }
  });
}

TEST_CASE_TEMPLATE("sinks", T, float, double) {
  on_every_level([] {
    const auto with_sink = [](T sink) {
      Row<T> row{{1, 2, 3}};
      row.options.sinks = &sink;
      row.run();
      return row;
    };
    // A sink of -inf adds nothing; NaN and +inf spoil the row; a sink that dominates leaves nothing.
    const Row<T> without = run_row<T>({{1, 2, 3}}), nothing = with_sink(-infinity<T>),
                 large = with_sink(T(1e30));
    CHECK(differences(without.probabilities, nothing.probabilities) == 0);
    CHECK(same_bits(without.logsumexp, nothing.logsumexp));
    CHECK(all_nan(with_sink(quiet_nan<T>).probabilities));
    CHECK(all_nan(with_sink(infinity<T>).probabilities));
    CHECK(all_plus_zero(large.probabilities));
    CHECK(same_bits(large.logsumexp, T(1e30)));
  });
}

TEST_CASE_TEMPLATE("exp", T, float, double) {
  constexpr bool single = sizeof(T) == 4;
  struct Result {
    T x, y;
  };
  const Result results[] = {{-infinity<T>, 0},
                            {infinity<T>, infinity<T>},
                            {quiet_nan<T>, quiet_nan<T>},
                            {-quiet_nan<T>, quiet_nan<T>},
                            {0, 1},
                            {-T(0), 1},
                            {least_subnormal<T>, 1},
                            {-largest<T>, 0},
                            {largest<T>, infinity<T>},
                            {static_cast<T>(single ? 88.7229 : 709.7828), infinity<T>},
                            {static_cast<T>(single ? -103.98 : -745.14), 0},
                            {static_cast<T>(single ? -103.9 : -745.1), least_subnormal<T>}};
  on_every_level([&] {
    for (const std::size_t n : Sizes{1, 5, 40, 131}) {
      const auto exp_of = [&](T value) {
        std::vector<T> x(n, value), y(n, T(-3));
        Api<T>::exp(x.data(), y.data(), n);
        REQUIRE(all_are(y, y[0]));
        const T sum = Api<T>::exp_sum(x.data(), T(1), T(0), x.data(), n);
        REQUIRE(all_are(x, y[0]));
        if (!std::isfinite(y[0])) REQUIRE(same_bits(sum, y[0]));
        return y[0];
      };
      for (const Result &result : results) {
        CAPTURE(n);
        CAPTURE(result.x);
        CHECK(same_bits(exp_of(result.x), result.y));
      }
      CHECK(std::isfinite(exp_of(static_cast<T>(single ? 88.7228 : 709.7827))));
    }
  });
}

TEST_CASE_TEMPLATE("dot and scale follow IEEE arithmetic", T, float, double) {
  on_every_level([] {
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

// A dy that is not finite does not reach the row where its probability is 0.
TEST_CASE_TEMPLATE("softmax_backward", T, float, double) {
  on_every_level([] {
    const auto backward = [](const std::vector<T> &y, const std::vector<T> &dy) {
      std::vector<T> dx(y.size(), T(-3));
      REQUIRE(Api<T>::softmax_backward(y.data(), 0, dy.data(), 0, dx.data(), 0, 1, y.size(), T(0.5)) ==
              RAPT_OK);
      return dx;
    };
    for (const std::size_t n : widths) {
      CAPTURE(n);
      const std::size_t step = n > 70 ? 11 : native_or_emulated<std::size_t>(1, 5);
      for (std::size_t place = 0; place < n; place += step) {
        std::vector<T> y(n, T(1) / static_cast<T>(n)), dy(n);
        for (std::size_t i = 0; i < n; ++i) dy[i] = static_cast<T>(i % 3);
        y[place] = dy[place] = 0;
        const std::vector<T> expected = backward(y, dy);
        for (const T special : {quiet_nan<T>, infinity<T>, -infinity<T>}) {
          dy[place] = special;
          const std::vector<T> got = backward(y, dy);
          if (got[place] != 0 || differences(got, expected) != 0 || !all_finite(got))
            FAIL_CHECK("place " << place << ": " << special << " leaked");
        }
        y[place] = T(0.25);
        dy[place] = quiet_nan<T>;
        if (!all_nan(backward(y, dy))) FAIL_CHECK("place " << place << ": a NaN of dy was lost");
      }
    }
  });
}

TEST_CASE_TEMPLATE("a length of 0 reads and writes nothing", T, float, double) {
  on_every_level([] {
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
