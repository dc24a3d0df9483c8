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
};

// What attention has besides: rows are a sequence's queries and columns its keys. Of the options above it
// takes softcap, bias, mask, causal, sinks, and row_lengths as the number of a sequence's keys. A scale of 0
// is 1/sqrt(qk_dim).
struct AttentionOptions {
  std::size_t batch = 1, kv_heads = 1, group = 1, qk_dim = 8, v_dim = 8;
  bool ragged_queries = false;  // sequences of up to `rows` queries
  bool query_scales = false;
  bool alibi = false;
  bool bottom_right = false;  // causal without an offset
  std::ptrdiff_t window_left = -1, window_right = -1;
  std::size_t window_chunk = 0;
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
  AttentionOptions attention;
  std::size_t first_row = 0;  // with row_count: only these rows of the problem are passed to the function
  std::size_t row_count = SIZE_MAX;
};

enum class Alias { none, first_input, second_input };

// How attention's work is cut into calls.
enum class Calls {
  whole,
  task_by_task,    // the last task first
  task_ranges,     // of random lengths
  split_keys,      // partial results and their merge, task by task
  by_sequence,     // a call for each item of the batch
  query_by_query,  // as tokens are decoded
};
inline constexpr std::size_t calls_count = 6;

// Where attention's memory lies.
struct AttentionLayout {
  bool tokens_outside = false;  // [batch][token][head][dim] instead of [batch][head][token][dim]
  bool fused = false;           // q, k and v are slices of one buffer; only if nothing below is set
  std::size_t page_size = 0;    // 0: no pages
  bool packed_keys = false;
  bool q_offsets = false;       // sequences behind each other; always so where they are ragged
  bool kv_offsets = false;      // likewise; only without pages and packed keys
  bool repeated_heads = false;  // a key/value head for each query head
  Calls calls = Calls::whole;
};

struct Layout {
  Placement placement = Placement::ends_at_guard;
  std::array<std::size_t, 3> offset{};  // bytes, multiples of the element size: inputs, then the output
  std::array<std::ptrdiff_t, 3> gap{};  // elements between rows, likewise; bias and mask take the first
  Alias alias = Alias::none;            // the output is this input
  bool reversed = false;                // dot_rows: a negative row stride
  AttentionLayout attention;
  std::optional<FpState> fp_state;  // the calling thread's floating-point control
};

struct Outcome {
  std::vector<std::uint64_t> bits;  // of every output element, then of a returned value; NaN canonicalised
  std::string fault;                // empty, or what the call did that no call may do
};

// No options, and then each of them by itself.
std::vector<RowOptions> each_option_alone();

const char *name_of(Calls calls);
std::string describe(const Problem &problem);
std::string describe(const Layout &layout);

}  // namespace rapt::test
