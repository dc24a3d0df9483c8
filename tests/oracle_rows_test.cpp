// Compares the functions over vectors and rows on the scalar level with the oracle. The calls are drawn from
// all options, element types, layouts and limits. Results must have the accuracy that rapt.h promises. Each
// case is then called again on one of the other levels, which take turns, and must give the same bits.
//
// RAPT_ORACLE_CASE=<seed> runs one case of softmax again.
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

std::string running;  // names the case in the report of a fault

enum class Function { softmax, log_softmax, logsumexp };
constexpr const char *function_names[] = {"softmax", "log_softmax", "logsumexp"};

// Holds a call of softmax, log_softmax or logsumexp on elements of type E. Arrays are dense. An array that
// repeats has only one row, which all rows use.
template <class E>
struct Rows {
  using A = Number<E>;
  std::uint64_t seed = 0;
  std::size_t rows = 1, cols = 1;
  std::vector<E> x;
  double scale = 0, softcap = 0;
  std::vector<A> bias, sinks;
  std::vector<std::uint8_t> mask;
  bool bias_repeats = false, mask_repeats = false;
  std::vector<std::size_t> lengths;
  int causal = 0;
  std::ptrdiff_t causal_offset = 0;
  bool empty_rows_are_zero = false;

  double given_scale() const { return scale == 0 ? 1 : scale; }
  A bias_at(std::size_t r, std::size_t c) const { return bias[(bias_repeats ? 0 : r) * cols + c]; }
  bool visible(std::size_t r, std::size_t c) const {
    const auto row = static_cast<Wide>(r), col = static_cast<Wide>(c);
    if (!lengths.empty() && c >= lengths[r]) return false;
    const Wide offset = causal == RAPT_CAUSAL_OFFSET ? Wide{causal_offset}
                        : causal == RAPT_CAUSAL_BOTTOM_RIGHT
                            ? static_cast<Wide>(cols) - static_cast<Wide>(rows)
                            : 0;
    if (causal != RAPT_CAUSAL_NONE && col > row + offset) return false;
    if (!mask.empty() && mask[(mask_repeats ? 0 : r) * cols + c] == 0) return false;
    return bias.empty() || bias_at(r, c) != -infinity<A>;
  }
  bool is_exact() const {
    return softcap == 0 && bias.empty() && std::fabs(given_scale()) >= 0x1p-16 &&
           std::fabs(given_scale()) <= 0x1p16;
  }
  std::string text() const {
    std::string text = "case " + std::to_string(seed) + ": " + Api<E>::element +
                       " rows=" + std::to_string(rows) + " cols=" + std::to_string(cols) +
                       " scale=" + std::to_string(scale) + " softcap=" + std::to_string(softcap) +
                       " causal=" + std::to_string(causal) + " offset=" + std::to_string(causal_offset);
    for (const auto &[word, set] :
         {std::pair{" bias", !bias.empty()}, std::pair{" repeated", bias_repeats},
          std::pair{" mask", !mask.empty()}, std::pair{" repeated", mask_repeats},
          std::pair{" lengths", !lengths.empty()}, std::pair{" sinks", !sinks.empty()},
          std::pair{" empty_rows_are_zero", empty_rows_are_zero}}) {
      if (set) text += word;
    }
    return text;
  }
};

