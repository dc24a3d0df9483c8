// Compares attention and its gradient on the scalar level with the oracle. The calls are drawn from all
// options, element types, layouts, shapes and ways of calling. Results must have the accuracy that rapt.h
// promises. All levels share the code of src/api, src/call and src/contract, so comparing levels does not
// show mistakes there. The oracle shares no code with the library. Each case is then called again in another
// layout on one of the other levels, which take turns, and must give the same bits.
//
// RAPT_ORACLE_CASE=<seed> runs one case again.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <string>

#include "oracle/attention_backward.hpp"
#include "oracle/attention_call.hpp"
#include "oracle/attention_edges.hpp"
#include "oracle/bounds.hpp"
#include "oracle/reached.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/faults.hpp"
#include "support/isa.hpp"

using namespace rapt::test;
using namespace rapt::test::oracle;

namespace {

using Real = long double;
constexpr double infinity = std::numeric_limits<double>::infinity();

bool is_zero_without_sign(double x) { return x == 0 && !std::signbit(x); }

// Names the running case for the report of a fault.
std::string running;

template <class Run>
auto on_level(const std::string &level, Run &&run) {
  const ForcedIsa forced(level);
  return run();
}
std::string level_of_turn(std::uint64_t seed) {
  static const std::vector<std::string> levels = isas_to_test("attention");
  return levels[seed / 12 % levels.size()];  // 12 seeds in turn meet every way of calling
}

// Returns a text on the first difference between a and b. The text is empty if a and b are equal.
std::string difference(const std::vector<double> &a, const std::vector<double> &b) {
  if (a.size() != b.size()) return "sizes";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) {
      return "element " + std::to_string(i) + ": " + std::to_string(a[i]) + " and " + std::to_string(b[i]);
    }
  }
  return "";
}
// Compares an array of two calls. The array is empty for a call that did not request it.
void expect_equal(const std::vector<double> &a, const std::vector<double> &b, const char *array,
                  const char *way) {
  if (a.empty() || b.empty()) return;
  INFO(std::string(array) << ", " << std::string(way));
  CHECK(difference(a, b) == "");
}
void expect_equal(const AttentionResults &a, const AttentionResults &b, const char *way) {
  expect_equal(a.out, b.out, "out", way);
  expect_equal(a.lse, b.lse, "lse", way);
}
void expect_equal(const GradientResults &a, const GradientResults &b, const char *way) {
  expect_equal(a.dq, b.dq, "dq", way);
  expect_equal(a.dk, b.dk, "dk", way);
  expect_equal(a.dv, b.dv, "dv", way);
  expect_equal(a.dbias, b.dbias, "dbias", way);
  expect_equal(a.dsinks, b.dsinks, "dsinks", way);
}

std::string fault(const char *what, std::size_t index, Real got, Real expected) {
  char text[200];
  std::snprintf(text, sizeof text, "%s[%zu] is %.17Lg, not %.17Lg", what, index, got, expected);
  return text;
}

double unit_of_problem(const AttentionProblem &p) {
  return p.q == RAPT_F64 ? unit_of<double> : unit_of<float>;
}
std::size_t dim_with_softcap(const AttentionProblem &p) {
  return p.a.qk_dim + (p.a.softcap == 0 ? 0 : p.q == RAPT_F64 ? 16 : 12);
}
AttentionErrors bounds_of(const AttentionProblem &p, const Attention<double> &truth_of,
                          const AttentionTruth &truth, std::size_t b, std::size_t h, std::size_t i) {
  const rapt_arithmetic arithmetic = p.in_bf16() ? RAPT_ARITHMETIC_BF16 : RAPT_ARITHMETIC_F32;
  // Partial sums of equal terms may all be rounded to one side.
  const bool are_alike = p.numbers == Numbers::equal || p.numbers == Numbers::zeros;
  AttentionErrors bounds = are_alike
                               ? attention_worst_bounds(dim_with_softcap(p), p.a.keys(b), truth, arithmetic)
                               : attention_bounds(dim_with_softcap(p), truth, arithmetic);
  const auto underflow =
      p.q == RAPT_F64 ? attention_underflow<double, double> : attention_underflow<float, double>;
  bounds = bounds + underflow(truth_of, truth, b, h, i, arithmetic);
  if (p.kv == RAPT_I8) bounds = bounds + attention_bytes_bounds(truth_of, truth, b, h, i);
  return bounds;
}

