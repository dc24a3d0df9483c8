// Tests the error bounds of softmax, log_softmax and logsumexp. Rows are Gaussian with many spreads and
// lengths, or are made to give large errors in simple sums. Only the best level runs, because all levels give
// the same bits.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/effort.hpp"
#include "support/inputs.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"
#include "support/worst_errors.hpp"

using namespace rapt::test;

namespace {

using Real = long double;

template <class T>
constexpr Real unit = sizeof(T) == 4 ? 0x1p-24L : 0x1p-53L;

// Tells whether Real has enough digits to measure the errors of T. It always has enough for f32.
template <class T>
constexpr bool measurable = std::numeric_limits<Real>::digits >= std::numeric_limits<T>::digits + 10;

// Returns exp(x) with an error far below a unit of T.
template <class T>
Real exact_exp(Real x) {
  return sizeof(T) == 4 ? std::exp(static_cast<double>(x)) : std::exp(x);
}

template <class T>
void check_row(const std::vector<T> &x, WorstErrors &worst) {
  const std::size_t n = x.size();
  std::vector<T> probability(n), log(n);
  T logsumexp = 0;
  REQUIRE(Api<T>::softmax(x.data(), 0, probability.data(), 0, 1, n, nullptr) == RAPT_OK);
  REQUIRE(Api<T>::log_softmax(x.data(), 0, log.data(), 0, 1, n, nullptr) == RAPT_OK);
  REQUIRE(Api<T>::logsumexp(x.data(), 0, &logsumexp, 1, n, nullptr) == RAPT_OK);

  const Real max = *std::max_element(x.begin(), x.end());
  Real sum = 0, lost = 0;  // Neumaier summation works even if the first term is not the largest
  for (const T value : x) {
    const Real term = exact_exp<T>(value - max), before = sum;
    sum += term;
    lost += before >= term ? (before - sum) + term : (term - sum) + before;
  }
  sum += lost;
  const Real log_sum = std::log(sum);
  Real of_probability = 0, of_log = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Real exact = exact_exp<T>(x[i] - max) / sum, exact_log = x[i] - max - log_sum;
    // Near the smallest normal number, both 0 and the normal result are right.
    if (exact > 2 * std::numeric_limits<T>::min()) {
      of_probability = std::max(of_probability, std::fabs(probability[i] - exact) / exact);
    }
    of_log = std::max(of_log, std::fabs(log[i] - exact_log) / std::max(Real{1}, std::fabs(exact_log)));
  }
  const Real exact_sum = max + log_sum;
  const Real of_sum = std::fabs(logsumexp - exact_sum) / std::max(Real{1}, std::fabs(exact_sum));
  const auto in_units = [](Real error) { return static_cast<double>(error / unit<T>); };
  worst.see("softmax", in_units(of_probability), sizeof(T) == 4 ? 6 : 10);
  worst.see("log_softmax", in_units(of_log), sizeof(T) == 4 ? 6 : 12);
  worst.see("logsumexp", in_units(of_sum), sizeof(T) == 4 ? 6 : 12);
}

}  // namespace

TEST_CASE_TEMPLATE("Gaussian rows of any spread and length", T, float, double) {
  if (!measurable<T>) return;
  struct Batch {
    std::size_t cols, rows;
  };
  for (const double sigma : {1.0, 2.0, 4.0, 8.0, 16.0, 40.0}) {
    WorstErrors worst;
    for (const Batch &batch :
         {Batch{100, 400}, Batch{1000, 200}, Batch{8192, 60}, Batch{65536, 4}, Batch{1 << 20, 1}}) {
      if (emulated() && batch.cols > 1000) continue;
      for (std::size_t r = 0; r < native_or_emulated<std::size_t>(batch.rows, 2); ++r) {
        Random random(batch.cols * 1000 + r);
        std::vector<T> x(batch.cols);
        for (T &value : x) value = static_cast<T>(sigma * random.gaussian());
        check_row(x, worst);
      }
    }
    worst.print<T>("sigma " + std::to_string(static_cast<int>(sigma)));
  }
}

TEST_CASE_TEMPLATE("rows made to lose", T, float, double) {
  if (!measurable<T>) return;
  using MakeRow = std::function<T(std::size_t i, std::size_t n, Random &)>;
  struct Kind {
    const char *name;
    bool is_sorted;
    MakeRow make;
  };
  const double half_unit = sizeof(T) == 4 ? -16.64 : -36.74;  // just above half a unit of exp(0)
  const Kind kinds[] = {
      {"one large term, then half units", false,
       [&](auto i, auto, auto &) { return i == 0 ? 0 : half_unit; }},
      {"half units, then one large term", false,
       [&](auto i, auto n, auto &) { return i + 1 == n ? 0 : half_unit; }},
      {"a large term in every block", false,
       [&](auto i, auto, auto &) { return i % 64 == 0 ? 0 : half_unit; }},
      {"a large term in every lane", false, [&](auto i, auto, auto &) { return i < 64 ? 0 : half_unit; }},
      {"half units of each term before", false,
       [&](auto i, auto, auto &) {
         return i == 0 ? 0 : half_unit + std::log(1.0 + static_cast<double>(i) / 16);
       }},
      {"rising", true, [&](auto, auto, auto &random) { return 4 * random.gaussian(); }},
      {"clusters far apart", false,
       [&](auto i, auto, auto &random) {
         return -8.0 * static_cast<double>(i / 64 % 8) + 1e-3 * random.gaussian();
       }},
      {"nearly equal", false, [&](auto, auto, auto &random) { return 1e-6 * random.gaussian(); }},
      {"a half and a long tail", false,
       [&](auto i, auto n, auto &random) {
         return i == n / 2 ? 0 : -std::log(static_cast<double>(n)) + 0.1 * random.gaussian();
       }},
  };
  for (const Kind &kind : kinds) {
    CAPTURE(std::string(kind.name));
    WorstErrors worst;
    for (const std::size_t n : Sizes{2, 17, 64, 65, 300, 2048, 5000, 50257, 200000}) {
      if (emulated() && n > 300) continue;
      Random random(n);
      std::vector<T> x(n);
      for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<T>(kind.make(i, n, random));
      if (kind.is_sorted) std::sort(x.begin(), x.end());
      check_row(x, worst);
      std::reverse(x.begin(), x.end());
      check_row(x, worst);
    }
    worst.print<T>(kind.name);
  }
}