template <class E>
Rows<E> draw_rows(std::uint64_t seed) {
  using A = Number<E>;
  Random random(seed * 0x9e3779b97f4a7c15u + sizeof(E));
  Rows<E> made;
  made.seed = seed;
  const std::size_t size = random.below(16);
  made.cols = size == 0   ? random.below(3)
              : size < 10 ? 1 + random.below(40)
              : size < 15 ? random.one_of<std::size_t>({63, 64, 65, 127, 128, 129, 257, 300})
                          : random.one_of<std::size_t>({2047, 2048, 2049, 4100});
  made.rows = random.one_in(10) ? random.below(2) : 1 + random.below(made.cols > 300 ? 2 : 20);
  const bool few = random.one_in(3);  // few options
  const auto some = [&] { return random.one_in(few ? 12 : 3); };
  made.scale = random.one_of({0.0, 0.0, 1.0, -1.0, 0.125, 0.3, -0.7, 0x1p16, -0x1p16, 0x1p-16});
  if (random.one_in(6)) {
    made.scale = random.one_of({std::nextafter(0x1p16, 1e9), std::nextafter(0x1p16, 0),
                                std::nextafter(0x1p-16, 0), 1e30, -1e-30, std::ldexp(0.6931471805599453, 13),
                                std::ldexp(0.6931471805599453, -17), std::ldexp(0.6931471805599453, 3)});
  }
  if (some()) made.softcap = random.one_of({50.0, 0.5, 5.0});
  const Real magnitude = std::fabs(static_cast<Real>(made.given_scale()));
  // Keeps most scores in a moderate range.
  const double sigma = static_cast<double>(random.one_of({2.0, 2.0, 40.0}) / magnitude),
               middle = random.one_in(6)
                            ? static_cast<double>(random.one_of({30.0, -30.0, 300.0}) / magnitude)
                            : 0;
  if (made.softcap != 0 && !std::isnormal(static_cast<A>(made.given_scale() / made.softcap)))
    made.softcap = 0;
  made.x.resize(made.rows * made.cols);
  const bool zeros = random.one_in(8);
  for (E &x : made.x) {
    const double number = zeros ? random.one_of({0.0, -0.0, -0.0, -1.0}) : random.gaussian();
    x = E(static_cast<A>((zeros ? 0 : middle) + (zeros ? 1 : sigma) * number));
  }
  if (random.one_in(6)) {  // makes some elements non-finite
    const bool minus_alone = random.one_in(2);
    const bool all = minus_alone && random.one_in(3);
    for (E &x : made.x) {
      const A odd = minus_alone ? (made.scale < 0 ? infinity<A> : -infinity<A>)
                                : random.one_of({nan_of<A>, infinity<A>, -infinity<A>});
      if (all || random.one_in(2 * made.cols)) x = E(odd);
    }
  }
  if (some()) {
    made.bias_repeats = random.one_in(2);
    const bool excludes = random.one_in(2);
    made.bias.resize((made.bias_repeats ? 1 : made.rows) * made.cols);
    for (A &bias : made.bias) {
      bias = excludes && random.one_in(4) ? -infinity<A>
             : zeros                      ? A(-0.0)
                                          : static_cast<A>(2 * random.gaussian());
    }
  }
  if (some()) {
    made.mask_repeats = random.one_in(2);
    made.mask.resize((made.mask_repeats ? 1 : made.rows) * made.cols);
    const bool none = random.one_in(8);
    for (std::uint8_t &mask : made.mask) {
      mask = none || random.one_in(4) ? 0 : static_cast<std::uint8_t>(1 + random.below(255));
    }
  }
  for (std::size_t r = 0; r < made.rows && (r == 0 ? some() : !made.lengths.empty()); ++r) {
    made.lengths.push_back(random.one_in(4) ? (random.one_in(2) ? 0 : made.cols)
                                            : random.below(made.cols + 1));
  }
  if (some()) {
    made.causal = static_cast<int>(1 + random.below(3));
    constexpr std::ptrdiff_t farthest = std::ptrdiff_t{1} << 60;
    if (made.causal == RAPT_CAUSAL_OFFSET) {
      made.causal_offset = random.one_of<std::ptrdiff_t>(
          {0, 1, -1, -3, 7, 40, farthest, -farthest, farthest - 1, 1 - farthest});
    }
  }
  if (some()) {
    const bool special = random.one_in(4);
    for (std::size_t r = 0; r < made.rows; ++r) {
      constexpr A odd[] = {infinity<A>,
                           -infinity<A>,
                           nan_of<A>,
                           A(-0.0),
                           std::numeric_limits<A>::max(),
                           std::numeric_limits<A>::lowest()};
      made.sinks.push_back(special ? odd[random.below(6)] : static_cast<A>(4 * random.gaussian()));
    }
  }
  made.empty_rows_are_zero = random.one_in(4);
  return made;
}