// Returns whether the sink is so large that rapt.h makes the row NaN.
bool is_beyond_range(const AttentionProblem &p, double sink) {
  const double largest = p.q == RAPT_F64 ? 0x1.fffffffffffffp1023 : 0x1.fffffep127;
  return std::isnan(sink) || sink > largest / 1.4426950408889634;
}

// Returns whether the keys are int8 and the query is not finite. Every score is then NaN.
bool has_bad_integers(const AttentionProblem &p, std::size_t b, std::size_t h, std::size_t i) {
  const double *query = p.a.query(b, h, i);
  const auto is_finite = [](double x) { return std::isfinite(x); };
  return p.kv == RAPT_I8 && !std::all_of(query, query + p.a.qk_dim, is_finite);
}

struct RowKinds {
  std::size_t finite = 0, empty = 0, nan = 0, values = 0;  // values: outputs that non-finite values affect
};

// Returns a description of what is wrong with the results of a row, or an empty text.
std::string fault_of_row(const AttentionProblem &p, const Attention<double> &truth_of,
                         const AttentionResults &results, std::size_t b, std::size_t h, std::size_t i,
                         RowKinds &kinds, AttentionErrors more = {}) {
  const Attention<double> &a = p.a;
  const std::size_t row = a.row({}, b, h, i);
  const double *out = results.out.data() + row * a.v_dim;
  const double *lse = results.lse.empty() ? nullptr : &results.lse[row];
  const AttentionTruth truth = attention_truth(truth_of, b, h, i);
  const double sink = a.sinks.empty() ? -infinity : a.sinks[h];
  const bool sink_is_beyond = is_beyond_range(p, sink);
  if (has_bad_integers(p, b, h, i)) return "";
  if (truth.is_empty) {
    // An infinite query scale makes the scores of these keys -inf.
    if (!truth.is_blind && !std::isfinite(scale_of(truth_of, b, h, i))) return "";
    kinds.empty += 1;
    for (std::size_t d = 0; d < a.v_dim; ++d) {
      const bool fine = std::isnan(sink) ? std::isnan(out[d]) : is_zero_without_sign(out[d]);
      if (!fine) return fault("out of an empty row", d, out[d], 0);
    }
    if (lse && !same_bits(*lse, sink)) return fault("lse of an empty row", 0, *lse, sink);
    return "";
  }
  if (truth.has_nan || sink_is_beyond) {
    kinds.nan += 1;
    for (std::size_t d = 0; d < a.v_dim; ++d) {
      if (!std::isnan(out[d])) return fault("out of a row of NaN", d, out[d], NAN);
    }
    return lse && !std::isnan(*lse) ? fault("lse of a row of NaN", 0, *lse, NAN) : "";
  }
  kinds.finite += 1;
  const AttentionErrors bounds = bounds_of(p, truth_of, truth, b, h, i) + more;
  const Real unit = unit_of_problem(p);
  for (std::size_t d = 0; d < a.v_dim; ++d) {
    if (!std::isfinite(truth.out[d])) {
      kinds.values += 1;
      if (!truth.is_vague && std::isfinite(out[d])) return fault("out", d, out[d], truth.out[d]);
      continue;
    }
    const Real off = distance_as(p.out, out[d], truth.out[d]);
    const bool is_negative_zero = out[d] == 0 && std::signbit(out[d]) && p.out == p.number();
    if (!(off <= static_cast<Real>(bounds.out) * unit * truth.largest_value) || is_negative_zero) {
      return fault("out", d, out[d], truth.out[d]);
    }
  }
  if (lse && !(std::fabs(*lse - truth.lse) <= static_cast<Real>(bounds.lse) * unit)) {
    return fault("lse", 0, *lse, truth.lse);
  }
  return "";
}

