// What one call computes (Problem), where its memory lies (Layout), and what came out (Outcome).
// A kernel's outcome is a function of the problem alone: neither the layout nor the level may show in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/fp_state.hpp"
#include "support/guarded_buffer.hpp"
#include "support/inputs.hpp"

namespace rapt::test {

enum class PerRow { none, one_for_all, each };

// Softmax options; their values are drawn from the problem's seed.
struct RowOptions {
  bool null = false;  // pass no options at all
  double softcap = 0;
  PerRow bias = PerRow::none;
  bool bias_excludes = false;  // -inf here and there in the bias
  PerRow mask = PerRow::none;
  bool row_lengths = false;
  bool causal = false;
  std::ptrdiff_t causal_offset = 0;
  bool sinks = false;
  bool special_sinks = false;  // +-inf and NaN among the sinks
  bool empty_rows_are_zero = false;
  bool scale_f64 = false;  // the scale travels in scale_f64
};

struct Problem {
  std::size_t rows = 1;
  std::size_t cols = 0;  // the length of a vector; the dimension of dot_rows
  InputClass input = InputClass::gaussian;
  std::uint64_t seed = 1;
  double scale = 1;
  double shift = 0;       // exp_sum
  bool same_row = false;  // dot_rows: all rows are the first one, as a row stride of 0 makes them
  RowOptions options;
  std::size_t first_row = 0;  // with row_count: only these rows of the problem are passed to the function
  std::size_t row_count = SIZE_MAX;
};

enum class Alias { none, first_input, second_input };

struct Layout {
  Placement placement = Placement::ends_at_guard;
  std::array<std::size_t, 3> offset{};  // bytes, multiples of the element size: inputs, then the output
  std::array<std::ptrdiff_t, 3> gap{};  // elements between rows, likewise; bias and mask take the first
  Alias alias = Alias::none;            // the output is this input
  bool reversed = false;                // dot_rows: a negative row stride
  std::optional<FpState> fp_state;      // the calling thread's floating-point control
};

struct Outcome {
  std::vector<std::uint64_t> bits;  // of every output element, then of a returned value; NaN canonicalised
  std::string fault;                // empty, or what the call did that no call may do
};

// No options, and then each of them by itself.
std::vector<RowOptions> each_option_alone();

std::string describe(const Problem &problem);
std::string describe(const Layout &layout);

}  // namespace rapt::test