// Runs rows [first, first + count) on a level, in a layout that `seed` draws, and returns the results row by
// row.
template <class E>
std::vector<E> run_rows(const Rows<E> &given, Function function, std::size_t first, std::size_t count,
                        std::uint64_t seed, std::string &faults, const std::string &level = "scalar") {
  using A = Number<E>;
  const ForcedIsa forced(level);
  Random random(seed);
  const std::size_t cols = given.cols;
  const auto placement = [&] {
    return random.one_in(2) ? Placement::ends_at_guard : Placement::begins_at_guard;
  };
  const auto stride = [&] {
    return static_cast<std::ptrdiff_t>(cols + (random.one_in(2) ? 0 : random.below(9)));
  };
  const auto rows_of = [&]<class T>(const std::vector<T> &dense, std::size_t row) {
    return std::span(dense).subspan(first * row, count * row);
  };
  const std::ptrdiff_t x_stride = stride();
  Matrix<E> x(count, cols, x_stride, placement(), random.below(8) * sizeof(E));
  x.fill(rows_of(given.x, cols));
  const bool per_row = function == Function::logsumexp;
  const bool in_place = !per_row && random.one_in(3);
  const std::ptrdiff_t y_stride = in_place ? x_stride : stride();
  Matrix<E> own(in_place  ? 0
                : per_row ? 1
                          : count,
                in_place  ? 0
                : per_row ? count
                          : cols,
                per_row ? static_cast<std::ptrdiff_t>(count) : y_stride, placement(),
                random.below(8) * sizeof(E));
  const auto option_rows = [&]<class T>(const std::vector<T> &dense, bool repeats) {
    Matrix<T> matrix(dense.empty() ? 0
                     : repeats     ? 1
                                   : count,
                     dense.empty() ? 0 : cols, stride(), placement(), random.below(8) * sizeof(T));
    if (!dense.empty()) matrix.fill(repeats ? std::span<const T>(dense) : rows_of(dense, cols));
    return matrix;
  };
  Matrix<A> bias = option_rows(given.bias, given.bias_repeats);
  Matrix<std::uint8_t> mask = option_rows(given.mask, given.mask_repeats);
  const auto option_stride = [&](bool set, bool repeats, std::ptrdiff_t of) -> std::ptrdiff_t {
    if (!set) return 0;
    if (count == 1 && random.one_in(4)) return random.one_of<std::ptrdiff_t>({1, -5, PTRDIFF_MAX});
    if (repeats) return RAPT_REPEAT;
    return of == static_cast<std::ptrdiff_t>(cols) && random.one_in(2) ? 0 : of;
  };
  Matrix<std::size_t> lengths(1, given.lengths.empty() ? 0 : count, 0, placement(), 0);
  Matrix<A> sinks(1, given.sinks.empty() ? 0 : count, 0, placement(), random.below(8) * sizeof(A));
  if (!given.lengths.empty()) lengths.fill(rows_of(given.lengths, 1));
  if (!given.sinks.empty()) sinks.fill(rows_of(given.sinks, 1));

  rapt_softmax_options o = RAPT_SOFTMAX_OPTIONS_INIT;
  o.scale = given.scale;
  o.softcap = given.softcap;
  o.bias = given.bias.empty() ? nullptr : bias.data();
  o.bias_stride = option_stride(o.bias, given.bias_repeats, bias.stride());
  o.mask = given.mask.empty() ? nullptr : mask.data();
  o.mask_stride = option_stride(o.mask, given.mask_repeats, mask.stride());
  o.row_lengths = given.lengths.empty() ? nullptr : lengths.data();
  o.sinks = given.sinks.empty() ? nullptr : sinks.data();
  o.causal = given.causal;
  o.causal_offset = given.causal_offset;
  if (first != 0 || count != given.rows) {  // a part of the rows needs another offset
    if (given.causal == RAPT_CAUSAL_BOTTOM_RIGHT) {
      o.causal_offset = static_cast<std::ptrdiff_t>(cols) - static_cast<std::ptrdiff_t>(given.rows);
    }
    if (given.causal != RAPT_CAUSAL_NONE) {
      o.causal = RAPT_CAUSAL_OFFSET;
      o.causal_offset += static_cast<std::ptrdiff_t>(first);
      if (o.causal_offset > std::ptrdiff_t{1} << 60) o.causal_offset = std::ptrdiff_t{1} << 60;
    }
  }
  // empty_rows_are_zero is an error for a log-sum-exp.
  o.empty_rows_are_zero = given.empty_rows_are_zero && !per_row ? random.one_of({1, -1, 256}) : 0;
  const bool is_plain = given.scale == 0 && given.softcap == 0 && !o.bias && !o.mask && !o.row_lengths &&
                        !o.sinks && o.causal == 0 && o.empty_rows_are_zero == 0;
  const rapt_softmax_options *options = is_plain && random.one_in(2) ? nullptr : &o;
  const auto odd = [&](std::ptrdiff_t of) {  // the stride of a single row is not read
    return count == 1 ? random.one_of<std::ptrdiff_t>({of, 0, -5, PTRDIFF_MIN, PTRDIFF_MAX}) : of;
  };
  rapt_status status = RAPT_OK;
  E *const y = in_place ? x.data() : own.data();
  if (function == Function::softmax) {
    status = Api<E>::softmax(x.data(), odd(x_stride), y, odd(y_stride), count, cols, options);
  } else if (function == Function::log_softmax) {
    status = Api<E>::log_softmax(x.data(), odd(x_stride), y, odd(y_stride), count, cols, options);
  } else if constexpr (sizeof(E) > 2) {
    status = Api<E>::logsumexp(x.data(), odd(x_stride), y, count, cols, options);
  }
  if (status != RAPT_OK) faults += std::string(rapt_status_text(status)) + "; ";
  const Matrix<E> &output = in_place ? x : own;
  std::vector<E> results;
  for (std::size_t r = 0; r < output.rows(); ++r) {
    results.insert(results.end(), output.row(r), output.row(r) + output.cols());
  }
  if (!output.gaps_intact()) faults += "wrote outside the rows; ";
  if (!in_place && !(x.holds(rows_of(given.x, cols)) && x.gaps_intact())) faults += "wrote to x; ";
  if (!bias.gaps_intact() || !mask.gaps_intact() || !lengths.gaps_intact() || !sinks.gaps_intact()) {
    faults += "wrote around an option's array; ";
  }
  return results;
}