// Checks the numbers of a chunk: its largest score, and the sums relative to that score.
std::string fault_of_partial(const AttentionProblem &p, const Attention<double> &truth_of,
                             const double *numbers, std::size_t b, std::size_t h, std::size_t i,
                             std::size_t chunk) {
  const Attention<double> &a = p.a;
  const std::size_t first = a.start(b) + chunk * 512;
  const AttentionTruth truth = attention_truth(truth_of, b, h, i, first, first + 512);
  if (has_bad_integers(p, b, h, i)) return "";
  const Real unit = unit_of_problem(p), f = static_cast<Real>(p.score_factor(b, h, i));
  // The largest score ignores NaN. In bf16 arithmetic the result may be smaller, by up to log(2^8).
  if (std::isfinite(truth.largest_score) && !(p.in_bf16() && truth.has_nan)) {
    const Real above = f * static_cast<Real>(numbers[0]) - truth.largest_score;
    AttentionTruth of_largest = truth;
    of_largest.lse = truth.largest_score;
    const Real most = static_cast<Real>(bounds_of(p, truth_of, of_largest, b, h, i).lse) * unit;
    if (!(above <= most && -above <= most + (p.in_bf16() ? 8 * std::log(2.0L) : 0))) {
      return fault("the largest score of a partial result", 0, f * static_cast<Real>(numbers[0]),
                   truth.largest_score);
    }
  }
  if (truth.has_nan && !std::isnan(numbers[1])) return fault("the sum of weights", 0, numbers[1], NAN);
  if (!truth.is_finite || (!truth.is_blind && !std::isfinite(scale_of(truth_of, b, h, i)))) return "";
  if (truth.is_empty) {
    for (std::size_t n = 0; n < a.v_dim + 2; ++n) {
      if (n == 0 ? numbers[0] != -infinity : !is_zero_without_sign(numbers[n])) {
        return fault("a number of an empty partial result", n, numbers[n], 0);
      }
    }
    return "";
  }
  for (const std::size_t n : Sizes{0, 1}) {
    if (numbers[n] == 0 && std::signbit(numbers[n])) return fault("a zero of a partial result", n, -0.0L, 0);
  }
  const AttentionErrors bounds = bounds_of(p, truth_of, truth, b, h, i);
  const Real lse = f * static_cast<Real>(numbers[0]) + std::log(static_cast<Real>(numbers[1]));
  if (!(std::fabs(lse - truth.lse) <= (static_cast<Real>(bounds.lse) + std::fabs(truth.lse)) * unit)) {
    return fault("the log-sum-exp of a partial result", 0, lse, truth.lse);
  }
  for (std::size_t d = 0; d < a.v_dim; ++d) {
    const Real value = static_cast<Real>(numbers[2 + d]) / static_cast<Real>(numbers[1]);
    const bool is_negative_zero = numbers[2 + d] == 0 && std::signbit(numbers[2 + d]);
    if (!(std::fabs(value - truth.out[d]) <= static_cast<Real>(bounds.out) * unit * truth.largest_value) ||
        is_negative_zero) {
      return fault("the mean of a partial result", d, value, truth.out[d]);
    }
  }
  return "";
}

// Calls f(b, h, i) for every query.
template <class F>
void for_each_query(const Attention<double> &a, F f) {
  for (std::size_t b = 0; b < a.batch; ++b) {
    for (std::size_t h = 0; h < a.q_heads; ++h) {
      for (std::size_t i = 0; i < a.queries(b); ++i) f(b, h, i);
    }
  }
}

// Keeps only the first fault.
void keep(std::string &first, const std::string &fault, std::size_t b, std::size_t h, std::size_t i) {
  if (!first.empty() || fault.empty()) return;
  first = "row " + std::to_string(b) + " " + std::to_string(h) + " " + std::to_string(i) + ": " + fault;
}

// Returns the problem with elements of f32. Results for 16-bit elements are promised to be those of f32,
// rounded.
AttentionProblem widened(const AttentionProblem &p) {
  AttentionProblem wide = p;
  wide.q = wide.out = RAPT_F32;
  if (p.kv != RAPT_I8) wide.kv = RAPT_F32;
  wide.arithmetic = RAPT_ARITHMETIC_F32;
  wide.gradient = RAPT_F32;
  return wide;
}
bool has_halves(const AttentionProblem &p) {
  return p.q != p.number() || p.out != p.number() || (p.kv != RAPT_I8 && p.kv != p.number());
}
std::vector<double> rounded(rapt_type type, std::vector<double> values) {
  for (double &value : values) value = oracle::rounded(type, value);
  return values;
}

