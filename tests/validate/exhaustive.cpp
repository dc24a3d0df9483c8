#include "validate/exhaustive.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

#include "oracle/bounds.hpp"
#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/isa.hpp"
#include "validate/crash.hpp"

namespace rapt::validate {
namespace {

using namespace rapt::test;

// Returns the error of y as exp(x), in units in the last place of f32 (2^-149 for subnormal results). It
// compares y with std::exp in double, whose own error is about 2^-29 of that unit. The error is infinite if y
// is a wrong infinity, zero or NaN.
double exp_error(float x, float y) {
  constexpr double wrong = std::numeric_limits<double>::infinity();
  if (std::isnan(x)) return std::isnan(y) ? 0 : wrong;
  if (std::isnan(y) || std::signbit(y)) return wrong;
  if (x >= 0x1.62e43p6f) return std::isinf(y) ? 0 : wrong;  // exp(x) rounds beyond the largest float
  if (x < -103.98f) return y == 0.0f ? 0 : wrong;
  if (std::isinf(y)) return wrong;
  // Saves time: two fifths of all floats are below 2^-17, where this series has an error below 2^-53.
  const double exact =
      std::fabs(x) < 0x1p-17f ? 1.0 + (double{x} + 0.5 * double{x} * double{x}) : std::exp(double{x});
  const auto exponent = static_cast<int>(bits_of(exact) >> 52) - 1023;
  const double ulps_per_one = from_bits<double>(std::uint64_t(1023 - std::max(exponent - 23, -149)) << 52);
  return std::fabs(double{y} - exact) * ulps_per_one;
}

// Returns the relative error of y as tanh(x), in units of 2^-24.
double tanh_error(float x, float y) {
  const double exact = std::tanh(double{x});
  const double error = std::fabs(double{y} - exact) / std::fabs(exact) * 0x1p24;
  return error >= 0 ? error : std::numeric_limits<double>::infinity();
}

// With a single key, attention's log-sum-exp is the score. With q = x, k = 1 and a softcap of 1, the score is
// tanh(x).
void tanh_by_attention(const float *x, float *y, std::size_t n) {
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  options.batch = options.q_heads = options.kv_len = options.qk_dim = 1;
  options.q_len = n;
  options.scale = options.softcap = 1;
  options.lse = y;
  const float one = 1;
  std::vector<float> out(n);
  std::size_t bytes = 0;
  rapt_status status = rapt_attention_workspace(&options, &bytes);
  std::vector<unsigned char> workspace(bytes);
  if (status == RAPT_OK)
    status = rapt_attention(x, &one, &one, out.data(), &options, workspace.data(), bytes);
  if (status != RAPT_OK) std::fill_n(y, n, std::numeric_limits<float>::quiet_NaN());
}

// Holds the floats with `count` consecutive bit patterns from `first` on. If `negative` is set, the same
// floats follow with the sign bit.
struct Inputs {
  std::uint32_t first;
  std::uint64_t count;
  bool negative;

  std::uint64_t size() const { return negative ? 2 * count : count; }
  float operator[](std::uint64_t i) const {
    const std::uint32_t sign = i < count ? 0 : 1u << 31;
    return from_bits<float>((first + static_cast<std::uint32_t>(i % count)) | sign);
  }
};

struct Function {
  const char *name;
  void (*evaluate)(const float *x, float *y, std::size_t n);
  double (*error)(float x, float y);
  const char *unit;
  double bound;
  Inputs inputs;
};

constexpr Function exp_function = {"exp_f32", rapt_exp_f32,  exp_error,
                                   "ULP",     exp_f32_bound, {0, std::uint64_t{1} << 32, false}};
const Function tanh_function = {"tanh of a softcap in f32",
                                tanh_by_attention,
                                tanh_error,
                                "2^-24 relative",
                                3,
                                {bits_of(0x1p-26f), bits_of(10.0f) - bits_of(0x1p-26f), true}};

// Calls body(begin, end) on one thread per core, with ranges that cover [0, count).
template <class Body>
void in_parallel(std::size_t count, Body &&body) {
  const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 64);
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < threads; ++t) {
    others.emplace_back([&, t] { body(count * t / threads, count * (t + 1) / threads); });
  }
  body(0, count / threads);
  for (std::thread &other : others) other.join();
}

class Sweep {
 public:
  static constexpr std::size_t round_size = std::size_t{1} << 22;