struct RowTruth {
  enum Kind { regular, nothing_visible, all_minus_infinity, not_a_number } kind = regular;
  std::vector<Real> difference;   // between each score and the largest; -inf if excluded
  Real largest = 0, log_sum = 0;  // the log-sum-exp is largest + log_sum
  Real units = 0;                 // the rounding error that options add to a score
  double score = 0;               // of the last visible element, if no option rounds it
  std::size_t visible = 0;
};

template <class E>
RowTruth row_truth(const Rows<E> &rows, std::size_t r) {
  using A = Number<E>;
  RowTruth truth;
  const Real scale = rows.given_scale(), minus = -infinity<Real>;
  const Real sink = rows.sinks.empty() ? minus : Real{rows.sinks[r]};
  std::vector<Real> score(rows.cols, minus);
  Real largest_x = minus;  // of x times the sign of the scale
  bool is_nan = std::isnan(sink);
  truth.largest = minus;
  for (std::size_t c = 0; c < rows.cols; ++c) {
    if (!rows.visible(r, c)) continue;
    truth.visible += 1;
    const Real x = static_cast<A>(rows.x[r * rows.cols + c]);
    Real s = scale * x;
    const Real bare = rows.softcap != 0 ? rows.softcap * std::tanh(s / static_cast<Real>(rows.softcap)) : s;
    s = rows.bias.empty() ? bare : bare + static_cast<Real>(rows.bias_at(r, c));
    if (std::isfinite(s)) {
      truth.units =
          std::max<Real>(truth.units, score_bound<A>(rows.given_scale(), rows.softcap, !rows.bias.empty(),
                                                     static_cast<double>(bare), static_cast<double>(s)));
    }
    is_nan = is_nan || std::isnan(s) || s == infinity<Real>;
    score[c] = s;
    truth.largest = std::max(truth.largest, s);
    truth.score = static_cast<double>(scale) * static_cast<double>(x);
    largest_x = std::max(largest_x, scale < 0 ? -x : x);
  }
  if (truth.visible == 0) {
    truth.kind = RowTruth::nothing_visible;
  } else if (is_nan || sink == infinity<Real>) {
    truth.kind = RowTruth::not_a_number;
  } else if (truth.largest == minus && sink == minus) {
    truth.kind = RowTruth::all_minus_infinity;
  }
  if (truth.kind != RowTruth::regular) return truth;
  // Differences between elements are exact even where the scores would be rounded.
  const bool sink_is_largest = sink > truth.largest;
  if (sink_is_largest) truth.largest = sink;
  Real sum = std::exp(sink - truth.largest);
  truth.difference.assign(rows.cols, minus);
  for (std::size_t c = 0; c < rows.cols; ++c) {
    if (!rows.visible(r, c)) continue;
    const Real x = static_cast<A>(rows.x[r * rows.cols + c]);
    truth.difference[c] = rows.is_exact() && !sink_is_largest && std::isfinite(x)
                              ? std::fabs(scale) * ((scale < 0 ? -x : x) - largest_x)
                              : score[c] - truth.largest;
    sum += std::exp(truth.difference[c]);
  }
  truth.log_sum = std::log(sum);
  return truth;
}

template <class E>
std::string fault_at(const char *what, std::size_t r, std::size_t c, Real got, Real expected) {
  char text[200];
  std::snprintf(text, sizeof text, "%s of row %zu, column %zu is %.17Lg, not %.17Lg", what, r, c, got,
                expected);
  return text;
}