void see_problem(const AttentionProblem &p, Reached &reached) {
  const Attention<double> &a = p.a;
  constexpr const char *types[] = {"", "f32", "f64", "f16", "bf16", "i8"};
  reached.see(std::string("q ") + types[p.q] + " kv " + types[p.kv] + " out " + types[p.out]);
  reached.see("bf16 arithmetic", p.in_bf16());
  reached.see("bf16 elements in f32", p.q == RAPT_BF16 && p.kv == RAPT_BF16 && !p.in_bf16());
  reached.see(std::string("numbers ") + name_of(p.numbers));
  reached.see("scale groups", a.scale_group != 0);
  reached.see("several scale groups", a.scale_group != 0 && a.qk_dim > a.scale_group);
  reached.see("repeated q", p.q_repeats.batch || p.q_repeats.head || p.q_repeats.token);
  reached.see("repeated k", p.k_repeats.batch || p.k_repeats.head || p.k_repeats.token);
  reached.see("v is k", p.v_is_k);
  reached.see("v is k, bytes", p.v_is_k && p.kv == RAPT_I8);
  reached.see("softcap", a.softcap != 0);
  reached.see("query scales", !a.query_scales.empty());
  reached.see("alibi", !a.alibi_slopes.empty());
  reached.see("sinks", !a.sinks.empty());
  reached.see("bias", !a.bias.empty());
  reached.see("bias and mask", !a.bias.empty() && !a.mask.empty());
  for (const auto &[word, on, repeats] : {std::tuple{"bias ", !a.bias.empty(), a.bias_repeats},
                                          std::tuple{"mask ", !a.mask.empty(), a.mask_repeats}}) {
    reached.see(std::string(word) + "of batch", on && repeats.batch && a.batch > 1);
    reached.see(std::string(word) + "of heads", on && repeats.head && a.q_heads > 1);
    reached.see(std::string(word) + "of tokens", on && repeats.token && a.q_len > 1);
  }
  reached.see("causal " + std::to_string(p.causal));
  reached.see("far offset", std::abs(p.causal_offset) > 1000);
  reached.see("left window", p.window_left != 0);
  reached.see("right window", p.window_right != 0);
  reached.see("both windows, causal",
              p.window_left != 0 && p.window_right != 0 && p.causal != RAPT_CAUSAL_NONE);
  reached.see("window chunk", p.window_chunk != 0);
  reached.see("ragged queries", !a.q_lengths.empty());
  reached.see("ragged keys", !a.kv_lengths.empty());
  reached.see("both ragged", !a.q_lengths.empty() && !a.kv_lengths.empty());
  reached.see("left padding", !a.kv_starts.empty());
  reached.see("left padding, chunks", !a.kv_starts.empty() && p.window_chunk != 0);
  reached.see("left padding, causal " + std::to_string(p.causal), !a.kv_starts.empty());
  reached.see("left padding and lengths", !a.kv_starts.empty() && !a.kv_lengths.empty());
  reached.see("queries of padding", !a.q_starts.empty());
  reached.see("no queries", a.q_len == 0);
  reached.see("no keys", a.kv_len == 0);
  reached.see("several tiles", a.q_len * a.q_heads_per_kv_head() > 64);
  reached.see("several blocks", a.kv_len > 64);
  reached.see("several chunks", a.kv_len > 512);
  reached.see("three chunks", a.kv_len > 1024);
  reached.see("several tiles and blocks", a.q_len * a.q_heads_per_kv_head() > 64 && a.kv_len > 64);
  reached.see("long dimensions", a.qk_dim > 512);
  reached.see("long dimensions of bytes", p.kv == RAPT_I8 && a.qk_dim > 512 && a.v_dim > 512 && a.kv_len > 0);
  reached.see("three segments of bytes", p.kv == RAPT_I8 && a.qk_dim > 1024 && a.kv_len > 0);
  reached.see("the largest sums of bytes", p.kv == RAPT_I8 && a.qk_dim > 514 && p.numbers == Numbers::equal &&
                                               a.kv_len > 0 && a.q_len > 0);
  for (const auto &[word, length, unit] :
       {std::tuple{"block", a.kv_len, std::size_t{64}}, std::tuple{"chunk", a.kv_len, std::size_t{512}},
        std::tuple{"tile", a.q_len * a.q_heads_per_kv_head(), std::size_t{64}}}) {
    const std::string name = std::string("whole ") + word + "s";
    reached.see(name, length > 0 && length % unit == 0);
    reached.see(name + " + 1", length > unit && length % unit == 1);
    reached.see(name + " - 1", length % unit == unit - 1);
  }
  reached.see("grouped heads", a.q_heads > a.kv_heads && a.kv_heads > 1);
}