  Sweep(const Function &function, const std::vector<std::string> &isas, std::uint64_t stride)
      : function_(function), stride_(stride) {
    const auto add = [&](const std::string &isa) {
      results_.push_back(
          {.function = function.name, .isa = isa, .unit = function.unit, .bound = function.bound});
    };
    add("scalar");
    for (const std::string &isa : isas) {
      if (isa != "scalar") add(isa);
    }
  }

  // Checks `count` inputs, beginning with number `begin`. Only every stride_-th input has a number.
  void run_round(std::uint64_t begin, std::size_t count) {
    for (ExhaustiveResult &result : results_) {
      note_running(result.function + " on " + result.isa + ", inputs from " +
                   hex(bits_of(function_.inputs[begin * stride_]), 4) + " on");
      const ForcedIsa forced(result.isa);
      const bool is_reference = &result == &results_.front();
      in_parallel(count, [&](std::size_t first, std::size_t last) {
        is_reference ? make_reference(begin, first, last) : compare(result, first, last);
      });
      result.inputs += count;
    }
  }

  // compare() measures only inputs that mismatch. All other inputs have the errors of the scalar level.
  std::vector<ExhaustiveResult> results() {
    for (ExhaustiveResult &result : results_) {
      if (result.worst_error >= results_.front().worst_error) continue;
      result.worst_error = results_.front().worst_error;
      result.worst_input = results_.front().worst_input;
    }
    return results_;
  }

 private:
  static constexpr std::size_t call_size = 4096;  // inputs and results stay in the cache

  void see(ExhaustiveResult &result, double error, float input) {
    if (!(error <= result.worst_error)) result.worst_error = error, result.worst_input = input;
  }

  void make_reference(std::uint64_t begin, std::size_t first, std::size_t last) {
    ExhaustiveResult own;
    for (std::size_t at = first; at < last; at += call_size) {
      const std::size_t n = std::min(call_size, last - at);
      for (std::size_t i = at; i < at + n; ++i) x_[i] = function_.inputs[(begin + i) * stride_];
      function_.evaluate(x_.data() + at, expected_.data() + at, n);
      for (std::size_t i = at; i < at + n; ++i) see(own, function_.error(x_[i], expected_[i]), x_[i]);
    }
    const std::lock_guard lock(mutex_);
    see(results_.front(), own.worst_error, own.worst_input);
  }

  void compare(ExhaustiveResult &result, std::size_t first, std::size_t last) {
    ExhaustiveResult own;
    float y[call_size];
    for (std::size_t at = first; at < last; at += call_size) {
      const std::size_t n = std::min(call_size, last - at);
      function_.evaluate(x_.data() + at, y, n);
      for (std::size_t i = 0; i < n; ++i) {
        if (same_bits(y[i], expected_[at + i])) continue;
        if (own.mismatches++ == 0) {
          own.first_mismatch = bits_of(x_[at + i]);
          own.got = bits_of(y[i]);
          own.expected = bits_of(expected_[at + i]);
        }
        see(own, function_.error(x_[at + i], y[i]), x_[at + i]);
      }
    }
    const std::lock_guard lock(mutex_);
    if (result.mismatches == 0 && own.mismatches != 0) {
      result.first_mismatch = own.first_mismatch;
      result.got = own.got;
      result.expected = own.expected;
    }
    result.mismatches += own.mismatches;
    see(result, own.worst_error, own.worst_input);
  }

  const Function &function_;
  std::uint64_t stride_;
  std::vector<float> x_ = std::vector<float>(round_size), expected_ = std::vector<float>(round_size);
  std::vector<ExhaustiveResult> results_;
  std::mutex mutex_;
};

std::vector<ExhaustiveResult> check(const Function &function, const std::vector<std::string> &isas,
                                    std::uint64_t stride, const OnInputs &progress) {
  const std::uint64_t inputs = (function.inputs.size() + stride - 1) / stride;
  Sweep sweep(function, isas, stride);
  for (std::uint64_t begin = 0; begin < inputs; begin += Sweep::round_size) {
    progress(begin, inputs);
    sweep.run_round(begin, std::min<std::uint64_t>(Sweep::round_size, inputs - begin));
  }
  return sweep.results();
}

}  // namespace

std::vector<ExhaustiveResult> check_exp_exhaustively(const std::vector<std::string> &isas,
                                                     std::uint64_t stride, const OnInputs &progress) {
  return check(exp_function, isas, stride, progress);
}

std::vector<ExhaustiveResult> check_tanh_exhaustively(const std::vector<std::string> &isas,
                                                      std::uint64_t stride, const OnInputs &progress) {
  return check(tanh_function, isas, stride, progress);
}

}  // namespace rapt::validate