// Returns what is wrong with the results of f32 or f64, or an empty text.
template <class T>
std::string fault_of(const Rows<T> &rows, Function function, const std::vector<T> &got, Reached &reached) {
  const Real unit = unit_of<T>;
  for (std::size_t r = 0; r < rows.rows; ++r) {
    const RowTruth truth = row_truth(rows, r);
    reached.see("row kind " + std::to_string(truth.kind));
    const bool is_zero = truth.kind == RowTruth::all_minus_infinity && rows.empty_rows_are_zero;
    if (function == Function::logsumexp) {
      const T sink = rows.sinks.empty() ? -infinity<T> : rows.sinks[r];
      const T out = got[r];
      const Real exact = truth.largest + truth.log_sum;
      const Real bound = static_cast<Real>(log_bound<T>) * std::max<Real>(1, std::fabs(exact)) + truth.units;
      // A row that sees one element has its score, which is rounded once if no option rounds it before.
      const bool is_score = truth.visible == 1 && sink == -infinity<T> && rows.is_exact();
      const bool fine = is_score && truth.kind == RowTruth::regular  ? out == static_cast<T>(truth.score)
                        : truth.kind == RowTruth::regular            ? std::fabs(out - exact) <= bound * unit
                        : truth.kind == RowTruth::nothing_visible    ? same_bits(out, sink)
                        : truth.kind == RowTruth::all_minus_infinity ? out == -infinity<T>
                                                                     : std::isnan(out);
      // A log-sum-exp beyond the range of T may be infinite.
      if (!fine && !(std::fabs(exact) > Real{std::numeric_limits<T>::max()} / 2)) {
        return fault_at<T>("log-sum-exp", r, 0, out, exact);
      }
      continue;
    }
    const bool log = function == Function::log_softmax;
    for (std::size_t c = 0; c < rows.cols; ++c) {
      const T y = got[r * rows.cols + c], excluded = log ? -infinity<T> : T(0);
      bool fine;
      Real exact = excluded;
      if (!rows.visible(r, c) || truth.kind == RowTruth::nothing_visible || is_zero) {
        fine = same_bits(y, excluded);
      } else if (truth.kind != RowTruth::regular) {
        fine = std::isnan(y);
        exact = nan_of<Real>;
      } else if (truth.difference[c] == -infinity<Real>) {
        fine = same_bits(y, excluded);
      } else if (log) {
        exact = truth.difference[c] - truth.log_sum;
        const Real bound =
            static_cast<Real>(log_bound<T>) * std::max<Real>(1, std::fabs(exact)) + 2 * truth.units;
        fine = y <= 0 && std::fabs(y - exact) <= bound * unit;
        fine = fine || exact < Real{std::numeric_limits<T>::lowest()} / 2;
        if (truth.visible == 1 && rows.sinks.empty()) fine = same_bits(y, T(0));
      } else {
        exact = std::exp(truth.difference[c] - truth.log_sum);
        const Real relative = (static_cast<Real>(softmax_bound<T>) + 2 * truth.units) * unit;
        const Real least = std::numeric_limits<T>::min(), margin = least * (relative + 4 * unit);
        fine = y <= 1 && (y == 0 ? exact < least + margin : y >= std::numeric_limits<T>::min()) &&
               (y == 0 || std::fabs(y - exact) <= relative * exact);
        fine = fine && !std::signbit(y);
        if (truth.visible == 1 && rows.sinks.empty()) fine = y == 1;
        if (relative > 0x1p-6L) fine = y >= 0 && y <= 1;
      }
      if (!fine) return fault_at<T>(log ? "logarithm" : "probability", r, c, y, exact);
    }
  }
  return "";
}

template <class E>
void see(const Rows<E> &rows, Reached &reached) {
  reached.see(Api<E>::element);
  reached.see("no rows", rows.rows == 0);
  reached.see("no columns", rows.cols == 0);
  reached.see("exact scores", rows.is_exact());
  reached.see("negative scale", rows.scale < 0);
  reached.see("large scale", rows.scale > 0x1p16);
  reached.see("small scale", std::fabs(rows.given_scale()) < 0x1p-16);
  reached.see("softcap", rows.softcap != 0);
  reached.see("bias", !rows.bias.empty() && !rows.bias_repeats);
  reached.see("repeated bias", rows.bias_repeats);
  reached.see("softcap and bias", rows.softcap != 0 && !rows.bias.empty());
  reached.see("mask", !rows.mask.empty() && !rows.mask_repeats);
  reached.see("repeated mask", rows.mask_repeats);
  reached.see("mask and bias", !rows.mask.empty() && !rows.bias.empty());
  reached.see("lengths", !rows.lengths.empty());
  reached.see("lengths and causal", !rows.lengths.empty() && rows.causal != 0);
  reached.see("sinks", !rows.sinks.empty());
  reached.see("causal " + std::to_string(rows.causal));
  reached.see("far offset", std::abs(rows.causal_offset) > 1000);
  reached.see("empty rows are zero", rows.empty_rows_are_zero);
}