void check_edges(const AttentionProblem &p, const AttentionMemory &memory, Stage stage, Reached &reached) {
  AttentionEdges edges(memory, stage, p.seed);
  CHECK(edges.fault_of_touching(reached) == "");
  CHECK(edges.fault_of_limit(reached) == "");
}

// Checks a merge of partial results with smaller reference scores, so weights are larger than usual.
void check_moved_references(const AttentionProblem &p, const Attention<double> &truth_of,
                            AttentionMemory &memory) {
  const AttentionResults moved =
      on_level(level_of_turn(p.seed), [&] { return memory.run(Way::split_keys, true); });
  CHECK(memory.faults() == "");
  std::string fault;
  RowKinds kinds;
  for_each_query(p.a, [&](std::size_t b, std::size_t h, std::size_t i) {
    // A changed reference score is rounded once more, and so is its distance to other reference scores.
    const AttentionTruth truth = attention_truth(truth_of, b, h, i);
    const double size = 16 + 4 * static_cast<double>(std::fabs(truth.score_terms) + std::fabs(truth.lse));
    keep(fault, fault_of_row(p, truth_of, moved, b, h, i, kinds, {size, size}), b, h, i);
  });
  CHECK(fault == "");
}

void check_forward(const AttentionProblem &p, Reached &reached) {
  RowKinds kinds;
  const Attention<double> truth_of = p.truth();
  AttentionMemory first(p, p.seed, false);
  const AttentionResults results = on_level("scalar", [&] { return first.run(Way::whole); });
  INFO(first.layout());
  CHECK(first.faults() == "");
  std::string fault;
  for_each_query(p.a, [&](std::size_t b, std::size_t h, std::size_t i) {
    keep(fault, fault_of_row(p, truth_of, results, b, h, i, kinds), b, h, i);
  });
  CHECK(fault == "");
  reached.see("finite rows", kinds.finite != 0);
  reached.see("empty rows", kinds.empty != 0);
  reached.see("rows of NaN", kinds.nan != 0);
  reached.see("values that are not finite", kinds.values != 0);
  // The second call has another layout and another way of calling, and sometimes writes in place.
  const Way way = static_cast<Way>(1 + p.seed % 3);
  AttentionMemory second(p, p.seed + 1000003, false, p.seed % 4 == 1);
  const std::string level = level_of_turn(p.seed);
  const AttentionResults again = on_level(level, [&] { return second.run(way); });
  INFO(level << " " << std::string(name_of(way)) << second.layout()
             << std::string(second.in_place() ? ", in place" : ""));
  CHECK(second.faults() == "");
  expect_equal(results, again, "another layout and way of calling");
  if (way == Way::split_keys) {
    Attention<double> without_sinks = truth_of;
    without_sinks.sinks.clear();
    const std::size_t chunks = (p.a.kv_len + 511) / 512;
    for_each_query(p.a, [&](std::size_t b, std::size_t h, std::size_t i) {
      for (std::size_t c = 0; c < chunks; ++c) {
        const double *numbers =
            second.partials().data() + (p.a.row({}, b, h, i) * chunks + c) * (p.a.v_dim + 2);
        keep(fault, fault_of_partial(p, without_sinks, numbers, b, h, i, c), b, h, i);
      }
    });
    CHECK(fault == "");
    const bool moves = p.seed % 2 == 0 && !second.in_place() && p.numbers != Numbers::specials;
    if (moves) check_moved_references(p, truth_of, second);
    reached.see("partial results with weights above 1", moves);
  }
  for (const std::string &layout : {first.layout(), second.layout()}) {
    for (const char *word : {"q_offsets", "page_size", "packed_keys"}) {
      reached.see(std::string("left padding with ") + word,
                  !p.a.kv_starts.empty() && layout.find(word) != std::string::npos);
    }
    for (const char *word : {"q_offsets", "kv_offsets", "page_size", "packed_keys", "key_lists",
                             "queries_per_list", "key_list_lengths", "key_lists without tokens"}) {
      reached.see(word, layout.find(word) != std::string::npos);
    }
    reached.see("packed bytes of several groups", p.kv == RAPT_I8 && p.a.scale_group != 0 &&
                                                      p.a.qk_dim > p.a.scale_group &&
                                                      layout.find("packed_keys") != std::string::npos);
    const bool packed = layout.find("packed_keys") != std::string::npos;
    reached.see("packed pages", packed && layout.find("page_size") != std::string::npos);
    reached.see("a packed block", packed && p.a.kv_len == 64);
    reached.see("packed blocks", packed && p.a.kv_len > 64 && p.a.kv_len % 64 == 0);
    reached.see("packed blocks + 1", packed && p.a.kv_len > 64 && p.a.kv_len % 64 == 1);
    reached.see("packed blocks - 1", packed && p.a.kv_len % 64 == 63);
  }
  reached.see("in place", second.in_place());
  reached.see(name_of(way));
  check_edges(p, first, static_cast<Stage>(p.seed % 3), reached);
  check_edges(p, second, static_cast<Stage>((p.seed + 1) % 3), reached);
  if (has_halves(p) && !p.in_bf16()) {
    const AttentionProblem wide = widened(p);
    AttentionResults as_f32 =
        on_level("scalar", [&] { return AttentionMemory(wide, p.seed, false).run(Way::whole); });
    as_f32.out = rounded(p.out, as_f32.out);
    expect_equal(results, as_f32, "f32 elements, rounded");
    reached.see("halves as f32");
  }
}

template <class T>
void check_gradient(const AttentionProblem &p, const char *array, const std::vector<Sum> &truth,
                    const std::vector<double> &got, rapt_type type) {
  if (got.empty()) return;
  REQUIRE(truth.size() == got.size());
  for (std::size_t i = 0; i < truth.size(); ++i) {
    if (truth[i].is_nan && !std::isnan(got[i])) FAIL_CHECK(fault(array, i, got[i], NAN));
    if (!truth[i].is_known) continue;
    const Real off = distance_as(type, got[i], truth[i].value);
    const bool is_negative_zero = type == p.number() && got[i] == 0 && std::signbit(got[i]);
    if (off <= gradient_bound<T>(truth[i]) && !is_negative_zero) continue;
    FAIL_CHECK(fault(array, i, got[i], truth[i].value));
    return;
  }
}

void check_backward(const AttentionProblem &p, Reached &reached) {
  const Attention<double> &a = p.a;
  // `out` and `lse` are rounded results of the forward call. Rows of NaN have any numbers in `out`. A shifted
  // log-sum-exp makes all weights larger, up to 1, or smaller.
  const bool shifts = p.seed % 3 == 0;
  const auto shift_of = [](std::size_t row) {
    return row % 4 == 0 ? 0.25 : -0.5 * static_cast<double>(row % 4);
  };
  std::vector<double> out(a.rows({}) * a.v_dim), lse(a.rows({}));
  for_each_query(a, [&](std::size_t b, std::size_t h, std::size_t i) {
    const AttentionTruth truth = attention_truth(a, b, h, i);
    const std::size_t row = a.row({}, b, h, i);
    for (std::size_t d = 0; d < a.v_dim; ++d) {
      out[row * a.v_dim + d] = oracle::rounded(p.out, static_cast<double>(truth.out[d]));
    }
    lse[row] = oracle::rounded(p.number(), static_cast<double>(truth.lse) + (shifts ? shift_of(row) : 0));
    if (truth.has_nan) lse[row] = NAN;
  });
  AttentionMemory first(p, p.seed + 7, true);
  const GradientResults results =
      on_level("scalar", [&] { return first.run_backward(Way::whole, out, lse); });
  INFO(first.layout());
  CHECK(first.faults() == "");
  // The bound holds only if the errors of the inputs are small.
  bool is_accurate = true;
  const auto units = [&](const RowTruth &row) {
    const RowUnits made = gradient_units(dim_with_softcap(p), a.v_dim)(row);
    is_accurate = is_accurate && made.weights * static_cast<Real>(unit_of_problem(p)) < 0x1p-8;
    return made;
  };
  GradientTruth truth = gradient_truth(a, p.dout, units, &out, &lse);
  bool sinks_fit = true;
  for (const double sink : a.sinks) {
    sinks_fit = sinks_fit && !is_beyond_range(p, sink) && (sink == -infinity || !is_beyond_range(p, -sink));
  }
  // A gradient of a score times the smallest scale is subnormal, and the bound does not include that error.
  is_accurate = is_accurate && sinks_fit && p.numbers != Numbers::small_scale;
  if (is_accurate) {
    const auto check = p.q == RAPT_F64 ? check_gradient<double> : check_gradient<float>;
    check(p, "dq", truth.dq, results.dq, p.gradient_of(p.q));
    check(p, "dk", truth.dk, results.dk, p.gradient_of(p.kv));
    check(p, "dv", truth.dv, results.dv, p.gradient_of(p.kv));
    check(p, "dbias", truth.dbias, results.dbias, p.number());
    check(p, "dsinks", truth.dsinks, results.dsinks, p.number());
  }
  const Way way = p.seed % 2 == 0 ? Way::tasks : Way::one_by_one;
  AttentionMemory second(p, p.seed + 2000003, true);
  const std::string level = level_of_turn(p.seed);
  const GradientResults again = on_level(level, [&] { return second.run_backward(way, out, lse); });
  INFO(level << " " << std::string(name_of(way)) << second.layout());
  CHECK(second.faults() == "");
  expect_equal(results, again, "another layout and way of calling");
  check_edges(p, first, Stage::backward, reached);
  reached.see("accurate gradients", truth.is_finite && is_accurate);
  reached.see("accurate gradients of another log-sum-exp", truth.is_finite && is_accurate && shifts);
  reached.see("accurate gradients next to others that are not finite", !truth.is_finite && is_accurate);
  reached.see("dbias", !results.dbias.empty());
  reached.see("dbias of a batch, ragged keys, tasks",
              !again.dbias.empty() && second.dbias_joins_batches && !a.kv_lengths.empty() && a.kv_len > 64);
  reached.see("dbias of a batch with left padding",
              !again.dbias.empty() && second.dbias_joins_batches && !a.kv_starts.empty());
  reached.see("dbias of heads", !again.dbias.empty() && second.dbias_joins_heads);
  reached.see("dsinks", !results.dsinks.empty());
  reached.see("dsinks of NaN", std::any_of(truth.dsinks.begin(), truth.dsinks.end(),
                                           [](const Sum &sum) { return sum.is_nan; }));
  reached.see("gradients of 16 bits", p.gradient_of(p.q) != p.number());
  if (has_halves(p)) {
    GradientResults as_f32 = on_level("scalar", [&] {
      return AttentionMemory(widened(p), p.seed, true).run_backward(Way::whole, out, lse);
    });
    as_f32.dq = rounded(p.gradient_of(p.q), as_f32.dq);
    as_f32.dk = rounded(p.gradient_of(p.kv), as_f32.dk);
    as_f32.dv = rounded(p.gradient_of(p.kv), as_f32.dv);
    expect_equal(results, as_f32, "the gradient of f32 elements, rounded");
    reached.see("the gradient of halves as f32");
  }
}

}  // namespace