template <class E>
void check_case(std::uint64_t seed, Reached &reached) {
  const Rows<E> rows = draw_rows<E>(seed);
  running = rows.text();
  INFO(running);
  see(rows, reached);
  for (const Function function : {Function::softmax, Function::log_softmax, Function::logsumexp}) {
    if (function == Function::logsumexp && sizeof(E) == 2) continue;
    INFO(std::string(function_names[static_cast<int>(function)]));
    std::string faults;
    const std::vector<E> got = run_rows(rows, function, 0, rows.rows, seed, faults);
    if constexpr (sizeof(E) == 2) {
      const Rows<float> wide{seed,
                             rows.rows,
                             rows.cols,
                             {rows.x.begin(), rows.x.end()},
                             rows.scale,
                             rows.softcap,
                             rows.bias,
                             rows.sinks,
                             rows.mask,
                             rows.bias_repeats,
                             rows.mask_repeats,
                             rows.lengths,
                             rows.causal,
                             rows.causal_offset,
                             rows.empty_rows_are_zero};
      const auto as_f32 = run_rows(wide, function, 0, rows.rows, seed + 1, faults);
      REQUIRE(as_f32.size() == got.size());
      bool equal = true;
      for (std::size_t i = 0; i < got.size(); ++i) equal = equal && same_bits(got[i], E(as_f32[i]));
      CHECK(equal);
    } else if (measurable<E>) {
      CHECK(fault_of(rows, function, got, reached) == "");
    }
    // Runs some or all of the rows in another layout. The levels take turns.
    if (rows.rows > 0 && rows.cols > 0) {
      Random random(seed);
      const bool all = random.one_in(2);
      const std::size_t first = all ? 0 : random.below(rows.rows),
                        count = all ? rows.rows : 1 + random.below(rows.rows - first);
      static const std::vector<std::string> levels = isas_to_test("softmax");
      const std::string &level = levels[seed % levels.size()];
      INFO(level);
      const std::vector<E> part = run_rows(rows, function, first, count, seed + 2, faults, level);
      const std::size_t row = function == Function::logsumexp ? 1 : rows.cols;
      bool equal = part.size() == count * row;
      for (std::size_t i = 0; equal && i < part.size(); ++i) equal = same_bits(part[i], got[first * row + i]);
      CHECK(equal);
    }
    CHECK(faults == "");
  }
}

}  // namespace

TEST_CASE("drawn calls of softmax, log_softmax and logsumexp") {
  catch_faults([](char *text, std::size_t size) { std::snprintf(text, size, "%s", running.c_str()); });
  const char *only = std::getenv("RAPT_ORACLE_CASE");
  const std::uint64_t count = native_or_emulated<std::uint64_t>(1500, 100);
  Reached reached;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const std::uint64_t given = only ? std::strtoull(only, nullptr, 10) : seed;
    check_case<float>(given, reached);
    check_case<double>(given, reached);
    check_case<F16>(given, reached);
    check_case<BF16>(given, reached);
    if (only) return;
  }
  if (emulated()) return;
  reached.print();
  reached.expect_all();
}

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

// An array of the options ends where the output begins, begins where the output ends, or overlaps the output.
TEST_CASE_TEMPLATE("arrays of options next to the output, and in it", E, float, double, F16, BF16) {
  using A = Number<E>;
  constexpr std::size_t rows = 4, cols = 16, at = 1024, out_bytes = rows * cols * sizeof(E);
  const std::vector<E> x(rows * cols, E(0.5f));
  enum Array { bias, mask, lengths, sinks };
  constexpr std::size_t bytes_of[] = {rows * cols * sizeof(A), rows * cols, rows * sizeof(std::size_t),
                                      rows * sizeof(A)};
  for (const Array array : {bias, mask, lengths, sinks}) {
    const std::size_t shared = array == mask ? 1 : std::min<std::size_t>(8, bytes_of[array]);
    struct {
      std::size_t at;
      rapt_status expected;
    } const places[] = {{at - bytes_of[array], RAPT_OK},
                        {at - bytes_of[array] + shared, RAPT_BAD_OVERLAP},
                        {at + out_bytes - shared, RAPT_BAD_OVERLAP},
                        {at + out_bytes, RAPT_OK}};
    for (const auto &place : places) {
      CAPTURE(static_cast<int>(array));
      CAPTURE(place.at);
      alignas(64) unsigned char memory[3072] = {};
      unsigned char *const data = memory + place.at;
      rapt_softmax_options o = RAPT_SOFTMAX_OPTIONS_INIT;
      if (array == bias) o.bias = data;
      if (array == mask) o.mask = data;
      if (array == lengths) o.row_lengths = reinterpret_cast<const std::size_t *>(data);
      if (array == sinks) o.sinks = data;
      E *const y = reinterpret_cast<E *>(memory + at);
      for (const auto function : {Api<E>::softmax, Api<E>::log_softmax}) {
        CHECK(function(x.data(), cols, y, cols, rows, cols, &o) == place.expected);
        if (place.expected != RAPT_OK) CHECK(std::count(memory, std::end(memory), 0) == sizeof memory);
      }
    }
  }
}