TEST_CASE("drawn calls of attention and its gradient") {
  catch_faults([](char *text, std::size_t size) { std::snprintf(text, size, "%s", running.c_str()); });
  const char *only = std::getenv("RAPT_ORACLE_CASE");
  const char *count_given = std::getenv("RAPT_ORACLE_CASES");
  const std::size_t count =
      count_given ? std::strtoul(count_given, nullptr, 10) : native_or_emulated<std::size_t>(1500, 60);
  Reached reached;
  AttentionEdges::expect_arrays(reached);
  AttentionEdges::expect_limits(reached);
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const AttentionProblem problem = draw_attention(only ? std::strtoull(only, nullptr, 10) : seed);
    INFO(problem.text());
    running = problem.text();
    see_problem(problem, reached);
    check_forward(problem, reached);
    if (problem.has_gradient()) check_backward(problem, reached);
    if (only) return;
  }
  if (count_given || emulated()) return;
  reached.print();
  reached.expect_all();
}

// The memory of k is directly before or after the packed keys.
TEST_CASE("drawn calls of pack_keys") {
  Reached reached;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    constexpr rapt_type types[] = {RAPT_F32, RAPT_F64, RAPT_F16, RAPT_BF16, RAPT_I8};
    const rapt_type type = types[random.below(5)];
    const auto length = [&] {
      return random.one_in(2) ? random.below(150) : 64 * random.below(3) + random.below(3);
    };
    const std::size_t dim = 1 + random.below(9), first = length(), tokens = length(), end = first + tokens;
    const std::size_t size = size_of(type), step = dim + random.below(4);
    const std::size_t blocks = (end + 63) / 64;
    const bool repeats = random.one_in(4), before = random.one_in(2);
    const std::size_t packed_bytes = blocks * 64 * dim * size,
                      k_bytes = tokens == 0 ? 0 : ((repeats ? 0 : tokens - 1) * step + dim) * size;
    const GuardedBuffer memory(packed_bytes + k_bytes,
                               random.one_in(2) ? Placement::ends_at_guard : Placement::begins_at_guard, 0);
    unsigned char *const k = static_cast<unsigned char *>(memory.data()) + (before ? 0 : packed_bytes),
                         *const packed = static_cast<unsigned char *>(memory.data()) + (before ? k_bytes : 0);
    for (std::size_t t = 0; t < (repeats ? std::min<std::size_t>(tokens, 1) : tokens); ++t) {
      for (std::size_t d = 0; d < dim; ++d)
        set_number(type, k, t * step + d, static_cast<double>(1 + random.below(100)));
    }
    rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
    o.q_type = type == RAPT_I8 ? RAPT_F32 : type;
    o.kv_type = type;
    o.qk_dim = dim;
    const std::ptrdiff_t stride = repeats                           ? RAPT_REPEAT
                                  : step == dim && random.one_in(2) ? 0
                                                                    : static_cast<std::ptrdiff_t>(step);
    if (tokens > 0) {
      const std::vector<unsigned char> image(k, k + k_bytes);
      const std::size_t shared = random.one_in(2) ? 1 : size;
      CHECK(rapt_attention_pack_keys(before ? k + shared : k - shared, stride, first, tokens, &o, packed) ==
            RAPT_BAD_OVERLAP);
      CHECK(std::equal(image.begin(), image.end(), k));
      CHECK(is_canary(packed, packed_bytes));
    }
    CHECK(rapt_attention_pack_keys(k, stride, first, tokens, &o, packed) == RAPT_OK);
    reached.see("a block", tokens > 0 && end == 64);
    reached.see("blocks", tokens > 0 && end > 64 && end % 64 == 0);
    reached.see("blocks + 1", tokens > 0 && end % 64 == 1);
    reached.see("blocks - 1", tokens > 0 && end % 64 == 63);
    reached.see("from a block", tokens > 0 && first > 0 && first % 64 == 0);
    bool fine = true;
    for (std::size_t t = 0; t < tokens; ++t) {
      for (std::size_t d = 0; d < dim; ++d) {
        const std::size_t key = first + t, at = key / 64 * 64 * dim + d * 64 + key % 64;
        fine = fine && number_at(type, packed, at) == number_at(type, k, (repeats ? 0 : t) * step + d);
        std::memset(packed + at * size, canary, size);
      }
    }
    CHECK(fine);
    CHECK(is_canary(packed, packed_bytes));
    CHECK(memory.surroundings_intact());
  }
  reached.expect_all();
}