// Describes a call of a function over rows with arguments at a limit or just past it. x, y and dy are in one
// buffer, where they may touch or overlap. Calls with rows at the end of the address space also have a row
// length that is too large. The library checks row lengths last, so such a call never runs.
template <class T>
struct Edge {
  enum Called { softmax, log_softmax, logsumexp, backward };
  Called called;
  std::size_t rows, cols;
  std::ptrdiff_t x_stride, dy_stride, y_stride;
  unsigned char *x, *dy, *y;
  rapt_softmax_options o = RAPT_SOFTMAX_OPTIONS_INIT;
  T scale = 1;

  rapt_status run() const {
    T *const from = reinterpret_cast<T *>(x), *const to = reinterpret_cast<T *>(y);
    switch (called) {
      case softmax:
        return Api<T>::softmax(from, x_stride, to, y_stride, rows, cols, &o);
      case log_softmax:
        return Api<T>::log_softmax(from, x_stride, to, y_stride, rows, cols, &o);
      case logsumexp:
        return Api<T>::logsumexp(from, x_stride, to, rows, cols, &o);
      default:
        return Api<T>::softmax_backward(from, x_stride, reinterpret_cast<T *>(dy), dy_stride, to, y_stride,
                                        rows, cols, scale);
    }
  }
};

TEST_CASE_TEMPLATE("drawn arguments of functions over rows at their limits", T, float, double) {
  using Call = Edge<T>;
  using Limits = std::numeric_limits<T>;
  constexpr const char *limits[] = {"touching",      "x_stride", "y_stride", "dy_stride",   "bias_stride",
                                    "mask_stride",   "extent",   "bias",     "row length",  "causal offset",
                                    "largest scale", "softcap",  "options",  "least scale", "mask"};
  Reached reached;
  for (const char *limit : limits) {
    for (const char *side : {"", " + 1"}) reached.see(std::string(limit) + side, false);
  }
  alignas(64) static unsigned char memory[8192], options_memory[8192];
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    Call call{};
    call.o = RAPT_SOFTMAX_OPTIONS_INIT;
    call.scale = 1;
    call.called = static_cast<typename Call::Called>(random.below(4));
    const bool backward = call.called == Call::backward, per_row = call.called == Call::logsumexp;
    call.rows = 2 + random.below(4);
    call.cols = 2 + random.below(6);
    const auto columns = static_cast<std::ptrdiff_t>(call.cols);
    const auto stride = [&] { return columns + static_cast<std::ptrdiff_t>(random.below(4)); };
    call.x_stride = stride();
    call.dy_stride = stride();
    call.y_stride = per_row ? 1 : stride();
    const auto bytes = [&](std::ptrdiff_t step, std::size_t cols) {
      return ((call.rows - 1) * static_cast<std::size_t>(step) + cols) * sizeof(T);
    };
    const std::size_t x_bytes = bytes(call.x_stride, call.cols),
                      y_bytes = bytes(call.y_stride, per_row ? 1 : call.cols);
    std::fill(std::begin(memory), std::end(memory), static_cast<unsigned char>(0));
    call.x = memory + 2048;
    call.dy = memory + 4096;
    call.y = memory + 6144;
    const std::vector<std::size_t> lengths(call.rows, call.cols);
    std::vector<std::size_t> long_lengths = lengths;
    long_lengths[random.below(call.rows)] += 1;
    const bool past = random.one_in(2);
    const std::string limit = limits[random.below(std::size(limits))];
    rapt_status expected = RAPT_OK;
    bool is_other = false;
    const auto refuse = [&](rapt_status status) {
      if (past) expected = status;
    };
    const auto far = [&](std::ptrdiff_t element) {  // the largest stride that fits, or one more
      const std::size_t most = static_cast<std::size_t>(PTRDIFF_MAX / element) - call.cols;
      return static_cast<std::ptrdiff_t>(most / (call.rows - 1)) + past;
    };
    const bool of_options = limit != "touching" && limit != "x_stride" && limit != "y_stride" &&
                            limit != "dy_stride" && limit != "extent";
    if (backward && of_options) continue;
    if (limit == "touching") {
      const bool before = random.one_in(2);
      const std::size_t shared = past ? (random.one_in(2) ? 1 : sizeof(T)) : 0;
      const bool by_dy = backward && random.one_in(2);
      unsigned char *const input = by_dy ? call.dy : call.x;
      const std::size_t input_bytes = by_dy ? bytes(call.dy_stride, call.cols) : x_bytes;
      call.y = before ? input - y_bytes + shared : input + input_bytes - shared;
      refuse(RAPT_BAD_OVERLAP);
    } else if (limit == "x_stride") {
      call.x_stride = columns - past;
      refuse(backward ? RAPT_BAD_Y_STRIDE : RAPT_BAD_X_STRIDE);
    } else if (limit == "y_stride") {
      if (per_row) continue;
      call.y_stride = columns - past;
      refuse(backward ? RAPT_BAD_DX_STRIDE : RAPT_BAD_Y_STRIDE);
    } else if (limit == "dy_stride") {
      if (!backward) continue;
      call.dy_stride = columns - past;
      refuse(RAPT_BAD_DY_STRIDE);
    } else if (limit == "bias_stride" || limit == "mask_stride") {
      if (call.cols < 2) continue;
      const bool bias = limit == "bias_stride";
      (bias ? call.o.bias : *reinterpret_cast<const void **>(&call.o.mask)) = options_memory;
      (bias ? call.o.bias_stride : call.o.mask_stride) = columns - past;
      refuse(bias ? RAPT_BAD_BIAS_STRIDE : RAPT_BAD_MASK_STRIDE);
    } else if (limit == "extent") {
      // The far rows of an input overlap the output that follows the input.
      const bool of_y = !backward && !per_row && random.one_in(2);
      if (of_y) std::swap(call.x, call.y);
      (of_y ? call.y_stride : backward && random.one_in(2) ? call.dy_stride : call.x_stride) = far(sizeof(T));
      expected = RAPT_BAD_SIZE;
      is_other = !past;
      call.o.row_lengths = long_lengths.data();
    } else if (limit == "bias" || limit == "mask") {
      const bool bias = limit == "bias";
      if (bias) {
        call.o.bias = options_memory;
        call.o.bias_stride = far(sizeof(T));
      } else {
        call.o.mask = options_memory;
        call.o.mask_stride = far(1);
      }
      expected = RAPT_BAD_SIZE;
      is_other = !past;
      call.o.row_lengths = long_lengths.data();
    } else if (limit == "row length") {
      call.o.row_lengths = (past ? long_lengths : lengths).data();
      refuse(RAPT_BAD_ROW_LENGTHS);
    } else if (limit == "causal offset") {
      const std::ptrdiff_t offset = (std::ptrdiff_t{1} << 60) + past;
      call.o.causal = RAPT_CAUSAL_OFFSET;
      call.o.causal_offset = random.one_in(2) ? offset : -offset;
      refuse(RAPT_BAD_CAUSAL_OFFSET);
    } else if (limit == "options") {
      call.o.size += past ? random.one_of<std::size_t>({1, 8, SIZE_MAX, SIZE_MAX - 7}) : 0;
      refuse(RAPT_BAD_OPTIONS_SIZE);
    } else {
      const double near = 16 * double{Limits::epsilon()}, sign = random.one_in(2) ? 1 : -1;
      if (limit == "largest scale") {
        call.o.scale = sign * (double{Limits::max()} / 1.4426950408889634) * (past ? 1 + near : 1 - near);
      } else if (limit == "least scale") {
        call.o.scale = sign * double{Limits::min()} * (past ? 1 - near : 1);
      } else {
        call.o.scale = sign * double{Limits::min()} * 4;
        call.o.softcap = past ? 4 * (1 + near) : 4;
      }
      refuse(limit == "softcap" ? RAPT_BAD_SOFTCAP : RAPT_BAD_SCALE);
    }
    reached.see(limit + (past ? " + 1" : ""));
    CAPTURE(limit);
    CAPTURE(past);
    CAPTURE(static_cast<int>(call.called));
    const std::vector<unsigned char> image(memory, std::end(memory));
    const rapt_status got = call.run();
    if (is_other) {
      CHECK(got != expected);
    } else {
      CHECK(got == expected);
    }
    if (expected != RAPT_OK) CHECK(std::equal(image.begin(), image.end(), memory));
  }
  reached.expect_all();
}

// Rows of more than 131072 columns are summed in one pass. Shorter rows are summed in another way.
TEST_CASE_TEMPLATE("softmax of long rows", T, float, double) {
  if (!measurable<T> || emulated()) return;
  Reached reached;
  for (const std::size_t cols : Sizes{131071, 131072, 131073, 133120, 133121}) {
    Random random(cols);
    Rows<T> rows;
    rows.cols = cols;
    rows.x.resize(cols);
    // Elements grow, so every section of the row has a larger maximum.
    for (std::size_t c = 0; c < cols; ++c) {
      rows.x[c] =
          static_cast<T>(2 * random.gaussian() + 40 * static_cast<double>(c) / static_cast<double>(cols));
    }
    if (cols % 2 == 1) rows.lengths = {cols - 5};
    for (const Function function : {Function::softmax, Function::log_softmax, Function::logsumexp}) {
      std::string faults;
      CHECK(fault_of(rows, function, run_rows(rows, function, 0, 1, cols, faults), reached) == "");
      CHECK(faults == "");
    }
  }
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