// The end of the packed keys is rounded up to a whole block, which must fit in memory too.
TEST_CASE("places of packed keys that no memory has") {
  rapt_attention_options o = RAPT_ATTENTION_OPTIONS_INIT;
  o.qk_dim = 2;
  float k[4] = {1, 2, 3, 4}, packed[128] = {};
  const auto pack = [&](std::size_t first, std::size_t tokens) {
    return rapt_attention_pack_keys(k, 0, first, tokens, &o, packed);
  };
  for (const std::size_t first : {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 2, SIZE_MAX - 10, SIZE_MAX - 64,
                                  SIZE_MAX - 66, SIZE_MAX / 2, SIZE_MAX / 16, std::size_t{PTRDIFF_MAX} / 8}) {
    CAPTURE(first);
    CHECK(pack(first, 1) == RAPT_BAD_SIZE);
    CHECK(pack(first, 2) == RAPT_BAD_SIZE);
  }
  CHECK(std::all_of(std::begin(packed), std::end(packed), [](float x) { return x == 0; }));
  CHECK(rapt_attention_pack_keys(packed, 0, 0, 2, &o, packed) == RAPT_BAD_OVERLAP);
  CHECK(rapt_attention_pack_keys(packed + 126, 0, 0, 1, &o, packed) ==
        RAPT_BAD_OVERLAP);  // in the padding of the last block
  CHECK(std::all_of(std::begin(packed), std::end(packed), [](float x) { return x == 0; }));
}
